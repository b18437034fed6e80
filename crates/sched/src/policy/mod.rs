//! Policies: pure functions from what is known to a placement.
//!
//! A policy sees sizes, counts and statistics, never keys, data or clocks. So
//! the simulator runs the very functions that a mount runs.

pub mod aca;
pub mod adaptive;
pub mod fixed;
pub mod size;

use crate::settings::{Policy, Settings};
use strongroom_engine::Operation;

/// What is to be placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// What is done with it.
    pub operation: Operation,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments; a batch is split between them alone.
    pub segments: u32,
    /// Batches that the scheduler has accepted and not answered, this one
    /// among them.
    pub in_flight: u32,
    /// Of these, those whose threads compute them or hand them over now.
    pub computing: u32,
    /// Distinct callers that have batches in flight; `aca` alone asks.
    pub tasks: u32,
    /// Bytes of the request that this is a part of; `aca` alone asks.
    pub request_bytes: u64,
}

impl Request {
    /// One of a single segment that is all that was asked for, with nothing else
    /// in flight.
    #[must_use]
    pub fn whole(operation: Operation, bytes: u64) -> Request {
        Request { operation, bytes, segments: 1, in_flight: 1, computing: 1, tasks: 1, request_bytes: bytes }
    }

    /// Whether it reads: data is opened or decrypted.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.operation, Operation::Open | Operation::DecryptSectors)
    }
}

/// What is known of one engine for one request. Times are in nanoseconds. By
/// default it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineView {
    /// It has the operation and takes the size, is not quarantined, and the
    /// consumer has not used up its share of it.
    pub usable: bool,
    /// It computes on the caller's thread.
    pub inline: bool,
    /// Whether it has ever answered a request of this operation.
    pub known: bool,
    /// Time for this request when nothing else is there: `fixed_ns` and
    /// `per_byte_ns` for each byte.
    pub service_ns: f64,
    /// The part that does not depend on the size.
    pub fixed_ns: f64,
    /// The part that does.
    pub per_byte_ns: f64,
    /// CPU time that it costs: all of an inline engine's, submission,
    /// completion and checks of a device's.
    pub cpu_ns: f64,
    /// The service times of what it has accepted and not answered, summed up.
    pub backlog_ns: f64,
    /// How many these are.
    pub in_flight: u32,
    /// How many it serves at once, as far as can be told.
    pub parallelism: f64,
    /// How long whoever waits for its answer then waits for a CPU that other
    /// processes have.
    pub cpu_wait_ns: f64,
    /// How far what is known of it for this size can be believed, from 1, just
    /// measured, to 0: its cost may be this share of what it seems.
    pub confidence: f64,
}

/// What is known of the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuView {
    /// CPUs that this process may use.
    pub cpus: f64,
    /// Threads that are ready to run and have no CPU, averaged.
    pub waiting: f64,
    /// Share of the time in which there were any.
    pub saturated: f64,
    /// Idle share, from 0 to 1.
    pub idle: f64,
    /// This process's share of what is used, from 0 to 1.
    pub own: f64,
}

impl CpuView {
    /// Of so many CPUs that have nothing to do.
    #[must_use]
    pub fn idle(cpus: u32) -> CpuView {
        CpuView { cpus: f64::from(cpus), waiting: 0.0, saturated: 0.0, idle: 1.0, own: 1.0 }
    }

    /// How many times its CPU time an engine on the CPU takes: what other
    /// processes want of the CPUs, and this one's threads when they compute
    /// all at once.
    #[must_use]
    pub fn stretch(&self, computing: u32) -> f64 {
        let by_others = 1.0 + (1.0 - self.own) * self.waiting / self.cpus;
        by_others.max(f64::from(computing) / self.cpus)
    }

    /// Share of the time in which threads of this process waited for a CPU.
    #[must_use]
    pub fn contended(&self) -> f64 {
        self.saturated * self.own
    }

    /// How long this process's requests wait, in all, for each nanosecond of
    /// CPU time that one of them uses more: nothing while CPUs are idle, else
    /// each of the others for its part, those on devices too, since they come
    /// back to the CPU.
    #[must_use]
    pub fn price(&self, request: &Request) -> f64 {
        let elsewhere = f64::from(request.in_flight.saturating_sub(request.computing));
        let ready = (self.own * (self.cpus + self.waiting)).max(1.0);
        let lately = self.saturated * (ready + elsewhere - 1.0) / self.cpus;
        let computing = f64::from(request.computing);
        match computing > self.cpus {
            true => lately.max((computing + elsewhere - 1.0) / self.cpus),
            false => lately,
        }
    }
}

/// What a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What the scheduler is told to do.
    pub settings: &'a Settings,
    /// What is to be placed.
    pub request: &'a Request,
    /// What is known of the engines, in their order.
    pub engines: &'a [EngineView],
    /// What is known of the CPU.
    pub cpu: CpuView,
    /// Delay that may be spent on trying an engine out, in nanoseconds.
    pub credit_ns: f64,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All of it to one engine.
    Whole(usize),
    /// The last `device_segments` segments to `device`, the others to
    /// `inline`, at the same time.
    Split {
        /// An inline engine.
        inline: usize,
        /// Another.
        device: usize,
        /// At least 1, and fewer than there are.
        device_segments: u32,
    },
}

