//! What a comparison came to: medians, spread and ratios, as a table and as JSON.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::awake;
use crate::workspace;

/// One row of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    /// How many times the peer's speed ours has to reach, in hundredths.
    pub(super) floor_percent: u32,
}

/// Everything measured on one subject.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) version: String,
    /// Highest resident memory of the daemon after mounting; 0 without a daemon.
    pub(super) peak_bytes: u64,
    /// For every row, in their order: one time for each repeat.
    pub(super) times: Vec<Vec<Duration>>,
}

/// The whole comparison.
pub(super) struct Report<'a> {
    pub(super) rows: &'a [Row],
    /// Bytes that each row moves.
    pub(super) bytes: Vec<u64>,
    pub(super) file_bytes: u64,
    pub(super) repeats: usize,
    pub(super) subjects: Vec<Measured>,
    /// Which subject has to reach the floors, and against which.
    pub(super) pair: Option<(usize, usize)>,
    pub(super) peak_bytes_max: u64,
}

pub(super) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => Duration::ZERO,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2,
    }
}

fn spread_percent(times: &[Duration]) -> f64 {
    let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else { return 0.0 };
    100.0 * (most.as_secs_f64() - least.as_secs_f64()) / median(times).as_secs_f64()
}

impl Report<'_> {
    /// Our speed over the peer's, by medians.
    fn ratio(&self, row: usize) -> Option<f64> {
        let (ours, peer) = self.pair?;
        let time = |subject: usize| median(&self.subjects[subject].times[row]).as_secs_f64();
        Some(time(peer) / time(ours))
    }

    fn is_met(&self, row: usize) -> bool {
        self.ratio(row).is_none_or(|ratio| ratio * 100.0 >= f64::from(self.rows[row].floor_percent))
    }

    /// What fell short, one line each.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let mut lines: Vec<String> = (0..self.rows.len())
            .filter(|row| !self.is_met(*row))
            .map(|row| format!("{}: below the floor", self.rows[row].title))
            .collect();
        if let Some((ours, _)) = self.pair
            && self.subjects[ours].peak_bytes > self.peak_bytes_max
        {
            lines.push(format!("resident memory: above {} MiB", self.peak_bytes_max >> 20));
        }
        lines
    }

    /// A Markdown table: medians with their spread, ratios against floors, memory, versions.
    pub(super) fn table(&self) -> String {
        let mut text = format!("{}\n\n", machine_line());
        for subject in &self.subjects {
            text.push_str(&format!("- {}: {}\n", subject.name, subject.version));
        }
        text.push_str(&format!(
            "\n{} MiB files, {} repeats in turn; median wall-clock time ± half of what lies between the fastest and the slowest; \
             MB/s of 10^6 bytes\n\n| |",
            self.file_bytes >> 20,
            self.repeats
        ));
        for subject in &self.subjects {
            text.push_str(&format!(" {} |", subject.name));
        }
        text.push_str(if self.pair.is_some() { " ratio | floor |\n|---|" } else { "\n|---|" });
        text.push_str(&"---|".repeat(self.subjects.len() + if self.pair.is_some() { 2 } else { 0 }));
        for (index, row) in self.rows.iter().enumerate() {
            text.push_str(&format!("\n| {} |", row.title));
            for subject in &self.subjects {
                let times = &subject.times[index];
                let time = median(times).as_secs_f64();
                let rate = self.bytes[index] as f64 / 1e6 / time;
                text.push_str(&format!(
                    " {rate:.0} MB/s, {time:.2} s ± {:.0} % |",
                    spread_percent(times) / 2.0
                ));
            }
            if let Some(ratio) = self.ratio(index) {
                let mark = if self.is_met(index) { "" } else { " **missed**" };
                text.push_str(&format!(" {ratio:.2} | {:.1}{mark} |", f64::from(row.floor_percent) / 100.0));
            }
        }
        text.push_str("\n| highest resident memory of the daemon |");
        for subject in &self.subjects {
            text.push_str(&format!(" {:.0} MiB |", subject.peak_bytes as f64 / f64::from(1 << 20)));
        }
        if self.pair.is_some() {
            text.push_str(&format!(" | under {} MiB |", self.peak_bytes_max >> 20));
        }
        text.push('\n');
        text
    }

    /// The same for programs: bytes and nanoseconds as integers.
    pub(super) fn json(&self) -> Value {
        let subjects: Vec<Value> = self
            .subjects
            .iter()
            .map(|subject| {
                let rows: Vec<Value> = (self.rows.iter().zip(&subject.times).zip(&self.bytes))
                    .map(|((row, times), bytes)| {
                        json!({
                            "row": row.key,
                            "bytes": bytes,
                            "times_ns": times.iter().map(|time| nanoseconds(*time)).collect::<Vec<_>>(),
                            "median_ns": nanoseconds(median(times)),
                        })
                    })
                    .collect();
                json!({
                    "name": subject.name,
                    "version": subject.version,
                    "peak_resident_bytes": subject.peak_bytes,
                    "rows": rows,
                })
            })
            .collect();
        let ratios: Vec<Value> = (self.rows.iter().enumerate())
            .filter_map(|(index, row)| {
                let ratio = self.ratio(index)?;
                let floor = f64::from(row.floor_percent) / 100.0;
                Some(json!({"row": row.key, "ratio": ratio, "floor": floor, "met": self.is_met(index)}))
            })
            .collect();
        json!({
            "schema": "strongroom.bench.floor/1",
            "machine": machine_line(),
            "commit": commit(),
            "file_bytes": self.file_bytes,
            "repeats": self.repeats,
            "subjects": subjects,
            "ratios": ratios,
        })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU model, number of CPUs and kernel, and whether CPUs are kept from halting.
pub(super) fn machine_line() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(" unknown CPU");
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let awake = if awake::is_held().unwrap_or(false) { ", kept from halting" } else { "" };
    format!("{model}, {cpus} CPUs{awake}, Linux {kernel}")
}

/// The commit that was measured, if this is a checkout.
pub(super) fn commit() -> Option<String> {
    let mut command = std::process::Command::new("git");
    command.current_dir(workspace::root()).args(["rev-parse", "HEAD"]);
    let text = crate::command::output(&mut command, Duration::from_secs(10)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let times = [5, 1, 3].map(Duration::from_secs);
        assert_eq!(median(&times), Duration::from_secs(3));
        assert_eq!(median(&times[..2]), Duration::from_secs(3));
        assert_eq!(median(&[]), Duration::ZERO);
    }

    #[test]
    fn a_ratio_below_its_floor_is_a_shortfall() {
        let rows = [Row { key: "a", title: "A", floor_percent: 800 }];
        let subject = |seconds| Measured {
            name: "x".into(),
            version: "1".into(),
            peak_bytes: 10,
            times: vec![vec![Duration::from_secs(seconds)]],
        };
        let report = |ours, peer, peak_bytes_max| Report {
            rows: &rows,
            bytes: vec![1_000_000],
            file_bytes: 1 << 20,
            repeats: 1,
            subjects: vec![subject(ours), subject(peer)],
            pair: Some((0, 1)),
            peak_bytes_max,
        };
        assert!(report(1, 8, 10).shortfalls().is_empty());
        assert_eq!(report(1, 7, 10).shortfalls(), ["A: below the floor"]);
        assert_eq!(report(1, 8, 9).shortfalls().len(), 1);
        assert!(report(1, 7, 10).table().contains("**missed**"));
        assert_eq!(report(1, 8, 10).json()["ratios"][0]["met"], true);
    }
}
