//! The masks for writes of a mount.

use std::collections::VecDeque;
use std::time::Instant;

use strongroom_engine::{FreshNonce, Mask, NonceSource, SessionId};

use super::{IDLE, Lot, Masks, ORDER_MAX, ORDER_MIN, Ready};

/// Bytes that the ring is filled to at most.
const CAPACITY: usize = 16 << 20;

/// Masks under nonces of one write session, the oldest first.
#[derive(Default)]
pub(super) struct Ring {
    /// Version and session that all of them are of.
    of: Option<(u64, SessionId)>,
    ready: VecDeque<Ready<FreshNonce>>,
    orders: VecDeque<Lot<FreshNonce>>,
    /// Bytes that were asked for since it was last empty: what has been written
    /// says how much more will be.
    asked: usize,
    last_asked: Option<Instant>,
}

impl Ring {
    /// Takes what there is of `blocks` masks, and orders more.
    pub(super) fn take(
        &mut self,
        masks: &Masks,
        nonces: &NonceSource,
        of: (u64, SessionId),
        blocks: usize,
        now: Instant,
    ) -> Vec<Mask<FreshNonce>> {
        if self.of != Some(of) || self.is_idle(now) {
            self.clear();
            self.of = Some(of);
        }
        self.last_asked = Some(now);
        self.asked = self.asked.saturating_add(blocks * masks.block_len);
        self.collect();
        self.drop_old(now);
        let taken = self.ready.drain(..blocks.min(self.ready.len())).map(|ready| ready.mask).collect();
        self.refill(masks, nonces, of.1);
        taken
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

    /// Orders what is missing to as much again as has been asked for.
    fn refill(&mut self, masks: &Masks, nonces: &NonceSource, session: SessionId) {
        let target = self.asked.min(CAPACITY);
        let under_way: usize = self.orders.iter().map(|lot| lot.order.bytes()).sum();
        let mut there = self.ready.len() * masks.block_len + under_way;
        while there + ORDER_MIN.max(masks.block_len) <= target {
            let bytes = (target - there).min(ORDER_MAX).max(masks.block_len);
            let Ok(mut batch) = nonces.batch(bytes) else { return };
            if batch.session() != session {
                return;
            }
            let messages = (0..bytes / masks.block_len).map(|_| (batch.draw(), masks.block_len));
            let Some(lot) = masks.order(&masks.blocks, messages.collect(), &masks.writes) else { return };
            there += lot.order.bytes();
            self.orders.push_back(lot);
        }
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.last_asked.is_none_or(|last| now.duration_since(last) >= IDLE)
    }

    /// Drops everything; the nonces of what was ordered are spent.
    pub(super) fn clear(&mut self) {
        *self = Ring::default();
    }
}