/// Makes [`Reason`] of what each is for, its variant, and its name in reports.
macro_rules! reasons {
    ($($about:literal $variant:ident $name:literal,)+) => {
        /// Why it goes there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $about] $variant,)+
        }

        impl Reason {
            /// Every reason, each at its own number.
            pub const ALL: &[Reason] = &[$(Reason::$variant),+];

            /// For reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name),+ }
            }
        }
    };
}

reasons! {
    "No other can take it." Only "only",
    "The settings name it." Forced "forced",
    "A threshold of the settings." Threshold "threshold",
    "The CPU has time to spare (`aca`)." IdleCpu "idle-cpu",
    "It ends soonest." Soonest "soonest",
    "It costs all together least." Least "least-cost",
    "It costs the CPU least and keeps up." CheapestCpu "cheapest-cpu",
    "Two engines end sooner than one." Split "split",
    "To learn what it costs." Probe "probe",
    "The engine that was chosen was busy or could not." Spilled "spilled",
    "A mask is made here, or used." Mask "mask",
}

/// A placement and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where.
    pub placement: Placement,
    /// Why.
    pub reason: Reason,
}

pub(crate) fn whole(engine: usize, reason: Reason) -> Decision {
    Decision { placement: Placement::Whole(engine), reason }
}

/// The first usable inline engine, or else the first usable one.
fn first_inline(engines: &[EngineView]) -> Option<usize> {
    let inline = engines.iter().position(|engine| engine.usable && engine.inline);
    inline.or_else(|| engines.iter().position(|engine| engine.usable))
}

/// The usable device that would be ready first.
fn first_device(engines: &[EngineView]) -> Option<usize> {
    let devices = engines.iter().enumerate().filter(|(_, engine)| engine.usable && !engine.inline);
    devices.min_by(|(_, one), (_, other)| one.finish_ns().total_cmp(&other.finish_ns())).map(|(at, _)| at)
}

impl EngineView {
    /// As if it had nothing to do, and were not to be tried out.
    pub(crate) fn rests(&mut self) {
        (self.backlog_ns, self.in_flight, self.confidence) = (0.0, 0, 1.0);
    }

    /// How many others wait longer for one more batch on this device: all that it
    /// has, in turn, from where it has as many as it serves at once.
    pub(crate) fn behind(&self) -> f64 {
        if self.inline { 0.0 } else { waiting(self.in_flight, self.parallelism) * f64::from(self.in_flight) }
    }

    /// When a request would be done.
    #[must_use]
    pub fn finish_ns(&self) -> f64 {
        let queue = (self.backlog_ns, self.in_flight);
        match self.inline {
            true => self.service_ns,
            false => served_ns(self.service_ns, queue, self.parallelism) + self.cpu_ns,
        }
    }

    /// The same, where an engine on the CPU takes so many times its CPU time, and
    /// who waited for a device waits for a CPU after it.
    #[must_use]
    pub(crate) fn finish_beside(&self, stretch: f64) -> f64 {
        if self.inline { self.service_ns * stretch } else { self.finish_ns() + self.cpu_wait_ns }
    }
}

/// How far one more waits where so many are in flight and so many are served at
/// once: not at all, or, from 1 on, for its turn.
pub(crate) fn waiting(in_flight: u32, parallelism: f64) -> f64 {
    (f64::from(in_flight) + 1.0 - parallelism).clamp(0.0, 1.0)
}

/// How long a device takes to serve one more, behind so much work of so many.
pub(crate) fn served_ns(service_ns: f64, (backlog_ns, in_flight): (f64, u32), parallelism: f64) -> f64 {
    let in_turn = (backlog_ns + service_ns) / parallelism;
    service_ns + (in_turn - service_ns).max(0.0) * waiting(in_flight, parallelism)
}

/// Places a request. None only when no engine is usable.
#[must_use]
pub fn place(asked: &Question<'_>) -> Option<Decision> {
    let mut usable = asked.engines.iter().enumerate().filter(|(_, engine)| engine.usable);
    let first = usable.next()?.0;
    if usable.next().is_none() {
        return Some(whole(first, Reason::Only));
    }
    match asked.settings.policy {
        Policy::Fixed => fixed::place(asked),
        Policy::Size => size::place(asked),
        Policy::Aca => aca::place(asked),
        Policy::Adaptive => adaptive::place(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_request_waits_for_large_ones_only_where_no_unit_is_free() {
        let small = 10_000.0;
        let large = (7.0 * 500_000.0, 7);
        assert_eq!(served_ns(small, large, 8.0), small, "the eighth of eight");
        assert_eq!(served_ns(small, large, 7.0), (3_500_000.0 + small) / 7.0);
        assert_eq!(served_ns(small, (small, 1), 1.0), 2.0 * small);
        assert_eq!(served_ns(small, (0.0, 0), 1.0), small);
    }
}
