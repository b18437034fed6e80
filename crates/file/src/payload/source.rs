//! Where batches come from, and the numbers and nonces of their chunks.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use strongroom_engine::{FreshNonce, Operation, StreamNonces};
use strongroom_format::age::SEALED_CHUNK_LEN;

use super::{BATCH_CHUNKS, Input};
use crate::Error;

/// An input with the place that is next.
pub(super) struct Source {
    input: From,
    /// Bytes of a whole chunk of the input.
    chunk_len: usize,
    nonces: StreamNonces,
    batches: u64,
    ended: bool,
}

enum From {
    File { file: Arc<File>, start: u64, len: u64, next: u64, stamp: Stamp },
    Stream { stream: Box<dyn Read + Send>, ahead: Option<u8> },
}

/// What changes when a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> Result<Stamp, Error> {
        file.metadata().map(|metadata| Stamp::of_metadata(&metadata)).map_err(Error::Input)
    }

    fn of_metadata(metadata: &std::fs::Metadata) -> Stamp {
        Stamp { len: metadata.len(), changed: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

/// Kinds of file systems whose files are made up while they are read
/// (`linux/magic.h`): proc, sysfs, debugfs, tracefs, securityfs, cgroup,
/// cgroup2, configfs, efivarfs, pstore, bpf, selinuxfs.
const MADE_UP: [u32; 12] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0x6265_6570,
    0xde5e_81e4,
    0x6165_676c,
    0xcafe_4a11,
    0xf97c_ff8c,
];

/// Whether a file stands where the kernel makes files up, whose lengths say
/// nothing.
pub(super) fn is_made_up(file: &File) -> std::io::Result<bool> {
    Ok(MADE_UP.contains(&(rustix::fs::fstatfs(file)?.f_type as u32)))
}

/// A regular file that is said to be empty, read to its end. It may have no
/// length that its store knows of, but it must not get one meanwhile.
pub(super) struct Lengthless {
    file: File,
    stamp: Stamp,
}

/// It has got one.
#[derive(Debug)]
pub(super) struct Grown;

impl std::fmt::Display for Grown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it was written to")
    }
}

impl std::error::Error for Grown {}

impl Lengthless {
    pub(super) fn new(file: File) -> std::io::Result<Lengthless> {
        let stamp = Stamp::of_metadata(&file.metadata()?);
        Ok(Lengthless { file, stamp })
    }
}

impl Read for Lengthless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        if read == 0 && !buffer.is_empty() && Stamp::of_metadata(&self.file.metadata()?) != self.stamp {
            return Err(std::io::Error::other(Grown));
        }
        Ok(read)
    }
}

/// A batch that one thread has to do.
pub(super) struct Claim {
    /// Counted from 0.
    pub(super) number: u64,
    pub(super) first_chunk: u64,
    /// Bytes of input.
    pub(super) len: usize,
    /// Its last chunk is the payload's.
    pub(super) last: bool,
    /// To seal with, one for each chunk.
    pub(super) nonces: Vec<FreshNonce>,
    chunk_len: usize,
    from: Option<(Arc<File>, u64)>,
}

impl Source {
    /// Of an input from `start` on, in chunks of `chunk_len` bytes.
    pub(super) fn of(input: Input, start: u64, chunk_len: usize) -> Result<Source, Error> {
        let input = match input {
            Input::File(file) => {
                let stamp = Stamp::of(&file)?;
                let len = stamp.len.saturating_sub(start);
                From::File { file: Arc::new(file), start, len, next: 0, stamp }
            }
            Input::Stream(stream) => From::Stream { stream, ahead: None },
        };
        Ok(Source { input, chunk_len, nonces: StreamNonces::for_fresh_key(), batches: 0, ended: false })
    }

