//! What is known of an entry's name.

use crate::namespace::NAME_MAX;

/// What is known of an entry's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The plain name.
    Plain(Vec<u8>),
    /// A second version of the entry of this plain name, which a
    /// synchronisation program has left beside it.
    Conflict {
        /// The entry's plain name.
        of: Vec<u8>,
        /// What the program has put behind the stored name. Nothing
        /// authenticates it: what is no printed character is `_` here.
        mark: Vec<u8>,
    },
    /// It is spelled as stored names are, and does not open.
    Lost(&'static str),
    /// It is no stored name of this vault's.
    Foreign(&'static str),
}

impl Named {
    /// The plain name to which the entry is bound.
    #[must_use]
    pub fn bound(&self) -> Option<&[u8]> {
        match self {
            Named::Plain(name) | Named::Conflict { of: name, .. } => Some(name),
            Named::Lost(_) | Named::Foreign(_) => None,
        }
    }

    /// What the entry is called: its plain name, with what a synchronisation
    /// program has put behind it.
    #[must_use]
    pub fn shown(&self) -> Option<Vec<u8>> {
        match self {
            Named::Plain(name) => Some(name.clone()),
            Named::Conflict { of, mark } => {
                let kept = of.len().min(NAME_MAX.saturating_sub(mark.len()));
                let whole = [&of[..kept], mark].concat();
                Some(whole[..whole.len().min(NAME_MAX)].to_vec())
            }
            Named::Lost(_) | Named::Foreign(_) => None,
        }
    }
}
