//! Small files that are cut and grown again around commits that are under way.

use super::action::{Action, Wait};
use super::writer::{End, Writer};

/// Bytes of a block, the smallest that a vault has.
const BLOCK: u64 = 4096;
/// Blocks of a small file.
const BLOCKS_MAX: u64 = 8;
/// Changes of one file, one after the other.
const CHANGES_MAX: u64 = 6;

/// What the lanes of a round mostly do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Everything.
    #[default]
    All,
    /// Small files, cut and grown again, with little else.
    Small,
}

impl Mix {
    /// Steps in a hundred that churn a file.
    pub fn churn_percent(self) -> u64 {
        match self {
            Self::All => 10,
            Self::Small => 75,
        }
    }
}

impl Writer<'_> {
    /// Several changes of one file, with an `fsync` of it under way beside as often as not.
    pub(crate) fn churn(&mut self) -> Result<(), End> {
        let Some(path) = self.pick_file() else { return self.create() };
        for _ in 0..=self.below(CHANGES_MAX) {
            if self.below(2) == 0 {
                self.sync_beside(&path)?;
            }
            self.change_length(&path)?;
            match self.below(4) {
                0 => self.act(Action::Fsync { path: path.clone() })?,
                1 => self.act(Action::Fdatasync { path: path.clone() })?,
                _ => continue,
            };
        }
        Ok(())
    }

    fn change_length(&mut self, path: &str) -> Result<(), End> {
        let path = path.to_owned();
        let blocks = 1 + self.below(BLOCKS_MAX);
        match self.below(8) {
            0 => self.act(Action::SetLen { path, len: 0 }),
            1 => self.act(Action::SetLen { path, len: blocks * BLOCK }),
            2 => {
                let len = self.below(BLOCKS_MAX * BLOCK);
                self.act(Action::SetLen { path, len })
            }
            // Cut to nothing and written anew, as programs save.
            3..=5 => {
                self.act(Action::SetLen { path: path.clone(), len: 0 })?;
                let len = blocks * BLOCK - if self.below(2) == 0 { 0 } else { self.below(BLOCK) };
                self.act(Action::Write { path, offset: 0, len, wait: Wait::No })
            }
            // Grown, with a gap or without.
            _ => {
                let offset = self.len_of(&path) + if self.below(2) == 0 { 0 } else { self.below(2 * BLOCK) };
                let len = 1 + self.below(2 * BLOCK);
                self.act(Action::Write { path, offset, len, wait: Wait::No })
            }
        }
        .map(drop)
    }
}
