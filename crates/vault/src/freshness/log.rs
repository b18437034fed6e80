//! The freshness file as a log of sealed frames (section 5 of
//! `docs/format/freshness.md`): read at the beginning, appended to, and
//! written anew when it has grown too long or a write of it has failed.

use strongroom_engine::{AssociatedData, Buffer};
use strongroom_format::freshness::{FileHeader, FrameHeader, Operation, SEALED_MAX, file, frame};
use strongroom_store::{Access, FileRef, NodeRef, RenameMode};

use super::Trusted;
use crate::error::{Damage, Error, Result};
use crate::reading::read_at;
use crate::sealer::{Purpose, Sealer};

/// A file shorter than this is not written anew for its length.
const REWRITE_MIN: u64 = 256 << 10;

/// Where the frames go.
pub(super) struct Log {
    directory: NodeRef,
    name: Vec<u8>,
    header: FileHeader,
    file: Option<FileRef>,
    /// Where the next frame goes.
    end: u64,
    number: u64,
    tag: [u8; 16],
    /// The length when it was last written anew.
    compact_len: u64,
    /// A write has failed, and the file may say less than was appended.
    is_behind: bool,
}

/// What a log was found to hold.
pub(super) enum Found {
    /// There is no file.
    Nothing,
    /// Its operations, in order.
    Operations(Vec<Operation>),
}

fn failed(error: strongroom_store::Error) -> Error {
    Error::Freshness(error)
}

fn refused(what: &'static str) -> Error {
    Error::Damaged(Damage::Record(what))
}

impl Log {
    /// Reads the file, if there is one. `expected` is its header but for the
    /// record id.
    pub(super) fn open(
        trusted: &Trusted,
        sealer: &Sealer,
        expected: FileHeader,
        writable: bool,
    ) -> Result<(Log, Found)> {
        let (directory, name) = (trusted.directory.clone(), trusted.name.clone());
        let mut log = Log {
            directory,
            name,
            header: expected,
            file: None,
            end: 0,
            number: 0,
            tag: [0; 16],
            compact_len: 0,
            is_behind: false,
        };
        let node = match log.directory.lookup(&log.name) {
            Ok(node) => node,
            Err(error) if error.is_not_found() => return Ok((log, Found::Nothing)),
            Err(error) => return Err(failed(error)),
        };
        let access = if writable { Access::ReadWrite } else { Access::Read };
        let file = node.open(access).map_err(failed)?;
        let operations = log.read(&*file, sealer)?;
        log.file = Some(file);
        log.compact_len = log.end;
        Ok((log, Found::Operations(operations)))
    }

    fn read(&mut self, stored: &dyn strongroom_store::File, sealer: &Sealer) -> Result<Vec<Operation>> {
        let mut bytes = [0; file::LEN];
        if read_at(stored, &mut bytes, 0).map_err(failed)? < file::LEN {
            return Err(refused("the freshness file is shorter than any"));
        }
        let header = FileHeader::decode(&bytes).map_err(|error| {
            refused(match error.is_unsupported() {
                true => "the freshness file was made by a newer version",
                false => "what is named as freshness file is none",
            })
        })?;
        if header.vault != self.header.vault {
            return Err(refused("the freshness file is of another vault"));
        }
        if (FileHeader { record: self.header.record, ..header }) != self.header {
            return Err(refused("the freshness file was made for another suite or key of the vault"));
        }
        self.header = header;
        self.end = file::LEN as u64;
        let mut operations = Vec::new();
        while let Some(sealed) = self.read_frame(stored, sealer)? {
            let read = Operation::decode_all(&sealed);
            operations.extend(read.map_err(|_| refused("the freshness file opens and is malformed"))?);
        }
        if self.number == 0 {
            return Err(refused("the freshness file is not authentic"));
        }
        Ok(operations)
    }

    /// The sealed part of the next frame, opened; `None` at the end.
    fn read_frame(
        &mut self,
        stored: &dyn strongroom_store::File,
        sealer: &Sealer,
    ) -> Result<Option<Vec<u8>>> {
        let mut clear = [0; frame::LEN];
        if read_at(stored, &mut clear, self.end).map_err(failed)? < frame::LEN {
            return Ok(None);
        }
        let Ok(header) = FrameHeader::decode(&clear) else { return Ok(None) };
        if header.number != self.number {
            return Ok(None);
        }
        let mut buffer = Buffer::new(header.sealed_len);
        let at = self.end + frame::LEN as u64;
        if read_at(stored, &mut buffer, at).map_err(failed)? < header.sealed_len {
            return Ok(None);
        }
        let bound = header.associated_data(&self.header, &self.tag);
        let whole = 0..header.sealed_len;
        if !sealer.open_one(Purpose::Freshness, &mut buffer, whole, header.nonce, header.tag, &bound)? {
            return Ok(None);
        }
        self.passed(&header);
        Ok(Some(buffer.to_vec()))
    }

