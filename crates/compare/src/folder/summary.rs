//! From samples to answers: ratios against each peer with their bounds, CPU time, and what missed.
//!
//! Everything that is asked counts as reached when a 95 % bound reaches it: the upper one of a speed, the lower
//! one of a CPU time.

use std::collections::BTreeMap;

use crate::folder::rows::{Row, target_mean};
use crate::folder::state::Record;
use crate::result::Document;
use crate::statistics::{Ratio, median};
use strongroom_harness::subject::Kind;

/// Most of gocryptfs's CPU time per byte that ours may take: in the geometric mean, and in any row.
const CPU_MEAN_MAX: f64 = 0.60;
const CPU_ROW_MAX: f64 = 0.85;
/// CPU times are told in ticks of 10 ms: of a row in which either daemon used no more than this in some sample
/// they say nothing, and a single zero among them would make the mean 0.
const CPU_SECONDS_TOLD: f64 = 0.02;

/// A subject's samples of a row, in its best variant.
pub(super) struct Cell<'a> {
    pub(super) variant: &'a str,
    by_repeat: BTreeMap<usize, &'a Record>,
}

impl<'a> Cell<'a> {
    pub(super) fn rates(&self) -> Vec<f64> {
        self.by_repeat.values().map(|record| record.rate()).collect()
    }

    pub(super) fn moves_bytes(&self) -> bool {
        self.by_repeat.values().all(|record| record.bytes > 0)
    }

    /// What passed, what all CPUs were busy, and what the daemon had of that, in seconds per GiB where the row
    /// moves bytes; and the idle share of the CPUs. Medians.
    pub(super) fn load(&self) -> Option<Load> {
        let middle = |of: fn(&Record) -> f64| {
            median(&self.by_repeat.values().map(|record| of(record)).collect::<Vec<_>>())
        };
        self.moves_bytes().then(|| Load {
            seconds: middle(|record| record.seconds / gib(record)),
            busy: middle(|record| record.busy_seconds / gib(record)),
            daemon: middle(|record| record.cpu_seconds / gib(record)),
            idle_share: middle(|record| {
                record.idle_seconds / (record.busy_seconds + record.idle_seconds).max(1e-9)
            }),
        })
    }

    /// The samples of both, repeat by repeat.
    fn beside(&self, other: &Cell<'a>) -> Vec<(&'a Record, &'a Record)> {
        let pair = |(repeat, record): (&usize, &&'a Record)| Some((*record, *other.by_repeat.get(repeat)?));
        self.by_repeat.iter().filter_map(pair).collect()
    }

    /// How many times the other's speed this is.
    fn over(&self, other: &Cell<'a>) -> Option<Ratio> {
        let pairs = self.beside(other);
        Ratio::of(&pairs.iter().map(|(ours, theirs)| ours.rate() / theirs.rate()).collect::<Vec<_>>())
    }
}

/// What a cell made of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) seconds: f64,
    pub(super) busy: f64,
    pub(super) daemon: f64,
    pub(super) idle_share: f64,
}

fn gib(record: &Record) -> f64 {
    record.bytes as f64 / (1u64 << 30) as f64
}

fn cpu_per_byte(record: &Record) -> f64 {
    record.cpu_seconds / record.bytes as f64
}

/// One store's results.
pub(super) struct Summary<'a> {
    pub(super) store: &'a str,
    pub(super) rows: &'a [Row],
    pub(super) kinds: &'a [Kind],
    records: Vec<&'a Record>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Least(f64),
    Most(f64),
}

/// What a comparison came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) ratio: Ratio,
    pub(super) target: Option<Target>,
}

impl Judged {
    pub(super) fn is_met(&self) -> bool {
        match self.target {
            None => true,
            Some(Target::Least(least)) => self.ratio.reaches(least),
            Some(Target::Most(most)) => self.ratio.stays_within(most),
        }
    }
}

impl<'a> Summary<'a> {
    pub(super) fn new(store: &'a str, rows: &'a [Row], kinds: &'a [Kind], records: &'a [Record]) -> Self {
        let records = records.iter().filter(|record| record.store == store).collect();
        Self { store, rows, kinds, records }
    }

    pub(super) fn cell(&self, row: &str, kind: Kind) -> Option<Cell<'a>> {
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

