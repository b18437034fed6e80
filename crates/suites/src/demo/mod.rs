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

use self::compare::Comparison;
use self::copy::{Copied, Copier};
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::mount::MountOptions;
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
    report_engine(&mount)?;

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

/// Prints what did the cryptography, as the mount itself reports it.
fn report_engine(mount: &strongroom_harness::subject::mount::Mount) -> Result {
    let Some(status) = mount.status()? else { return Ok(()) };
    let said: Vec<String> = ["suite", "engine", "engines"]
        .iter()
        .filter_map(|key| Some(format!("  {key}: {}", find(&status, key)?)))
        .collect();
    ensure!(!said.is_empty(), "the status names no engine: {status}");
    println!("{}", said.join("\n"));
    Ok(())
}

/// The first value with this key, at any depth: the demonstration shows it, whatever stands around it.
fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    match value {
        serde_json::Value::Object(fields) => {
            fields.get(key).or_else(|| fields.values().find_map(|field| find(field, key)))
        }
        serde_json::Value::Array(items) => items.iter().find_map(|item| find(item, key)),
        _ => None,
    }
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
