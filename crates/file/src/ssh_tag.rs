//! How stanzas name SSH keys: by a hash of the public key.
//!
//! Source: C2SP age, "ssh-ed25519" and "ssh-rsa".

use sha2::{Digest, Sha256};
use strongroom_format::age::{decode_base64, encode_base64};

/// Bytes of the hash of a public key by which a stanza names it.
const TAG_LEN: usize = 4;

/// Whether a stanza's argument may be such a name of a key.
pub(crate) fn is_tag(text: &str) -> bool {
    decode_base64(text.as_bytes()).is_ok_and(|tag| tag.len() == TAG_LEN)
}

/// How stanzas name a public key.
pub(crate) fn tag_of(public: &[u8]) -> String {
    encode_base64(&Sha256::digest(public)[..TAG_LEN])
}
