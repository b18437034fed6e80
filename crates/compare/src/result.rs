//! The one form of every benchmark's result: tables as they are printed, and the samples that they come from.
//!
//! A benchmark fills a [`Document`] and hands it to [`Document::conclude`], which prints it, writes it where
//! `--json` says, and fails when something that was asked is missed. What is printed and what is stored is so
//! the same. `bench/results/README.md` describes the stored form.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::awake;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::workspace;

pub(super) const SCHEMA: &str = "strongroom.bench.result/2";

/// A run of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) schema: String,
    pub(super) benchmark: String,
    /// How it was called.
    pub(super) command: String,
    /// The day on which it was made, UTC: `2026-11-26`.
    pub(super) date: String,
    /// The commit of the checkout, with `, changed` behind it when files differ; none where it is unknown.
    pub(super) commit: Option<String>,
    pub(super) machine: Machine,
    /// The programs that took part, each with its version; none where they were not noted.
    pub(super) versions: Option<Vec<String>>,
    /// What a reader of the figures has to know besides.
    pub(super) remark: Option<String>,
    pub(super) tables: Vec<Table>,
    /// Everything that was measured; none where only the tables were kept.
    pub(super) samples: Option<Vec<Series>>,
}

/// Where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// The model's name; none where it was not noted.
    pub(super) cpu: Option<String>,
    /// CPUs that the benchmark could use.
    pub(super) cpus: usize,
    /// The kernel's release.
    pub(super) kernel: String,
    /// Whether CPUs were kept from halting (`--awake`).
    pub(super) awake: bool,
}

/// A table, in text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Within a benchmark; by it `docs/benchmarks.md` names the table.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Samples of one quantity, in the order in which they were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Series {
    pub(super) row: String,
    /// The program, engine or policy that was measured.
    pub(super) side: String,
    /// With its unit, as `seconds` or `bytes_per_second`.
    pub(super) quantity: String,
    pub(super) values: Vec<f64>,
}

impl Document {
    /// A result without figures, of this call on this machine today.
    pub(super) fn new(benchmark: &str, versions: Vec<String>) -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        Self {
            schema: SCHEMA.into(),
            benchmark: benchmark.into(),
            command: format!("cargo xtask {}", arguments.join(" ")),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit(),
            machine: Machine::this(),
            versions: Some(versions),
            remark: None,
            tables: Vec::new(),
            samples: Some(Vec::new()),
        }
    }

    /// Adds samples of one row and side.
    pub(super) fn sample(&mut self, row: &str, side: &str, quantity: &str, values: Vec<f64>) {
        let series = Series { row: row.into(), side: side.into(), quantity: quantity.into(), values };
        self.samples.get_or_insert_default().push(series);
    }

    /// Prints the result, writes it to `json`, and fails with what was `missed` of what was asked.
    pub(super) fn conclude(&self, json: Option<&Path>, missed: &[String]) -> Result {
        println!("{}\n", self.origin());
        for table in &self.tables {
            println!("{}\n\n{}", table.title, table.markdown());
        }
        if let Some(path) = json {
            fs::write(path, self.text()?).context(path.display())?;
        }
        ensure!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
        Ok(())
    }

    /// What a file holds.
    pub(super) fn text(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// A file of this form.
    ///
    /// # Errors
    /// It has another form, or a table whose rows are not as long as its header.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).context(path.display())?;
        let document: Self = serde_json::from_str(&text).context(path.display())?;
        ensure!(document.schema == SCHEMA, "{}: {} and not {SCHEMA}", path.display(), document.schema);
        for table in &document.tables {
            let is_whole = table.rows.iter().all(|row| row.len() == table.columns.len());
            ensure!(is_whole, "{}: the rows of {} differ in length", path.display(), table.name);
        }
        Ok(document)
    }

    /// # Errors
    /// There is no table of this name.
    pub(super) fn table(&self, name: &str) -> Result<&Table> {
        let found = self.tables.iter().find(|table| table.name == name);
        found.ok_or_else(|| Failure::new(format!("{} has no table `{name}`", self.benchmark)))
    }

    /// Machine, date, commit, versions and remark, in a line.
    pub(super) fn origin(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| format!("commit {commit}"));
        let versions = self.versions.as_ref().map(|versions| versions.join(", "));
        let parts = [Some(self.machine.line()), Some(self.date.clone()), commit, versions];
        let line = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        self.remark.iter().fold(format!("{line}."), |line, remark| format!("{line} {remark}"))
    }
}

