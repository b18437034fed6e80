//! What the speed floor came to: medians, spread and ratios.

use std::time::Duration;

use crate::result::{Document, Table};
use crate::statistics::median;

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

/// The middle one, in seconds.
fn middle(times: &[Duration]) -> f64 {
    median(&times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>())
}

fn spread_percent(times: &[Duration]) -> f64 {
    let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else { return 0.0 };
    100.0 * (most.as_secs_f64() - least.as_secs_f64()) / middle(times)
}

impl Report<'_> {
    /// Our speed over the peer's, by medians.
    fn ratio(&self, row: usize) -> Option<f64> {
        let (ours, peer) = self.pair?;
        let time = |subject: usize| middle(&self.subjects[subject].times[row]);
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

    /// The table and the samples.
    pub(super) fn document(&self) -> Document {
        let versions = self.subjects.iter().map(|subject| subject.version.clone()).collect();
        let mut document = Document::new("floor", versions);
        document.tables.push(self.table());
        for subject in &self.subjects {
            for (row, times) in self.rows.iter().zip(&subject.times) {
                let seconds = times.iter().map(Duration::as_secs_f64).collect();
                document.sample(row.key, &subject.name, "seconds", seconds);
            }
            let peak = vec![subject.peak_bytes as f64];
            document.sample("resident_memory", &subject.name, "bytes at most", peak);
        }
        document
    }

    /// Medians with their spread, ratios against floors, memory.
    fn table(&self) -> Table {
        let title = format!(
            "{} MiB files, {} repeats in turn: median wall-clock time ± half of what lies between the fastest and \
             the slowest; MB/s of 10^6 bytes",
            self.file_bytes >> 20,
            self.repeats
        );
        let names = self.subjects.iter().map(|subject| subject.name.as_str());
        let judged: &[&str] = if self.pair.is_some() { &["ratio", "floor"] } else { &[] };
        let columns: Vec<&str> = ["work"].into_iter().chain(names).chain(judged.iter().copied()).collect();
        let mut table = Table::new("floor", title, &columns);
        table.rows.extend((0..self.rows.len()).map(|row| self.row(row)));
        let mut memory = vec!["highest resident memory of the daemon".to_owned()];
        let mebibytes = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
        memory.extend(self.subjects.iter().map(|subject| mebibytes(subject.peak_bytes)));
        if self.pair.is_some() {
            memory.extend([String::new(), format!("under {}", mebibytes(self.peak_bytes_max))]);
        }
        table.rows.push(memory);
        table
    }

    fn row(&self, index: usize) -> Vec<String> {
        let row = &self.rows[index];
        let mut cells = vec![row.title.to_owned()];
        for subject in &self.subjects {
            let times = &subject.times[index];
            let time = middle(times);
            let rate = self.bytes[index] as f64 / 1e6 / time;
            cells.push(format!("{rate:.0} MB/s, {time:.2} s ± {:.0} %", spread_percent(times) / 2.0));
        }
        if let Some(ratio) = self.ratio(index) {
            let mark = if self.is_met(index) { "" } else { ", **missed**" };
            cells.extend([
                format!("{ratio:.2}"),
                format!("{:.1}{mark}", f64::from(row.floor_percent) / 100.0),
            ]);
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(report(1, 7, 10).table().rows[0][3..], ["7.00", "8.0, **missed**"]);
        assert_eq!(report(1, 8, 10).table().rows[0][3..], ["8.00", "8.0"]);
        assert_eq!(report(1, 8, 10).document().samples.map(|samples| samples.len()), Some(4));
    }
}
