//! What the default durability costs against `--durability relaxed`, on a disk.
//!
//! Two vaults in one file system, mounted side by side, one with barriers and one without. Each piece of
//! work is done on both in turn, the order changing from pair to pair; before each, everything earlier is
//! synced on both, untimed, so that neither pays for the other. What is judged is the median of the pairs'
//! ratios. Barriers are not timed but counted, by `strace` on the daemon; the bytes that reach the store are
//! the kernel's own count (`write_bytes` of `/proc/PID/io`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::result::{Document, Table};
use crate::statistics::{Pairs, median};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::packages;
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MOUNT_LIMIT: Duration = Duration::from_secs(60 * 60);
const SYNC_LIMIT: Duration = Duration::from_secs(120);
const RELAXED: &[&str] = &["--durability", "relaxed"];

#[derive(Args)]
pub(crate) struct DurabilityArgs {
    #[command(flatten)]
    settings: Settings,
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// How often each piece of work is done on both
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Size of the files that are written, in MiB
    #[arg(long, default_value_t = 256)]
    file_mib: u64,
    /// How many small appends and overwrites are synced
    #[arg(long, default_value_t = 300)]
    syncs: u64,
    /// Where the stores lie: a directory of the file system to be measured
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Writes the report there too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A piece of work without a sync, and what it may cost more with barriers.
struct Work {
    key: &'static str,
    title: &'static str,
    /// In percent.
    cost_max: f64,
    run: fn(&Path, u64, u64) -> Result<Duration>,
}

const WORK: [Work; 3] = [
    Work { key: "first_write", title: "first writes, 128 KiB calls", cost_max: 5.0, run: first_write },
    Work { key: "append", title: "appends, 64 KiB calls", cost_max: 5.0, run: append },
    Work { key: "overwrite_4k", title: "random overwrites, 4 KiB", cost_max: 30.0, run: overwrite },
];

/// One of the two mounts.
struct Side {
    binary: PathBuf,
    mount: Mount,
}

impl Side {
    fn begin(subject: &Subject, scratch: &Scratch, name: &str, options: MountOptions) -> Result<Self> {
        let Subject::Strongroom { binary, .. } = subject else {
            return Err(Failure::new("only strongroom has a durability to choose"));
        };
        let vault = Vault::create(subject, &scratch.make(name)?)?;
        Ok(Self { binary: binary.clone(), mount: vault.mount(options)? })
    }

    fn sync(&self) -> Result {
        let mut command = Command::new(&self.binary);
        command.arg("sync").arg(self.mount.path());
        command::output(&mut command, SYNC_LIMIT).map(drop)
    }

    fn daemon(&self) -> Result<Pid> {
        self.mount.daemon().ok_or_else(|| Failure::new("the mount has no daemon"))
    }
}

/// Measures everything and judges it.
pub(crate) fn run(arguments: &DurabilityArgs) -> Result {
    packages::need(&[("strace", "strace")])?;
    let subject =
        Subject::resolve(Kind::Strongroom, arguments.settings.clone(), arguments.binary.as_deref())?;
    let scratch = Scratch::new(Some(&arguments.work), "durable")?;
    let full = Side::begin(&subject, &scratch, "full", MountOptions::new(MOUNT_LIMIT))?;
    let relaxed = Side::begin(&subject, &scratch, "relaxed", MountOptions::new(MOUNT_LIMIT).with(RELAXED))?;
    let mut timed = Vec::new();
    for work in &WORK {
        timed.push(pairs(work, &full, &relaxed, arguments)?);
    }
    let counted = [
        ("small append + fsync", barriers(&full, "log", arguments.syncs, |_, at| at * 100)?),
        (
            "small overwrite + fsync",
            barriers(&full, "page", arguments.syncs, |random, _| random.below(4000))?,
        ),
    ];
    let bytes = [
        ("full", bytes_for_large_overwrites(&full, arguments.file_mib)?),
        ("relaxed", bytes_for_large_overwrites(&relaxed, arguments.file_mib)?),
    ];
    full.mount.unmount()?;
    relaxed.mount.unmount()?;
    let measured = Measured { timed, counted, bytes };
    measured.document(&subject, arguments)?.conclude(arguments.json.as_deref(), &measured.missed())
}

/// Does one piece of work on both sides, again and again.
fn pairs(work: &Work, full: &Side, relaxed: &Side, arguments: &DurabilityArgs) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    for pair in 0..arguments.pairs.max(1) {
        eprintln!("{}: pair {} of {}", work.title, pair + 1, arguments.pairs);
        let one = |side: &Side| -> Result<Duration> {
            full.sync()?;
            relaxed.sync()?;
            (work.run)(side.mount.path(), arguments.file_mib * MIB, pair as u64)
        };
        let (with, without) = if pair % 2 == 0 {
            let with = one(full)?;
            (with, one(relaxed)?)
        } else {
            let without = one(relaxed)?;
            (one(full)?, without)
        };
        pairs.push(with, without);
    }
    for side in [full, relaxed] {
        fs::remove_file(side.mount.path().join(work.key))?;
    }
    Ok(pairs)
}

