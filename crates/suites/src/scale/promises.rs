//! Writers, and what they were promised: which bytes a block may hold after whatever has happened.
//!
//! A writer makes files of whole blocks and overwrites some, and syncs after each change. A sync that returns
//! makes what was just written the only thing that may stand there; one that fails leaves both, the old and the
//! new. After an error the writer goes on: callers get errors while a store is gone, and work when it is back. A file
//! that could not be made is made again before anything else, since of what was written of it some may be lost.
//!
//! Writers are a process of their own, which may hang in a mount that does not answer, and say what they do line by
//! line ([`Said`]).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;

const BLOCK: usize = 4096;
const WRITERS: u64 = 3;
/// Files that a writer makes at most, as a rule.
const FILES_MAX: usize = 10;
/// Blocks of a file as a rule, and of one in eight.
const SMALL_MAX: u64 = 40;
const LARGE_MAX: u64 = 700;
/// Numbers of one process of writers.
const NUMBERS: u64 = 1 << 20;
/// What is waited after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// How long writers may take to end what they are doing.
const END_LIMIT: Duration = Duration::from_secs(10 * 60);

/// What a process of writers is told.
#[derive(Args, Clone, Debug)]
pub struct WriterArgs {
    /// Where they write
    #[arg(long)]
    directory: PathBuf,
    /// The first number of a file and of a version that is theirs
    #[arg(long)]
    first: u64,
    #[arg(long)]
    seed: u64,
    /// What each waits between two changes, in milliseconds
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// How many files each makes at most
    #[arg(long, default_value_t = FILES_MAX)]
    files: usize,
}

/// A line of what a writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// A file of so many blocks is going to be made.
    Makes { file: u64, blocks: u64, version: u64 },
    /// It has been made, and synced.
    Made { file: u64 },
    /// Blocks are going to be overwritten.
    Writes { file: u64, first: u64, count: u64, version: u64 },
    /// They have been, and that was synced.
    Written { file: u64, first: u64, count: u64, version: u64 },
    /// What was begun last has failed.
    Failed,
}

impl Said {
    fn line(self) -> String {
        match self {
            Said::Makes { file, blocks, version } => format!("makes {file} {blocks} {version}"),
            Said::Made { file } => format!("made {file}"),
            Said::Writes { file, first, count, version } => {
                format!("writes {file} {first} {count} {version}")
            }
            Said::Written { file, first, count, version } => {
                format!("written {file} {first} {count} {version}")
            }
            Said::Failed => "failed".to_owned(),
        }
    }

    fn of(line: &str) -> Option<Said> {
        let mut words = line.split(' ');
        let what = words.next()?;
        let numbers: Vec<u64> = words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        Some(match (what, &numbers[..]) {
            ("makes", &[file, blocks, version]) => Said::Makes { file, blocks, version },
            ("made", &[file]) => Said::Made { file },
            ("writes", &[file, first, count, version]) => Said::Writes { file, first, count, version },
            ("written", &[file, first, count, version]) => Said::Written { file, first, count, version },
            ("failed", []) => Said::Failed,
            _ => return None,
        })
    }
}

/// A file's name.
fn name(file: u64) -> String {
    format!("file-{file}")
}

/// The bytes of a version of a block.
fn bytes(file: u64, block: u64, version: u64) -> Vec<u8> {
    let mut filled = vec![0; BLOCK];
    Random::new(file.wrapping_mul(0x1_0000_0001) ^ block << 40 ^ version).fill(&mut filled);
    filled
}

/// Writes until standard input ends.
pub fn write(arguments: &WriterArgs) -> Result {
    let stop = Arc::new(AtomicBool::new(false));
    let versions = Arc::new(AtomicU64::new(arguments.first));
    let threads = (0..WRITERS).map(|writer| {
        let (stop, versions, arguments) = (Arc::clone(&stop), Arc::clone(&versions), arguments.clone());
        thread::spawn(move || {
            let mut writer = Writer {
                random: Random::new(arguments.seed * 1000 + writer),
                directory: arguments.directory.clone(),
                files_max: arguments.files,
                next: arguments.first + writer,
                files: Vec::new(),
                unmade: None,
                versions,
            };
            let mut has_failed = false;
            while !stop.load(Ordering::Acquire) {
                has_failed = writer.step(has_failed).is_err();
                if has_failed {
                    println!("{}", Said::Failed.line());
                    thread::sleep(PAUSE);
                }
                thread::sleep(Duration::from_millis(arguments.pause));
            }
        })
    });
    let threads: Vec<JoinHandle<()>> = threads.collect();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    stop.store(true, Ordering::Release);
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Failure::new("a writer panicked")))
}

struct Writer {
    directory: PathBuf,
    random: Random,
    next: u64,
    files_max: usize,
    /// Files that were made, and their blocks.
    files: Vec<(u64, u64)>,
    /// One that could not be made.
    unmade: Option<(u64, u64)>,
    versions: Arc<AtomicU64>,
}

