//! Mixes of operations with the parameters of filebench's `fileserver` and `webserver` profiles.
//!
//! From the profiles: directories of 20, lengths gamma-distributed (shape 1.5) around the mean, reads and
//! writes in calls of 1 MiB, appends of 16 KiB in the mean; `fileserver` has files of 128 KiB, four fifths of
//! them there at the start, and in turn creates and writes one, appends to one, reads one whole, deletes one
//! and stats one; `webserver` has files of 16 KiB, reads ten whole and appends to a log. Smaller than there:
//! 1,000 files (10,000 in `fileserver`) and 1 or 4 threads (50 and 100), so that a cell takes seconds.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::data::Sample;
use crate::folder::rows::Mix;
use strongroom_harness::failure::{Context, Failure, Result};
use strongroom_harness::random::Random;

const FILES: u32 = 1000;
const DIRECTORY_WIDTH: u32 = 20;
const GAMMA_SHAPE: f64 = 1.5;
const CALL: usize = 1 << 20;
const APPEND_MEAN: f64 = 16.0 * 1024.0;

fn mean_length(mix: Mix) -> f64 {
    match mix {
        Mix::Fileserver => 128.0 * 1024.0,
        Mix::Webserver => 16.0 * 1024.0,
    }
}

/// Files that exist and files that do not. Whoever works on one takes it out.
struct Pool {
    present: Mutex<Vec<u32>>,
    absent: Mutex<Vec<u32>>,
}

fn take(from: &Mutex<Vec<u32>>, random: &mut Random) -> Option<u32> {
    let mut files = from.lock().unwrap_or_else(PoisonError::into_inner);
    let count = files.len() as u64;
    (count > 0).then(|| files.swap_remove(random.below(count) as usize))
}

fn put(to: &Mutex<Vec<u32>>, file: u32) {
    to.lock().unwrap_or_else(PoisonError::into_inner).push(file);
}

struct Server<'a> {
    directory: &'a Path,
    mix: Mix,
    pool: Pool,
    contents: Vec<u8>,
}

/// One thread's state and count.
struct Job {
    random: Random,
    buffer: Vec<u8>,
    log: File,
    bytes: u64,
    operations: u64,
}

/// Lays out the files, runs the mix for `budget` in `jobs` threads, and removes the files. Only the mix is
/// timed; `around` is called right before and right after it.
pub(crate) fn run(
    base: &Path,
    mix: Mix,
    jobs: usize,
    budget: Duration,
    mut around: impl FnMut() -> Result,
) -> Result<Sample> {
    let directory = base.join("mix");
    fs::create_dir(&directory).context(directory.display())?;
    let mut contents = vec![0; 16 << 20];
    Random::new(11).fill(&mut contents);
    let server = Server {
        directory: &directory,
        mix,
        pool: Pool { present: Mutex::new(Vec::new()), absent: Mutex::new(Vec::new()) },
        contents,
    };
    server.lay_out()?;
    let threads = (0..jobs).map(|index| server.job(index)).collect::<Result<Vec<_>>>()?;
    around()?;
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let server = &server;
        let run = |mut job: Job| {
            scope.spawn(move || -> Result<Job> {
                while began.elapsed() < budget {
                    server.turn(&mut job)?;
                }
                Ok(job)
            })
        };
        let threads: Vec<_> = threads.into_iter().map(run).collect();
        threads.into_iter().map(|job| job.join().expect("a job does not panic")).collect::<Result<Vec<_>>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    around()?;
    let bytes = done.iter().map(|job| job.bytes).sum();
    let operations = done.iter().map(|job| job.operations).sum();
    drop(done);
    fs::remove_dir_all(&directory).context(directory.display())?;
    Ok(Sample { seconds, bytes, operations })
}

