//! The demonstration: a real tree goes through a mount and comes back, compared to the last byte.
//!
//! Needs nothing but Rust and, as an ordinary user, fuse3; it sets up, shows and cleans up by itself.

pub(crate) mod compare;
pub(crate) mod copy;
mod tour;
pub(crate) mod tree;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use self::compare::Comparison;
use self::copy::{Copied, Copier};
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

/// A slow machine copies the tree in a few minutes.
const MOUNT_LIMIT: Duration = Duration::from_secs(20 * 60);
const CHECK_LIMIT: Duration = Duration::from_secs(10 * 60);

#[derive(Args)]
pub struct DemoArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Copy this tree instead of one that is put together here
    #[arg(long, value_name = "DIR")]
    tree: Option<std::path::PathBuf>,
}

impl DemoArgs {
    /// The demonstration as one of the test suites.
    pub fn on(subject: &SubjectArgs) -> Self {
        Self { subject: subject.clone(), tree: None }
    }
}

/// Runs the demonstration.
pub fn run(arguments: &DemoArgs) -> Result<Tally> {
    let subject = arguments.subject.resolve()?;
    println!("{}", subject.version()?);
    let scratch = arguments.subject.scratch("demo")?;
    let source = match &arguments.tree {
        Some(tree) => tree.canonicalize()?,
        None => build_source(&scratch.make("source")?)?,
    };
    let vault = Vault::create(&subject, scratch.path())?;
    println!("made a vault ({})", subject.label());
    through(&vault, &subject, &source)?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

fn build_source(root: &Path) -> Result<std::path::PathBuf> {
    println!("putting a tree together from this machine's own files");
    let began = Instant::now();
    let made = tree::build(root).context("putting the tree together")?;
    println!("  {}", rate("on the plain disk", made, began.elapsed()));
    ensure!(
        made.files >= tree::FILES_MIN && made.bytes >= tree::BYTES_MIN,
        "only {} files and {} bytes came together",
        made.files,
        made.bytes
    );
    Ok(root.to_path_buf())
}

fn through(vault: &Vault, subject: &Subject, source: &Path) -> Result {
    let mut mount = vault.mount(MountOptions::new(MOUNT_LIMIT).daemon())?;
    let target = mount.path().join("tree");
    std::fs::create_dir(&target)?;
    let began = Instant::now();
    let mut copier = Copier::new(None);
    copier.tree(source, &target).context("copying into the mount")?;
    println!("copied in: {}", rate("through the mount", copier.copied, began.elapsed()));
    report_engines(&mount)?;

    let began = Instant::now();
    mount.remount()?;
    println!("unmounted and mounted again: {:.1} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let comparison = Comparison::of(source, &target)?;
    let read = Copied { files: comparison.entries, bytes: comparison.bytes };
    println!("compared: {}", rate("read back cold", read, began.elapsed()));
    if let Some(differences) = comparison.differences() {
        return Err(Failure::new(differences));
    }
    if let Subject::Strongroom { .. } = subject {
        tour::show(mount.path(), &target, &vault.place.store, read)?;
    }
    mount.unmount()?;
    let began = Instant::now();
    if vault.check(CHECK_LIMIT)? {
        println!("checked the whole vault: {:.1} s", began.elapsed().as_secs_f64());
    }
    let stored = vault.stored_bytes()?;
    println!("stored: {:.1} MB for {:.1} MB of contents", stored as f64 / 1e6, read.bytes as f64 / 1e6);
    println!(
        "every byte, mode, owner, time, link and attribute of {} entries came back from {}",
        comparison.entries,
        subject.label()
    );
    Ok(())
}

/// Prints what did the cryptography, and why it was placed there, as the mount itself reports it.
fn report_engines(mount: &Mount) -> Result {
    let Some(status) = mount.status()? else { return Ok(()) };
    let lines = of_engines(&status["mounts"][0]);
    ensure!(!lines.is_empty(), "the status names no engine that did anything: {status}");
    println!("  {}, by", status["mounts"][0]["suite"].as_str().unwrap_or("?"));
    lines.iter().for_each(|line| println!("    {line}"));
    Ok(())
}

/// A line for each engine that did anything: how much, and the batches by the reason for which they were placed there.
fn of_engines(mount: &Value) -> Vec<String> {
    let line = |engine: &Value| {
        let bytes = engine["bytes"].as_u64().filter(|bytes| *bytes > 0)?;
        let reasons: Vec<String> = engine["placements"]
            .as_object()?
            .iter()
            .map(|(why, batches)| format!("{why} {batches}"))
            .collect();
        let megabytes = bytes as f64 / 1e6;
        Some(format!("{:14} {megabytes:8.1} MB   {}", engine["name"].as_str()?, reasons.join(", ")))
    };
    mount["engines"].as_array().into_iter().flatten().filter_map(line).collect()
}

fn rate(how: &str, amount: Copied, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    format!(
        "{} entries, {:.0} MB in {seconds:.1} s {how} ({:.0} entries/s, {:.0} MB/s)",
        amount.files,
        amount.bytes as f64 / 1e6,
        amount.files as f64 / seconds,
        amount.bytes as f64 / 1e6 / seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_did_nothing_have_no_line() {
        let mount = serde_json::json!({ "engines": [
            { "name": "cpu-aes", "bytes": 2_500_000, "placements": { "least-cost": 40, "probe": 2 } },
            { "name": "reference", "bytes": 0, "placements": {} },
        ]});
        assert_eq!(of_engines(&mount), ["cpu-aes             2.5 MB   least-cost 40, probe 2"]);
    }
}
