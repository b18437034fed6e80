//! A random part of what a vault holds, for who checks often and a little
//! each time. Groups of blocks are drawn one by one, so that a part of a large
//! file is looked at too, and every run draws anew.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;
use strongroom_units::GroupIndex;

use crate::args::Percent;

/// What was drawn, and of how much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Sampled {
    /// What was asked for.
    pub(super) percent: f64,
    /// Groups of blocks that the files have.
    pub(super) groups: u64,
    /// Of these, how many were looked at.
    pub(super) examined: u64,
}

/// Draws groups.
pub(super) struct Sample {
    percent: Percent,
    groups: AtomicU64,
    examined: AtomicU64,
    has_drawn: AtomicBool,
}

impl Sample {
    pub(super) fn new(percent: Percent) -> Sample {
        Sample {
            percent,
            groups: AtomicU64::new(0),
            examined: AtomicU64::new(0),
            has_drawn: AtomicBool::new(false),
        }
    }

    /// Those of a file's groups that are to be looked at. Of the first file that
    /// has any it is one at least: a sample of nothing says nothing.
    pub(super) fn draw(&self, groups: &[GroupIndex]) -> Vec<GroupIndex> {
        // One in 2^32 more or less is no matter.
        let bound = (self.percent.get() / 100.0 * f64::from(u32::MAX)) as u32;
        let is_drawn = |_: &GroupIndex| {
            // Without random bytes everything is looked at, which is never wrong.
            self.percent.get() >= 100.0 || getrandom::u32().map_or(true, |drawn| drawn < bound)
        };
        let mut drawn: Vec<GroupIndex> = groups.iter().copied().filter(is_drawn).collect();
        if !groups.is_empty() && !self.has_drawn.swap(true, Ordering::Relaxed) && drawn.is_empty() {
            let place = getrandom::u64().unwrap_or_default() % groups.len() as u64;
            drawn.push(groups[usize::try_from(place).expect("below a length")]);
        }
        self.groups.fetch_add(groups.len() as u64, Ordering::Relaxed);
        self.examined.fetch_add(drawn.len() as u64, Ordering::Relaxed);
        drawn
    }

    /// All of a file's groups, where a part would not do.
    pub(super) fn take_all(&self, groups: &[GroupIndex]) -> Vec<GroupIndex> {
        for counter in [&self.groups, &self.examined] {
            counter.fetch_add(groups.len() as u64, Ordering::Relaxed);
        }
        groups.to_vec()
    }

    /// What was drawn so far.
    pub(super) fn sampled(&self) -> Sampled {
        Sampled {
            percent: self.percent.get(),
            groups: self.groups.load(Ordering::Relaxed),
            examined: self.examined.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(percent: &str) -> Sample {
        Sample::new(percent.parse().expect("a percentage"))
    }

    #[test]
    fn about_the_part_that_was_asked_for_is_drawn_and_each_time_another() {
        let groups: Vec<GroupIndex> = (0..10_000).map(GroupIndex).collect();
        let sample = of("10%");
        let (first, second) = (sample.draw(&groups), sample.draw(&groups));
        // Twelve standard deviations off, once in 10^32 runs.
        for drawn in [&first, &second] {
            assert!((640..1360).contains(&drawn.len()), "{}", drawn.len());
        }
        assert_ne!(first, second);
        let sampled = sample.sampled();
        assert_eq!((sampled.groups, sampled.examined), (20_000, (first.len() + second.len()) as u64));
        assert_eq!(of("100").draw(&groups), groups);
    }

    #[test]
    fn of_the_first_file_with_contents_one_group_is_drawn_at_least() {
        let groups: Vec<GroupIndex> = (0..3).map(GroupIndex).collect();
        let sample = of("0.0000001");
        assert_eq!(sample.draw(&[]).len(), 0);
        assert_eq!(sample.draw(&groups).len(), 1);
        assert_eq!(sample.draw(&groups).len(), 0);
    }
}
