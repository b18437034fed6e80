//! The speed floor: Strongroom against gocryptfs, in turn, both on a store in memory.
//!
//! Repeats are interleaved, and the order changes from one to the next, so that a machine that slows down
//! or warms up slows both. "Cold" means right after a remount: nothing of the plain files is cached, the
//! ciphertext is in memory. The daemon's memory is watched from mounting to unmounting.

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Args;

use crate::common::Common;
use crate::memory;
use crate::report::{Measured, Report, Row};
use crate::work::{self, Archive};
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::packages;
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const ROWS: [Row; 6] = [
    Row { key: "write_4k", title: "sequential write, 4 KiB calls", floor_percent: 800 },
    Row { key: "write_1m", title: "sequential write, 1 MiB calls", floor_percent: 110 },
    Row { key: "read_1m_cold", title: "sequential read, 1 MiB calls, cold", floor_percent: 100 },
    Row { key: "random_read_4k_cold", title: "random read, 4 KiB, cold", floor_percent: 100 },
    Row { key: "unpack", title: "unpacking small files", floor_percent: 100 },
    Row { key: "read_small_cold", title: "reading small files, cold", floor_percent: 100 },
];

/// The daemon's allowance.
const PEAK_BYTES_MAX: u64 = 200 << 20;
/// gocryptfs writes 1 GiB by 4 KiB in about 20 s here; a slow machine takes a few times that.
const MOUNT_LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(Args)]
pub(crate) struct FloorArgs {
    /// What to measure; floors are judged when both Strongroom and gocryptfs are among them
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["strongroom", "gocryptfs"])]
    subjects: Vec<Kind>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    common: Common,
    /// How often everything is repeated
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Size of the large files, in MiB
    #[arg(long, default_value_t = 1024)]
    file_mib: u64,
}

/// How much work one pass does.
struct Amount {
    file_bytes: u64,
    random_reads: u64,
    archive: Archive,
}

impl Amount {
    fn bytes(&self) -> Vec<u64> {
        let file = self.file_bytes;
        vec![file, file, file, self.random_reads * 4096, self.archive.bytes, self.archive.bytes]
    }
}

/// Measures everything and judges the floors.
pub(crate) fn run(arguments: &FloorArgs) -> Result {
    packages::need(&[("tar", "tar")])?;
    let repeats = if arguments.common.quick { 1 } else { arguments.repeats.max(1) };
    let subjects = arguments
        .subjects
        .iter()
        .map(|kind| Subject::resolve(*kind, arguments.settings.clone(), arguments.common.binary.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let scratch = Scratch::new(Some(&arguments.common.work), "bench")?;
    let amount = Amount {
        file_bytes: if arguments.common.quick { 64 } else { arguments.file_mib } << 20,
        random_reads: if arguments.common.quick { 2_000 } else { 20_000 },
        archive: Archive::create(scratch.path(), if arguments.common.quick { 1_000 } else { 10_000 })?,
    };
    let mut measured = subjects.iter().map(empty).collect::<Result<Vec<_>>>()?;
    for repeat in 0..repeats {
        for turn in 0..subjects.len() {
            let index = if repeat % 2 == 0 { turn } else { subjects.len() - 1 - turn };
            let base = scratch.make(&format!("{repeat}-{index}"))?;
            eprintln!("repeat {} of {repeats}: {}", repeat + 1, subjects[index].label());
            pass(&subjects[index], &base, &amount, repeat as u64, &mut measured[index])
                .context(subjects[index].label())?;
            fs::remove_dir_all(base)?;
        }
    }
    let place = |kind: Kind| subjects.iter().position(|subject| subject.kind() == kind);
    let report = Report {
        rows: &ROWS,
        bytes: amount.bytes(),
        file_bytes: amount.file_bytes,
        repeats,
        subjects: measured,
        pair: place(Kind::Strongroom).zip(place(Kind::Gocryptfs)),
        peak_bytes_max: PEAK_BYTES_MAX,
    };
    let missed = if arguments.common.quick { Vec::new() } else { report.shortfalls() };
    report.document().conclude(arguments.common.json.as_deref(), &missed)
}

fn empty(subject: &Subject) -> Result<Measured> {
    let times = vec![Vec::new(); ROWS.len()];
    Ok(Measured { name: subject.label(), version: subject.version()?, peak_bytes: 0, times })
}

/// A mount whose daemon's memory is watched across remounts.
struct Watched<'a> {
    mount: Mount,
    peak_bytes: &'a mut u64,
}

impl<'a> Watched<'a> {
    fn new(mount: Mount, peak_bytes: &'a mut u64) -> Result<Self> {
        if let Some(pid) = mount.daemon() {
            memory::reset_peak(pid)?;
        }
        Ok(Self { mount, peak_bytes })
    }

    fn note(&mut self) -> Result {
        if let Some(pid) = self.mount.daemon() {
            *self.peak_bytes = memory::peak_bytes(pid)?.max(*self.peak_bytes);
        }
        Ok(())
    }

    fn remount(&mut self) -> Result {
        self.note()?;
        self.mount.remount()?;
        if let Some(pid) = self.mount.daemon() {
            memory::reset_peak(pid)?;
        }
        Ok(())
    }

    fn unmount(mut self) -> Result {
        self.note()?;
        self.mount.unmount()
    }
}

/// All rows once, in a fresh vault.
fn pass(subject: &Subject, base: &Path, amount: &Amount, seed: u64, measured: &mut Measured) -> Result {
    let vault = Vault::create(subject, base)?;
    let plain = vault.place.directory.clone();
    let mut data = vec![0; MIB];
    Random::new(seed).fill(&mut data);
    let mut mount = Watched::new(vault.mount(MountOptions::new(MOUNT_LIMIT))?, &mut measured.peak_bytes)?;
    let (small_calls, large_calls) = (plain.join("by-4-kib"), plain.join("by-1-mib"));

    let write_4k = work::write(&small_calls, amount.file_bytes, 4 * KIB, &mut data)?;
    fs::remove_file(&small_calls)?;
    let write_1m = work::write(&large_calls, amount.file_bytes, MIB, &mut data)?;
    mount.remount()?;
    let read_1m = work::read(&large_calls, amount.file_bytes, MIB, &mut data)?;
    mount.remount()?;
    let random = work::read_random(&large_calls, amount.file_bytes, amount.random_reads, seed + 1)?;
    fs::remove_file(&large_calls)?;
    let unpack = amount.archive.unpack(&plain)?;
    mount.remount()?;
    let read_small = amount.archive.read_back(&plain)?;
    mount.unmount()?;

    let times = [write_4k, write_1m, read_1m, random, unpack, read_small];
    for (row, time) in measured.times.iter_mut().zip(times) {
        row.push(time);
    }
    Ok(())
}
