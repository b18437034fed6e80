//! What two of the replayed documents measured on their machines, measured on this one: a file copied plain,
//! through a disk and as a single file (document 003), and ordinary programs on disks of each cipher (004).
//!
//! A *row* is one kind of work. All sides of a row take turns, so that what else the machine does meets all of
//! them. With `--json` a row is on the disk as soon as it is measured, and `--resume` goes on behind it.

mod disks;
mod programs;
mod works;

use std::path::PathBuf;

use clap::Args;

use self::disks::{Disk, SIDES, Side};
use self::works::{Spent, WORKS, Work};
use crate::progress::Progress;
use crate::result::{Document, Series, Table};
use crate::statistics::median;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages::{self, version_line};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::workspace;

#[derive(Args)]
pub(crate) struct DocumentsArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where disks and files lie
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    /// MiB of the file that is copied; the document had 477
    #[arg(long, value_name = "MIB", default_value_t = 477)]
    file_mib: u64,
    /// How often each side takes its turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Only rows whose name contains this
    #[arg(long, value_name = "ROW", default_value = "")]
    only: String,
    /// Record the result in FILE, row by row
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the rows that FILE has from a run that was stopped
    #[arg(long, requires = "json")]
    resume: bool,
}

/// Measures the rows that are wanted and not there yet, and prints all.
pub(super) fn run(arguments: &DocumentsArgs) -> Result {
    packages::need_root("bench documents")?;
    packages::need(&[
        ("fio", "fio"),
        ("rsync", "rsync"),
        ("mkfs.ext4", "e2fsprogs"),
        ("losetup", "mount"),
        ("ssh", "openssh-client"),
        ("/usr/sbin/sshd", "openssh-server"),
    ])?;
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let mut document = begin(arguments, vec![version_line(binary.as_os_str(), "--version")?])?;
    let wanted = |row: &str| {
        row.contains(&arguments.only) && !series(&document).iter().any(|series| series.row == row)
    };
    let works: Vec<&Work> = WORKS.iter().filter(|work| wanted(work.row)).collect();
    let ciphers: Vec<&str> =
        programs::SSH_CIPHERS.into_iter().filter(|cipher| wanted(&programs::row(cipher))).collect();
    let turns = works.iter().map(|work| work.sides().count()).sum::<usize>() * arguments.rounds
        + ciphers.len() * 2 * arguments.rounds;
    let mut progress = Progress::new(turns);
    let scratch = Scratch::new(Some(&arguments.work), "documents")?.guarded()?;
    if !works.is_empty() {
        on_disks(arguments, &binary, &scratch, &works, &mut document, &mut progress)?;
    }
    if !ciphers.is_empty() {
        let server = programs::Server::start(&binary, &scratch, arguments.file_mib)?;
        for cipher in ciphers {
            let row = programs::row(cipher);
            let sides = programs::Server::SIDES;
            let turn = |side: usize| server.copy(cipher, sides[side]);
            measure(arguments, &row, &sides, turn, &mut document, &mut progress)?;
        }
        server.stop()?;
    }
    progress.finish();
    document.remark = progress.remark(document.remark.take());
    document.tables = tables(&document);
    store(arguments, &document)?;
    document.conclude(None, &[])
}

/// A new result, or the one that is gone on with.
fn begin(arguments: &DocumentsArgs, versions: Vec<String>) -> Result<Document> {
    let fresh = Document::new("documents", versions);
    let (true, Some(path)) = (arguments.resume, &arguments.json) else { return Ok(fresh) };
    if !path.exists() {
        return Ok(fresh);
    }
    let before = Document::read(path)?;
    let is_same = (&before.machine, &before.commit, &before.versions)
        == (&fresh.machine, &fresh.commit, &fresh.versions);
    ensure!(
        is_same,
        "{} is of another machine, commit or version: it cannot be gone on with",
        path.display()
    );
    Ok(before)
}

