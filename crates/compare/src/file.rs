//! Single files beside age 1.3: what `strongroom bench file` measures, once with both CPUs and once with one,
//! against what is asked of it.
//!
//! Ratios are taken turn by turn, between runs that follow each other; a claim is judged by their median.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::result::{Document, Table};
use crate::statistics::median;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::workspace;
use strongroom_suites::age::peers;

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
    /// Record the result in FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is asked for: ratios of two figures, one for each turn, and the bound of their median.
struct Claim {
    what: String,
    ratios: Vec<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Told beside those that have one.
    None,
}

impl Claim {
    fn median(&self) -> Option<f64> {
        (!self.ratios.is_empty()).then(|| median(&self.ratios))
    }

    fn holds(&self) -> bool {
        match (self.median(), &self.bound) {
            (Some(ratio), Bound::AtLeast(bound)) => ratio >= *bound,
            (Some(ratio), Bound::AtMost(bound)) => ratio <= *bound,
            (Some(_), Bound::None) => true,
            (None, _) => false,
        }
    }

    /// What it is about, its median and spread, its bound, and whether it holds.
    fn row(&self) -> [String; 4] {
        let told = self.median().map_or("not measured".to_owned(), |median| {
            let [low, high] = [f64::min, f64::max].map(|of| self.ratios.iter().copied().fold(median, of));
            format!("{median:.2} ({low:.2} to {high:.2})")
        });
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
            Bound::None => String::new(),
        };
        let verdict = match self.bound {
            Bound::None => "",
            _ if self.holds() => "holds",
            _ => "does not hold",
        };
        [self.what.clone(), told, bound, verdict.to_owned()]
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
    let two = measure(arguments, &binary, &age, "0,1", true)?;
    let one = measure(arguments, &binary, &age, "0", false)?;
    let claims: Vec<Claim> = of_two(&two).into_iter().chain(of_one(&one)).collect();
    for [what, told, bound, verdict] in claims.iter().map(Claim::row) {
        println!("{what:52} {told:>24}  {bound:12} {verdict}");
    }
    if let Some(path) = &arguments.json {
        fs::write(path, recorded(&[&two, &one], &claims).text()?).context(path.display())?;
    }
    let missed = claims.iter().filter(|claim| !claim.holds()).count();
    ensure!(missed == 0, "{missed} of {} do not hold", claims.len());
    Ok(())
}

fn of_two(two: &Value) -> Vec<Claim> {
    let mut claims = Vec::new();
    for operation in ["encrypt", "decrypt"] {
        claims.push(of_age(two, operation, "seconds", "age's time over ours, two CPUs", Bound::AtLeast(3.0)));
        claims.push(of_age(
            two,
            operation,
            "cpu_seconds",
            "our CPU time over age's, two CPUs",
            Bound::AtMost(1.3),
        ));
        let age = Row { program: "age", input: "file", place: "memory", operation };
        claims.push(Claim {
            what: format!("age's time over that of writing alone: {operation}"),
            ratios: ratios(two, "seconds", age, Row { program: "dd", operation: "copy", ..age }),
            bound: Bound::None,
        });
    }
    for operation in ["encrypt", "decrypt"] {
        let ours = Row { program: "strongroom", input: "file", place: "disk", operation };
        let copy = Row { program: "cp", operation: "copy", ..ours };
        claims.push(Claim {
            what: format!("to a disk, our time over cp's with fsync: {operation}"),
            ratios: ratios(two, "seconds", ours, copy),
            bound: Bound::AtMost(1.1),
        });
    }
    for operation in ["encrypt", "decrypt"] {
        let ours = Row { program: "strongroom", input: "tree", place: "memory", operation };
        claims.push(Claim {
            what: format!("a tree, the time of tar and age over ours: {operation}"),
            ratios: ratios(two, "seconds", Row { program: "tar | age", ..ours }, ours),
            bound: Bound::AtLeast(5.0),
        });
    }
    claims.push(Claim {
        what: "most memory, in MiB".into(),
        ratios: most_memory(two).map(|bytes| bytes / f64::from(1 << 20)).into_iter().collect(),
        bound: Bound::AtMost(64.0),
    });
    claims
}

fn of_one(one: &Value) -> Vec<Claim> {
    let mut claims = Vec::new();
    for operation in ["encrypt", "decrypt"] {
        claims.push(of_age(one, operation, "seconds", "age's time over ours, one CPU", Bound::AtLeast(1.5)));
        claims.push(of_age(
            one,
            operation,
            "cpu_seconds",
            "our CPU time over age's, one CPU",
            Bound::AtMost(1.3),
        ));
    }
    claims
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
    println!("{}", heading(&document));
    for row in rows(&document) {
        let [program, input, place, operation, seconds, cpu, rate, memory] = row;
        println!(
            "  {program:20} {input:5} {place:7} {operation:8} {seconds:>26}, CPU {cpu}, {rate}, {memory}"
        );
    }
    Ok(document)
}

