//! The kernels of x86-64 as [`Kernels`].

use super::{Kernels, Own};
use crate::chacha20::State;
use crate::kernel::Code;
use crate::low::chacha20;
use crate::low::cpu::Avx512Ifma;

impl Kernels for Avx512Ifma {
    const CODE: Code = Code::constant_time("own, AVX-512 with IFMA");
    const WORTH: usize = 1024;

    fn xor(self, state: &State, counter: u32, data: &mut [u8]) {
        chacha20::xor(self.without_ifma(), state, counter, data);
    }
}

/// Kernels of this CPU.
pub(super) fn own() -> Option<Box<dyn Own>> {
    Avx512Ifma::detect().map(|token| Box::new(token) as Box<dyn Own>)
}
