//! Where batches go: to their places in a file, or into a stream in turn.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use strongroom_engine::Buffer;

use super::Output;
use super::places::{Places, Ready, write_slices};
use crate::Error;

pub(super) struct Sink {
    output: To,
    failed: AtomicBool,
    plain: AtomicU64,
    state: Mutex<State>,
    moved: Condvar,
}

enum To {
    File(Places),
    Stream(Mutex<Box<dyn Write + Send>>),
}

struct State {
    /// The batch whose turn it is.
    next: u64,
    /// The first batch that failed, and why.
    failure: Option<(u64, Error)>,
}

impl Sink {
    /// Writes what stands before the first batch. As many threads will write.
    pub(super) fn begin(output: Output, start: &[u8], threads: usize) -> Result<Sink, Error> {
        let output = match output {
            Output::File(file) => {
                file.write_all_at(start, 0).map_err(Error::Output)?;
                To::File(Places::new(file, start.len() as u64, threads))
            }
            Output::Stream(mut stream) => {
                stream.write_all(start).map_err(Error::Output)?;
                To::Stream(Mutex::new(stream))
            }
        };
        Ok(Sink {
            output,
            failed: AtomicBool::new(false),
            plain: AtomicU64::new(0),
            state: Mutex::new(State { next: 0, failure: None }),
            moved: Condvar::new(),
        })
    }

    /// Whether what is written cannot be taken back.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.output, To::Stream(_))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// A buffer for a batch; none when another batch has failed.
    pub(super) fn buffer(&self) -> Option<Buffer> {
        match &self.output {
            To::File(places) => places.buffer(|| self.has_failed()),
            To::Stream(_) => Some(super::batch_buffer()),
        }
    }

    /// Writes a batch, to a stream when all before it are there. Its buffer comes
    /// back from there; one that goes to a file may be written by another
    /// thread, while this one goes on.
    pub(super) fn write(&self, ready: Ready) -> Result<Option<Buffer>, Error> {
        let plain = ready.plain;
        let number = ready.number;
        let back = match &self.output {
            To::File(places) => {
                places.put(ready, |number, error| self.fail(number, error));
                None
            }
            To::Stream(stream) => {
                if !self.wait_for_turn(number) {
                    return Ok(Some(ready.buffer));
                }
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                write_slices(&ready.slices(), |slices| stream.write_vectored(slices))?;
                drop(stream);
                self.state().next = number + 1;
                self.moved.notify_all();
                Some(ready.buffer)
            }
        };
        self.plain.fetch_add(plain, Ordering::Relaxed);
        Ok(back)
    }

    /// Writes to a stream what is whole of a batch that is not.
    pub(super) fn write_before_failure(&self, number: u64, pieces: &[&[u8]]) -> Result<(), Error> {
        match &self.output {
            To::Stream(stream) if self.wait_for_turn(number) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                write_slices(pieces, |slices| stream.write_vectored(slices))?;
                stream.flush().map_err(Error::Output)
            }
            _ => Ok(()),
        }
    }

    /// The batch of this number failed: none after it is written.
    pub(super) fn fail(&self, number: u64, error: Error) {
        let mut state = self.state();
        if state.failure.as_ref().is_none_or(|(first, _)| number < *first) {
            state.failure = Some((number, error));
        }
        self.failed.store(true, Ordering::Relaxed);
        drop(state);
        self.moved.notify_all();
        if let To::File(places) = &self.output {
            places.wake();
        }
    }

    /// Plain bytes of all batches, or why one failed.
    pub(super) fn end(self) -> Result<u64, Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = state.failure {
            return Err(error);
        }
        if let To::Stream(stream) = self.output {
            let mut stream = stream.into_inner().unwrap_or_else(PoisonError::into_inner);
            stream.flush().map_err(Error::Output)?;
        }
        Ok(self.plain.into_inner())
    }

    /// Waits until all before this batch are written; false when one of them
    /// failed.
    fn wait_for_turn(&self, number: u64) -> bool {
        let mut state = self.state();
        loop {
            if state.next == number {
                return true;
            }
            if state.failure.as_ref().is_some_and(|(failed, _)| *failed < number) {
                return false;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
