//! Values that must not leak: in memory of their own, wiped when dropped, and
//! without `Debug`, `Clone`, `Display` or `PartialEq`.

use strongroom_memory::Bytes;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::random::{EntropyError, fill};

/// True once the kernel has refused to lock secret memory (`RLIMIT_MEMLOCK`),
/// so that secrets may reach swap. Worth a warning to the user.
#[must_use]
pub fn memory_lock_refused() -> bool {
    !strongroom_memory::standing().secrets_locked
}

/// A secret of `N` bytes.
pub struct Secret<const N: usize>(Bytes);

impl<const N: usize> Secret<N> {
    /// Zeros, filled in place by `fill`, so that no copy of the secret is left
    /// elsewhere.
    pub fn build(fill: impl FnOnce(&mut [u8; N])) -> Secret<N> {
        let mut memory = Bytes::zeroed(N);
        fill(memory.bytes_mut().try_into().expect("the memory has this length"));
        Secret(memory)
    }

    /// Random bytes of the kernel.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn random() -> Result<Secret<N>, EntropyError> {
        let mut outcome = Ok(());
        let secret = Secret::build(|bytes| outcome = fill(bytes));
        outcome.map(|()| secret)
    }

    /// The bytes. Copies of them are their maker's to wipe.
    #[must_use]
    pub fn expose(&self) -> &[u8; N] {
        self.0.bytes().try_into().expect("the memory has this length")
    }

    /// Compares in constant time.
    #[must_use]
    pub fn equals(&self, other: &[u8; N]) -> bool {
        self.expose().ct_eq(other).into()
    }
}

/// A secret whose length is known at run time alone, as a password.
pub struct SecretBytes {
    memory: Bytes,
    len: usize,
}

impl SecretBytes {
    /// `len` zeros, to be filled through [`SecretBytes::expose_mut`].
    #[must_use]
    pub fn zeroed(len: usize) -> SecretBytes {
        SecretBytes { memory: Bytes::zeroed(len), len }
    }

    /// Moves a secret here and wipes where it was.
    pub fn take(bytes: &mut [u8]) -> SecretBytes {
        let mut secret = SecretBytes::zeroed(bytes.len());
        secret.expose_mut().copy_from_slice(bytes);
        bytes.zeroize();
        secret
    }

    /// Moves text here and wipes where it was.
    #[must_use]
    pub fn take_string(text: String) -> SecretBytes {
        SecretBytes::take(&mut text.into_bytes())
    }

    /// The bytes. Copies of them are their maker's to wipe.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// The bytes, to be filled in.
    pub fn expose_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }

    /// Keeps the first `len` bytes, and all when there are fewer; the others
    /// are wiped.
    pub fn truncate(&mut self, len: usize) {
        let len = len.min(self.len);
        self.expose_mut()[len..].zeroize();
        self.len = len;
    }

    /// Bytes of the secret.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_a_secret_wipes_where_it_was() {
        let mut password = *b"correct horse";
        let secret = SecretBytes::take(&mut password);
        assert_eq!(secret.expose(), b"correct horse");
        assert_eq!(password, [0; 13]);
        assert_eq!(SecretBytes::take_string("abc".to_owned()).expose(), b"abc");
    }

    #[test]
    fn truncating_wipes_the_rest() {
        let mut secret = SecretBytes::take(&mut b"password\n".to_vec());
        secret.truncate(8);
        assert_eq!(secret.expose(), b"password");
        assert_eq!(secret.memory.bytes()[8], 0);
        secret.truncate(100);
        assert_eq!(secret.len(), 8);
        assert!(SecretBytes::zeroed(0).is_empty());
    }

    #[test]
    fn random_secrets_differ_and_equal_themselves() {
        let (a, b) = (Secret::<32>::random().expect("entropy"), Secret::<32>::random().expect("entropy"));
        assert!(a.equals(a.expose()));
        assert!(!a.equals(b.expose()));
        assert!(!a.equals(&[0; 32]));
    }
}