fn noise(len: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A new file; its close hands everything to the daemon.
fn first_write(plain: &Path, len: u64, seed: u64) -> Result<Duration> {
    let path = plain.join("first_write");
    let _ = fs::remove_file(&path);
    let piece = noise(128 * KIB, seed);
    let began = Instant::now();
    let file = File::create_new(&path)?;
    for offset in (0..len).step_by(piece.len()) {
        file.write_all_at(&piece, offset)?;
    }
    drop(file);
    Ok(began.elapsed())
}

/// To the end of a file that is durable.
fn append(plain: &Path, len: u64, seed: u64) -> Result<Duration> {
    let path = plain.join("append");
    let piece = noise(64 * KIB, seed);
    let file = File::create(&path)?;
    for offset in (0..8 * MIB).step_by(piece.len()) {
        file.write_all_at(&piece, offset)?;
    }
    file.sync_all()?;
    drop(file);
    let began = Instant::now();
    let file = File::options().write(true).open(&path)?;
    for offset in (8 * MIB..len).step_by(piece.len()) {
        file.write_all_at(&piece, offset)?;
    }
    drop(file);
    Ok(began.elapsed())
}

/// A quarter of the blocks of a file that is durable.
fn overwrite(plain: &Path, len: u64, seed: u64) -> Result<Duration> {
    let path = plain.join("overwrite_4k");
    if !path.exists() {
        let piece = noise(MIB, seed);
        let file = File::create_new(&path)?;
        for offset in (0..len).step_by(piece.len()) {
            file.write_all_at(&piece, offset)?;
        }
        file.sync_all()?;
    }
    let piece = noise(4 * KIB, seed);
    let mut random = Random::new(seed);
    let began = Instant::now();
    let file = File::options().write(true).open(&path)?;
    for _ in 0..len / (16 * KIB) {
        file.write_all_at(&piece, random.below(len / (4 * KIB)) * 4 * KIB)?;
    }
    drop(file);
    Ok(began.elapsed())
}

/// Barriers of a daemon during so many syncs.
#[derive(Clone, Copy)]
struct Counted {
    syncs: u64,
    barriers: u64,
    each_us: f64,
}

/// Writes 100 bytes and syncs, again and again, while `strace` counts the daemon's barriers.
fn barriers(side: &Side, name: &str, syncs: u64, place: impl Fn(&mut Random, u64) -> u64) -> Result<Counted> {
    let file = File::create_new(side.mount.path().join(name))?;
    file.write_all_at(&noise(4 * KIB, 1), 0)?;
    file.sync_all()?;
    let mut random = Random::new(1);
    let mut one = |at: u64| -> Result {
        file.write_all_at(&noise(100, at), place(&mut random, 41 + at))?;
        Ok(file.sync_data()?)
    };
    // The first few tell the vault that this file is synced often.
    for at in 0..4 {
        one(at)?;
    }
    side.sync()?;
    let log = tempfile::NamedTempFile::new()?;
    let tracer = Tracer::begin(side.daemon()?, log.path())?;
    for at in 4..4 + syncs {
        one(at)?;
    }
    tracer.end()?;
    let barriers = count_barriers(&fs::read_to_string(log.path())?);
    let began = Instant::now();
    for at in 4 + syncs..4 + 2 * syncs {
        one(at)?;
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / syncs as f64;
    Ok(Counted { syncs, barriers, each_us })
}

/// Calls that wait for the disk, each once: a call that another thread interrupts is two lines.
fn count_barriers(log: &str) -> u64 {
    let is_call = |line: &&str| !line.contains("resumed>") && !line.contains("+++") && !line.contains("---");
    let is_barrier = |line: &&str| ["fsync(", "fdatasync(", "syncfs("].iter().any(|call| line.contains(call));
    log.lines().filter(is_call).filter(is_barrier).count() as u64
}

/// `strace` on a daemon.
struct Tracer(Child);

impl Tracer {
    fn begin(daemon: Pid, log: &Path) -> Result<Self> {
        let mut command = Command::new("strace");
        command.args(["-f", "-e", "trace=fsync,fdatasync,syncfs", "-o"]).arg(log);
        command.arg("-p").arg(daemon.as_raw_nonzero().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let tracer = Self(command::spawn(&mut command)?);
        let status = format!("/proc/{}/status", daemon.as_raw_nonzero());
        for _ in 0..500 {
            let text = fs::read_to_string(&status)?;
            if text.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")) {
                // The other threads follow the first.
                thread::sleep(Duration::from_millis(300));
                return Ok(tracer);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::new("strace does not come to trace the daemon"))
    }

    fn end(mut self) -> Result {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.ok_or_else(|| Failure::new("strace has no process id"))?, Signal::INT)?;
        command::wait(&mut self.0, SYNC_LIMIT).map(drop)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            command::end(&mut self.0);
        }
    }
}

/// Overwrites a durable file twice in pieces of 1 MiB; bytes that reached the store for each byte given.
fn bytes_for_large_overwrites(side: &Side, file_mib: u64) -> Result<f64> {
    let path = side.mount.path().join("large");
    let file = File::create_new(&path)?;
    let piece = noise(MIB, 1);
    for at in 0..file_mib {
        file.write_all_at(&piece, at * MIB)?;
    }
    file.sync_all()?;
    side.sync()?;
    let before = written(side.daemon()?)?;
    let piece = noise(MIB, 2);
    for _ in 0..2 {
        for at in 0..file_mib {
            file.write_all_at(&piece, at * MIB)?;
        }
        // Or the kernel would keep the first pass to itself.
        file.sync_all()?;
    }
    side.sync()?;
    let given = 2 * file_mib * MIB;
    let bytes = (written(side.daemon()?)? - before) as f64 / given as f64;
    drop(file);
    fs::remove_file(path)?;
    Ok(bytes)
}

/// `write_bytes` of a process: what it had the kernel write to storage.
fn written(pid: Pid) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).ok_or_else(|| Failure::new("/proc/PID/io has no write_bytes"))
}

