//! Which contents one file may have after a crash.
//!
//! Of each page (4 KiB) every version since the last acknowledgement may be there, each by itself: the
//! kernel writes back page by page, in no promised order. A write that makes the file longer may have
//! stopped at any page.
//!
//! A page that nobody was promised may also be of two versions, with a write between them. Since Linux
//! 6.16 FUSE hands out the very pages of the page cache, and a program may write to one while it is
//! copied to the daemon; it stays dirty and comes again, unless a crash is sooner. How far it goes was
//! settled when it was taken: of a page that was taken with the end of the file in it, and waited while
//! the file grew, only what had been the file is copied, as new as it is by then. A server without any
//! encryption gets such pages too, under a load made for it 31 of 10,577. They are counted. What the
//! vault itself might tear would not open, since a block is sealed whole.

use std::collections::{BTreeMap, BTreeSet};

use super::pattern;

const PAGE: usize = 4096;

/// The allowed contents of one file.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    current: Vec<u8>,
    /// Older versions of pages that may be there, in their order.
    older: BTreeMap<usize, Vec<Version>>,
    /// Lengths that may be there.
    lens: BTreeSet<u64>,
    /// Lengths that growing writes passed through, at page boundaries.
    passed: Vec<(u64, u64)>,
    /// Something was acknowledged.
    synced: bool,
    /// The file is at least this long.
    len_min: u64,
    /// Every action that wrote here, for messages.
    writers: Vec<u64>,
}

/// A page as it once was, zeros behind the end.
#[derive(Clone, Debug)]
struct Version {
    bytes: Vec<u8>,
    /// How many of them were within the file.
    end: usize,
    /// It was a write that made the next version out of it.
    written_to: bool,
}

impl Contents {
    /// A new, empty file.
    pub fn new() -> Self {
        Self { lens: BTreeSet::from([0]), ..Self::default() }
    }

    /// A file of which this is known to be durable.
    pub fn durable(bytes: Vec<u8>) -> Self {
        let mut contents = Self { current: bytes, ..Self::default() };
        contents.acknowledge();
        contents
    }

    /// Whether anything of it was ever promised.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Bytes of the newest version.
    pub(crate) fn len(&self) -> u64 {
        self.current.len() as u64
    }

    /// What is the newest version now is promised.
    pub fn acknowledge(&mut self) {
        self.older.clear();
        self.passed.clear();
        self.lens = BTreeSet::from([self.len()]);
        self.synced = true;
        self.len_min = self.len();
    }

    /// A write with `O_SYNC` has returned: what it wrote is promised, with the rest of its pages, and
    /// nothing else of the file is. (`generic_write_sync` in the kernel: the range, not the file.)
    pub fn acknowledge_range(&mut self, offset: u64, len: u64) {
        for page in offset as usize / PAGE..((offset + len) as usize).div_ceil(PAGE) {
            self.older.remove(&page);
        }
        self.synced = true;
        self.len_min = self.len_min.max(offset + len);
    }

    /// The action `tag` writes.
    pub fn write(&mut self, tag: u64, offset: u64, len: u64) {
        let end = offset + len;
        let before = self.len();
        self.keep_pages(offset.min(before), end, true);
        if end > before {
            self.current.resize(end as usize, 0);
            self.passed.push((before, end));
            self.lens.insert(end);
        }
        self.current[offset as usize..end as usize].copy_from_slice(&pattern::bytes(
            tag,
            offset,
            len as usize,
        ));
        self.writers.push(tag);
    }

    /// The file is cut or extended.
    pub fn set_len(&mut self, len: u64) {
        self.keep_pages(len.min(self.len()), len.max(self.len()), false);
        self.len_min = self.len_min.min(len);
        self.current.resize(len as usize, 0);
        self.lens.insert(len);
    }

