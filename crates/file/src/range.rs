//! Parts of a file that can be sought in.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use strongroom_engine::{Buffer, Engine};
use strongroom_format::age::{CHUNK_LEN, PAYLOAD_NONCE_LEN, SEALED_CHUNK_LEN, plain_len};

use crate::identities::Identities;
use crate::payload::Cipher;
use crate::{Error, armor, header};

/// An encrypted file of which any part can be read. Its last chunk was
/// verified before all others, so that a file which was cut is refused.
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
        let reader = BufReader::new(file.try_clone().map_err(Error::Input)?);
        let (mut reader, armored) = armor::detect(reader).map_err(Error::Input)?;
        if armored {
            return Err(Error::Usage("an armored file cannot be sought in: decrypt it whole".into()));
        }
        let header = header::read_header(&mut reader)?;
        let file_key = header::unlock(&header, identities)?;
        let missing = || Error::Payload { chunk: 0, what: "the payload is missing" };
        let mut nonce = [0; PAYLOAD_NONCE_LEN];
        reader.read_exact(&mut nonce).map_err(|_| missing())?;
        let start = (header.encode().len() + PAYLOAD_NONCE_LEN) as u64;
        let sealed = file.metadata().map_err(Error::Input)?.len().saturating_sub(start);
        let last = sealed.saturating_sub(1) / SEALED_CHUNK_LEN as u64;
        let cut = Error::Payload { chunk: last, what: "the payload was cut off" };
        let len = plain_len(sealed).ok_or(cut)?;
        let cipher = Cipher::new(engine, &file_key, &nonce)?;
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

    /// The plaintext from `offset` on, up to the end of its chunk: at least one
    /// byte before the end of the file, and none after.
    ///
    /// # Errors
    /// [`Error::Payload`] for a chunk that does not verify, [`Error::Input`].
    pub fn read(&self, offset: u64) -> Result<Vec<u8>, Error> {
        if offset >= self.len {
            return Ok(Vec::new());
        }
        let chunk = self.chunk(offset / CHUNK_LEN as u64)?;
        Ok(chunk[(offset % CHUNK_LEN as u64) as usize..].to_vec())
    }

    fn chunk(&self, chunk: u64) -> Result<Vec<u8>, Error> {
        let at = chunk * SEALED_CHUNK_LEN as u64;
        let sealed = (self.sealed - at).min(SEALED_CHUNK_LEN as u64) as usize;
        let last = at + sealed as u64 == self.sealed;
        let mut buffer = Buffer::new(sealed);
        self.file.read_exact_at(&mut buffer, self.start + at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Changed,
            _ => Error::Input(error),
        })?;
        if self.cipher.open_one(&mut buffer, sealed, chunk, last)? {
            return Ok(buffer[..sealed - strongroom_format::age::TAG_LEN].to_vec());
        }
        let what =
            if last { "the payload was cut off, or its end is damaged" } else { "the payload is damaged" };
        Err(Error::Payload { chunk, what })
    }
}
