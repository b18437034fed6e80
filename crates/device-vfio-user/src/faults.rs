//! What goes wrong, drawn from a seed for each request.

use std::time::Duration;

/// Chances in millions, and one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The answer comes later, by [`Faults::late`].
    pub late_ppm: u32,
    /// How much later.
    pub late: Duration,
    /// There is no answer.
    pub lost_ppm: u32,
    /// One bit of the result is wrong.
    pub wrong_ppm: u32,
    /// The process ends when it has got so many requests.
    pub unplug_after: Option<u64>,
    /// Nothing goes wrong with so many requests, the first ones.
    pub sound: u64,
    /// Where the draws begin.
    pub seed: u64,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Right,
    Late,
    Lost,
    Wrong,
    Unplugged,
}

impl Faults {
    /// That of the request with this number, counted from 0 (SplitMix64).
    pub(crate) fn fate(&self, number: u64) -> Fate {
        if self.unplug_after.is_some_and(|after| number >= after) {
            return Fate::Unplugged;
        }
        if number < self.sound {
            return Fate::Right;
        }
        let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.seed);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mut drawn = ((z ^ (z >> 31)) % 1_000_000) as u32;
        for (ppm, fate) in
            [(self.late_ppm, Fate::Late), (self.lost_ppm, Fate::Lost), (self.wrong_ppm, Fate::Wrong)]
        {
            match drawn.checked_sub(ppm) {
                None => return fate,
                Some(rest) => drawn = rest,
            }
        }
        Fate::Right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_what_they_say() {
        let faults = Faults {
            late_ppm: 100_000,
            lost_ppm: 200_000,
            wrong_ppm: 300_000,
            unplug_after: Some(100_000),
            sound: 50,
            ..Faults::default()
        };
        assert!((0..50).all(|number| faults.fate(number) == Fate::Right));
        let count = |fate| (0..100_000).filter(|number| faults.fate(*number) == fate).count();
        for (fate, expected) in [(Fate::Late, 10_000), (Fate::Lost, 20_000), (Fate::Wrong, 30_000)] {
            assert!(count(fate).abs_diff(expected) < 1000, "{fate:?}");
        }
        assert_eq!(faults.fate(100_000), Fate::Unplugged);
    }
}
