//! Timed reads and writes of large files by plain system calls.
//!
//! Every 4 KiB are stamped with their place and checked when they are read, so that a fast wrong answer does
//! not count. The files are four; one job goes through all of them in turn, four jobs take one each. A cell
//! makes passes until its time is used up; only a cold read has a single pass.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::rows::{Action, Data, Order};
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;

/// How many files.
pub(super) const FILES: usize = 4;
/// Stamps stand at every multiple of this.
const BLOCK: usize = 4096;

/// Bytes between places that are far apart.
const APART: u64 = 64 << 10;

/// What a cell came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(super) seconds: f64,
    /// Bytes read and written.
    pub(crate) bytes: u64,
    /// Operations, in the unit of the row: calls, files or flow operations.
    pub(super) operations: u64,
}

fn file(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("data-{index}"))
}

/// Writes the files that are read and overwritten, `each` bytes long.
pub(super) fn prepare(directory: &Path, each: u64) -> Result {
    fs::create_dir_all(directory).context(directory.display())?;
    let plan = Plan { directory, each, order: Order::Sequential, call: 1 << 20, budget: Duration::MAX };
    plan.on_files(1, |plan, files| plan.write(files, true, Instant::now()))?;
    Ok(())
}

/// Runs a data row once, for about `budget`. Cold and warm are the caller's matter.
pub(super) fn run(directory: &Path, each: u64, data: Data, budget: Duration, seed: u64) -> Result<Sample> {
    let cold = data.action == Action::ReadCold;
    let new = directory.join("new");
    let mut total = Sample::default();
    let mut pass = 0;
    while pass == 0 || (!cold && total.seconds < budget.as_secs_f64()) {
        let left = budget.saturating_sub(Duration::from_secs_f64(total.seconds));
        let plan = Plan { directory, each, order: data.order, call: data.call, budget: left };
        let sample = match data.action {
            Action::Write => {
                fs::create_dir(&new).context(new.display())?;
                let plan = Plan { directory: &new, ..plan };
                let sample = plan.on_files(data.jobs, |plan, files| plan.write(files, true, Instant::now()));
                fs::remove_dir_all(&new).context(new.display())?;
                sample?
            }
            Action::Overwrite => plan.on_files(data.jobs, |plan, files| match plan.order {
                Order::Sequential => plan.write(files, false, Instant::now()),
                Order::Random | Order::Sparse => plan.write_random(files, seed + pass),
            })?,
            Action::ReadCold | Action::ReadWarm => {
                plan.on_files(data.jobs, |plan, files| match plan.order {
                    Order::Sequential => plan.read(files),
                    Order::Random | Order::Sparse => plan.read_random(files, seed + pass),
                })?
            }
        };
        total.seconds += sample.seconds;
        total.bytes += sample.bytes;
        pass += 1;
    }
    total.operations = total.bytes / data.call as u64;
    Ok(total)
}

/// Reads everything once, so that what fits is cached.
pub(super) fn warm(directory: &Path, each: u64) -> Result {
    let plan = Plan { directory, each, order: Order::Sequential, call: 1 << 20, budget: Duration::MAX };
    plan.on_files(1, |plan, files| plan.read(files)).map(drop)
}

struct Plan<'a> {
    directory: &'a Path,
    each: u64,
    order: Order,
    call: usize,
    budget: Duration,
}

