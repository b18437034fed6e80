//! The kernels of x86-64 as [`Kernels`].

use super::{Kernels, Own};
use crate::chacha20::State;
use crate::kernel::{Block, Code};
use crate::low::cpu::Avx512Ifma;
use crate::low::{chacha20, poly1305};
use crate::poly1305::Limbs;

impl Kernels for Avx512Ifma {
    type Powers = poly1305::Powers;
    const CODE: Code = Code::constant_time("own, AVX-512 with IFMA");
    const WORTH: usize = 1024;

    fn xor(self, state: &State, counter: u32, data: &mut [u8]) {
        chacha20::xor(self.without_ifma(), state, counter, data);
    }

    fn powers(self, r: Limbs) -> poly1305::Powers {
        poly1305::Powers::new(r)
    }

    fn sum(self, powers: &poly1305::Powers, sum: Limbs, blocks: &[Block]) -> (Limbs, usize) {
        let (groups, rest) = blocks.as_chunks();
        (poly1305::sum(self, powers, sum, groups), blocks.len() - rest.len())
    }
}

/// Kernels of this CPU.
pub(super) fn own() -> Option<Box<dyn Own>> {
    Avx512Ifma::detect().map(|token| Box::new(token) as Box<dyn Own>)
}
