//! A check by time: whole files in the order of their stored paths, for as long
//! as was asked for. The next one goes on where this one ended, so that in the
//! end every file was looked at, however large the store. So does the one after
//! an interrupt: each file is promised ([`Promise`]) before it is handed over, and
//! one whose promise is not kept is left to the next.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::history::SeenFiles;
use crate::report;

/// What a check by time has looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Scrubbed {
    /// What was asked for.
    pub(super) limit_s: f64,
    /// Whether it went on where another had ended.
    pub(super) resumed: bool,
    /// When this pass over the whole vault began.
    pub(super) pass_began: String,
    /// Files that were looked at in this pass; those after `next` twice.
    pub(super) pass_files: u64,
    /// The stored path where the next one goes on; none when the pass is complete.
    pub(super) next: Option<String>,
    /// What to remember; none when the pass is complete.
    #[serde(skip)]
    pub(super) seen: Option<SeenFiles>,
    /// Whether it was remembered: otherwise the next one begins anew.
    #[serde(rename = "remembered")]
    pub(super) is_remembered: bool,
}

impl Scrubbed {
    /// For people. Whether an interrupt has ended it, the caller knows.
    pub(super) fn text(&self, is_interrupted: bool) -> String {
        let Scrubbed { pass_files, pass_began, .. } = self;
        match &self.next {
            Some(_) => format!(
                "{} Files looked at since {pass_began}: {pass_files}; {}.\n",
                if is_interrupted { "The pass is not complete." } else { "Time is up." },
                match self.is_remembered {
                    true => "the next `check --sample TIME` goes on with the others",
                    false => "that is not remembered, and the next `check --sample TIME` begins anew",
                }
            ),
            None => format!(
                "The pass is complete: every file was looked at since {pass_began}, {pass_files} in all.{}\n",
                match self.resumed || is_interrupted {
                    true =>
                        " What is left over, and what is gone or was put back, shows in a whole check alone.",
                    false => "",
                }
            ),
        }
    }
}

/// A part of a pass over a vault.
pub(super) struct Scrub {
    limit: Duration,
    began: Instant,
    before: Option<SeenFiles>,
    has_begun: AtomicBool,
    /// The first of those that it came too late for.
    next: Mutex<Option<Vec<u8>>>,
    /// Those that were counted and are left to the next one.
    uncounted: AtomicU64,
}

/// That a file will be looked at. Where it is dropped and not kept, the next
/// check begins with the file, if with none before it.
pub(super) struct Promise<'v> {
    scrub: &'v Scrub,
    stored: Vec<u8>,
    is_counted: bool,
    is_kept: bool,
}

impl Promise<'_> {
    /// The file is one of those that were counted.
    pub(super) fn count(&mut self) {
        self.is_counted = true;
    }

    /// It was looked at.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.scrub.leave(&self.stored);
            self.scrub.uncounted.fetch_add(self.is_counted.into(), Ordering::Relaxed);
        }
    }
}

impl Scrub {
    /// Goes on where `before` ended.
    pub(super) fn new(limit: Duration, before: Option<SeenFiles>) -> Scrub {
        Scrub {
            limit,
            began: Instant::now(),
            before,
            has_begun: AtomicBool::new(false),
            next: Mutex::default(),
            uncounted: AtomicU64::new(0),
        }
    }

    /// Whether this one looks at the whole vault from its beginning.
    pub(super) fn is_from_the_beginning(&self) -> bool {
        self.before.is_none()
    }

    /// Whether an entry was looked at before, with all that is below it.
    pub(super) fn is_past(&self, stored: &[u8]) -> bool {
        let Some(before) = &self.before else { return false };
        let next = before.next.as_bytes();
        compare(stored, next) == Order::Less && !is_below(next, stored)
    }

    /// Whether there is time for a file; for one there always is. Where there is
    /// none, the next check begins with it.
    pub(super) fn begins(&self, stored: &[u8]) -> bool {
        if !self.has_begun.swap(true, Ordering::Relaxed) || self.began.elapsed() < self.limit {
            return true;
        }
        self.leave(stored);
        false
    }

