//! From samples to answers: rates, ratios against each peer with their bounds, CPU time, and what missed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bench::folder::rows::{Row, Work, target_mean};
use crate::bench::folder::state::Record;
use crate::bench::folder::statistics::{Ratio, geometric_mean, half_spread, median};
use crate::subject::Kind;

/// Most of gocryptfs's CPU time per byte that ours may take: in the geometric mean, and in any row.
const CPU_MEAN_MAX: f64 = 0.60;
const CPU_ROW_MAX: f64 = 0.85;
/// How many times one job four jobs have to reach on random reads of 4 KiB; elsewhere they may not lose.
const JOBS_RANDOM_MIN: f64 = 1.4;

/// A subject's samples of a row, in its best variant.
struct Cell<'a> {
    variant: &'a str,
    by_repeat: BTreeMap<usize, &'a Record>,
}

impl Cell<'_> {
    fn rates(&self) -> Vec<f64> {
        self.by_repeat.values().map(|record| record.rate()).collect()
    }

    /// Daemon seconds per GiB, where the row moves bytes.
    fn cpu_per_gib(&self) -> Option<f64> {
        let per_gib: Vec<f64> = self
            .by_repeat
            .values()
            .filter(|record| record.bytes > 0)
            .map(|record| record.cpu_seconds / record.bytes as f64 * (1u64 << 30) as f64)
            .collect();
        (!per_gib.is_empty()).then(|| median(&per_gib))
    }
}

/// One store's results.
pub(super) struct Summary<'a> {
    pub(super) store: &'a str,
    pub(super) rows: &'a [Row],
    pub(super) kinds: &'a [Kind],
    records: Vec<&'a Record>,
}

/// What one row came to against one peer.
pub(super) struct Judged {
    pub(super) ratio: Ratio,
    pub(super) target: Option<f64>,
}

impl Judged {
    pub(super) fn is_met(&self) -> bool {
        self.target.is_none_or(|target| self.ratio.reaches(target))
    }
}

impl<'a> Summary<'a> {
    pub(super) fn new(store: &'a str, rows: &'a [Row], kinds: &'a [Kind], records: &'a [Record]) -> Self {
        let records = records.iter().filter(|record| record.store == store).collect();
        Self { store, rows, kinds, records }
    }

