//! The names and inodes of the model: a small tree, copied with every change.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_store::Kind;

/// A model inode, by the order of creation.
pub(crate) type Id = usize;
/// The top directory.
pub(crate) const TOP: Id = 0;

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    File,
    Symlink(Arc<[u8]>),
    /// Its kind and device number.
    Special(Kind, u64),
    Directory(BTreeMap<String, Id>),
}

/// An inode of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) body: Body,
    /// `None` where it does not matter.
    pub(crate) mode: Option<u32>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// One state of all names.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) inodes: BTreeMap<Id, Arc<Inode>>,
}

/// Where a name stands: the directory, and the name in it.
pub(crate) type Place = (Id, String);

impl Tree {
    pub(crate) fn new() -> Tree {
        let top = Inode { body: Body::Directory(BTreeMap::new()), mode: None, xattrs: BTreeMap::new() };
        Tree { inodes: BTreeMap::from([(TOP, Arc::new(top))]) }
    }

    pub(crate) fn entries(&self, directory: Id) -> &BTreeMap<String, Id> {
        match &self.inodes[&directory].body {
            Body::Directory(entries) => entries,
            _ => panic!("#{directory} is a directory"),
        }
    }

    pub(crate) fn is_directory(&self, id: Id) -> bool {
        matches!(self.inodes[&id].body, Body::Directory(_))
    }

    pub(crate) fn is_file(&self, id: Id) -> bool {
        matches!(self.inodes[&id].body, Body::File)
    }

    pub(crate) fn is_special(&self, id: Id) -> bool {
        matches!(self.inodes[&id].body, Body::Symlink(_) | Body::Special(..))
    }

    pub(crate) fn is_symlink(&self, id: Id) -> bool {
        matches!(self.inodes[&id].body, Body::Symlink(_))
    }

    pub(crate) fn at(&self, place: &Place) -> Option<Id> {
        self.entries(place.0).get(&place.1).copied()
    }

    pub(crate) fn inode_mut(&mut self, id: Id) -> &mut Inode {
        Arc::make_mut(self.inodes.get_mut(&id).expect("a model inode"))
    }

    pub(crate) fn put(&mut self, place: &Place, id: Id) {
        match &mut self.inode_mut(place.0).body {
            Body::Directory(entries) => drop(entries.insert(place.1.clone(), id)),
            _ => panic!("#{} is a directory", place.0),
        }
    }

    pub(crate) fn take(&mut self, place: &Place) -> Option<Id> {
        match &mut self.inode_mut(place.0).body {
            Body::Directory(entries) => entries.remove(&place.1),
            _ => panic!("#{} is a directory", place.0),
        }
    }

    /// Every place with what stands there, from the top down.
    pub(crate) fn places(&self) -> Vec<(Place, Id)> {
        let mut places: Vec<(Place, Id)> = Vec::new();
        let mut waiting = vec![TOP];
        while let Some(directory) = waiting.pop() {
            for (name, &id) in self.entries(directory) {
                places.push(((directory, name.clone()), id));
                if self.is_directory(id) {
                    waiting.push(id);
                }
            }
        }
        places
    }

    /// Every directory that has a name, the top one first.
    pub(crate) fn directories(&self) -> Vec<Id> {
        let below = self.places().into_iter().map(|(_, id)| id).filter(|&id| self.is_directory(id));
        std::iter::once(TOP).chain(below).collect()
    }

    /// The place of an inode, any of several.
    pub(crate) fn place_of(&self, id: Id) -> Option<Place> {
        self.places().into_iter().find(|&(_, found)| found == id).map(|(place, _)| place)
    }

    /// The names from the top to a directory.
    pub(crate) fn path(&self, directory: Id) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = directory;
        while at != TOP {
            let (parent, name) = self.place_of(at).expect("a directory that has a name");
            names.push(name);
            at = parent;
        }
        names.reverse();
        names
    }

    /// Whether `directory` is `id` or lies below it.
    pub(crate) fn is_below(&self, directory: Id, id: Id) -> bool {
        let mut at = directory;
        loop {
            if at == id {
                return true;
            }
            if at == TOP {
                return false;
            }
            at = self.place_of(at).expect("a directory that has a name").0;
        }
    }
}
