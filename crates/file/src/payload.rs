//! The payload: 64 KiB chunks, sealed and opened in batches by several
//! threads.
//!
//! Each thread claims a batch (its place in the input, the numbers of its
//! chunks and, to seal, their nonces, all fixed under one lock), reads it,
//! has the engine compute it, and writes it or leaves that to the thread that
//! writes (`payload/places.rs`). So reading, computing and writing overlap. Files are
//! read and written at their places, in any order; streams in turn, under a
//! lock.
//!
//! Invariants: no plaintext of a chunk is written that did not verify; to a
//! stream all that stands before a damaged chunk is written, and nothing after.

mod places;
mod source;
mod turns;

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use age_core::format::FileKey;
use strongroom_engine::client::{Client, Failure};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, Operation, Segment, StoredNonce, Verdict,
};
use strongroom_format::FormatError;
use strongroom_format::age::{CHUNK_LEN, PAYLOAD_NONCE_LEN, SEALED_CHUNK_LEN, TAG_LEN};

use crate::identities::Identities;
use crate::recipients::Recipients;
use crate::{Error, armor, header, keys};
use places::Ready;
use source::{Claim, Source};
use turns::Sink;

/// Chunks of a batch: what is read and written at once stays in a CPU's cache.
pub const BATCH_CHUNKS: usize = 8;
/// Most threads.
const THREADS_MAX: usize = 32;
const ALGORITHM: Algorithm = Algorithm::Aead(Aead::ChaCha20Poly1305);

/// Most bytes that so many threads hold at once: two batches each and two more,
/// which go to a file; or one each, and its ciphertext once more while it is
/// decrypted to a stream. 33 MiB for the most threads there may be.
#[must_use]
pub const fn memory_max(threads: usize) -> usize {
    let threads = if threads < THREADS_MAX { threads } else { THREADS_MAX };
    places::buffers(threads) * BATCH_CHUNKS * SEALED_CHUNK_LEN
}

fn batch_buffer() -> Buffer {
    Buffer::new(BATCH_CHUNKS * SEALED_CHUNK_LEN)
}

/// What is read.
pub enum Input {
    /// A regular file, from its first byte to its last, of which the system
    /// tells the length. [`Input::of`] knows which are such.
    File(File),
    /// Anything that is read in order.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// All that an open file has. One of those that the kernel makes up while
    /// they are read (`/proc`, `/sys`), or without a length, is read to its end,
    /// whatever its length is said to be.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn of(file: File) -> std::io::Result<Input> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || source::is_made_up(&file)? {
            return Ok(Input::Stream(Box::new(file)));
        }
        Ok(match metadata.len() {
            0 => Input::Stream(Box::new(source::Lengthless::new(file)?)),
            _ => Input::File(file),
        })
    }
}

/// What is written.
pub enum Output {
    /// An empty regular file.
    File(File),
    /// Anything that is written in order.
    Stream(Box<dyn Write + Send>),
}

/// How the work is done.
pub struct Job<'a> {
    /// What computes.
    pub engine: Arc<dyn Engine>,
    /// Threads; 32 at most are taken.
    pub threads: usize,
    /// Is told of plain bytes that are done, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Encrypts the whole input for the recipients, and gives its plain bytes. The
/// output is flushed and not synced.
///
/// # Errors
/// [`Error`]; what was written so far is of no use.
pub fn encrypt(job: &Job<'_>, recipients: &Recipients, input: Input, output: Output) -> Result<u64, Error> {
    let (mut start, file_key) = header::make(recipients)?;
    let nonce = keys::random::<PAYLOAD_NONCE_LEN>()?;
    start.extend_from_slice(&nonce);
    let sink = Sink::begin(output, &start, job.threads.min(THREADS_MAX))?;
    let source = Source::of(input, 0, CHUNK_LEN)?;
    Work::new(job, &file_key, &nonce, Operation::Seal, source, sink)?.run()
}

