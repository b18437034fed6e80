//! What the kernel wrote back and the vault did not take: the store was full,
//! or failed.
//!
//! The kernel tells whoever syncs, keeps the length that it had given the
//! file, and asks for the bytes again once they have left its cache. Where the
//! file had data the old bytes are there to be read. Where it had none, beyond
//! its end or in a hole, zeros would be read: such ranges are an error to read
//! until they are written again or cut off, for as long as the mount lasts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::filesystem::NodeId;

/// Ranges remembered of a file; further ones are joined with the last.
const RANGES_MAX: usize = 64;
/// Files remembered. Of more the oldest numbers are forgotten.
const FILES_MAX: usize = 4096;

/// The parts of `range` that hold no data, by the answers of `SEEK_DATA` and
/// `SEEK_HOLE`; all of what they say nothing of.
pub(super) fn without_data(
    range: &Range<u64>,
    data: impl Fn(u64) -> Option<u64>,
    hole: impl Fn(u64) -> Option<u64>,
) -> Vec<Range<u64>> {
    let (mut parts, mut at) = (Vec::new(), range.start);
    while at < range.end {
        let next = data(at).map_or(range.end, |next| next.clamp(at, range.end));
        parts.push(at..next);
        if next == range.end {
            break;
        }
        at = hole(next).map_or(range.end, |end| end.max(next + 1));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Ranges of files, in bytes, in order and apart from each other.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Whether there are any: asked for every read and write.
    any: AtomicBool,
    files: Mutex<HashMap<NodeId, Vec<Range<u64>>>>,
}

impl Lost {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Vec<Range<u64>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write of `range` failed, in which there is no data.
    pub(super) fn failed(&self, node: NodeId, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut files = self.lock();
        if files.len() == FILES_MAX && !files.contains_key(&node) {
            let oldest = files.keys().min_by_key(|node| node.0).copied();
            oldest.and_then(|oldest| files.remove(&oldest));
        }
        let ranges = files.entry(node).or_default();
        ranges.push(range);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges.drain(..) {
            let full = joined.len() == RANGES_MAX;
            match joined.last_mut() {
                Some(last) if range.start <= last.end || full => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        *ranges = joined;
        self.any.store(true, Ordering::Release);
    }

    /// `range` was written.
    pub(super) fn written(&self, node: NodeId, range: Range<u64>) {
        if self.any.load(Ordering::Acquire) {
            self.keep(node, |lost| {
                [lost.start..lost.end.min(range.start), lost.start.max(range.end)..lost.end]
            });
        }
    }

    /// The file was given this length: what was lost beyond it is cut off.
    pub(super) fn cut(&self, node: NodeId, len: u64) {
        if self.any.load(Ordering::Acquire) {
            self.keep(node, |lost| [lost.start..lost.end.min(len), 0..0]);
        }
    }

    fn keep(&self, node: NodeId, of: impl Fn(&Range<u64>) -> [Range<u64>; 2]) {
        let mut files = self.lock();
        if let Some(ranges) = files.get_mut(&node) {
            *ranges = ranges.iter().flat_map(of).filter(|range| !range.is_empty()).collect();
            if ranges.is_empty() {
                files.remove(&node);
            }
        }
        self.any.store(!files.is_empty(), Ordering::Release);
    }

    /// Whether anything of `range` was lost.
    pub(super) fn has(&self, node: NodeId, range: Range<u64>) -> bool {
        self.any.load(Ordering::Acquire)
            && self.lock().get(&node).is_some_and(|ranges| {
                ranges.iter().any(|lost| lost.start < range.end && range.start < lost.end)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lay_beyond_the_end_is_lost_until_it_is_written_or_cut() {
        let lost = Lost::default();
        let node = NodeId(7);
        lost.failed(node, 100..100);
        assert!(!lost.has(node, 0..1000), "nothing");
        lost.failed(node, 100..300);
        assert!(!lost.has(node, 0..100) && lost.has(node, 99..101) && lost.has(node, 299..400));
        assert!(!lost.has(node, 300..400) && !lost.has(NodeId(8), 0..1000));
        lost.written(node, 150..200);
        assert!(lost.has(node, 100..150) && !lost.has(node, 150..200) && lost.has(node, 200..300));
        lost.cut(node, 120);
        assert!(lost.has(node, 119..120) && !lost.has(node, 120..1000));
        lost.written(node, 0..120);
        assert!(!lost.has(node, 0..u64::MAX) && !lost.any.load(Ordering::Relaxed));
    }

    #[test]
    fn only_what_has_no_data_is_lost() {
        // Data from 10 to 20 and from 40 to 50.
        let data =
            |at: u64| [10..20, 40..50].into_iter().find(|part| at < part.end).map(|part| at.max(part.start));
        let hole = |at| {
            Some([10..20, 40..50].into_iter().find(|part| part.contains(&at)).map_or(at, |part| part.end))
        };
        let lost = |range| without_data(&range, data, hole);
        assert_eq!(lost(0..60), [0..10, 20..40, 50..60]);
        assert_eq!(lost(12..18), []);
        assert_eq!(lost(15..45), vec![20u64..40]);
        assert_eq!(without_data(&(3..9), |_| None, |_| None), vec![3u64..9]);
        // An answer that leads nowhere ends all the same.
        assert_eq!(without_data(&(0..3), Some, |_| Some(0)), []);
    }

    #[test]
    fn memory_is_bounded_and_nothing_that_was_lost_is_forgotten_of_a_file() {
        let lost = Lost::default();
        for index in 0..4 * RANGES_MAX as u64 {
            lost.failed(NodeId(1), 10 * index..10 * index + 1);
        }
        assert!(lost.lock()[&NodeId(1)].len() <= RANGES_MAX);
        assert!((0..4 * RANGES_MAX as u64).all(|index| lost.has(NodeId(1), 10 * index..10 * index + 1)));
        for node in 2..2 * FILES_MAX as u64 {
            lost.failed(NodeId(node), 0..1);
        }
        assert_eq!(lost.lock().len(), FILES_MAX);
    }
}
