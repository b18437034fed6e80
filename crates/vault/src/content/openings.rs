//! Files that are being opened. What was read of one is void when its content
//! has ceased to be live meanwhile: others may have opened, changed and released
//! the file since.

use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::PoisonError;

use strongroom_store::InodeId;

/// The files that are being opened now.
#[derive(Default)]
pub(super) struct Openings(Mutex<HashMap<InodeId, Underway>>);

#[derive(Default)]
struct Underway {
    openers: usize,
    retirements: u64,
}

/// One opening of a file, from before it is read until it is live.
pub(super) struct Opening<'a> {
    openings: &'a Openings,
    inode: InodeId,
}

impl Openings {
    /// The file is about to be read.
    pub(super) fn begin(&self, inode: InodeId) -> Opening<'_> {
        self.change(|underway| underway.entry(inode).or_default().openers += 1);
        Opening { openings: self, inode }
    }

    /// The file's content has ceased to be live.
    pub(super) fn note_retired(&self, inode: InodeId) {
        self.change(|underway| {
            if let Some(underway) = underway.get_mut(&inode) {
                underway.retirements += 1;
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<InodeId, Underway>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Opening<'_> {
    /// How often the file's content has ceased to be live since the first of
    /// those who open it now began.
    pub(super) fn retirements(&self) -> u64 {
        self.openings.change(|underway| underway[&self.inode].retirements)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.openings.change(|underway| {
            let found = underway.get_mut(&self.inode).expect("it is under way");
            found.openers -= 1;
            if found.openers == 0 {
                underway.remove(&self.inode);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retirements_count_for_those_who_open_the_file() {
        let inode = |inode| InodeId { device: 1, inode };
        let openings = Openings::default();
        openings.note_retired(inode(1));
        let (one, other) = (openings.begin(inode(1)), openings.begin(inode(2)));
        assert_eq!((one.retirements(), other.retirements()), (0, 0));
        openings.note_retired(inode(1));
        let late = openings.begin(inode(1));
        assert_eq!((one.retirements(), late.retirements(), other.retirements()), (1, 1, 0));
        drop((one, late));
        assert_eq!(openings.begin(inode(1)).retirements(), 0, "nothing is kept");
    }
}
