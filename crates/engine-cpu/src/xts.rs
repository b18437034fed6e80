//! AES-XTS for sectors (IEEE 1619) with the little-endian sector number as
//! tweak.
//!
//! AWS-LC has XTS for AES-256 alone; for AES-128 its ECB mode does the blocks
//! and the tweaks are computed here. Its contexts are changed by use, so each
//! batch borrows one from a small pool and gives it back.

use std::sync::{Mutex, PoisonError};

use strongroom_engine::Operation;
use zeroize::Zeroizing;

use crate::low::{BlockMode, CipherContext, Direction};
use crate::process::SectorCipher;

/// A key for AES-XTS.
pub(crate) struct Xts {
    key: Zeroizing<Vec<u8>>,
    encrypting: Mutex<Vec<Sectors>>,
    decrypting: Mutex<Vec<Sectors>>,
}

/// What one thread needs to work in one direction.
enum Sectors {
    Aes256(CipherContext),
    Aes128 { data: CipherContext, tweak: CipherContext },
}

/// A borrowed [`Sectors`], given back on drop.
pub(crate) struct Cursor<'a> {
    sectors: Option<Sectors>,
    home: &'a Mutex<Vec<Sectors>>,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).extend(self.sectors.take());
    }
}

impl Xts {
    /// `None` unless the key has 32 or 64 bytes and two different halves,
    /// which XTS needs to be secure.
    pub(crate) fn new(key: &[u8]) -> Option<Xts> {
        let halves_differ = key[..key.len() / 2] != key[key.len() / 2..];
        if !matches!(key.len(), 32 | 64) || !halves_differ {
            return None;
        }
        let key = Zeroizing::new(key.to_vec());
        let first = |direction| Mutex::new(vec![Sectors::new(&key, direction)]);
        let (encrypting, decrypting) = (first(Direction::Encrypt), first(Direction::Decrypt));
        Some(Xts { key, encrypting, decrypting })
    }
}

impl Sectors {
    fn new(key: &[u8], direction: Direction) -> Sectors {
        if key.len() == 64 {
            return Sectors::Aes256(CipherContext::new(BlockMode::Aes256Xts, key, direction));
        }
        let (data, tweak) = key.split_at(16);
        Sectors::Aes128 {
            data: CipherContext::new(BlockMode::Aes128Ecb, data, direction),
            tweak: CipherContext::new(BlockMode::Aes128Ecb, tweak, Direction::Encrypt),
        }
    }

    fn sector(&mut self, number: u64, sector: &mut [u8]) {
        let mut tweak = u128::from(number).to_le_bytes();
        match self {
            Sectors::Aes256(cipher) => {
                cipher.set_tweak(&tweak);
                cipher.apply(sector);
            }
            Sectors::Aes128 { data, tweak: tweak_cipher } => {
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
    type Cursor<'a> = Cursor<'a>;

    fn cursor(&self, operation: Operation) -> Cursor<'_> {
        let (home, direction) = match operation {
            Operation::EncryptSectors => (&self.encrypting, Direction::Encrypt),
            _ => (&self.decrypting, Direction::Decrypt),
        };
        let idle = home.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Cursor { sectors: idle.or_else(|| Some(Sectors::new(&self.key, direction))), home }
    }

    fn sector(&self, cursor: &mut Cursor<'_>, number: u64, data: &mut [u8]) {
        cursor.sectors.as_mut().expect("held until dropped").sector(number, data);
    }
}
