//! Traces: what was asked of a mount or disk and what that took, without
//! contents or names. `docs/whatif.md` is the description.
//!
//! A [`Recorder`] is told of requests by the threads that serve them, and keeps
//! [`Record`]s in bounded memory. A [`Trace`] is these with a [`Header`], as bytes
//! and back. [`chains`] says which request followed which.
//!
//! What this crate does not do: listen to anything by itself, read or write
//! files, replay. Nothing that tells a file, a user or a process apart gets into
//! a record but a caller's number in order of appearance.
#![forbid(unsafe_code)]

mod chains;
mod file;
mod record;
mod recorder;

pub use chains::chains;
pub use file::{EngineTotals, FileError, Header, StoreTotals, Trace};
pub use record::{CPU_UNKNOWN, Kind, Offset, RECORD_LEN, Record};
pub use recorder::{RECORDS_MAX, Recorder, Seen, Started};
