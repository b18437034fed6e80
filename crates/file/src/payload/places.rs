//! Batches on their way to their places in a file.
//!
//! The kernel lets one thread at a time write to a file, and those that wait for
//! it there spin. So here one thread writes, whichever finds that none does, until
//! nothing is left, and the others compute meanwhile: a batch that is ready is
//! left to the one that writes. There are two batches for each thread, and two
//! more; who needs one waits until several are free, since to sleep and to be
//! woken takes as long as to write a batch.
//!
//! What is written is on its way to the disk soon, while the rest is computed,
//! so that little is left to be synced.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, fadvise};
use strongroom_engine::Buffer;

use crate::Error;

/// Bytes that are sent on their way to the disk at once.
const AHEAD: u64 = 8 << 20;
/// Free buffers that one waits for who found none.
const FREE: usize = 2;

/// Buffers that there are for so many threads.
pub(super) const fn buffers(threads: usize) -> usize {
    2 * threads + 2
}

/// A batch that was computed.
pub(super) struct Ready {
    pub(super) number: u64,
    /// Where it belongs, after what stands before the first batch.
    pub(super) offset: u64,
    pub(super) buffer: Buffer,
    /// What is written of the buffer, one piece after the other.
    pub(super) pieces: Vec<Range<usize>>,
    /// Bytes of plaintext.
    pub(super) plain: u64,
}

impl Ready {
    pub(super) fn slices(&self) -> Vec<&[u8]> {
        self.pieces.iter().map(|piece| &self.buffer[piece.clone()]).collect()
    }
}

/// A file that is written.
pub(super) struct Places {
    file: File,
    start: u64,
    /// Buffers that there may be.
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Ready>,
    is_written: bool,
    free: Vec<Buffer>,
    made: usize,
    /// Bytes that are on their way to the disk.
    sent: u64,
}

impl Places {
    /// What stands before the first batch ends at `start`.
    pub(super) fn new(file: File, start: u64, threads: usize) -> Places {
        let most = buffers(threads);
        Places { file, start, most, state: Mutex::default(), freed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer, when there is one; none when `is_over`.
    pub(super) fn buffer(&self, is_over: impl Fn() -> bool) -> Option<Buffer> {
        let mut state = self.state();
        if state.free.is_empty() && state.made < self.most {
            state.made += 1;
            return Some(super::batch_buffer());
        }
        while state.free.is_empty() && !is_over() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.free.pop()
    }

    /// Has those look again who wait for a buffer.
    pub(super) fn wake(&self) {
        drop(self.state());
        self.freed.notify_all();
    }

    /// Writes a batch, or has the thread do so that writes; if none does, then
    /// all that are ready.
    pub(super) fn put(&self, ready: Ready, fail: impl Fn(u64, Error)) {
        let mut state = self.state();
        state.ready.push_back(ready);
        if state.is_written {
            return;
        }
        state.is_written = true;
        while let Some(ready) = state.ready.pop_front() {
            drop(state);
            if let Err(error) = self.write(&ready) {
                fail(ready.number, error);
            }
            state = self.state();
            state.free.push(ready.buffer);
            if state.free.len() >= FREE || state.ready.is_empty() {
                self.freed.notify_one();
            }
        }
        state.is_written = false;
        drop(state);
        self.freed.notify_all();
    }

    fn write(&self, ready: &Ready) -> Result<(), Error> {
        let mut at = self.start + ready.offset;
        write_slices(&ready.slices(), |slices| {
            let count = rustix::io::pwritev(&self.file, slices, at)?;
            at += count as u64;
            Ok(count)
        })?;
        let mut state = self.state();
        let begun = state.sent;
        if let Some(len) = at.checked_sub(begun).filter(|len| *len >= AHEAD) {
            state.sent = at;
            drop(state);
            // For what is dirty this begins to write, and does not wait.
            let _ = fadvise(&self.file, begun, NonZeroU64::new(len), Advice::DontNeed);
        }
        Ok(())
    }
}

/// Writes all of `pieces` by calls that may write less.
pub(super) fn write_slices(
    pieces: &[&[u8]],
    mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
) -> Result<(), Error> {
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    // Empty pieces are passed over.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match write(rest) {
            Ok(0) => return Err(Error::Output(io::ErrorKind::WriteZero.into())),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Output(error)),
        }
    }
    Ok(())
}
