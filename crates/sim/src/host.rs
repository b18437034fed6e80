//! What is simulated: CPUs, an inline engine or several, devices, and other
//! work on the machine.

/// Time that something takes, by the bytes it takes it for.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// A fixed part, and one for each byte.
    Linear {
        /// Nanoseconds of every batch.
        fixed_ns: f64,
        /// Nanoseconds of each byte.
        per_byte_ns: f64,
    },
    /// For each size, ascending, its nanoseconds; a batch takes those of the
    /// first that is not smaller, or of the last.
    Table(Vec<(u64, f64)>),
    /// The same, and between two sizes by a straight line; beyond the last as from
    /// the one before to it.
    Points(Vec<(u64, f64)>),
}

impl Cost {
    /// The same for all sizes.
    #[must_use]
    pub fn fixed(fixed_ns: f64) -> Cost {
        Cost::Linear { fixed_ns, per_byte_ns: 0.0 }
    }

    /// A fixed part, and a rate in MB (10^6 bytes) a second.
    #[must_use]
    pub fn at_rate(fixed_ns: f64, megabytes_per_second: f64) -> Cost {
        Cost::Linear { fixed_ns, per_byte_ns: 1e3 / megabytes_per_second }
    }

    /// Nanoseconds for so many bytes.
    #[must_use]
    pub fn ns(&self, bytes: u64) -> f64 {
        match self {
            Cost::Linear { fixed_ns, per_byte_ns } => fixed_ns + per_byte_ns * bytes as f64,
            Cost::Table(rows) => {
                let row = rows.iter().find(|(size, _)| *size >= bytes).or(rows.last());
                row.map_or(0.0, |(_, ns)| *ns)
            }
            Cost::Points(points) => interpolated(points, bytes),
        }
    }
}

/// Below the first size it is the first one's, since what a batch takes at least
/// is not known there.
fn interpolated(points: &[(u64, f64)], bytes: u64) -> f64 {
    match points {
        [] => 0.0,
        [(_, only)] => *only,
        [(first, least), ..] if bytes <= *first => *least,
        [..] => {
            let above = points.iter().position(|(size, _)| *size >= bytes).unwrap_or(points.len() - 1).max(1);
            let ((from, low), (to, high)) = (points[above - 1], points[above]);
            let slope = (high - low) / (to - from).max(1) as f64;
            (low + slope * (bytes as f64 - from as f64)).max(0.0)
        }
    }
}

/// An engine on the CPU of whoever asks. Its costs are CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Inline {
    /// For reports.
    pub name: String,
    /// Of sealing or encrypting.
    pub write: Cost,
    /// Of opening or decrypting.
    pub read: Cost,
}

/// How a device's service time changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Drift {
    /// It does not.
    #[default]
    None,
    /// It grows evenly until it is `factor` times the first at `until_ns`, and
    /// stays there.
    Slows {
        /// Last service time over the first.
        factor: f64,
        /// From the start of the run.
        until_ns: u64,
    },
}

impl Drift {
    /// Service time now over that at the start.
    #[must_use]
    pub fn factor(self, now_ns: u64) -> f64 {
        match self {
            Drift::None => 1.0,
            Drift::Slows { factor, until_ns } => {
                1.0 + (factor - 1.0) * (now_ns as f64 / until_ns.max(1) as f64).min(1.0)
            }
        }
    }
}

/// An engine beside the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// For reports.
    pub name: String,
    /// Batches served at once.
    pub units: u32,
    /// Batches served or waiting, from which on it is busy.
    pub queue_max: u32,
    /// Time of a unit, of sealing or encrypting.
    pub write: Cost,
    /// Time of a unit, of opening or decrypting.
    pub read: Cost,
    /// CPU time of handing over a batch.
    pub submit: Cost,
    /// CPU time of taking its answer, by whoever waits for it.
    pub complete: Cost,
    /// CPU time of its answer that nobody waits for.
    pub interrupt: Cost,
    /// How it changes.
    pub drift: Drift,
}

/// Threads that use the CPU for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// How many.
    pub threads: u32,
    /// They work for the first `on_ns` of every `period_ns`; always, when
    /// the period is 0.
    pub period_ns: u64,
    /// See `period_ns`.
    pub on_ns: u64,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// What it is asked for by.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// CPUs.
    pub cpus: u32,
    /// CPU time of a request besides cryptography: what the file system does.
    pub request_cpu_ns: f64,
    /// Requests are cut into batches of at most so many bytes, one after the
    /// other; none are cut when it is absent.
    pub batch_bytes: Option<u64>,
    /// Engines on the CPU, at least one.
    pub inline: Vec<Inline>,
    /// Engines beside it.
    pub devices: Vec<Device>,
    /// Other work.
    pub background: Background,
    /// Service times vary evenly by this share up and down.
    pub jitter: f64,
}

impl Host {
    /// Engines in the order in which settings and reports number them.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        let inline = self.inline.iter().map(|engine| engine.name.as_str());
        inline.chain(self.devices.iter().map(|device| device.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_drifts_are_what_they_say() {
        assert_eq!(Cost::at_rate(100.0, 1000.0).ns(4096), 4196.0);
        let table = Cost::Table(vec![(1024, 5.0), (4096, 7.0)]);
        assert_eq!([1, 1024, 1025, 4096, 9999].map(|bytes| table.ns(bytes)), [5.0, 5.0, 7.0, 7.0, 7.0]);
        let points = Cost::Points(vec![(1024, 5.0), (4096, 8.0)]);
        assert_eq!([1, 1024, 2048, 4096, 8192].map(|bytes| points.ns(bytes)), [5.0, 5.0, 6.0, 8.0, 12.0]);
        assert_eq!([Cost::Points(vec![]), Cost::Points(vec![(512, 3.0)])].map(|cost| cost.ns(9)), [0.0, 3.0]);
        let slows = Drift::Slows { factor: 3.0, until_ns: 100 };
        assert_eq!([0, 50, 100, 200].map(|now| slows.factor(now)), [1.0, 2.0, 3.0, 3.0]);
    }
}
