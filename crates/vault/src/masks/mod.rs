//! Masks for a mount: keystream made ahead by a device, so that of sealing and
//! opening a block an XOR and authentication are left. `docs/masks.md` has the
//! rules.
//!
//! One [`ring`] for writes, one [`window`] for each open file that is read in
//! sequence. No thread: who writes or reads collects what has been made, takes
//! from it, and orders more. A mask that is not there yet is not waited for.
//!
//! Invariants: a write mask's nonce was drawn for it and goes nowhere else; a
//! read mask helps only the block whose nonce it was made for; what all pools
//! hold is bounded by [`HELD_MAX`]; what nobody takes for [`IDLE`] is dropped.

#[cfg(feature = "planted-faults")]
pub(crate) mod planted;
mod ring;
pub(crate) mod rules;
pub(crate) mod window;

use std::sync::Arc;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use strongroom_engine::client::Client;
use strongroom_engine::{Decision, FreshNonce, Mask, MaskNonce, NonceSource, Order, SessionId};

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard};
use ring::Ring;
use rules::MaskRule;

/// Bytes of masks that a mount holds at most, made or ordered.
const HELD_MAX: usize = 64 << 20;

/// Most bytes of one order: long enough for a device to be busy with and for a
/// CPU to seldom place one, short enough that the first masks of it are there soon.
const ORDER_MAX: usize = 4 << 20;

/// Least bytes of one order: less is not worth a launch.
const ORDER_MIN: usize = 128 << 10;

/// What has not been used for so long is given back, and a mask for writing that
/// was ordered so long ago is not used: its nonce was drawn then.
const IDLE: Duration = Duration::from_secs(5);

/// What pools of one kind did since the mount, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskCounts {
    /// Ordered of a device.
    pub ordered: u64,
    /// Of blocks sealed or opened with a mask.
    pub hits: u64,
    /// Of blocks sealed or opened without, while masks were on.
    pub misses: u64,
}

/// What is known of a mount's masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskReport {
    /// Whether they are ordered, and why.
    pub decision: Decision,
    /// Bytes held now, made or ordered.
    pub held: u64,
    /// For writes.
    pub writes: MaskCounts,
    /// For reads.
    pub reads: MaskCounts,
}

/// Masks of a mount whose engine makes them.
pub(crate) struct Masks {
    /// Of new files: what is decided for it holds for all.
    blocks: Client,
    block_len: usize,
    is_on: AtomicBool,
    version: AtomicU64,
    decision: Mutex<Decision>,
    held: Arc<AtomicUsize>,
    ring: Mutex<Ring>,
    pub(crate) writes: Counters,
    pub(crate) reads: Counters,
    #[cfg(feature = "planted-faults")]
    again: planted::Again,
}

#[derive(Default)]
pub(crate) struct Counters {
    ordered: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Counters {
    fn counts(&self) -> MaskCounts {
        MaskCounts {
            ordered: self.ordered.load(Relaxed),
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
        }
    }

    pub(crate) fn used(&self, hits: usize, misses: usize) {
        for (counter, bytes) in [(&self.hits, hits), (&self.misses, misses)] {
            if bytes > 0 {
                counter.fetch_add(bytes as u64, Relaxed);
            }
        }
    }
}

/// What one order takes of [`HELD_MAX`], until its last mask is gone.
struct Share {
    held: Arc<AtomicUsize>,
    bytes: usize,
    ordered: Instant,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// Masks under way.
pub(crate) struct Lot<N> {
    order: Order<N>,
    share: Arc<Share>,
}

/// A mask in a pool.
struct Ready<N> {
    mask: Mask<N>,
    share: Arc<Share>,
}

impl<N: MaskNonce> Lot<N> {
    /// The masks, if they are there.
    fn poll(self) -> Result<impl Iterator<Item = Ready<N>>, Lot<N>> {
        let Lot { order, share } = self;
        match order.poll() {
            Ok(masks) => Ok(masks.into_iter().map(move |mask| Ready { mask, share: Arc::clone(&share) })),
            Err(order) => Err(Lot { order, share }),
        }
    }
}

impl Masks {
    /// None where the engine makes no masks.
    pub(crate) fn new(blocks: &Client, block_len: usize) -> Option<Masks> {
        let masking = blocks.engine().masking()?;
        // Decided before the version is read again, a change meanwhile is seen.
        let version = masking.version();
        let decision = masking.decide(blocks.session());
        Some(Masks {
            blocks: blocks.clone(),
            block_len,
            is_on: AtomicBool::new(decision.is_on),
            version: AtomicU64::new(version),
            decision: Mutex::new(decision),
            held: Arc::default(),
            ring: Mutex::new(Ring::default()),
            writes: Counters::default(),
            reads: Counters::default(),
            #[cfg(feature = "planted-faults")]
            again: planted::Again::default(),
        })
    }

