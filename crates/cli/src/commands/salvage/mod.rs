//! `salvage`: copies everything that can be read out of a vault into a plain
//! directory, without a mount, over whatever is damaged (`docs/repair.md`).
//!
//! One thread walks the stored tree ([`walk`]) and makes directories, links
//! and special files; the others copy files ([`copy`]), several of them one
//! large file. [`target`] is the plain side, [`losses`] what is told.

mod copy;
mod losses;
mod target;
mod walk;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Serialize;
use strongroom_store::Store;
use strongroom_store::local::OpenMode;
use strongroom_vault::namespace::survey::Survey;

use self::copy::Copier;
use self::losses::{Losses, Unwritten};
use self::target::Directory;
use self::walk::Walk;
use crate::args::SalvageArgs;
use crate::commands::check::findings::Finding;
use crate::failure::{Exit, Failure, Result};
use crate::history::History;
use crate::lock::{LockError, LockMode, VaultLock};
use crate::progress::Progress;
use crate::report::{self, Output, bytes, shown};
use crate::tree::{Interrupt, Pool, at_least_open_files, default_threads, open_read_only, stored_bytes};
use crate::unlock::{LockedVault, unlock};

/// `strongroom.salvage/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    vault_id: String,
    destination: String,
    started: String,
    duration_ns: u64,
    /// Everything was looked at, and written as far as it could be read.
    complete: bool,
    /// Files copied, and those that an earlier run had copied.
    files: u64,
    skipped: u64,
    directories: u64,
    symlinks: u64,
    others: u64,
    /// Plain bytes copied; holes do not count.
    bytes: u64,
    /// What is damaged.
    damage: Vec<Finding>,
    /// What could not be read, of which nothing is known.
    unreadable: Vec<Finding>,
    /// What the destination did not take.
    unwritten: Vec<Unwritten>,
}

impl Document {
    fn exit(&self) -> Exit {
        if !self.damage.is_empty() {
            Exit::Damage
        } else if !self.unreadable.is_empty() {
            Exit::Store
        } else if !self.complete || !self.unwritten.is_empty() {
            Exit::Other
        } else {
            Exit::Done
        }
    }
}

/// Copies out what can be read.
///
/// # Errors
/// As unlocking; in use while the vault is mounted for writing; usage for a
/// destination that is not empty or lies in the vault; store when the
/// destination is full or fails. Damage of the vault is reported and no error.
pub(crate) fn run(args: &SalvageArgs, output: Output) -> Result<Exit> {
    let started = report::now();
    let clock = Instant::now();
    LockedVault::open(&args.vault, OpenMode::ReadOnly)?;
    let _lock = lock(args, output)?;
    check_apart(&args.vault, &args.destination)?;
    let unlocked =
        unlock(&args.vault, OpenMode::ReadOnly, &args.secret, &History::of(&args.history), output)?;
    at_least_open_files();
    let interrupt = Interrupt::listen();
    let store = Arc::clone(&unlocked.store) as Arc<dyn Store>;
    let vault = open_read_only(Arc::clone(&store), &unlocked.header, unlocked.root)
        .map_err(|failure| failure.at(&args.vault))?;
    let survey = vault.namespace().survey();
    let (is_new, _alone) = make_destination(&args.destination, args.resume)?;
    let log = free_name(survey, ".salvage-losses", "");
    let report = args.destination.join(free_name(survey, "salvage-report", ".json"));
    let losses = Arc::new(Losses::open(&args.destination, &log, (!is_new).then_some(&*report))?);
    vault.damage().iter().for_each(|damage| losses.add(Finding::journal(damage)));
    let top = Directory::top(&args.destination, Arc::clone(&losses))
        .map_err(|errno| Failure::system(&args.destination, &errno.into()))?;
    let progress = Progress::begin("Listing");
    if progress.is_shown() {
        let total = stored_bytes(&store.root(), &progress);
        progress.begin_bytes(total, "Copying");
    }
    let copier =
        Copier::new(survey, &losses, &progress, &interrupt, unlocked.header.block_size.bytes(), !is_new);
    let pool = Pool::new(interrupt.flag());
    let mut walk = Walk::new(&copier);
    let threads = args.threads.map_or_else(default_threads, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| pool.work());
        }
        walk.top(Arc::new(top), &store.root(), &pool);
        pool.close();
    });
    progress.finish();
    sync(&args.destination);
    let (damage, unreadable) = losses.findings().into_iter().partition(Finding::is_damage);
    let document = Document {
        schema: "strongroom.salvage/1",
        vault: args.vault.display().to_string(),
        vault_id: unlocked.header.vault.to_string(),
        destination: args.destination.display().to_string(),
        started: report::rfc3339(started),
        duration_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
        complete: !interrupt.is_asked(),
        files: copier.files(),
        skipped: copier.skipped(),
        directories: walk.counts.directories,
        symlinks: walk.counts.symlinks,
        others: walk.counts.others,
        bytes: copier.bytes(),
        damage,
        unreadable,
        unwritten: losses.unwritten(),
    };
    let written = write_report(&args.destination, &report, survey, &document);
    if let Some(failure) = losses.fatal() {
        return Err(failure);
    }
    written?;
    if document.complete {
        losses.remove_log();
    }
    output.print(&document, text)?;
    Ok(document.exit())
}