    fn ours(&self, row: &str) -> Option<Cell<'a>> {
        self.cell(row, Kind::Strongroom)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Kind> + '_ {
        self.kinds.iter().copied().filter(|kind| *kind != Kind::Strongroom)
    }

    /// Ours over the peer's speed.
    pub(super) fn judged(&self, row: &Row, peer: Kind) -> Option<Judged> {
        let ratio = self.ours(&row.key)?.over(&self.cell(&row.key, peer)?)?;
        let is_asked = self.store == "tmpfs" || peer != Kind::Passthrough;
        Some(Judged { ratio, target: row.target(peer).filter(|_| is_asked).map(Target::Least) })
    }

    /// The geometric mean of all rows' ratios against a peer.
    pub(super) fn mean(&self, peer: Kind) -> Option<Judged> {
        let ratios: Vec<Ratio> =
            self.rows.iter().filter_map(|row| Some(self.judged(row, peer)?.ratio)).collect();
        let target = target_mean(peer).filter(|_| self.store == "tmpfs").map(Target::Least);
        Some(Judged { ratio: Ratio::mean_of(&ratios)?, target })
    }

    /// Our CPU time per byte over gocryptfs's, where the row moves bytes and the clock tells both.
    pub(super) fn cpu(&self, row: &Row) -> Option<Judged> {
        let pairs = self.ours(&row.key)?.beside(&self.cell(&row.key, Kind::Gocryptfs)?);
        let is_told = |record: &Record| record.bytes > 0 && record.cpu_seconds > CPU_SECONDS_TOLD;
        let ratio = |(ours, theirs): &(&Record, &Record)| {
            (is_told(ours) && is_told(theirs)).then(|| cpu_per_byte(ours) / cpu_per_byte(theirs))
        };
        let ratios: Vec<f64> = pairs.iter().map(ratio).collect::<Option<_>>()?;
        Some(Judged { ratio: Ratio::of(&ratios)?, target: Some(Target::Most(CPU_ROW_MAX)) })
    }

    /// The geometric mean of our CPU time over gocryptfs's; its count is that of the rows that tell.
    pub(super) fn cpu_mean(&self) -> Option<Judged> {
        let ratios: Vec<Ratio> = self.rows.iter().filter_map(|row| Some(self.cpu(row)?.ratio)).collect();
        Some(Judged { ratio: Ratio::mean_of(&ratios)?, target: Some(Target::Most(CPU_MEAN_MAX)) })
    }

    /// Our speed with four jobs over ours with one.
    pub(super) fn jobs(&self, row: &Row) -> Option<Judged> {
        let ratio = self.ours(&row.key)?.over(&self.ours(&row.with_one_job()?)?)?;
        Some(Judged { ratio, target: Some(Target::Least(row.target_jobs())) })
    }

    /// Everything that is compared, with its name.
    fn comparisons(&self) -> Vec<(String, Judged)> {
        let mut all = Vec::new();
        for peer in self.peers() {
            let name = peer.program();
            for row in self.rows {
                all.push((format!("{} against {name}", row.key), self.judged(row, peer)));
            }
            all.push((format!("geometric mean against {name}"), self.mean(peer)));
        }
        for row in self.rows {
            all.push((format!("{} CPU of gocryptfs's", row.key), self.cpu(row)));
        }
        all.push(("geometric mean of CPU of gocryptfs's".into(), self.cpu_mean()));
        for row in self.rows {
            all.push((format!("{} against one job", row.key), self.jobs(row)));
        }
        all.into_iter().filter_map(|(name, judged)| Some((name, judged?))).collect()
    }

    /// How many comparisons something is asked of.
    pub(super) fn asked(&self) -> usize {
        self.comparisons().iter().filter(|(_, judged)| judged.target.is_some()).count()
    }

    /// Everything that was asked and missed, one line each.
    pub(super) fn misses(&self) -> Vec<String> {
        let miss = |(name, judged): (String, Judged)| {
            let Ratio { low, mean, high, .. } = judged.ratio;
            let asked = match judged.target {
                Some(Target::Least(least)) => format!("asked {least:.2}"),
                Some(Target::Most(most)) => format!("at most {most:.2}"),
                None => return None,
            };
            (!judged.is_met()).then(|| format!("{name}: {mean:.2} ({low:.2} to {high:.2}), {asked}"))
        };
        self.comparisons().into_iter().filter_map(miss).collect()
    }

    /// Adds every sample that a table comes from.
    pub(super) fn samples(&self, document: &mut Document) {
        for row in self.rows {
            for kind in self.kinds {
                let Some(cell) = self.cell(&row.key, *kind) else { continue };
                let name = format!("{} on {}", row.key, self.store);
                let variant =
                    if cell.variant.is_empty() { String::new() } else { format!(" ({})", cell.variant) };
                let side = format!("{}{variant}", kind.program());
                let of = |of: fn(&Record) -> f64| cell.by_repeat.values().map(|record| of(record)).collect();
                document.sample(&name, &side, "seconds", of(|record| record.seconds));
                document.sample(&name, &side, "bytes", of(|record| record.bytes as f64));
                document.sample(&name, &side, "operations", of(|record| record.operations as f64));
                document.sample(&name, &side, "daemon cpu_seconds", of(|record| record.cpu_seconds));
                document.sample(&name, &side, "busy cpu_seconds", of(|record| record.busy_seconds));
                document.sample(&name, &side, "idle cpu_seconds", of(|record| record.idle_seconds));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::rows;
    use crate::folder::tables::tables;
    use crate::result::Table;

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
        Record {
            store,
            row,
            subject,
            variant,
            repeat,
            seconds,
            bytes: 1 << 30,
            operations: 1,
            cpu_seconds,
            busy_seconds: 1.5 * seconds,
            idle_seconds: 0.5 * seconds,
        }
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
        let tables = tables(&summary);
        let [ratios, rates, ..] = tables.as_slice() else { panic!("{tables:?}") };
        assert!(ratios.rows[0][1].starts_with("0.50") && ratios.rows[0][1].contains("**asked"), "{ratios:?}");
        assert!(rates.rows[0][2].contains("(fast)"), "{rates:?}");
        let mut document = Document::new("folder", Vec::new());
        summary.samples(&mut document);
        let samples = document.samples.unwrap_or_default();
        let seconds = samples.iter().find(|series| series.side == "passthrough_ll (fast)");
        assert_eq!(seconds.map(|series| series.values.as_slice()), Some(&[1.0, 1.5, 2.0][..]));
    }

    /// Rows of this name's beginning, with samples of ours and gocryptfs's that take so long and so much CPU.
    fn two(key: &str, ours: [(f64, f64); 3], theirs: [(f64, f64); 3]) -> (Vec<Row>, Vec<Record>) {
        let rows: Vec<Row> = rows::all().into_iter().filter(|row| row.key.starts_with(key)).collect();
        let mut records = Vec::new();
        for row in &rows {
            for (repeat, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
                records.push(record(&row.key, Kind::Strongroom, "", repeat, ours.0, ours.1));
                records.push(record(&row.key, Kind::Gocryptfs, "", repeat, theirs.0, theirs.1));
            }
        }
        (rows, records)
    }

    const BOTH: [Kind; 2] = [Kind::Strongroom, Kind::Gocryptfs];

    #[test]
    fn a_mean_is_judged_by_its_bound() {
        let (rows, records) = two("write-1m", [(1.0, 0.5); 3], [(2.0, 1.0), (2.5, 1.0), (3.2, 1.0)]);
        let summary = Summary::new("tmpfs", &rows, &BOTH, &records);
        let mean = summary.mean(Kind::Gocryptfs).unwrap();
        assert!(mean.ratio.mean < 3.0 && mean.ratio.high > 3.0 && mean.is_met(), "{mean:?}");
        assert_eq!(summary.misses(), Vec::<String>::new());
        // On another store nothing is asked of the mean.
        let records: Vec<Record> =
            records.into_iter().map(|record| Record { store: "disk".into(), ..record }).collect();
        assert_eq!(Summary::new("disk", &rows, &BOTH, &records).mean(Kind::Gocryptfs).unwrap().target, None);
    }

    #[test]
    fn cpu_times_that_the_clock_does_not_tell_do_not_count() {
        let (mut rows, mut records) = two("unpack", [(1.0, 0.0), (1.0, 0.01), (1.0, 0.4)], [(9.0, 1.0); 3]);
        let (more, of_them) = two("write-4k-1", [(1.0, 0.9); 3], [(20.0, 1.0); 3]);
        rows.extend(more);
        records.extend(of_them);
        let summary = Summary::new("tmpfs", &rows, &BOTH, &records);
        assert_eq!(summary.cpu(&rows[0]), None);
        let mean = summary.cpu_mean().unwrap();
        assert!(mean.ratio.count == 1 && (mean.ratio.mean - 0.9).abs() < 1e-9 && !mean.is_met());
        let misses = summary.misses().join("\n");
        assert!(
            misses.contains("write-4k-1 CPU of gocryptfs's: 0.90 (0.90 to 0.90), at most 0.85"),
            "{misses}"
        );
        assert!(misses.contains("geometric mean of CPU of gocryptfs's"), "{misses}");
    }

    #[test]
    fn four_jobs_are_judged_against_one() {
        let (rows, mut records) = two("random-read-cold-4k", [(1.0, 0.5); 3], [(9.0, 2.0); 3]);
        let four = records.iter_mut().filter(|record| record.row.ends_with("-4"));
        four.filter(|record| record.subject == Kind::Strongroom.program())
            .for_each(|four| four.seconds = 0.8);
        let summary = Summary::new("tmpfs", &rows, &BOTH, &records);
        assert_eq!(summary.jobs(&rows[0]), None);
        assert!((summary.jobs(&rows[1]).unwrap().ratio.mean - 1.25).abs() < 1e-9);
        let misses = summary.misses().join("\n");
        assert!(misses.contains("random-read-cold-4k-4 against one job: 1.25"), "{misses}");
        let text: String = tables(&summary).iter().map(Table::markdown).collect();
        assert!(text.contains("| random-read-cold-4k-4 | 1.25 (1.25-1.25), **asked 1.40** |"), "{text}");
        assert!(
            text.contains("| random-read-cold-4k-4 | strongroom | 0.80 | 1.50 | 0.50 | 25 % |"),
            "{text}"
        );
    }
}