    /// The version that masks made from now on are of; `None` while there are
    /// to be none. What was made under another is dropped.
    pub(crate) fn standing(&self) -> Option<u64> {
        let masking = self.blocks.engine().masking()?;
        let version = masking.version();
        if version != self.version.load(Relaxed) {
            let mut decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
            *decision = masking.decide(self.blocks.session());
            self.is_on.store(decision.is_on, Relaxed);
            self.version.store(version, Relaxed);
        }
        self.is_on.load(Relaxed).then_some(version)
    }

    /// Up to `blocks` masks of whole blocks, all of nonces of `session`.
    pub(crate) fn take(
        &self,
        nonces: &NonceSource,
        session: SessionId,
        blocks: usize,
    ) -> Vec<Mask<FreshNonce>> {
        if self.standing().is_none() {
            self.drop_for_writes();
            return Vec::new();
        }
        let (of, (masks, wanted)) = {
            let mut ring = self.ring();
            let Some(version) = self.standing() else { return Vec::new() };
            let of = (version, session);
            (of, ring.take(of, blocks, self.block_len, Instant::now()))
        };
        if let Some(bytes) = wanted {
            // Others write meanwhile.
            let lot = self.order_for_writes(nonces, session, bytes);
            self.ring().placed(of, lot);
        }
        self.writes.used(masks.len() * self.block_len, (blocks - masks.len()) * self.block_len);
        #[cfg(feature = "planted-faults")]
        self.again.note(&masks);
        masks
    }

    /// A nonce that was given out before, where a rule was left out.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn draw_again(&self, session: SessionId) -> Option<FreshNonce> {
        self.again.draw(session)
    }

    /// Told of a write that failed.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn note_failure(&self) {
        self.again.note_failure();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops masks that were made before there were to be none.
    fn drop_for_writes(&self) {
        if self.held.load(Relaxed) > 0 {
            self.ring().clear();
        }
    }

    /// Orders masks of whole blocks under fresh nonces of a session; `None` where
    /// it is not the present one, or it cannot be now.
    fn order_for_writes(
        &self,
        nonces: &NonceSource,
        session: SessionId,
        bytes: usize,
    ) -> Option<Lot<FreshNonce>> {
        let mut batch = nonces.batch(bytes).ok().filter(|batch| batch.session() == session)?;
        let messages = (0..bytes / self.block_len).map(|_| (batch.draw(), self.block_len));
        self.order(&self.blocks, messages.collect(), &self.writes)
    }

    /// Orders masks under a key; `None` where it cannot be now.
    pub(crate) fn order<N: MaskNonce>(
        &self,
        blocks: &Client,
        messages: Vec<(N, usize)>,
        counters: &Counters,
    ) -> Option<Lot<N>> {
        let bytes = messages.iter().map(|(_, len)| len).sum();
        let share = self.reserve(bytes)?;
        let order = Order::place(blocks.engine().masking()?, blocks.session(), messages).ok()?;
        counters.ordered.fetch_add(bytes as u64, Relaxed);
        Some(Lot { order, share: Arc::new(share) })
    }

    fn reserve(&self, bytes: usize) -> Option<Share> {
        let held = self.held.fetch_add(bytes, Relaxed) + bytes;
        let share = Share { held: Arc::clone(&self.held), bytes, ordered: Instant::now() };
        (held <= HELD_MAX || !MaskRule::Bounded.is_kept()).then_some(share)
    }

