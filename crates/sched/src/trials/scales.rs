//! How long windows have to be for what comes and goes to even out in each.
//!
//! Other work that takes the CPUs for 16 ms out of each 38 makes windows of 4 ms
//! differ by factors, and those of 38 hardly at all; those of 60 differ more
//! again. What chance does evens out in long windows. And other work that comes
//! every quarter of a second is best looked at in short windows, most of which
//! lie between. So short windows of the way in use are kept, and put together as
//! longer ones would be: what these would have differed by says how long they
//! should be.

/// Short windows that are kept.
const KEPT: usize = 192;
/// How many short windows are put together, to see what these differ by.
const SCALES: [usize; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 24, 28, 32, 38];
/// So many comparisons are needed at least to tell what windows differ by.
const FEWEST: usize = 3;
/// It is found out anew after so many short windows.
const EVERY: usize = 16;
/// And until there were so many of a length, it is not given up unless that tells.
const STAYS: usize = 4;
/// The mean of what differs by chance, over its deviation.
const MEAN: f64 = 0.8;
/// Windows that deviate by less are long enough.
const STEADY: f64 = 0.06;
/// Of those that deviate by more, the ones that do so by least are taken, where
/// so many times the length has to bring a deviation less by this power of it;
/// and only if it is less by this factor than that of short windows.
const LONGER: f64 = 0.25;
const LESS: f64 = 0.75;

/// A short window: its speed, how long it was, and whether it came right after
/// the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    speed: f64,
    elapsed_ns: f64,
    follows: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scales {
    kept: [Short; KEPT],
    count: usize,
    /// Whether the next short window comes right after the last one.
    follows: bool,
    /// What windows of each length deviate by, where it is known.
    deviations: [Option<f64>; SCALES.len()],
    /// The length to be taken, among the lengths, and that of a short window.
    length: usize,
    short_ns: f64,
}

impl Default for Scales {
    fn default() -> Scales {
        Scales {
            kept: [Short::default(); KEPT],
            count: 0,
            follows: false,
            deviations: [None; SCALES.len()],
            length: 0,
            short_ns: 0.0,
        }
    }
}

impl Scales {
    /// How long a window should be, if a short one does not do.
    pub(super) fn length_ns(&self) -> Option<f64> {
        (self.length > 0).then(|| self.short_ns * self.length())
    }

    /// The same over a short window.
    pub(super) fn length(&self) -> f64 {
        SCALES[self.length] as f64
    }

    /// What windows of about this length deviate by; 0 where it is not known.
    pub(super) fn deviation(&self, elapsed_ns: f64) -> f64 {
        let short = |scale: &usize| *scale as f64 * self.short_ns <= elapsed_ns;
        let known = SCALES.iter().zip(&self.deviations).take_while(|(scale, _)| short(scale));
        known.filter_map(|(_, deviation)| *deviation).last().or(self.deviations[0]).unwrap_or(0.0)
    }

    /// What windows of the length that is taken deviate by, if it is known.
    pub(super) fn deviation_of_length(&self) -> Option<f64> {
        self.deviations[self.length]
    }

    /// The next windows should be short.
    pub(super) fn hurries(&mut self) {
        *self = Scales::default();
    }

    /// The next window will not come right after the last one.
    pub(super) fn breaks(&mut self) {
        self.follows = false;
    }

    /// Another way is in use. How long windows were is kept until it is known
    /// how long they should be.
    pub(super) fn another_way(&mut self) {
        (self.count, self.follows) = (0, false);
    }

    /// A short window of the way in use. Whether windows shall have another
    /// length from now on.
    pub(super) fn sees(&mut self, speed: f64, elapsed_ns: f64) -> bool {
        self.kept[self.count % KEPT] = Short { speed, elapsed_ns, follows: self.follows };
        self.count += 1;
        self.follows = true;
        self.count.is_multiple_of(EVERY) && self.finds_length()
    }

    fn finds_length(&mut self) -> bool {
        let before = self.length;
        let count = self.count.min(KEPT);
        self.short_ns = self.in_order().map(|short| short.elapsed_ns).sum::<f64>() / count as f64;
        for (at, scale) in SCALES.iter().enumerate() {
            self.deviations[at] = self.deviation_at(*scale as f64 * self.short_ns);
        }
        self.length = self.best();
        self.length != before
    }

