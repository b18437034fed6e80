//! The block ciphers of RustCrypto as kernels, for CPUs and ciphers without an
//! own one. Serpent's is bitsliced, within a block. Camellia's looks S-boxes
//! up in memory, so that its timing can depend on key and data.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};

use crate::kernel::{Block, Kernel};

struct ByBlock<C>(C);

impl<C> Kernel for ByBlock<C>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, blocks: &mut [Block]) {
        self.0.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.0.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

fn boxed<C>(key: &[u8]) -> Option<Box<dyn Kernel>>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync,
    C: 'static,
{
    Some(Box::new(ByBlock(C::new_from_slice(key).ok()?)))
}

/// With the instructions of this CPU, or bitsliced.
pub(crate) fn aes(key: &[u8]) -> Option<Box<dyn Kernel>> {
    match key.len() {
        16 => boxed::<aes::Aes128>(key),
        24 => boxed::<aes::Aes192>(key),
        _ => boxed::<aes::Aes256>(key),
    }
}

pub(crate) fn serpent(key: &[u8]) -> Option<Box<dyn Kernel>> {
    boxed::<serpent::Serpent>(key)
}

pub(crate) fn camellia(key: &[u8]) -> Option<Box<dyn Kernel>> {
    match key.len() {
        16 => boxed::<camellia::Camellia128>(key),
        24 => boxed::<camellia::Camellia192>(key),
        _ => boxed::<camellia::Camellia256>(key),
    }
}
