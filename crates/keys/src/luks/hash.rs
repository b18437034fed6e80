//! The hashes that LUKS headers name, and PBKDF2 over them.

use hmac::EagerHash;
use hmac::digest::Digest;
use strongroom_format::luks::Hash;
use strongroom_memory::{in_wiped_frames, in_wiped_stack};
use subtle::ConstantTimeEq;

use crate::secret::SecretBytes;

/// Runs `$do` with `$digest` being the type of `$hash`.
macro_rules! with_digest {
    ($hash:expr, $digest:ident => $do:expr) => {
        match $hash {
            Hash::Sha1 => {
                type $digest = sha1::Sha1;
                $do
            }
            Hash::Sha224 => {
                type $digest = sha2::Sha224;
                $do
            }
            Hash::Sha256 => {
                type $digest = sha2::Sha256;
                $do
            }
            Hash::Sha384 => {
                type $digest = sha2::Sha384;
                $do
            }
            Hash::Sha512 => {
                type $digest = sha2::Sha512;
                $do
            }
            Hash::Ripemd160 => {
                type $digest = ripemd::Ripemd160;
                $do
            }
            Hash::Whirlpool => {
                type $digest = whirlpool::Whirlpool;
                $do
            }
        }
    };
}

/// The hash of `parts` one after the other; `out` has its length.
///
/// # Panics
/// If `out` has another length.
pub fn hash(hash: Hash, parts: &[&[u8]], out: &mut [u8]) {
    fn whole<D: Digest>(parts: &[&[u8]], out: &mut [u8]) {
        let mut digest = D::new();
        parts.iter().for_each(|part| digest.update(part));
        out.copy_from_slice(&digest.finalize());
    }
    in_wiped_frames(|| with_digest!(hash, D => whole::<D>(parts, out)));
}

/// PBKDF2 with HMAC (RFC 8018, 5.2), filling `out`.
pub fn pbkdf2(hash: Hash, secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
    fn derive<D: EagerHash>(secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8])
    where
        <D as EagerHash>::Core: Sync,
    {
        pbkdf2::pbkdf2_hmac::<D>(secret, salt, iterations, out);
    }
    in_wiped_stack(|| with_digest!(hash, D => derive::<D>(secret, salt, iterations, out)));
}

/// Whether PBKDF2 of `key` is `expected`, in constant time.
#[must_use]
pub fn digest(hash: Hash, key: &[u8], salt: &[u8], iterations: u32, expected: &[u8]) -> bool {
    let mut found = SecretBytes::zeroed(expected.len());
    pbkdf2(hash, key, salt, iterations, found.expose_mut());
    found.expose().ct_eq(expected).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    fn derived(hash: Hash, secret: &str, salt: &str, iterations: u32, len: usize) -> String {
        let mut out = vec![0; len];
        pbkdf2(hash, secret.as_bytes(), salt.as_bytes(), iterations, &mut out);
        HEXLOWER.encode(&out)
    }

    /// RFC 6070, and RFC 7914, 11.
    #[test]
    fn pbkdf2_of_the_rfcs() {
        assert_eq!(
            derived(Hash::Sha1, "password", "salt", 4096, 20),
            "4b007901b765489abead49d926f721d065a429c1"
        );
        assert_eq!(
            derived(Hash::Sha256, "passwd", "salt", 1, 64),
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
             49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
        );
    }

    /// The hashes of no bytes, as their standards give them.
    #[test]
    fn hashes_are_what_their_names_say() {
        let empty = [
            (Hash::Sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (Hash::Sha224, "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f"),
            (Hash::Sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (
                Hash::Sha384,
                "38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
            ),
            (
                Hash::Sha512,
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            ),
            (Hash::Ripemd160, "9c1185a5c5e9fc54612808977ee8f548b2258d31"),
            (
                Hash::Whirlpool,
                "19fa61d75522a4669b44e39c1d2e1726c530232130d407f89afee0964997f7a73e83be698b288febcf88e3e03c4f0757ea8964e59b63d93708b138cc42a66eb3",
            ),
        ];
        for (name, expected) in empty {
            let mut out = vec![0; name.digest_len()];
            hash(name, &[b"", b""], &mut out);
            assert_eq!(HEXLOWER.encode(&out), expected, "{name}");
        }
    }

    #[test]
    fn digests_tell_right_from_wrong() {
        let mut expected = [0; 20];
        pbkdf2(Hash::Sha256, b"key", b"salt", 10, &mut expected);
        assert!(digest(Hash::Sha256, b"key", b"salt", 10, &expected));
        assert!(!digest(Hash::Sha256, b"kez", b"salt", 10, &expected));
        assert!(!digest(Hash::Sha256, b"key", b"salt", 11, &expected));
        expected[19] ^= 1;
        assert!(!digest(Hash::Sha256, b"key", b"salt", 10, &expected));
    }
}
