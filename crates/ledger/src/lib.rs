//! A witness for crash tests: a writer notes outside of the mount what it does and what was acknowledged,
//! and after a crash the notes say which trees may be there.
//!
//! The work is divided into *lanes*. A lane is one thread with a directory of its own and a log of its own;
//! it does one thing after the other ([`action`]), so that its log is a history. Several lanes make one
//! writer process ([`writer`]), several processes run at once. [`lane`] replays a log into the states of
//! names and contents that are allowed, [`tree`] reads what is there, and [`pattern`] makes contents of
//! which every 8 bytes say which action wrote them, so that an older version or a mixture is noticed.
//!
//! What counts as acknowledged:
//!
//! * `fsync`, `fdatasync`: the file's content and length, and that the file exists; of an `fsync` that a
//!   second thread does beside ([`beside`]), what they were when it began;
//! * a write with `O_SYNC` or `O_DSYNC`: the same for what it wrote, which is all that Linux promises;
//! * `fsync` of a directory: every name of the lane, since names reach the store in their order;
//! * a rename over another file, and an exchange with anything: whoever sees the new name sees what the file
//!   held when it was closed;
//! * `strongroom sync` and a clean unmount: everything that had returned before.
//!
//! What was not acknowledged may be there or not: of every 4 KiB of a file each version since the last
//! acknowledgement, of the names a state of the history that is not older than what was acknowledged.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the project's own tasks alone use it")]

pub mod action;
mod beside;
pub mod campaign;
pub mod churn;
pub mod content;
pub mod lane;
pub mod pattern;
pub mod rounds;
pub mod tree;
pub mod writer;
