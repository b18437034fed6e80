//! How requests arrive and replies leave.
//!
//! A transport serves one worker and has at most one request at a time, in
//! memory that it owns and lends: the message (header and arguments), and a
//! page-aligned buffer that holds a write's payload and takes a read's data.

mod choice;
mod dev;
mod ring;

pub(crate) use choice::{Chosen, choose};
pub use choice::{TransportChoice, TransportReport};
pub(crate) use dev::Device;
pub(crate) use ring::{DEPTH, Ring, Rings};

use crate::errno::Errno;
use strongroom_engine::Buffer;

/// Why no request was received, nor will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The mount is gone.
    Unmounted,
    /// The connection was aborted.
    Aborted,
    /// Anything else that the kernel said.
    Failed(Errno),
}

/// A request.
#[derive(Debug)]
pub struct Received<'a> {
    /// Header and arguments, as [`parse`](crate::abi::request::parse) takes them.
    pub message: &'a [u8],
    /// Page-aligned and as long as the longest transfer; a write's payload
    /// stands at its start.
    pub payload: &'a mut Buffer,
    /// Bytes of payload that were received; 0 unless it is a write.
    pub payload_len: usize,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// An error.
    Error(Errno),
    /// Success with this body.
    Body(&'a [u8]),
    /// Success with this many bytes of the payload buffer.
    Payload(usize),
}

/// Brings requests to one worker.
pub trait Transport: Send {
    /// Waits for the next request.
    ///
    /// # Errors
    /// When there will be none; the worker ends.
    fn receive(&mut self) -> Result<Received<'_>, ReceiveError>;

    /// Answers the request `unique`.
    ///
    /// # Errors
    /// What the kernel said; `NOENT` when the caller has given up waiting.
    fn reply(&mut self, unique: u64, reply: Reply<'_>) -> Result<(), Errno>;
}
