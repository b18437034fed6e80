//! Encrypted folders compared: ours, unencrypted FUSE, our own transport without encryption, and what Debian ships.
//!
//! Every subject is formatted and filled once for each kind of store. Then, row by row and repeat by repeat,
//! each has its turn, in an order that is reversed every second time. So a ratio compares what was measured
//! one right after the other. Rows that differ in their jobs alone take turns too. What was measured is kept:
//! a run that was stopped goes on, and more repeats can be asked of one that has ended.

mod data;
mod flame;
pub(super) mod mix;
mod plot;
mod rows;
mod stage;
mod state;
mod summary;
mod tables;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

pub(super) use crate::folder::rows::Mix;
use crate::folder::rows::{Row, Work};
use crate::folder::stage::{Stage, Variant};
use crate::folder::state::{Record, State};
use crate::folder::summary::Summary;
use crate::result::{Document, Machine, commit};
use crate::statistics::geometric_mean;
use crate::work::Archive;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::{Kind, Settings, Subject};
use strongroom_harness::workspace;

/// In this order by default. Those after the fourth take part in the main rows alone, unless `--full`.
const KINDS: [Kind; 7] = [
    Kind::Strongroom,
    Kind::Passthrough,
    Kind::Clear,
    Kind::Gocryptfs,
    Kind::Securefs,
    Kind::Encfs,
    Kind::Cryfs,
];
const ALWAYS: [Kind; 4] = [Kind::Strongroom, Kind::Passthrough, Kind::Clear, Kind::Gocryptfs];

/// How `passthrough_ll` can be mounted. After two repeats only the best for a row goes on, and for a cell of
/// several rows the best for each.
const PASSTHROUGH: [(&str, &[&str]); 4] = [
    ("write-back", &["-o", "writeback,cache=always"]),
    ("write-back, clone_fd", &["-o", "writeback,cache=always,clone_fd"]),
    ("write-back, one thread", &["-s", "-o", "writeback,cache=always"]),
    ("write-through, clone_fd", &["-o", "cache=always,clone_fd"]),
];
const TRIALS: usize = 2;

/// Files of the tree, in short runs and in others. `passthrough_ll` and our unencrypted transport keep a
/// descriptor for each inode that the kernel knows, those of the repository for `git status` included: with
/// 10,000 files 20,500 at a time, where a process may often have 20,000 at most.
const SMALL_FILES_QUICK: u64 = 2_000;
const SMALL_FILES: u64 = 4_000;

#[derive(Args)]
pub(crate) struct FolderArgs {
    /// About 15 minutes: main rows, three repeats, a store in memory
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every row for every peer, on both stores, seven repeats: many hours
    #[arg(long)]
    full: bool,
    /// Only rows whose name contains one of these
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these subjects; Strongroom is always there
    #[arg(long, value_enum, value_delimiter = ',')]
    peer: Vec<Kind>,
    /// How often each row is repeated [default: 7, 3 with --quick]
    #[arg(long)]
    repeats: Option<u64>,
    /// Bytes of the large files together, in MiB [default: 512, 256 with --quick]
    #[arg(long)]
    file_mib: Option<u64>,
    /// Time of a cell, in milliseconds [default: 600, 500 with --quick, 2000 with --full]
    #[arg(long)]
    cell_ms: Option<u64>,
    #[command(flatten)]
    settings: Settings,
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the store in memory lies
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Where the store on a disk lies [default: the build directory; without --full only with this option]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Where samples are kept [default: bench-folder.jsonl in the build directory]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Forgets the samples of an earlier run
    #[arg(long)]
    fresh: bool,
    /// Writes the report there too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the ratios there, one file for each store
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Draws there where the daemon's time goes in four main rows, and measures nothing else (needs perf)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "plot"])]
    flame: Option<PathBuf>,
    /// Lists the rows and ends
    #[arg(long)]
    list: bool,
}

/// What one run does.
struct Plan {
    rows: Vec<Row>,
    kinds: Vec<Kind>,
    repeats: usize,
    each: u64,
    budget: Duration,
    /// Every peer in every row.
    full: bool,
    small_files: u64,
}

