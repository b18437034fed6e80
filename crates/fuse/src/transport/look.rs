//! Whether looking for the next request pays, by what has been seen: the
//! rules of `docs/pacing.md#busy-polling`. Arithmetic alone, without a clock or
//! a device of its own.
//!
//! *Looking* asks the device again and again without sleeping. It saves being
//! woken, and keeps a CPU from whoever else wants it; so each rule here says
//! when not to.

use std::time::{Duration, Instant};

/// How long one look lasts at most: about what it takes to be woken on a CPU
/// that slept, twice.
pub(super) const LOOK: Duration = Duration::from_micros(20);
/// A look that lasted longer was interrupted by somebody who got the CPU.
pub(super) const LOOK_INTERRUPTED: Duration = Duration::from_micros(60);
/// What came sooner was there before it was asked for.
pub(super) const AT_ONCE: Duration = Duration::from_micros(2);
/// What being woken takes at least, and is no part of the gap before a request.
const WAKE: Duration = Duration::from_micros(5);
/// A gap counts as no longer than this, so that one pause of a program is
/// forgotten within few requests.
const GAP_MAX: Duration = Duration::from_micros(80);
/// So many requests there at once, less two for each other, are too many for
/// one worker.
const CROWD: u32 = 64;
/// An answer that took longer has waited for something.
const SLOW: Duration = Duration::from_micros(100);
/// So many of these times four, less one for each other, are too.
const SLOW_MANY: u32 = 16;
/// Weight of the latest gap in the mean: one part in this many.
const GAP_WEIGHT: u32 = 8;
/// Looks in vain take at most one part in this many of all time...
const VAIN_PART: u32 = 32;
/// ...with this much on account, and no more.
const VAIN_MAX: Duration = Duration::from_micros(500);
/// How often is asked whether anybody else wants to compute.
const ALONE_PERIOD: Duration = Duration::from_millis(1);
/// How long nobody looks after the first time that looking was given up...
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(10);
/// ...and after the last; each time twice as long.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);
/// After this long without giving up, pauses begin short again.
const TRUSTED: Duration = Duration::from_millis(200);

/// What one worker knows while it leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Mean time between a reply and the next request.
    gap: Duration,
    /// For how long may be looked in vain.
    credit: Duration,
    /// When credit was given last.
    credited: Option<Instant>,
    /// When it was last asked who else computes.
    asked: Option<Instant>,
    /// Rises with each request that was there at once.
    crowd: u32,
    /// Rises with each answer that took long.
    slow: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { gap: Duration::ZERO, credit: VAIN_MAX, credited: None, asked: None, crowd: 0, slow: 0 }
    }
}

impl Pace {
    /// Whether requests come soon enough.
    pub(super) fn is_short(&self) -> bool {
        self.gap <= LOOK
    }

    /// A leader begins with what others have seen.
    pub(super) fn begin(&mut self) {
        (self.gap, self.crowd, self.slow) = (Duration::ZERO, 0, 0);
    }

    /// Whether there is time left for a look in vain.
    pub(super) fn can_afford(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.credited.unwrap_or(now));
        self.credited = Some(now);
        self.credit = (self.credit + since / VAIN_PART).min(VAIN_MAX);
        self.credit >= LOOK
    }

    /// A look found nothing for so long.
    pub(super) fn was_vain(&mut self, took: Duration) {
        self.credit = self.credit.saturating_sub(took);
    }

    /// A request came so long after the reply before; `slept` when it was
    /// slept for.
    pub(super) fn came(&mut self, gap: Duration, slept: bool) {
        let crowd = if gap <= AT_ONCE { self.crowd + 1 } else { self.crowd.saturating_sub(2) };
        self.crowd = crowd.min(CROWD);
        let gap = if slept { gap.saturating_sub(WAKE) } else { gap };
        self.gap = (self.gap * (GAP_WEIGHT - 1) + gap.min(GAP_MAX)) / GAP_WEIGHT;
    }

    /// An answer took so long.
    pub(super) fn answered(&mut self, took: Duration) {
        let slow = if took > SLOW { self.slow + 4 } else { self.slow.saturating_sub(1) };
        self.slow = slow.min(SLOW_MANY);
    }

    /// Whether there is work for more than one: most requests were there at
    /// once, or every fifth took long.
    pub(super) fn is_too_much(&self) -> bool {
        self.crowd >= CROWD || self.slow >= SLOW_MANY
    }

    /// Whether it is time to ask again who else computes.
    pub(super) fn is_time_to_ask(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= ALONE_PERIOD);
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Asks with the next request once more.
    pub(super) fn ask_again(&mut self) {
        self.asked = None;
    }
}