/// Everything that was measured.
struct Measured {
    timed: Vec<Pairs>,
    counted: [(&'static str, Counted); 2],
    /// Bytes that reached the store for each byte given.
    bytes: [(&'static str, f64); 2],
}

impl Measured {
    /// Costs above their targets, and syncs that took more or less than one barrier.
    fn missed(&self) -> Vec<String> {
        let dear = WORK.iter().zip(&self.timed).filter_map(|(work, pairs)| {
            let cost = pairs.cost().median;
            let (title, most) = (work.title, work.cost_max);
            (cost > most).then(|| format!("{title}: {cost:+.1} %, at most {most:.0} %"))
        });
        let uncounted = self.counted.iter().filter(|(_, counted)| counted.barriers != counted.syncs);
        let uncounted = uncounted
            .map(|(title, counted)| format!("{title}: {} barriers for {}", counted.barriers, counted.syncs));
        dear.chain(uncounted).collect()
    }

    fn document(&self, subject: &Subject, arguments: &DurabilityArgs) -> Result<Document> {
        let mut document = Document::new("durability", vec![subject.version()?]);
        document.tables.push(self.table(arguments));
        for (work, pairs) in WORK.iter().zip(&self.timed) {
            document.sample(work.key, "full", "seconds", pairs.with());
            document.sample(work.key, "relaxed", "seconds", pairs.without());
        }
        for (title, counted) in &self.counted {
            document.sample(title, "full", "fsyncs", vec![counted.syncs as f64]);
            document.sample(title, "full", "barriers", vec![counted.barriers as f64]);
            document.sample(title, "full", "microseconds of each", vec![counted.each_us]);
        }
        for (durability, bytes) in &self.bytes {
            document.sample("overwrites in 1 MiB calls", durability, "bytes per byte", vec![*bytes]);
        }
        Ok(document)
    }

    fn table(&self, arguments: &DurabilityArgs) -> Table {
        let title = format!(
            "Files of {} MiB, {} pairs: medians, and the least and most",
            arguments.file_mib, arguments.pairs
        );
        let mut table = Table::new("cost", title, &["work", "full", "relaxed", "cost", "target"]);
        for (work, pairs) in WORK.iter().zip(&self.timed) {
            let cost = pairs.cost();
            let mark = if cost.median > work.cost_max { ", **missed**" } else { "" };
            table.push([
                work.title.to_owned(),
                format!("{:.2} s", median(&pairs.with())),
                format!("{:.2} s", median(&pairs.without())),
                format!("{:+.1} % ({:+.1} to {:+.1})", cost.median, cost.lowest, cost.highest),
                format!("at most {:.0} %{mark}", work.cost_max),
            ]);
        }
        for (title, Counted { syncs, barriers, each_us }) in self.counted {
            let mark = if barriers == syncs { "" } else { ", **missed**" };
            let full = format!("{barriers} barriers for {syncs} fsyncs, {each_us:.0} µs each");
            table.push([title.into(), full, String::new(), String::new(), format!("one each{mark}")]);
        }
        let [full, relaxed] = self.bytes.map(|(_, bytes)| format!("{bytes:.2} bytes per byte"));
        table.push(["overwrites in 1 MiB calls".into(), full, relaxed, String::new(), "reported".into()]);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_calls_count_once() {
        let log = "10 fdatasync(7) = 0\n11 fsync(8 <unfinished ...>\n10 fdatasync(7) = 0\n\
                   11 <... fsync resumed>) = 0\n12 +++ exited with 0 +++\n13 syncfs(3) = 0\n";
        assert_eq!(count_barriers(log), 4);
    }
    #[test]
    fn a_cost_above_its_target_and_a_barrier_too_many_are_missed() {
        let measured = |seconds, barriers| {
            let mut pairs = Pairs::default();
            pairs.push(Duration::from_millis(seconds), Duration::from_millis(1000));
            let counted = Counted { syncs: 3, barriers, each_us: 1.0 };
            let mut timed: Vec<Pairs> = WORK.iter().map(|_| Pairs::default()).collect();
            timed[2] = pairs;
            Measured { timed, counted: [("append", counted); 2], bytes: [("full", 1.0), ("relaxed", 1.0)] }
        };
        assert_eq!(measured(1299, 3).missed(), Vec::<String>::new());
        assert_eq!(measured(1310, 3).missed(), ["random overwrites, 4 KiB: +31.0 %, at most 30 %"]);
        assert_eq!(measured(1200, 4).missed().len(), 2);
    }
}
