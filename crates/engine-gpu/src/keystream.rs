//! Keystream by itself: of many contexts in one launch, lent in the pinned memory that the device wrote it to.
//!
//! A [`Mask`] is taken by value, used once and wiped, used or not. Who orders one has spent its nonce: [`GpuEngine::masks`] takes
//! nonces by value.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use strongroom_engine::{FreshNonce, Session};

use crate::cipher::Cipher;
use crate::engine::GpuEngine;
use crate::failure::Failure;
use crate::launcher::{Begun, NotNow};
use crate::limits::{CONTEXTS_MAX, LAUNCH_BYTES_MAX};
use crate::plan::{Builder, Plan, Stream};
use crate::sys::{self, Block, Part};

/// Keystream of one nonce: of what key, from which counter on, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its key's place among those of the order.
    pub key: usize,
    /// The first 12 bytes of AES's and the others' counter blocks; ChaCha20's nonce.
    pub nonce: [u8; 12],
    /// The first block's counter: big-endian in the last four bytes of the block, as in GCM, or ChaCha20's. It wraps
    /// at 2^32 without a carry into the nonce.
    pub counter: u32,
    /// Bytes; may be odd, or 0.
    pub len: usize,
}

/// A mask that is ordered: its nonce, spent by that, and its bytes.
#[derive(Debug)]
pub struct Wanted {
    /// Of the message that the mask is for.
    pub nonce: FreshNonce,
    /// Bytes of that message.
    pub len: usize,
}

/// Why an order is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// Try again: the queue is full, or all of the pinned memory is lent.
    Busy,
    /// More than [`CONTEXTS_MAX`] contexts, or [`LAUNCH_BYTES_MAX`] bytes.
    TooLarge,
    /// The device does not have the cipher or suite, or not right.
    Unsupported,
    /// The caller's bug.
    Misuse(&'static str),
    /// The device.
    Failed(Failure),
}

impl std::fmt::Display for OrderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OrderError::Busy => f.write_str("the device is busy"),
            OrderError::TooLarge => f.write_str("the order is larger than a launch"),
            OrderError::Unsupported => f.write_str("the device does not offer this"),
            OrderError::Misuse(why) => f.write_str(why),
            OrderError::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for OrderError {}

impl From<NotNow> for OrderError {
    fn from(why: NotNow) -> OrderError {
        match why {
            NotNow::Busy => OrderError::Busy,
            NotNow::Failed(failure) => OrderError::Failed(failure),
        }
    }
}

/// Keystream of one context. It is wiped when it was used, and when it is dropped without that.
pub struct Mask(Part);

impl Mask {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for one of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// XORs the mask onto the first bytes of `data`, or what there are of them.
    ///
    /// # Panics
    /// When there are more than the mask has.
    pub fn xor_onto(self, data: &mut [u8]) {
        assert!(data.len() <= self.len(), "the mask is shorter than the data");
        data.iter_mut().zip(&*self.0).for_each(|(byte, mask)| *byte ^= mask);
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} bytes)", self.len())
    }
}

/// Masks to come, in the order of their contexts. Dropped, they are made all the same, and wiped.
#[must_use = "an order is waited for, or its nonces are wasted"]
pub struct Order {
    masks: Receiver<Result<Vec<Mask>, Failure>>,
    patience: Duration,
}

impl Order {
    /// Waits for them.
    ///
    /// # Errors
    /// [`Failure`]; there are no masks then.
    pub fn wait(self) -> Result<Vec<Mask>, Failure> {
        match self.masks.recv_timeout(self.patience) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(Failure::Late),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Lost),
        }
    }

    /// Without waiting.
    ///
    /// # Errors
    /// The order, where they are not there yet.
    pub fn poll(self) -> Result<Result<Vec<Mask>, Failure>, Order> {
        match self.masks.try_recv() {
            Ok(result) => Ok(result),
            Err(TryRecvError::Empty) => Err(self),
            Err(TryRecvError::Disconnected) => Ok(Err(Failure::Lost)),
        }
    }
}

