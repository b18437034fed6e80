//! Packing: a walk finds what there is, threads encode it ahead, and a reader
//! hands it out in order.
//!
//! The walk gives the tree in batches of [`BATCH_ITEMS`]. Each thread takes
//! the next batch and encodes it ([`entry`]): small files with their content,
//! large ones as an open file. What is read of the archive depends on the tree
//! alone, not on the threads. At most `threads * (1 + AHEAD) + 2` batches are
//! there at once, of at most 1 MiB and 16 open files each.

mod entry;

mod walk;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::Error;
pub(crate) use entry::XATTR;
use entry::{Encoded, Encoder, Piece};
use walk::Walk;

/// Things of a batch.
const BATCH_ITEMS: usize = 16;
/// Batches that may be ahead of the reader, for each thread.
const AHEAD: u64 = 2;
/// Most threads.
const THREADS_MAX: usize = 4;
/// Zeros at an archive's end.
const END: usize = 1024;

/// What was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Entries of the archive.
    pub entries: u64,
    /// Sockets, which no archive has.
    pub skipped: Vec<PathBuf>,
}

/// Reads as the archive of a directory. An error of a read has an
/// [`Error`](crate::Error) inside, and nothing follows it.
pub struct Packer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The batch that is handed out.
    number: u64,
    pieces: std::vec::IntoIter<Encoded>,
    current: Current,
    /// First names of files that have several.
    linked: HashMap<(u64, u64), Vec<u8>>,
    encoder: Encoder,
    packed: Arc<Mutex<Packed>>,
    ended: bool,
}

enum Current {
    Bytes(io::Cursor<Vec<u8>>),
    File { file: File, left: u64, padding: usize, stamp: entry::Stamp, path: PathBuf },
}

struct Shared {
    directory: OwnedFd,
    path: PathBuf,
    walk: Mutex<(u64, Walk)>,
    state: Mutex<State>,
    moved: Condvar,
    ahead: u64,
}

#[derive(Default)]
struct State {
    ready: BTreeMap<u64, Result<Vec<Encoded>, Error>>,
    /// The batch that the reader wants.
    wanted: u64,
    /// Batches there are, once that is known.
    count: Option<u64>,
    stopped: bool,
}

impl Packer {
    /// For a directory, whose entries are named below `top`. As many threads
    /// read ahead, 4 at most.
    ///
    /// # Errors
    /// [`Error::System`] when it is no directory that can be read, or no
    /// thread can be had.
    pub fn new(directory: &Path, top: &[u8], threads: usize) -> Result<Packer, Error> {
        let opened = walk::open(directory)?;
        let walk = Walk::new(top);
        let threads = threads.clamp(1, THREADS_MAX);
        let shared = Arc::new(Shared {
            directory: opened,
            path: directory.to_owned(),
            walk: Mutex::new((0, walk)),
            state: Mutex::default(),
            moved: Condvar::new(),
            ahead: AHEAD * threads as u64,
        });
        let mut packer = Packer {
            shared,
            threads: Vec::new(),
            number: 0,
            pieces: Vec::new().into_iter(),
            current: Current::Bytes(io::Cursor::default()),
            linked: HashMap::new(),
            encoder: Encoder::new(),
            packed: Arc::default(),
            ended: false,
        };
        for _ in 0..threads {
            let shared = Arc::clone(&packer.shared);
            let thread = std::thread::Builder::new().name("pack".into()).spawn(move || shared.serve());
            packer.threads.push(thread.map_err(|error| Error::System(directory.to_owned(), error))?);
        }
        Ok(packer)
    }

    /// What was packed so far, to be looked at when all was read.
    #[must_use]
    pub fn packed(&self) -> Arc<Mutex<Packed>> {
        Arc::clone(&self.packed)
    }

