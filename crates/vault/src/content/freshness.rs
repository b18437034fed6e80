//! The page digest, held against the pages while they are read: whoever reads
//! a whole file since its opening is told when a page of it is older than its
//! header.
//!
//! Each page's term is taken at its first loading. The first change of the
//! file's pages ends the watch, and verifying the file takes its place.

use std::collections::BTreeSet;

use strongroom_units::GroupIndex;

use super::Content;
use super::follow::Following;
use super::state::{Image, PageAddress, State};
use crate::error::{Damage, Error, Result};

/// What has been seen of a file's pages since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The header's digest, less the terms of the pages seen.
    rest: [u8; 16],
    /// Bit `g`: the node of group `g`.
    groups: Vec<u64>,
    maps: BTreeSet<PageAddress>,
}

impl Watch {
    /// Of a file that has just been opened; `None` when its header page is
    /// its only one.
    pub(crate) fn begin(state: &State) -> Option<Watch> {
        let alone = state.header.groups == 1 && !state.header.root_map;
        (!alone).then(|| Watch { rest: state.header.digest, ..Watch::default() })
    }

    fn has_group(&self, group: u64) -> bool {
        let bits = self.groups.get((group / 64) as usize).copied().unwrap_or(0);
        bits >> (group % 64) & 1 == 1
    }

    fn note_group(&mut self, group: u64) -> bool {
        let word = (group / 64) as usize;
        if self.groups.len() <= word {
            self.groups.resize(word + 1, 0);
        }
        let before = self.groups[word];
        self.groups[word] |= 1 << (group % 64);
        self.groups[word] != before
    }
}

impl State {
    /// Whether every page has been seen, as far as the maps in memory tell.
    fn saw_everything(&self, watch: &Watch) -> bool {
        let low = (1..64).filter(|group| self.header.groups >> group & 1 == 1);
        if !low.into_iter().all(|group| watch.has_group(group)) {
            return false;
        }
        if !self.header.root_map {
            return true;
        }
        let Some(root) = &self.root_map else { return false };
        root.page.present().all(|number| {
            let number = number as u64;
            let first = super::commit::first_group_of_map(number);
            self.maps
                .get(&number)
                .is_some_and(|map| map.page.present().all(|bit| watch.has_group(first + bit as u64)))
        })
    }
}

impl Content {
    /// Takes note of a page that has just been loaded.
    pub(super) fn note_loaded(&self, state: &mut State, address: PageAddress, image: &Image) {
        state.following.iter_mut().for_each(Following::note_loaded);
        let Some(watch) = &mut state.watch else { return };
        let is_node = address == PageAddress::node(GroupIndex(address.number));
        let fresh = if is_node { watch.note_group(address.number) } else { watch.maps.insert(address) };
        if fresh {
            let term = self.context.page_term(self.id, address, image);
            watch.rest.iter_mut().zip(term).for_each(|(byte, term)| *byte ^= term);
        }
    }

    /// True when a read up to the end of the file has seen every page, so
    /// that [`Content::end_watch`] can tell whether they are all of one time.
    pub(super) fn can_end_watch(state: &State) -> bool {
        state.watch.as_ref().is_some_and(|watch| state.saw_everything(watch))
    }

    /// Holds the pages seen against the header.
    ///
    /// # Errors
    /// Damage when one of them is older, now and at each further call.
    pub(super) fn end_watch(state: &mut State) -> Result<()> {
        if state.watch.as_ref().is_some_and(|watch| watch.rest != [0; 16]) {
            return Err(Error::Damaged(Damage::Page("a page is older than its header")));
        }
        state.watch = None;
        Ok(())
    }
}
