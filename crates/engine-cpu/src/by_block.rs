//! The block ciphers of RustCrypto as kernels, for CPUs and ciphers without an
//! own one. AES takes the CPU's instructions where it has them, on every tier,
//! and is bitsliced elsewhere. Serpent's is bitsliced, within a block.
//! Camellia's looks S-boxes up in memory, so that its timing can depend on key
//! and data.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};

use crate::kernel::{Block, Code, Kernel};

const CODE: Code = Code::constant_time("RustCrypto");
#[cfg(target_arch = "aarch64")]
const WITH_INSTRUCTIONS: Code = Code::constant_time("RustCrypto, FEAT_AES");
#[cfg(not(target_arch = "aarch64"))]
const WITH_INSTRUCTIONS: Code = Code::constant_time("RustCrypto, AES-NI");
const TABLES: Code = Code::with_tables("RustCrypto, tables");

struct ByBlock<C>(C, Code);

impl<C> Kernel for ByBlock<C>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn code(&self) -> Code {
        self.1
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.0.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.0.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

fn boxed<C>(key: &[u8], code: Code) -> Option<Box<dyn Kernel>>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync,
    C: 'static,
{
    Some(Box::new(ByBlock(C::new_from_slice(key).ok()?, code)))
}

/// With the instructions of this CPU, or bitsliced.
pub(crate) fn aes(key: &[u8]) -> Option<Box<dyn Kernel>> {
    let code = if aes::hardware_accelerated() { WITH_INSTRUCTIONS } else { CODE };
    match key.len() {
        16 => boxed::<aes::Aes128>(key, code),
        24 => boxed::<aes::Aes192>(key, code),
        _ => boxed::<aes::Aes256>(key, code),
    }
}

pub(crate) fn serpent(key: &[u8]) -> Option<Box<dyn Kernel>> {
    boxed::<serpent::Serpent>(key, CODE)
}

pub(crate) fn camellia(key: &[u8]) -> Option<Box<dyn Kernel>> {
    match key.len() {
        16 => boxed::<camellia::Camellia128>(key, TABLES),
        24 => boxed::<camellia::Camellia192>(key, TABLES),
        _ => boxed::<camellia::Camellia256>(key, TABLES),
    }
}
