//! A message of an authenticated cipher in pieces. What a suite makes of whole
//! strides it does at once; shorter pieces take keystream that was made ahead,
//! and their ciphertext waits to be hashed together.

use strongroom_engine::Tag;
use zeroize::Zeroize;

use super::masks::{MANY, Masks, Source, xor};
use crate::kernel::Block;

/// Bytes that a suite takes at once, and multiples of them.
pub(crate) const STRIDE: usize = 512;

/// Bytes that wait to be hashed, at most.
const WAITING: usize = 512;

/// The message would be longer than its cipher allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the message is longer than its cipher allows")
    }
}

impl std::error::Error for TooLong {}

/// A cipher with the hash of one message. Its keystream begins with one unit,
/// the head, that is not for data.
pub(super) trait Suite: Source {
    /// Most bytes of a message.
    const LEN_MAX: u64;

    /// Takes the first unit of the keystream.
    fn begin(&mut self, head: &[u8]);

    /// Encrypts whole strides with the keystream from `place` on, and hashes
    /// the ciphertext.
    fn seal(&mut self, place: u64, strides: &mut [u8]);

    /// Hashes whole strides of ciphertext and decrypts them.
    fn open(&mut self, place: u64, strides: &mut [u8]);

    /// Hashes whole blocks.
    fn absorb(&mut self, blocks: &[Block]);

    /// The tag, once the first ones of these blocks have been hashed, and the
    /// lengths, in bytes, for which there is room in the last one.
    fn tag(&mut self, blocks: &mut [Block], ad_len: u64, data_len: u64) -> Tag;
}

/// A message that is being sealed or opened.
#[derive(Clone)]
pub(super) struct Message<S> {
    suite: S,
    masks: Masks,
    /// Associated data or ciphertext: no secret.
    waiting: [u8; WAITING + 16],
    waiting_len: usize,
    ad_len: u64,
    data_len: u64,
    /// The suite has the head.
    has_begun: bool,
}

impl<S: Suite> Message<S> {
    pub(super) fn new(suite: S) -> Message<S> {
        Message {
            suite,
            masks: Masks::new(),
            waiting: [0; WAITING + 16],
            waiting_len: 0,
            ad_len: 0,
            data_len: 0,
            has_begun: false,
        }
    }

    /// Begins another message, for which `change` prepares the suite.
    pub(super) fn restart(&mut self, change: impl FnOnce(&mut S)) {
        self.masks.forget();
        (self.waiting_len, self.ad_len, self.data_len, self.has_begun) = (0, 0, 0, false);
        change(&mut self.suite);
    }

    #[cfg(test)]
    pub(super) fn pretend_len(&mut self, len: u64) {
        self.begin();
        self.data_len = len;
    }

    /// Hands the suite the head, if it has not got it.
    #[inline]
    fn begin(&mut self) {
        if !self.has_begun {
            let masks = self.masks.at(0, S::UNIT, &self.suite);
            let mut head = [0; 64];
            head[..S::UNIT].copy_from_slice(&masks[..S::UNIT]);
            self.suite.begin(&head[..S::UNIT]);
            head.zeroize();
            self.has_begun = true;
        }
    }

    /// Hashes these bytes, some of them later.
    #[inline]
    fn hash(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = rest.len().min(WAITING - self.waiting_len);
            self.waiting[self.waiting_len..self.waiting_len + len].copy_from_slice(&rest[..len]);
            self.waiting_len += len;
            rest = &rest[len..];
            if self.waiting_len == WAITING {
                self.hash_waiting();
            }
        }
    }

    /// Hashes what waits, zeros behind its last block.
    fn hash_waiting(&mut self) {
        let len = self.waiting_len.next_multiple_of(16);
        self.waiting[self.waiting_len..len].fill(0);
        self.suite.absorb(self.waiting[..len].as_chunks().0);
        self.waiting_len = 0;
    }

    /// Puts zeros behind the last block that waits.
    #[inline]
    fn pad(&mut self) {
        let len = self.waiting_len.next_multiple_of(16);
        self.waiting[self.waiting_len..len].fill(0);
        self.waiting_len = len;
        if len == WAITING {
            self.hash_waiting();
        }
    }

    /// Adds associated data; none may come behind data.
    pub(super) fn associate(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.data_len, 0, "associated data comes first");
        self.begin();
        self.ad_len += bytes.len() as u64;
        self.hash(bytes);
    }

    /// Encrypts the next bytes in place.
    ///
    /// # Errors
    /// [`TooLong`]; nothing was changed.
    pub(super) fn seal(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.process::<true>(data)
    }

    /// Decrypts the next bytes in place, before their tag is known to be right.
    ///
    /// # Errors
    /// [`TooLong`]; nothing was changed.
    pub(super) fn open(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.process::<false>(data)
    }

    #[inline]
    fn process<const SEAL: bool>(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        if S::LEN_MAX - self.data_len < data.len() as u64 {
            return Err(TooLong);
        }
        if self.data_len == 0 {
            self.begin();
            self.pad();
        }
        let mut rest = data;
        while !rest.is_empty() {
            let place = S::UNIT as u64 + self.data_len;
            let in_unit = (place % S::UNIT as u64) as usize;
            let len = if rest.len() >= STRIDE && in_unit == 0 {
                // Whole blocks wait, as whole blocks came before.
                if self.waiting_len > 0 {
                    self.hash_waiting();
                }
                let len = rest.len() / STRIDE * STRIDE;
                match SEAL {
                    true => self.suite.seal(place, &mut rest[..len]),
                    false => self.suite.open(place, &mut rest[..len]),
                }
                len
            } else {
                let wanted = if rest.len() < STRIDE { rest.len() } else { S::UNIT - in_unit };
                let masks = self.masks.at(place, wanted, &self.suite);
                let len = masks.len().min(wanted);
                // The loop that hashes borrows all of this.
                let (now, masks) = (&mut rest[..len], &masks[..len]);
                match SEAL {
                    true => {
                        xor(now, masks);
                        self.hash(now);
                    }
                    false => {
                        let mut ciphertext = [0; MANY];
                        ciphertext[..len].copy_from_slice(now);
                        xor(now, masks);
                        self.hash(&ciphertext[..len]);
                    }
                }
                len
            };
            self.data_len += len as u64;
            rest = &mut rest[len..];
        }
        Ok(())
    }

    /// The tag of everything so far. The message is at its end.
    pub(super) fn tag(&mut self) -> Tag {
        self.begin();
        let len = self.waiting_len.next_multiple_of(16);
        self.waiting[self.waiting_len..len].fill(0);
        self.waiting_len = 0;
        let blocks = self.waiting[..len + 16].as_chunks_mut().0;
        self.suite.tag(blocks, self.ad_len, self.data_len)
    }
}