impl Plan {
    fn new(arguments: &FolderArgs) -> Result<Self> {
        let pick = |quick, default, full| match (arguments.quick, arguments.full) {
            (true, _) => quick,
            (_, true) => full,
            _ => default,
        };
        let wanted = |row: &Row| {
            if arguments.only.is_empty() {
                !arguments.quick || row.main
            } else {
                arguments.only.iter().any(|part| row.key.contains(part.as_str()))
            }
        };
        let rows: Vec<Row> = rows::all().into_iter().filter(wanted).collect();
        ensure!(!rows.is_empty(), "no row is named like that; --list shows them");
        let chosen = |kind: &Kind| {
            *kind == Kind::Strongroom || arguments.peer.is_empty() || arguments.peer.contains(kind)
        };
        let file_mib = arguments.file_mib.unwrap_or(pick(256, 512, 512));
        ensure!(file_mib >= 4 && file_mib.is_multiple_of(4), "--file-mib is a multiple of 4");
        Ok(Self {
            rows,
            kinds: KINDS.into_iter().filter(chosen).collect(),
            repeats: arguments.repeats.unwrap_or(pick(3, 7, 7)).max(1) as usize,
            each: (file_mib << 20) / data::FILES as u64,
            budget: Duration::from_millis(arguments.cell_ms.unwrap_or(pick(500, 600, 2000))),
            full: arguments.full || !arguments.peer.is_empty(),
            small_files: pick(SMALL_FILES_QUICK, SMALL_FILES, SMALL_FILES),
        })
    }

    fn takes_part(&self, kind: Kind, row: &Row) -> bool {
        self.full || row.main || ALWAYS.contains(&kind)
    }