impl Writer {
    /// Makes a file or overwrites one; after an error no new one, until it works again.
    fn step(&mut self, has_failed: bool) -> io::Result<()> {
        let is_few = self.files.len() < 2 || self.unmade.is_some();
        let is_full = self.files.len() >= self.files_max;
        match is_few || (!has_failed && !is_full && self.random.below(4) == 0) {
            true => self.make(),
            false => self.overwrite(),
        }
    }

    fn make(&mut self) -> io::Result<()> {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let (file, blocks) = self.unmade.unwrap_or_else(|| self.planned());
        self.unmade = Some((file, blocks));
        println!("{}", Said::Makes { file, blocks, version }.line());
        let content: Vec<u8> = (0..blocks).flat_map(|block| bytes(file, block, version)).collect();
        let made = File::create(self.directory.join(name(file)))?;
        made.write_all_at(&content, 0)?;
        made.sync_all()?;
        println!("{}", Said::Made { file }.line());
        self.files.extend(self.unmade.take());
        Ok(())
    }

    /// The next file, and how many blocks it has.
    fn planned(&mut self) -> (u64, u64) {
        let most = if self.random.below(8) == 0 { LARGE_MAX } else { SMALL_MAX };
        let planned = (self.next, 1 + self.random.below(most));
        self.next += WRITERS;
        planned
    }

    fn overwrite(&mut self) -> io::Result<()> {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let (file, blocks) = self.files[self.random.below(self.files.len() as u64) as usize];
        let first = self.random.below(blocks);
        let count = (1 + self.random.below(6)).min(blocks - first);
        println!("{}", Said::Writes { file, first, count, version }.line());
        let content: Vec<u8> = (first..first + count).flat_map(|block| bytes(file, block, version)).collect();
        let opened = File::options().write(true).open(self.directory.join(name(file)))?;
        opened.write_all_at(&content, first * BLOCK as u64)?;
        match self.random.below(2) {
            0 => opened.sync_all()?,
            _ => opened.sync_data()?,
        }
        println!("{}", Said::Written { file, first, count, version }.line());
        Ok(())
    }
}

/// A file, and which versions each of its blocks may hold.
#[derive(Clone, Debug)]
struct Promised {
    number: u64,
    /// Its making was synced.
    is_there: bool,
    blocks: Vec<Vec<u64>>,
}

/// All files of all writers.
#[derive(Default)]
pub(crate) struct Promises {
    files: Mutex<Vec<Promised>>,
    /// Syncs that returned.
    kept: AtomicU64,
    /// Calls that failed.
    failed: AtomicU64,
    processes: AtomicU64,
}

/// Writers at work; they end with this.
pub(crate) struct Writers {
    promises: Arc<Promises>,
    child: Child,
    listening: Option<JoinHandle<Result>>,
}

impl Promises {
    fn lock(&self) -> MutexGuard<'_, Vec<Promised>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets writers work below `directory`.
    pub(crate) fn work(self: &Arc<Self>, directory: &Path, seed: u64) -> Result<Writers> {
        self.begin(directory, seed, &[])
    }

    /// The same, with a pause between two changes.
    pub(crate) fn work_slowly(
        self: &Arc<Self>,
        directory: &Path,
        seed: u64,
        pause: Duration,
    ) -> Result<Writers> {
        self.begin(directory, seed, &["--pause", &pause.as_millis().to_string()])
    }

    /// The same, without a pause and with so many files of each.
    pub(crate) fn work_on_many(
        self: &Arc<Self>,
        directory: &Path,
        seed: u64,
        files: usize,
    ) -> Result<Writers> {
        self.begin(directory, seed, &["--files", &files.to_string()])
    }

    fn begin(self: &Arc<Self>, directory: &Path, seed: u64, options: &[&str]) -> Result<Writers> {
        let first = self.processes.fetch_add(1, Ordering::Relaxed) * NUMBERS + 1;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("scale-writer").arg("--directory").arg(directory);
        command.args(["--first", &first.to_string(), "--seed", &seed.to_string()]);
        command.args(options);
        let mut child = command::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let promises = Arc::clone(self);
        let listening = thread::spawn(move || {
            for line in lines {
                let line = line?;
                let said = Said::of(&line).ok_or_else(|| Failure::new(format!("a writer said `{line}`")))?;
                promises.hear(said);
            }
            Ok(())
        });
        Ok(Writers { promises: Arc::clone(self), child, listening: Some(listening) })
    }