fn heading(document: &Value) -> String {
    let limit = document["limit_bytes_per_second"].as_f64().unwrap_or(0.0) / 1e6;
    let (cpus, turns) = (&document["cpus"], &document["repeats"]);
    format!("CPUs: {cpus}, {turns} turns; one thread of the best engine, data in cache: {limit:.0} MB/s")
}

const COLUMNS: [&str; 8] =
    ["program", "input", "place", "operation", "seconds (least to most)", "CPU", "rate", "memory"];

fn rows(document: &Value) -> Vec<[String; 8]> {
    let of = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str, of: &str| row[key][of].as_f64().unwrap_or(f64::NAN);
        let spread = [number("seconds", "median"), number("seconds", "low"), number("seconds", "high")];
        let rate = row["bytes"].as_f64().unwrap_or(0.0) / spread[0] / 1e6;
        let memory = row["peak_memory_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 20);
        [
            text("program"),
            text("input"),
            text("place"),
            text("operation"),
            format!("{:.3} s ({:.3} to {:.3})", spread[0], spread[1], spread[2]),
            format!("{:.3} s", number("cpu_seconds", "median")),
            format!("{rate:.0} MB/s"),
            format!("{memory:.1} MiB"),
        ]
    };
    document["results"].as_array().into_iter().flatten().map(of).collect()
}

/// The result as `bench/results/README.md` has it.
fn recorded(documents: &[&Value], claims: &[Claim]) -> Document {
    let mut versions = vec![format!("strongroom {}", env!("CARGO_PKG_VERSION"))];
    let results = documents.iter().flat_map(|document| document["results"].as_array().into_iter().flatten());
    for program in results.filter_map(|row| row["program"].as_str()) {
        let has_version = program.contains(' ') && !program.contains('|');
        if has_version && !versions.iter().any(|known| known == program) {
            versions.push(program.to_owned());
        }
    }
    let mut result = Document::new("file", versions);
    result.tables.push(Table {
        name: "claims".into(),
        title: "What is asked for: medians of the turns' ratios, least and most".into(),
        columns: ["what", "came to", "asked", "verdict"].map(str::to_owned).to_vec(),
        rows: claims.iter().map(|claim| claim.row().to_vec()).collect(),
    });
    for document in documents {
        record(&mut result, document);
    }
    result
}

/// Adds the table and the samples of a run on so many CPUs.
fn record(result: &mut Document, document: &Value) {
    let name = if document["cpus"] == 1 { "one" } else { "two" };
    result.tables.push(Table {
        name: name.into(),
        title: heading(document),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows(document).into_iter().map(|row| row.to_vec()).collect(),
    });
    for row in document["results"].as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let what = format!("{}, {}, {}, CPUs: {name}", text("input"), text("place"), text("operation"));
        for quantity in ["seconds", "cpu_seconds"] {
            let values = row[quantity]["values"].as_array().into_iter().flatten();
            result.sample(&what, text("program"), quantity, values.filter_map(Value::as_f64).collect());
        }
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

fn of_row(document: &Value, wanted: Row<'_>, figure: &str) -> Vec<f64> {
    let rows = document["results"].as_array().into_iter().flatten();
    let is_meant = |row: &&Value| {
        row["program"].as_str().is_some_and(|program| program.starts_with(wanted.program))
            && row["input"] == wanted.input
            && row["place"] == wanted.place
            && row["operation"] == wanted.operation
    };
    let values = rows.into_iter().find(is_meant).and_then(|row| row[figure]["values"].as_array());
    values.into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn ratios(document: &Value, figure: &str, above: Row<'_>, below: Row<'_>) -> Vec<f64> {
    let [above, below] = [above, below].map(|row| of_row(document, row, figure));
    above.into_iter().zip(below).map(|(above, below)| above / below).collect()
}

fn of_age(document: &Value, operation: &str, figure: &str, what: &str, bound: Bound) -> Claim {
    let of = |program| Row { program, input: "file", place: "memory", operation };
    let [above, below] = match bound {
        Bound::AtMost(_) => [of("strongroom"), of("age")],
        _ => [of("age"), of("strongroom")],
    };
    Claim { what: format!("{what}: {operation}"), ratios: ratios(document, figure, above, below), bound }
}

fn most_memory(document: &Value) -> Option<f64> {
    let rows = document["results"].as_array().into_iter().flatten();
    let ours = rows.filter(|row| row["program"] == "strongroom");
    ours.filter_map(|row| row["peak_memory_bytes"].as_f64()).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_judged_by_the_median_of_its_turns() {
        let row = |program, values: [f64; 3]| {
            json!({"program": program, "input": "file", "place": "memory", "operation": "encrypt",
                "seconds": {"values": values}})
        };
        let document =
            json!({"results": [row("strongroom", [1.0, 1.0, 2.0]), row("age 1.3", [2.0, 3.0, 8.0])]});
        let claim = |bound| of_age(&document, "encrypt", "seconds", "x", Bound::AtLeast(bound));
        assert_eq!(claim(3.0).median(), Some(3.0));
        assert!(claim(3.0).holds() && !claim(3.1).holds());
        let missing = of_age(&document, "decrypt", "seconds", "x", Bound::AtMost(9.0));
        assert!(!missing.holds(), "what was not measured does not hold");
    }
}