    /// A range becomes a hole; the length stays.
    pub fn punch(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.len());
        if offset < end {
            self.keep_pages(offset, end, false);
            self.current[offset as usize..end as usize].fill(0);
        }
    }

    /// Remembers the pages of a range as they are, before a write or another change.
    fn keep_pages(&mut self, from: u64, to: u64, written_to: bool) {
        for page in from as usize / PAGE..(to as usize).div_ceil(PAGE) {
            let bytes = page_of(&self.current, page);
            let end = self.current.len().saturating_sub(page * PAGE).min(PAGE);
            let versions = self.older.entry(page).or_default();
            match versions.last_mut() {
                Some(last) if last.bytes == bytes && last.end == end => last.written_to |= written_to,
                _ => versions.push(Version { bytes, end, written_to }),
            }
        }
    }

    /// Whether a crash may have left `found`; how many of its pages are of two versions.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn explain(&self, found: &[u8]) -> Result<u64, String> {
        if !self.allows_len(found.len() as u64) {
            let lens: Vec<u64> = self.lens.iter().copied().filter(|len| *len >= self.len_min).collect();
            let kind = if self.synced { "synced" } else { "never synced" };
            return Err(format!("{} bytes; a file {kind} may have {lens:?}", found.len()));
        }
        let mut of_two = 0;
        for (page, bytes) in found.chunks(PAGE).enumerate() {
            let current = page_of(&self.current, page);
            let older = self.older.get(&page).map_or(&[][..], Vec::as_slice);
            let fits = |version: &[u8]| version[..bytes.len()] == *bytes;
            if fits(&current) || older.iter().any(|version| fits(&version.bytes)) {
                continue;
            }
            if is_cut_short(bytes, older, &current) {
                of_two += 1;
                continue;
            }
            let newer = older.iter().skip(1).map(|version| &version.bytes).chain([&current]);
            let is_of = |(old, new): (&Version, &Vec<u8>)| {
                old.written_to && (is_joined(bytes, &old.bytes, new) || is_joined(bytes, new, &old.bytes))
            };
            if !older.iter().zip(newer).any(is_of) {
                return Err(self.fault(page, bytes));
            }
            of_two += 1;
        }
        Ok(of_two)
    }

    fn allows_len(&self, len: u64) -> bool {
        if len < self.len_min {
            return false;
        }
        if !self.synced {
            return len <= self.lens.last().copied().unwrap_or(0);
        }
        let passes = |&(from, to): &(u64, u64)| from < len && len < to && len.is_multiple_of(PAGE as u64);
        self.lens.contains(&len) || self.passed.iter().any(passes)
    }

    /// What a page that should not be there consists of.
    fn fault(&self, page: usize, bytes: &[u8]) -> String {
        let start = (page * PAGE) as u64;
        let parts: Vec<String> = bytes
            .chunks(512)
            .enumerate()
            .map(|(sector, part)| {
                let offset = start + sector as u64 * 512;
                if part.iter().all(|&byte| byte == 0) {
                    return "zeros".to_owned();
                }
                match pattern::writer_of(part, offset, self.writers.iter().rev().copied()) {
                    Some(writer) => format!("action {writer}"),
                    None => "unknown".to_owned(),
                }
            })
            .collect();
        format!("page {page} is no version since the last acknowledgement; its sectors: {}", parts.join(", "))
    }
}

/// Whether `bytes` begin as one version does and go on as another.
fn is_joined(bytes: &[u8], first: &[u8], second: &[u8]) -> bool {
    let joint = bytes.iter().zip(first).take_while(|(a, b)| a == b).count();
    bytes[joint..] == second[joint..bytes.len()]
}

/// Whether `bytes` are as a page was after one or more writes, but end where it ended before them.
fn is_cut_short(bytes: &[u8], older: &[Version], current: &Vec<u8>) -> bool {
    let is_of = |index: usize| {
        let end = older[index].end.min(bytes.len());
        if end == 0 || bytes[end..].iter().any(|&byte| byte != 0) {
            return false;
        }
        // Writes alone made each of these out of the one before.
        let writes = older[index..].iter().take_while(|version| version.written_to).count();
        let newer = older[index + 1..].iter().map(|version| &version.bytes).chain([current]);
        newer.take(writes).any(|newer| newer[..end] == bytes[..end])
    };
    (0..older.len()).any(is_of)
}