impl GpuEngine {
    /// Orders keystream of a cipher, of up to [`CONTEXTS_MAX`] contexts in one launch. Who orders it answers for what
    /// is never used twice: a key with a nonce and counter.
    ///
    /// # Errors
    /// [`OrderError`]; nothing was made.
    pub fn keystream(
        &self,
        cipher: Cipher,
        keys: &[[u8; 32]],
        contexts: &[Context],
    ) -> Result<Order, OrderError> {
        if contexts.iter().any(|context| context.key >= keys.len()) {
            return Err(OrderError::Misuse("a context names a key that there is not"));
        }
        if keys.len() > CONTEXTS_MAX {
            return Err(OrderError::TooLarge);
        }
        self.order(&[cipher], contexts.iter().map(|context| context.len), |builder, ranges| {
            builder.pass(cipher, 8);
            for key in keys {
                builder.key(key);
            }
            let streams = contexts.iter().zip(ranges).map(|(context, range)| {
                let &Context { key, nonce, counter, .. } = context;
                (Stream { key: key as u32, nonce, counter }, range.clone())
            });
            builder.counter(streams, false);
        })
    }

    /// Orders the masks of messages of a suite: what sealing under their nonces XORs onto their data.
    ///
    /// # Errors
    /// [`OrderError`]. The nonces are spent, since nobody should have to think about it.
    pub fn masks(&self, session: &Session, wanted: Vec<Wanted>) -> Result<Order, OrderError> {
        let (recipe, key) = self.suite_of(session).ok_or(OrderError::Unsupported)?;
        self.order(recipe.ciphers(), wanted.iter().map(|wanted| wanted.len), |builder, ranges| {
            let messages: Vec<_> = wanted
                .iter()
                .zip(ranges)
                .map(|(wanted, range)| (wanted.nonce.bytes(), range.clone()))
                .collect();
            recipe.build(key, builder, &messages);
        })
    }

    fn order(
        &self,
        ciphers: &[Cipher],
        lens: impl ExactSizeIterator<Item = usize> + Clone,
        build: impl FnOnce(&mut Builder<'_>, &[std::ops::Range<usize>]),
    ) -> Result<Order, OrderError> {
        let bytes = lens.clone().try_fold(0usize, usize::checked_add);
        if lens.len() > CONTEXTS_MAX || bytes.is_none_or(|bytes| bytes > LAUNCH_BYTES_MAX) {
            return Err(OrderError::TooLarge);
        }
        if !ciphers.iter().all(|&cipher| self.passes(cipher)) {
            return Err(OrderError::Unsupported);
        }
        let mut begun = self.launcher().begin()?;
        let mut builder = Builder::new(begun.block());
        let ranges: Vec<_> = lens.map(|len| builder.run(len)).collect();
        build(&mut builder, &ranges);
        let plan = builder.finish();
        Ok(self.queue_order(begun, plan, ranges))
    }

    fn queue_order(&self, begun: Begun, plan: Plan, ranges: Vec<std::ops::Range<usize>>) -> Order {
        let launcher = self.launcher();
        let (tells, masks) = channel();
        let give_back = launcher.returner();
        let data = plan.data();
        let done = move |result: Result<Block, Failure>| {
            let split = |mut block: Block| {
                // What lies between the contexts is keystream too.
                let mut end = data.start;
                for range in ranges.iter().chain([&(data.end..data.end)]) {
                    zeroize::Zeroize::zeroize(&mut block[end..range.start]);
                    end = range.end;
                }
                let parts = sys::split(block, &ranges, Box::new(give_back));
                parts.into_iter().map(Mask).collect::<Vec<_>>()
            };
            // Where nobody waits any more the masks are dropped, and wiped.
            drop(tells.send(result.map(split)));
        };
        launcher.queue(begun, plan, Box::new(done));
        let patience = launcher.options().deadline * (launcher.queue_max() as u32 + 1);
        Order { masks, patience }
    }
}