    /// The shortest that is steady, or else the one that is so most. Of another
    /// way there are soon enough windows for short lengths alone, which may all lie
    /// between other work: then the one that was taken stays.
    fn best(&self) -> usize {
        let known = || self.deviations.iter().enumerate().filter_map(|(at, found)| Some((at, (*found)?)));
        let is_unknown = self.deviations[self.length].is_none();
        if is_unknown && self.count < STAYS * SCALES[self.length] {
            return self.length;
        }
        if let Some((steady, _)) = known().find(|(_, deviation)| *deviation < STEADY) {
            return steady;
        }
        if is_unknown {
            return self.length;
        }
        let value = |(at, deviation): &(usize, f64)| deviation * (SCALES[*at] as f64).powf(LONGER);
        let Some(best) = known().min_by(|one, other| value(one).total_cmp(&value(other))) else { return 0 };
        let is_less = self.deviations[0].is_some_and(|short| best.1 < LESS * short);
        if is_less { best.0 } else { 0 }
    }

    fn in_order(&self) -> impl Iterator<Item = &Short> {
        let count = self.count.min(KEPT);
        (self.count - count..self.count).map(|at| &self.kept[at % KEPT])
    }

    /// What windows of a length deviate by from the mean of their neighbours.
    fn deviation_at(&self, length_ns: f64) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0);
        let mut before: [f64; 2] = [0.0; 2];
        let (mut work, mut elapsed) = (0.0, 0.0);
        for short in self.in_order() {
            if !short.follows {
                (before, work, elapsed) = ([0.0; 2], 0.0, 0.0);
            }
            work += short.speed * short.elapsed_ns;
            elapsed += short.elapsed_ns;
            if elapsed + short.elapsed_ns / 2.0 < length_ns {
                continue;
            }
            let speed = work / elapsed;
            if before[0] > 0.0 && speed > 0.0 {
                sum += (2.0 * before[1] / (before[0] + speed)).ln().abs();
                count += 1;
            }
            (before, work, elapsed) = ([before[1], speed], 0.0, 0.0);
        }
        (count >= FEWEST).then(|| sum / count as f64 / MEAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length found after so many short windows of 4 ms, whose speeds these
    /// are.
    fn after(windows: usize, speed: impl Fn(usize) -> f64) -> f64 {
        let mut scales = Scales::default();
        (0..windows).for_each(|at| {
            scales.sees(speed(at), 4e6);
        });
        scales.length()
    }

    #[test]
    fn windows_are_as_long_as_other_work_takes_to_come_back() {
        assert_eq!(after(KEPT, |_| 1.0), 1.0);
        // Four slow ones in each nine.
        let found = after(KEPT, |at| if at % 9 < 4 { 0.4 } else { 1.0 });
        assert!((8.0..=10.0).contains(&found), "{found}");
        // What comes back after a fifth of a second is not waited for.
        assert_eq!(after(KEPT, |at| if at % 50 < 4 { 0.4 } else { 1.0 }), 1.0);
        // What differs from one to the next evens out.
        let chance = [1.0, 1.3, 0.7, 0.9, 1.5, 1.0, 0.6, 1.1, 1.4, 0.8, 0.7];
        let found = after(KEPT, |at| chance[at * at % 11]);
        assert!((2.0..20.0).contains(&found), "{found}");
        assert_eq!(after(EVERY - 1, |at| if at % 2 < 1 { 0.4 } else { 1.0 }), 1.0, "too early to tell");
    }

    #[test]
    fn windows_before_and_after_a_break_are_not_put_together() {
        let mut scales = Scales::default();
        for at in 0..KEPT {
            if at % 4 == 0 {
                scales.breaks();
            }
            scales.sees(if at % 9 < 4 { 0.4 } else { 1.0 }, 4e6);
        }
        assert!(scales.deviations[0].is_some() && scales.deviations[1..].iter().all(Option::is_none));
        assert_eq!(scales.length(), 1.0);
    }

    #[test]
    fn windows_stay_long_when_another_way_is_taken() {
        let speed = |at: usize| if at % 9 < 4 { 0.4 } else { 1.0 };
        let mut scales = Scales::default();
        (0..KEPT).for_each(|at| {
            scales.sees(speed(at), 4e6);
        });
        let found = scales.length();
        assert!(found >= 8.0);
        scales.another_way();
        for at in 0..KEPT {
            scales.sees(speed(at), 4e6);
            assert!((6.0..=10.0).contains(&scales.length()), "{} after {at}", scales.length());
        }
        scales.another_way();
        (0..EVERY).for_each(|_| {
            scales.sees(1.0, 4e6);
        });
        assert!(scales.length() >= 6.0, "all of them may lie between other work");
        (EVERY..KEPT).for_each(|_| {
            scales.sees(1.0, 4e6);
        });
        assert_eq!(scales.length(), 1.0);
    }
}
