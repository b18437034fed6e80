//! `docs/papers.md`, made from the models of `crates/papers`.

use std::fs;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::workspace;

/// A build and some seconds of virtual time.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Writes the page.
pub(crate) fn run() -> Result {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--quiet", "--package", "strongroom-papers", "--example", "page"]);
    let page = command::output(&mut command, LIMIT).context("the models were not run")?;
    let path = workspace::root().join("docs/papers.md");
    fs::write(&path, page).context("docs/papers.md is not written")?;
    println!("written: {}", path.display());
    Ok(())
}
