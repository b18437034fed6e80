//! What comes and goes is answered ever less often, and what comes seldom at
//! once.

/// Least and most time from one answer to the next.
const AGAIN_NS: [u64; 2] = [50_000_000, 5_000_000_000];
/// What has not come for so many times that time is seldom.
const RARE: u64 = 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seldom {
    next_ns: u64,
    again_ns: u64,
}

impl Default for Seldom {
    fn default() -> Seldom {
        Seldom { next_ns: 0, again_ns: AGAIN_NS[0] }
    }
}

impl Seldom {
    /// It has come. Whether it is answered.
    pub(super) fn may(&mut self, now: u64) -> bool {
        if now < self.next_ns {
            return false;
        }
        let is_rare = now > self.next_ns + RARE * self.again_ns;
        let [least, most] = AGAIN_NS;
        self.again_ns = if is_rare { least } else { (self.again_ns * 2).min(most) };
        self.next_ns = now + self.again_ns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_often_is_answered_ever_less_often() {
        let mut seldom = Seldom::default();
        let answered = (0..100).filter(|at| seldom.may(at * 20_000_000)).count();
        assert!((4..8).contains(&answered), "{answered} of 100 in two seconds");
        assert!(seldom.may(100_000_000_000), "it has not come for long");
        assert!(!seldom.may(100_000_000_000 + AGAIN_NS[0] / 2));
        assert!(seldom.may(100_000_000_000 + AGAIN_NS[0]));
    }
}
