//! What a reader refuses, by name, so that a test can leave one rule out and
//! see the adversary catch it.
//!
//! Without the feature `planted-faults` every rule is kept and nothing can
//! leave one out. The feature exists in builds for tests alone: one without
//! debug assertions, as what is shipped, does not compile with it.

/// A rule that a reader holds what is stored against (sections 2 to 7 of
/// `docs/format/vault.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(not(feature = "planted-faults"), allow(unreachable_pub, reason = "tests alone name rules"))]
#[repr(u8)]
pub enum ReaderRule {
    /// A page below the header page is the image that the page above names.
    PageToken,
    /// A page that has a token is no hole, whatever stands in its place.
    PresentPage,
    /// A block opens under its entry.
    BlockTag,
    /// A stored length is that of the plain length.
    StoredLength,
    /// A file is sealed under a generation that the header accepts.
    Generation,
    /// A file opens under its home alone, unless it has had several names.
    Home,
    /// So does one that is open already.
    LiveHome,
    /// The first commit after a rename clears the home before.
    HomeBefore,
    /// What does not belong under its name is not bound to another by a rename
    /// or a link.
    HomeOfSource,
    /// A special record opens under the homes of its slots alone.
    SpecialHome,
    /// A directory's record is authentic.
    RecordMac,
    /// A directory opens under the homes of its record alone.
    DirectoryHome,
    /// A long name's side file is that of its entry.
    SideName,
    /// An attribute is of one inode.
    AttributeOwner,
    /// An attribute's value is of one name.
    AttributeName,
    /// A listed session has its journal.
    JournalPresent,
    /// A record of the journal follows the one that it names.
    RecordChain,
    /// A page's image in the journal is the one that the record names.
    ImageTag,
    /// A record that a later one calls durable is not torn.
    RecordDurable,
    /// A journal is replayed into files alone that are not newer.
    NewerFile,
}

impl ReaderRule {
    /// Every rule.
    #[cfg(feature = "planted-faults")]
    pub const ALL: [ReaderRule; 20] = [
        ReaderRule::PageToken,
        ReaderRule::PresentPage,
        ReaderRule::BlockTag,
        ReaderRule::StoredLength,
        ReaderRule::Generation,
        ReaderRule::Home,
        ReaderRule::LiveHome,
        ReaderRule::HomeBefore,
        ReaderRule::HomeOfSource,
        ReaderRule::SpecialHome,
        ReaderRule::RecordMac,
        ReaderRule::DirectoryHome,
        ReaderRule::SideName,
        ReaderRule::AttributeOwner,
        ReaderRule::AttributeName,
        ReaderRule::JournalPresent,
        ReaderRule::RecordChain,
        ReaderRule::ImageTag,
        ReaderRule::RecordDurable,
        ReaderRule::NewerFile,
    ];

    /// Whether the rule is kept.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_kept(self) -> bool {
        true
    }

    /// Whether the rule is kept.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_kept(self) -> bool {
        planted::left_out() & 1 << self as u8 == 0
    }
}

#[cfg(feature = "planted-faults")]
pub use planted::leave_out;

#[cfg(feature = "planted-faults")]
mod planted {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::ReaderRule;

    #[cfg(not(debug_assertions))]
    compile_error!("the feature `planted-faults` is for tests: it lets a reader take what it has to refuse");

    /// Names the rule that a test program leaves out from its start on.
    const VARIABLE: &str = "STRONGROOM_TEST_LEAVE_OUT";

    /// Bit `i`: rule `i` is left out.
    static LEFT_OUT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let rule = std::env::var(VARIABLE).ok().map(|name| {
            let named = ReaderRule::ALL.iter().find(|rule| format!("{rule:?}") == name);
            *named.unwrap_or_else(|| panic!("{VARIABLE}: there is no rule `{name}`"))
        });
        AtomicU32::new(rule.map_or(0, |rule| 1 << rule as u8))
    });

    pub(super) fn left_out() -> u32 {
        LEFT_OUT.load(Ordering::Relaxed)
    }

    /// Leaves out one rule, or none, in this whole process from now on.
    pub fn leave_out(rule: Option<ReaderRule>) {
        LEFT_OUT.store(rule.map_or(0, |rule| 1 << rule as u8), Ordering::Relaxed);
    }
}