    /// That an entry will be looked at.
    pub(super) fn promise(&self, stored: Vec<u8>) -> Promise<'_> {
        Promise { scrub: self, stored, is_counted: false, is_kept: false }
    }

    /// Leaves an entry, and what comes after it, to the next check.
    pub(super) fn leave(&self, stored: &[u8]) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.as_ref().is_none_or(|next| compare(stored, next) == Order::Less) {
            *next = Some(stored.to_vec());
        }
    }

    /// Whether it has ended before all was looked at.
    pub(super) fn is_over(&self) -> bool {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Where the next one goes on, after so many files; none when the pass is
    /// complete.
    fn seen(&self, files: u64) -> Option<SeenFiles> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(SeenFiles {
            next: String::from_utf8_lossy(&next).into_owned(),
            began: self.pass_began(),
            files: self.pass_files(files),
        })
    }

    /// What is told of it.
    pub(super) fn scrubbed(&self, files: u64) -> Scrubbed {
        let files = files.saturating_sub(self.uncounted.load(Ordering::Relaxed));
        let seen = self.seen(files);
        Scrubbed {
            limit_s: self.limit.as_secs_f64(),
            resumed: self.before.is_some(),
            pass_began: report::rfc3339(self.pass_began()),
            pass_files: self.pass_files(files),
            next: seen.as_ref().map(|seen| seen.next.clone()),
            seen,
            is_remembered: false,
        }
    }

    fn pass_began(&self) -> u64 {
        let now = || report::now().saturating_sub(self.began.elapsed().as_secs());
        self.before.as_ref().map_or_else(now, |before| before.began)
    }

    fn pass_files(&self, files: u64) -> u64 {
        self.before.as_ref().map_or(0, |before| before.files).saturating_add(files)
    }
}

/// The order of a walk that takes the names of each directory in order.
fn compare(one: &[u8], other: &[u8]) -> Order {
    one.split(|&byte| byte == b'/').cmp(other.split(|&byte| byte == b'/'))
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(next: &str) -> Scrub {
        let before = SeenFiles { next: next.to_owned(), began: 1, files: 10 };
        Scrub::new(Duration::ZERO, Some(before))
    }

    #[test]
    fn what_comes_before_is_passed_over_and_what_leads_there_is_not() {
        let scrub = after("b/d/f");
        for past in ["a", "b/c", "b/d/e", "b!", "b/d/e/z"] {
            assert_eq!(scrub.is_past(past.as_bytes()), past != "b!", "{past}");
        }
        for left in ["b", "b/d", "b/d/f", "b/d/g", "b/e", "c"] {
            assert!(!scrub.is_past(left.as_bytes()), "{left}");
        }
        assert!(!Scrub::new(Duration::ZERO, None).is_past(b"a"));
    }

    #[test]
    fn the_next_begins_with_the_first_that_it_came_too_late_for() {
        let scrub = after("b");
        assert!(scrub.begins(b"b"), "one there always is");
        assert!(!scrub.is_over());
        assert!(!scrub.begins(b"c/e") && !scrub.begins(b"c/d") && !scrub.begins(b"d"));
        assert!(scrub.is_over());
        assert_eq!(scrub.seen(3), Some(SeenFiles { next: "c/d".to_owned(), began: 1, files: 13 }));
        assert_eq!(Scrub::new(Duration::MAX, None).seen(3), None);
    }

    #[test]
    fn the_next_begins_with_the_first_that_was_promised_and_not_looked_at() {
        let scrub = Scrub::new(Duration::MAX, None);
        let mut promises: Vec<_> = ["a", "b", "c", "d"].map(|path| scrub.promise(path.into())).into();
        promises.iter_mut().take(3).for_each(Promise::count);
        promises.remove(0).keep();
        promises.remove(1).keep();
        assert_eq!(scrub.scrubbed(3).next, None);
        drop(promises);
        let scrubbed = scrub.scrubbed(3);
        assert_eq!((scrubbed.next.as_deref(), scrubbed.pass_files), (Some("b"), 2));
        let text = scrubbed.text(true);
        assert!(text.starts_with("The pass is not complete. ") && text.contains("begins anew"), "{text}");
        let text = Scrubbed { is_remembered: true, ..scrubbed }.text(false);
        assert!(text.starts_with("Time is up. ") && text.contains("goes on"), "{text}");
    }
}
