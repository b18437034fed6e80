//! The masks for writes of a mount.

use std::collections::VecDeque;
use std::time::Instant;

use strongroom_engine::{FreshNonce, Mask, SessionId};

use super::rules::MaskRule;
use super::{IDLE, Lot, ORDER_MAX, ORDER_MIN, Ready};

/// Bytes that the ring is filled to at most. So little that masks are in a cache
/// from their making to their wiping, and two of the longest orders: one is used
/// up while the other is made.
pub(super) const CAPACITY: usize = 2 * ORDER_MAX;

/// Version and session of masks.
pub(super) type Of = (u64, SessionId);

/// Masks under nonces of one write session, the oldest first.
#[derive(Default)]
pub(super) struct Ring {
    /// Version and session that all of them are of.
    of: Option<Of>,
    ready: VecDeque<Ready<FreshNonce>>,
    orders: VecDeque<Lot<FreshNonce>>,
    /// Bytes for which somebody is placing an order.
    placing: usize,
    /// Bytes that were asked for since it was last empty: what has been written
    /// says how much more will be.
    asked: usize,
    last_asked: Option<Instant>,
}

impl Ring {
    /// Takes what there is of `blocks` masks. Says how many bytes are to be
    /// ordered now; who asked orders them, and [tells](Ring::placed) what came of it.
    pub(super) fn take(
        &mut self,
        of: Of,
        blocks: usize,
        block_len: usize,
        now: Instant,
    ) -> (Vec<Mask<FreshNonce>>, Option<usize>) {
        if !self.is_of(of) || self.is_idle(now) {
            self.clear();
            self.of = Some(of);
        }
        self.last_asked = Some(now);
        self.asked = self.asked.saturating_add(blocks * block_len);
        self.collect();
        self.drop_old(now);
        let taken = self.ready.drain(..blocks.min(self.ready.len())).map(|ready| ready.mask).collect();
        let wanted = self.wanted(block_len);
        self.placing = wanted.unwrap_or(self.placing);
        (taken, wanted)
    }

    /// Takes in an order that was wanted, or that there is none.
    pub(super) fn placed(&mut self, of: Of, lot: Option<Lot<FreshNonce>>) {
        // Of another session or version, its masks are dropped, and their nonces spent.
        if self.is_of(of) {
            self.placing = 0;
            self.orders.extend(lot);
        }
    }

    fn is_of(&self, (version, session): Of) -> bool {
        let is_same = |of: Of| of.0 == version && (of.1 == session || !MaskRule::OfSession.is_kept());
        self.of.is_some_and(is_same)
    }

    /// Takes in what has been made.
    fn collect(&mut self) {
        while let Some(lot) = self.orders.pop_front() {
            match lot.poll() {
                Ok(ready) => self.ready.extend(ready),
                Err(lot) => return self.orders.push_front(lot),
            }
        }
    }

    /// Drops what was ordered too long ago. What was asked for meanwhile no longer
    /// says how much will be.
    fn drop_old(&mut self, now: Instant) {
        let is_old = |ready: &Ready<FreshNonce>| now.duration_since(ready.share.ordered) >= IDLE;
        while self.ready.front().is_some_and(is_old) {
            self.ready.pop_front();
            self.asked = 0;
        }
    }

    /// What is missing to as much again as has been asked for, once it is half of
    /// that: few large orders. Nothing while somebody is placing one.
    fn wanted(&self, block_len: usize) -> Option<usize> {
        let target = self.asked.min(CAPACITY);
        let under_way: usize = self.orders.iter().map(|lot| lot.share.bytes).sum();
        let missing = target.saturating_sub(self.ready.len() * block_len + under_way);
        let least = (target / 2).max(ORDER_MIN).max(block_len);
        (self.placing == 0 && missing >= least).then(|| missing.min(ORDER_MAX).max(block_len))
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.last_asked.is_none_or(|last| now.duration_since(last) >= IDLE)
    }

    /// Drops everything; the nonces of what was ordered are spent.
    pub(super) fn clear(&mut self) {
        *self = Ring::default();
    }
}
