//! The ordering rules of the format, by name, so that a test can plant the
//! fault of leaving one out and see it caught.

/// An ordering rule (section 7 of `docs/format/vault.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rule {
    /// Rule 1: a referenced block is not overwritten in place.
    JournalOverwrites,
    /// Rule 1: a referenced page is not overwritten in place.
    JournalPages,
    /// Rule 2: what a record refers to in place is durable before it.
    DataBeforeRecord,
    /// A record is durable before the reply that promises it.
    RecordBeforeReply,
    /// A new file is durable before the reply that promises it.
    NewFileBeforeReply,
    /// Rule 4: what a segment says is durable at home before its reuse.
    HomeBeforeReuse,
    /// Rule 4: the removal of a file is durable before its records are gone.
    RemovalBeforeReuse,
    /// Rule 4: a segment's new header is durable before its slots are.
    HeaderBeforeReuse,
    /// Rule 5: homes are cut and punched after the record alone.
    RecordBeforeCut,
    /// Rule 6: the source of a rename is durable before it replaces a file.
    SourceBeforeReplace,
    /// Rule 6: what binds a file to a name is durable before it has the name.
    HomeBeforeName,
    /// Rule 6: what binds a special record to a name is durable before it has
    /// the name.
    SlotBeforeName,
    /// Rule 6: a special record's rename is durable before its slot forgets
    /// the name before.
    MoveBeforeSlot,
    /// Rule 9: special records are durable before the reply to `fsync` of
    /// their directory.
    SpecialBeforeReply,
    /// Rule 6: a directory's new home is durable before it moves there.
    RecordBeforeMove,
    /// Rule 6: a directory's move is durable before its home before is removed.
    MoveBeforeRecordGone,
    /// Rule 7: the session is listed durably before its first write.
    SessionBeforeWrite,
    /// Rule 7: everything is durable at home before the session is delisted.
    HomeBeforeDelisting,
    /// What a crashed session's journal says is durable at home before that
    /// journal is deleted.
    ReplayBeforeDelisting,
    /// Mode, owner, times and extended attributes are durable before the
    /// reply to `fsync`.
    AttributesBeforeReply,
    /// Rule 6: an unnamed file is durable before it is given a name.
    UnnamedBeforeLink,
    /// Rule 8: a directory has its record before it has its name.
    RecordBeforeEntry,
    /// Rule 8: a long name's side file, and a long target's, are durable
    /// before the entry that needs them.
    SideBeforeEntry,
    /// Rule 8: an entry is gone before the side file that it needs.
    EntryGoneBeforeSide,
    /// A copy of the vault header is durable before it takes the place of the
    /// one before, and that before the other copy is written.
    CopyBeforeOther,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 25] = [
        Rule::JournalOverwrites,
        Rule::JournalPages,
        Rule::DataBeforeRecord,
        Rule::RecordBeforeReply,
        Rule::NewFileBeforeReply,
        Rule::HomeBeforeReuse,
        Rule::RemovalBeforeReuse,
        Rule::HeaderBeforeReuse,
        Rule::RecordBeforeCut,
        Rule::SourceBeforeReplace,
        Rule::HomeBeforeName,
        Rule::SlotBeforeName,
        Rule::MoveBeforeSlot,
        Rule::SpecialBeforeReply,
        Rule::RecordBeforeMove,
        Rule::MoveBeforeRecordGone,
        Rule::SessionBeforeWrite,
        Rule::HomeBeforeDelisting,
        Rule::ReplayBeforeDelisting,
        Rule::AttributesBeforeReply,
        Rule::UnnamedBeforeLink,
        Rule::RecordBeforeEntry,
        Rule::SideBeforeEntry,
        Rule::EntryGoneBeforeSide,
        Rule::CopyBeforeOther,
    ];
}

/// Which rules are kept: all of them, but in tests that plant a fault and
/// where the user chose relaxed durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u32);

impl Rules {
    /// All rules.
    pub const STRICT: Rules = Rules(u32::MAX);

    /// Without the barriers: a crash of the program loses nothing, a power cut
    /// may lose the last seconds and damage what was being overwritten.
    pub const RELAXED: Rules = Rules::STRICT
        .without(Rule::DataBeforeRecord)
        .without(Rule::RecordBeforeReply)
        .without(Rule::NewFileBeforeReply)
        .without(Rule::HomeBeforeReuse)
        .without(Rule::RemovalBeforeReuse)
        .without(Rule::HeaderBeforeReuse)
        .without(Rule::SpecialBeforeReply)
        .without(Rule::AttributesBeforeReply);

    /// These rules but one.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u16))
    }

    /// Whether a rule is kept.
    #[must_use]
    pub const fn keeps(self, rule: Rule) -> bool {
        self.0 >> rule as u16 & 1 == 1
    }
}
