//! What a file system keeps, found by trying it: names, links, contents,
//! locks, times. Systems that are reached over a network, or through a
//! program, promise much that they do not keep.
//!
//! Each trial works in a directory of its own below one that goes with
//! [`Trials`]. It makes the calls that a store makes, closes what it has made,
//! and believes only what it finds again. What that is good for is not judged
//! here.
//!
//! Not tried: what only a power cut would show.

mod attributes;
mod contents;
mod links;
mod locks;
mod moves;
mod names;
mod syncs;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;

/// Before the process id in the name of the directory of all trials: spelled as
/// a vault spells what it does not list, so that a mounted one may be tried.
const DIRECTORY: &str = ".n~doctor-";

/// How long what was removed may take to go: some systems keep what was open
/// for a moment.
const REMOVAL_LIMIT: Duration = Duration::from_secs(20);

/// How old a directory is that is left over, if its process is gone: one of
/// another machine may look so.
const LEFT_OVER_AGE: Duration = Duration::from_secs(3600);

/// What a file system may keep or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// What was written is there when the file is opened again.
    Contents,
    /// A file can be cut and extended, and what was never written is zeros.
    Lengths,
    /// Names of 255 bytes.
    LongNames,
    /// A name that is there is not made again (`O_EXCL`).
    ExclusiveCreation,
    /// A directory lists what is in it, all of it and nothing else.
    Listing,
    /// A rename replaces what was there, whoever has it open keeps it.
    Replacing,
    /// An inode stays the same, and reachable, when it is renamed.
    Identity,
    /// A directory takes along what was just written in it, and what is open.
    MovingDirectories,
    /// What is locked is locked for others (`flock`).
    Locks,
    /// Barriers on files, directories, and everything.
    Barriers,
    /// A removed file can be used by whoever has it open.
    RemovedFiles,
    /// A removed file that is open leaves its directory empty.
    EmptyAfterRemoval,
    /// Further names for a file.
    HardLinks,
    /// Two entries exchanged in one step (`RENAME_EXCHANGE`).
    Exchange,
    /// A rename that replaces nothing (`RENAME_NOREPLACE`).
    NoReplace,
    /// Files without names, named later (`O_TMPFILE`).
    UnnamedFiles,
    /// Attributes of the `user.` class.
    Xattrs,
    /// Permission bits.
    Modes,
    /// Owners and groups.
    Owners,
    /// Times to the nanosecond.
    Times,
    /// Times before 1970.
    OldTimes,
    /// Locks of byte ranges of an open file (`F_OFD_SETLK`).
    RangeLocks,
    /// Holes take no space.
    Holes,
    /// Holes can be made where something was written.
    Punching,
    /// Space can be reserved.
    Reserving,
    /// Files mapped into memory for reading and writing.
    SharedMappings,
    /// Free space is told.
    Space,
    /// Names that differ in case alone are two.
    Case,
    /// Names that differ in their Unicode form alone are two.
    UnicodeForms,
    /// Names that are not UTF-8.
    AnyBytes,
}

/// What came of one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was tried.
    pub ability: Ability,
    /// Whether it is kept.
    pub kept: bool,
    /// What was found, in words.
    pub found: String,
}

/// Why trials have ended before all were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// There is no room for them, or the quota has none: nothing is known of
    /// what the file system keeps. The step that failed, in words.
    Full(String),
    /// Whoever runs them wants no more.
    Asked,
}

/// What a trial tells: in words whether it is kept, or which step failed.
enum Told {
    Kept(String),
    Lost(String),
}

/// A step that failed, in words.
struct Failed {
    words: String,
    /// There was no room.
    is_full: bool,
}

type Answer = std::result::Result<Told, Failed>;

fn kept(found: impl Into<String>) -> Answer {
    Ok(Told::Kept(found.into()))
}

fn lost(found: impl Into<String>) -> Answer {
    Ok(Told::Lost(found.into()))
}

/// What a trial is given.
struct Place<'a> {
    /// An empty directory.
    directory: PathBuf,
    /// Has another process try to lock a file.
    other: &'a dyn Fn(&Path) -> io::Result<bool>,
}

impl Place<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

