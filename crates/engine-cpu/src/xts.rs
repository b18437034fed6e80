//! AES-XTS for sectors (IEEE 1619) through AWS-LC.
//!
//! AWS-LC has XTS for AES-256 alone; for AES-128 its ECB mode does the blocks
//! and the tweaks are computed here. Its contexts are changed by use, so each
//! segment borrows one from a small pool and gives it back.

use std::sync::{Mutex, PoisonError};

use strongroom_engine::{Operation, SectorIv};
use zeroize::Zeroizing;

use crate::low::{BlockMode, CipherContext, Direction};
use crate::process::{SectorCipher, SectorSegment};

/// A key for AES-XTS.
pub(crate) struct Xts {
    iv: SectorIv,
    key: Zeroizing<Vec<u8>>,
    encrypting: Mutex<Vec<Context>>,
    decrypting: Mutex<Vec<Context>>,
}

/// What one thread needs to work in one direction.
enum Context {
    Aes256(CipherContext),
    Aes128 { data: CipherContext, tweak: CipherContext },
}

/// A borrowed [`Context`], given back on drop.
struct Borrowed<'a> {
    context: Option<Context>,
    home: &'a Mutex<Vec<Context>>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).extend(self.context.take());
    }
}

impl Xts {
    /// `None` unless the key has 32 or 64 bytes and two different halves,
    /// which XTS needs to be secure, and the IV needs no other cipher.
    pub(crate) fn new(iv: SectorIv, key: &[u8]) -> Option<Xts> {
        let halves_differ = key[..key.len() / 2] != key[key.len() / 2..];
        if !matches!(key.len(), 32 | 64) || !halves_differ || iv == SectorIv::EssivSha256 {
            return None;
        }
        let key = Zeroizing::new(key.to_vec());
        let first = |direction| Mutex::new(vec![Context::new(&key, direction)]);
        let (encrypting, decrypting) = (first(Direction::Encrypt), first(Direction::Decrypt));
        Some(Xts { iv, key, encrypting, decrypting })
    }

    fn borrow(&self, operation: Operation) -> Borrowed<'_> {
        let (home, direction) = match operation {
            Operation::EncryptSectors => (&self.encrypting, Direction::Encrypt),
            _ => (&self.decrypting, Direction::Decrypt),
        };
        let idle = home.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { context: idle.or_else(|| Some(Context::new(&self.key, direction))), home }
    }
}

impl Context {
    fn new(key: &[u8], direction: Direction) -> Context {
        if key.len() == 64 {
            return Context::Aes256(CipherContext::new(BlockMode::Aes256Xts, key, direction));
        }
        let (data, tweak) = key.split_at(16);
        Context::Aes128 {
            data: CipherContext::new(BlockMode::Aes128Ecb, data, direction),
            tweak: CipherContext::new(BlockMode::Aes128Ecb, tweak, Direction::Encrypt),
        }
    }

    fn sector(&mut self, mut tweak: [u8; 16], sector: &mut [u8]) {
        match self {
            Context::Aes256(cipher) => {
                cipher.set_tweak(&tweak);
                cipher.apply(sector);
            }
            Context::Aes128 { data, tweak: tweak_cipher } => {
                tweak_cipher.apply(&mut tweak);
                let tweak = u128::from_le_bytes(tweak);
                xor_tweaks(tweak, sector);
                data.apply(sector);
                xor_tweaks(tweak, sector);
            }
        }
    }
}

/// XORs the tweak of each block onto it: the first doubled block by block in
/// GF(2^128), the least significant byte first.
fn xor_tweaks(mut tweak: u128, sector: &mut [u8]) {
    let (blocks, _) = sector.as_chunks_mut::<16>();
    for block in blocks {
        *block = (u128::from_le_bytes(*block) ^ tweak).to_le_bytes();
        tweak = (tweak << 1) ^ ((tweak >> 127) * 0x87);
    }
}

impl SectorCipher for Xts {
    fn sectors(&self, operation: Operation, segment: SectorSegment<'_>) {
        let mut borrowed = self.borrow(operation);
        let context = borrowed.context.as_mut().expect("held until dropped");
        for (index, sector) in segment.data.chunks_exact_mut(segment.sector_len).enumerate() {
            context.sector(self.iv.number_block(segment.numbers.at(index)), sector);
        }
    }
}
