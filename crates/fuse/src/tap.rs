//! For who looks on while requests are answered: what was asked and how long
//! it took, without contents or names.

use crate::abi::request::{Operation, Request};
use crate::filesystem::NodeId;
use std::time::Duration;

/// What is asked, as far as a [`Tap`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tapped {
    /// Bytes of a file, from an offset.
    Read(u64, usize),
    /// Bytes to a file, at an offset.
    Write(u64, usize),
    /// That what was written lasts: `fsync`, `fsyncdir`, and `flush` at a close.
    Durable,
    /// Names and attributes.
    Names,
    /// Anything else, and what could not be decoded.
    Other,
}

/// Told of each request by the thread that answers it, before and after. It
/// must not wait.
pub trait Tap: Send + Sync {
    /// Whether it wants to be told now.
    fn is_on(&self) -> bool;

    /// This thread begins with a request on a node, which the thread `caller`
    /// has asked; 0 where the kernel asks on nobody's account.
    fn begins(&self, what: Tapped, node: NodeId, caller: u32);

    /// It has answered, so long after it received the request.
    fn answered(&self, took: Duration);
}

impl From<&Request<'_>> for Tapped {
    fn from(request: &Request<'_>) -> Tapped {
        match &request.operation {
            Operation::Read(read) => Tapped::Read(read.offset, read.size),
            Operation::Write(write) => Tapped::Write(write.offset, write.len),
            Operation::Fsync { .. }
            | Operation::FsyncDir { .. }
            | Operation::Flush { .. }
            | Operation::SyncFs => Tapped::Durable,
            Operation::Forget { .. }
            | Operation::BatchForget(_)
            | Operation::Interrupt { .. }
            | Operation::Init(_)
            | Operation::Destroy => Tapped::Other,
            _ => Tapped::Names,
        }
    }
}
