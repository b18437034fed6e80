//! What a block cipher is to the modes above it.

/// Bytes of one block of every cipher here.
pub(crate) type Block = [u8; 16];

/// A block cipher under one key that works on many blocks at once, each by
/// itself.
pub(crate) trait Kernel: Send + Sync {
    /// Encrypts any number of blocks in place.
    fn encrypt(&self, blocks: &mut [Block]);

    /// Decrypts any number of blocks in place.
    fn decrypt(&self, blocks: &mut [Block]);

    /// The modes in one pass, where the cipher is so fast that a pass over the
    /// data counts.
    fn fused(&self) -> Option<&dyn Fused> {
        None
    }
}

/// Modes over the blocks of one sector, in place.
pub(crate) trait Fused {
    /// XTS (IEEE 1619) from an encrypted tweak.
    fn xts(&self, encrypt: bool, tweak: &Block, sector: &mut [Block]);

    /// Decryption in CBC (NIST SP 800-38A).
    fn cbc_decrypt(&self, iv: &Block, sector: &mut [Block]);

    /// Counter mode (NIST SP 800-38A), the counter being the whole block.
    fn ctr(&self, iv: &Block, sector: &mut [Block]);
}

/// Runs `work` on every `N` blocks, and the rest through a padded copy.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn by_chunks<const N: usize>(blocks: &mut [Block], mut work: impl FnMut(&mut [Block; N])) {
    let (chunks, rest) = blocks.as_chunks_mut::<N>();
    for chunk in chunks {
        work(chunk);
    }
    if !rest.is_empty() {
        let mut padded = [[0; 16]; N];
        padded[..rest.len()].copy_from_slice(rest);
        work(&mut padded);
        rest.copy_from_slice(&padded[..rest.len()]);
    }
}
