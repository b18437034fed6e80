//! With AVX2 and AVX-512.

use super::{Serpent, Subkeys, decrypt, encrypt};
use crate::kernel::{Block, Code, Kernel, by_chunks};
use crate::low::cpu::{Avx2, Avx512};
use crate::low::vector::{V256, V512};

#[target_feature(enable = "avx2,ssse3,sse4.1")]
fn encrypt_avx2(token: Avx2, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<16>(blocks, |chunk| encrypt::<V256>(token, subkeys, chunk));
}

#[target_feature(enable = "avx2,ssse3,sse4.1")]
fn decrypt_avx2(token: Avx2, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<16>(blocks, |chunk| decrypt::<V256>(token, subkeys, chunk));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn encrypt_avx512(token: Avx512, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<32>(blocks, |chunk| encrypt::<V512>(token, subkeys, chunk));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn decrypt_avx512(token: Avx512, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<32>(blocks, |chunk| decrypt::<V512>(token, subkeys, chunk));
}

impl Kernel for Serpent<Avx2> {
    fn code(&self) -> Code {
        Code::constant_time("own, AVX2")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { encrypt_avx2(self.token, &self.subkeys, blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { decrypt_avx2(self.token, &self.subkeys, blocks) }
    }
}

impl Kernel for Serpent<Avx512> {
    fn code(&self) -> Code {
        Code::constant_time("own, AVX-512")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { encrypt_avx512(self.token, &self.subkeys, blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { decrypt_avx512(self.token, &self.subkeys, blocks) }
    }
}
