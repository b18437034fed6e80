//! The vectors of C2SP (CCTV): the Go module has all of them, the `age` crate those of its time. The crate's own
//! test reads them; this finds them and looks at what it says.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::Row;
use super::peers::go;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

const MODULE: &str = "c2sp.org/CCTV/age@v0.0.0-20251208015420-e9274a7bdbfd";
/// Compiling the crate's tests may come first.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Both sources, a line each.
pub(super) fn run(tally: &mut Tally) -> Vec<Row> {
    let sources: [(&str, Result<PathBuf>, u64); 2] = [
        ("vectors of the Go module", of_the_module(), 143),
        ("vectors of the age crate", of_the_crate(), 123),
    ];
    let mut rows = Vec::new();
    for (what, directory, least) in sources {
        let came_to = match directory {
            Err(reason) => {
                tally.skipped += 1;
                format!("not here: {reason}")
            }
            Ok(directory) => {
                let outcome = test(&directory, least);
                let told = match &outcome {
                    Ok(count) => format!("{count} as they say"),
                    Err(failure) => {
                        format!("FAILED: {failure}").lines().next().unwrap_or_default().to_owned()
                    }
                };
                tally.count(what, outcome.map(drop));
                told
            }
        };
        rows.push(Row { what: what.to_owned(), came_to });
    }
    rows
}

fn test(directory: &std::path::Path, least: u64) -> Result<u64> {
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--package", "strongroom-file", "--test", "cctv", "--", "--nocapture"]);
    command.env("STRONGROOM_CCTV_AGE", directory);
    let finished = command::finish(&mut command, LIMIT)?;
    ensure!(finished.status.success(), "{}", finished.output());
    let count = finished.stdout.lines().find_map(|line| line.trim().strip_suffix(" vectors")?.parse().ok());
    let count: u64 = count.ok_or_else(|| Failure::new("it does not say how many it has read"))?;
    ensure!(count >= least, "only {count} vectors, of {least}");
    Ok(count)
}

fn of_the_module() -> Result<PathBuf> {
    let mut command = Command::new(go()?);
    command.args(["mod", "download", "-json", MODULE]).current_dir(std::env::temp_dir());
    let told = command::output(&mut command, LIMIT).context("fetching the vectors")?;
    let told: Value = serde_json::from_str(&told)?;
    let directory = told["Dir"].as_str().ok_or_else(|| Failure::new("the module's place is not told"))?;
    Ok(PathBuf::from(directory).join("testdata"))
}

/// Beside the sources that cargo has compiled.
fn of_the_crate() -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_str(&command::output(&mut command, LIMIT)?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest =
        packages.filter(|package| package["name"] == "age").find_map(|age| age["manifest_path"].as_str());
    let manifest = PathBuf::from(manifest.ok_or_else(|| Failure::new("the age crate is not used any more"))?);
    let directory = manifest.with_file_name("tests").join("testdata/testkit");
    ensure!(directory.is_dir(), "the age crate has come without its test data");
    Ok(directory)
}
