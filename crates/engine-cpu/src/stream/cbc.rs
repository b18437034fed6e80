//! AES in CBC (NIST SP 800-38A section 6.2), in pieces of whole blocks.

use std::sync::Arc;

use crate::kernel::{Block, Kernel, few};
use crate::modes;

/// Blocks that are not worth a kernel's whole width.
const FEW: usize = 8;

/// A key of AES-128, AES-192 or AES-256 in CBC; cheap to clone.
#[derive(Clone)]
pub struct CbcKey(Arc<dyn Kernel>);

impl CbcKey {
    /// For a key of 16, 24 or 32 bytes; none for other lengths.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<CbcKey> {
        super::aes(key).map(CbcKey)
    }
}

/// A message in CBC. A clone goes on by itself.
#[derive(Clone)]
pub struct AesCbc {
    key: CbcKey,
    /// The ciphertext before the next block.
    last: Block,
}

impl AesCbc {
    /// Begins a message.
    #[must_use]
    pub fn new(key: &CbcKey, iv: &[u8; 16]) -> AesCbc {
        AesCbc { key: key.clone(), last: *iv }
    }

    /// Begins another message under the same key.
    pub fn restart(&mut self, iv: &[u8; 16]) {
        self.last = *iv;
    }

    /// What the next block is XORed with: the last block of ciphertext, or the
    /// IV.
    #[must_use]
    pub fn last(&self) -> &[u8; 16] {
        &self.last
    }

    /// Encrypts the next blocks in place.
    ///
    /// # Panics
    /// When these are not whole blocks.
    pub fn encrypt(&mut self, data: &mut [u8]) {
        let blocks = whole(data);
        match self.key.0.fused() {
            Some(fused) => fused.cbc_encrypt(&mut self.last, blocks),
            None => one_by_one(&*self.key.0, &mut self.last, blocks),
        }
    }

    /// Decrypts the next blocks in place.
    ///
    /// # Panics
    /// When these are not whole blocks.
    pub fn decrypt(&mut self, data: &mut [u8]) {
        let blocks = whole(data);
        let Some(&last) = blocks.last() else { return };
        if blocks.len() <= FEW {
            let mut before = [self.last; FEW];
            before[1..blocks.len()].copy_from_slice(&blocks[..blocks.len() - 1]);
            few(&*self.key.0, false, blocks);
            for (block, before) in blocks.iter_mut().zip(before) {
                super::masks::xor(block, &before);
            }
        } else {
            modes::cbc_decrypt(&*self.key.0, &[self.last], blocks.len(), blocks);
        }
        self.last = last;
    }
}

fn whole(data: &mut [u8]) -> &mut [Block] {
    let (blocks, rest) = data.as_chunks_mut();
    assert!(rest.is_empty(), "CBC takes whole blocks");
    blocks
}

fn one_by_one(kernel: &dyn Kernel, last: &mut Block, blocks: &mut [Block]) {
    for block in blocks {
        super::masks::xor(block, last);
        kernel.encrypt(std::slice::from_mut(block));
        *last = *block;
    }
}