impl Machine {
    pub(super) fn this() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: cpu(&text),
            cpus: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            awake: awake::is_held().unwrap_or(false),
        }
    }

    pub(super) fn line(&self) -> String {
        let cpu = self.cpu.as_ref().map(|cpu| format!("{cpu}, ")).unwrap_or_default();
        let awake = if self.awake { ", kept from halting" } else { "" };
        format!("{cpu}{} CPUs{awake}, Linux {}", self.cpus, self.kernel)
    }
}

/// The model of `/proc/cpuinfo`, with its numbers where it has them: a virtual machine often shortens the name.
fn cpu(text: &str) -> Option<String> {
    let field = |wanted: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
    };
    let numbers = field("cpu family").zip(field("model"));
    let numbers =
        numbers.map_or_else(String::new, |(family, model)| format!(" (family {family}, model {model})"));
    field("model name").map(|name| format!("{name}{numbers}"))
}

/// The commit that is measured, if this is a checkout.
pub(super) fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.current_dir(workspace::root()).args(arguments);
        command::output(&mut git, Duration::from_secs(10)).ok()
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
    Some(format!("{}{}", commit.trim(), if is_changed { ", changed" } else { "" }))
}

impl Table {
    /// Without rows.
    pub(super) fn new(name: &str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { name: name.into(), title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row of one cell for each column.
    pub(super) fn push<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// In Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        let rows = self.rows.iter().map(|row| line(row));
        line(&self.columns) + &rule + &rows.collect::<String>()
    }

    /// The rows that begin with each of `keys`, in their order; all for no key. A key is the text of the first
    /// cells, joined by ` | `, and its last may be cut short.
    ///
    /// # Errors
    /// No row begins with one of them.
    pub(super) fn chosen(&self, keys: &[&str]) -> Result<Self> {
        if keys.is_empty() {
            return Ok(self.clone());
        }
        let mut rows = Vec::new();
        for key in keys {
            let before = rows.len();
            rows.extend(self.rows.iter().filter(|row| row.join(" | ").starts_with(key)).cloned());
            ensure!(rows.len() > before, "no row of {} begins with `{key}`", self.name);
        }
        Ok(Self { rows, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("speed", "Speeds", &["cipher", "work", "MB/s"]);
        for (work, rate) in [("read", "1"), ("read, deep", "2"), ("write", "3")] {
            table.push(["aes".into(), work.into(), rate.into()]);
        }
        table
    }

    #[test]
    fn rows_are_chosen_by_their_first_cells_in_the_order_of_the_keys() -> Result {
        let rates = |keys: &[&str]| -> Result<Vec<String>> {
            Ok(table().chosen(keys)?.rows.into_iter().map(|mut row| row.remove(2)).collect())
        };
        assert_eq!(rates(&[])?, ["1", "2", "3"]);
        assert_eq!(rates(&["aes | write", "aes | read |"])?, ["3", "1"]);
        assert_eq!(rates(&["aes | read"])?, ["1", "2"]);
        assert!(rates(&["serpent"]).is_err());
        assert!(
            table().markdown().starts_with("| cipher | work | MB/s |\n|---|---|---|\n| aes | read | 1 |\n")
        );
        Ok(())
    }

    #[test]
    fn what_is_written_is_read_again() -> Result {
        let mut document = Document::new("speed", vec!["x 1".into()]);
        document.tables.push(table());
        document.sample("aes | read", "x", "seconds", vec![1.5, 2.0]);
        let file = tempfile::NamedTempFile::new()?;
        document.conclude(Some(file.path()), &[])?;
        assert_eq!(Document::read(file.path())?, document);
        assert_eq!(document.table("speed")?, &table());
        assert!(document.table("size").is_err());
        let missed = document.conclude(None, &["aes | write: 3 of 4".into()]);
        assert!(missed.is_err_and(|failure| failure.to_string().contains("3 of 4")));
        Ok(())
    }

    #[test]
    fn other_forms_are_refused() -> Result {
        let file = tempfile::NamedTempFile::new()?;
        let mut document = Document::new("speed", Vec::new());
        document.schema = "strongroom.bench.result/1".into();
        fs::write(file.path(), document.text()?)?;
        assert!(Document::read(file.path()).is_err());
        document.schema = SCHEMA.into();
        document.tables.push(Table { rows: vec![vec!["alone".into()]], ..table() });
        fs::write(file.path(), document.text()?)?;
        assert!(Document::read(file.path()).is_err());
        Ok(())
    }

    #[test]
    fn a_model_is_told_with_its_numbers() {
        let text = "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n";
        assert_eq!(cpu(text).as_deref(), Some("AMD EPYC (family 26, model 2)"));
        assert_eq!(cpu("model name\t: X\n").as_deref(), Some("X"));
        assert_eq!(cpu("processor\t: 0\n"), None);
    }
}
