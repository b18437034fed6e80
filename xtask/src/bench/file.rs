//! Single files beside age 1.3: what `strongroom bench file` measures, once with both CPUs and once with one,
//! against what is asked of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::age::peers;
use crate::command;
use crate::failure::{Context, Failure, Result, ensure};
use crate::packages;
use crate::workspace;

/// For all repeats of all programs.
const LIMIT: Duration = Duration::from_secs(3600);

#[derive(Args)]
pub(crate) struct FileArgs {
    /// Bytes of the file
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: String,
    /// Files of 4 KiB in the tree
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    files: u32,
    /// How often each takes its turn
    #[arg(long, value_name = "N", default_value_t = 7)]
    repeats: u32,
    /// A directory on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// What is asked for: a ratio of two figures, and its bound.
struct Claim {
    what: String,
    ratio: Option<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Claim {
    fn holds(&self) -> bool {
        match (self.ratio, &self.bound) {
            (Some(ratio), Bound::AtLeast(bound)) => ratio >= *bound,
            (Some(ratio), Bound::AtMost(bound)) => ratio <= *bound,
            (None, _) => false,
        }
    }
}

/// Measures, and prints a line for each claim.
pub(super) fn run(arguments: &FileArgs) -> Result {
    packages::need(&[("taskset", "util-linux"), ("tar", "tar")])?;
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let age = peers::install_newest()?;
    let mut claims = Vec::new();
    let two = measure(arguments, &binary, &age, "0,1", true)?;
    for operation in ["encrypt", "decrypt"] {
        claims.push(of_age(
            &two,
            operation,
            "seconds",
            "two CPUs, age's time over ours",
            Bound::AtLeast(3.0),
        ));
        claims.push(of_age(&two, operation, "cpu_seconds", "our CPU time over age's", Bound::AtMost(1.3)));
    }
    let figure = |row: Row<'_>, of: &str| of_row(&two, row, of);
    let ours = Row { program: "strongroom", input: "file", place: "disk", operation: "encrypt" };
    let copy = Row { program: "cp", operation: "copy", ..ours };
    claims.push(Claim {
        what: "to a disk, over cp with fsync: encrypt".into(),
        ratio: ratio(figure(ours, "seconds"), figure(copy, "seconds")),
        bound: Bound::AtMost(1.1),
    });
    let tree = Row { program: "strongroom", input: "tree", place: "memory", operation: "encrypt" };
    let tar = Row { program: "tar | age", ..tree };
    claims.push(Claim {
        what: "a tree, time of tar | age over ours: encrypt".into(),
        ratio: ratio(figure(tar, "seconds"), figure(tree, "seconds")),
        bound: Bound::AtLeast(5.0),
    });
    claims.push(Claim {
        what: "most memory, in MiB".into(),
        ratio: most_memory(&two).map(|bytes| bytes / f64::from(1 << 20)),
        bound: Bound::AtMost(64.0),
    });
    let one = measure(arguments, &binary, &age, "0", false)?;
    for operation in ["encrypt", "decrypt"] {
        claims.push(of_age(&one, operation, "seconds", "one CPU, age's time over ours", Bound::AtLeast(1.5)));
        claims.push(of_age(
            &one,
            operation,
            "cpu_seconds",
            "one CPU, our CPU time over age's",
            Bound::AtMost(1.3),
        ));
    }
    for claim in &claims {
        let (word, bound) = match claim.bound {
            Bound::AtLeast(bound) => ("at least", bound),
            Bound::AtMost(bound) => ("at most", bound),
        };
        let told = claim.ratio.map_or("not measured".to_owned(), |ratio| format!("{ratio:.2}"));
        let verdict = if claim.holds() { "holds" } else { "does not hold" };
        println!("{:48} {told:>12}, {word} {bound}: {verdict}", claim.what);
    }
    let missed = claims.iter().filter(|claim| !claim.holds()).count();
    ensure!(missed == 0, "{missed} of {} do not hold", claims.len());
    Ok(())
}

/// What the program says on these CPUs, with this age before all others.
fn measure(arguments: &FileArgs, binary: &Path, age: &Path, cpus: &str, all: bool) -> Result<Value> {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(binary).args(["--json", "bench", "file", "--size", &arguments.size]);
    command.args(["--repeats", &arguments.repeats.to_string()]);
    match all {
        true => command.args(["--files", &arguments.files.to_string(), "--disk"]).arg(&arguments.disk),
        false => command.args(["--files", "0"]),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let before = age.parent().map(Path::to_owned).into_iter();
    command.env("PATH", std::env::join_paths(before.chain(std::env::split_paths(&path)))?);
    let told = command::output(&mut command, LIMIT).context("measuring")?;
    let document: Value = serde_json::from_str(&told)?;
    show(&document, cpus);
    Ok(document)
}

fn show(document: &Value, cpus: &str) {
    let limit = document["limit_bytes_per_second"].as_f64().unwrap_or(0.0) / 1e6;
    println!("{}, CPUs {cpus}; one thread of the best engine: {limit:.0} MB/s", document["cpu"]);
    for row in document["results"].as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str, of: &str| row[key][of].as_f64().unwrap_or(f64::NAN);
        println!(
            "  {:20} {:5} {:7} {:8} {:8.3} s ({:.3} to {:.3}), CPU {:.3} s, {:.0} MB/s, {} KiB",
            text("program"),
            text("input"),
            text("place"),
            text("operation"),
            number("seconds", "median"),
            number("seconds", "low"),
            number("seconds", "high"),
            number("cpu_seconds", "median"),
            row["bytes"].as_f64().unwrap_or(0.0) / number("seconds", "median") / 1e6,
            row["peak_memory_bytes"].as_u64().unwrap_or(0) / 1024,
        );
    }
}

/// Which figure of a document is meant; the program by how its name begins.
#[derive(Clone, Copy)]
struct Row<'a> {
    program: &'a str,
    input: &'a str,
    place: &'a str,
    operation: &'a str,
}

fn of_row(document: &Value, wanted: Row<'_>, figure: &str) -> Result<f64> {
    let rows = document["results"].as_array().into_iter().flatten();
    let is_meant = |row: &&Value| {
        row["program"].as_str().is_some_and(|program| program.starts_with(wanted.program))
            && row["input"] == wanted.input
            && row["place"] == wanted.place
            && row["operation"] == wanted.operation
    };
    let row = rows.into_iter().find(is_meant);
    let value = row.and_then(|row| row[figure]["median"].as_f64());
    value.ok_or_else(|| Failure::new(format!("no figure of {}", wanted.program)))
}

fn ratio(above: Result<f64>, below: Result<f64>) -> Option<f64> {
    Some(above.ok()? / below.ok()?)
}

fn of_age(document: &Value, operation: &str, figure: &str, what: &str, bound: Bound) -> Claim {
    let of =
        |program: &str| of_row(document, Row { program, input: "file", place: "memory", operation }, figure);
    let ratio = match bound {
        Bound::AtLeast(_) => ratio(of("age"), of("strongroom")),
        Bound::AtMost(_) => ratio(of("strongroom"), of("age")),
    };
    Claim { what: format!("{what}: {operation}"), ratio, bound }
}

fn most_memory(document: &Value) -> Option<f64> {
    let rows = document["results"].as_array().into_iter().flatten();
    let ours = rows.filter(|row| row["program"] == "strongroom");
    ours.filter_map(|row| row["peak_memory_bytes"].as_f64()).reduce(f64::max)
}
