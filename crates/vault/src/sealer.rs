//! Sealing and opening through the engine that the vault was handed.
//!
//! Everything is submitted before it is waited for, nonces are drawn before
//! anything runs in parallel, and a busy engine is asked again: no caller
//! sees `Busy`. What an engine lost for good is an error here; the scheduler
//! above it redoes such work, so that this does not happen while any engine
//! works.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BatchNonces, Buffer, Completed, Engine, NonceSource, Operation,
    Outcome, Refusal, Segment, Session, StoredNonce, Ticket,
};
use strongroom_format::vault::Suite;
use strongroom_keys::VaultKeys;

use crate::error::{Error, Result};

/// The engine's algorithm for a suite.
#[must_use]
pub fn algorithm(suite: Suite) -> Algorithm {
    Algorithm::Aead(match suite {
        Suite::Xaes256Gcm => Aead::XAes256Gcm,
        Suite::XChaCha20Poly1305 => Aead::XChaCha20Poly1305,
        Suite::Aegis256X2 => Aead::Aegis256X2,
        Suite::Aegis256X4 => Aead::Aegis256X4,
    })
}

/// An engine with the vault's sealing keys in it.
pub(crate) struct Sealer {
    engine: Arc<dyn Engine>,
    blocks: Session,
    pages: Session,
    journal: Session,
    freshness: Session,
    nonces: NonceSource,
}

/// Which key a batch is sealed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Blocks,
    Pages,
    Journal,
    Freshness,
}

impl Sealer {
    pub(crate) fn new(engine: Arc<dyn Engine>, suite: Suite, keys: &VaultKeys) -> Result<Sealer> {
        let open = |key: &[u8]| {
            engine
                .session(algorithm(suite), key)
                .map_err(|_| Error::Engine("the engine does not offer this vault's suite"))
        };
        Ok(Sealer {
            blocks: open(keys.blocks())?,
            pages: open(keys.pages())?,
            journal: open(keys.journal())?,
            freshness: open(keys.freshness())?,
            nonces: NonceSource::new().map_err(|_| Error::Entropy)?,
            engine,
        })
    }

    /// The write session, the first part of every nonce drawn from here.
    pub(crate) fn nonces(&self) -> &NonceSource {
        &self.nonces
    }

    /// Opens another write session.
    pub(crate) fn renew(&self) -> Result<()> {
        self.nonces.renew().map_err(|_| Error::Entropy)
    }

    /// Nonces for a batch of `bytes`.
    pub(crate) fn draw(&self, bytes: usize) -> Result<BatchNonces> {
        self.nonces.batch(bytes).map_err(|_| Error::Entropy)
    }

    /// Hands a batch to the engine and returns while it may be under way.
    pub(crate) fn submit(&self, purpose: Purpose, batch: Batch) -> Result<Ticket> {
        let session = match purpose {
            Purpose::Blocks => &self.blocks,
            Purpose::Pages => &self.pages,
            Purpose::Journal => &self.journal,
            Purpose::Freshness => &self.freshness,
        };
        let mut batch = batch;
        let mut pause = Duration::from_micros(20);
        loop {
            let refused = match self.engine.submit(session, batch) {
                Ok(ticket) => return Ok(ticket),
                Err(refused) => *refused,
            };
            match refused.refusal {
                Refusal::Busy => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                    batch = refused.batch;
                }
                Refusal::Unsupported => return Err(Error::Engine("the engine refused the batch")),
                Refusal::Misuse(what) => return Err(Error::Engine(what)),
            }
        }
    }

    /// Waits for a batch. Forged segments are not an error here: their
    /// verdicts say which they are.
    pub(crate) fn wait(ticket: Ticket) -> Result<Batch> {
        match ticket.wait() {
            Ok(Completed { batch, outcome: Outcome::Done | Outcome::AuthenticationFailed }) => Ok(batch),
            Ok(_) | Err(_) => Err(Error::Engine("the engine lost a batch")),
        }
    }

    /// Seals one range of a buffer in place and gives nonce and tag.
    pub(crate) fn seal_one(
        &self,
        purpose: Purpose,
        buffer: &mut Buffer,
        range: Range<usize>,
        associate: impl FnOnce(&[u8; 24]) -> AssociatedData,
    ) -> Result<([u8; 24], [u8; 16])> {
        let nonce = self.draw(range.len())?.draw();
        let bytes = nonce.bytes();
        let segment = Segment::seal(range.start, range.len(), nonce, associate(&bytes));
        let batch = Batch::new(Operation::Seal, buffer.take(), vec![segment]);
        let batch = Self::wait(self.submit(purpose, batch)?)?;
        *buffer = batch.buffer;
        Ok((bytes, *batch.segments[0].tag()))
    }

    /// Opens one range of a buffer in place; false when it does not open.
    pub(crate) fn open_one(
        &self,
        purpose: Purpose,
        buffer: &mut Buffer,
        range: Range<usize>,
        nonce: [u8; 24],
        tag: [u8; 16],
        associated_data: &[u8],
    ) -> Result<bool> {
        let associated_data = AssociatedData::new(associated_data);
        let segment = Segment::open(range.start, range.len(), StoredNonce::new(nonce), associated_data, tag);
        let batch = Batch::new(Operation::Open, buffer.take(), vec![segment]);
        let batch = Self::wait(self.submit(purpose, batch)?)?;
        *buffer = batch.buffer;
        Ok(batch.segments[0].verdict() == strongroom_engine::Verdict::Done)
    }
}
