//! fsx: random reads, writes, truncations, holes and mappings on one file, every read verified.
//!
//! A number of operations is spread over configurations: suite, block size, with and without mmap,
//! operation sizes and seeds. Each also runs on the bare file system first, so that a failure there
//! shows a fault of the tool or of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, SUITES, Settings, Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

/// What CI runs in all.
const OPERATIONS_SHORT: u64 = 50_000;
/// What the long form runs in all.
const OPERATIONS_LONG: u64 = 1_000_000;

/// The file that the tool works on.
const EXERCISED: &str = "exercised";
/// How many seeds may fail on the bare file system, and how far apart they are.
const SEEDS_MAX: u32 = 4;
const SEED_STEP: u64 = 1000;

const BLOCK_SIZES: [&str; 4] = ["4KiB", "16KiB", "64KiB", "1MiB"];

/// Grows with the operations; a slow disk does a few dozen a second where every small write is a block of
/// 1 MiB.
fn limit(operations: u64) -> Duration {
    Duration::from_secs(120 + operations / 40)
}

#[derive(Args)]
pub struct FsxArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Operations in all
    #[arg(long, default_value_t = OPERATIONS_SHORT)]
    ops: u64,
    /// The first seed; every configuration takes the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One configuration for every suite with every block size, instead of a small set
    #[arg(long)]
    all: bool,
}

impl FsxArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        Self {
            subject: subject.clone(),
            ops: if long { OPERATIONS_LONG } else { OPERATIONS_SHORT },
            seed: 1,
            all: long,
        }
    }
}

/// One run of the tool.
#[derive(Clone)]
struct Configuration {
    settings: Settings,
    mapped: bool,
    /// Whether a write through a mapping is synced at once.
    synced: bool,
    seed: u64,
    file_bytes_max: u64,
    operation_bytes_max: u64,
}

impl Configuration {
    fn label(&self, subject: &Subject) -> String {
        let mapped = if self.mapped { "mmap" } else { "no mmap" };
        format!("{}, {mapped}, seed {}", subject.with(self.settings.clone()).label(), self.seed)
    }

    /// The tool's own configuration file.
    ///
    /// `holes` turns punching on: peers that lack it answer with an error that ends the tool.
    fn file(&self, holes: bool) -> String {
        let mapped = u8::from(self.mapped) * 8;
        let punch = u8::from(holes) * 3;
        format!(
            "flen = {}\nnomsyncafterwrite = {}\n[opsize]\nmax = {}\n[weights]\nclose_open = 5\nread = 10\nwrite = 10\n\
             mapread = {mapped}\nmapwrite = {mapped}\ninvalidate = {}\ntruncate = 5\nfsync = 0.1\nfdatasync = 0.1\n\
             posix_fallocate = 2\npunch_hole = {punch}\nsendfile = 2\nposix_fadvise = 1\ncopy_file_range = 3\n",
            self.file_bytes_max,
            !self.synced,
            self.operation_bytes_max,
            u8::from(self.mapped),
        )
    }
}

/// Runs every configuration.
pub fn run(arguments: &FsxArgs) -> Result<Tally> {
    let tool = packages::tool(&packages::FSX)?;
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("fsx")?;
    let configurations = configurations(arguments);
    let operations = arguments.ops.div_ceil(configurations.len() as u64);
    let mut tally = Tally::default();
    for (index, configuration) in configurations.iter().enumerate() {
        let base = scratch.make(&index.to_string())?;
        let mut configuration = configuration.clone();
        let runner = Runner { tool: &tool, subject: &subject, operations, base };
        let outcome = runner
            .on_the_bare_file_system(&mut configuration)
            .and_then(|expected| runner.on_the_mount(&configuration, &expected));
        let label = configuration.label(&subject);
        if outcome.is_ok() {
            println!("  {operations} operations on {label}");
        }
        tally.count(&label, outcome);
    }
    Ok(tally)
}

