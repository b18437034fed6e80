//! The two stored files of a journal: named, sized, read and written by slot.

use strongroom_engine::{AssociatedData, Buffer};
use strongroom_format::vault::WriteSession;
use strongroom_format::vault::journal::{
    CLEAR_LEN, SEGMENTS, SLOT_LEN, SegmentHeader, SegmentStart, segment,
};
use strongroom_format::vault::record::Place;
use strongroom_store::{Access, AllocateMode, File, FileRef, Kind, Node, NodeRef, RenameMode};
use strongroom_units::BlockSize;

use crate::error::{Damage, Error, Result};
use crate::reading::{copy_at, read_at};
use crate::sealer::{Purpose, Sealer};

/// What is said of a FIFO, symlink or directory in place of a segment.
const NO_FILE: &str = "a journal in .strongroom is no file";

/// The segments of one session's journal.
pub(crate) struct Segments {
    files: [FileRef; SEGMENTS as usize],
}

/// The place `slots` behind `place`.
pub(crate) fn after(place: Place, slots: u32) -> Place {
    Place { slot: place.slot + slots, ..place }
}

/// Slots that the image of a block takes.
pub(crate) fn slots_of(size: BlockSize) -> u32 {
    (size.bytes() / SLOT_LEN as u64) as u32
}

/// A segment's name in `.strongroom`.
pub(crate) fn name(session: WriteSession, segment: u8) -> Vec<u8> {
    format!("journal.{session}.{segment}").into_bytes()
}

impl Segments {
    /// Creates both segments, with all their space reserved.
    pub(crate) fn create(directory: &NodeRef, session: WriteSession, slots: u32) -> Result<Segments> {
        let create = |segment| -> Result<FileRef> {
            let (_, file) = directory.create(&name(session, segment), 0o600)?;
            let len = u64::from(slots) * SLOT_LEN as u64;
            match file.allocate(AllocateMode::Extend, 0, len) {
                // A store that cannot reserve is written to instead.
                Err(error) if error.errno() == crate::error::errno::EOPNOTSUPP => fill(&file, len)?,
                other => other?,
            }
            Ok(file)
        };
        Ok(Segments { files: [create(0)?, create(1)?] })
    }

    /// Opens both segments.
    ///
    /// # Errors
    /// Damage when something else has the name of one, or what the store reports.
    pub(crate) fn open(directory: &NodeRef, session: WriteSession, access: Access) -> Result<Segments> {
        let open = |segment| -> Result<FileRef> {
            let node = directory.lookup(&name(session, segment))?;
            match node.kind() {
                Kind::File => Ok(node.open(access)?),
                _ => Err(Error::Damaged(Damage::Journal(NO_FILE))),
            }
        };
        Ok(Segments { files: [open(0)?, open(1)?] })
    }

    /// Opens both segments of a session that the header lists, to be read. It
    /// has a journal: both its files are durable before the header that lists
    /// it, and removed after the one that does not any more.
    ///
    /// # Errors
    /// Damage when one is missing; as [`Segments::open`].
    pub(crate) fn open_listed(directory: &NodeRef, session: WriteSession) -> Result<Segments> {
        Segments::open(directory, session, Access::Read).map_err(|error| match error.is_not_found() {
            true => Error::Damaged(Damage::Journal("the journal is missing")),
            false => error,
        })
    }

    /// What is read from now on is not older than this call.
    ///
    /// # Errors
    /// What the store reports.
    pub(crate) fn refresh(&self) -> Result<()> {
        Ok(self.files.iter().try_for_each(|file| file.refresh())?)
    }

    /// Whether a file of `.strongroom` is a segment of this session.
    pub(crate) fn is_of(file: &[u8], session: WriteSession) -> bool {
        (0..SEGMENTS).any(|segment| name(session, segment) == file)
    }

