//! What stands in the lock's file: the holder, sealed for programs of its
//! machine and for whoever has the vault's key.

use serde::{Deserialize, Serialize};
use strongroom_format::vault::VaultId;
use strongroom_keys::{LockCipher, RootKey};

use super::Holder;

const SCHEMA: &str = "strongroom.lock/1";

/// The content of the lock's file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    schema: String,
    /// For programs of the holder's machine, in hex.
    machine: String,
    /// For whoever has the vault's key, in hex; none before the holder has it.
    #[serde(default)]
    owner: Option<String>,
}

impl Stored {
    /// What a holder leaves, and with its keys what it leaves for the owner.
    pub(super) fn of(holder: &Holder, keys: Option<(&RootKey, VaultId)>) -> Option<Stored> {
        let text = serde_json::to_vec(holder).ok()?;
        let sealed = |cipher: LockCipher| cipher.seal(&text).ok().map(|sealed| hex(&sealed));
        let owner = keys.and_then(|(root, vault)| sealed(LockCipher::of_vault(root, vault)));
        Some(Stored { schema: SCHEMA.to_owned(), machine: sealed(LockCipher::of_machine())?, owner })
    }

    /// The file's content.
    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What a file holds; none where that is no record.
    pub(super) fn parse(text: &[u8]) -> Option<Stored> {
        serde_json::from_slice(text).ok().filter(|stored: &Stored| stored.schema == SCHEMA)
    }

    /// Who has the vault, as far as this machine can tell.
    pub(super) fn holder(self) -> Holder {
        match opened(&LockCipher::of_machine(), &self.machine) {
            Some(holder) => holder,
            None => Holder { for_owner: self.owner, ..Holder::elsewhere() },
        }
    }
}

/// A holder as it is sealed, if it opens.
pub(super) fn opened(cipher: &LockCipher, sealed: &str) -> Option<Holder> {
    serde_json::from_slice(&cipher.open(&unhex(sealed)?).ok()?).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(pair).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_file_tells_others_nothing() {
        let holder = Holder::this_process("mount", Some(Path::new("/home/me/secret plans")));
        let root = RootKey::random().expect("entropy");
        let vault = VaultId([1; 16]);
        let text = Stored::of(&holder, Some((&root, vault))).expect("entropy").text();
        let shown = String::from_utf8(text.clone()).expect("JSON");
        for told in ["secret", &holder.boot_id, &holder.token, "mount"] {
            assert!(!shown.contains(told), "{shown}");
        }
        let stored = Stored::parse(&text).expect("a record");
        assert_eq!(
            opened(&LockCipher::of_vault(&root, vault), stored.owner.as_deref().expect("sealed")),
            Some(holder.clone())
        );
        assert_eq!(stored.holder(), holder);
    }

    #[test]
    fn hex_reads_back() {
        assert_eq!(unhex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        assert_eq!((unhex("0"), unhex("0g"), unhex("é")), (None, None, None));
    }
}