/// For how long nobody looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    until: Option<Instant>,
    next: Duration,
    began: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { until: None, next: PAUSE_MIN, began: None }
    }
}

impl Pause {
    /// Whether it is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Looking begins.
    pub(super) fn end(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// Looking was given up.
    pub(super) fn begin(&mut self, now: Instant) {
        let lasted = self.began.take().map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        if lasted >= TRUSTED {
            self.next = PAUSE_MIN;
        }
        self.until = Some(now + self.next);
        self.next = (2 * self.next).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(5);

    #[test]
    fn a_program_that_thinks_long_is_not_looked_for() {
        let mut pace = Pace::default();
        (0..100).for_each(|_| pace.came(SHORT, false));
        assert!(pace.is_short());
        pace.came(Duration::from_secs(1), true);
        assert!(pace.is_short(), "one pause is no habit");
        (0..3).for_each(|_| pace.came(Duration::from_millis(1), true));
        assert!(!pace.is_short());
        let until_short = (1..100).find(|_| {
            pace.came(SHORT, false);
            pace.is_short()
        });
        assert!(until_short.is_some_and(|count| count <= 20), "{until_short:?}");
    }

    #[test]
    fn looks_in_vain_have_a_small_part_of_all_time() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let (mut spent, mut now) = (Duration::ZERO, start);
        while now - start < Duration::from_secs(1) {
            if pace.can_afford(now) {
                pace.was_vain(LOOK);
                spent += LOOK;
                now += LOOK;
            }
            now += SHORT;
        }
        assert!(spent <= (now - start) / VAIN_PART + VAIN_MAX + LOOK, "{spent:?}");
        assert!(spent >= (now - start) / VAIN_PART / 2, "{spent:?}");
    }

    #[test]
    fn work_for_several_is_noticed() {
        let mut pace = Pace::default();
        (0..1000).for_each(|at| pace.came(if at % 2 == 0 { AT_ONCE } else { SHORT }, false));
        assert!(!pace.is_too_much());
        (0..1000).for_each(|_| pace.came(SHORT, true));
        assert!(!pace.is_too_much());
        (0..CROWD).for_each(|_| pace.came(AT_ONCE, false));
        assert!(pace.is_too_much());
        pace.begin();
        (0..1000).for_each(|at| pace.answered(if at % 8 == 0 { 2 * SLOW } else { SHORT }));
        assert!(!pace.is_too_much());
        (0..SLOW_MANY / 4).for_each(|_| pace.answered(2 * SLOW));
        assert!(pace.is_too_much());
    }

    #[test]
    fn who_else_computes_is_asked_now_and_then() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let asked = (0..10_000).filter(|at| pace.is_time_to_ask(start + *at * SHORT)).count();
        assert_eq!(asked, 50);
        pace.ask_again();
        assert!(pace.is_time_to_ask(start + 10_000 * SHORT));
    }

    #[test]
    fn pauses_double_until_looking_has_gone_well_for_a_while() {
        let (mut now, mut pause) = (Instant::now(), Pause::default());
        assert!(pause.is_over(now));
        let mut expected = PAUSE_MIN;
        for _ in 0..10 {
            pause.end(now);
            pause.begin(now);
            assert!(!pause.is_over(now + expected - SHORT), "{expected:?}");
            now += expected;
            assert!(pause.is_over(now), "{expected:?}");
            expected = (2 * expected).min(PAUSE_MAX);
        }
        assert_eq!(expected, PAUSE_MAX);
        pause.end(now);
        pause.begin(now + TRUSTED);
        assert!(pause.is_over(now + TRUSTED + PAUSE_MIN));
    }
}
