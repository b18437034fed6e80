//! What the adaptive policy makes of a live mount, against each engine forced.
//!
//! Three mounts of vaults alike stand side by side: one places adaptively, one has the CPU compute everything,
//! one the device. The CPU engine is the portable tier; the device is `engine-sim`, which computes with the
//! best tier and answers when the modelled device would. In each round every mount does the same work, in
//! turns of a tenth of a second whose order changes; the ratio of a round is what the adaptive mount did over what
//! the engine did that is best over all rounds. Judged is the lower end of the 95 % confidence interval of
//! the ratios' geometric mean.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::bench::common::Common;
use crate::bench::ratio::{Interval, interval, median};
use crate::bench::report::{commit, machine_line};
use crate::failure::{Context, Failure, Result, ensure};
use crate::random::Random;
use crate::subject::mount::{Mount, MountOptions};
use crate::subject::scratch::Scratch;
use crate::subject::vault::Vault;
use crate::subject::{Kind, Settings, Subject};

const KIB: usize = 1 << 10;
const MOUNT_LIMIT: Duration = Duration::from_secs(60 * 60);
/// What the lower bound has to reach.
const FLOOR: f64 = 0.95;
/// Bytes of the file of each thread, in a judged run and in a quick one.
const FILE: [usize; 2] = [32 << 20, 4 << 20];
/// A round's time is spent in so many turns of all sides, so that a machine that becomes faster or slower
/// on the way does so for all of them.
const TURNS: u32 = 5;
/// Untimed, before each turn.
const SETTLES: Duration = Duration::from_millis(30);
/// Untimed, before the first round: the adaptive mount learns.
const LEARNS: Duration = Duration::from_secs(3);

/// Ways to mount: the name in the report, and what the mount is told.
const SIDES: [(&str, &[&str]); 3] = [
    ("adaptive", &["-o", "policy=adaptive,check=1024"]),
    ("cpu", &["-o", "policy=fixed,use=0,check=1024"]),
    ("device", &["-o", "policy=fixed,use=1,check=1024"]),
];

#[derive(Args)]
pub(crate) struct PlacementArgs {
    #[command(flatten)]
    common: Common,
    /// How often each mount does each piece of work; at least 30 to be judged
    #[arg(long, default_value_t = 30)]
    pairs: usize,
    /// Milliseconds of each
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
}

/// A piece of work, in calls around the page cache.
#[derive(Debug)]
struct Work {
    key: &'static str,
    title: &'static str,
    /// What `--engine` is told.
    engine: &'static str,
    writes: bool,
    /// Bytes of a call.
    call: usize,
    /// At random places, or one call after the other.
    random: bool,
    threads: usize,
}

/// Those of one engine stand together, since they share their mounts.
const WORK: [Work; 4] = [
    Work {
        key: "random_read_4k",
        title: "random reads, 4 KiB, 1 thread; moderate device",
        engine: "sim-moderate",
        writes: false,
        call: 4 * KIB,
        random: true,
        threads: 1,
    },
    Work {
        key: "write_1m",
        title: "sequential writes, 1 MiB calls; moderate device",
        engine: "sim-moderate",
        writes: true,
        call: 1024 * KIB,
        random: false,
        threads: 1,
    },
    Work {
        key: "random_read_128k",
        title: "random reads, 128 KiB, 4 threads; moderate device",
        engine: "sim-moderate",
        writes: false,
        call: 128 * KIB,
        random: true,
        threads: 4,
    },
    Work {
        key: "write_1m_slow",
        title: "sequential writes, 1 MiB calls; slow device",
        engine: "sim-slow",
        writes: true,
        call: 1024 * KIB,
        random: false,
        threads: 1,
    },
];

/// What one piece of work came to.
struct Measured {
    work: &'static Work,
    /// For each side, bytes a second in each round.
    rates: [Vec<f64>; SIDES.len()],
    /// Share of the adaptive mount's bytes that the device computed.
    on_device: f64,
}

impl Measured {
    /// The side that is the best engine alone.
    fn best(&self) -> usize {
        if median(&self.rates[1]) >= median(&self.rates[2]) { 1 } else { 2 }
    }

    fn ratio(&self) -> Interval {
        let ours = self.rates[0].iter().zip(&self.rates[self.best()]);
        interval(&ours.map(|(ours, best)| ours / best).collect::<Vec<_>>())
    }

    fn is_met(&self) -> bool {
        self.ratio().lower >= FLOOR
    }
}

/// Measures everything and judges it.
pub(crate) fn run(arguments: &PlacementArgs) -> Result {
    let common = &arguments.common;
    let scratch = Scratch::new(Some(&common.work), "place")?.guarded()?;
    let file = FILE[usize::from(common.quick)];
    let (pairs, stretch, learns) = match common.quick {
        true => (2, Duration::from_millis(150), Duration::from_millis(300)),
        false => (arguments.pairs.max(2), Duration::from_millis(arguments.milliseconds.max(1)), LEARNS),
    };
    let mut measured = Vec::new();
    let mut binary = common.binary.clone();
    for of_one_engine in WORK.chunk_by(|one, other| one.engine == other.engine) {
        let engine = of_one_engine[0].engine;
        let settings = Settings { engine: Some(engine.to_owned()), ..Settings::default() };
        let subject = Subject::resolve(Kind::Strongroom, settings, binary.as_deref())?;
        if let Subject::Strongroom { binary: built, .. } = &subject {
            binary = Some(built.clone());
        }
        let threads = of_one_engine.iter().map(|work| work.threads).max().unwrap_or(1);
        let mounts = mounts(&subject, &scratch.make(engine)?, threads, file)?;
        for work in of_one_engine {
            measured.push(measure(work, &mounts, pairs, stretch, learns)?);
        }
        mounts.into_iter().try_for_each(Mount::unmount)?;
    }
    print(&measured, pairs, stretch, !common.quick);
    if let Some(file) = &common.json {
        fs::write(file, format!("{:#}\n", report(&measured, stretch))).context(file.display())?;
    }
    let missed: Vec<&str> =
        measured.iter().filter(|measured| !measured.is_met()).map(|measured| measured.work.title).collect();
    ensure!(common.quick || missed.is_empty(), "below {FLOOR}: {}", missed.join("; "));
    Ok(())
}

