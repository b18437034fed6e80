//! What binds directories and homes to their vault: HMAC-SHA256 under
//! the records key (sections 4.1 and 5 of the format).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use strongroom_format::vault::names::{DirectoryRecord, RECORD_MAC_LEN};
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_memory::{Locked, in_wiped_frames, in_wiped_stack};
use subtle::ConstantTimeEq;

use crate::hierarchy::VaultKeys;

/// The records key, as a state that each use copies, so that the key is
/// hashed once.
pub struct RecordMac {
    keyed: Locked<Hmac<Sha256>>,
}

impl RecordMac {
    /// Of a vault's keys.
    #[must_use]
    pub fn new(keys: &VaultKeys) -> RecordMac {
        let keyed = || Hmac::new_from_slice(keys.records()).expect("HMAC takes keys of any length");
        RecordMac { keyed: in_wiped_stack(|| Locked::new(keyed())) }
    }

    /// The id of the vault's root directory.
    #[must_use]
    pub fn root_directory(&self) -> DirectoryId {
        DirectoryId(self.first_16(&[b"root directory"]))
    }

    /// The record of a directory with this id and home.
    #[must_use]
    pub fn directory(&self, id: DirectoryId, home: [u8; 16]) -> DirectoryRecord {
        DirectoryRecord { id, home, mac: self.directory_mac(id, home) }
    }

    /// What binds a directory to its parent and plain name.
    #[must_use]
    pub fn directory_home(&self, parent: DirectoryId, name: &[u8]) -> [u8; 16] {
        self.first_16(&[b"directory home", &parent.0, name])
    }

    /// True when the record is this vault's. Compares in constant time.
    #[must_use]
    pub fn verifies(&self, record: &DirectoryRecord) -> bool {
        self.directory_mac(record.id, record.home).ct_eq(&record.mac).into()
    }

    /// What binds a file to its directory and plain name.
    #[must_use]
    pub fn home(&self, directory: DirectoryId, name: &[u8]) -> [u8; 16] {
        self.first_16(&[b"home", &directory.0, name])
    }

    /// What stands for a special record in a freshness file: its file id and,
    /// of a symlink, the tag of its sealed target.
    #[must_use]
    pub fn special(&self, file: FileId, body_tag: [u8; 16]) -> [u8; 16] {
        self.first_16(&[b"symlink", &file.0, &body_tag])
    }

    fn directory_mac(&self, id: DirectoryId, home: [u8; 16]) -> [u8; RECORD_MAC_LEN] {
        self.first_16(&[b"directory", &id.0, &home])
    }

    fn first_16(&self, parts: &[&[u8]]) -> [u8; 16] {
        let full: [u8; 32] = in_wiped_frames(|| {
            let mut mac = Hmac::clone(&self.keyed);
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().into()
        });
        *full.first_chunk().expect("sixteen of thirty-two bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::RootKey;
    use crate::secret::Secret;
    use data_encoding::HEXLOWER;
    use strongroom_format::vault::VaultId;

    fn mac(vault: u8) -> RecordMac {
        let root = RootKey::from_secret(Secret::build(|key| key.fill(7)));
        RecordMac::new(&VaultKeys::derive(&root, VaultId([vault; 16]), 1))
    }

    /// Computed once with another implementation of HKDF and HMAC.
    #[test]
    fn marks_of_a_known_root() {
        let mac = mac(9);
        let hex = |bytes: [u8; 16]| HEXLOWER.encode(&bytes);
        assert_eq!(hex(mac.root_directory().0), "2432f65dbe3effd8d50a37e6649cac76");
        assert_eq!(hex(mac.directory(DirectoryId([1; 16]), [2; 16]).mac), "c5ac3ed50cb742be5148c3153b814e03");
        assert_eq!(
            hex(mac.directory_home(DirectoryId([1; 16]), b"name")),
            "f885fe3092d86ee876c035f27152db4e"
        );
        assert_eq!(hex(mac.home(DirectoryId([1; 16]), b"name")), "6576f36ed9a2d3440a681cf080bf405f");
    }

    #[test]
    fn a_record_of_another_directory_or_vault_does_not_verify() {
        let record = mac(9).directory(DirectoryId([1; 16]), [4; 16]);
        assert!(mac(9).verifies(&record));
        assert!(!mac(8).verifies(&record));
        assert!(!mac(9).verifies(&DirectoryRecord { id: DirectoryId([2; 16]), ..record }));
        assert!(!mac(9).verifies(&DirectoryRecord { home: [5; 16], ..record }));
    }
}
