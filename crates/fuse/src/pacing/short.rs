//! Which requests are short.

use super::limits::SHORT_MAX;
use crate::abi::request::Header;
use crate::abi::{Opcode, REQUEST_HEADER_LEN};

/// Whether a request is answered soon as a rule, without another one's help.
pub(super) fn is_short(message: &[u8]) -> bool {
    let Ok(header) = Header::parse(message) else { return true };
    match Opcode::from_raw(header.opcode) {
        // Handle and offset come before the length, in both.
        Some(Opcode::Read | Opcode::Write) => message
            .get(REQUEST_HEADER_LEN + 16..REQUEST_HEADER_LEN + 20)
            .and_then(|len| len.try_into().ok())
            .is_some_and(|len| u32::from_ne_bytes(len) <= SHORT_MAX),
        // They wait for the store, or go through what is stored.
        Some(
            Opcode::Fsync
            | Opcode::FsyncDir
            | Opcode::SyncFs
            | Opcode::Fallocate
            | Opcode::Lseek
            | Opcode::CopyFileRange
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Ioctl
            | Opcode::Destroy,
        ) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: Opcode, len: u32) -> Vec<u8> {
        let mut bytes = 80u32.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.raw().to_ne_bytes());
        bytes.resize(REQUEST_HEADER_LEN + 16, 0);
        bytes.extend_from_slice(&len.to_ne_bytes());
        bytes.resize(80, 0);
        bytes
    }

    #[test]
    fn what_waits_for_the_store_is_not_short() {
        for opcode in [Opcode::Fsync, Opcode::Lseek, Opcode::Fallocate, Opcode::Rename2] {
            assert!(!is_short(&message(opcode, 0)), "{opcode:?}");
        }
        for opcode in [Opcode::Read, Opcode::Write] {
            assert!(is_short(&message(opcode, SHORT_MAX)), "{opcode:?}");
            assert!(!is_short(&message(opcode, SHORT_MAX + 1)), "{opcode:?}");
        }
        assert!(is_short(&message(Opcode::Lookup, 0)));
    }
}
