//! An id of this machine that can be shown: others must not learn the
//! machine's own id from it (machine-id(5)).

use sha2::{Digest, Sha256};

/// The file with the machine's own id.
const MACHINE_ID: &str = "/etc/machine-id";

/// Sixteen bytes that are the same at each start of this machine and tell
/// nothing else of it; `None` where it has no id.
#[must_use]
pub fn machine_mark() -> Option<[u8; 16]> {
    machine_id().map(|id| mark(&id))
}

/// The machine's own id, not to be told to others; `None` where it has none.
pub(crate) fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string(MACHINE_ID).ok()?;
    let id = id.trim();
    let is_set = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_set.then(|| id.to_owned())
}

fn mark(id: &str) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::new().chain_update(b"strongroom machine").chain_update(id).finalize().into();
    *hash.first_chunk().expect("sixteen of thirty-two bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_different_marks() {
        assert_eq!(mark(&"a".repeat(32)), mark(&"a".repeat(32)));
        assert_ne!(mark(&"a".repeat(32)), mark(&"b".repeat(32)));
        assert_eq!(machine_mark(), machine_mark());
    }
}