    fn cell(&self, row: &str, kind: Kind) -> Option<Cell<'a>> {
        let mut variants: BTreeMap<&str, BTreeMap<usize, &Record>> = BTreeMap::new();
        let mine = self.records.iter().filter(|record| record.row == row && record.subject == kind.program());
        for record in mine {
            variants.entry(&record.variant).or_default().insert(record.repeat, record);
        }
        // Variants that lost were not measured to the end.
        let most = variants.values().map(BTreeMap::len).max()?;
        variants
            .into_iter()
            .filter(|(_, by_repeat)| by_repeat.len() == most)
            .map(|(variant, by_repeat)| Cell { variant, by_repeat })
            .max_by(|left, right| median(&left.rates()).total_cmp(&median(&right.rates())))
    }

    /// Ours over the peer, repeat by repeat.
    pub(super) fn judged(&self, row: &Row, peer: Kind) -> Option<Judged> {
        let (ours, theirs) = (self.cell(&row.key, Kind::Strongroom)?, self.cell(&row.key, peer)?);
        let ratios: Vec<f64> = ours
            .by_repeat
            .iter()
            .filter_map(|(repeat, record)| Some(record.rate() / theirs.by_repeat.get(repeat)?.rate()))
            .collect();
        let on_disk = self.store != "tmpfs";
        let target = if on_disk && peer == Kind::Passthrough { None } else { row.target(peer) };
        Some(Judged { ratio: Ratio::of(&ratios)?, target })
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Kind> + '_ {
        self.kinds.iter().copied().filter(|kind| *kind != Kind::Strongroom)
    }

    /// The geometric mean of all rows' ratios against a peer.
    fn mean(&self, peer: Kind) -> Option<f64> {
        let ratios: Vec<f64> =
            self.rows.iter().filter_map(|row| Some(self.judged(row, peer)?.ratio.mean)).collect();
        (!ratios.is_empty()).then(|| geometric_mean(&ratios))
    }

    /// Our CPU time per byte over gocryptfs's, by row.
    fn cpu_ratios(&self) -> Vec<(&Row, f64)> {
        let ratio = |row: &Row| {
            let ours = self.cell(&row.key, Kind::Strongroom)?.cpu_per_gib()?;
            let theirs = self.cell(&row.key, Kind::Gocryptfs)?.cpu_per_gib()?;
            // A tick is 10 ms: where hardly any was used there is nothing to compare.
            (theirs > 0.02).then_some(ours / theirs)
        };
        self.rows.iter().filter_map(|row| Some((row, ratio(row)?))).collect()
    }

    /// Ours with four jobs over ours with one.
    fn job_ratios(&self) -> Vec<(&Row, Ratio, f64)> {
        let alone = |row: &Row| -> Option<String> {
            let jobs = match row.work {
                Work::Data(data) => data.jobs,
                Work::Mix(_, jobs) => jobs,
                Work::Step(_) => return None,
            };
            (jobs == 4)
                .then(|| format!("{}-1", row.key.strip_suffix("-4").expect("the key ends with the jobs")))
        };
        let ratio = |row: &Row| {
            let (one, four) =
                (self.cell(&alone(row)?, Kind::Strongroom)?, self.cell(&row.key, Kind::Strongroom)?);
            let ratios: Vec<f64> = four
                .by_repeat
                .iter()
                .filter_map(|(repeat, record)| Some(record.rate() / one.by_repeat.get(repeat)?.rate()))
                .collect();
            Ratio::of(&ratios)
        };
        let target = |row: &Row| if row.is_small_random_read() { JOBS_RANDOM_MIN } else { 1.0 };
        self.rows.iter().filter_map(|row| Some((row, ratio(row)?, target(row)))).collect()
    }

    /// Everything that was asked and missed, one line each.
    pub(super) fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        for peer in self.peers() {
            for row in self.rows {
                if let Some(judged) = self.judged(row, peer).filter(|judged| !judged.is_met()) {
                    let Ratio { low, mean, high, .. } = judged.ratio;
                    let target = judged.target.unwrap_or_default();
                    misses.push(format!(
                        "{} against {}: {mean:.2} ({low:.2} to {high:.2}), asked {target:.2}",
                        row.key,
                        peer.program()
                    ));
                }
            }
            if let (Some(mean), Some(target)) = (self.mean(peer), target_mean(peer))
                && mean < target
                && self.store == "tmpfs"
            {
                misses
                    .push(format!("geometric mean against {}: {mean:.2}, asked {target:.2}", peer.program()));
            }
        }
        let cpu = self.cpu_ratios();
        for (row, ratio) in cpu.iter().filter(|(_, ratio)| *ratio > CPU_ROW_MAX) {
            misses.push(format!("{} CPU of gocryptfs's: {ratio:.2}, at most {CPU_ROW_MAX:.2}", row.key));
        }
        if !cpu.is_empty() {
            let mean = geometric_mean(&cpu.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
            if mean > CPU_MEAN_MAX {
                misses.push(format!(
                    "geometric mean of CPU of gocryptfs's: {mean:.2}, at most {CPU_MEAN_MAX:.2}"
                ));
            }
        }
        for (row, ratio, target) in
            self.job_ratios().iter().filter(|(_, ratio, target)| !ratio.reaches(*target))
        {
            misses.push(format!("{} against one job: {:.2}, asked {target:.2}", row.key, ratio.mean));
        }
        misses
    }

    /// Two Markdown tables: rates, and ratios with targets and CPU time.
    pub(super) fn tables(&self) -> String {
        format!(
            "### Rates on {}\n\n{}\n### Ratios on {}\n\n{}",
            self.store,
            self.rates(),
            self.store,
            self.ratios()
        )
    }

    fn rates(&self) -> String {
        let mut text = String::from("| row |");
        for kind in self.kinds {
            text.push_str(&format!(" {} |", kind.program()));
        }
        text.push_str(&format!("\n|---|{}", "---|".repeat(self.kinds.len())));
        for row in self.rows {
            text.push_str(&format!("\n| {} |", row.key));
            for kind in self.kinds {
                match self.cell(&row.key, *kind) {
                    None => text.push_str(" |"),
                    Some(cell) => text.push_str(&format!(" {} |", rate_text(row, &cell))),
                }
            }
        }
        text.push('\n');
        text
    }

    fn ratios(&self) -> String {
        let peers: Vec<Kind> = self.peers().collect();
        let mut text = String::from("| row |");
        for peer in &peers {
            text.push_str(&format!(" over {} |", peer.program()));
        }
        text.push_str(" CPU s/GiB | of gocryptfs's |");
        text.push_str(&format!("\n|---|{}---|---|", "---|".repeat(peers.len())));
        let cpu: BTreeMap<&str, f64> =
            self.cpu_ratios().into_iter().map(|(row, ratio)| (row.key.as_str(), ratio)).collect();
        for row in self.rows {
            text.push_str(&format!("\n| {} |", row.key));
            for peer in &peers {
                text.push_str(&self.judged(row, *peer).map_or(" |".into(), |judged| ratio_text(&judged)));
            }
            let ours = self.cell(&row.key, Kind::Strongroom).and_then(|cell| cell.cpu_per_gib());
            text.push_str(&ours.map_or(" |".into(), |seconds| format!(" {seconds:.2} |")));
            text.push_str(&cpu.get(row.key.as_str()).map_or(" |".into(), |ratio| format!(" {ratio:.2} |")));
        }
        text.push_str("\n| **geometric mean** |");
        for peer in &peers {
            text.push_str(&self.mean(*peer).map_or(" |".into(), |mean| format!(" {mean:.2} |")));
        }
        let all: Vec<f64> = cpu.values().copied().collect();
        text.push_str(&format!(" | {:.2} |\n", geometric_mean(&all)));
        text
    }

    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let subjects: Vec<Value> = self
                    .kinds
                    .iter()
                    .filter_map(|kind| {
                        let cell = self.cell(&row.key, *kind)?;
                        let judged = (*kind != Kind::Strongroom).then(|| self.judged(row, *kind)).flatten();
                        Some(json!({
                            "subject": kind.program(),
                            "variant": cell.variant,
                            "rates": cell.rates(),
                            "median_rate": median(&cell.rates()),
                            "daemon_cpu_seconds_per_gib": cell.cpu_per_gib(),
                            "ratio": judged.as_ref().map(|judged| json!({
                                "low": judged.ratio.low,
                                "mean": judged.ratio.mean,
                                "high": judged.ratio.high,
                                "count": judged.ratio.count,
                                "target": judged.target,
                                "met": judged.is_met(),
                            })),
                        }))
                    })
                    .collect();
                json!({"row": row.key, "title": row.title, "subjects": subjects})
            })
            .collect();
        json!({"store": self.store, "rows": rows, "misses": self.misses()})
    }
}

