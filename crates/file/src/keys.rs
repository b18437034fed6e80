//! What is derived from a file key (C2SP age, "Header MAC" and "Payload").

use age_core::format::FileKey;
use age_core::secrecy::ExposeSecret;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use strongroom_format::age::PAYLOAD_NONCE_LEN;
use zeroize::Zeroizing;

fn derived(file_key: &FileKey, salt: Option<&[u8]>, info: &str) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let extracted = Hkdf::<Sha256>::new(salt, file_key.expose_secret());
    extracted.expand(info.as_bytes(), &mut key[..]).expect("32 bytes are fewer than HKDF's most");
    key
}

fn header_mac(file_key: &FileKey, authenticated: &[u8]) -> Hmac<Sha256> {
    let key = derived(file_key, None, "header");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key[..]).expect("HMAC takes keys of any length");
    mac.update(authenticated);
    mac
}

/// The MAC of a header.
pub(crate) fn mac(file_key: &FileKey, authenticated: &[u8]) -> [u8; 32] {
    header_mac(file_key, authenticated).finalize().into_bytes().into()
}

/// Whether the MAC is right, in constant time.
pub(crate) fn is_mac(file_key: &FileKey, authenticated: &[u8], mac: &[u8; 32]) -> bool {
    header_mac(file_key, authenticated).verify_slice(mac).is_ok()
}

/// The key of the payload that begins with `nonce`.
pub(crate) fn payload(file_key: &FileKey, nonce: &[u8; PAYLOAD_NONCE_LEN]) -> Zeroizing<[u8; 32]> {
    derived(file_key, Some(nonce), "payload")
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], crate::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| crate::Error::Entropy)?;
    Ok(bytes)
}
