//! Notifications: what a server tells the kernel unasked.

use super::REPLY_HEADER_LEN;
use crate::node::NodeId;

const INVALIDATE_INODE: i32 = 2;
const INVALIDATE_ENTRY: i32 = 3;
const STORE: i32 = 4;
const PRUNE: i32 = 9;

fn header(code: i32, body_len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    // Names are below 4 GiB; the kernel checks the length.
    bytes.extend_from_slice(&((REPLY_HEADER_LEN + body_len) as u32).to_ne_bytes());
    bytes.extend_from_slice(&code.to_ne_bytes());
    bytes.extend_from_slice(&0u64.to_ne_bytes());
    bytes
}

/// Drop cached attributes of a node and cached data of `len` bytes from
/// `offset`: a negative offset drops attributes only, a length of 0 goes to
/// the end.
#[must_use]
pub fn invalidate_inode(node: NodeId, offset: i64, len: i64) -> Vec<u8> {
    let mut bytes = header(INVALIDATE_INODE, 24);
    bytes.extend_from_slice(&node.0.to_ne_bytes());
    bytes.extend_from_slice(&offset.to_ne_bytes());
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes
}

/// Drop the cached entry of a name; `None` when the name is too long for one.
#[must_use]
pub fn invalidate_entry(parent: NodeId, name: &[u8]) -> Option<Vec<u8>> {
    let name_len = u32::from(u16::try_from(name.len()).ok()?);
    let mut bytes = header(INVALIDATE_ENTRY, 16 + name.len() + 1);
    bytes.extend_from_slice(&parent.0.to_ne_bytes());
    bytes.extend_from_slice(&name_len.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(name);
    bytes.push(0);
    Some(bytes)
}

/// Keep the `len` bytes that follow this message as cached data of a node from
/// `offset`. Data beyond the node's end would move it.
#[must_use]
pub fn store(node: NodeId, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = header(STORE, 24 + len as usize);
    bytes.extend_from_slice(&node.0.to_ne_bytes());
    bytes.extend_from_slice(&offset.to_ne_bytes());
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// Drop the cached entries of nodes, and the nodes with them, as far as they
/// are not in use. Understood from minor version 45 on.
#[must_use]
pub fn prune(nodes: &[NodeId]) -> Vec<u8> {
    let mut bytes = header(PRUNE, 16 + nodes.len() * 8);
    // Messages of more than 4 GiB are none that anybody sends.
    bytes.extend_from_slice(&(nodes.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(&[0; 12]);
    for node in nodes {
        bytes.extend_from_slice(&node.0.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_header_and_name() {
        assert_eq!(invalidate_inode(NodeId(1), 0, 0).len(), 40);
        let entry = invalidate_entry(NodeId(1), b"abc").unwrap();
        assert_eq!(entry[..4], (16u32 + 16 + 4).to_ne_bytes());
        assert_eq!(entry.len(), 36);
        assert_eq!(entry[24..28], 3u32.to_ne_bytes());
        assert!(invalidate_entry(NodeId(1), &[b'a'; 70_000]).is_none());
    }

    #[test]
    fn data_to_keep_is_counted_and_not_part_of_the_message() {
        let message = store(NodeId(7), 8192, 4096);
        assert_eq!(message.len(), 40);
        assert_eq!(message[..4], (40u32 + 4096).to_ne_bytes());
        assert_eq!(message[4..8], 4i32.to_ne_bytes());
        assert_eq!(message[16..24], 7u64.to_ne_bytes());
        assert_eq!(message[24..32], 8192u64.to_ne_bytes());
        assert_eq!(message[32..36], 4096u32.to_ne_bytes());
    }

    #[test]
    fn nodes_to_prune_are_counted() {
        let message = prune(&[NodeId(7), NodeId(8)]);
        assert_eq!(message[..4], 48u32.to_ne_bytes());
        assert_eq!(message[4..8], 9i32.to_ne_bytes());
        assert_eq!(message[16..20], 2u32.to_ne_bytes());
        assert_eq!(message[20..32], [0; 12]);
        assert_eq!(message[40..], 8u64.to_ne_bytes());
    }
}
