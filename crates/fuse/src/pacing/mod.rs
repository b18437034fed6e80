//! How a worker waits for requests, and what is read before it is asked for.
//!
//! A small request costs more in waking two CPUs, the worker's and the
//! program's, than in computing. All that is done about that is here, and none
//! of it changes what is stored or returned (`docs/pacing.md`):
//!
//! - over `/dev/fuse` one worker leads and busy-polls ([`leader`], [`turns`]);
//! - over io_uring a worker stays on the CPU that asks and demotes itself there
//!   ([`demotion`], [`affinity`]);
//! - a [`watchdog`] ends either where a worker is held up;
//! - pages around those that a program misses are put into the page cache
//!   ([`prefetch`]).
//!
//! A transport has a [`Pacer`], says what happens, and does as it is told; it
//! does not know which it has. Pacers do no input or output but to ask what
//! load there is, and know no time but what they are told.

mod affinity;
mod backoff;
mod demotion;
mod leader;
mod limits;
mod load;
pub(crate) mod prefetch;
mod short;
mod turns;
mod watchdog;

use self::demotion::{Demotable, Demotions};
use self::leader::Leader;
use self::turns::Turns;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

/// How one worker waits. Called by its transport, in this order for each
/// request.
pub(crate) trait Pacer: Debug + Send {
    /// The request at hand, if any, was answered, and the worker wants another.
    /// Returns when it may; it polls until the moment that is returned, and
    /// then sleeps.
    fn wants(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// There was none until then, and it goes to sleep.
    fn sleeps(&mut self, _now: Instant) {}

    /// A request came, and is about to be answered.
    fn received(&mut self, now: Instant, message: &[u8], found: Found);

    /// The answer is about to be sent.
    fn replies(&mut self) {}
}

/// How a request was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// By the first poll: it had waited.
    Waiting,
    /// By a later poll.
    Polled,
    /// By being woken.
    Asleep,
}

/// The pacing of one session's workers.
#[derive(Debug)]
pub(crate) struct Pacing {
    turns: Arc<Turns>,
    demotions: Arc<Demotions>,
}

impl Pacing {
    pub(crate) fn new() -> Pacing {
        Pacing { turns: Arc::new(Turns::new()), demotions: Arc::new(Demotions::new()) }
    }

    /// For a worker at `/dev/fuse`, with a queue of its own.
    pub(crate) fn device(&self) -> Box<dyn Pacer> {
        Box::new(Leader::new(Arc::clone(&self.turns)))
    }

    /// For the thread that calls it, a worker at the queue of a CPU.
    pub(crate) fn ring(&self, cpu: u16) -> Box<dyn Pacer> {
        Box::new(Demotable::new(Arc::clone(&self.demotions), cpu))
    }

    /// Says whether workers may poll, which takes CPU time to save time.
    pub(crate) fn allow_polling(&self, allowed: bool) {
        self.turns.allow(allowed);
    }

    /// Nobody polls from now on: workers share a descriptor, of which whether
    /// reading waits is a matter of both, or no program waits for what comes.
    pub(crate) fn never_poll(&self) {
        self.turns.end();
    }

    /// What the watchdog does until the workers have ended. Without it nobody
    /// leads or demotes itself. A session has workers of one kind.
    pub(crate) fn watch(&self) {
        self.turns.watch();
        self.demotions.watch();
    }

    /// The workers have ended.
    pub(crate) fn end(&self) {
        self.turns.end();
        self.demotions.end();
    }
}

/// A kernel without a clock: time passes when a test says so.
#[cfg(test)]
mod fake {
    use super::{Found, Pacer};
    use crate::abi::{Opcode, REQUEST_HEADER_LEN};
    use std::time::{Duration, Instant};

    /// Between a reply and the next request of a program that does not think.
    pub(super) const SOON: Duration = Duration::from_micros(4);
    /// What an answer takes.
    const ANSWER: Duration = Duration::from_micros(10);

    pub(super) struct Kernel {
        now: Instant,
        vain: Duration,
    }

    impl Kernel {
        pub(super) fn new() -> Kernel {
            // Later than all that is made before.
            Kernel { now: Instant::now() + Duration::from_secs(3600), vain: Duration::ZERO }
        }

        pub(super) fn now(&self) -> Instant {
            self.now
        }

        /// Time that was polled in vain.
        pub(super) fn vain(&self) -> Duration {
            self.vain
        }

        pub(super) fn passes(&mut self, time: Duration) {
            self.now += time;
        }

        /// Brings a request, which comes so long after the answer before.
        pub(super) fn brings(&mut self, pacer: &mut dyn Pacer, opcode: Opcode, gap: Duration) -> Found {
            let polls = pacer.wants(self.now).map_or(Duration::ZERO, |until| until - self.now);
            let found = match () {
                () if polls.is_zero() || gap > polls => Found::Asleep,
                () if gap.is_zero() => Found::Waiting,
                () => Found::Polled,
            };
            if found == Found::Asleep {
                self.vain += polls;
                pacer.sleeps(self.now + polls);
            }
            self.now += gap;
            let mut message = 56u32.to_ne_bytes().to_vec();
            message.extend_from_slice(&opcode.raw().to_ne_bytes());
            message.resize(REQUEST_HEADER_LEN + 16, 0);
            pacer.received(self.now, &message, found);
            found
        }

        /// Brings a request and takes its answer.
        pub(super) fn asks(&mut self, pacer: &mut dyn Pacer, opcode: Opcode, gap: Duration) -> Found {
            let found = self.brings(pacer, opcode, gap);
            pacer.replies();
            self.now += ANSWER;
            found
        }
    }
}
