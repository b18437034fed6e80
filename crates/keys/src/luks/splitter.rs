//! The anti-forensic splitter (LUKS1, 2.4): a key spread over so many bytes
//! that losing any of them loses it, so that a removed key slot cannot be
//! recovered from a sector that the disk has kept somewhere.

use strongroom_format::luks::Hash;
use strongroom_memory::in_wiped_stack;
use zeroize::Zeroize;

use super::hash::hash;
use crate::random::{EntropyError, fill};
use crate::secret::SecretBytes;

/// Spreads `key` over `stripes` times its length, all but the last stripe
/// random.
///
/// # Errors
/// [`EntropyError`].
///
/// # Panics
/// If there are no stripes.
pub fn split(key: &[u8], stripes: u32, with: Hash) -> Result<SecretBytes, EntropyError> {
    let len = key.len();
    let mut material = SecretBytes::zeroed(len * stripes as usize);
    let (random, last) = material.expose_mut().split_at_mut(len * (stripes as usize - 1));
    fill(random)?;
    in_wiped_stack(|| gather(random, len, with, last));
    last.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    Ok(material)
}

/// The key of `len` bytes that was spread over `material`.
///
/// # Panics
/// If `material` is not at least one whole number of stripes.
#[must_use]
pub fn merge(material: &[u8], len: usize, with: Hash) -> SecretBytes {
    assert!(material.len() >= len && material.len().is_multiple_of(len), "whole stripes");
    let (random, last) = material.split_at(material.len() - len);
    let mut key = SecretBytes::zeroed(len);
    in_wiped_stack(|| gather(random, len, with, key.expose_mut()));
    key.expose_mut().iter_mut().zip(last).for_each(|(byte, last)| *byte ^= last);
    key
}

/// XORs and diffuses all stripes but the last into `sum`, which is zero.
fn gather(stripes: &[u8], len: usize, with: Hash, sum: &mut [u8]) {
    for stripe in stripes.chunks_exact(len) {
        sum.iter_mut().zip(stripe).for_each(|(byte, stripe)| *byte ^= stripe);
        diffuse(sum, with);
    }
}

/// Replaces each piece of a hash's length by the hash of its number and
/// itself, the last one cut.
fn diffuse(bytes: &mut [u8], with: Hash) {
    let mut digest = [0; 64];
    let digest = &mut digest[..with.digest_len()];
    for (number, piece) in bytes.chunks_mut(with.digest_len()).enumerate() {
        hash(with, &[&(number as u32).to_be_bytes(), piece], digest);
        piece.copy_from_slice(&digest[..piece.len()]);
    }
    digest.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_all_stripes_and_from_no_fewer() {
        for with in Hash::ALL {
            for len in [16, 32, 64] {
                let key: Vec<u8> = (0..len as u8).collect();
                let mut material = split(&key, 40, with).expect("entropy");
                assert_eq!(material.len(), len * 40);
                assert_eq!(merge(material.expose(), len, with).expose(), key, "{with}");
                material.expose_mut()[len * 3] ^= 1;
                let other = merge(material.expose(), len, with);
                // Pieces of a hash's length are diffused apart.
                let piece = len.min(with.digest_len());
                let same = other.expose()[..piece].iter().zip(&key).filter(|(a, b)| a == b).count();
                assert!(same < piece / 2, "one flipped bit changes its piece");
            }
        }
    }

    #[test]
    fn one_stripe_is_the_key() {
        let material = split(&[7; 32], 1, Hash::Sha256).expect("entropy");
        assert_eq!(material.expose(), [7; 32]);
    }
}