/// One mount for each side, with a file for each thread.
fn mounts(subject: &Subject, base: &Path, threads: usize, file: usize) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for (name, arguments) in SIDES {
        let base = base.join(name);
        fs::create_dir(&base).context(base.display())?;
        let mount = Vault::create(subject, &base)?.mount(MountOptions::new(MOUNT_LIMIT).with(arguments))?;
        for thread in 0..threads {
            let mut contents = vec![0; file];
            Random::new(thread as u64).fill(&mut contents);
            fs::write(file_of(&mount, thread), &contents)?;
            File::open(file_of(&mount, thread))?.sync_all()?;
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

fn file_of(mount: &Mount, thread: usize) -> PathBuf {
    mount.path().join(format!("file-{thread}"))
}

fn measure(
    work: &'static Work,
    mounts: &[Mount],
    pairs: usize,
    stretch: Duration,
    learns: Duration,
) -> Result<Measured> {
    go(work, &mounts[0], learns)?;
    let before = bytes_by_engine(&mounts[0])?;
    let mut rates = [const { Vec::new() }; SIDES.len()];
    for pair in 0..pairs {
        eprintln!("{}: round {} of {pairs}", work.title, pair + 1);
        let mut round = [0.0; SIDES.len()];
        for turn in 0..TURNS as usize * SIDES.len() {
            let side = (pair + turn + turn / SIDES.len()) % SIDES.len();
            go(work, &mounts[side], SETTLES)?;
            round[side] += go(work, &mounts[side], stretch / TURNS)? / f64::from(TURNS);
        }
        rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
    }
    let after = bytes_by_engine(&mounts[0])?;
    let [cpu, device] = [0, 1].map(|at| after[at] - before[at]);
    Ok(Measured { work, rates, on_device: device / (cpu + device).max(1.0) })
}

/// Does the work for so long; bytes a second.
fn go(work: &Work, mount: &Mount, stretch: Duration) -> Result<f64> {
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let threads = (0..work.threads).map(|thread| {
            let path = file_of(mount, thread);
            scope.spawn(move || calls(work, &path, began + stretch))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum::<Result<usize>>()
    })?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Calls until a moment; bytes that were moved.
fn calls(work: &Work, path: &Path, until: Instant) -> Result<usize> {
    let mut options = File::options();
    options.read(!work.writes).write(work.writes).custom_flags(OFlags::DIRECT.bits() as i32);
    let file = options.open(path).context(path.display())?;
    // The same places on every mount.
    let mut random = Random::new(7);
    let mut piece = vec![0x5a; work.call];
    let (places, mut done) = (file.metadata()?.len() as usize / work.call, 0);
    while Instant::now() < until {
        let place =
            if work.random { random.below(places as u64) as usize } else { done / work.call % places };
        let offset = (place * work.call) as u64;
        match work.writes {
            true => file.write_all_at(&piece, offset)?,
            false => file.read_exact_at(&mut piece, offset)?,
        }
        done += work.call;
    }
    Ok(done)
}

/// Bytes that each engine of a mount has computed.
fn bytes_by_engine(mount: &Mount) -> Result<[f64; 2]> {
    let status = mount.status()?.unwrap_or_default();
    let bytes = |at: usize| status["mounts"][0]["engines"][at]["bytes"].as_f64();
    match (bytes(0), bytes(1)) {
        (Some(cpu), Some(device)) => Ok([cpu, device]),
        _ => Err(Failure::new(format!("status names no two engines: {status}"))),
    }
}

fn print(measured: &[Measured], pairs: usize, stretch: Duration, is_judged: bool) {
    println!("{}\n", machine_line());
    println!("{pairs} rounds of {} ms; MB/s of 10^6 bytes, medians\n", stretch.as_millis());
    println!(
        "| work | CPU alone | device alone | adaptive | of it on the device | adaptive over the best | at least (95 %) | floor |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for one in measured {
        let rate = |side: usize| median(&one.rates[side]) / 1e6;
        let (ratio, mark) = (one.ratio(), if one.is_met() || !is_judged { "" } else { " **missed**" });
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} % | {:.3} | {:.3} | {FLOOR}{mark} |",
            one.work.title,
            rate(1),
            rate(2),
            rate(0),
            one.on_device * 100.0,
            ratio.mean,
            ratio.lower
        );
    }
}

fn report(measured: &[Measured], stretch: Duration) -> Value {
    let work = |one: &Measured| {
        let sides = SIDES.iter().zip(&one.rates);
        let rates: Vec<Value> =
            sides.map(|((name, _), rates)| json!({"side": name, "bytes_per_second": rates})).collect();
        let ratio = one.ratio();
        json!({
            "work": one.work.key,
            "engine": one.work.engine,
            "rates": rates,
            "best": SIDES[one.best()].0,
            "share_on_device": one.on_device,
            "ratio": ratio.mean,
            "ratio_lower_95": ratio.lower,
            "floor": FLOOR,
            "met": one.is_met(),
        })
    };
    json!({
        "schema": "strongroom.bench.placement/1",
        "machine": machine_line(),
        "commit": commit(),
        "stretch_ns": stretch.as_nanos() as u64,
        "work": measured.iter().map(work).collect::<Vec<_>>(),
    })
}
