//! The writer: a process with several lanes, each noting what it does until the mount is gone.
//!
//! It runs as a process of its own, so that it is no worse off than any program whose files vanish under
//! it, and so that it can be ended whatever state it is in.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags};

use super::action::{Action, Line, Wait};
use super::beside::Beside;
use super::churn::Mix;
use super::{lane, pattern};
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;

/// Beyond this a file is cut.
const LEN_MAX: u64 = 1 << 20;
/// Names that a lane has at most.
const NAMES_MAX: usize = 14;
/// Descriptors that a lane keeps open.
const OPEN_MAX: usize = 5;
/// The first action of a round; smaller numbers are for what is there at its beginning.
const FIRST_ACTION: u64 = 1 << 20;

/// What a writer process is told.
#[derive(Args, Clone, Debug)]
pub struct WriterArgs {
    /// The directory that holds the lanes' directories
    #[arg(long)]
    pub plain: PathBuf,
    /// Where the logs are written
    #[arg(long)]
    pub logs: PathBuf,
    /// The lanes, by number
    #[arg(long, value_delimiter = ',')]
    pub lanes: Vec<u64>,
    /// Which round it is: actions are numbered from it
    #[arg(long)]
    pub round: u64,
    #[arg(long)]
    pub seed: u64,
    /// What is mostly done
    #[arg(long, value_enum, default_value = "all")]
    pub mix: Mix,
}

/// A lane's directory, below the mount.
pub fn lane_directory(plain: &Path, lane: u64) -> PathBuf {
    plain.join(format!("lane-{lane}"))
}

/// A lane's log.
pub fn lane_log(logs: &Path, lane: u64) -> PathBuf {
    logs.join(format!("lane-{lane}.log"))
}

/// The number from which those of a round and lane begin.
pub fn first_number(round: u64, lane: u64) -> u64 {
    (round << 32) | (lane << 24)
}

/// Runs the lanes until the mount is gone or standard input ends.
///
/// # Errors
/// Something failed though the mount is there.
pub fn run(arguments: &WriterArgs) -> Result {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = arguments
            .lanes
            .iter()
            .map(|&lane| {
                let stop = &stop;
                scope.spawn(move || Writer::new(arguments, lane)?.work(stop))
            })
            .collect();
        // Whoever started this ends it by closing the pipe.
        scope.spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stop.store(true, Ordering::Relaxed);
        });
        let outcomes: Vec<Result> =
            lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect();
        if let Some(failure) = outcomes.into_iter().find_map(Result::err) {
            eprintln!("error: {failure}");
            std::process::exit(1);
        }
        // The thread that waits for standard input is not waited for.
        std::process::exit(0);
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Directory,
    Symlink,
    File(u64),
}

struct Open {
    len: u64,
    file: Option<File>,
}

pub(crate) struct Writer<'a> {
    plain: &'a Path,
    root: PathBuf,
    log: File,
    beside: Option<Beside>,
    mix: Mix,
    next: u64,
    random: Random,
    names: BTreeMap<String, Entry>,
    files: HashMap<u64, Open>,
}

/// Why a lane ends.
pub(crate) enum End {
    /// The mount is gone.
    Gone,
    Failed(Failure),
}

impl<'a> Writer<'a> {
    fn new(arguments: &'a WriterArgs, number: u64) -> Result<Self> {
        let log = File::options().create_new(true).append(true).open(lane_log(&arguments.logs, number))?;
        let mut writer = Self {
            plain: &arguments.plain,
            root: lane_directory(&arguments.plain, number),
            beside: Some(Beside::start(&log)?),
            log,
            mix: arguments.mix,
            next: first_number(arguments.round, number) + FIRST_ACTION,
            random: Random::new(arguments.seed ^ first_number(arguments.round, number)),
            names: BTreeMap::new(),
            files: HashMap::new(),
        };
        let root = writer.root.clone();
        match writer.scan(&root, "") {
            Err(failure) if !writer.is_gone() => Err(failure),
            _ => Ok(writer),
        }
    }

