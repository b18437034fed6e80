//! The engine contract: what computes (an [`Engine`]), what it is asked to do
//! (a [`Batch`] of [`Segment`]s on a [`Session`]), and how it answers (a
//! [`Ticket`] that becomes a [`Completed`]).
//!
//! The contract is asynchronous: a batch owns its buffer from `submit` until
//! its completion, so that a device may work on it while the caller does
//! something else. A CPU engine completes inside `submit` and costs no
//! allocation and no thread switch.
//!
//! Consumers hold a [`client::Client`], the one place that retries and waits.
//! How an engine is written, and how devices fit, stands in [`implementing`].
//!
//! What this crate does not do: place work (that is the scheduler, itself an
//! engine over engines) or compute anything (that is an `engine-*` crate).
#![forbid(unsafe_code)]

mod algorithm;
mod batch;
mod buffer;
pub mod client;
pub mod completion;
mod crossing;
pub mod implementing;
mod layer;
pub mod limits;
mod machine;
mod mask;
mod nonce;
mod origin;
mod sync;
mod ticket;
mod validate;

#[cfg(all(test, strongroom_model, feature = "unruly"))]
mod model;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "conformance", feature = "unruly"))]
pub mod unruly;

pub use algorithm::{Aead, Algorithm, BlockCipher, SectorCipher, SectorIv, SectorMode, UnknownAlgorithm};
pub use batch::{AssociatedData, Batch, Operation, SectorNumbers, Segment, Tag, Verdict};
pub use buffer::{Buffer, LentMemory};
pub use crossing::{Cross, Crossing};
pub use layer::Layer;
pub use mask::{
    Decision, Mask, MaskCompleter, MaskMemory, MaskNonce, MaskTicket, Masking, Message, NotMade, Order,
};
pub use nonce::{BatchNonces, EntropyError, FreshNonce, NonceSource, SessionId, StoredNonce, StreamNonces};
pub use origin::Origin;
pub use ticket::{
    Answer, Answered, Completed, Completer, Outcome, Poller, Ticket, Vanished, complete_all, thread_cpu_ns,
};

pub use strongroom_units::SharedBytes;

use std::any::Any;
use std::sync::Arc;

/// The first eight bytes of every nonce of AEGIS-256; the contract's 24 follow.
pub const AEGIS_NONCE_PREFIX: [u8; 8] = *b"strongrm";

/// What an engine says of one algorithm and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// True when the batch is complete before `submit` returns.
    pub inline: bool,
    /// Most bytes of one batch's buffer.
    pub batch_bytes_max: usize,
    /// Most segments of one batch.
    pub segments_max: usize,
    /// Most batches that are in flight at once; `usize::MAX` where no limit is
    /// known. What is beyond is refused as busy.
    pub queue_max: usize,
    /// Alignment in bytes that segment starts need; 1 when any will do.
    pub alignment: usize,
    /// Expected time of a small batch, in nanoseconds.
    pub latency_ns: u64,
    /// Expected rate of large batches, in bytes per second.
    pub bytes_per_second: u64,
    /// Whether a [mask](Mask) that a segment brings spares it most of its work.
    pub takes_masks: bool,
}

/// A key schedule bound to an algorithm on an engine; cheap to clone. What is
/// inside belongs to the engine that made it, which alone can look into it,
/// and is wiped when the last clone is dropped.
#[derive(Clone)]
pub struct Session {
    algorithm: Algorithm,
    state: Arc<dyn Any + Send + Sync>,
}

impl Session {
    /// For engines: wraps the state that `submit` will ask back.
    #[must_use]
    pub fn new(algorithm: Algorithm, state: Arc<dyn Any + Send + Sync>) -> Session {
        Session { algorithm, state }
    }

    /// What this session computes.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// For engines: the state, if it is of type `T`, which it is when this
    /// engine made the session.
    #[must_use]
    pub fn state<T: 'static>(&self) -> Option<&T> {
        self.state.downcast_ref()
    }
}

/// Why an engine cannot open a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// This engine does not have the algorithm; place it elsewhere.
    Unsupported,
    /// The key is not of the algorithm's length.
    KeyLength,
    /// The device is gone or its self-test failed.
    DeviceLost,
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SessionError::Unsupported => "the engine does not support this algorithm",
            SessionError::KeyLength => "the key has the wrong length for this algorithm",
            SessionError::DeviceLost => "the device is lost or failed its self-test",
        })
    }
}

impl std::error::Error for SessionError {}

/// Why `submit` gave a batch back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full: try again, or elsewhere.
    Busy,
    /// Not this algorithm, operation, size or alignment: place it elsewhere.
    Unsupported,
    /// The caller's bug: overlapping or out-of-range segments, or a session
    /// of another engine.
    Misuse(&'static str),
}

/// A batch that was not accepted; its buffer holds what it held.
#[derive(Debug)]
pub struct Refused {
    /// The batch, as it was.
    pub batch: Batch,
    /// Why.
    pub refusal: Refusal,
}

/// Something that computes. Implementations are shared by threads.
///
/// No method has a default, so that an engine over others cannot lose one;
/// what only looks on or changes one step is a [`Layer`]. How to write one
/// stands in [`implementing`].
pub trait Engine: Send + Sync {
    /// A short, stable name: `cpu-vaes`, `reference`, `fixed(cpu-vaes)`.
    fn name(&self) -> &str;

    /// What this engine says of `algorithm` and `operation`; `None` when it
    /// does not have them.
    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability>;

    /// Opens a session for `key`, of one of [`Algorithm::key_lens`]. The engine copies what it needs and wipes it when
    /// the session is dropped.
    ///
    /// # Errors
    /// [`SessionError`]; nothing was kept.
    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError>;

    /// Takes a batch. An inline engine has completed it when this returns.
    /// Another one may leave it in its queue until [`Engine::flush`]: whoever
    /// submits flushes before waiting, and before asking a busy engine again.
    ///
    /// # Errors
    /// The batch, untouched, with the reason.
    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>>;

    /// Begins all that was submitted, by any thread: the doorbell, one for as
    /// many batches as have come. Nobody calls it for batches that were inline.
    fn flush(&self);

    /// `len` zero bytes, page-aligned, for batches of this session: memory that
    /// the engine lends ([`Buffer::lent`]), because it is pinned, registered or
    /// mapped already, or [`Buffer::new`] where it has none or none left. Any
    /// batch may have any buffer all the same.
    fn buffer(&self, session: &Session, len: usize) -> Buffer;

    /// Itself, or what it wraps, where it can decrypt sectors out of memory that
    /// others share; none where it cannot.
    fn crossing(&self) -> Option<&dyn Cross>;

    /// Itself, or what it wraps, where it can make keystream ahead; none where
    /// it cannot, or where that is never of use.
    fn masking(&self) -> Option<&dyn Masking>;
}
