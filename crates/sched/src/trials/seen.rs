//! What has been seen of a way under one load: the least and the most of its
//! speed, and of the batches in flight.
//!
//! Other work that comes and goes makes both change back and forth. What lies
//! between what was seen before is nothing new, and says nothing of the ways.

/// What lies beyond by less than this factor was seen.
const BEYOND: f64 = 1.3;

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
}

impl Seen {
    /// Takes in a window; whether it was unlike all before.
    pub(super) fn takes_in(&mut self, speed: f64, in_flight: Option<f64>) -> bool {
        let is_new = self.speed.takes_in(speed, BEYOND);
        // The batch that was just done is in flight beside the others.
        in_flight.is_some_and(|others| self.in_flight.takes_in(others + 1.0, BEYOND * BEYOND)) || is_new
    }

    /// Another way is in use, so many times as fast: how many are in flight
    /// was the doing of the one before.
    pub(super) fn scales(&mut self, factor: f64) {
        self.speed = Range(self.speed.0.map(|(least, most)| (least * factor, most * factor)));
        self.in_flight = Range::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_not_new() {
        let mut seen = Seen::default();
        assert!(!seen.takes_in(1.0, Some(2.0)) && !seen.takes_in(1.2, Some(3.0)));
        assert!(seen.takes_in(0.3, Some(2.0)));
        for speed in [0.3, 1.2, 0.7, 0.28] {
            assert!(!seen.takes_in(speed, Some(2.0)), "{speed}");
        }
        assert!(seen.takes_in(1.0, Some(20.0)) && !seen.takes_in(1.0, Some(19.0)));
        // Twice as fast everywhere, with any number in flight.
        seen.scales(2.0);
        assert!(!seen.takes_in(2.4, Some(90.0)) && seen.takes_in(0.2, None));
    }
}
