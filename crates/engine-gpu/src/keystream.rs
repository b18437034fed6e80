//! Keystream by itself: of many contexts in one launch, lent in the pinned memory that the device wrote it to.
//!
//! A [`Mask`] is taken by value, used once and wiped, used or not. Messages of the suites are ordered through the
//! contract's [`Masking`], whose orders spend their nonces.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use strongroom_engine::{Decision, Engine, MaskMemory, MaskTicket, Masking, Message, Refusal, Session};
use strongroom_memory::wipe;

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
        let (tells, masks) = channel();
        let deliver = move |made: Result<Vec<Part>, Failure>| {
            // Where nobody waits any more the masks are dropped, and wiped.
            drop(tells.send(made.map(|parts| parts.into_iter().map(Mask).collect())));
        };
        let lens = contexts.iter().map(|context| context.len);
        self.order(&[cipher], lens, deliver, |builder, ranges| {
            builder.pass(cipher, 8);
            for key in keys {
                builder.key(key);
            }
            let streams = contexts.iter().zip(ranges).map(|(context, range)| {
                let &Context { key, nonce, counter, .. } = context;
                (Stream { key: key as u32, nonce, counter }, range.clone())
            });
            builder.counter(streams, false);
        })?;
        let patience = self.launcher().options().deadline * (self.launcher().queue_max() as u32 + 1);
        Ok(Order { masks, patience })
    }

    fn order(
        &self,
        ciphers: &[Cipher],
        lens: impl ExactSizeIterator<Item = usize> + Clone,
        deliver: impl FnOnce(Result<Vec<Part>, Failure>) + Send + 'static,
        build: impl FnOnce(&mut Builder<'_>, &[std::ops::Range<usize>]),
    ) -> Result<(), OrderError> {
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
        self.queue_order(begun, plan, ranges, deliver);
        Ok(())
    }

    fn queue_order(
        &self,
        begun: Begun,
        plan: Plan,
        ranges: Vec<std::ops::Range<usize>>,
        deliver: impl FnOnce(Result<Vec<Part>, Failure>) + Send + 'static,
    ) {
        let launcher = self.launcher();
        let give_back = launcher.returner();
        let data = plan.data();
        let done = move |result: Result<Block, Failure>| {
            let split = |mut block: Block| {
                // What lies between the contexts is keystream too.
                let mut end = data.start;
                for range in ranges.iter().chain([&(data.end..data.end)]) {
                    wipe(&mut block[end..range.start]);
                    end = range.end;
                }
                sys::split(block, &ranges, Box::new(give_back))
            };
            deliver(result.map(split));
        };
        launcher.queue(begun, plan, Box::new(done));
    }
}

impl MaskMemory for Part {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Masking for GpuEngine {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        let (recipe, key) = self.suite_of(session).ok_or(Refusal::Unsupported)?;
        let (ticket, completer) = MaskTicket::pending();
        let deliver = move |made: Result<Vec<Part>, Failure>| {
            // Dropped without an answer, the completer says that there are none.
            let Ok(parts) = made else { return };
            completer.complete(parts.into_iter().map(|part| Box::new(part) as Box<dyn MaskMemory>).collect());
        };
        let lens = messages.iter().map(|message| message.len);
        let ordered = self.order(recipe.ciphers(), lens, deliver, |builder, ranges| {
            let messages: Vec<_> =
                messages.iter().zip(ranges).map(|(message, range)| (message.nonce, range.clone())).collect();
            recipe.build(key, builder, &messages);
        });
        match ordered {
            Ok(()) => Ok(ticket),
            Err(OrderError::Busy) => Err(Refusal::Busy),
            Err(OrderError::Misuse(what)) => Err(Refusal::Misuse(what)),
            Err(OrderError::TooLarge | OrderError::Unsupported | OrderError::Failed(_)) => {
                Err(Refusal::Unsupported)
            }
        }
    }

    fn decide(&self, session: &Session) -> Decision {
        let is_on = self.suite_of(session).is_some();
        Decision { is_on, reason: format!("{} makes them", Engine::name(self)) }
    }

    fn version(&self) -> u64 {
        u64::from(self.is_lost())
    }
}
