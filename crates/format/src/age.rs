//! The age format, version 1 (<https://age-encryption.org/v1>, C2SP): the
//! header with its stanzas, and the ASCII armor.
//!
//! The codec is strict: what it takes has one spelling, so that a header which
//! is read and written again is the same bytes, over which its MAC is made.
//! What a stanza says, the MAC and the payload are the caller's.

mod armor;
mod base64;
mod header;

pub use armor::{ARMOR_BEGIN, ARMOR_END, ARMOR_LINE_BYTES, ArmorReader, armor_line};
pub use base64::{decode as decode_base64, encode as encode_base64};
pub use header::{HEADER_LEN_MAX, Header, INTRO, Stanza};

/// Bytes of plaintext in every chunk of the payload but the last.
pub const CHUNK_LEN: usize = 64 << 10;
/// Bytes that sealing adds to a chunk.
pub const TAG_LEN: usize = 16;
/// Bytes of a sealed chunk but the last.
pub const SEALED_CHUNK_LEN: usize = CHUNK_LEN + TAG_LEN;
/// Bytes before the first chunk, of which the payload's key is derived.
pub const PAYLOAD_NONCE_LEN: usize = 16;

/// Bytes of plaintext in a payload of `sealed` bytes, its nonce not counted;
/// `None` when no payload is so long.
#[must_use]
pub fn plain_len(sealed: u64) -> Option<u64> {
    let (whole, rest) = (sealed / SEALED_CHUNK_LEN as u64, sealed % SEALED_CHUNK_LEN as u64);
    let tag = TAG_LEN as u64;
    match (whole, rest) {
        (0, 0) => None,
        (whole, 0) => Some(whole * CHUNK_LEN as u64),
        (0, rest) => rest.checked_sub(tag),
        // Only an empty file has an empty last chunk.
        (whole, rest) => {
            rest.checked_sub(tag).filter(|&len| len > 0).map(|len| whole * CHUNK_LEN as u64 + len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_chunks() {
        let chunk = SEALED_CHUNK_LEN as u64;
        for (sealed, plain) in [
            (0, None),
            (15, None),
            (16, Some(0)),
            (17, Some(1)),
            (chunk, Some(65536)),
            (chunk + 16, None),
            (chunk + 17, Some(65537)),
            (2 * chunk, Some(131_072)),
        ] {
            assert_eq!(plain_len(sealed), plain, "{sealed}");
        }
    }
}
