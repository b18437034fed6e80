//! The pieces of work, on both sides of the crossover, in calls around the page cache.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use strongroom_harness::failure::{Context, Result};
use strongroom_harness::random::Random;

const KIB: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Work {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    /// What `--engine` is told.
    pub(super) engine: &'static str,
    writes: bool,
    /// Bytes of a call.
    call: usize,
    /// At random places, or one call after the other.
    random: bool,
    threads: usize,
}

pub(super) const WORK: [Work; 4] = [
    Work {
        key: "random_read_4k",
        title: "random reads, 4 KiB, 1 thread; moderate device",
        engine: "sim-moderate",
        writes: false,
        call: 4 * KIB,
        random: true,
        threads: 1,
    },
    Work {
        key: "write_1m",
        title: "sequential writes, 1 MiB calls; moderate device",
        engine: "sim-moderate",
        writes: true,
        call: 1024 * KIB,
        random: false,
        threads: 1,
    },
    Work {
        key: "random_read_128k",
        title: "random reads, 128 KiB, 4 threads; moderate device",
        engine: "sim-moderate",
        writes: false,
        call: 128 * KIB,
        random: true,
        threads: 4,
    },
    Work {
        key: "write_1m_slow",
        title: "sequential writes, 1 MiB calls; slow device",
        engine: "sim-slow",
        writes: true,
        call: 1024 * KIB,
        random: false,
        threads: 1,
    },
];

impl Work {
    /// Makes a file of `bytes` for each thread.
    pub(super) fn prepare(&self, directory: &Path, bytes: usize) -> Result {
        for thread in 0..self.threads {
            let mut contents = vec![0; bytes];
            Random::new(thread as u64).fill(&mut contents);
            fs::write(file_of(directory, thread), &contents)?;
            File::open(file_of(directory, thread))?.sync_all()?;
        }
        Ok(())
    }
}

/// The threads of a piece of work, which live as long as its mount: which CPUs they and the daemon's threads
/// come to run on makes more of a difference than the policies do, and would be drawn anew with new threads.
pub(super) struct Pool(Vec<Member>);

struct Member {
    /// Until when there is work; without a sender the thread ends.
    asks: Option<Sender<Instant>>,
    answers: Receiver<Result<usize>>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn new(work: &'static Work, directory: &Path) -> Result<Self> {
        let member = |thread| {
            let path = file_of(directory, thread);
            let mut caller = Caller::new(work, &path, thread as u64).context(path.display())?;
            let (asks, asked) = mpsc::channel();
            let (answer, answers) = mpsc::channel();
            let thread = thread::spawn(move || {
                for until in asked {
                    // Who asked waits for the answer.
                    let _ = answer.send(caller.calls(until));
                }
            });
            Ok(Member { asks: Some(asks), answers, thread: Some(thread) })
        };
        (0..work.threads).map(member).collect::<Result<_>>().map(Self)
    }

    /// Does the work for so long; bytes a second.
    pub(super) fn run(&self, time: Duration) -> Result<f64> {
        let began = Instant::now();
        for member in &self.0 {
            let asks = member.asks.as_ref().expect("there is a sender until the end");
            asks.send(began + time).expect("a member waits for work");
        }
        let bytes = self.0.iter().map(|member| member.answers.recv().expect("a member answers"));
        let bytes = bytes.sum::<Result<usize>>()?;
        Ok(bytes as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Pool {
    /// Waits until every file is closed, so that the mount can end.
    fn drop(&mut self) {
        for member in &mut self.0 {
            drop(member.asks.take());
            if member.thread.take().is_some_and(|thread| thread.join().is_err()) {
                eprintln!("a thread of the work has panicked");
            }
        }
    }
}

/// One thread's file, and where it is in it.
struct Caller {
    work: &'static Work,
    file: File,
    places: usize,
    random: Random,
    piece: Vec<u8>,
    calls: usize,
}

impl Caller {
    fn new(work: &'static Work, path: &Path, seed: u64) -> Result<Self> {
        let mut options = File::options();
        options.read(!work.writes).write(work.writes).custom_flags(OFlags::DIRECT.bits() as i32);
        let file = options.open(path)?;
        let places = file.metadata()?.len() as usize / work.call;
        Ok(Self { work, file, places, random: Random::new(seed), piece: vec![0x5a; work.call], calls: 0 })
    }

    /// Calls until a moment; bytes that were moved.
    fn calls(&mut self, until: Instant) -> Result<usize> {
        let before = self.calls;
        while Instant::now() < until {
            let place = match self.work.random {
                true => self.random.below(self.places as u64) as usize,
                false => self.calls % self.places,
            };
            let offset = (place * self.work.call) as u64;
            match self.work.writes {
                true => self.file.write_all_at(&self.piece, offset)?,
                false => self.file.read_exact_at(&mut self.piece, offset)?,
            }
            self.calls += 1;
        }
        Ok((self.calls - before) * self.work.call)
    }
}

fn file_of(directory: &Path, thread: usize) -> PathBuf {
    directory.join(format!("file-{thread}"))
}