fn store(arguments: &DocumentsArgs, document: &Document) -> Result {
    let Some(path) = &arguments.json else { return Ok(()) };
    std::fs::write(path, document.text()?).context(path.display())
}

fn on_disks(
    arguments: &DocumentsArgs,
    binary: &std::path::Path,
    scratch: &Scratch,
    works: &[&Work],
    document: &mut Document,
    progress: &mut Progress,
) -> Result {
    let bytes = arguments.file_mib << 20;
    let file = works::file(scratch.path(), bytes)?;
    let is_wanted =
        |side: &Side| works.iter().any(|work| work.sides().any(|wanted| wanted.name == side.name));
    let disks = SIDES
        .iter()
        .map(|side| is_wanted(side).then(|| Disk::open(binary, scratch, side, bytes)).transpose())
        .collect::<Result<Vec<_>>>()?;
    for work in works {
        let sides: Vec<usize> = (0..SIDES.len()).filter(|side| work.is_of(&SIDES[*side])).collect();
        let names: Vec<&str> = sides.iter().map(|side| SIDES[*side].name).collect();
        let turn = |side: usize| {
            let disk = disks[sides[side]].as_ref().expect("opened, since it is wanted");
            work.run(disk, &file, binary).context(format!("{} on {}", work.row, names[side]))
        };
        measure(arguments, work.row, &names, turn, document, progress)?;
    }
    Ok(())
}

/// Has all sides of a row take their turns, and keeps what they took.
fn measure(
    arguments: &DocumentsArgs,
    row: &str,
    sides: &[&str],
    turn: impl Fn(usize) -> Result<Spent>,
    document: &mut Document,
    progress: &mut Progress,
) -> Result {
    let mut spent = vec![Vec::new(); sides.len()];
    for round in 0..arguments.rounds {
        for at in 0..sides.len() {
            let side = (at + round) % sides.len();
            progress.turn(row, sides[side]);
            spent[side].push(turn(side)?);
        }
    }
    for (side, spent) in sides.iter().zip(spent) {
        let values = |of: fn(&Spent) -> f64| spent.iter().map(of).collect();
        document.sample(row, side, "seconds", values(|spent| spent.seconds));
        document.sample(row, side, "cpu_seconds", values(|spent| spent.cpu));
        document.sample(row, side, "cpu_seconds_of_programs", values(|spent| spent.programs));
        document.sample(row, side, "bytes", values(|spent| spent.bytes));
    }
    store(arguments, document)
}

fn series(document: &Document) -> &[Series] {
    document.samples.as_deref().unwrap_or_default()
}

/// A line for each side of each row: medians.
fn tables(document: &Document) -> Vec<Table> {
    let columns = ["row", "side", "seconds (least to most)", "MB/s", "CPU s, whole machine", "the programs'"];
    let mut table = Table::new("rows", "Medians of what each side took", &columns);
    let samples = series(document);
    for of in samples.iter().filter(|of| of.quantity == "seconds") {
        let other = |quantity: &str| {
            let same = |other: &&Series| (&other.row, &other.side) == (&of.row, &of.side);
            let found = samples.iter().filter(same).find(|other| other.quantity == quantity);
            found.map_or(0.0, |found| median(&found.values))
        };
        let seconds = median(&of.values);
        let [low, high] = [f64::min, f64::max].map(|pick| of.values.iter().copied().fold(seconds, pick));
        let rate = match other("bytes") {
            bytes if bytes > 0.0 => format!("{:.0}", bytes / seconds / 1e6),
            _ => String::new(),
        };
        table.push([
            of.row.clone(),
            of.side.clone(),
            format!("{seconds:.3} ({low:.3} to {high:.3})"),
            rate,
            format!("{:.2}", other("cpu_seconds")),
            format!("{:.2}", other("cpu_seconds_of_programs")),
        ]);
    }
    vec![table]
}
