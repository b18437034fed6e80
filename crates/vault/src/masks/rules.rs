//! What pools of masks hold to, by name, so that a test can leave one rule out
//! and see it caught.
//!
//! Without the feature `planted-faults` every rule is kept and nothing can
//! leave one out, as with the rules of readers (`reader_rules.rs`).

/// A rule that keeps masks harmless (`docs/masks.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-faults"), allow(unreachable_pub, reason = "tests alone name rules"))]
#[repr(u8)]
pub enum MaskRule {
    /// What is taken from a pool is gone from it.
    #[cfg_attr(not(feature = "planted-faults"), expect(dead_code, reason = "types keep it"))]
    TakenOnce,
    /// What a write that failed has taken is gone too.
    #[cfg_attr(not(feature = "planted-faults"), expect(dead_code, reason = "types keep it"))]
    FailedIsSpent,
    /// Masks are of nonces of the session that writes.
    OfSession,
    /// Only blocks of the newest key generation are written with masks.
    OfGeneration,
    /// All pools of a mount together hold a bounded number of bytes.
    Bounded,
}

impl MaskRule {
    /// Every rule.
    #[cfg(feature = "planted-faults")]
    pub const ALL: [MaskRule; 5] = [
        MaskRule::TakenOnce,
        MaskRule::FailedIsSpent,
        MaskRule::OfSession,
        MaskRule::OfGeneration,
        MaskRule::Bounded,
    ];

    /// Whether the rule is kept.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_kept(self) -> bool {
        true
    }

    /// Whether the rule is kept.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_kept(self) -> bool {
        left_out::LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed) & 1 << self as u8 == 0
    }
}

#[cfg(feature = "planted-faults")]
pub use left_out::leave_out_of_masks;

/// Leaving a rule out.
#[cfg(feature = "planted-faults")]
mod left_out {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::MaskRule;

    /// Names the rule that a test program leaves out from its start on.
    const VARIABLE: &str = "STRONGROOM_TEST_LEAVE_OUT_OF_MASKS";

    /// Bit `i`: rule `i` is left out.
    pub(super) static LEFT_OUT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let rule = std::env::var(VARIABLE).ok().map(|name| {
            let named = MaskRule::ALL.iter().find(|rule| format!("{rule:?}") == name);
            *named.unwrap_or_else(|| panic!("{VARIABLE}: there is no rule `{name}`"))
        });
        AtomicU32::new(rule.map_or(0, |rule| 1 << rule as u8))
    });

    /// Leaves out one rule of masks, or none, in this whole process from now on.
    pub fn leave_out_of_masks(rule: Option<MaskRule>) {
        LEFT_OUT.store(rule.map_or(0, |rule| 1 << rule as u8), Ordering::Relaxed);
    }
}