    /// Bytes of input, where that is known.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.input {
            From::File { len, .. } => Some(*len),
            From::Stream { .. } => None,
        }
    }

    /// Batches that were claimed.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// The next batch; a stream's is read into `buffer`.
    pub(super) fn claim(&mut self, operation: Operation, buffer: &mut [u8]) -> Result<Option<Claim>, Error> {
        if self.ended {
            return Ok(None);
        }
        let most = BATCH_CHUNKS * self.chunk_len;
        let (len, last, from) = match &mut self.input {
            From::File { file, start, len, next, .. } => {
                let here = (*len - *next).min(most as u64);
                let at = *start + *next;
                *next += here;
                (here as usize, *next == *len, Some((Arc::clone(file), at)))
            }
            From::Stream { stream, ahead } => {
                let (len, last) = fill(&mut **stream, ahead, self.chunk_len, buffer)?;
                (len, last, None)
            }
        };
        self.ended = last;
        let chunks = len.div_ceil(self.chunk_len).max(1);
        let nonces = match operation {
            Operation::Seal => (1..=chunks).map(|chunk| self.nonces.draw(last && chunk == chunks)).collect(),
            _ => Vec::new(),
        };
        if len == 0 && operation != Operation::Seal {
            return Err(Error::Payload { chunk: 0, what: "the payload is missing" });
        }
        let number = self.batches;
        self.batches += 1;
        let first_chunk = number * BATCH_CHUNKS as u64;
        Ok(Some(Claim { number, first_chunk, len, last, nonces, chunk_len: self.chunk_len, from }))
    }

    /// A file is as it was when its reading began.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        match &self.input {
            From::File { file, stamp, .. } if Stamp::of(file)? != *stamp => Err(Error::Changed),
            _ => Ok(()),
        }
    }
}

impl Claim {
    /// Reads what is not read yet: every chunk to a place of its own.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let Some((file, at)) = &self.from else { return Ok(()) };
        let lens = (0..self.len).step_by(self.chunk_len).map(|done| self.chunk_len.min(self.len - done));
        let places = buffer.chunks_mut(SEALED_CHUNK_LEN).zip(lens);
        let mut slices: Vec<IoSliceMut<'_>> =
            places.map(|(place, len)| IoSliceMut::new(&mut place[..len])).collect();
        read_exact_at(file, &mut slices, *at)
    }
}

/// Fills all of `slices` with what a file has at `at`.
fn read_exact_at(file: &File, mut slices: &mut [IoSliceMut<'_>], mut at: u64) -> Result<(), Error> {
    while !slices.is_empty() {
        match rustix::io::preadv(file, slices, at) {
            Ok(0) => return Err(Error::Changed),
            Ok(count) => {
                IoSliceMut::advance_slices(&mut slices, count);
                at += count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Input(errno.into())),
        }
    }
    Ok(())
}

/// Fills a batch from a stream, every chunk at a place of its own: the bytes,
/// and whether nothing follows, for which one byte more is read.
fn fill(
    stream: &mut dyn Read,
    ahead: &mut Option<u8>,
    chunk_len: usize,
    buffer: &mut [u8],
) -> Result<(usize, bool), Error> {
    let mut total = 0;
    for place in buffer.chunks_mut(SEALED_CHUNK_LEN).take(BATCH_CHUNKS) {
        let place = &mut place[..chunk_len];
        let kept = ahead.take();
        let mut here = usize::from(kept.is_some());
        if let Some(byte) = kept {
            place[0] = byte;
        }
        here += read_full(stream, &mut place[here..])?;
        total += here;
        if here < chunk_len {
            return Ok((total, true));
        }
    }
    let mut byte = [0];
    if read_full(stream, &mut byte)? == 0 {
        return Ok((total, true));
    }
    *ahead = Some(byte[0]);
    Ok((total, false))
}

fn read_full(stream: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut done = 0;
    while done < buffer.len() {
        match stream.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(reading(error)),
        }
    }
    Ok(done)
}

/// What an input's error means.
pub(super) fn reading(error: std::io::Error) -> Error {
    Error::of_reading(error)
}
