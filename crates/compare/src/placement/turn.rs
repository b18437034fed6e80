//! One turn: a live mount is told how to place, settles, and is measured.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::placement::others::Before;
use crate::placement::work::{Pool, Work};
use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::subject::mount::Mount;

/// What is not measured is followed in slices of this length, from `set` on.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// A turn is taken again when others than the daemon and the work have had more CPUs than this in its measured
/// part, but not more often than so many times.
const OTHERS_MAX: f64 = 0.2;
const AGAIN_MAX: usize = 2;

/// A way to place: the name in reports, and what the mount is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) name: &'static str,
    settings: &'static [&'static str],
}

/// One result in 1024 of the device is checked on every side.
pub(super) const ADAPTIVE: Side = Side { name: "adaptive", settings: &["policy=adaptive", "check=1024"] };
pub(super) const CPU: Side = Side { name: "cpu", settings: &["policy=fixed", "use=0", "check=1024"] };
pub(super) const DEVICE: Side = Side { name: "device", settings: &["policy=fixed", "use=1", "check=1024"] };

/// How long the parts of a turn take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) settle: Duration,
    pub(super) measured: Duration,
}

/// What the two engines have computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Placed {
    pub(super) batches: [f64; 2],
    pub(super) bytes: [f64; 2],
}

impl Placed {
    /// Of the two engines that the status of a mount names, the CPU first.
    fn of(status: &Value) -> Option<Self> {
        let engines = status["mounts"][0]["engines"].as_array()?;
        let number = |at: usize, name: &str| engines.get(at)?[name].as_f64();
        let pair = |name| Some([number(0, name)?, number(1, name)?]);
        Some(Self { batches: pair("operations")?, bytes: pair("bytes")? })
    }

    fn since(self, before: Self) -> Self {
        let less = |now: [f64; 2], then: [f64; 2]| [now[0] - then[0], now[1] - then[1]];
        Self { batches: less(self.batches, before.batches), bytes: less(self.bytes, before.bytes) }
    }

    /// The device's share of the bytes.
    pub(super) fn on_device(self) -> f64 {
        self.bytes[1] / (self.bytes[0] + self.bytes[1]).max(1.0)
    }
}

/// What a turn came to.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Bytes a second, where it was measured.
    pub(super) rate: f64,
    /// CPUs that others had meanwhile.
    pub(super) others: f64,
    /// Where the measured part was computed.
    pub(super) placed: Placed,
    /// Bytes a second in each slice before.
    pub(super) settling: Vec<f64>,
}

impl Sample {
    pub(super) fn is_disturbed(&self) -> bool {
        self.others > OTHERS_MAX
    }
}

/// A piece of work on a mount.
pub(super) struct Turns<'a> {
    work: &'static Work,
    mount: &'a Mount,
    lengths: Lengths,
    pool: Pool,
}

impl<'a> Turns<'a> {
    pub(super) fn new(work: &'static Work, mount: &'a Mount, lengths: Lengths) -> Result<Self> {
        Ok(Self { work, mount, lengths, pool: Pool::new(work, mount.path())? })
    }

    /// A turn, again while it is disturbed; then that which was disturbed least.
    pub(super) fn take(&self, side: Side, label: &str) -> Result<Sample> {
        let mut least = self.once(side, label)?;
        for _ in 0..AGAIN_MAX {
            if least.is_disturbed() {
                let sample = self.once(side, label)?;
                least = if sample.others < least.others { sample } else { least };
            }
        }
        Ok(least)
    }

    /// Places as the side says from now on, settles, and measures.
    fn once(&self, side: Side, label: &str) -> Result<Sample> {
        self.mount.set(side.settings)?;
        let began = Instant::now();
        let mut settling = Vec::new();
        while began.elapsed() < self.lengths.settle {
            settling.push(self.pool.run(SLICE)?);
        }
        let before = self.placed()?;
        let quiet = Before::now(self.mount.daemon())?;
        let rate = self.pool.run(self.lengths.measured)?;
        let others = quiet.cpus_of_others()?;
        let placed = self.placed()?.since(before);
        eprintln!(
            "{}: {label}, {}: {:.1} MB/s, batches on the CPU {}, on the device {}; others have {others:.2} CPUs",
            self.work.key,
            side.name,
            rate / 1e6,
            placed.batches[0],
            placed.batches[1]
        );
        Ok(Sample { rate, others, placed, settling })
    }

    fn placed(&self) -> Result<Placed> {
        let status = self.mount.status()?.unwrap_or_default();
        Placed::of(&status).ok_or_else(|| Failure::new(format!("status names no two engines: {status}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_turn_placed_is_what_came_between() {
        let status = |batches: [u64; 2], bytes: [u64; 2]| {
            let engine = |at: usize| json!({"operations": batches[at], "bytes": bytes[at]});
            Placed::of(&json!({"mounts": [{"engines": [engine(0), engine(1)]}]})).unwrap()
        };
        let placed = status([7, 5], [400, 900]).since(status([4, 5], [100, 800]));
        assert_eq!(placed, Placed { batches: [3.0, 0.0], bytes: [300.0, 100.0] });
        assert_eq!(placed.on_device(), 0.25);
        assert_eq!(Placed::default().on_device(), 0.0);
        assert_eq!(Placed::of(&json!({"mounts": [{"engines": [{"operations": 1, "bytes": 1}]}]})), None);
    }
}
