//! Random bytes, always from the kernel and never drawn ahead.

use std::fmt;

/// The kernel's generator failed: nothing secret can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntropyError;

impl fmt::Display for EntropyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel's random generator failed")
    }
}

impl std::error::Error for EntropyError {}

/// Fills `bytes`.
///
/// # Errors
/// [`EntropyError`]; `bytes` may be partly filled then.
pub fn fill(bytes: &mut [u8]) -> Result<(), EntropyError> {
    getrandom::fill(bytes).map_err(|_| EntropyError)
}

/// `N` bytes that need not be secret: ids and salts.
///
/// # Errors
/// [`EntropyError`].
pub fn array<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}