    fn passed(&mut self, header: &FrameHeader) {
        self.end += (frame::LEN + header.sealed_len) as u64;
        self.number += 1;
        self.tag = header.tag;
    }

    /// Whether the file has to be written anew before anything is appended:
    /// there is none, or a write has failed.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind || self.file.is_none()
    }

    /// Whether the file is more than twice as long as need be.
    pub(super) fn is_long(&self) -> bool {
        self.end > REWRITE_MIN.max(2 * self.compact_len)
    }

    /// It could not be written anew: asked again when it is twice as long.
    pub(super) fn put_up_with_length(&mut self) {
        self.compact_len = self.end;
    }

    /// The file says less than it should: it is to be written anew.
    pub(super) fn set_behind(&mut self) {
        self.is_behind = true;
    }

    /// Appends operations and makes them durable.
    pub(super) fn append(&mut self, operations: &[Operation], sealer: &Sealer) -> Result<()> {
        if operations.is_empty() {
            return Ok(());
        }
        let appended = self.append_to_file(operations, sealer);
        self.is_behind |= appended.is_err();
        appended
    }

    fn append_to_file(&mut self, operations: &[Operation], sealer: &Sealer) -> Result<()> {
        let file = self.file.clone().ok_or(refused("there is no freshness file"))?;
        // Behind the end may stand what a crash cut short.
        if file.len().map_err(failed)? != self.end {
            file.set_len(self.end).map_err(failed)?;
        }
        self.write(&file, operations, sealer)?;
        file.sync_data().map_err(failed)
    }

    /// Writes the file anew, so that it holds these operations alone. After an
    /// error it is as it was before.
    pub(super) fn rewrite(&mut self, operations: &[Operation], sealer: &Sealer) -> Result<()> {
        let passing = [&self.name[..], b".new"].concat();
        match self.directory.remove(&passing) {
            Err(error) if !error.is_not_found() => return Err(failed(error)),
            _ => {}
        }
        let (_, file) = self.directory.create(&passing, 0o600).map_err(failed)?;
        let mut record = [0; 16];
        getrandom::fill(&mut record).map_err(|_| Error::Entropy)?;
        let mut fresh = Log {
            directory: self.directory.clone(),
            name: self.name.clone(),
            header: FileHeader { record, ..self.header },
            file: None,
            end: file::LEN as u64,
            number: 0,
            tag: [0; 16],
            compact_len: 0,
            is_behind: false,
        };
        file.write_at(&fresh.header.encode(), 0).map_err(failed)?;
        fresh.write(&file, operations, sealer)?;
        file.sync_all().map_err(failed)?;
        self.directory
            .rename(&passing, &*self.directory, &self.name, RenameMode::Replace)
            .and_then(|()| self.directory.sync())
            .map_err(failed)?;
        fresh.compact_len = fresh.end;
        fresh.file = Some(file);
        *self = fresh;
        Ok(())
    }

    fn write(&mut self, file: &FileRef, operations: &[Operation], sealer: &Sealer) -> Result<()> {
        let mut sealed = Vec::new();
        for operation in operations {
            if sealed.len() + operation.encoded_len() > SEALED_MAX {
                self.write_frame(file, &sealed, sealer)?;
                sealed.clear();
            }
            let encoded = operation.encode(&mut sealed);
            encoded.map_err(|_| Error::Engine("an operation of the freshness file is malformed"))?;
        }
        if sealed.is_empty() { Ok(()) } else { self.write_frame(file, &sealed, sealer) }
    }

    fn write_frame(&mut self, file: &FileRef, sealed: &[u8], sealer: &Sealer) -> Result<()> {
        let mut header =
            FrameHeader { sealed_len: sealed.len(), number: self.number, nonce: [0; 24], tag: [0; 16] };
        let mut buffer = Buffer::new(frame::LEN + sealed.len());
        buffer[frame::LEN..].copy_from_slice(sealed);
        let range = frame::LEN..frame::LEN + sealed.len();
        let bound = AssociatedData::new(&header.associated_data(&self.header, &self.tag));
        (header.nonce, header.tag) = sealer.seal_one(Purpose::Freshness, &mut buffer, range, |_| bound)?;
        buffer[..frame::LEN].copy_from_slice(&header.encode());
        file.write_at(&buffer, self.end).map_err(failed)?;
        self.passed(&header);
        Ok(())
    }
}