    /// Goes on to what is next; false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        if let Current::File { file, padding, stamp, path, .. } = &self.current {
            let unchanged = stamp.is_of(file).map_err(|errno| Error::at(path.clone())(errno))?;
            if !unchanged {
                return Err(Error::Changed(path.clone()));
            }
            self.current = Current::Bytes(io::Cursor::new(vec![0; *padding]));
            return Ok(true);
        }
        loop {
            if let Some(encoded) = self.pieces.next() {
                if self.take(encoded) {
                    return Ok(true);
                }
            } else if let Some(batch) = self.shared.batch(self.number)? {
                self.number += 1;
                self.pieces = batch.into_iter();
            } else if self.ended {
                return Ok(false);
            } else {
                self.ended = true;
                self.current = Current::Bytes(io::Cursor::new(vec![0; END]));
                return Ok(true);
            }
        }
    }

    /// Makes an entry the current one; false when it is none. What is large
    /// comes as a piece of bytes and a file after it.
    fn take(&mut self, encoded: Encoded) -> bool {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Piece::Skipped = encoded.piece {
            packed.skipped.push(encoded.path);
            return false;
        }
        packed.entries += u64::from(!matches!(encoded.piece, Piece::Content { .. }));
        drop(packed);
        if let Some(key) = encoded.several {
            match self.linked.get(&key) {
                Some(first) => {
                    let bytes = self.encoder.link(&encoded.name, first, &encoded.header);
                    self.current = Current::Bytes(io::Cursor::new(bytes));
                    return true;
                }
                None => drop(self.linked.insert(key, encoded.name)),
            }
        }
        self.current = match encoded.piece {
            Piece::Skipped => return false,
            Piece::Whole(bytes) => Current::Bytes(io::Cursor::new(bytes)),
            Piece::Content { file, len, stamp } => {
                let padding = (512 - (len % 512) as usize) % 512;
                Current::File { file, left: len, padding, stamp, path: encoded.path }
            }
            Piece::Large { bytes, file, len, stamp } => {
                let mut rest = vec![Encoded::content(encoded.path, file, len, stamp)];
                rest.extend(std::mem::take(&mut self.pieces));
                self.pieces = rest.into_iter();
                Current::Bytes(io::Cursor::new(bytes))
            }
        };
        true
    }
}

impl Read for Packer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let read = match &mut self.current {
                Current::Bytes(bytes) => bytes.read(buffer)?,
                Current::File { left: 0, .. } => 0,
                Current::File { file, left, path, .. } => {
                    let most = buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let read = match file.read(&mut buffer[..most]) {
                        Ok(0) => return Err(Error::Changed(path.clone()).into()),
                        Ok(read) => read,
                        Err(error) => return Err(Error::System(path.clone(), error).into()),
                    };
                    *left -= read as u64;
                    read
                }
            };
            if read > 0 {
                return Ok(read);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.moved.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's work, to the end of the tree.
    fn serve(&self) {
        let mut encoder = Encoder::new();
        loop {
            let (number, found) = {
                let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
                let found = walk.1.next(&self.directory, BATCH_ITEMS);
                walk.0 += 1;
                (walk.0 - 1, found)
            };
            let batch = match found {
                Ok(items) if items.is_empty() => {
                    let mut state = self.state();
                    state.count = Some(state.count.map_or(number, |count| count.min(number)));
                    self.moved.notify_all();
                    return;
                }
                Ok(items) => items
                    .into_iter()
                    .map(|item| encoder.encode(&self.directory, item))
                    .collect::<Result<Vec<_>, _>>(),
                Err(error) => Err(error),
            };
            let failed = batch.is_err();
            let mut state = self.state();
            while !state.stopped && number > state.wanted + self.ahead {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stopped {
                return;
            }
            state.ready.insert(number, batch);
            drop(state);
            self.moved.notify_all();
            if failed {
                return;
            }
        }
    }

    /// The batch of this number, when it is there; none after the last.
    fn batch(&self, number: u64) -> Result<Option<Vec<Encoded>>, Error> {
        let mut state = self.state();
        state.wanted = number;
        self.moved.notify_all();
        loop {
            if let Some(batch) = state.ready.remove(&number) {
                return batch.map(Some).map_err(|error| error.below(&self.path));
            }
            if state.count.is_some_and(|count| number >= count) {
                return Ok(None);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Error {
    /// Paths are told as the user named the directory.
    fn below(self, directory: &Path) -> Error {
        match self {
            Error::System(path, error) => Error::System(directory.join(path), error),
            Error::Changed(path) => Error::Changed(directory.join(path)),
            other => other,
        }
    }
}