type Trial = fn(&Place<'_>) -> Answer;

const TRIALS: [(Ability, Trial); 30] = [
    (Ability::Contents, contents::contents),
    (Ability::Lengths, contents::lengths),
    (Ability::LongNames, names::long),
    (Ability::ExclusiveCreation, names::exclusive),
    (Ability::Listing, names::listing),
    (Ability::Replacing, moves::replacing),
    (Ability::Identity, moves::identity),
    (Ability::MovingDirectories, moves::directories),
    (Ability::Locks, locks::whole),
    (Ability::Barriers, syncs::barriers),
    (Ability::RemovedFiles, contents::removed),
    (Ability::EmptyAfterRemoval, contents::empty_after_removal),
    (Ability::HardLinks, links::hard),
    (Ability::Exchange, moves::exchange),
    (Ability::NoReplace, moves::no_replace),
    (Ability::UnnamedFiles, links::unnamed),
    (Ability::Xattrs, attributes::xattrs),
    (Ability::Modes, attributes::modes),
    (Ability::Owners, attributes::owners),
    (Ability::Times, attributes::times),
    (Ability::OldTimes, attributes::old_times),
    (Ability::RangeLocks, locks::ranges),
    (Ability::Holes, contents::holes),
    (Ability::Punching, contents::punching),
    (Ability::Reserving, contents::reserving),
    (Ability::SharedMappings, contents::shared_mappings),
    (Ability::Space, syncs::space),
    (Ability::Case, names::case),
    (Ability::UnicodeForms, names::unicode_forms),
    (Ability::AnyBytes, names::any_bytes),
];

/// A directory in which trials are made. [`Trials::end`] removes it; dropped, it
/// is removed as far as that can be done.
#[derive(Debug)]
pub struct Trials {
    directory: PathBuf,
    removed: bool,
}

impl Trials {
    /// Makes the directory, in `store`, and removes those that trials have left
    /// which were killed more than an hour ago.
    ///
    /// # Errors
    /// What the system reports: nobody can try what may not be written.
    pub fn begin(store: &Path) -> io::Result<Trials> {
        remove_left_over(store, LEFT_OVER_AGE);
        let directory = store.join(format!("{DIRECTORY}{}", std::process::id()));
        fs::create_dir(&directory)?;
        Ok(Trials { directory, removed: false })
    }

    /// Makes the trials that are wanted, one after another. `other` has another
    /// process try to lock a file (`flock(2)`, exclusively), and tells whether it
    /// could. Before each trial `goes_on` is asked whether there shall be more.
    ///
    /// # Errors
    /// Why not all were made.
    pub fn run(
        &self,
        is_wanted: &dyn Fn(Ability) -> bool,
        other: &dyn Fn(&Path) -> io::Result<bool>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Finding>, Stopped> {
        let made = |(number, (ability, trial)): (usize, (Ability, Trial))| {
            if !goes_on() {
                return Err(Stopped::Asked);
            }
            let place = Place { directory: self.directory.join(number.to_string()), other };
            let told = fs::create_dir(&place.directory).map_err(at("mkdir")).and_then(|()| trial(&place));
            let (kept, found) = match told {
                Ok(Told::Kept(found)) => (true, found),
                Ok(Told::Lost(found)) => (false, found),
                Err(Failed { words, is_full: true }) => return Err(Stopped::Full(words)),
                Err(Failed { words, is_full: false }) => (false, words),
            };
            Ok(Finding { ability, kept, found })
        };
        TRIALS.into_iter().filter(|(ability, _)| is_wanted(*ability)).enumerate().map(made).collect()
    }

    /// Removes what the trials have left, and their directory.
    ///
    /// # Errors
    /// What the system reports; the error names the directory.
    pub fn end(mut self) -> io::Result<()> {
        self.removed = true;
        let deadline = Instant::now() + REMOVAL_LIMIT;
        loop {
            match fs::remove_dir_all(&self.directory) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if Instant::now() >= deadline => {
                    let kind = error.kind();
                    let told = format!("{} {}", self.directory.display(), at("stays")(error).words);
                    return Err(io::Error::new(kind, told));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

impl Drop for Trials {
    fn drop(&mut self) {
        if !self.removed {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Removes what killed trials have left in a directory that nobody uses for
/// anything else yet, as far as that can be done.
pub fn clear(store: &Path) {
    remove_left_over(store, Duration::ZERO);
}

/// Whether a directory of this name is one of trials.
#[must_use]
pub fn is_of_trials(name: &OsStr) -> bool {
    process_of(name).is_some()
}

fn process_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix(DIRECTORY)?.parse().ok()
}

/// Removes the directories of trials that were killed so long ago, as far as
/// that can be done.
fn remove_left_over(store: &Path, least_age: Duration) {
    let Ok(entries) = fs::read_dir(store) else { return };
    for entry in entries.flatten() {
        let process = process_of(&entry.file_name());
        // In a container each process may have the same number.
        let is_gone =
            |process| process == std::process::id() || !Path::new(&format!("/proc/{process}")).exists();
        let is_old = || {
            let changed = entry.metadata().and_then(|found| found.modified()).ok();
            let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
            least_age.is_zero() || age.is_some_and(|age| age > least_age)
        };
        if process.is_some_and(is_gone) && is_old() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Turns an error of `step` into words.
fn at<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Failed {
    move |error| {
        let error = error.into();
        let is_full = matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::DQUOT));
        let error = error.to_string();
        // The number says nothing that the words do not.
        let words = error.split(" (os error").next().unwrap_or_default();
        Failed { words: format!("{step}: {words}"), is_full }
    }
}

/// Makes a file with these bytes, which must not be there.
fn make(path: &Path, bytes: &[u8]) -> std::result::Result<(), Failed> {
    let file = File::create_new(path).map_err(at("creating a file"))?;
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).map_err(at("writing"))?;
    drop(file);
    Ok(())
}

fn read(path: &Path) -> std::result::Result<Vec<u8>, Failed> {
    fs::read(path).map_err(at("reading again"))
}

/// Opens for reading and writing.
fn open(path: &Path) -> std::result::Result<File, Failed> {
    File::options().read(true).write(true).open(path).map_err(at("opening"))
}

/// Whether an error says that there is no such operation here.
fn is_unsupported(errno: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::PERM, Errno::ISDIR, Errno::NOTTY].contains(&errno)
}

/// Says of an error whether the operation is not there or has failed.
fn refused(step: &'static str, errno: Errno) -> Answer {
    if is_unsupported(errno) { lost("not supported") } else { Err(at(step)(errno)) }
}
