//! With NEON.

use super::{Serpent, decrypt, encrypt};
use crate::kernel::{Block, Code, Kernel, by_chunks};
use crate::low::vector::{Neon, VNeon};

impl Kernel for Serpent<Neon> {
    fn code(&self) -> Code {
        Code::constant_time("own, NEON")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        by_chunks::<8>(blocks, |chunk| encrypt::<VNeon>(self.token, &self.subkeys, chunk));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        by_chunks::<8>(blocks, |chunk| decrypt::<VNeon>(self.token, &self.subkeys, chunk));
    }
}