impl Plan<'_> {
    /// Runs `work` in `jobs` threads, which begin together; the time ends with the last.
    fn on_files(&self, jobs: usize, work: impl Fn(&Self, &[usize]) -> Result<u64> + Sync) -> Result<Sample> {
        let all: Vec<usize> = (0..FILES).collect();
        let barrier = Barrier::new(jobs + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = all
                .chunks(FILES / jobs)
                .map(|files| {
                    let (barrier, work) = (&barrier, &work);
                    scope.spawn(move || {
                        barrier.wait();
                        work(self, files)
                    })
                })
                .collect();
            barrier.wait();
            let began = Instant::now();
            let results: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("a job does not panic")).collect();
            let seconds = began.elapsed().as_secs_f64();
            let bytes = results.into_iter().sum::<Result<u64>>()?;
            Ok(Sample { seconds, bytes, operations: 0 })
        })
    }

    /// From front to back; open, writes, fsync and close are timed.
    fn write(&self, files: &[usize], create: bool, began: Instant) -> Result<u64> {
        let mut piece = vec![0; self.call];
        Random::new(files[0] as u64).fill(&mut piece);
        let mut bytes = 0;
        for &index in files {
            let path = file(self.directory, index);
            let file = match create {
                true => File::create_new(&path),
                false => File::options().write(true).open(&path),
            }
            .context(path.display())?;
            let mut offset = 0;
            while offset < self.each && began.elapsed() < self.budget {
                stamp(&mut piece, index, offset);
                file.write_all_at(&piece, offset)?;
                offset += self.call as u64;
            }
            file.sync_all()?;
            bytes += offset;
        }
        Ok(bytes)
    }

    fn write_random(&self, files: &[usize], seed: u64) -> Result<u64> {
        let began = Instant::now();
        let mut piece = vec![0; self.call];
        Random::new(seed).fill(&mut piece);
        let opened = self.open(files, true)?;
        let mut bytes = 0;
        for (at, offset) in self.shuffled(files.len(), seed) {
            if began.elapsed() >= self.budget {
                break;
            }
            stamp(&mut piece, files[at], offset);
            opened[at].write_all_at(&piece, offset)?;
            bytes += self.call as u64;
        }
        for file in opened {
            file.sync_all()?;
        }
        Ok(bytes)
    }

    fn read(&self, files: &[usize]) -> Result<u64> {
        let began = Instant::now();
        let mut piece = vec![0; self.call];
        let mut bytes = 0;
        for (at, file) in self.open(files, false)?.iter().enumerate() {
            let mut offset = 0;
            while offset < self.each && began.elapsed() < self.budget {
                file.read_exact_at(&mut piece, offset)?;
                check(&piece, files[at], offset)?;
                offset += self.call as u64;
            }
            bytes += offset;
        }
        Ok(bytes)
    }

    fn read_random(&self, files: &[usize], seed: u64) -> Result<u64> {
        let began = Instant::now();
        let mut piece = vec![0; self.call];
        let opened = self.open(files, false)?;
        let mut bytes = 0;
        for (at, offset) in self.shuffled(files.len(), seed) {
            if began.elapsed() >= self.budget {
                break;
            }
            opened[at].read_exact_at(&mut piece, offset)?;
            check(&piece, files[at], offset)?;
            bytes += self.call as u64;
        }
        Ok(bytes)
    }

    fn open(&self, files: &[usize], write: bool) -> Result<Vec<File>> {
        let open = |index: &usize| {
            let path = file(self.directory, *index);
            File::options().read(!write).write(write).open(&path).context(path.display())
        };
        files.iter().map(open).collect()
    }

    /// Every call of so many files, each once, in random order: no place is met twice, so that a cold read
    /// stays one. If sparse, one call for each [`APART`] bytes.
    fn shuffled(&self, files: usize, seed: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let step = if self.order == Order::Sparse { APART } else { self.call as u64 };
        let per_file = self.each / step;
        let mut places: Vec<u32> = (0..(files as u64 * per_file) as u32).collect();
        let mut random = Random::new(seed);
        for index in (1..places.len()).rev() {
            places.swap(index, random.below(index as u64 + 1) as usize);
        }
        places.into_iter().map(move |place| {
            let place = u64::from(place);
            ((place / per_file) as usize, place % per_file * step)
        })
    }
}

fn stamp_at(index: usize, offset: u64) -> [u8; 8] {
    ((index as u64) << 56 | offset).to_le_bytes()
}

fn stamp(piece: &mut [u8], index: usize, offset: u64) {
    for (number, block) in piece.chunks_exact_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&stamp_at(index, offset + (number * BLOCK) as u64));
    }
}

fn check(piece: &[u8], index: usize, offset: u64) -> Result {
    for (number, block) in piece.chunks_exact(BLOCK).enumerate() {
        let place = offset + (number * BLOCK) as u64;
        ensure!(block[..8] == stamp_at(index, place), "wrong contents of file {index} at {place}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: u64 = 64 * BLOCK as u64;

    fn row(action: Action, order: Order, jobs: usize) -> Data {
        Data { action, order, call: 4 * BLOCK, jobs }
    }

    #[test]
    fn every_action_moves_what_it_says() -> Result {
        let directory = tempfile::tempdir()?;
        prepare(directory.path(), EACH)?;
        for order in [Order::Sequential, Order::Random, Order::Sparse] {
            for jobs in [1, 4] {
                for action in [Action::Write, Action::Overwrite, Action::ReadCold, Action::ReadWarm] {
                    let second = Duration::from_millis(20);
                    let sample = run(directory.path(), EACH, row(action, order, jobs), second, 1)?;
                    assert!(sample.seconds > 0.0);
                    assert!(sample.bytes >= 4 * BLOCK as u64);
                    assert_eq!(sample.operations * 4 * BLOCK as u64, sample.bytes);
                    assert!(!directory.path().join("new").exists());
                }
            }
        }
        warm(directory.path(), EACH)
    }

    #[test]
    fn a_block_in_the_wrong_place_is_noticed() -> Result {
        let directory = tempfile::tempdir()?;
        prepare(directory.path(), EACH)?;
        let mut block = vec![0; BLOCK];
        File::open(file(directory.path(), 1))?.read_exact_at(&mut block, 0)?;
        File::options().write(true).open(file(directory.path(), 2))?.write_all_at(&block, 0)?;
        assert!(warm(directory.path(), EACH).is_err());
        let random = row(Action::ReadCold, Order::Random, 4);
        assert!(run(directory.path(), EACH, random, Duration::from_secs(5), 1).is_err());
        Ok(())
    }

    #[test]
    fn random_places_are_all_places_once() {
        let directory = PathBuf::new();
        let plan = Plan {
            directory: &directory,
            each: EACH,
            order: Order::Random,
            call: BLOCK,
            budget: Duration::ZERO,
        };
        let mut places: Vec<_> = plan.shuffled(2, 3).collect();
        assert_ne!(places[..8], (0..8).map(|i| (0, i * BLOCK as u64)).collect::<Vec<_>>()[..]);
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 128);
    }
}