    /// What samples depend on: a state file of another run is not gone on with.
    fn settings(&self, subjects: &[(Kind, Vec<Variant>)], label: &str) -> Result<String> {
        let versions = subjects
            .iter()
            .map(|(kind, variants)| Ok((kind.program(), variants[0].subject.version()?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(json!({
            "schema": "strongroom.bench.folder.state/1",
            "machine": Machine::this().line(),
            "commit": commit(),
            "strongroom": label,
            "versions": versions,
            "file_bytes": self.each * data::FILES as u64,
            "cell_ms": self.budget.as_millis() as u64,
            "small_files": self.small_files,
        })
        .to_string())
    }
}

/// Measures, and prints what it came to.
pub(crate) fn run(arguments: &FolderArgs) -> Result {
    let plan = Plan::new(arguments)?;
    if arguments.list {
        for row in &plan.rows {
            println!("{:28} {}{}", row.key, row.title, if row.main { " (main)" } else { "" });
        }
        return Ok(());
    }
    packages::need_root("bench folder")?;
    packages::need(&[("tar", "tar"), ("git", "git"), ("fusermount3", "fuse3")])?;
    let subjects = resolve(&plan, arguments)?;
    if let Some(directory) = &arguments.flame {
        let ours = &subjects[0].1[0];
        return flame::draw(ours, &arguments.memory, plan.each, plan.budget, plan.small_files, directory);
    }
    let target = workspace::target()?;
    let state_file = arguments.state.clone().unwrap_or_else(|| target.join("bench-folder.jsonl"));
    let settings = plan.settings(&subjects, &subjects[0].1[0].subject.label())?;
    let mut state = State::open(&state_file, &settings, arguments.fresh)?;
    let mut stores = vec![("tmpfs", arguments.memory.clone())];
    if let Some(disk) = arguments.disk.clone().or_else(|| arguments.full.then(|| target.clone())) {
        stores.push(("disk", disk));
    }
    let mut absent = Vec::new();
    for (name, place) in &stores {
        absent.extend(measure(&plan, &subjects, name, place, &mut state)?);
    }
    let names: Vec<&str> = stores.iter().map(|(name, _)| *name).collect();
    let versions =
        subjects.iter().map(|(_, variants)| variants[0].subject.version()).collect::<Result<_>>()?;
    report(&plan, &state, &names, versions, &absent, arguments)
}

fn resolve(plan: &Plan, arguments: &FolderArgs) -> Result<Vec<(Kind, Vec<Variant>)>> {
    let resolve = |kind: &Kind| {
        let subject = Subject::resolve(*kind, arguments.settings.clone(), arguments.binary.as_deref())?;
        let variants = match &subject {
            Subject::Peer(peer) if *kind == Kind::Passthrough => PASSTHROUGH
                .iter()
                .map(|(name, options)| Variant {
                    name: (*name).into(),
                    subject: Subject::Peer(peer.with_options(options)),
                })
                .collect(),
            _ => vec![Variant { name: String::new(), subject }],
        };
        Ok((*kind, variants))
    };
    plan.kinds.iter().map(resolve).collect()
}

/// The rows that are measured by themselves, those that are compared with each other together. A pass over a
/// tree measures all of its steps, with the first of them that is wanted.
fn cells(rows: &[Row]) -> Vec<&[Row]> {
    let is_step = |row: &Row| matches!(row.work, Work::Step(_));
    rows.chunk_by(|left, right| is_step(left) && is_step(right) || left.is_same_but_for_jobs(right))
        .map(|rows| if is_step(&rows[0]) { &rows[..1] } else { rows })
        .collect()
}

/// Measures what is missing on one store. Says which peers could not take part, and why.
fn measure(
    plan: &Plan,
    subjects: &[(Kind, Vec<Variant>)],
    store: &str,
    place: &Path,
    state: &mut State,
) -> Result<Vec<String>> {
    let scratch = Scratch::new(Some(place), "folder")?;
    let archive = Archive::create(scratch.path(), plan.small_files)?;
    let mut absent = Vec::new();
    let mut stages = Vec::new();
    for (kind, variants) in subjects {
        eprintln!("{store}: filling {}", kind.program());
        let base = scratch.make(kind.program())?;
        match Stage::new(variants.clone(), &base, store != "tmpfs", plan.each) {
            Ok(stage) => stages.push(stage),
            Err(failure) if *kind != Kind::Strongroom => {
                absent.push(format!("{} on {store}: {failure}", kind.program()));
            }
            Err(failure) => return Err(failure),
        }
    }
    let cells = cells(&plan.rows);
    for (kind, _) in subjects {
        let left_out = cells.iter().copied().flatten().filter(|row| !plan.takes_part(*kind, row)).count();
        if left_out > 0 {
            let name = kind.program();
            absent.push(format!("{name} on {store}, {left_out} rows: in the main ones alone without --full"));
        }
    }
    let began = Instant::now();
    for (index, rows) in cells.iter().enumerate() {
        let (at, all) = (index + 1, cells.len());
        eprintln!("{store}: {at} of {all}, {} s: {}", began.elapsed().as_secs(), rows[0].key);
        stages.iter_mut().try_for_each(Stage::rest)?;
        for repeat in 0..plan.repeats {
            for row in *rows {
                let turn = Turn { plan, store, row, archive: &archive, state };
                absent.extend(turn.all(&mut stages, repeat)?);
            }
        }
    }
    Ok(absent)
}

/// One row on one store.
struct Turn<'a> {
    plan: &'a Plan,
    store: &'a str,
    row: &'a Row,
    archive: &'a Archive,
    state: &'a mut State,
}

impl Turn<'_> {
    /// One repeat of every subject. Says which peers failed, and how.
    fn all(mut self, stages: &mut [Stage], repeat: usize) -> Result<Vec<String>> {
        let mut order: Vec<&mut Stage> = stages.iter_mut().collect();
        if repeat % 2 == 1 {
            order.reverse();
        }
        let mut absent = Vec::new();
        for stage in order {
            if let Err(failure) = self.take(stage, repeat) {
                let name = stage.kind().program();
                let failure = Failure::new(format!("{name} on {}, {}: {failure}", self.store, self.row.key));
                if stage.kind() == Kind::Strongroom {
                    return Err(failure);
                }
                eprintln!("{failure}");
                absent.push(failure.to_string());
            }
        }
        Ok(absent)
    }

    fn take(&mut self, stage: &mut Stage, repeat: usize) -> Result {
        let kind = stage.kind();
        if !self.plan.takes_part(kind, self.row) {
            return Ok(());
        }
        for variant in 0..stage.variants().len() {
            let name = stage.variants()[variant].name.clone();
            let lost = repeat >= TRIALS
                && stage.variants().len() > 1
                && has_lost(self.state.records(), (self.store, kind), &self.keys(), &name);
            if lost || self.has(kind, &name, repeat) {
                continue;
            }
            let seed = 100 + repeat as u64;
            let measured = stage.run(self.row.work, variant, self.plan.budget, seed, self.archive)?;
            for (key, measured) in self.keys().into_iter().zip(measured) {
                self.state.add(Record {
                    store: self.store.into(),
                    row: key,
                    subject: kind.program().into(),
                    variant: name.clone(),
                    repeat,
                    seconds: measured.sample.seconds,
                    bytes: measured.sample.bytes,
                    operations: measured.sample.operations,
                    cpu_seconds: measured.used.daemon,
                    busy_seconds: measured.used.busy,
                    idle_seconds: measured.used.idle,
                })?;
            }
        }
        Ok(())
    }

    /// True when nothing of this cell is missing.
    fn has(&self, kind: Kind, variant: &str, repeat: usize) -> bool {
        self.keys().iter().all(|key| self.state.has(self.store, key, kind.program(), variant, repeat))
    }

    /// The rows that a cell gives samples for.
    fn keys(&self) -> Vec<String> {
        match self.row.work {
            Work::Step(_) => rows::STEPS.iter().map(|(_, key, _)| (*key).to_owned()).collect(),
            _ => vec![self.row.key.clone()],
        }
    }
}

/// Whether another of a subject's variants was faster in every row of a cell.
fn has_lost(records: &[Record], subject: (&str, Kind), keys: &[String], variant: &str) -> bool {
    keys.iter().all(|key| fastest(records, subject, key).is_some_and(|fastest| fastest != variant))
}

/// The variant that was fastest in a row's trials.
fn fastest<'a>(records: &'a [Record], (store, kind): (&str, Kind), key: &str) -> Option<&'a str> {
    let mut rates: std::collections::BTreeMap<&str, Vec<f64>> = Default::default();
    let of_subject = |record: &&Record| record.store == store && record.subject == kind.program();
    let of_row = records.iter().filter(of_subject).filter(|record| record.row == key);
    for record in of_row.filter(|record| record.repeat < TRIALS) {
        rates.entry(&record.variant).or_default().push(record.rate());
    }
    let score = |rates: &[f64]| geometric_mean(rates);
    rates
        .into_iter()
        .max_by(|(_, left), (_, right)| score(left).total_cmp(&score(right)))
        .map(|(variant, _)| variant)
}

