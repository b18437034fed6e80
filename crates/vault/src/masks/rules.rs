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
        super::planted::left_out() & 1 << self as u8 == 0
    }
}
