//! ChaCha20-Poly1305 (RFC 8439 section 2.8) in pieces.

use std::sync::OnceLock;

use strongroom_engine::Tag;
use zeroize::Zeroizing;

use super::aead::{Message, Suite, TooLong};
use super::masks::{MANY, Source};
use crate::authenticator::{Authenticator, SumsOfThisCpu};
use crate::chacha20_poly1305::ChaCha20Poly1305 as Kernels;
use crate::kernel::Block;

/// Bytes encrypted before they are hashed, so that they are still in the
/// nearest cache.
const AT_ONCE: usize = 8192;

fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(Kernels::of_this_cpu)
}

/// The state of one message.
struct State {
    key: Zeroizing<[u8; 32]>,
    nonce: [u8; 12],
    /// None before the one-time key is known.
    authenticator: Option<Authenticator<SumsOfThisCpu>>,
}

impl Clone for State {
    fn clone(&self) -> State {
        let authenticator = self.authenticator.as_ref().map(Authenticator::fork);
        State { key: self.key.clone(), nonce: self.nonce, authenticator }
    }
}

impl State {
    fn apply(&self, place: u64, data: &mut [u8]) {
        kernels().xor(&self.key, &self.nonce, (place / 64) as u32, data);
    }

    fn authenticator(&mut self) -> &mut Authenticator<SumsOfThisCpu> {
        self.authenticator.as_mut().expect("the message has begun")
    }
}

impl Source for State {
    const UNIT: usize = 64;
    const FEW: usize = 256;

    fn fill(&self, place: u64, masks: &mut [u8; MANY], len: usize) {
        masks[..len].fill(0);
        self.apply(place, &mut masks[..len]);
    }
}

impl Suite for State {
    /// 2^32 - 1 blocks.
    const LEN_MAX: u64 = (1 << 38) - 64;

    fn begin(&mut self, head: &[u8]) {
        let key = head[..32].try_into().expect("32 of the bytes");
        self.authenticator = Some(Authenticator::in_pieces(SumsOfThisCpu::detect(), key));
    }

    fn seal(&mut self, place: u64, strides: &mut [u8]) {
        for (at, part) in strides.chunks_mut(AT_ONCE).enumerate() {
            self.apply(place + (at * AT_ONCE) as u64, part);
            self.authenticator().add(part);
        }
    }

    fn open(&mut self, place: u64, strides: &mut [u8]) {
        for (at, part) in strides.chunks_mut(AT_ONCE).enumerate() {
            self.authenticator().add(part);
            self.apply(place + (at * AT_ONCE) as u64, part);
        }
    }

    fn absorb(&mut self, blocks: &[Block]) {
        self.authenticator().add(blocks.as_flattened());
    }

    fn tag(&mut self, blocks: &mut [Block], ad_len: u64, data_len: u64) -> Tag {
        let (_, blocks) = blocks.split_last().expect("there is room");
        self.absorb(blocks);
        self.authenticator().fork().tag(ad_len as usize, data_len as usize)
    }
}

/// A message of ChaCha20-Poly1305. A clone goes on by itself.
#[derive(Clone)]
pub struct ChaCha20Poly1305(Message<State>);

impl ChaCha20Poly1305 {
    /// Begins a message under a nonce that no other one under the key may have.
    #[must_use]
    pub fn new(key: &[u8; 32], nonce: &[u8; 12]) -> ChaCha20Poly1305 {
        let state = State { key: Zeroizing::new(*key), nonce: *nonce, authenticator: None };
        ChaCha20Poly1305(Message::new(state))
    }

    /// Begins another message under the same key.
    pub fn restart(&mut self, nonce: &[u8; 12]) {
        self.0.restart(|state| (state.nonce, state.authenticator) = (*nonce, None));
    }

    /// Adds associated data; none may come behind data.
    pub fn associate(&mut self, bytes: &[u8]) {
        self.0.associate(bytes);
    }

    /// Encrypts the next bytes in place.
    ///
    /// # Errors
    /// [`TooLong`] above 2^38 - 64 bytes; nothing was changed.
    pub fn seal(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.0.seal(data)
    }

    /// Decrypts the next bytes in place, before their tag is known to be right.
    ///
    /// # Errors
    /// As [`ChaCha20Poly1305::seal`].
    pub fn open(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.0.open(data)
    }

    /// The tag of everything so far. The message is at its end.
    pub fn tag(&mut self) -> Tag {
        self.0.tag()
    }
}