fn report(
    plan: &Plan,
    state: &State,
    stores: &[&str],
    versions: Vec<String>,
    absent: &[String],
    arguments: &FolderArgs,
) -> Result {
    let mut document = Document::new("folder", versions);
    document.remark = (!absent.is_empty()).then(|| format!("Not measured: {}.", absent.join("; ")));
    let mut missed = Vec::new();
    for store in stores {
        let summary = Summary::new(store, &plan.rows, &plan.kinds, state.records());
        document.tables.extend(tables::tables(&summary));
        summary.samples(&mut document);
        missed.extend(summary.misses().iter().map(|miss| format!("{miss}, store on {store}")));
        println!("{} of {} that are asked were missed on {store}", summary.misses().len(), summary.asked());
        if let Some(directory) = &arguments.plot {
            fs::create_dir_all(directory).context(directory.display())?;
            plot::draw(&summary, &directory.join(format!("folder-{store}.svg")))?;
        }
    }
    if arguments.quick {
        println!("{}", missed.join("\n"));
        missed.clear();
    }
    document.conclude(arguments.json.as_deref(), &missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_over_a_tree_is_made_once_whichever_of_its_steps_is_wanted() {
        for (_, wanted, _) in rows::STEPS {
            let alone: Vec<Row> = rows::all().into_iter().filter(|row| row.key == wanted).collect();
            assert_eq!(cells(&alone), [&alone[..]], "{wanted}");
        }
        let all = rows::all();
        let measured: Vec<&Row> = cells(&all).into_iter().flatten().collect();
        assert_eq!(measured.len(), all.len() - rows::STEPS.len() + 1);
    }

    #[test]
    fn a_variant_goes_on_while_it_is_the_fastest_in_any_row_of_the_cell() {
        let record = |row: &str, variant: &str, repeat, seconds| Record {
            store: "tmpfs".into(),
            row: row.into(),
            subject: Kind::Passthrough.program().into(),
            variant: variant.into(),
            repeat,
            seconds,
            bytes: 1 << 30,
            operations: 1,
            cpu_seconds: 1.0,
            busy_seconds: 1.0,
            idle_seconds: 1.0,
        };
        // Over both rows together the last is best, and by far.
        let mut records = Vec::new();
        for repeat in 0..TRIALS {
            for (variant, unpack, list) in [("threads", 1.0, 9.0), ("slow", 1.2, 9.0), ("one", 1.5, 1.0)] {
                records.push(record("unpack", variant, repeat, unpack));
                records.push(record("list", variant, repeat, list));
            }
        }
        // What came after the trials decides nothing.
        records.push(record("unpack", "slow", TRIALS, 0.1));
        let keys = ["unpack".to_owned(), "list".to_owned()];
        let goes_on = |variant| !has_lost(&records, ("tmpfs", Kind::Passthrough), &keys, variant);
        assert_eq!(["threads", "slow", "one"].map(goes_on), [true, false, true]);
        assert!(!has_lost(&[], ("tmpfs", Kind::Passthrough), &keys, "slow"), "nothing is known yet");
    }

    #[test]
    fn rows_that_are_compared_with_each_other_are_measured_together() {
        let all = rows::all();
        for cell in cells(&all).iter().filter(|cell| !matches!(cell[0].work, Work::Step(_))) {
            let [one, four] = cell else { panic!("{} alone", cell[0].key) };
            assert_eq!(four.with_one_job(), Some(one.key.clone()));
        }
    }
}
