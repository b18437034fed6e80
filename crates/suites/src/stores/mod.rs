//! A vault on every store that can be had on one machine: file systems in images, network file systems and
//! object stores over loopback.
//!
//! For each, `strongroom doctor STORE` has to say what is known of it. Where a vault can live, it then does: a
//! tree is written, changed, read back, the daemon killed, the vault mounted again and checked; what the store
//! lacks is refused by its name. Where it cannot, `doctor` has to say so.

mod ceph;
mod images;
mod life;
pub(crate) mod remote;
pub(crate) mod served;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use self::served::Served;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::{Kind, Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

#[derive(Args)]
pub struct StoresArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Only these stores
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only the store that is mounted there already, in a directory of its own, which stays if it fails
    #[arg(long, value_name = "DIR", conflicts_with = "only")]
    on: Option<PathBuf>,
}

/// A store, and what is known of it.
struct Row {
    name: &'static str,
    /// Serves it below a directory.
    start: fn(&Path) -> Result<Served>,
    /// What `doctor` has to find missing, at least.
    lacks: &'static [&'static str],
    /// Whether a vault can live there.
    suitable: bool,
}

const ROWS: [Row; 9] = [
    Row { name: "ext4", start: images::ext4, lacks: &[], suitable: true },
    Row { name: "xfs", start: images::xfs, lacks: &[], suitable: true },
    Row { name: "btrfs", start: images::btrfs, lacks: &[], suitable: true },
    Row { name: "tmpfs", start: images::tmpfs, lacks: &[], suitable: true },
    Row {
        name: "sshfs",
        start: remote::sshfs,
        lacks: &["hard-links", "exchange", "xattrs", "unnamed-files", "reserving", "times"],
        suitable: true,
    },
    Row { name: "juicefs", start: remote::juicefs, lacks: &["unnamed-files"], suitable: true },
    Row { name: "cephfs", start: ceph::cephfs, lacks: &[], suitable: true },
    Row {
        name: "rclone",
        start: remote::rclone,
        lacks: &["moving-directories", "replacing"],
        suitable: false,
    },
    Row { name: "s3fs", start: remote::s3fs, lacks: &["moving-directories", "hard-links"], suitable: false },
];

/// What this command does not try, and why.
const ELSEWHERE: [(&str, &str); 2] = [
    ("nfs", "its client is the kernel's, which has to be built with it: `cargo xtask vm --part stores`"),
    ("cifs", "its client is the kernel's, which has to be built with it: `cargo xtask vm --part stores`"),
];

/// Tries each store.
pub fn run(arguments: &StoresArgs) -> Result<Tally> {
    packages::need_root("stores")?;
    ensure!(arguments.subject.subject == Kind::Strongroom, "only strongroom has a doctor for stores");
    let unknown = arguments.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name));
    ensure!(unknown.is_none(), "there is no store {}", unknown.map_or("", String::as_str));
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("stores")?.guarded()?;
    let mut tally = Tally::default();
    if let Some(store) = &arguments.on {
        tally.count(&format!("a vault on {}", store.display()), mounted(&subject, scratch.path(), store));
        return Ok(tally);
    }
    let is_wanted =
        |row: &&Row| arguments.only.is_empty() || arguments.only.iter().any(|name| name == row.name);
    for row in ROWS.iter().filter(is_wanted) {
        let began = Instant::now();
        let outcome = scratch.make(row.name).and_then(|base| tried(row, &subject, &base));
        match outcome {
            Ok(told) => {
                println!("  {:<8} {told} ({:.0} s)", row.name, began.elapsed().as_secs_f64());
                tally.passed += 1;
            }
            Err(failure) => tally.fail(format!("{}: {failure}", row.name)),
        }
    }
    for (name, reason) in ELSEWHERE.iter().filter(|_| arguments.only.is_empty()) {
        println!("  {name:<8} not tried: {reason}");
        tally.skipped += 1;
    }
    Ok(tally)
}

/// `doctor` of a store that is somebody else's, and the life of a vault where one can live.
fn mounted(subject: &Subject, base: &Path, store: &Path) -> Result {
    let below = store.join(format!("strongroom-stores-{}", std::process::id()));
    fs::create_dir(&below).context(below.display())?;
    let found = life::diagnose(subject, &below)?;
    println!("  {}: {found}", found.file_system);
    if found.suitable {
        life::live(subject, base, &below, &found)?;
    }
    fs::remove_dir_all(&below).context(below.display())
}

/// `doctor` and the life of a vault on what lies below `base`, as with each store; tells what was found.
///
/// # Errors
/// As the suite's: what was lost, refused or said wrongly.
pub fn lived(subject: &Subject, base: &Path) -> Result<String> {
    let store = base.join("below");
    fs::create_dir(&store).context(store.display())?;
    let found = life::diagnose(subject, &store)?;
    life::live(subject, base, &store, &found)?;
    Ok(found.to_string())
}

/// One store from its beginning to its end; tells what was found.
fn tried(row: &Row, subject: &Subject, base: &Path) -> Result<String> {
    let store = (row.start)(base)?;
    let found = life::diagnose(subject, store.path())?;
    for ability in row.lacks {
        ensure!(!found.keeps(ability), "doctor says that it keeps {ability}");
    }
    ensure!(found.suitable == row.suitable, "doctor says otherwise whether a vault can live there: {found}");
    if row.suitable {
        life::live(subject, base, store.path(), &found)?;
    } else {
        life::refused(subject, base, store.path(), row.lacks)?;
    }
    let version = store.version.clone();
    store.end()?;
    Ok(format!("{version}: {found}"))
}
