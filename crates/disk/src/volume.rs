//! An open volume: plain sectors over encrypted ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_engine::{Buffer, Engine, Operation, Origin};
use strongroom_format::luks::{Segment, UNIT};
use strongroom_keys::SecretBytes;

use crate::backing::Backing;
use crate::device::{Device, Extent, Piece, check};
use crate::error::{Error, Result};
use crate::sectors::{KeyedCipher, SEGMENTS_MAX};

/// Bytes that are read or encrypted before they are passed on, so that they
/// are still in the processor's cache.
const CHUNK: usize = 128 << 10;

/// Bytes that are worth a look whether they are mapped: below, a system call
/// costs no more than the look.
const MAPPED_LEN_MIN: usize = 64 << 10;

/// How a volume is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Refuse to write.
    pub read_only: bool,
    /// Pass discards on to the backing, which shows which sectors are in use.
    pub discard: bool,
}

/// An open volume.
pub struct Volume {
    cipher: KeyedCipher,
    backing: Arc<dyn Backing>,
    segment: Segment,
    len: u64,
    options: VolumeOptions,
    /// Whether a flush has failed.
    failed: AtomicBool,
}

impl Volume {
    /// Opens the volume that `segment` describes on `backing`. The key has been
    /// verified before; it is copied into the engine's session.
    ///
    /// # Errors
    /// [`Error::Cipher`]; [`Error::TooSmall`] when there is no sector.
    pub fn open(
        engine: &Arc<dyn Engine>,
        backing: Arc<dyn Backing>,
        segment: Segment,
        key: &SecretBytes,
        options: VolumeOptions,
    ) -> Result<Volume> {
        let sector = segment.sector_size;
        let cipher = KeyedCipher::new(engine, &segment.encryption, key.expose(), sector)?;
        let found = backing.len().map_err(Error::io("asking for the length"))?;
        let least = segment.offset + segment.size.unwrap_or(sector.into());
        if found < least {
            return Err(Error::TooSmall { found, needed: least });
        }
        let len = segment.size.unwrap_or((found - segment.offset) / u64::from(sector) * u64::from(sector));
        Ok(Volume { cipher, backing, segment, len, options, failed: AtomicBool::new(false) })
    }

    /// What it is encrypted with and where it lies.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    fn check(&self, piece: &Piece) -> Result<()> {
        check(self.len, self.segment.sector_size, piece.offset, piece.len as u64)
    }

    /// Where a byte of the volume lies on the backing.
    fn place(&self, offset: u64) -> u64 {
        self.segment.offset + offset
    }

    /// The number of a byte's 512 bytes in the tweak.
    fn unit(&self, offset: u64) -> u64 {
        self.segment.iv_tweak.wrapping_add(offset / UNIT)
    }

    fn check_writable(&self) -> Result<()> {
        if self.options.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }
}

/// Part of a piece: at most [`CHUNK`] bytes.
#[derive(Clone, Copy)]
struct Part {
    piece: usize,
    offset: u64,
    start: usize,
    len: usize,
}

/// The parts of all pieces in order.
fn parts(pieces: &[Piece]) -> impl Iterator<Item = Part> {
    pieces.iter().enumerate().flat_map(|(index, piece)| {
        let Piece { offset, start, len } = *piece;
        (0..len).step_by(CHUNK).map(move |at| Part {
            piece: index,
            offset: offset + at as u64,
            start: start + at,
            len: CHUNK.min(len - at),
        })
    })
}

/// Gives a failure of a whole batch to those pieces that have none yet.
fn fail(outcomes: &mut [Result<()>], affected: impl Iterator<Item = usize>, what: &'static str) {
    for index in affected {
        if outcomes[index].is_ok() {
            outcomes[index] = Err(Error::Engine(what));
        }
    }
}

fn engine_fault(error: &Error) -> &'static str {
    match error {
        Error::Engine(what) => what,
        _ => "it failed",
    }
}

/// Tells the engines what this thread serves. Nobody says who asks a disk.
fn serves(pieces: &[Piece]) {
    Origin::serves(0, pieces.iter().map(|piece| piece.len as u64).sum());
}

impl Device for Volume {
    fn len(&self) -> u64 {
        self.len
    }

    fn sector_len(&self) -> u32 {
        self.segment.sector_size
    }

    fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    fn buffer(&self, len: usize) -> Buffer {
        self.cipher.buffer(len)
    }

    fn can_discard(&self) -> bool {
        self.options.discard && !self.options.read_only
    }