/// Decrypts the whole input, armored or not, and gives its plain bytes. The
/// output is flushed and not synced.
///
/// # Errors
/// [`Error`]. What was written to a stream before is verified, but cut.
pub fn decrypt(job: &Job<'_>, identities: &Identities, input: Input, output: Output) -> Result<u64, Error> {
    let Opened { file_key, nonce, source } = open(identities, input)?;
    let sink = Sink::begin(output, &[], job.threads.min(THREADS_MAX))?;
    Work::new(job, &file_key, &nonce, Operation::Open, source, sink)?.run()
}

struct Opened {
    file_key: FileKey,
    nonce: [u8; PAYLOAD_NONCE_LEN],
    source: Source,
}

fn open(identities: &Identities, input: Input) -> Result<Opened, Error> {
    let (reader, file): (Box<dyn Read + Send>, _) = match input {
        Input::File(file) => (Box::new(file.try_clone().map_err(Error::Input)?), Some(file)),
        Input::Stream(stream) => (stream, None),
    };
    let reader = BufReader::with_capacity(SEALED_CHUNK_LEN, reader);
    let (mut reader, armored) = armor::detect(reader).map_err(Error::Input)?;
    let header = header::read_header(&mut reader)?;
    let file_key = header::unlock(&header, identities)?;
    let mut nonce = [0; PAYLOAD_NONCE_LEN];
    reader.read_exact(&mut nonce).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::Header(FormatError::Inconsistent { what: "the payload after it is missing" })
        }
        _ => source::reading(error),
    })?;
    let source = match file.filter(|_| !armored) {
        Some(file) => {
            let start = (header.encode().len() + nonce.len()) as u64;
            Source::of(Input::File(file), start, SEALED_CHUNK_LEN)?
        }
        None => Source::of(Input::Stream(Box::new(reader)), 0, SEALED_CHUNK_LEN)?,
    };
    Ok(Opened { file_key, nonce, source })
}

/// One payload on its way.
struct Work<'a> {
    cipher: Cipher,
    operation: Operation,
    threads: usize,
    progress: &'a (dyn Fn(u64) + Sync),
    source: Mutex<Source>,
    sink: Sink,
}

/// A payload's key on an engine.
pub(crate) struct Cipher(Client);

impl Cipher {
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        file_key: &FileKey,
        nonce: &[u8; PAYLOAD_NONCE_LEN],
    ) -> Result<Cipher, Error> {
        Client::open(engine, ALGORITHM, &keys::payload(file_key, nonce)[..])
            .map(Cipher)
            .map_err(|_| Error::Engine("it has no chacha20-poly1305"))
    }

    /// `len` zero bytes that suit the engine.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        self.0.buffer(len)
    }

    /// Computes a batch and waits for it. Buffer and segments come back.
    pub(crate) fn execute(&self, batch: Batch) -> Result<Batch, Error> {
        Ok(self.0.execute(batch).map_err(failed)?.batch)
    }

    /// Opens the chunk that stands at the start of `buffer`; false when it is
    /// forged, and then the buffer is zero.
    pub(crate) fn open_one(
        &self,
        buffer: &mut Buffer,
        sealed: usize,
        chunk: u64,
        last: bool,
    ) -> Result<bool, Error> {
        let segment = to_open(buffer, 0, sealed, chunk, last);
        let mut batch = self.execute(Batch::new(Operation::Open, buffer.take(), vec![segment]))?;
        *buffer = batch.buffer.take();
        Ok(batch.segments[0].verdict() == Verdict::Done)
    }
}

fn failed(failure: Failure) -> Error {
    Error::Engine(failure.cause.what())
}

/// A chunk at `start`, its tag after it.
fn to_open(buffer: &[u8], start: usize, sealed: usize, chunk: u64, last: bool) -> Segment {
    let end = start + sealed;
    let tag = buffer[end - TAG_LEN..end].try_into().expect("sixteen bytes");
    let nonce = StoredNonce::of_stream(chunk, last);
    Segment::open(start, sealed - TAG_LEN, nonce, AssociatedData::new(&[]), tag)
}

/// What a thread holds.
struct Hands {
    buffer: Buffer,
    segments: Vec<Segment>,
    kept: Kept,
}

/// Ciphertext as it was: a chunk that does not verify is wiped, and may have
/// been sealed as the last one, or as another.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Its place in the batch.
    start: usize,
}