    fn hear(&self, said: Said) {
        fn of(files: &mut [Promised], number: u64) -> &mut Promised {
            files.iter_mut().find(|file| file.number == number).expect("its making was said first")
        }
        let mut files = self.lock();
        match said {
            Said::Makes { file, blocks, version } => {
                if files.iter().all(|known| known.number != file) {
                    let blocks = vec![Vec::new(); blocks as usize];
                    files.push(Promised { number: file, is_there: false, blocks });
                }
                of(&mut files, file).blocks.iter_mut().for_each(|block| block.push(version));
            }
            Said::Made { file } => {
                let made = of(&mut files, file);
                made.is_there = true;
                made.blocks.iter_mut().for_each(|block| *block = block.split_off(block.len() - 1));
            }
            Said::Writes { file, first, count, version } => {
                let blocks = &mut of(&mut files, file).blocks[first as usize..(first + count) as usize];
                blocks.iter_mut().for_each(|block| block.push(version));
            }
            Said::Written { file, first, count, version } => {
                let blocks = &mut of(&mut files, file).blocks[first as usize..(first + count) as usize];
                blocks.iter_mut().for_each(|block| *block = vec![version]);
            }
            Said::Failed => {}
        }
        drop(files);
        match said {
            Said::Made { .. } | Said::Written { .. } => self.kept.fetch_add(1, Ordering::Relaxed),
            Said::Failed => self.failed.fetch_add(1, Ordering::Relaxed),
            Said::Makes { .. } | Said::Writes { .. } => 0,
        };
    }

    /// Syncs that returned.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Calls that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits until something more is synced.
    ///
    /// # Errors
    /// Nothing was within `limit`.
    pub(crate) fn wait_for_more(&self, limit: Duration) -> Result<Duration> {
        let (began, before) = (Instant::now(), self.kept());
        while self.kept() <= before + WRITERS {
            ensure!(began.elapsed() < limit, "nothing was synced within {} s", limit.as_secs());
            thread::sleep(PAUSE);
        }
        Ok(began.elapsed())
    }

    /// Compares all files with what is there; tells how many.
    ///
    /// # Errors
    /// The first that is not as it was promised.
    pub(crate) fn verify(&self, directory: &Path) -> Result<usize> {
        let files = self.lock().clone();
        for promised in &files {
            compare(promised, directory)?;
        }
        Ok(files.len())
    }

    /// The same for a reader beside the writers: what may stand there was noted before the reading and behind it.
    /// Tells what was read, or why something was not.
    pub(crate) fn look(&self, directory: &Path, random: &mut Random) -> Result<Look> {
        let chosen = {
            let files = self.lock();
            let there: Vec<&Promised> = files.iter().filter(|file| file.is_there).collect();
            match there.len() {
                0 => return Ok(Look::Nothing),
                count => there[random.below(count as u64) as usize].clone(),
            }
        };
        let read = match fs::read(directory.join(name(chosen.number))) {
            Ok(read) => read,
            Err(error) => return Ok(Look::Refused(format!("{}: {error}", name(chosen.number)))),
        };
        let behind = self.lock().iter().find(|file| file.number == chosen.number).cloned();
        let behind = behind.expect("files stay");
        ensure!(
            read.len() == chosen.blocks.len() * BLOCK,
            "{} has {} bytes",
            name(chosen.number),
            read.len()
        );
        // A version that came and went in between is one of those between the two.
        for (index, found) in read.chunks(BLOCK).enumerate() {
            let (least, most) = (chosen.blocks[index].iter().min(), behind.blocks[index].iter().max());
            let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
            let is = |version: &u64| bytes(chosen.number, index as u64, *version) == found;
            let noted = chosen.blocks[index].iter().chain(&behind.blocks[index]);
            let is_known = noted.clone().any(is) || (least..=most).any(|version| is(&version));
            ensure!(is_known, "block {index} of {} is none that may be there", name(chosen.number));
        }
        Ok(Look::Fitted)
    }
}

/// What came of a look.
pub(crate) enum Look {
    Nothing,
    Fitted,
    Refused(String),
}

fn compare(promised: &Promised, directory: &Path) -> Result {
    let path = directory.join(name(promised.number));
    let read = match fs::read(&path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !promised.is_there => return Ok(()),
        Err(error) => return Err(Failure::new(error.to_string())).context(path.display()),
    };
    let whole = promised.blocks.len() * BLOCK;
    ensure!(
        read.len() == whole || (!promised.is_there && read.len() < whole),
        "{} has {} bytes and not {whole}",
        path.display(),
        read.len()
    );
    for (index, found) in read.chunks(BLOCK).enumerate() {
        let is = |version: &u64| bytes(promised.number, index as u64, *version)[..found.len()] == *found;
        let is_unwritten = !promised.is_there && found.iter().all(|byte| *byte == 0);
        ensure!(
            is_unwritten || promised.blocks[index].iter().any(is),
            "block {index} of {} is none of {:?}, which were promised",
            path.display(),
            promised.blocks[index]
        );
    }
    Ok(())
}

