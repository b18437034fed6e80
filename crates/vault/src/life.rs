//! How far a file has come into being, and how far it has gone again.

use crate::barriers::{Barriers, Written};

/// What a crash would leave of a file that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// Nothing: its header page has not been written in place.
    Unwritten,
    /// All of it, or nothing: no barrier is known to have covered the header
    /// page.
    Written {
        /// When the page was written; `None` where that is not known.
        since: Option<Written>,
    },
    /// What was committed: that image of the header page, or a later one, is
    /// durable.
    Durable,
}

impl Birth {
    /// The header page has been written in place.
    pub(crate) fn is_written(self) -> bool {
        self != Birth::Unwritten
    }

    pub(crate) fn is_durable(self) -> bool {
        self == Birth::Durable
    }

    /// The header page has been written, in place if it is the first one.
    pub(crate) fn note_written(&mut self, written: Written) {
        if !self.is_written() {
            *self = Birth::Written { since: Some(written) };
        }
    }

    /// Whether it is durable, or a barrier of the store has covered it since.
    pub(crate) fn was_covered(self, barriers: &Barriers) -> bool {
        self.is_durable() || self.written_since().is_some_and(|since| barriers.covers_surely(since))
    }

    /// Since when a file that was never durable has been written in place.
    pub(crate) fn written_since(self) -> Option<Written> {
        match self {
            Birth::Written { since } => since,
            Birth::Unwritten | Birth::Durable => None,
        }
    }
}

/// Whether a file has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// It has.
    Named,
    /// The last one has been removed: nothing more of it need become durable.
    /// What is committed stays so, since a crash may bring the file back.
    Removed,
    /// A barrier has covered the removal: no crash brings the file back.
    Gone,
}

impl Naming {
    pub(crate) fn is_named(self) -> bool {
        self == Naming::Named
    }

    /// The last name has been removed.
    pub(crate) fn note_removed(&mut self) {
        if self.is_named() {
            *self = Naming::Removed;
        }
    }
}
