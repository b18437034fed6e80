//! What a block cipher is to the modes above it.

use strongroom_engine::SharedBytes;

/// Bytes of one block of every cipher here.
pub(crate) type Block = [u8; 16];

/// Which code computes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// In words: whose it is, and the instructions that it takes.
    pub name: &'static str,
    /// No address and no branch in it depends on key or data.
    pub constant_time: bool,
}

impl Code {
    pub(crate) const AWS_LC: Code = Code::constant_time("AWS-LC");
    pub(crate) const LIBAEGIS: Code = Code::constant_time("libaegis");

    pub(crate) const fn constant_time(name: &'static str) -> Code {
        Code { name, constant_time: true }
    }

    /// Its tables are read at places that depend on key or data.
    pub(crate) const fn with_tables(name: &'static str) -> Code {
        Code { name, constant_time: false }
    }
}

/// A block cipher under one key that works on many blocks at once, each by
/// itself.
pub(crate) trait Kernel: Send + Sync {
    /// Which code this is.
    fn code(&self) -> Code;

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

/// What a sector's length is a multiple of, in bytes, that goes from one place
/// to another: a sector of a disk.
pub(crate) const ACROSS_UNIT: usize = 512;

/// Modes over the blocks of one sector, in place.
pub(crate) trait Fused {
    /// XTS (IEEE 1619) from an encrypted tweak.
    fn xts(&self, encrypt: bool, tweak: &Block, sector: &mut [Block]);

    /// Decryption in XTS from one place to another, a sector for each tweak.
    ///
    /// # Panics
    /// When either side is not `sector_len` bytes for each tweak, or these are
    /// not a multiple of [`ACROSS_UNIT`], or none.
    fn xts_across(&self, tweaks: &[Block], sector_len: usize, from: SharedBytes<'_>, to: &mut [u8]);

    /// Encrypts or decrypts each block by itself, with no more work than they
    /// are: what [`Kernel::encrypt`] does is for many.
    ///
    /// # Panics
    /// Above 8 blocks.
    fn few(&self, encrypt: bool, blocks: &mut [Block]);

    /// [`Fused::xts`] with no more work than the blocks are.
    ///
    /// # Panics
    /// Above 8 blocks.
    fn xts_few(&self, encrypt: bool, tweak: &Block, blocks: &mut [Block]);

    /// Encryption in CBC (NIST SP 800-38A) of the next blocks of a message. The
    /// IV becomes the last block of ciphertext, for those behind them.
    fn cbc_encrypt(&self, iv: &mut Block, blocks: &mut [Block]);

    /// Decryption in CBC (NIST SP 800-38A).
    fn cbc_decrypt(&self, iv: &Block, sector: &mut [Block]);

    /// Counter mode (NIST SP 800-38A), the counter being the whole block.
    fn ctr(&self, iv: &Block, sector: &mut [Block]);
}

/// Encrypts or decrypts at most 8 blocks, as fast as that goes.
pub(crate) fn few(kernel: &dyn Kernel, encrypt: bool, blocks: &mut [Block]) {
    match (kernel.fused(), encrypt) {
        (Some(fused), _) => fused.few(encrypt, blocks),
        (None, true) => kernel.encrypt(blocks),
        (None, false) => kernel.decrypt(blocks),
    }
}

/// Runs `work` on every `N` blocks, and the rest through a padded copy.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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