impl Writers {
    /// Lets them end what they are doing, and waits for that.
    ///
    /// # Errors
    /// They hang.
    pub(crate) fn end(mut self) -> Result {
        drop(self.child.stdin.take());
        let status = command::wait(&mut self.child, END_LIMIT).context("the writers")?;
        ensure!(status.success(), "the writers ended with {status}");
        let listening = self.listening.take().expect("somebody listens until they end");
        listening.join().map_err(|_| Failure::new("listening to writers panicked"))?
    }

    /// Waits until so many syncs have returned since they began.
    pub(crate) fn wait_for(&self, syncs: u64, limit: Duration) -> Result {
        let (began, before) = (Instant::now(), self.promises.kept());
        while self.promises.kept() < before + syncs {
            ensure!(began.elapsed() < limit, "only {} syncs returned", self.promises.kept() - before);
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            command::end(&mut self.child);
        }
    }
}

/// Where the writers' files are, below a mount.
pub(crate) fn directory(mount: &Path) -> Result<PathBuf> {
    let directory = mount.join("writers");
    fs::create_dir(&directory).context(directory.display())?;
    File::open(mount)?.sync_all()?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of three blocks, the second of which was overwritten, perhaps.
    fn promised() -> (tempfile::TempDir, Promises, Vec<u8>) {
        let promises = Promises::default();
        promises.hear(Said::Makes { file: 7, blocks: 3, version: 1 });
        promises.hear(Said::Made { file: 7 });
        promises.hear(Said::Writes { file: 7, first: 1, count: 1, version: 2 });
        let whole = (0..3).flat_map(|block| bytes(7, block, 1)).collect();
        (tempfile::tempdir().expect("a directory"), promises, whole)
    }

    #[test]
    fn a_file_that_is_made_again_is_what_it_was_made_last() {
        let (base, promises) = (tempfile::tempdir().expect("a directory"), Promises::default());
        promises.hear(Said::Makes { file: 7, blocks: 1, version: 1 });
        promises.hear(Said::Failed);
        promises.hear(Said::Makes { file: 7, blocks: 1, version: 2 });
        let holds = |version: u64| {
            fs::write(base.path().join(name(7)), bytes(7, 0, version)).expect("written");
            promises.verify(base.path()).is_ok()
        };
        assert_eq!([1, 2, 3].map(holds), [true, true, false]);
        promises.hear(Said::Made { file: 7 });
        assert_eq!([1, 2, 3].map(holds), [false, true, false]);
    }

    #[test]
    fn both_versions_of_what_was_not_acknowledged_are_as_promised_and_no_other() {
        let (base, promises, mut whole) = promised();
        let holds = |whole: &[u8]| {
            fs::write(base.path().join(name(7)), whole).expect("written");
            promises.verify(base.path()).is_ok()
        };
        assert!(holds(&whole));
        assert!(!holds(&whole[..whole.len() - 1]));
        whole[BLOCK..2 * BLOCK].copy_from_slice(&bytes(7, 1, 2));
        assert!(holds(&whole));
        promises.hear(Said::Written { file: 7, first: 1, count: 1, version: 2 });
        assert!(holds(&whole));
        whole[BLOCK..2 * BLOCK].copy_from_slice(&bytes(7, 1, 1));
        assert!(!holds(&whole), "older than what was acknowledged");
        whole[BLOCK..2 * BLOCK].copy_from_slice(&bytes(7, 1, 2));
        whole[0] ^= 1;
        assert!(!holds(&whole));
        fs::remove_file(base.path().join(name(7))).expect("removed");
        assert!(promises.verify(base.path()).is_err());
        assert_eq!((promises.kept(), promises.failed()), (2, 0));
    }

    #[test]
    fn a_file_that_was_not_acknowledged_may_be_missing_or_a_part() {
        let (base, promises) = (tempfile::tempdir().expect("a directory"), Promises::default());
        promises.hear(Said::Makes { file: 9, blocks: 2, version: 1 });
        assert!(promises.verify(base.path()).is_ok());
        fs::write(base.path().join(name(9)), bytes(9, 0, 1)).expect("written");
        assert!(promises.verify(base.path()).is_ok());
        fs::write(base.path().join(name(9)), bytes(9, 0, 2)).expect("written");
        assert!(promises.verify(base.path()).is_err());
    }

    #[test]
    fn what_is_said_is_heard() {
        let all = [
            Said::Makes { file: 1, blocks: 2, version: 3 },
            Said::Made { file: 1 },
            Said::Writes { file: 1, first: 0, count: 2, version: 4 },
            Said::Written { file: 1, first: 0, count: 2, version: 4 },
            Said::Failed,
        ];
        assert!(all.iter().all(|said| Said::of(&said.line()) == Some(*said)));
        assert_eq!(Said::of("made"), None);
    }
}
