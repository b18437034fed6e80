//! Windows that were measured: what was asked for in them, how fast it was done,
//! and what makes one unlike another.

/// How much a new window counts.
pub(super) const WEIGHT: f64 = 0.25;
/// A speed or a load that differs by this factor is another.
pub(super) const DIFFERS: f64 = 1.3;
/// While so many fewer are in flight than in the short window before, and so many
/// at least, a device works on what the way before has left to it.
const DRAINS: f64 = 0.8;
const DRAINS_LEAST: f64 = 2.0;

/// What asked for the batches of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) reads: f64,
    pub(super) work_ns: f64,
    pub(super) in_flight: f64,
    /// Threads that had no CPU to ask for more.
    pub(super) waiting: f64,
}

impl Load {
    /// Changes slowly into another.
    pub(super) fn follows(&mut self, new: &Load) {
        follows(&mut self.reads, new.reads);
        follows(&mut self.work_ns, new.work_ns);
        follows(&mut self.in_flight, new.in_flight);
    }

    /// How many are in flight is the model's doing too: the CPU takes one
    /// after the other what waits for a device together.
    pub(super) fn differs(&self, other: &Load, is_model: bool) -> bool {
        // The batch that was just done is in flight beside the others.
        self.is_of_others(other)
            || !is_model && differs(self.in_flight + 1.0, other.in_flight + 1.0, DIFFERS * DIFFERS)
    }

    /// Whether other things are asked for.
    pub(super) fn is_of_others(&self, other: &Load) -> bool {
        (self.reads - other.reads).abs() > 0.25
            || differs(self.work_ns.max(1.0), other.work_ns.max(1.0), DIFFERS * DIFFERS)
    }
}

/// A window that is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) load: Load,
    /// Work for time.
    pub(super) speed: f64,
    pub(super) elapsed_ns: f64,
    pub(super) batches: f64,
    /// Ways that would have placed a batch of it otherwise: a bit each.
    pub(super) otherwise: u32,
    /// Whether a challenger has lost in it.
    pub(super) is_lost: bool,
}

impl Window {
    /// Both as one.
    pub(super) fn with(&self, next: &Window) -> Window {
        let (elapsed_ns, batches) = (self.elapsed_ns + next.elapsed_ns, self.batches + next.batches);
        let share = next.batches / batches;
        let mean = |one: f64, other: f64| one + (other - one) * share;
        Window {
            load: Load {
                reads: mean(self.load.reads, next.load.reads),
                work_ns: mean(self.load.work_ns, next.load.work_ns),
                in_flight: mean(self.load.in_flight, next.load.in_flight),
                waiting: mean(self.load.waiting, next.load.waiting),
            },
            speed: (self.speed * self.elapsed_ns + next.speed * next.elapsed_ns) / elapsed_ns,
            elapsed_ns,
            batches,
            otherwise: self.otherwise | next.otherwise,
            is_lost: next.is_lost,
        }
    }
}

/// Whether so many fewer are in flight that what was there is being worked off.
pub(super) fn fewer(now: f64, before: f64) -> bool {
    now + 1.0 < DRAINS * (before + 1.0) && now + DRAINS_LEAST < before
}

fn follows(number: &mut f64, new: f64) {
    *number += (new - *number) * WEIGHT;
}

pub(super) fn differs(one: f64, other: f64, factor: f64) -> bool {
    one > other * factor || other > one * factor
}
