//! Builds one image of what a power cut could leave.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::SECTOR;
use super::choice::Choice;
use super::record::{DataRecord, PageVersion, Record, Recorder, SECTORS};
use crate::memory::{DataChange, FileBody, PAGE, Page, Tree};

/// One file's un-synced changes, in order, with their ordinals.
type Changes<'a> = Vec<(usize, &'a DataRecord)>;

/// The image for a cut before the log's entry `cut`.
pub(super) fn build(recorder: &Recorder, cut: usize, seed: u64) -> Tree {
    let base = recorder.base(cut);
    let mut names = Vec::new();
    let mut files = Vec::new();
    let mut changes: BTreeMap<u64, Changes<'_>> = BTreeMap::new();
    for position in base.carried.iter().copied().chain(base.position..cut) {
        match recorder.record(position) {
            Record::Namespace { deltas, .. } => names.push(deltas),
            Record::Data(data) => {
                changes.entry(data.inode).or_default().push((files.len(), data));
                files.push(data.inode);
            }
            Record::Barrier(_) | Record::Lost { .. } => (),
        }
    }
    let choice = Choice::draw(seed, cut, names.len(), &files);
    let mut tree = base.tree.clone();
    for delta in names[..choice.names].iter().copied().flatten() {
        tree.apply(delta);
    }
    for (&inode, changes) in &changes {
        // A file whose creation is not durable is not there.
        if let Some(body) = tree.file_mut(inode) {
            FileImage::new(inode, changes, &choice).build(body);
        }
    }
    tree.prune(|_| false);
    tree
}

/// The making of one file's content.
struct FileImage<'a> {
    inode: u64,
    changes: &'a Changes<'a>,
    choice: &'a Choice,
    /// How many of the changes the length has seen. Cuts among these have
    /// happened, later ones have not.
    seen: usize,
}

impl<'a> FileImage<'a> {
    fn new(inode: u64, changes: &'a Changes<'a>, choice: &'a Choice) -> FileImage<'a> {
        let seen = choice.changes_seen(inode, changes.iter().map(|&(ordinal, _)| ordinal));
        FileImage { inode, changes, choice, seen }
    }

    /// Turns the durable content into the image's.
    fn build(&self, body: &mut FileBody) {
        let len = self.len(body.len());
        for (_, data) in &self.changes[..self.seen] {
            if let Some(cut) = &data.cut {
                body.punch(cut);
            }
            if let DataChange::Reserve { offset, len, .. } = data.change {
                body.reserve(&(offset..offset + len));
            }
        }
        let mut pages: BTreeMap<u64, Vec<(usize, &PageVersion)>> = BTreeMap::new();
        for (at, (_, data)) in self.changes.iter().enumerate() {
            for version in &data.versions {
                pages.entry(version.page).or_default().push((at, version));
            }
        }
        for (&page, versions) in &pages {
            self.build_page(body, page, versions);
        }
        body.finish_image(len);
    }

    /// The length, given the durable one.
    fn len(&self, durable: u64) -> u64 {
        let Some(last) = self.seen.checked_sub(1) else { return durable };
        let data = self.changes[last].1;
        match data.change {
            DataChange::Write { .. } if data.len > data.old_len => {
                self.choice.stopped_length(self.inode, data.old_len, data.len, PAGE as u64)
            }
            _ => data.len,
        }
    }

    /// The cuts that touch a range of bytes, with their places in the order.
    fn cuts(&self, range: &Range<u64>) -> Vec<(usize, Range<u64>)> {
        let overlap = |cut: &Range<u64>| cut.start.max(range.start)..cut.end.min(range.end);
        let of_change = |(at, (_, data)): (usize, &(usize, &DataRecord))| {
            data.cut.as_ref().map(|cut| (at, overlap(cut))).filter(|(_, part)| !part.is_empty())
        };
        self.changes.iter().enumerate().filter_map(of_change).collect()
    }

    fn build_page(&self, body: &mut FileBody, page: u64, versions: &[(usize, &PageVersion)]) {
        let start = page * PAGE as u64;
        let cuts = self.cuts(&(start..start + PAGE as u64));
        let mut chosen = [None; SECTORS];
        for (sector, slot) in chosen.iter_mut().enumerate() {
            *slot = self.choose(start, sector, versions, &cuts);
        }
        let Some(latest) = chosen.iter().flatten().max().copied() else { return };
        if cuts.is_empty() && is_whole(&chosen, latest, versions) {
            body.pages_mut().put(page, Arc::clone(&versions[latest].1.content));
            return;
        }
        let mut bytes = body.pages().page(page).map_or([0; PAGE], |page| *page.bytes());
        for (sector, index) in chosen.iter().enumerate() {
            let Some(index) = *index else { continue };
            let (at, version) = versions[index];
            let place = sector * SECTOR..(sector + 1) * SECTOR;
            bytes[place.clone()].copy_from_slice(&version.content.bytes()[place.clone()]);
            for (_, cut) in cuts.iter().filter(|(cut_at, _)| *cut_at > at && *cut_at < self.seen) {
                let from = ((cut.start - start) as usize).max(place.start);
                let to = ((cut.end - start) as usize).min(place.end);
                if from < to {
                    bytes[from..to].fill(0);
                }
            }
        }
        body.pages_mut().put(page, Arc::new(Page::new(bytes)));
    }

    /// Which version of a page gives its sector `sector`; `None` for the
    /// durable one.
    fn choose(
        &self,
        start: u64,
        sector: usize,
        versions: &[(usize, &PageVersion)],
        cuts: &[(usize, Range<u64>)],
    ) -> Option<usize> {
        let place = start + (sector * SECTOR) as u64..start + ((sector + 1) * SECTOR) as u64;
        let whole = |cut: &Range<u64>| cut.start <= place.start && cut.end >= place.end;
        for (index, &(at, version)) in versions.iter().enumerate().rev() {
            // What was written behind a cut that did not happen went to new
            // space, which nothing refers to.
            let behind_cut = cuts.iter().any(|(cut_at, cut)| (self.seen..at).contains(cut_at) && whole(cut));
            if version.mask & (1 << sector) == 0 || behind_cut {
                continue;
            }
            let (ordinal, data) = self.changes[at];
            let first = data.versions.first().map_or(0, first_sector);
            let last = data.versions.last().map_or(first, last_sector);
            let number = place.start / SECTOR as u64;
            if self.choice.keeps(ordinal, number - first, last - first + 1) {
                return Some(index);
            }
        }
        None
    }
}

/// True when the version `latest` holds just what was chosen for each sector,
/// so that its page can be shared.
fn is_whole(chosen: &[Option<usize>; SECTORS], latest: usize, versions: &[(usize, &PageVersion)]) -> bool {
    chosen.iter().enumerate().all(|(sector, &chosen)| {
        let writer = versions[..=latest].iter().rposition(|(_, version)| version.mask & (1 << sector) != 0);
        writer == chosen
    })
}

fn first_sector(version: &PageVersion) -> u64 {
    version.page * SECTORS as u64 + u64::from(version.mask.trailing_zeros())
}

fn last_sector(version: &PageVersion) -> u64 {
    version.page * SECTORS as u64 + u64::from(7 - version.mask.leading_zeros())
}
