//! What has been seen of a way under one load: the least and the most of its
//! speed, and of the batches in flight.
//!
//! Other work that comes and goes makes both change back and forth. What lies
//! between what was seen before is nothing new, and says nothing of the ways.

/// What lies beyond by less than this factor was seen.
const BEYOND: f64 = 1.3;
/// The same of how many are in flight, where the model decides where they wait:
/// for the CPU they are not in flight.
const BEYOND_MODEL: f64 = 4.0;

/// The least and the most of a number, once there was one.
#[derive(Clone, Copy, Debug, Default)]
struct Range(Option<(f64, f64)>);

impl Range {
    /// Takes in a number; whether it lies far from all before.
    fn takes_in(&mut self, number: f64, factor: f64) -> bool {
        let (least, most) = self.0.unwrap_or((number, number));
        self.0 = Some((number.min(least), number.max(most)));
        number * factor < least || number > most * factor
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    speed: Range,
    in_flight: Range,
    all: Range,
}

impl Seen {
    /// Takes in a window's speed; whether it was unlike all before.
    pub(super) fn takes_in_speed(&mut self, speed: f64) -> bool {
        self.speed.takes_in(speed, BEYOND)
    }

    /// Takes in how many others are in flight when a batch is done; whether
    /// that was unlike all before.
    pub(super) fn takes_in_depth(&mut self, others: f64, is_model: bool) -> bool {
        let factor = if is_model { BEYOND_MODEL } else { BEYOND * BEYOND };
        // The batch that was just done is in flight beside the others.
        self.in_flight.takes_in(others + 1.0, factor)
    }

    /// Takes in how many others are in flight or wait for a CPU to be so: whoever
    /// waits for a CPU that computes is not in flight. Whether that was unlike all
    /// before.
    pub(super) fn takes_in_all(&mut self, others: f64) -> bool {
        self.all.takes_in(others + 1.0, BEYOND_MODEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_not_new() {
        let mut seen = Seen::default();
        assert!(!seen.takes_in_speed(1.0) && !seen.takes_in_speed(1.2));
        assert!(seen.takes_in_speed(0.3));
        for speed in [0.3, 1.2, 0.7, 0.28] {
            assert!(!seen.takes_in_speed(speed), "{speed}");
        }
        assert!(!seen.takes_in_depth(2.0, false) && !seen.takes_in_depth(3.0, true));
        assert!(!seen.takes_in_depth(10.0, true), "the model may have put them there");
        assert!(seen.takes_in_depth(40.0, false) && !seen.takes_in_depth(39.0, false));
        // Whoever waits for a CPU is not in flight.
        assert!(!seen.takes_in_all(0.0) && !seen.takes_in_all(2.0) && seen.takes_in_all(47.0));
    }
}
