//! The content of a regular file: length, pages, and space reserved without
//! content.

use std::collections::BTreeMap;
use std::ops::Range;

use super::pages::{PAGE, PageMap};

/// Disjoint ranges of page numbers.
#[derive(Clone, Default)]
struct Ranges {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        let touching: Vec<(u64, u64)> = self
            .ranges
            .range(..=end)
            .filter(|&(_, &to)| to >= start)
            .map(|(&from, &to)| (from, to))
            .collect();
        for (from, to) in touching {
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start, end);
    }

    fn remove(&mut self, range: Range<u64>) {
        for part in self.overlaps(&range) {
            let (from, to) = self
                .ranges
                .range(..=part.start)
                .next_back()
                .map(|(&from, &to)| (from, to))
                .expect("an overlap lies inside a range");
            self.ranges.remove(&from);
            if from < part.start {
                self.ranges.insert(from, part.start);
            }
            if part.end < to {
                self.ranges.insert(part.end, to);
            }
        }
    }

    /// The parts of `range` that are in the set.
    fn overlaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.ranges
            .range(..range.end)
            .map(|(&from, &to)| from.max(range.start)..to.min(range.end))
            .filter(|part| !part.is_empty())
            .collect()
    }
}

/// The content of a regular file.
#[derive(Clone, Default)]
pub(crate) struct FileBody {
    len: u64,
    pages: PageMap,
    reserved: Ranges,
}

/// The pages that a range of bytes touches.
pub(crate) fn pages_touching(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE as u64..range.end.div_ceil(PAGE as u64)
}

/// The pages that lie wholly in a range of bytes.
pub(crate) fn pages_inside(range: &Range<u64>) -> Range<u64> {
    range.start.div_ceil(PAGE as u64)..range.end / PAGE as u64
}

impl FileBody {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The content.
    pub(crate) fn pages(&self) -> &PageMap {
        &self.pages
    }

    /// The content, for building images.
    pub(crate) fn pages_mut(&mut self) -> &mut PageMap {
        &mut self.pages
    }

    /// Fills `buffer` from `offset`, as far as the file goes.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.len.saturating_sub(offset);
        let wanted = buffer.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < wanted {
            let position = offset + done as u64;
            let within = (position % PAGE as u64) as usize;
            let count = (PAGE - within).min(wanted - done);
            let part = &mut buffer[done..done + count];
            match self.pages.page(position / PAGE as u64) {
                Some(page) => part.copy_from_slice(&page.bytes()[within..within + count]),
                None => part.fill(0),
            }
            done += count;
        }
        wanted
    }

    /// Writes `data` at `offset`, growing the file as needed.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) {
        let mut done = 0;
        while done < data.len() {
            let position = offset + done as u64;
            let within = (position % PAGE as u64) as usize;
            let count = (PAGE - within).min(data.len() - done);
            let page = self.pages.page_mut(position / PAGE as u64);
            page.bytes_mut()[within..within + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
        if !data.is_empty() {
            self.len = self.len.max(offset + data.len() as u64);
        }
    }

    /// Cuts, or extends by a hole; a cut frees reserved space behind it too.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero_edges(&(len..len.next_multiple_of(PAGE as u64)));
            let behind = len.div_ceil(PAGE as u64)..u64::MAX / PAGE as u64;
            self.pages.remove(behind.clone());
            self.reserved.remove(behind);
        }
        self.len = len;
    }

    /// Makes a range of bytes a hole, in as far as it covers whole pages, and
    /// zeroes it.
    pub(crate) fn punch(&mut self, range: &Range<u64>) {
        let whole = pages_inside(range);
        if whole.start >= whole.end {
            self.zero_edges(range);
            return;
        }
        self.zero_edges(&(range.start..whole.start * PAGE as u64));
        self.zero_edges(&(whole.end * PAGE as u64..range.end));
        self.pages.remove(whole.clone());
        self.reserved.remove(whole);
    }

    /// Sets the length of an image that is being built: content behind it is
    /// dropped wherever it came from, reserved space stays.
    pub(crate) fn finish_image(&mut self, len: u64) {
        self.zero_edges(&(len..len.next_multiple_of(PAGE as u64)));
        self.pages.remove(len.div_ceil(PAGE as u64)..u64::MAX / PAGE as u64);
        self.len = len;
    }

    /// Zeroes a range of bytes in the pages that exist. Pages that are zero
    /// there already stay shared.
    fn zero_edges(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        for index in pages_touching(range) {
            let Some(page) = self.pages.page(index) else { continue };
            let start = index * PAGE as u64;
            let from = range.start.saturating_sub(start).min(PAGE as u64) as usize;
            let to = (range.end - start).min(PAGE as u64) as usize;
            if page.bytes()[from..to].iter().any(|&byte| byte != 0) {
                self.pages.page_mut(index).bytes_mut()[from..to].fill(0);
            }
        }
    }

    /// Reserves the space under a range of bytes.
    pub(crate) fn reserve(&mut self, range: &Range<u64>) {
        self.reserved.insert(pages_touching(range));
    }

    /// Pages under a range of bytes that have no space yet.
    pub(crate) fn missing(&self, range: &Range<u64>) -> u64 {
        let touched = pages_touching(range);
        (touched.end - touched.start) - self.charged_in(&touched)
    }

    /// Pages that this file takes.
    pub(crate) fn charged(&self) -> u64 {
        self.charged_in(&(0..u64::MAX / PAGE as u64))
    }

    fn charged_in(&self, range: &Range<u64>) -> u64 {
        let mut count = self.pages.count(range.clone());
        for part in self.reserved.overlaps(range) {
            count += (part.end - part.start) - self.pages.count(part);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_split() {
        let mut ranges = Ranges::default();
        ranges.insert(10..20);
        ranges.insert(30..40);
        ranges.insert(20..30);
        assert_eq!(ranges.overlaps(&(0..25)), [10..25, 0..0][..1]);
        assert_eq!(ranges.overlaps(&(0..100)).len(), 1);
        ranges.remove(15..35);
        assert_eq!(ranges.overlaps(&(0..100)), [10..15, 35..40]);
        assert_eq!(ranges.overlaps(&(12..36)), [12..15, 35..36]);
    }

    #[test]
    fn reserved_space_is_charged_once() {
        let mut body = FileBody::default();
        body.reserve(&(0..3 * 4096));
        body.write(&[1; 5000], 4096);
        assert_eq!(body.charged(), 3);
        assert_eq!(body.missing(&(0..4 * 4096)), 1);
        body.punch(&(4000..8192));
        assert_eq!(body.charged(), 2);
        body.set_len(4096);
        assert_eq!(body.charged(), 1);
    }

    #[test]
    fn a_cut_leaves_no_old_bytes_behind() {
        let mut body = FileBody::default();
        body.write(&[7; 6000], 0);
        body.set_len(100);
        body.set_len(6000);
        let mut read = vec![9; 6000];
        assert_eq!(body.read(&mut read, 0), 6000);
        assert!(read[..100].iter().all(|&byte| byte == 7) && read[100..].iter().all(|&byte| byte == 0));
    }
}
