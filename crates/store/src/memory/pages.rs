//! The content of a file as pages of 4 KiB, shared between copies until one
//! of them is changed. Absent pages read as zeros.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Pages of a group: copying a file copies its list of groups alone.
const GROUP: u64 = 64;

/// A SHA-256, for comparing contents.
pub(crate) type Digest = [u8; 32];

/// One page.
#[derive(Clone)]
pub(crate) struct Page {
    bytes: [u8; PAGE],
    /// Of `bytes`; the inner `None` says that they are all zero, which must
    /// compare equal to an absent page.
    digest: OnceLock<Option<Digest>>,
}

impl Page {
    /// A page that holds `bytes`.
    pub(crate) fn new(bytes: [u8; PAGE]) -> Page {
        Page { bytes, digest: OnceLock::new() }
    }

    pub(crate) fn bytes(&self) -> &[u8; PAGE] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        self.digest.take();
        &mut self.bytes
    }

    fn digest(&self) -> Option<Digest> {
        *self.digest.get_or_init(|| {
            let blank = self.bytes.iter().all(|&byte| byte == 0);
            (!blank).then(|| Sha256::digest(self.bytes).into())
        })
    }
}

/// Neighbouring pages.
#[derive(Clone)]
struct Group {
    pages: [Option<Arc<Page>>; GROUP as usize],
    digest: OnceLock<Option<Digest>>,
}

impl Group {
    fn empty() -> Group {
        Group { pages: [const { None }; GROUP as usize], digest: OnceLock::new() }
    }

    fn pages_mut(&mut self) -> &mut [Option<Arc<Page>>; GROUP as usize] {
        self.digest.take();
        &mut self.pages
    }

    fn digest(&self) -> Option<Digest> {
        *self.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            let mut blank = true;
            for (slot, page) in self.pages.iter().enumerate() {
                if let Some(digest) = page.as_ref().and_then(|page| page.digest()) {
                    hash.update((slot as u64).to_le_bytes());
                    hash.update(digest);
                    blank = false;
                }
            }
            (!blank).then(|| hash.finalize().into())
        })
    }
}

/// The pages of one file.
#[derive(Clone, Default)]
pub(crate) struct PageMap {
    groups: BTreeMap<u64, Arc<Group>>,
}

impl PageMap {
    /// The page `index`, if there is one.
    pub(crate) fn page(&self, index: u64) -> Option<&Arc<Page>> {
        self.groups.get(&(index / GROUP))?.pages[(index % GROUP) as usize].as_ref()
    }

    /// The page `index` for changing; it is made when absent.
    pub(crate) fn page_mut(&mut self, index: u64) -> &mut Page {
        let group = self.groups.entry(index / GROUP).or_insert_with(|| Arc::new(Group::empty()));
        let slot = &mut Arc::make_mut(group).pages_mut()[(index % GROUP) as usize];
        Arc::make_mut(slot.get_or_insert_with(|| Arc::new(Page::new([0; PAGE]))))
    }

    /// Puts `page` at `index`.
    pub(crate) fn put(&mut self, index: u64, page: Arc<Page>) {
        let group = self.groups.entry(index / GROUP).or_insert_with(|| Arc::new(Group::empty()));
        Arc::make_mut(group).pages_mut()[(index % GROUP) as usize] = Some(page);
    }

    /// Drops the pages of a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let groups = range.start / GROUP..range.end.div_ceil(GROUP);
        let mut emptied = Vec::new();
        for (&number, group) in self.groups.range_mut(groups) {
            let base = number * GROUP;
            let from = range.start.saturating_sub(base).min(GROUP) as usize;
            let to = (range.end - base).min(GROUP) as usize;
            if group.pages[from..to].iter().any(Option::is_some) {
                let pages = Arc::make_mut(group).pages_mut();
                pages[from..to].fill(None);
            }
            if group.pages.iter().all(Option::is_none) {
                emptied.push(number);
            }
        }
        for number in emptied {
            self.groups.remove(&number);
        }
    }

    /// Number of pages in a range.
    pub(crate) fn count(&self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut count = 0;
        for (&number, group) in self.groups.range(range.start / GROUP..range.end.div_ceil(GROUP)) {
            let base = number * GROUP;
            let from = range.start.saturating_sub(base).min(GROUP) as usize;
            let to = (range.end - base).min(GROUP) as usize;
            count += group.pages[from..to].iter().filter(|page| page.is_some()).count() as u64;
        }
        count
    }

    /// Adds the content to `hash`: pages of zeros and absent ones are equal.
    pub(crate) fn digest_into(&self, hash: &mut Sha256) {
        for (number, group) in &self.groups {
            if let Some(digest) = group.digest() {
                hash.update(number.to_le_bytes());
                hash.update(digest);
            }
        }
    }
}