    /// Parts are read one after the other and decrypted together as soon as
    /// there is a chunk of them.
    fn read(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        serves(pieces);
        for (piece, outcome) in pieces.iter().zip(&mut *outcomes) {
            *outcome = self.check(piece);
        }
        let mut list = self.cipher.list();
        let mut pending = 0;
        for part in parts(pieces) {
            if outcomes[part.piece].is_err() {
                continue;
            }
            let bytes = &mut buffer[part.start..][..part.len];
            if self.read_mapped(part, bytes) {
                continue;
            }
            if let Err(source) = self.backing.read_at(bytes, self.place(part.offset)) {
                outcomes[part.piece] = Err(Error::Io { doing: "reading", source });
                continue;
            }
            self.cipher.add(&mut list, part.start, part.len, self.unit(part.offset));
            pending += part.len;
            if pending >= CHUNK || list.len() == SEGMENTS_MAX {
                let batch = std::mem::replace(&mut list, self.cipher.list());
                pending = 0;
                if let Err(error) = self.cipher.apply(Operation::DecryptSectors, buffer, batch) {
                    // What was decrypted before may be lost with the buffer.
                    fail(outcomes, 0..part.piece + 1, engine_fault(&error));
                }
            }
        }
        if pending == 0 {
            self.cipher.put_back(list);
        } else if let Err(error) = self.cipher.apply(Operation::DecryptSectors, buffer, list) {
            fail(outcomes, 0..pieces.len(), engine_fault(&error));
        }
    }

    /// Parts are encrypted a chunk at a time and written at once.
    fn write(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        serves(pieces);
        for (piece, outcome) in pieces.iter().zip(&mut *outcomes) {
            *outcome = self.check_writable().and_then(|()| self.check(piece));
        }
        let mut chunk: [Option<Part>; SEGMENTS_MAX] = [None; SEGMENTS_MAX];
        let (mut count, mut pending) = (0, 0);
        let mut lost = false;
        for part in parts(pieces) {
            if outcomes[part.piece].is_err() {
                continue;
            }
            if lost {
                outcomes[part.piece] = Err(Error::Engine("a batch was lost"));
                continue;
            }
            chunk[count] = Some(part);
            count += 1;
            pending += part.len;
            if pending >= CHUNK || count == SEGMENTS_MAX {
                lost = self.write_chunk(&chunk[..count], buffer, outcomes).is_err();
                (count, pending) = (0, 0);
            }
        }
        if count > 0 {
            let _ = self.write_chunk(&chunk[..count], buffer, outcomes);
        }
    }

    fn flush(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::FlushFailed);
        }
        self.backing.sync().map_err(|source| {
            // The kernel tells of a failed write once, and then forgets it.
            self.failed.store(true, Ordering::Release);
            Error::Io { doing: "flushing", source }
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        check(self.len, self.segment.sector_size, offset, len)?;
        if !self.options.discard || len == 0 {
            return Ok(());
        }
        match self.backing.punch(self.place(offset), len) {
            // A discard is a hint.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Ok(()),
            other => other.map_err(Error::io("discarding")),
        }
    }

    /// A hole in the backing reads as what zeros decrypt to: not as zeros.
    fn extent(&self, offset: u64, len: u64) -> Result<Extent> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) || len == 0 {
            return Err(Error::Range);
        }
        let found = self.backing.allocated(self.place(offset), len);
        let (len, allocated) = found.map_err(Error::io("looking for holes"))?;
        Ok(Extent { len, allocated, zero: false })
    }
}

impl Volume {
    /// Decrypts a part from where the kernel keeps it; false when that is not
    /// to be had, and `bytes` are anything.
    fn read_mapped(&self, part: Part, bytes: &mut [u8]) -> bool {
        part.len >= MAPPED_LEN_MIN
            && self.backing.read_mapped(self.place(part.offset), part.len, &mut |from| {
                self.cipher.cross(self.unit(part.offset), from, bytes)
            })
    }

    /// Encrypts parts together and writes each.
    ///
    /// # Errors
    /// When the engine failed: the whole buffer may be lost then.
    fn write_chunk(
        &self,
        parts: &[Option<Part>],
        buffer: &mut Buffer,
        outcomes: &mut [Result<()>],
    ) -> std::result::Result<(), ()> {
        let mut list = self.cipher.list();
        for part in parts.iter().flatten() {
            self.cipher.add(&mut list, part.start, part.len, self.unit(part.offset));
        }
        if let Err(error) = self.cipher.apply(Operation::EncryptSectors, buffer, list) {
            fail(outcomes, parts.iter().flatten().map(|part| part.piece), engine_fault(&error));
            return Err(());
        }
        for part in parts.iter().flatten() {
            let bytes = &buffer[part.start..][..part.len];
            if let Err(source) = self.backing.write_at(bytes, self.place(part.offset)) {
                outcomes[part.piece] = Err(Error::Io { doing: "writing", source });
            }
        }
        Ok(())
    }
}
