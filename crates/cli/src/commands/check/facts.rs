//! What a check has seen that a repair may want to know.

use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::Kind;
use strongroom_vault::namespace::survey::{Folder, Item, SpecialItem};

/// Something seen.
pub(super) enum Fact {
    /// A stored directory.
    Folder(Folder),
    /// Several stored directories have this id.
    DuplicateDirectory(DirectoryId),
    /// Several stored files have this id.
    DuplicateFile(FileId),
    /// A directory whose record is lost or damaged.
    LostRecord {
        /// The directory; its id may be known all the same.
        folder: Folder,
        /// How many entries stand in it.
        entries: usize,
    },
    /// A side file whose entry is gone.
    Orphan {
        /// Where it stands.
        folder: Folder,
        /// Its stored name.
        side: Vec<u8>,
    },
    /// An entry that is none of the vault's.
    Foreign {
        /// Where it stands.
        folder: Folder,
        /// Its name.
        stored: Vec<u8>,
    },
    /// An entry that does not belong where it stands.
    Misplaced(Misplaced),
    /// An entry that a synchronisation program has put beside another, or into
    /// a directory of the same name.
    Adoptable(Adoptable),
}

/// An entry that is to get a name of its own.
#[derive(Clone)]
pub(super) struct Adoptable {
    /// Where it stands.
    pub(super) folder: Folder,
    /// Its stored name.
    pub(super) stored: Vec<u8>,
    /// The plain name to which it has to belong.
    pub(super) of: Vec<u8>,
    /// The plain name that it is to get.
    pub(super) name: Vec<u8>,
    /// The id of the directory that its name was sealed in, where that is not
    /// this one's; else it is a second version, to be copied.
    pub(super) other: Option<DirectoryId>,
}

/// An entry whose name does not open, or a file that is not of its name.
#[derive(Clone)]
pub(super) struct Misplaced {
    /// Where it stands.
    pub(super) folder: Folder,
    /// The entry.
    pub(super) item: Item,
    /// The file's id, if it is a file that can be opened.
    pub(super) file: Option<FileId>,
    /// The directory that its header page names.
    pub(super) directory: Option<DirectoryId>,
    /// The MAC of its home.
    pub(super) home: [u8; 16],
    /// What it is called where its name is lost.
    pub(super) placeholder: Vec<u8>,
    /// It has had several names, and is bound to none.
    pub(super) is_linked: bool,
    /// Its header page is whole, so that it can be bound to another name.
    pub(super) is_whole: bool,
}

impl Misplaced {
    /// Whether it has to be bound to a name that it is moved to.
    pub(super) fn is_bound(&self) -> bool {
        self.item.node.kind() == Kind::File && !self.is_linked && self.is_whole
    }
}

impl Fact {
    /// A symlink, FIFO, socket or device node.
    pub(super) fn misplaced_special(folder: &Folder, item: &Item, special: &SpecialItem) -> Fact {
        Fact::Misplaced(Misplaced {
            folder: folder.clone(),
            item: item.clone(),
            file: Some(special.id()),
            directory: Some(special.directory()),
            home: special.home(),
            placeholder: format!("#{}", special.id()).into_bytes(),
            is_linked: special.is_linked(),
            is_whole: true,
        })
    }

    /// A directory.
    pub(super) fn misplaced(folder: &Folder, item: &Item, placeholder: Vec<u8>) -> Fact {
        Fact::Misplaced(Misplaced {
            folder: folder.clone(),
            item: item.clone(),
            file: None,
            directory: None,
            home: [0; 16],
            placeholder,
            is_linked: false,
            is_whole: true,
        })
    }
}
