//! Parts of a file that can be sought in.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use age_core::format::FileKey;
use strongroom_engine::{Buffer, Engine};
use strongroom_format::age::{CHUNK_LEN, Header, PAYLOAD_NONCE_LEN, SEALED_CHUNK_LEN, TAG_LEN, plain_len};

use crate::identities::Identities;
use crate::payload::Cipher;
use crate::{Error, armor, header, keys};

/// An encrypted file of which any part can be read, from several threads at
/// once. Its last chunk was verified before all others, so that a file which
/// was cut is refused.
pub struct Ranges {
    file: File,
    cipher: Cipher,
    start: u64,
    sealed: u64,
    len: u64,
}

impl Ranges {
    /// Opens a file, and verifies its length.
    ///
    /// # Errors
    /// As [`crate::decrypt`]; [`Error::Usage`] for armored files.
    pub fn open(file: File, identities: &Identities, engine: &Arc<dyn Engine>) -> Result<Ranges, Error> {
        let begun = Begun::of(&file)?;
        let file_key = header::unlock(&begun.header, identities)?;
        Ranges::verified(file, &begun, &file_key, engine)
    }

    /// Finds the key of a file, with which [`Ranges::open_with`] opens it, in
    /// another process for one.
    ///
    /// # Errors
    /// As [`Ranges::open`], but for what is wrong with the payload.
    pub fn unlock(file: &File, identities: &Identities) -> Result<FileKey, Error> {
        header::unlock(&Begun::of(file)?.header, identities)
    }

    /// Opens a file with its key, and verifies its length.
    ///
    /// # Errors
    /// As [`Ranges::open`]; [`Error::HeaderForged`] when the key is another's.
    pub fn open_with(file: File, file_key: &FileKey, engine: &Arc<dyn Engine>) -> Result<Ranges, Error> {
        let begun = Begun::of(&file)?;
        let authenticated = Header::authenticated(&begun.header.stanzas);
        if !keys::is_mac(file_key, &authenticated, &begun.header.mac) {
            return Err(Error::HeaderForged);
        }
        Ranges::verified(file, &begun, file_key, engine)
    }

    fn verified(
        file: File,
        begun: &Begun,
        file_key: &FileKey,
        engine: &Arc<dyn Engine>,
    ) -> Result<Ranges, Error> {
        let start = (begun.header.encode().len() + PAYLOAD_NONCE_LEN) as u64;
        let sealed = file.metadata().map_err(Error::Input)?.len().saturating_sub(start);
        let last = sealed.saturating_sub(1) / SEALED_CHUNK_LEN as u64;
        let cut = Error::Payload { chunk: last, what: "the payload was cut off" };
        let len = plain_len(sealed).ok_or(cut)?;
        let cipher = Cipher::new(engine, file_key, &begun.nonce)?;
        let ranges = Ranges { file, cipher, start, sealed, len };
        ranges.chunk(last)?;
        Ok(ranges)
    }

    /// Bytes of plaintext.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a file of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills the start of `into` with the plaintext from `offset` on, up to the
    /// end of its chunk, and gives how many bytes that are: one at least before
    /// the end of the file, and none after.
    ///
    /// # Errors
    /// [`Error::Payload`] for a chunk that does not verify, [`Error::Input`],
    /// [`Error::Changed`] for a file that was cut meanwhile.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        if offset >= self.len || into.is_empty() {
            return Ok(0);
        }
        let chunk = self.chunk(offset / CHUNK_LEN as u64)?;
        let there = &chunk[(offset % CHUNK_LEN as u64) as usize..chunk.len() - TAG_LEN];
        let count = there.len().min(into.len());
        into[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    /// The chunk's plaintext, with its tag after it.
    fn chunk(&self, chunk: u64) -> Result<Buffer, Error> {
        let at = chunk * SEALED_CHUNK_LEN as u64;
        let sealed = (self.sealed - at).min(SEALED_CHUNK_LEN as u64) as usize;
        let last = at + sealed as u64 == self.sealed;
        let mut buffer = self.cipher.buffer(sealed);
        self.file.read_exact_at(&mut buffer, self.start + at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Changed,
            _ => Error::Input(error),
        })?;
        if self.cipher.open_one(&mut buffer, sealed, chunk, last)? {
            return Ok(buffer);
        }
        let what =
            if last { "the payload was cut off, or its end is damaged" } else { "the payload is damaged" };
        Err(Error::Payload { chunk, what })
    }
}

/// What stands before the first chunk.
struct Begun {
    header: Header,
    nonce: [u8; PAYLOAD_NONCE_LEN],
}

impl Begun {
    fn of(file: &File) -> Result<Begun, Error> {
        let mut from = file.try_clone().map_err(Error::Input)?;
        std::io::Seek::rewind(&mut from).map_err(Error::Input)?;
        let (mut reader, armored) = armor::detect(BufReader::new(from)).map_err(Error::Input)?;
        if armored {
            return Err(Error::Usage("an armored file cannot be sought in: decrypt it whole".into()));
        }
        let header = header::read_header(&mut reader)?;
        let missing = || Error::Payload { chunk: 0, what: "the payload is missing" };
        let mut nonce = [0; PAYLOAD_NONCE_LEN];
        reader.read_exact(&mut nonce).map_err(|_| missing())?;
        Ok(Begun { header, nonce })
    }
}
