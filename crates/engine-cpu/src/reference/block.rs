//! The block ciphers, one block at a time, from RustCrypto.

use aes::cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};
use strongroom_engine::BlockCipher;

/// A key schedule.
pub(super) trait Keyed: Send + Sync {
    fn encrypt(&self, block: &mut [u8; 16]);
    fn decrypt(&self, block: &mut [u8; 16]);
}

impl<C> Keyed for C
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, block: &mut [u8; 16]) {
        let mut encrypted: Block<C> = (*block).into();
        self.encrypt_block(&mut encrypted);
        *block = encrypted.into();
    }

    fn decrypt(&self, block: &mut [u8; 16]) {
        let mut decrypted: Block<C> = (*block).into();
        self.decrypt_block(&mut decrypted);
        *block = decrypted.into();
    }
}

/// `None` unless the key has 16, 24 or 32 bytes.
pub(super) fn keyed(cipher: BlockCipher, key: &[u8]) -> Option<Box<dyn Keyed>> {
    match (cipher, key.len()) {
        (BlockCipher::Aes, 16) => boxed::<aes::Aes128>(key),
        (BlockCipher::Aes, 24) => boxed::<aes::Aes192>(key),
        (BlockCipher::Aes, 32) => boxed::<aes::Aes256>(key),
        (BlockCipher::Serpent, 16 | 24 | 32) => boxed::<serpent::Serpent>(key),
        (BlockCipher::Twofish, 16 | 24 | 32) => boxed::<twofish::Twofish>(key),
        (BlockCipher::Camellia, 16) => boxed::<camellia::Camellia128>(key),
        (BlockCipher::Camellia, 24) => boxed::<camellia::Camellia192>(key),
        (BlockCipher::Camellia, 32) => boxed::<camellia::Camellia256>(key),
        _ => None,
    }
}

fn boxed<C: Keyed + KeyInit + 'static>(key: &[u8]) -> Option<Box<dyn Keyed>> {
    Some(Box::new(C::new_from_slice(key).ok()?))
}
