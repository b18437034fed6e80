//! `bench file`: time and CPU of encrypting and decrypting a file and a tree,
//! beside `cp`, `dd` and what else is installed: age, rage, openssl, gpg.
//!
//! Every run is a program of its own, as a user starts it, this one too. The
//! contestants take turns, so that what the machine does meanwhile meets all
//! of them.

mod contestants;
mod timing;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strongroom_bench::{Case, measure};
use strongroom_engine::{Aead, Algorithm, Operation};

use self::contestants::{Contestant, Room};
use self::timing::{Spread, Taken};
use crate::args::engines::BenchFileArgs;
use crate::compose;
use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::profile::file as hardware_of;
use crate::progress::Steps;
use crate::report::{Output, bytes};

/// Where files lie in memory.
const MEMORY: &str = "/dev/shm";
/// Bytes of each file of the tree.
const TREE_FILE_LEN: usize = 4 << 10;

/// One figure.
#[derive(Serialize)]
struct Row {
    program: String,
    /// Of this program alone.
    engine: Option<String>,
    recipient: Option<String>,
    /// `file` or `tree`.
    input: &'static str,
    /// `memory` or `disk`.
    place: &'static str,
    /// `encrypt`, `decrypt` or `copy`.
    operation: &'static str,
    bytes: u64,
    seconds: Spread,
    cpu_seconds: Spread,
    peak_memory_bytes: u64,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    cpu: String,
    /// That this process may use.
    cpus: u64,
    repeats: u32,
    /// What the best engine seals on one thread, of data in cache: the limit.
    limit_bytes_per_second: f64,
    results: Vec<Row>,
}

/// Measures, and prints a table.
///
/// # Errors
/// Usage; what the system reports; a program that fails.
pub(crate) fn run(args: &BenchFileArgs, output: Output) -> Result<Exit> {
    let hardware = hardware_of::hardware(&[]);
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    let mut results = Vec::new();
    for (place, directory) in places(args)? {
        results.extend(at(args, place, &directory)?);
    }
    let document = Document {
        schema: "strongroom.bench-file/1",
        version: env!("CARGO_PKG_VERSION"),
        cpu: hardware.cpu,
        cpus,
        repeats: args.repeats,
        limit_bytes_per_second: limit()?,
        results,
    };
    output.print_at_width(&document, table)?;
    Ok(Exit::Done)
}

/// Where it is measured, with new directories.
fn places(args: &BenchFileArgs) -> Result<Vec<(&'static str, Scratch)>> {
    let memory = args.memory.clone().unwrap_or_else(|| PathBuf::from(MEMORY));
    let mut places = vec![("memory", Scratch::new(&memory)?)];
    if let Some(disk) = &args.disk {
        places.push(("disk", Scratch::new(disk)?));
    }
    Ok(places)
}

fn at(args: &BenchFileArgs, place: &'static str, directory: &Scratch) -> Result<Vec<Row>> {
    let room = Room::furnish(&directory.0, place == "disk")?;
    fill(&room.file(), args.size)?;
    // On a disk the file system's work for as many files would be all there is to see.
    let files = if room.is_disk { 0 } else { args.files };
    plant(&room.tree(), files)?;
    let contestants = contestants::all(&room, args)?;
    let mut taken: Vec<Vec<Taken>> = contestants.iter().map(|_| Vec::new()).collect();
    let steps = Steps::begin(u64::from(args.repeats) * contestants.len() as u64);
    // The first turn warms up, and is not counted.
    for turn in 0..=args.repeats {
        for (contestant, taken) in contestants.iter().zip(&mut taken) {
            if turn > 0 {
                steps.next(&format!("{} {} ({place})", contestant.program, contestant.operation));
            }
            let run = timing::run(contestant, &room)?;
            if turn > 0 {
                taken.push(run);
            }
        }
    }
    steps.finish();
    let tree = u64::from(args.files) * TREE_FILE_LEN as u64;
    let len = |contestant: &Contestant| if contestant.input == "tree" { tree } else { args.size };
    let rows = contestants.into_iter().zip(taken).map(|(contestant, taken)| {
        let len = len(&contestant);
        row(contestant, &taken, place, len)
    });
    Ok(rows.collect())
}

