//! Other programs for age, found or installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::workspace;

/// The newest age that is known (BSD-3-Clause; only ever run).
pub const AGE: &str = "v1.3.2";
/// The Python library of rage (MIT or Apache-2.0; only ever run).
const PYRAGE: &str = "pyrage==1.4.0";
const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// A program that encrypts and decrypts.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// How it is called.
pub(super) enum Kind {
    /// As age is.
    Age {
        program: PathBuf,
        /// Has `-pq`, and comes with plugins.
        is_new: bool,
    },
    /// A Python that has pyrage.
    Pyrage(PathBuf),
}

/// A peer that cannot be had.
pub(super) struct Absent {
    pub(super) name: &'static str,
    pub(super) reason: Failure,
}

/// All that are asked for, in the table's order.
pub(super) fn all() -> Vec<std::result::Result<Peer, Absent>> {
    let or_absent = |name, found: Result<Peer>| found.map_err(|reason| Absent { name, reason });
    vec![
        or_absent("Debian's age", debian()),
        or_absent("age 1.3", newest()),
        or_absent("rage (pyrage)", pyrage()),
    ]
}

/// The Go toolchain.
pub(crate) fn go() -> Result<PathBuf> {
    let beside = || Some(PathBuf::from("/usr/local/go/bin/go")).filter(|go| go.is_file());
    packages::find("go").or_else(beside).ok_or_else(|| {
        Failure::new("there is no Go toolchain; age 1.3 needs Go 1.24, and Debian 12 has 1.19")
    })
}

fn debian() -> Result<Peer> {
    packages::need(&[("age", "age")])?;
    let program = packages::find("age").ok_or_else(|| Failure::new("the package has no program"))?;
    Ok(Peer { name: named("age", &program)?, kind: Kind::Age { program, is_new: false } })
}

/// age 1.3 with its plugins, below `target/tools`.
fn newest() -> Result<Peer> {
    let program = install_newest()?;
    Ok(Peer { name: named("age", &program)?, kind: Kind::Age { program, is_new: true } })
}

/// Builds age 1.3 unless it is there.
pub fn install_newest() -> Result<PathBuf> {
    let directory = workspace::target()?.join("tools").join(format!("age-{AGE}"));
    let program = directory.join("age");
    if !directory.join("age-plugin-batchpass").is_file() {
        let mut command = Command::new(go()?);
        command.arg("install").arg(format!("filippo.io/age/cmd/...@{AGE}")).env("GOBIN", &directory);
        command.current_dir(std::env::temp_dir());
        command::output(&mut command, INSTALL_LIMIT).context("building age")?;
    }
    ensure!(program.is_file(), "the module has no program");
    Ok(program)
}

fn pyrage() -> Result<Peer> {
    let directory = workspace::target()?.join("tools/pyrage");
    let python = directory.join("bin/python");
    let has_it = |python: &Path| {
        let mut command = Command::new(python);
        command.args(["-c", "import pyrage"]);
        command::finish(&mut command, INSTALL_LIMIT).is_ok_and(|finished| finished.status.success())
    };
    if !has_it(&python) {
        packages::need(&[("python3", "python3")])?;
        let mut made = Command::new("python3");
        made.args(["-m", "venv", "--clear"]).arg(&directory);
        if command::output(&mut made, INSTALL_LIMIT).is_err() {
            packages::install(&["python3-venv"])?;
            command::output(&mut made, INSTALL_LIMIT).context("making a Python environment")?;
        }
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", PYRAGE]);
        command::output(&mut pip, INSTALL_LIMIT).context("installing pyrage")?;
    }
    ensure!(has_it(&python), "pyrage does not load");
    Ok(Peer { name: format!("rage ({PYRAGE})"), kind: Kind::Pyrage(python) })
}

fn named(name: &str, program: &Path) -> Result<String> {
    let version = packages::version_line(program.as_os_str(), "--version")?;
    Ok(format!("{name} {}", version.trim_start_matches('v')))
}
