//! A tar stream as entries: headers of GNU tar, ustar and PAX, with the
//! records and long names that stand before them.
//!
//! Not the reader of the `tar` crate, whose PAX records end at a newline,
//! which names and attributes may have.
//!
//! Source: POSIX.1-2017, pax, "pax Interchange Format"; tar(5) of GNU tar.

use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::Error;
use crate::Pairs;

const BLOCK: usize = 512;
/// Longest name or set of records before an entry.
const AHEAD_MAX: u64 = 8 << 20;

/// Longest name of an entry: twice what Linux takes in one call. No tree is so
/// deep that it could not be removed.
const NAME_MAX: usize = 8192;

/// An entry's header and what stood before it.
pub(crate) struct Head {
    pub(crate) header: Header,
    pub(crate) name: Vec<u8>,
    /// What a link points at.
    pub(crate) target: Option<Vec<u8>>,
    /// Bytes of content.
    pub(crate) len: u64,
    /// PAX records, the last of each key in force.
    pub(crate) records: Pairs,
}

/// Reads entries one after the other. As a reader it gives the content of the
/// last.
pub(crate) struct Entries<R> {
    from: R,
    left: u64,
    padding: u64,
}

fn malformed(text: &'static str) -> Error {
    Error::Archive(io::Error::new(io::ErrorKind::InvalidData, text))
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(from: R) -> Entries<R> {
        Entries { from, left: 0, padding: 0 }
    }

    /// The next entry; none after the archive's end, to which everything is
    /// read.
    pub(crate) fn next(&mut self) -> Result<Option<Head>, Error> {
        let (mut name, mut target, mut records) = (None, None, Vec::new());
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.entry_type();
            self.begin(header.entry_size().map_err(Error::Archive)?);
            if kind.is_gnu_longname() {
                name = Some(text(self.ahead()?));
            } else if kind.is_gnu_longlink() {
                target = Some(text(self.ahead()?));
            } else if kind.is_pax_local_extensions() {
                records = parse(&self.ahead()?)?;
            } else if kind == EntryType::XGlobalHeader {
                // What it may say for all entries is nothing that is kept.
                self.ahead()?;
            } else {
                return self.head(header, name, target, records).map(Some);
            }
        }
    }

    fn head(
        &mut self,
        header: Header,
        name: Option<Vec<u8>>,
        target: Option<Vec<u8>>,
        records: Pairs,
    ) -> Result<Head, Error> {
        let is_sparse = records.iter().any(|(key, _)| key.starts_with(b"GNU.sparse."));
        if header.entry_type().is_gnu_sparse() || is_sparse {
            return Err(malformed("it has sparse files, which are not supported: pack it without --sparse"));
        }
        let record = |wanted: &[u8]| records.iter().rev().find(|(key, _)| key == wanted);
        if let Some((_, len)) = record(b"size") {
            let len = std::str::from_utf8(len).ok().and_then(|len| len.parse().ok());
            self.begin(len.ok_or_else(|| malformed("a size that is no number"))?);
        }
        let of_record = |key: &[u8]| record(key).map(|(_, value)| value.clone());
        let of_header = || header.link_name_bytes().map(|name| name.into_owned());
        let target = of_record(b"linkpath").or(target).or_else(of_header);
        let name = of_record(b"path").or(name).unwrap_or_else(|| header.path_bytes().into_owned());
        if name.len() > NAME_MAX {
            return Err(malformed("a name that is longer than any system has"));
        }
        Ok(Head { name, target, len: self.left, records, header })
    }

    fn begin(&mut self, len: u64) {
        (self.left, self.padding) = (len, len.wrapping_neg() % BLOCK as u64);
    }

    /// The next header; none at the end.
    fn header(&mut self) -> Result<Option<Header>, Error> {
        let rest = self.left.checked_add(self.padding);
        self.skip(rest.ok_or_else(|| malformed("a size that no file has"))?)?;
        let mut block = [0; BLOCK];
        self.from.read_exact(&mut block).map_err(Error::Archive)?;
        if block.iter().all(|&byte| byte == 0) {
            // What writes into a pipe must not find it closed.
            io::copy(&mut self.from, &mut io::sink()).map_err(Error::Archive)?;
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        // Spaces stand for the sum itself.
        let sum: u32 = block[..148].iter().chain(&block[156..]).map(|&byte| u32::from(byte)).sum();
        match header.cksum() {
            Ok(told) if told == sum + 8 * 32 => Ok(Some(header)),
            _ => Err(malformed("a header whose checksum is wrong")),
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        let skipped = io::copy(&mut (&mut self.from).take(bytes), &mut io::sink()).map_err(Error::Archive)?;
        (self.left, self.padding) = (0, 0);
        if skipped == bytes { Ok(()) } else { Err(Error::Archive(io::ErrorKind::UnexpectedEof.into())) }
    }

    /// The whole content of what stands before an entry.
    fn ahead(&mut self) -> Result<Vec<u8>, Error> {
        if self.left > AHEAD_MAX {
            return Err(malformed("a name or a record longer than 8 MiB"));
        }
        let mut bytes = vec![0; self.left as usize];
        self.from.read_exact(&mut bytes).map_err(Error::Archive)?;
        self.left = 0;
        Ok(bytes)
    }
}

impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.from).take(self.left).read(buffer)?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// A name up to its NUL.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    bytes
}

/// Records of the form `LEN KEY=VALUE\n`, in which LEN counts all of it.
fn parse(mut bytes: &[u8]) -> Result<Pairs, Error> {
    let wrong = || malformed("a PAX record that is spelled wrongly");
    let mut records = Vec::new();
    while bytes.first().is_some_and(|&byte| byte != 0) {
        let blank = bytes.iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
        let len = std::str::from_utf8(&bytes[..blank]).ok().and_then(|len| len.parse::<usize>().ok());
        let record = len.and_then(|len| bytes.get(blank + 1..len)).ok_or_else(wrong)?;
        let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
        let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(wrong)?;
        records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        bytes = &bytes[blank + 1 + record.len() + 1..];
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_may_hold_newlines_and_are_checked() {
        let read = parse(b"19 a=one\ntwo\nthree\n6 b=2\n").expect("sound");
        assert_eq!(read, [(b"a".to_vec(), b"one\ntwo\nthree".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
        for wrong in [
            &b"6 a=1"[..],
            b"x a=1\n",
            b"99 a=1\n",
            b"0 a=1\n",
            b"3 a=1\n",
            b"5 ab\n",
            b"18446744073709551615 a=1\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
