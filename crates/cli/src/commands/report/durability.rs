//! What it costs to have data on a store for good: a block written, and a
//! block written and waited for.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use strongroom_bench::Summary;

use crate::failure::{Failure, Result};
use crate::report;

/// A block of a vault.
const BLOCK: usize = 4096;
/// Blocks of the file that is written to: 4 MiB.
const BLOCKS: u64 = 1024;
/// Barriers that are timed, unless they take too long.
const BARRIERS: usize = 200;
/// After this long no further one is begun.
const LIMIT: Duration = Duration::from_secs(2);

/// What was found, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(in crate::commands) struct Barriers {
    /// Where.
    pub(in crate::commands) store: String,
    /// A block of 4 KiB into the page cache.
    pub(in crate::commands) write_ns: u64,
    /// The same, and `fdatasync(2)` after it: the median and the quartiles.
    pub(in crate::commands) durable_write_ns: u64,
    pub(in crate::commands) durable_write_ns_low: u64,
    pub(in crate::commands) durable_write_ns_high: u64,
    /// How many were timed.
    pub(in crate::commands) samples: usize,
}

impl Barriers {
    /// What waiting alone takes.
    pub(in crate::commands) fn barrier_ns(&self) -> u64 {
        self.durable_write_ns.saturating_sub(self.write_ns)
    }
}

/// Measures in a file that has no name, so that nothing is left whatever
/// happens.
///
/// # Errors
/// What the system reports; the directory's file system has to know `O_TMPFILE`.
pub(in crate::commands) fn measure(directory: &Path) -> Result<Barriers> {
    let failed = |error: std::io::Error| Failure::system(directory, &error);
    let file = File::options()
        .read(true)
        .write(true)
        .mode(Mode::RUSR.bits() | Mode::WUSR.bits())
        .custom_flags(OFlags::TMPFILE.bits() as i32)
        .open(directory)
        .map_err(failed)?;
    // Allocated first, so that no barrier has to store where blocks lie.
    let block = [0x5a; BLOCK];
    let place = |turn: u64| turn * 7 % BLOCKS * BLOCK as u64;
    (0..BLOCKS).try_for_each(|turn| file.write_all_at(&block, place(turn))).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let mut written = Vec::with_capacity(BLOCKS as usize);
    for turn in 0..BLOCKS {
        let began = Instant::now();
        file.write_all_at(&block, place(turn)).map_err(failed)?;
        written.push(began.elapsed().as_nanos() as f64);
    }
    file.sync_data().map_err(failed)?;
    let mut durable = Vec::with_capacity(BARRIERS);
    let began = Instant::now();
    while durable.is_empty() || durable.len() < BARRIERS && began.elapsed() < LIMIT {
        let began = Instant::now();
        file.write_all_at(&block, place(durable.len() as u64)).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        durable.push(began.elapsed().as_nanos() as f64);
    }
    let found = Summary::of(&durable);
    Ok(Barriers {
        store: report::shown(directory.as_os_str().as_encoded_bytes()),
        write_ns: Summary::of(&written).median as u64,
        durable_write_ns: found.median as u64,
        durable_write_ns_low: found.low as u64,
        durable_write_ns_high: found.high as u64,
        samples: durable.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_measured_and_left_as_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let found = measure(directory.path()).expect("it can be written to");
        assert!(
            found.samples > 0 && found.write_ns > 0 && found.durable_write_ns >= found.durable_write_ns_low
        );
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
        assert!(measure(&directory.path().join("none")).is_err());
    }
}