    /// Drops what the ring has not been asked for lately.
    pub(crate) fn give_back(&self) {
        let mut ring = self.ring();
        if ring.is_idle(Instant::now()) || self.standing().is_none() {
            ring.clear();
        }
    }

    pub(crate) fn report(&self) -> MaskReport {
        self.standing();
        let decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner).clone();
        MaskReport {
            decision,
            held: self.held.load(Relaxed) as u64,
            writes: self.writes.counts(),
            reads: self.reads.counts(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use strongroom_engine::{Aead, Algorithm, Engine};
    use strongroom_engine_cpu::CpuEngine;
    use strongroom_engine_sim::{Faults, Model, SimEngine};

    use super::*;

    /// Masks of a device that makes them at once.
    pub(crate) fn masks(block_len: usize) -> Masks {
        let model = Model { fixed: Duration::ZERO, bytes_per_second: u64::MAX, ..Model::moderate() };
        let device = SimEngine::new(Arc::new(CpuEngine::new()), model, Faults::default(), 1);
        let device: Arc<dyn Engine> = Arc::new(device);
        let client = Client::open(&device, Algorithm::Aead(Aead::Serpent256Poly1305), &[7; 32]).unwrap();
        Masks::new(&client, block_len).expect("it makes masks")
    }

    fn take(masks: &Masks, nonces: &NonceSource, blocks: usize) -> Vec<Mask<FreshNonce>> {
        masks.take(nonces, nonces.session(), blocks)
    }

    /// Asks until there are so many, as one that writes all the time does.
    fn await_masks(masks: &Masks, nonces: &NonceSource) -> Vec<Mask<FreshNonce>> {
        loop {
            let taken = take(masks, nonces, 64);
            if taken.len() == 64 {
                return taken;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_mask_has_a_nonce_of_its_own_across_sessions_and_restarts() {
        let (masks, nonces) = (masks(4096), NonceSource::new().unwrap());
        let mut seen = std::collections::HashSet::new();
        for round in 0..6 {
            for mask in await_masks(&masks, &nonces) {
                assert_eq!(mask.nonce().session(), nonces.session(), "a session's end drops its masks");
                assert!(seen.insert(mask.nonce().bytes()));
            }
            match round % 3 {
                0 => nonces.renew().unwrap(),
                1 => masks.ring.lock().unwrap().clear(),
                _ => {}
            }
        }
    }

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let (masks, nonces) = (masks(4096), NonceSource::new().unwrap());
        for _ in 0..200 {
            drop(take(&masks, &nonces, 4096));
        }
        assert!(masks.report().held <= HELD_MAX as u64 && masks.report().held > 0);
        let lots: Vec<_> = (0..200)
            .map_while(|_| {
                let mut batch = nonces.batch(1 << 20).unwrap();
                let messages = (0..256).map(|_| (batch.draw(), 4096)).collect();
                masks.order(&masks.blocks, messages, &masks.writes)
            })
            .collect();
        assert!(!lots.is_empty() && lots.len() < 200 && masks.report().held <= HELD_MAX as u64);
        drop(lots);
        masks.ring.lock().unwrap().clear();
        assert_eq!(masks.report().held, 0);
    }

    /// One that writes a little now and then takes no mask that has waited.
    #[test]
    fn a_mask_that_has_waited_is_not_used() {
        let (masks, nonces) = (masks(4096), NonceSource::new().unwrap());
        drop(await_masks(&masks, &nonces));
        let mut ring = masks.ring.lock().unwrap();
        let of = (masks.standing().unwrap(), nonces.session());
        let mut later = |after: Duration| ring.take(of, 1, 4096, Instant::now() + after).0.len();
        let soon = IDLE / 2;
        // What was ordered last is being made.
        while later(Duration::ZERO) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(later(soon), 1, "in use, and not old");
        assert_eq!(later(IDLE + IDLE / 4), 0, "in use, and old");
    }
}