/// A page, with zeros behind the end.
fn page_of(bytes: &[u8], page: usize) -> Vec<u8> {
    let start = (page * PAGE).min(bytes.len());
    let end = (start + PAGE).min(bytes.len());
    let mut version = bytes[start..end].to_vec();
    version.resize(PAGE, 0);
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[(u64, u64, usize)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(tag, offset, len) in parts {
            let end = offset as usize + len;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset as usize..end].copy_from_slice(&pattern::bytes(tag, offset, len));
        }
        bytes
    }

    #[test]
    fn what_was_synced_has_to_be_there() {
        let mut contents = Contents::new();
        contents.write(1, 0, 10_000);
        contents.acknowledge();
        assert!(contents.explain(&written(&[(1, 0, 10_000)])).is_ok());
        assert!(contents.explain(&[]).is_err(), "nothing is too little");
        assert!(contents.explain(&vec![0; 10_000]).is_err(), "zeros are not what was written");
        assert!(contents.explain(&written(&[(1, 0, 9_999)])).is_err(), "one byte is missing");
    }

    #[test]
    fn a_synchronous_write_promises_its_range_alone() {
        let mut contents = Contents::new();
        contents.write(1, 0, 13_615);
        contents.write(2, 0, 4096);
        contents.acknowledge_range(0, 4096);
        let whole = written(&[(1, 0, 13_615), (2, 0, 4096)]);
        assert!(contents.explain(&whole).is_ok());
        assert!(contents.explain(&whole[..4096]).is_ok());
        assert!(contents.explain(&whole[..4095]).is_err());
        assert!(contents.explain(&written(&[(1, 0, 13_615)])).is_err());
        let mut later_lost = whole.clone();
        later_lost[4096..].fill(0);
        assert!(contents.explain(&later_lost).is_ok());
    }

    #[test]
    fn later_writes_are_there_or_not_page_by_page() {
        let mut contents = Contents::new();
        contents.write(1, 0, 12_288);
        contents.acknowledge();
        contents.write(2, 4096, 8192);
        assert!(contents.explain(&written(&[(1, 0, 12_288)])).is_ok());
        assert!(contents.explain(&written(&[(1, 0, 12_288), (2, 8192, 4096)])).is_ok());
        let torn = written(&[(1, 0, 12_288), (2, 8704, 2048)]);
        let fault = contents.explain(&torn).unwrap_err();
        assert!(
            fault.contains("page 2") && fault.contains("action 2") && fault.contains("action 1"),
            "{fault}"
        );
    }

    #[test]
    fn a_page_may_be_of_two_versions_with_a_write_between_them() {
        let mut contents = Contents::new();
        contents.write(1, 0, 4096);
        contents.acknowledge();
        contents.write(2, 0, 4096);
        contents.write(3, 100, 2000);
        for part in [(2, 0, 1000), (2, 3000, 1096)] {
            assert_eq!(contents.explain(&written(&[(1, 0, 4096), part])), Ok(1));
        }
        assert_eq!(contents.explain(&written(&[(2, 0, 4096), (3, 100, 700)])), Ok(1));
        assert_eq!(contents.explain(&written(&[(2, 0, 4096), (3, 100, 2000)])), Ok(0));
        assert!(contents.explain(&written(&[(1, 0, 4096), (3, 100, 700)])).is_err(), "one lies between");
        contents.acknowledge();
        assert!(contents.explain(&written(&[(2, 0, 4096), (3, 100, 700)])).is_err(), "it was promised");
        contents.punch(0, 4096);
        let mut punched = written(&[(2, 0, 4096), (3, 100, 2000)]);
        punched[..1000].fill(0);
        assert!(contents.explain(&punched).is_err(), "a hole is made at once");
    }

    #[test]
    fn a_page_that_was_taken_ends_where_the_file_did() {
        let mut contents = Contents::new();
        contents.write(1, 0, 19_501);
        contents.write(2, 17_994, 5116);
        contents.write(3, 26_788, 2509);
        contents.acknowledge_range(26_788, 2509);
        // It waited while one write came, and while two did.
        let rest = (3, 26_788, 2509);
        assert_eq!(contents.explain(&written(&[(1, 0, 19_501), (2, 17_994, 1507), rest])), Ok(1));
        contents.write(4, 17_000, 3000);
        let both = [(1, 0, 17_000), (4, 17_000, 2501), rest];
        assert_eq!(contents.explain(&written(&both)), Ok(1));
        let mut other = written(&both);
        other[19_600] = 1;
        assert!(contents.explain(&other).is_err(), "of no version");
        let elsewhere = written(&[(1, 0, 17_000), (4, 17_000, 2400), rest]);
        assert!(contents.explain(&elsewhere).is_err(), "the file never ended there");
        contents.acknowledge();
        assert!(contents.explain(&written(&both)).is_err(), "one version is promised");
    }

    #[test]
    fn an_older_version_is_found() {
        let mut contents = Contents::new();
        contents.write(1, 0, 4096);
        contents.write(2, 0, 4096);
        contents.acknowledge();
        let fault = contents.explain(&written(&[(1, 0, 4096)])).unwrap_err();
        assert!(fault.contains("action 1"), "{fault}");
    }

    #[test]
    fn growing_may_stop_at_a_page_and_nowhere_else() {
        let mut contents = Contents::durable(written(&[(1, 0, 100)]));
        contents.write(2, 100, 20_000);
        let whole = written(&[(1, 0, 100), (2, 100, 20_000)]);
        for (len, allowed) in [(100, true), (8192, true), (20_100, true), (8000, false), (20_480, false)] {
            let mut found = whole.clone();
            found.resize(len, 0);
            assert_eq!(contents.explain(&found).is_ok(), allowed, "{len}");
        }
    }

    #[test]
    fn a_cut_and_a_hole_are_versions() {
        let mut contents = Contents::durable(written(&[(1, 0, 9000)]));
        contents.set_len(5000);
        contents.punch(0, 4096);
        let mut found = written(&[(1, 0, 5000)]);
        assert!(contents.explain(&found).is_ok());
        found[..4096].fill(0);
        assert!(contents.explain(&found).is_ok());
        found[100] = 1;
        assert!(contents.explain(&found).is_err());
        contents.acknowledge();
        assert!(contents.explain(&written(&[(1, 0, 9000)])).is_err());
    }

    #[test]
    fn what_was_never_synced_may_be_short() {
        let mut contents = Contents::new();
        contents.write(1, 0, 9000);
        for len in [0, 1, 4096, 5000, 9000] {
            assert!(contents.explain(&written(&[(1, 0, 9000)])[..len]).is_ok());
        }
        assert!(contents.explain(&written(&[(2, 0, 4096)])).is_err());
        assert!(contents.explain(&vec![0; 9001]).is_err());
    }
}
