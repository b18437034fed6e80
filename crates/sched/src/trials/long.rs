//! Whether windows should be longer, because short ones differ.
//!
//! What chance does to short windows evens out within long ones. Other work that
//! comes and goes for as long as a long window lasts does not: most short windows
//! lie between, and no long one does. So short windows are put together, and
//! longer ones are made when these differ by less.

/// Short windows that are put together, before and after.
const TOGETHER: usize = 4;
/// So many differences are looked at, and at least so many.
const PAIRS: [usize; 2] = [2, 4];
/// Long windows have to differ by so much less; of chance alone it is half.
const LESS: f64 = 0.75;
/// The mean of what differs by chance, over its deviation.
const MEAN: f64 = 0.8;
/// Where so many long windows differ by more than this, a logarithm, they were
/// made longer for nothing.
const IN_VAIN: (u32, f64) = (12, 0.2);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Long {
    /// Speeds of short windows in a row, and how many there were.
    speeds: [f64; 2 * TOGETHER],
    count: usize,
    /// What these differed by when they were put together, and how many times.
    differences: [f64; PAIRS[1]],
    pairs: usize,
    in_vain: u32,
}

impl Long {
    /// A short window of the way in use had this speed.
    pub(super) fn sees_short(&mut self, speed: f64) {
        self.speeds[self.count % self.speeds.len()] = speed;
        self.count += 1;
        if self.count.is_multiple_of(self.speeds.len()) {
            let (before, after) = self.speeds.split_at(TOGETHER);
            let sum = |speeds: &[f64]| speeds.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            self.differences[self.pairs % PAIRS[1]] = (sum(after) / sum(before)).ln().abs();
            self.pairs += 1;
        }
    }

    /// Windows are longer: short ones will not be in a row with those before.
    /// Whether that is in vain, when windows differ by so much still.
    pub(super) fn sees_long(&mut self, is_longest: bool, noise: f64) -> bool {
        self.count = 0;
        self.in_vain = if is_longest && noise > IN_VAIN.1 { self.in_vain + 1 } else { 0 };
        self.in_vain >= IN_VAIN.0
    }

    /// Whether long windows would differ by less, where short ones differ by so
    /// much.
    pub(super) fn would_differ_by_less(&self, difference: f64) -> bool {
        let count = self.pairs.min(PAIRS[1]);
        let mean = self.differences[..count].iter().sum::<f64>() / count.max(1) as f64;
        count >= PAIRS[0] && mean / MEAN < LESS * difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many short windows whose speeds are these, over and over.
    fn after(windows: usize, speeds: &[f64]) -> Long {
        let mut long = Long::default();
        (0..windows).for_each(|window| long.sees_short(speeds[window % speeds.len()]));
        long
    }

    #[test]
    fn chance_evens_out_and_other_work_that_stays_for_a_while_does_not() {
        let chance = [1.0, 1.3, 1.1, 0.9, 1.2, 1.0, 0.8, 1.1, 1.2];
        assert!(!after(15, &chance).would_differ_by_less(0.2), "it is too early to tell");
        assert!(after(32, &chance).would_differ_by_less(0.2));
        let work = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5];
        assert!(!after(32, &work).would_differ_by_less(0.2));
    }

    #[test]
    fn the_longest_windows_that_differ_by_much_are_in_vain() {
        let mut long = Long::default();
        let mut seen = |noise| (0..IN_VAIN.0).map(|_| long.sees_long(true, noise)).collect::<Vec<_>>();
        assert!(!seen(0.1).contains(&true));
        let in_vain = seen(0.3);
        assert!(in_vain.ends_with(&[true]) && in_vain.iter().filter(|in_vain| **in_vain).count() == 1);
    }
}