fn configurations(arguments: &FsxArgs) -> Vec<Configuration> {
    let chosen = &arguments.subject.settings;
    let fixed = chosen.suite.is_some() || chosen.block_size.is_some();
    let pairs: Vec<(Option<String>, Option<String>)> =
        if fixed || arguments.subject.subject != Kind::Strongroom {
            vec![(chosen.suite.clone(), chosen.block_size.clone())]
        } else if arguments.all {
            let all = SUITES.iter().flat_map(|suite| BLOCK_SIZES.map(|size| (*suite, size)));
            all.map(|(suite, size)| (Some(suite.to_owned()), Some(size.to_owned()))).collect()
        } else {
            // Every suite and every block size at least once, the default pair first.
            let set = SUITES.into_iter().zip(BLOCK_SIZES.into_iter().cycle());
            set.map(|(suite, size)| (Some(suite.to_owned()), Some(size.to_owned()))).collect()
        };
    let mut configurations = Vec::new();
    for (suite, block_size) in pairs {
        for mapped in [false, true] {
            let index = configurations.len();
            // Larger files use many blocks and more than one page; a sync after each write through a
            // mapping is slow on a disk. Both vary on their own, so that every combination occurs.
            let large = index / 2 % 2 == 1;
            let synced = index / 4 % 2 == 0;
            configurations.push(Configuration {
                settings: Settings {
                    suite: suite.clone(),
                    block_size: block_size.clone(),
                    engine: chosen.engine.clone(),
                    transport: chosen.transport.clone(),
                },
                mapped,
                synced,
                seed: arguments.seed + index as u64,
                file_bytes_max: if large { 4 << 20 } else { 256 << 10 },
                operation_bytes_max: if large { 200_000 } else { 64 << 10 },
            });
        }
    }
    configurations
}

/// Runs one configuration.
struct Runner<'a> {
    tool: &'a Path,
    subject: &'a Subject,
    operations: u64,
    /// A directory of its own.
    base: PathBuf,
}

impl Runner<'_> {
    /// Runs the tool on the bare file system, and reads what that leaves.
    ///
    /// A seed on which the tool fails there says nothing about the mount (it may draw a `posix_fallocate`
    /// of no bytes, which the kernel refuses): another takes its place, and the failure is printed.
    fn on_the_bare_file_system(&self, what: &mut Configuration) -> Result<Vec<u8>> {
        for attempt in 0..SEEDS_MAX {
            let place = self.base.join(format!("bare-{attempt}"));
            fs::create_dir(&place)?;
            match self.exercise(what, &place) {
                Ok(()) => return Ok(fs::read(place.join(EXERCISED))?),
                Err(failure) => {
                    let text = failure.to_string();
                    let last = text.trim_end().lines().next_back().unwrap_or_default();
                    println!("  seed {} fails on the bare file system, another is taken: {last}", what.seed);
                    what.seed += SEED_STEP;
                }
            }
        }
        Err(Failure::new(format!("{SEEDS_MAX} seeds failed on the bare file system")))
    }

    /// Both runs do the same, so both files are the same, also when they are read back from the store.
    fn on_the_mount(&self, what: &Configuration, expected: &[u8]) -> Result {
        let vault = Vault::create(&self.subject.with(what.settings.clone()), &self.base)?;
        let time = limit(self.operations) + Duration::from_secs(60);
        let mut mount = vault.mount(MountOptions::new(time))?;
        let exercised = self.exercise(what, mount.path());
        exercised
            .map_err(|failure| Failure::new(format!("on the mount: {failure}\n{}", vault.log_tail())))?;
        mount.remount()?;
        let found = fs::read(mount.path().join(EXERCISED))?;
        ensure!(found == expected, "the file differs from the bare one after a remount");
        mount.unmount()
    }

    fn exercise(&self, what: &Configuration, place: &Path) -> Result {
        let file = self.base.join("fsx.toml");
        fs::write(&file, what.file(self.subject.kind() != Kind::Gocryptfs))?;
        let artifacts = self.base.join("artifacts");
        fs::create_dir_all(&artifacts)?;
        let mut command = Command::new(self.tool);
        command.arg("-N").arg(self.operations.to_string()).arg("-S").arg(what.seed.to_string());
        command.arg("-f").arg(&file).arg("-P").arg(&artifacts).arg(place.join(EXERCISED));
        let finished = command::finish(&mut command, limit(self.operations))?;
        let output = finished.output();
        ensure!(finished.status.success(), "`{}`:\n{}", command::shown(&command), tail(&output));
        Ok(())
    }
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(3000);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[start..]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: FsxArgs,
    }

    #[test]
    fn the_small_set_has_every_suite_and_block_size_with_and_without_mmap() {
        let line = Line::parse_from(["fsx"]);
        let all = configurations(&line.arguments);
        for suite in SUITES {
            assert!(all.iter().any(|one| one.settings.suite.as_deref() == Some(suite)));
        }
        for size in BLOCK_SIZES {
            for mapped in [false, true] {
                assert!(
                    all.iter().any(|one| {
                        one.settings.block_size.as_deref() == Some(size) && one.mapped == mapped
                    })
                );
            }
        }
        let seeds: std::collections::BTreeSet<u64> = all.iter().map(|one| one.seed).collect();
        assert_eq!(seeds.len(), all.len());
    }
}
