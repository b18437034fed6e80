//! Sealing and opening through the engine that the vault was handed.
//!
//! Everything is submitted before it is waited for, and nonces are drawn before
//! anything runs in parallel. What an engine lost for good is an error here; the
//! scheduler redoes such work, so that this does not happen while any engine
//! works.

use std::ops::Range;
use std::sync::Arc;

use strongroom_engine::client::{Client, Flight};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BatchNonces, Buffer, Engine, FreshNonce, Mask, NonceSource,
    Operation, Segment, SessionId, StoredNonce,
};
use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_keys::{DataKeys, RootKey, VaultKeys};

use crate::error::{Damage, Error, Result};
use crate::masks::Masks;
use crate::masks::rules::MaskRule;
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
    /// Of each generation that the header accepts, from the lowest on.
    data: Vec<DataClients>,
    generation_min: u32,
    journal: Client,
    freshness: Client,
    is_inline: bool,
    nonces: NonceSource,
    masks: Option<Masks>,
}

/// Nonces for blocks that are sealed together, all of one session: those that
/// come with a mask, then fresh ones.
pub(crate) struct BlockNonces {
    fresh: BatchNonces,
    masks: std::vec::IntoIter<Mask<FreshNonce>>,
    /// Used before, where a test has left a rule out.
    #[cfg(feature = "planted-faults")]
    again: Option<FreshNonce>,
}

impl BlockNonces {
    /// The session of all of them.
    pub(crate) fn session(&self) -> SessionId {
        self.fresh.session()
    }

    /// A block to be sealed under the next one.
    pub(crate) fn seal(&mut self, start: usize, len: usize, bound: AssociatedData) -> Segment {
        #[cfg(feature = "planted-faults")]
        if let Some(nonce) = self.again.take() {
            return Segment::seal(start, len, nonce, bound);
        }
        match self.masks.next() {
            Some(mask) => Segment::seal_masked(start, len, mask, bound),
            None => Segment::seal(start, len, self.fresh.draw(), bound),
        }
    }
}

/// The keys of one generation, in the engine.
struct DataClients {
    blocks: Client,
    pages: Client,
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
        engine: &Arc<dyn Engine>,
        header: &Header,
        root: &RootKey,
        keys: &VaultKeys,
    ) -> Result<Sealer> {
        let open = |key: &[u8]| {
            Client::open(engine, algorithm(header.suite), key)
                .map_err(|_| Error::Engine("the engine does not offer this vault's suite"))
        };
        let generation_min = if ReaderRule::Generation.is_kept() { header.generation_min } else { 1 };
        let data = (generation_min..=header.generation).map(|generation| {
            let keys = DataKeys::derive(root, header.vault, generation);
            Ok(DataClients { blocks: open(keys.blocks())?, pages: open(keys.pages())? })
        });
        let journal = open(keys.journal())?;
        let data: Vec<DataClients> = data.collect::<Result<_>>()?;
        let block_len = header.block_size.bytes() as usize;
        let masks = data.last().and_then(|newest| Masks::new(&newest.blocks, block_len));
        Ok(Sealer {
            data,
            masks,
            generation_min,
            is_inline: [Operation::Seal, Operation::Open]
                .iter()
                .all(|operation| journal.is_inline(*operation)),
            journal,
            freshness: open(keys.freshness())?,
            nonces: NonceSource::new().map_err(|_| Error::Entropy)?,
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

    /// Nonces for `blocks` blocks of `bytes` together, with masks for as many
    /// as there are.
    pub(crate) fn draw_for_blocks(
        &self,
        generation: u32,
        blocks: usize,
        bytes: usize,
    ) -> Result<BlockNonces> {
        let fresh = self.draw(bytes)?;
        #[cfg(feature = "planted-faults")]
        let again = self.masks.as_ref().and_then(|masks| masks.draw_again(fresh.session()));
        let is_newest = generation as usize + 1 == self.generation_min as usize + self.data.len();
        let taken = match &self.masks {
            Some(masks) if is_newest || !MaskRule::OfGeneration.is_kept() => {
                masks.take(&self.nonces, fresh.session(), blocks)
            }
            _ => Vec::new(),
        };
        Ok(BlockNonces {
            fresh,
            masks: taken.into_iter(),
            #[cfg(feature = "planted-faults")]
            again,
        })
    }

    /// Where masks are made ahead.
    pub(crate) fn masks(&self) -> Option<&Masks> {
        self.masks.as_ref()
    }

    /// # Errors
    /// Damage when the vault's header does not accept the generation.
    fn data(&self, generation: u32) -> Result<&DataClients> {
        let index = generation.checked_sub(self.generation_min).map(|index| index as usize);
        let data = index.and_then(|index| self.data.get(index));
        data.ok_or(Error::Damaged(Damage::Page(
            "a page is of a key generation that the vault does not accept",
        )))
    }

    pub(crate) fn client(&self, purpose: Purpose) -> Result<&Client> {
        Ok(match purpose {
            Purpose::Blocks(generation) => &self.data(generation)?.blocks,
            Purpose::Pages(generation) => &self.data(generation)?.pages,
            Purpose::Journal => &self.journal,
            Purpose::Freshness => &self.freshness,
        })
    }

    /// Computes a batch and waits for it. Forged segments are not an error here:
    /// their verdicts say which they are.
    pub(crate) fn execute(&self, purpose: Purpose, batch: Batch) -> Result<Batch> {
        Ok(self.client(purpose)?.execute(batch)?.batch)
    }

    /// Begins batches that are wanted together; they come back in their order.
    pub(crate) fn submit_many(
        &self,
        purpose: Purpose,
        batches: impl IntoIterator<Item = Batch>,
    ) -> Result<Flight<'_>> {
        Ok(self.client(purpose)?.submit_many(batches)?)
    }

    /// Whether the engine computes on the caller's thread, so that nobody ever
    /// waits for it.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// `len` zero bytes that suit the engine, for batches of this purpose.
    pub(crate) fn buffer(&self, purpose: Purpose, len: usize) -> Buffer {
        self.client(purpose).map_or_else(|_| Buffer::new(len), |client| client.buffer(len))
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
        let batch = self.execute(purpose, batch)?;
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
        let batch = self.execute(purpose, batch)?;
        *buffer = batch.buffer;
        Ok(batch.segments[0].verdict() == strongroom_engine::Verdict::Done)
    }
}