/// Keeps writers out. Beside one, with `--force`, nothing is locked.
fn lock(args: &SalvageArgs, output: Output) -> Result<Option<VaultLock>> {
    VaultLock::settle(&args.vault, output);
    match VaultLock::acquire(&args.vault, LockMode::Shared, "salvage", None) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held(_)) if args.force => {
            output.warn("the vault is in use: what is being written may be copied half");
            Ok(None)
        }
        Err(error @ LockError::Held(_)) => Err(Failure::from(error)
            .at(&args.vault)
            .hint("Unmount it first, or copy beside it with --force.")),
        Err(error) => Err(Failure::from(error).at(&args.vault)),
    }
}

/// Refuses a destination in the vault, or one that the vault lies in.
fn check_apart(vault: &Path, destination: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().map_err(|error| Failure::system(path, &error));
    let vault = real(vault)?;
    let destination = match destination.canonicalize() {
        Ok(there) => there,
        Err(_) => {
            let parent = destination.parent().filter(|parent| !parent.as_os_str().is_empty());
            let name = destination.file_name().ok_or_else(|| Failure::usage("name a new directory"))?;
            real(parent.unwrap_or(Path::new(".")))?.join(name)
        }
    };
    if destination.starts_with(&vault) || vault.starts_with(&destination) {
        return Err(Failure::usage("the destination and the vault lie in each other")
            .at(&destination)
            .hint("Name a directory elsewhere, with room for the plain files."));
    }
    Ok(())
}

/// Makes the destination, or takes an empty one, or one to go on in. Gives
/// whether it is begun anew, and what keeps other salvages out of it.
fn make_destination(path: &Path, resume: bool) -> Result<(bool, File)> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let directory = File::open(path).map_err(failed)?;
    // A file system without such locks keeps nobody out.
    if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(Failure::new(Exit::InUse, "another salvage writes there")
            .at(path)
            .hint("Wait until it is done, or name another directory."));
    }
    let is_empty = std::fs::read_dir(path).map_err(failed)?.next().is_none();
    if !is_empty && !resume {
        return Err(Failure::usage("the directory is not empty")
            .at(path)
            .hint("Name a new directory, or go on with a salvage that was cut short there with --resume."));
    }
    Ok((is_empty, directory))
}

fn sync(path: &Path) {
    // What could not be written is known; this only makes it last.
    if let Ok(directory) = std::fs::File::open(path) {
        let _ = rustix::fs::syncfs(&directory);
    }
}

fn write_report(destination: &Path, path: &Path, survey: Survey<'_>, document: &Document) -> Result<()> {
    let passing = destination.join(free_name(survey, ".salvage-report", ".json"));
    let mut json = serde_json::to_string_pretty(document).expect("documents have text keys");
    json.push('\n');
    let written = std::fs::write(&passing, json).and_then(|()| std::fs::rename(&passing, path));
    written.map_err(|error| Failure::system(path, &error))
}

/// A name that nothing at the top of the vault has.
fn free_name(survey: Survey<'_>, stem: &str, suffix: &str) -> String {
    let top = survey.top();
    let is_free = |name: &String| survey.find(&top, name.as_bytes()).is_err();
    let mut names = (1..).map(|number| format!("{stem}.{number}{suffix}"));
    let first = format!("{stem}{suffix}");
    if is_free(&first) { first } else { names.find(is_free).expect("some number is free") }
}

fn places(count: usize) -> String {
    if count == 1 { "1 place".to_owned() } else { format!("{count} places") }
}

fn places_are(count: usize) -> String {
    format!("{} {}", places(count), if count == 1 { "is" } else { "are" })
}

/// The report for people.
fn text(document: &Document) -> String {
    let mut lines: Vec<String> =
        document.damage.iter().chain(&document.unreadable).map(Finding::line).collect();
    let unwritten = document.unwritten.iter();
    lines.extend(unwritten.map(|unwritten| {
        format!("{}: not written: {}", shown(unwritten.path.as_bytes()), unwritten.message)
    }));
    let Document { files, skipped, directories, symlinks, others, .. } = document;
    lines.push(format!(
        "Copied {files} files, {directories} directories, {symlinks} symlinks, {others} others; {} in {:.1} s",
        bytes(document.bytes),
        document.duration_ns as f64 / 1e9
    ));
    if *skipped > 0 {
        lines.push(format!("{skipped} files had been copied before."));
    }
    lines.push(match (document.damage.len(), document.unreadable.len()) {
        _ if !document.complete => "Interrupted: go on with --resume.".to_owned(),
        (0, 0) if document.unwritten.is_empty() => "Everything was copied.".to_owned(),
        (0, 0) => "Everything could be read, and not all of it written.".to_owned(),
        (0, count) => format!(
            "{} could not be read, and nothing is damaged: see to it, and go on with --resume.",
            places(count)
        ),
        (count, 0) => format!("{} damaged: what was there is lost.", places_are(count)),
        (count, unreadable) => {
            format!(
                "{} damaged: what was there is lost. {} could not be read.",
                places_are(count),
                places(unreadable)
            )
        }
    });
    lines.push(String::new());
    lines.join("\n")
}
