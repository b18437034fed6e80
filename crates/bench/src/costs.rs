//! What a batch costs: so much however small, and so much for each byte.

/// A straight line through measured times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time of a batch of no bytes, in nanoseconds; not negative.
    pub fixed_ns: f64,
    /// Time of each byte, in nanoseconds; not negative.
    pub per_byte_ns: f64,
    /// By how much the line misses a point at most, as a share of the point.
    pub error: f64,
}

impl Costs {
    /// The line with the least sum of squares of relative errors, since sizes
    /// and times span three orders of magnitude: each point is weighed by one
    /// over its time squared. `None` with fewer than two different sizes.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Costs> {
        let usable = || points.iter().filter(|(_, time)| *time > 0.0);
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (bytes, time) in usable() {
            let weight = 1.0 / (time * time);
            w += weight;
            wx += weight * bytes;
            wy += weight * time;
            wxx += weight * bytes * bytes;
            wxy += weight * bytes * time;
        }
        let determinant = w * wxx - wx * wx;
        // Relative: equal sizes leave only what rounding left.
        let sizes_differ = determinant > 1e-9 * w * wxx;
        if !sizes_differ {
            return None;
        }
        let mut per_byte_ns = (w * wxy - wx * wy) / determinant;
        let mut fixed_ns = (wy - per_byte_ns * wx) / w;
        if fixed_ns < 0.0 {
            (fixed_ns, per_byte_ns) = (0.0, wxy / wxx);
        }
        if per_byte_ns < 0.0 {
            (fixed_ns, per_byte_ns) = (wy / w, 0.0);
        }
        let costs = Costs { fixed_ns, per_byte_ns, error: 0.0 };
        let missed = usable().map(|(bytes, time)| (costs.at(*bytes) - time).abs() / time);
        Some(Costs { error: missed.fold(0.0, f64::max), ..costs })
    }

    /// The time of so many bytes.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        self.fixed_ns + self.per_byte_ns * bytes
    }

    /// The size from which on this costs no more than `other`; 0 when that is
    /// so from the start, `None` when it never is.
    #[must_use]
    pub fn from_size(&self, other: &Costs) -> Option<f64> {
        let slope = other.per_byte_ns - self.per_byte_ns;
        let lead = self.fixed_ns - other.fixed_ns;
        match (lead <= 0.0, slope > 0.0) {
            (true, true) => Some(0.0),
            (true, false) if slope == 0.0 => Some(0.0),
            (_, true) => Some(lead / slope),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = (9..=20)
            .map(|power| f64::from(1u32 << power))
            .map(|bytes| (bytes, 1500.0 + 0.25 * bytes))
            .collect();
        let costs = Costs::fit(&points).expect("several sizes");
        assert!((costs.fixed_ns - 1500.0).abs() < 1e-3 && (costs.per_byte_ns - 0.25).abs() < 1e-6);
        assert!(costs.error < 1e-6);
    }

    #[test]
    fn costs_are_never_negative() {
        let falling = Costs::fit(&[(512.0, 100.0), (4096.0, 50.0)]).expect("two sizes");
        assert!(falling.per_byte_ns == 0.0 && falling.fixed_ns > 0.0);
        let steep = Costs::fit(&[(512.0, 100.0), (4096.0, 2000.0)]).expect("two sizes");
        assert!(steep.fixed_ns == 0.0 && steep.per_byte_ns > 0.0 && steep.error > 0.0);
        assert_eq!(Costs::fit(&[(512.0, 100.0), (512.0, 110.0)]), None);
        assert_eq!(Costs::fit(&[]), None);
    }

    #[test]
    fn lines_cross_where_they_cross() {
        let costs = |fixed_ns, per_byte_ns| Costs { fixed_ns, per_byte_ns, error: 0.0 };
        let (cpu, device) = (costs(300.0, 1.0), costs(30_300.0, 0.5));
        assert_eq!(device.from_size(&cpu), Some(60_000.0));
        assert_eq!(cpu.from_size(&device), None);
        assert_eq!(costs(1.0, 0.1).from_size(&cpu), Some(0.0));
    }
}
