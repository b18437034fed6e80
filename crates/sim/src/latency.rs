//! Latencies, counted in classes that are 1/32 of a power of two wide.

const FINE_BITS: u32 = 5;
const CLASSES: usize = (64 - FINE_BITS as usize + 1) << FINE_BITS;

/// Counts by class.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    classes: Vec<u32>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { classes: vec![0; CLASSES], count: 0 }
    }
}

fn class(ns: u64) -> usize {
    let exponent = (63 - ns.max(1).leading_zeros()).saturating_sub(FINE_BITS);
    ((exponent as usize) << FINE_BITS) + (ns >> exponent) as usize
}

/// Middle of a class.
fn middle(class: usize) -> u64 {
    let fine = 1usize << FINE_BITS;
    if class < 2 * fine {
        return class as u64;
    }
    let exponent = (class >> FINE_BITS) - 1;
    let low = ((class - (exponent << FINE_BITS)) as u64) << exponent;
    low + (1u64 << exponent) / 2
}

impl Latencies {
    pub(crate) fn add(&mut self, ns: u64) {
        self.classes[class(ns)] += 1;
        self.count += 1;
    }

    /// Nanoseconds that so many per mille do not exceed, to 3 %; 0 of none.
    pub(crate) fn permille(&self, permille: u64) -> u64 {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return middle(class);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_near_the_middle_of_its_class() {
        for ns in (0..200).chain((10..63).flat_map(|bits| [1 << bits, (1 << bits) + 12_345 % (1 << bits)])) {
            let found = middle(class(ns));
            assert!((found as f64 - ns as f64).abs() <= 0.032 * ns as f64, "{ns}: {found}");
        }
        assert!(class(u64::MAX) < CLASSES);
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.permille(500), 0);
        (1..=1000).for_each(|ns| latencies.add(ns));
        for permille in [1, 500, 990, 1000] {
            let found = latencies.permille(permille) as f64;
            assert!((found / permille as f64 - 1.0).abs() < 0.04, "{permille}: {found}");
        }
    }
}
