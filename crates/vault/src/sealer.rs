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
use strongroom_format::vault::header::Header;
use strongroom_keys::{DataKeys, RootKey, VaultKeys};

use crate::error::{Damage, Error, Result};
use crate::reader_rules::ReaderRule;

/// The engine's algorithm for a suite.
#[must_use]
pub fn algorithm(suite: Suite) -> Algorithm {
    Algorithm::Aead(match suite {
        Suite::Xaes256Gcm => Aead::XAes256Gcm,
        Suite::XChaCha20Poly1305 => Aead::XChaCha20Poly1305,
        Suite::Aegis256X2 => Aead::Aegis256X2,
        Suite::Aegis256X4 => Aead::Aegis256X4,
        Suite::Serpent256Poly1305 => Aead::Serpent256Poly1305,
        Suite::Cascade => Aead::Cascade,
    })
}

/// An engine with the vault's sealing keys in it.
pub(crate) struct Sealer {
    engine: Arc<dyn Engine>,
    /// Of each generation that the header accepts, from the lowest on.
    data: Vec<DataSessions>,
    generation_min: u32,
    journal: Session,
    freshness: Session,
    nonces: NonceSource,
}

/// The keys of one generation, in the engine.
struct DataSessions {
    blocks: Session,
    pages: Session,
}

/// Which key a batch is sealed under; those of files are of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Blocks(u32),
    Pages(u32),
    Journal,
    Freshness,
}

impl Sealer {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        header: &Header,
        root: &RootKey,
        keys: &VaultKeys,
    ) -> Result<Sealer> {
        let open = |key: &[u8]| {
            engine
                .session(algorithm(header.suite), key)
                .map_err(|_| Error::Engine("the engine does not offer this vault's suite"))
        };
        let generation_min = if ReaderRule::Generation.is_kept() { header.generation_min } else { 1 };
        let data = (generation_min..=header.generation).map(|generation| {
            let keys = DataKeys::derive(root, header.vault, generation);
            Ok(DataSessions { blocks: open(keys.blocks())?, pages: open(keys.pages())? })
        });
        Ok(Sealer {
            data: data.collect::<Result<_>>()?,
            generation_min,
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

    /// # Errors
    /// Damage when the vault's header does not accept the generation.
    fn data(&self, generation: u32) -> Result<&DataSessions> {
        let index = generation.checked_sub(self.generation_min).map(|index| index as usize);
        let data = index.and_then(|index| self.data.get(index));
        data.ok_or(Error::Damaged(Damage::Page(
            "a page is of a key generation that the vault does not accept",
        )))
    }

    fn session(&self, purpose: Purpose) -> Result<&Session> {
        Ok(match purpose {
            Purpose::Blocks(generation) => &self.data(generation)?.blocks,
            Purpose::Pages(generation) => &self.data(generation)?.pages,
            Purpose::Journal => &self.journal,
            Purpose::Freshness => &self.freshness,
        })
    }

    /// Hands a batch to the engine and returns while it may be under way.
    pub(crate) fn submit(&self, purpose: Purpose, batch: Batch) -> Result<Ticket> {
        let session = self.session(purpose)?;
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
