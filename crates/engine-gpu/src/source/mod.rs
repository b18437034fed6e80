//! The kernels' source: a short prelude for OpenCL C 1.2 or for CUDA C++, and the same text behind it for both.

mod circuits;

use crate::cipher::Cipher;

/// The prelude for OpenCL.
pub const PRELUDE_OPENCL: &str = include_str!("../../kernels/prelude.cl");
/// The prelude for CUDA, compiled by NVRTC.
pub const PRELUDE_CUDA: &str = include_str!("../../kernels/prelude.cu");

const COMMON: &str = include_str!("../../kernels/common.h");
const PLANES: &str = include_str!("../../kernels/planes.h");
const AES_BOX: &str = include_str!("../../kernels/aes_box.h");
const AES: &str = include_str!("../../kernels/aes.h");
const SERPENT: &str = include_str!("../../kernels/serpent.h");
const TWOFISH: &str = include_str!("../../kernels/twofish.h");
const CAMELLIA: &str = include_str!("../../kernels/camellia.h");
const CHACHA20: &str = include_str!("../../kernels/chacha20.h");

/// What both dialects share, for one cipher.
#[must_use]
pub fn kernels(cipher: Cipher) -> String {
    let made;
    let parts: &[&str] = match cipher {
        Cipher::Aes => &[PLANES, AES_BOX, AES],
        Cipher::Serpent => {
            made = circuits::serpent();
            &[&made, SERPENT]
        }
        Cipher::Twofish => {
            made = circuits::twofish();
            &[PLANES, &made, TWOFISH]
        }
        Cipher::Camellia => {
            made = circuits::camellia();
            &[PLANES, AES_BOX, &made, CAMELLIA]
        }
        Cipher::ChaCha20 => &[CHACHA20],
    };
    [&[COMMON], parts].concat().concat()
}

/// The source for OpenCL C 1.2.
#[must_use]
pub fn opencl(cipher: Cipher) -> String {
    [PRELUDE_OPENCL, &kernels(cipher)].concat()
}

/// The source for NVRTC.
#[must_use]
pub fn cuda(cipher: Cipher) -> String {
    [PRELUDE_CUDA, &kernels(cipher)].concat()
}
