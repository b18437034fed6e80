//! The kernels as NVIDIA's driver takes them: PTX, which NVRTC made of the same source. `cargo xtask gpu` makes it
//! again and compares.

use crate::cipher::Cipher;

/// The lowest compute capability that the PTX is for; drivers compile it for every later one.
pub const CAPABILITY_MIN: (i32, i32) = (7, 5);

/// The first version of CUDA, in the driver's way of numbering, that knows this version of PTX (8.1).
pub const DRIVER_VERSION_MIN: i32 = 12_010;

/// The PTX of a cipher's kernels.
#[must_use]
pub const fn of(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes => include_str!("../ptx/aes.ptx"),
        Cipher::Serpent => include_str!("../ptx/serpent.ptx"),
        Cipher::Twofish => include_str!("../ptx/twofish.ptx"),
        Cipher::Camellia => include_str!("../ptx/camellia.ptx"),
        Cipher::ChaCha20 => include_str!("../ptx/chacha20.ptx"),
    }
}