    /// Learns what is there.
    fn scan(&mut self, directory: &Path, prefix: &str) -> Result {
        for entry in fs::read_dir(directory).context(directory.display())? {
            let entry = entry?;
            let metadata = fs::symlink_metadata(entry.path()).context(entry.path().display())?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = metadata.file_type();
            if kind.is_dir() {
                self.scan(&entry.path(), &format!("{name}/"))?;
                self.names.insert(name, Entry::Directory);
            } else if kind.is_symlink() {
                self.names.insert(name, Entry::Symlink);
            } else {
                // Inode numbers are below the numbers of actions or not: no two files share a key either way,
                // since what is there now was not made by an action of this round.
                let key = u64::MAX - metadata.ino();
                self.files.insert(key, Open { len: metadata.len(), file: None });
                self.names.insert(name, Entry::File(key));
            }
        }
        Ok(())
    }

    /// Whether the daemon is there no more.
    fn is_gone(&self) -> bool {
        fs::read_dir(self.plain).and_then(|mut entries| entries.next().transpose()).is_err()
            || !self.root.exists()
    }

    fn work(mut self, stop: &AtomicBool) -> Result {
        let outcome = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            match self.step() {
                Ok(()) => {}
                Err(End::Gone) => break Ok(()),
                Err(End::Failed(failure)) => break Err(failure),
            }
        };
        // The file that it syncs may be one of a mount that is gone.
        let beside = self.beside.take().and_then(Beside::end).filter(|_| !self.is_gone());
        outcome.and(beside.map_or(Ok(()), |failure| {
            Err(Failure::new(format!("{}: an fsync beside: {failure}", self.root.display())))
        }))
    }

    /// Begins to sync a file, in a thread of its own.
    pub(crate) fn sync_beside(&mut self, path: &str) -> std::result::Result<(), End> {
        let number = self.next;
        self.next += 1;
        match self.begin_beside(number, path) {
            Ok(()) => Ok(()),
            Err(_) if self.is_gone() => Err(End::Gone),
            Err(failure) => Err(End::Failed(failure)),
        }
    }

    fn begin_beside(&mut self, number: u64, path: &str) -> Result {
        self.open(path)?;
        let file = self.files[&self.key(path)].file.as_ref();
        match (&self.beside, file) {
            (Some(beside), Some(file)) => beside.begin(number, path, file).map(drop),
            _ => Ok(()),
        }
    }

    /// Notes an action, does it, and notes its end.
    pub(crate) fn act(&mut self, action: Action) -> std::result::Result<u64, End> {
        let number = self.next;
        self.next += 1;
        let note = |log: &mut File, line: &Line| {
            log.write_all(line.text().as_bytes()).map_err(|error| End::Failed(error.into()))
        };
        note(&mut self.log, &Line::Begin { number, action: action.clone() })?;
        match self.perform(number, &action) {
            Ok(()) => {
                note(&mut self.log, &Line::End { number })?;
                Ok(number)
            }
            Err(_) if self.is_gone() => {
                note(&mut self.log, &Line::Gone { number })?;
                Err(End::Gone)
            }
            Err(failure) => {
                let lane = self.root.display();
                Err(End::Failed(Failure::new(format!("{lane}: action {number}, {action:?}: {failure}"))))
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn key(&self, name: &str) -> u64 {
        match self.names[name] {
            Entry::File(key) => key,
            _ => unreachable!("only files are asked for"),
        }
    }

    /// The lane's descriptor of a file.
    fn open(&mut self, name: &str) -> Result<&File> {
        let (key, path) = (self.key(name), self.path(name));
        let open = self.files.get_mut(&key).expect("every file has its record");
        if open.file.is_none() {
            open.file = Some(File::options().read(true).write(true).open(path)?);
        }
        Ok(open.file.as_ref().expect("just opened"))
    }

    fn perform(&mut self, number: u64, action: &Action) -> Result {
        match action {
            Action::Create { path } => {
                let file = File::options().read(true).write(true).create_new(true).open(self.path(path))?;
                self.names.insert(path.clone(), Entry::File(number));
                self.files.insert(number, Open { len: 0, file: Some(file) });
            }
            Action::Write { path, offset, len, wait } => self.write(number, path, *offset, *len, *wait)?,
            Action::SetLen { path, len } => self.set_len(path, *len)?,
            Action::Punch { path, offset, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(self.open(path)?, flags, *offset, *len)?;
            }
            Action::Fsync { path } => self.open(path)?.sync_all()?,
            Action::Fdatasync { path } => self.open(path)?.sync_data()?,
            Action::Close { path } => {
                // close(2) tells of no error here, but the daemon's answer to it has been waited for.
                self.record(path).file = None;
            }
            Action::Rename { from, to } => {
                fs::rename(self.path(from), self.path(to))?;
                self.renamed(from, to);
            }
            Action::Exchange { one, other } => {
                let (from, to) = (self.path(one), self.path(other));
                rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?;
                self.exchanged(one, other);
            }
            Action::Link { from, to } => {
                fs::hard_link(self.path(from), self.path(to))?;
                self.names.insert(to.clone(), self.names[from]);
            }
            Action::Symlink { path } => {
                symlink(lane::target(number), self.path(path))?;
                self.names.insert(path.clone(), Entry::Symlink);
            }
            Action::Unlink { path } => {
                fs::remove_file(self.path(path))?;
                self.names.remove(path);
                self.drop_unnamed();
            }
            Action::Mkdir { path } => {
                fs::create_dir(self.path(path))?;
                self.names.insert(path.clone(), Entry::Directory);
            }
            Action::Rmdir { path } => {
                fs::remove_dir(self.path(path))?;
                self.names.remove(path);
            }
            Action::SyncDirectory { path } => File::open(self.path(path))?.sync_all()?,
        }
        Ok(())
    }

    /// Where the lane has no descriptor of the file, it opens one with `O_TRUNC` to cut it to nothing.
    fn set_len(&mut self, name: &str, len: u64) -> Result {
        let (key, path) = (self.key(name), self.path(name));
        let open = self.files.get_mut(&key).expect("every file has its record");
        match &open.file {
            Some(file) => file.set_len(len)?,
            None if len == 0 => {
                open.file = Some(File::options().read(true).write(true).truncate(true).open(path)?);
            }
            None => self.open(name)?.set_len(len)?,
        }
        self.record(name).len = len;
        Ok(())
    }

    fn write(&mut self, number: u64, name: &str, offset: u64, len: u64, wait: Wait) -> Result {
        let bytes = pattern::bytes(number, offset, len as usize);
        let flags = match wait {
            Wait::No => None,
            Wait::Data => Some(OFlags::DSYNC),
            Wait::All => Some(OFlags::SYNC),
        };
        match flags {
            None => self.open(name)?.write_all_at(&bytes, offset)?,
            Some(flags) => OpenOptions::new()
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(self.path(name))?
                .write_all_at(&bytes, offset)?,
        }
        let record = self.record(name);
        record.len = record.len.max(offset + len);
        Ok(())
    }

    /// The length of a file, as far as the lane has made it.
    pub(crate) fn len_of(&self, name: &str) -> u64 {
        self.files[&self.key(name)].len
    }

    fn record(&mut self, name: &str) -> &mut Open {
        let key = self.key(name);
        self.files.get_mut(&key).expect("every file has its record")
    }

    fn renamed(&mut self, from: &str, to: &str) {
        if let Some(Entry::File(_)) = self.names.get(to)
            && self.names.get(from) == self.names.get(to)
        {
            // Two names of one file: nothing has happened.
            return;
        }
        let moved = self.taken(from);
        self.put(to, moved);
        self.drop_unnamed();
    }

    fn exchanged(&mut self, one: &str, other: &str) {
        let (first, second) = (self.taken(one), self.taken(other));
        self.put(other, first);
        self.put(one, second);
    }

    /// Takes an entry out of the names, with all that is below it: what stands behind its name, and the entry.
    fn taken(&mut self, path: &str) -> Vec<(String, Entry)> {
        let below = format!("{path}/");
        let is_it = |name: &&String| *name == path || name.starts_with(&below);
        let moved: Vec<String> = self.names.keys().filter(is_it).cloned().collect();
        let entries = moved.into_iter().map(|name| {
            let entry = self.names.remove(&name).expect("just listed");
            (name[path.len()..].to_owned(), entry)
        });
        entries.collect()
    }

    /// Gives what was [`Writer::taken`] another name.
    fn put(&mut self, path: &str, entries: Vec<(String, Entry)>) {
        self.names.extend(entries.into_iter().map(|(rest, entry)| (format!("{path}{rest}"), entry)));
    }

    /// Closes files that have no name left.
    fn drop_unnamed(&mut self) {
        let names = &self.names;
        self.files.retain(|key, _| names.values().any(|entry| *entry == Entry::File(*key)));
    }
}

/// What a lane does next.
impl Writer<'_> {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A random name of a kind.
    fn pick(&mut self, is_wanted: impl Fn(&Entry) -> bool) -> Option<String> {
        let wanted: Vec<&String> =
            self.names.iter().filter(|(_, entry)| is_wanted(entry)).map(|(name, _)| name).collect();
        let count = wanted.len() as u64;
        (count > 0).then(|| wanted[self.random.below(count) as usize].clone())
    }

    pub(crate) fn pick_file(&mut self) -> Option<String> {
        self.pick(|entry| matches!(entry, Entry::File(_)))
    }

    /// A name that is not taken: in some directory, now and then a long one.
    fn fresh_name(&mut self, letter: char) -> String {
        let directory = match self.below(2) {
            0 => self.pick(|entry| *entry == Entry::Directory).map_or(String::new(), |name| name + "/"),
            _ => String::new(),
        };
        loop {
            let number = self.below(1000);
            let name = match self.below(8) {
                0 => format!("{directory}{letter}{number}-{}", "long".repeat(50)),
                _ => format!("{directory}{letter}{number}"),
            };
            if !self.names.contains_key(&name) {
                return name;
            }
        }
    }

    fn step(&mut self) -> std::result::Result<(), End> {
        self.close_some()?;
        if self.names.len() < 4 {
            return self.create();
        }
        if self.below(100) < self.mix.churn_percent() {
            return self.churn();
        }
        match self.below(100) {
            0..=29 => self.write_somewhere(Wait::No),
            30..=34 => self.write_much(),
            35..=42 => self.append(Wait::No),
            43..=48 => self.append(Wait::Data),
            49..=52 => self.write_somewhere(Wait::All),
            53..=61 => self.on_file(|path| Action::Fsync { path }),
            62..=67 => self.on_file(|path| Action::Fdatasync { path }),
            68..=71 => self.create(),
            72..=77 => self.replace(),
            78..=80 => self.rename(),
            81 => self.exchange(),
            82..=84 => self.remove(),
            85..=89 => self.sync_directory(),
            90..=92 => self.cut(),
            93..=95 => self.punch(),
            96 => self.directories(),
            97 => self.further_names(),
            _ => self.close(),
        }
    }

    fn on_file(&mut self, action: impl Fn(String) -> Action) -> std::result::Result<(), End> {
        match self.pick_file() {
            Some(path) => self.act(action(path)).map(drop),
            None => Ok(()),
        }
    }

    fn write_somewhere(&mut self, wait: Wait) -> std::result::Result<(), End> {
        let Some(path) = self.pick_file() else { return Ok(()) };
        let len = self.record(&path).len;
        let (offset, count) = match self.below(3) {
            // Whole blocks, as the databases write.
            0 => (self.below(len / 4096 + 1) * 4096, 4096 * (1 + self.below(3))),
            _ => (self.below(len + 5000), 1 + self.below(9000)),
        };
        self.act(Action::Write { path, offset, len: count, wait }).map(drop)
    }

    fn write_much(&mut self) -> std::result::Result<(), End> {
        let Some(path) = self.pick_file() else { return Ok(()) };
        let offset = self.below(self.files[&self.key(&path)].len + 1);
        let len = 1 + self.below(400_000);
        self.act(Action::Write { path, offset, len, wait: Wait::No }).map(drop)
    }

    fn append(&mut self, wait: Wait) -> std::result::Result<(), End> {
        let Some(path) = self.pick_file() else { return Ok(()) };
        let offset = self.record(&path).len;
        let len = 1 + self.below(3000);
        self.act(Action::Write { path, offset, len, wait }).map(drop)
    }

    pub(crate) fn create(&mut self) -> std::result::Result<(), End> {
        if self.names.len() >= NAMES_MAX {
            return self.remove();
        }
        let path = self.fresh_name('f');
        self.act(Action::Create { path: path.clone() })?;
        let len = 1 + self.below(20_000);
        self.act(Action::Write { path, offset: 0, len, wait: Wait::No }).map(drop)
    }

    /// What editors do: write aside, perhaps sync, close, rename over, perhaps sync the directory.
    fn replace(&mut self) -> std::result::Result<(), End> {
        let Some(to) = self.pick_file() else { return Ok(()) };
        let from = self.fresh_name('r');
        self.act(Action::Create { path: from.clone() })?;
        let len = 1 + self.below(60_000);
        self.act(Action::Write { path: from.clone(), offset: 0, len, wait: Wait::No })?;
        if self.below(2) == 0 {
            self.act(Action::Fsync { path: from.clone() })?;
        }
        self.act(Action::Close { path: from.clone() })?;
        self.act(Action::Rename { from, to })?;
        if self.below(2) == 0 { self.sync_directory() } else { Ok(()) }
    }

    fn rename(&mut self) -> std::result::Result<(), End> {
        let Some(from) = self.pick(|_| true) else { return Ok(()) };
        let to = loop {
            let to = self.fresh_name('n');
            // A directory does not go below itself.
            if !to.starts_with(&format!("{from}/")) {
                break to;
            }
        };
        self.act(Action::Rename { from, to }).map(drop)
    }

    /// Two entries of whatever kind, of which none is within the other.
    fn exchange(&mut self) -> std::result::Result<(), End> {
        let (Some(one), Some(other)) = (self.pick(|_| true), self.pick(|_| true)) else { return Ok(()) };
        let is_within = |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
        if is_within(&one, &other) || is_within(&other, &one) {
            return Ok(());
        }
        self.act(Action::Exchange { one, other }).map(drop)
    }

    fn remove(&mut self) -> std::result::Result<(), End> {
        let Some(path) = self.pick(|entry| *entry != Entry::Directory) else { return Ok(()) };
        self.act(Action::Unlink { path }).map(drop)
    }

    fn sync_directory(&mut self) -> std::result::Result<(), End> {
        let path = self.pick(|entry| *entry == Entry::Directory).filter(|_| self.next.is_multiple_of(2));
        self.act(Action::SyncDirectory { path: path.unwrap_or_default() }).map(drop)
    }

    fn cut(&mut self) -> std::result::Result<(), End> {
        let Some(path) = self.pick_file() else { return Ok(()) };
        let len = match self.below(3) {
            0 => 0,
            1 => self.below(self.files[&self.key(&path)].len + 1),
            _ => self.below(100_000),
        };
        self.act(Action::SetLen { path, len }).map(drop)
    }

    fn punch(&mut self) -> std::result::Result<(), End> {
        let Some(path) = self.pick_file() else { return Ok(()) };
        let offset = self.below(self.files[&self.key(&path)].len + 1);
        let len = 1 + self.below(20_000);
        self.act(Action::Punch { path, offset, len }).map(drop)
    }

    fn directories(&mut self) -> std::result::Result<(), End> {
        let empty = self.names.iter().find(|(name, entry)| {
            let below = format!("{name}/");
            **entry == Entry::Directory && !self.names.keys().any(|other| other.starts_with(&below))
        });
        let empty = empty.map(|(name, _)| name.clone());
        let count = self.names.values().filter(|entry| **entry == Entry::Directory).count();
        match empty {
            Some(path) if count > 1 => self.act(Action::Rmdir { path }).map(drop),
            _ if count < 3 => {
                let path = self.fresh_name('d');
                self.act(Action::Mkdir { path }).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn further_names(&mut self) -> std::result::Result<(), End> {
        if self.names.len() >= NAMES_MAX {
            return self.remove();
        }
        if self.below(2) == 0 {
            let path = self.fresh_name('s');
            return self.act(Action::Symlink { path }).map(drop);
        }
        let Some(from) = self.pick_file() else { return Ok(()) };
        let to = self.fresh_name('l');
        self.act(Action::Link { from, to }).map(drop)
    }

    fn close(&mut self) -> std::result::Result<(), End> {
        let files = &self.files;
        let is_open = |entry: &Entry| matches!(entry, Entry::File(key) if files[key].file.is_some());
        let open = self.names.iter().filter(|(_, entry)| is_open(entry)).map(|(name, _)| name.clone());
        match open.min_by_key(|name| name.len()) {
            Some(path) => self.act(Action::Close { path }).map(drop),
            None => Ok(()),
        }
    }

    /// Keeps files short and descriptors few.
    fn close_some(&mut self) -> std::result::Result<(), End> {
        let long = self.names.iter().find_map(|(name, entry)| match entry {
            Entry::File(key) if self.files[key].len > LEN_MAX => Some(name.clone()),
            _ => None,
        });
        if let Some(path) = long {
            let len = self.below(LEN_MAX / 8);
            self.act(Action::SetLen { path, len })?;
        }
        if self.files.values().filter(|open| open.file.is_some()).count() > OPEN_MAX {
            self.close()?;
        }
        Ok(())
    }
}

/// Makes the lanes' directories.
pub fn prepare(plain: &Path, lanes: u64) -> Result {
    for lane in 0..lanes {
        let directory = lane_directory(plain, lane);
        fs::create_dir(&directory).context(directory.display())?;
    }
    File::open(plain)?.sync_all()?;
    ensure!(lanes < 256, "lanes are numbered with 8 bits");
    Ok(())
}
