//! Pages of stored files: which there are, what tells an image of one from all
//! others, and opening one. What they say is for `content` and `journal`.

use strongroom_engine::{AssociatedData, Batch, Buffer, Operation, Segment, StoredNonce, Verdict};
use strongroom_format::vault::geometry::{Parent, first_group_of, parent_of};
use strongroom_format::vault::page::{self, PageHeader};
use strongroom_format::vault::{FileId, Geometry, PageKind, Suite};
use strongroom_units::{GroupIndex, PAGE_LEN};

use crate::error::{Damage, Error, Result};
use crate::sealer::{Purpose, Sealer};

/// Which page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PageAddress {
    pub(crate) kind: PageKind,
    pub(crate) number: u64,
}

impl PageAddress {
    pub(crate) const HEADER: PageAddress = PageAddress { kind: PageKind::Header, number: 0 };

    pub(crate) fn node(group: GroupIndex) -> PageAddress {
        match group.0 {
            0 => Self::HEADER,
            number => PageAddress { kind: PageKind::Node, number },
        }
    }

    /// The page that holds this one's token; `None` for the header page.
    pub(crate) fn parent(self) -> Option<Parent> {
        parent_of(self.kind, self.number)
    }

    /// The map page that holds this one's token; `None` when the header does.
    pub(crate) fn map_above(self) -> Option<PageAddress> {
        match self.parent()? {
            Parent::Map { kind, number, .. } => Some(PageAddress { kind, number }),
            Parent::Header { .. } => None,
        }
    }

    /// The first group that this page tells of.
    pub(crate) fn first_group(self) -> u64 {
        first_group_of(self.kind, self.number).0
    }
}

/// What tells a page's last image from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) sequence: u64,
    pub(crate) tag: [u8; 16],
}

/// A page that opened: its clear part, and the sealed part in clear.
pub(crate) struct OpenedPage {
    pub(crate) header: PageHeader,
    /// The whole page; the sealed part, from [`page::CLEAR_LEN`] on, is open.
    pub(crate) buffer: Buffer,
}

impl OpenedPage {
    pub(crate) fn sealed(&self) -> &[u8; page::SEALED_LEN] {
        self.buffer[page::CLEAR_LEN..].try_into().expect("a page is a clear and a sealed part")
    }
}

/// What is needed to open a page of any file of a vault.
#[derive(Clone, Copy)]
pub(crate) struct PageReader<'a> {
    pub(crate) sealer: &'a Sealer,
    pub(crate) suite: Suite,
    pub(crate) geometry: Geometry,
}

impl PageReader<'_> {
    /// Opens the page in `buffer` as `address`. The file must be `file`, when
    /// that is known already.
    ///
    /// # Errors
    /// [`Damage::Page`] when it does not open or belongs elsewhere.
    pub(crate) fn open(
        &self,
        buffer: Buffer,
        address: PageAddress,
        file: Option<FileId>,
    ) -> Result<OpenedPage> {
        let header = self.header(&buffer, address, file)?;
        let batch =
            self.sealer.execute(Purpose::Pages(header.generation), to_open(buffer, &header, address))?;
        opened(header, batch).ok_or(Error::Damaged(Damage::Page("a page does not open")))
    }

    /// What the page in `buffer` says of itself, where that can be right.
    pub(crate) fn header(
        &self,
        buffer: &Buffer,
        address: PageAddress,
        file: Option<FileId>,
    ) -> Result<PageHeader> {
        let damaged = |what| Error::Damaged(Damage::Page(what));
        let clear = buffer[..page::CLEAR_LEN].try_into().expect("a page has a clear part");
        let header = PageHeader::decode(clear).map_err(|_| damaged("a page's clear part is not a page's"))?;
        if header.kind != address.kind || file.is_some_and(|file| file != header.file) {
            return Err(damaged("a page stands in another's place"));
        }
        if header.suite != self.suite || header.block_size != self.geometry.block_size() {
            return Err(damaged("a page was made for another vault"));
        }
        Ok(header)
    }
}

/// The batch that opens a page.
pub(crate) fn to_open(buffer: Buffer, header: &PageHeader, address: PageAddress) -> Batch {
    let associated = AssociatedData::new(&header.associated_data(address.number));
    let nonce = StoredNonce::new(header.nonce);
    let segment = Segment::open(page::CLEAR_LEN, page::SEALED_LEN, nonce, associated, header.tag);
    Batch::new(Operation::Open, buffer, vec![segment])
}

/// The page that came of it, if it opened.
pub(crate) fn opened(header: PageHeader, batch: Batch) -> Option<OpenedPage> {
    (batch.segments[0].verdict() == Verdict::Done).then_some(OpenedPage { header, buffer: batch.buffer })
}

/// What opened is no page of this format: whoever sealed it had the key and a
/// fault, so it is damage like any other.
pub(crate) fn malformed() -> Error {
    Error::Damaged(Damage::Page("a page opens and is malformed"))
}

const _: () = assert!(page::CLEAR_LEN + page::SEALED_LEN == PAGE_LEN);
