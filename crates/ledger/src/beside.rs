//! An `fsync` beside: by a thread of its own, while the lane goes on to change the same file.
//!
//! One thread of each lane does nothing else, one file at a time. What it acknowledges is what the file was
//! when it began; the lane's own changes since may be durable with it or not.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use super::action::Line;
use strongroom_harness::failure::{Failure, Result};

/// The thread that syncs.
pub(crate) struct Beside {
    log: File,
    jobs: SyncSender<(u64, File)>,
    busy: Arc<AtomicBool>,
    thread: JoinHandle<Option<Failure>>,
}

impl Beside {
    /// Notes in a log, which is open to append.
    pub(crate) fn start(log: &File) -> Result<Self> {
        let (jobs, files) = mpsc::sync_channel::<(u64, File)>(1);
        let busy = Arc::new(AtomicBool::new(false));
        let (own_log, is_busy) = (log.try_clone()?, Arc::clone(&busy));
        let thread = std::thread::spawn(move || {
            files.iter().find_map(|(number, file)| {
                let outcome = sync(&own_log, number, &file);
                drop(file);
                is_busy.store(false, Ordering::Release);
                outcome.err()
            })
        });
        Ok(Self { log: log.try_clone()?, jobs, busy, thread })
    }

    /// Begins to sync an open file, unless one is under way; tells whether it does.
    pub(crate) fn begin(&self, number: u64, path: &str, file: &File) -> Result<bool> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let file = file.try_clone()?;
        let line = Line::SyncBegun { number, path: path.to_owned() };
        (&self.log).write_all(line.text().as_bytes())?;
        // The thread has ended after an error, which `end` tells.
        Ok(self.jobs.send((number, file)).is_ok())
    }

    /// Waits for the last one; gives the error that ended the thread.
    pub(crate) fn end(self) -> Option<Failure> {
        drop(self.jobs);
        self.thread.join().expect("it does not panic")
    }
}

fn sync(mut log: &File, number: u64, file: &File) -> Result {
    file.sync_all()?;
    Ok(log.write_all(Line::SyncEnded { number }.text().as_bytes())?)
}