fn row(contestant: Contestant, taken: &[Taken], place: &'static str, bytes: u64) -> Row {
    let spread = |of: fn(&Taken) -> f64| Spread::of(taken.iter().map(of).collect());
    Row {
        bytes,
        program: contestant.program,
        engine: contestant.engine,
        recipient: contestant.recipient,
        input: contestant.input,
        place,
        operation: contestant.operation,
        seconds: spread(|taken| taken.seconds),
        cpu_seconds: spread(|taken| taken.cpu_seconds),
        peak_memory_bytes: taken.iter().map(|taken| taken.peak_memory_bytes).max().unwrap_or(0),
    }
}

/// What the best engine seals on one thread.
fn limit() -> Result<f64> {
    let algorithm = Algorithm::Aead(Aead::ChaCha20Poly1305);
    let case = Case {
        algorithm,
        key_len: 32,
        operation: Operation::Seal,
        bytes: 512 << 10,
        segment_bytes: 64 << 10,
        sector_bytes: 4096,
        threads: 1,
        in_flight: 1,
    };
    let engines = compose::engines(None)?;
    let able = engines.iter().filter(|engine| engine.capability(algorithm, Operation::Seal).is_some());
    let rates = able.filter_map(|engine| measure(engine, case, super::IDLE).ok());
    Ok(rates.map(|figure| figure.bytes_per_second.median).fold(0.0, f64::max))
}

/// A file of bytes that no program can make shorter.
fn fill(path: &Path, len: u64) -> Result<()> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let mut file = File::create(path).map_err(failed)?;
    let mut piece = vec![0; 1 << 20];
    getrandom::fill(&mut piece).map_err(|_| Failure::new(Exit::Other, "the kernel gives no random bytes"))?;
    let mut left = len;
    while left > 0 {
        let here = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&piece[..here]).map_err(failed)?;
        left -= here as u64;
    }
    file.sync_all().map_err(failed)
}

/// A tree of small files, a hundred in each directory.
fn plant(path: &Path, files: u32) -> Result<()> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let mut content = vec![0; TREE_FILE_LEN];
    getrandom::fill(&mut content)
        .map_err(|_| Failure::new(Exit::Other, "the kernel gives no random bytes"))?;
    std::fs::create_dir(path).map_err(failed)?;
    for number in 0..files {
        let directory = path.join((number / 100).to_string());
        if number.is_multiple_of(100) {
            std::fs::create_dir(&directory).map_err(failed)?;
        }
        std::fs::write(directory.join(number.to_string()), &content).map_err(failed)?;
    }
    Ok(())
}

const COLUMNS: [Column; 9] = [
    Column::left("program", 28),
    Column::left("input", 7),
    Column::left("place", 6),
    Column::left("", 8),
    Column::right("seconds", 9),
    Column::right("least-most", 15),
    Column::right("CPU s", 9),
    Column::right("rate", 12),
    Column::right("memory", 10),
];

fn table(document: &Document, display: Display) -> String {
    let text = format!(
        "{}, {} CPUs, {} turns; one thread of the best engine seals {}/s of data in cache\n\n",
        document.cpu,
        document.cpus,
        document.repeats,
        bytes(document.limit_bytes_per_second as u64)
    );
    let row = |row: &Row| {
        let mut name = row.program.clone();
        for part in [&row.engine, &row.recipient].into_iter().flatten() {
            name.push(' ');
            name.push_str(part);
        }
        let range = format!("{:.3}-{:.3}", row.seconds.low, row.seconds.high);
        let rate = format!("{}/s", bytes((row.bytes as f64 / row.seconds.median) as u64));
        vec![
            name,
            row.input.to_string(),
            row.place.to_string(),
            row.operation.to_string(),
            format!("{:.3}", row.seconds.median),
            range,
            format!("{:.3}", row.cpu_seconds.median),
            rate,
            bytes(row.peak_memory_bytes),
        ]
    };
    let rows: Vec<_> = document.results.iter().map(row).collect();
    text + &Form { gap: " ", titles: 4, ..Form::new(&COLUMNS) }.text(&rows, display)
}

/// A directory that goes with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch> {
        let path = parent.join(format!(".strongroom-bench.{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Failure::system(&path, &error))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Its name says what it is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