fn rate_text(row: &Row, cell: &Cell<'_>) -> String {
    let rates = cell.rates();
    let (middle, spread) = (median(&rates), 100.0 * half_spread(&rates));
    let moves_bytes = cell.by_repeat.values().all(|record| record.bytes > 0);
    let text = match row.work {
        _ if !moves_bytes => format!("{:.1} k/s", middle / 1e3),
        _ => format!("{:.0} MB/s", middle / 1e6),
    };
    let variant = if cell.variant.is_empty() { String::new() } else { format!(" ({})", cell.variant) };
    format!("{text} ± {spread:.0} %{variant}")
}

fn ratio_text(judged: &Judged) -> String {
    let Ratio { low, mean, high, count } = judged.ratio;
    let bounds = if count > 1 { format!(" ({low:.2}-{high:.2})") } else { String::new() };
    let asked = match judged.target {
        None => String::new(),
        Some(target) if judged.is_met() => format!(", asked {target:.2}"),
        Some(target) => format!(", **asked {target:.2}**"),
    };
    format!(" {mean:.2}{bounds}{asked} |")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::folder::rows;

    fn record(
        row: &str,
        subject: Kind,
        variant: &str,
        repeat: usize,
        seconds: f64,
        cpu_seconds: f64,
    ) -> Record {
        let subject = subject.program().into();
        let (store, row, variant) = ("tmpfs".into(), row.into(), variant.into());
        Record { store, row, subject, variant, repeat, seconds, bytes: 1 << 30, operations: 1, cpu_seconds }
    }

    #[test]
    fn ratios_pair_repeats_and_take_the_peers_best_variant() {
        let rows: Vec<Row> = rows::all().into_iter().filter(|row| row.key == "read-cold-4k-1").collect();
        let mut records = Vec::new();
        for repeat in 0..3 {
            records.push(record(&rows[0].key, Kind::Strongroom, "", repeat, 2.0 + repeat as f64, 0.5));
            records.push(record(&rows[0].key, Kind::Passthrough, "slow", repeat, 9.0, 0.1));
            records.push(record(
                &rows[0].key,
                Kind::Passthrough,
                "fast",
                repeat,
                1.0 + repeat as f64 / 2.0,
                0.1,
            ));
            records.push(record(&rows[0].key, Kind::Gocryptfs, "", repeat, 4.0 + 2.0 * repeat as f64, 1.0));
        }
        // A variant that was given up after one lucky repeat does not count.
        records.push(record(&rows[0].key, Kind::Passthrough, "lucky", 0, 0.1, 0.1));
        let kinds = [Kind::Strongroom, Kind::Passthrough, Kind::Gocryptfs];
        let summary = Summary::new("tmpfs", &rows, &kinds, &records);
        let judged = summary.judged(&rows[0], Kind::Passthrough).unwrap();
        assert!((judged.ratio.mean - 0.5).abs() < 1e-9 && !judged.is_met());
        let judged = summary.judged(&rows[0], Kind::Gocryptfs).unwrap();
        assert!((judged.ratio.mean - 2.0).abs() < 1e-9 && judged.is_met());
        let misses = summary.misses().join("\n");
        assert!(misses.contains("read-cold-4k-1 against passthrough_ll: 0.50"), "{misses}");
        assert!(misses.contains("geometric mean against gocryptfs"), "{misses}");
        assert!(!misses.contains("CPU"), "{misses}");
        assert!(summary.tables().contains("(fast)"));
        assert_eq!(summary.json()["rows"][0]["subjects"][1]["ratio"]["met"], false);
    }
}