impl Server<'_> {
    fn path(&self, file: u32) -> PathBuf {
        self.directory.join(format!("directory-{:02}/file-{file:04}", file / DIRECTORY_WIDTH))
    }

    fn lay_out(&self) -> Result {
        let mut random = Random::new(5);
        for file in 0..FILES {
            if file % DIRECTORY_WIDTH == 0 {
                fs::create_dir(self.path(file).parent().expect("a file lies in a directory"))?;
            }
            if self.mix == Mix::Webserver || file % 5 != 4 {
                self.create(file, &mut random)?;
                put(&self.pool.present, file);
            } else {
                put(&self.pool.absent, file);
            }
        }
        Ok(())
    }

    fn job(&self, index: usize) -> Result<Job> {
        let log = File::create(self.directory.join(format!("log-{index}")))?;
        Ok(Job { random: Random::new(index as u64), buffer: vec![0; CALL], log, bytes: 0, operations: 0 })
    }

    fn turn(&self, job: &mut Job) -> Result {
        match self.mix {
            Mix::Fileserver => self.fileserver(job),
            Mix::Webserver => self.webserver(job),
        }
    }

    fn fileserver(&self, job: &mut Job) -> Result {
        if let Some(file) = take(&self.pool.absent, &mut job.random) {
            job.bytes += self.create(file, &mut job.random)?;
            put(&self.pool.present, file);
            job.operations += 3;
        }
        self.on_present(job, 3, |server, job, path| {
            let length = server.length(APPEND_MEAN, &mut job.random);
            let mut opened = File::options().append(true).open(path)?;
            opened.write_all(&server.contents[..length])?;
            Ok(length as u64)
        })?;
        self.on_present(job, 3, |_, job, path| Ok(read_whole(path, &mut job.buffer)?))?;
        if let Some(file) = take(&self.pool.present, &mut job.random) {
            fs::remove_file(self.path(file))?;
            put(&self.pool.absent, file);
            job.operations += 1;
        }
        self.on_present(job, 1, |_, _, path| Ok(fs::metadata(path).map(|_| 0)?))
    }

    fn webserver(&self, job: &mut Job) -> Result {
        for _ in 0..10 {
            // Several threads read one file at once, as a web server does.
            let file = job.random.below(u64::from(FILES)) as u32;
            job.bytes += read_whole(&self.path(file), &mut job.buffer)?;
            job.operations += 3;
        }
        let length = self.length(APPEND_MEAN, &mut job.random);
        job.log.write_all(&self.contents[..length])?;
        job.bytes += length as u64;
        job.operations += 1;
        Ok(())
    }

    /// Takes a file that is there, works on it, and gives it back.
    fn on_present(
        &self,
        job: &mut Job,
        operations: u64,
        work: impl Fn(&Self, &mut Job, &Path) -> Result<u64>,
    ) -> Result {
        let Some(file) = take(&self.pool.present, &mut job.random) else { return Ok(()) };
        job.bytes += work(self, job, &self.path(file))?;
        put(&self.pool.present, file);
        job.operations += operations;
        Ok(())
    }

    fn create(&self, file: u32, random: &mut Random) -> Result<u64> {
        let length = self.length(mean_length(self.mix), random);
        let path = self.path(file);
        let mut opened =
            File::create_new(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        for piece in self.contents[..length].chunks(CALL) {
            opened.write_all(piece)?;
        }
        Ok(length as u64)
    }

    fn length(&self, mean: f64, random: &mut Random) -> usize {
        let drawn = gamma(random) / GAMMA_SHAPE * mean;
        (drawn as usize).clamp(1, self.contents.len())
    }
}

fn read_whole(path: &Path, buffer: &mut [u8]) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut bytes = 0;
    loop {
        match file.read(buffer)? {
            0 => return Ok(bytes),
            length => bytes += length as u64,
        }
    }
}

/// A gamma variate of shape 1.5 and scale 1: an exponential one and half the square of a normal one.
fn gamma(random: &mut Random) -> f64 {
    // In (0, 1], so that its logarithm is finite.
    let mut uniform = || ((random.word() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (first, second, third) = (uniform(), uniform(), uniform());
    let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    normal * normal / 2.0 - third.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_variates_have_mean_and_variance_of_their_shape() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..100_000).map(|_| gamma(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - GAMMA_SHAPE).abs() < 0.02, "{mean}");
        assert!((variance - GAMMA_SHAPE).abs() < 0.05, "{variance}");
    }

    #[test]
    fn mixes_run_and_leave_nothing() -> Result {
        let directory = tempfile::tempdir()?;
        for mix in [Mix::Fileserver, Mix::Webserver] {
            let mut calls = 0;
            let sample = run(directory.path(), mix, 4, Duration::from_millis(50), || {
                calls += 1;
                Ok(())
            })?;
            assert!(sample.operations > 10 && sample.bytes > 0);
            assert_eq!(calls, 2);
        }
        assert_eq!(fs::read_dir(directory.path())?.count(), 0);
        Ok(())
    }
}