impl<'a> Work<'a> {
    fn new(
        job: &Job<'a>,
        file_key: &FileKey,
        nonce: &[u8; PAYLOAD_NONCE_LEN],
        operation: Operation,
        source: Source,
        sink: Sink,
    ) -> Result<Work<'a>, Error> {
        let batch = (BATCH_CHUNKS * CHUNK_LEN) as u64;
        let worth = source.len().map_or(u64::MAX, |len| len.div_ceil(batch).max(1));
        let threads = job.threads.clamp(1, THREADS_MAX).min(usize::try_from(worth).unwrap_or(usize::MAX));
        let cipher = Cipher::new(&job.engine, file_key, nonce)?;
        Ok(Work { cipher, operation, threads, progress: job.progress, source: Mutex::new(source), sink })
    }

    fn run(self) -> Result<u64, Error> {
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| self.serve());
            }
            self.serve();
        });
        let Work { source, sink, .. } = self;
        let plain = sink.end()?;
        source.into_inner().unwrap_or_else(PoisonError::into_inner).check_unchanged()?;
        Ok(plain)
    }

    fn serve(&self) {
        let mut hands = Hands {
            buffer: Buffer::empty(),
            segments: Vec::with_capacity(BATCH_CHUNKS),
            kept: Kept::default(),
        };
        while !self.sink.has_failed() {
            if hands.buffer.is_empty() {
                let Some(buffer) = self.sink.buffer() else { return };
                hands.buffer = buffer;
            }
            let claimed = {
                let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
                let number = source.batches();
                (number, source.claim(self.operation, &mut hands.buffer))
            };
            match claimed {
                (_, Ok(None)) => return,
                (_, Ok(Some(claim))) => {
                    let number = claim.number;
                    if let Err(error) = self.batch(claim, &mut hands) {
                        return self.sink.fail(number, error);
                    }
                }
                (number, Err(error)) => return self.sink.fail(number, error),
            }
        }
    }

    fn batch(&self, claim: Claim, hands: &mut Hands) -> Result<(), Error> {
        claim.read(&mut hands.buffer)?;
        match self.operation {
            Operation::Seal => self.seal(claim, hands),
            _ => self.open(&claim, hands),
        }
    }

    fn seal(&self, claim: Claim, hands: &mut Hands) -> Result<(), Error> {
        let (number, first, len) = (claim.number, claim.first_chunk, claim.len);
        let mut segments = std::mem::take(&mut hands.segments);
        let nonces = claim.nonces.into_iter();
        segments.extend(nonces.enumerate().map(|(index, nonce)| {
            let plain = CHUNK_LEN.min(len - index * CHUNK_LEN);
            Segment::seal(index * SEALED_CHUNK_LEN, plain, nonce, AssociatedData::new(&[]))
        }));
        let mut batch = self.cipher.execute(Batch::new(Operation::Seal, hands.buffer.take(), segments))?;
        let mut end = 0;
        for segment in &batch.segments {
            end = segment.range().end + TAG_LEN;
            batch.buffer[end - TAG_LEN..end].copy_from_slice(segment.tag());
        }
        let (offset, plain) = (first * SEALED_CHUNK_LEN as u64, len as u64);
        let (buffer, pieces) = (self.keep(batch, hands), std::iter::once(0..end).collect());
        self.put(Ready { number, offset, buffer, pieces, plain }, hands)
    }

    fn put(&self, ready: Ready, hands: &mut Hands) -> Result<(), Error> {
        let plain = ready.plain;
        hands.buffer = self.sink.write(ready)?.unwrap_or_else(Buffer::empty);
        (self.progress)(plain);
        Ok(())
    }

    fn open(&self, claim: &Claim, hands: &mut Hands) -> Result<(), Error> {
        let chunks = claim.len.div_ceil(SEALED_CHUNK_LEN);
        let mut segments = std::mem::take(&mut hands.segments);
        for index in 0..chunks {
            let (start, chunk) = (index * SEALED_CHUNK_LEN, claim.first_chunk + index as u64);
            let sealed = SEALED_CHUNK_LEN.min(claim.len - start);
            // The last chunk of a file that is not empty is not empty.
            if sealed < TAG_LEN || sealed == TAG_LEN && chunk > 0 {
                break;
            }
            segments.push(to_open(&hands.buffer, start, sealed, chunk, claim.last && index + 1 == chunks));
        }
        let start = match self.sink.is_stream() {
            true => 0,
            false if claim.last => (chunks - 1) * SEALED_CHUNK_LEN,
            false => claim.len,
        };
        hands.kept.start = start;
        hands.kept.bytes.clear();
        hands.kept.bytes.extend_from_slice(&hands.buffer[start..claim.len]);
        let batch = self.cipher.execute(Batch::new(Operation::Open, hands.buffer.take(), segments))?;
        let whole = batch.segments.iter().take_while(|segment| segment.verdict() == Verdict::Done).count();
        if whole < chunks {
            return self.damaged(claim, whole, batch, &hands.kept);
        }
        let pieces: Vec<_> = batch.segments.iter().map(Segment::range).collect();
        let plain = pieces.iter().map(|piece| piece.len() as u64).sum();
        let (number, offset) = (claim.number, claim.first_chunk * CHUNK_LEN as u64);
        let buffer = self.keep(batch, hands);
        self.put(Ready { number, offset, buffer, pieces, plain }, hands)
    }

    /// Writes to a stream what is whole of a batch, its first chunks, and says
    /// what is wrong with the next one.
    fn damaged(&self, claim: &Claim, whole: usize, mut batch: Batch, kept: &Kept) -> Result<(), Error> {
        let chunk = claim.first_chunk + whole as u64;
        let is_last = claim.last && claim.len <= (whole + 1) * SEALED_CHUNK_LEN;
        let otherwise = self.opened_otherwise(claim, whole, is_last, kept)?;
        let mut pieces = whole;
        if let (Some(buffer), Some(segment)) = (&otherwise, batch.segments.get(whole)) {
            let range = segment.range();
            batch.buffer[range.clone()].copy_from_slice(&buffer[..range.len()]);
            pieces += 1;
        }
        let pieces: Vec<&[u8]> =
            batch.segments[..pieces].iter().map(|segment| &batch.buffer[segment.range()]).collect();
        self.sink.write_before_failure(claim.number, &pieces)?;
        let what = match (otherwise, is_last) {
            (None, _) => "the payload is damaged",
            (Some(_), true) => "the payload was cut off after this",
            (Some(_), false) => "something stands after the payload's end, which is this",
        };
        Err(Error::Payload { chunk, what })
    }

    /// A whole chunk that does not verify, if it does as the last one, or, being
    /// the last, as one before.
    fn opened_otherwise(
        &self,
        claim: &Claim,
        index: usize,
        is_last: bool,
        kept: &Kept,
    ) -> Result<Option<Buffer>, Error> {
        let start = index * SEALED_CHUNK_LEN;
        let place = start.checked_sub(kept.start).and_then(|at| kept.bytes.get(at..at + SEALED_CHUNK_LEN));
        let Some(sealed) = place else { return Ok(None) };
        let mut buffer = Buffer::copy_of(sealed);
        let chunk = claim.first_chunk + index as u64;
        Ok(self.cipher.open_one(&mut buffer, sealed.len(), chunk, !is_last)?.then_some(buffer))
    }

    /// A batch's buffer; its segments are kept.
    fn keep(&self, mut batch: Batch, hands: &mut Hands) -> Buffer {
        batch.segments.clear();
        hands.segments = batch.segments;
        batch.buffer.take()
    }
}

/// What the armor or the system says of an input.
impl Error {
    /// What an error means that the reader of [`armor::detect`] gave.
    #[must_use]
    pub fn of_reading(error: std::io::Error) -> Error {
        let inner = error.get_ref();
        if inner.is_some_and(|inner| inner.is::<source::Grown>()) {
            return Error::Changed;
        }
        match inner.and_then(|inner| inner.downcast_ref::<FormatError>()) {
            Some(format) => Error::Armor(format.clone()),
            None => Error::Input(error),
        }
    }
}