    /// Removes whichever segments of the session there are.
    pub(crate) fn remove(directory: &dyn Node, session: WriteSession) -> Result<()> {
        for segment in 0..SEGMENTS {
            match directory.remove(&name(session, segment)) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves whichever segments of the session there are to another directory.
    pub(crate) fn move_to(directory: &dyn Node, to: &dyn Node, session: WriteSession) -> Result<()> {
        for segment in 0..SEGMENTS {
            let name = name(session, segment);
            match directory.rename(&name, to, &name, RenameMode::Replace) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(to.sync()?)
    }

    pub(crate) fn file(&self, segment: u8) -> &FileRef {
        &self.files[usize::from(segment)]
    }

    /// Fills `bytes` from `place` on; fewer at the end of the segment.
    pub(crate) fn read(&self, place: Place, bytes: &mut [u8]) -> Result<usize> {
        Ok(read_at(&**self.file(place.segment), bytes, offset(place))?)
    }

    /// Fills all of `bytes` from `place` on.
    ///
    /// # Errors
    /// Damage of the journal when the segment ends before.
    pub(crate) fn read_whole(&self, place: Place, bytes: &mut [u8]) -> Result<()> {
        if self.read(place, bytes)? < bytes.len() {
            return Err(CUT_OFF);
        }
        Ok(())
    }

    /// Copies `len` bytes from `place` on to `at` of `file`.
    ///
    /// # Errors
    /// As [`Segments::read_whole`].
    pub(crate) fn copy_whole(&self, place: Place, file: &dyn File, at: u64, len: u64) -> Result<()> {
        if copy_at((&**self.file(place.segment), offset(place)), (file, at), len)? < len {
            return Err(CUT_OFF);
        }
        Ok(())
    }

    /// Writes `bytes` from `place` on.
    pub(crate) fn write(&self, place: Place, bytes: &[u8]) -> Result<()> {
        Ok(self.file(place.segment).write_at(bytes, offset(place))?)
    }

    /// Writes a segment's header.
    pub(crate) fn write_header(
        &self,
        sealer: &Sealer,
        segment_index: u8,
        mut header: SegmentHeader,
        begin: &SegmentStart,
    ) -> Result<()> {
        let mut buffer = Buffer::new(SLOT_LEN);
        buffer[CLEAR_LEN..segment::LEN].copy_from_slice(&begin.encode());
        let (nonce, tag) =
            sealer.seal_one(Purpose::Journal, &mut buffer, CLEAR_LEN..segment::LEN, |nonce| {
                header.nonce = *nonce;
                AssociatedData::new(&header.associated_data())
            })?;
        header.nonce = nonce;
        header.tag = tag;
        buffer[..CLEAR_LEN].copy_from_slice(&header.encode());
        Ok(self.file(segment_index).write_at(&buffer, 0)?)
    }

    /// Reads a segment's header; `None` when it does not open.
    pub(crate) fn read_header(
        &self,
        sealer: &Sealer,
        segment_index: u8,
        session: WriteSession,
    ) -> Result<Option<(SegmentHeader, SegmentStart)>> {
        let mut buffer = Buffer::new(SLOT_LEN);
        if read_at(&**self.file(segment_index), &mut buffer, 0)? < SLOT_LEN {
            return Ok(None);
        }
        let Ok((header, _)) = SegmentHeader::decode(&buffer) else { return Ok(None) };
        let associated = header.associated_data();
        let opened = sealer.open_one(
            Purpose::Journal,
            &mut buffer,
            CLEAR_LEN..segment::LEN,
            header.nonce,
            header.tag,
            &associated,
        )?;
        if !opened || header.session != session {
            return Ok(None);
        }
        let sealed = buffer[CLEAR_LEN..segment::LEN].try_into().expect("the sealed part's length");
        Ok(SegmentStart::decode(sealed).ok().map(|begin| (header, begin)))
    }
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Segments")
    }
}

const CUT_OFF: Error = Error::Damaged(Damage::Journal("an image in the journal is cut off"));

fn offset(place: Place) -> u64 {
    u64::from(place.slot) * SLOT_LEN as u64
}

fn fill(file: &FileRef, len: u64) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let part = zeros.len().min((len - at) as usize);
        file.write_at(&zeros[..part], at)?;
        at += part as u64;
    }
    Ok(())
}
