//! Walking the stored tree, and making what is no file in the plain one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::{VAULT_DIRECTORY, parse_journal_name};
use strongroom_store::{Attributes, InodeId, Kind, NodeRef};
use strongroom_vault::namespace::survey::{
    FOREIGN_KIND, Folder, Item, Listed, Named, Sort, SpecialItem, Survey, joined, placeholder,
};
use strongroom_vault::{Damage, Error};

use super::copy::{Copier, Place};
use super::target::Directory;
use crate::commands::check::findings::Finding;
use crate::tree::Pool;

/// Where copies go of what recoveries have cut.
const ASIDE: &[u8] = b"#aside";

/// How much was made.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) others: u64,
}

/// A directory that is being copied, and the names in it that are left.
struct Level {
    folder: Folder,
    directory: Arc<Directory>,
    path: Vec<u8>,
    taken: HashSet<Vec<u8>>,
    rest: std::vec::IntoIter<Listed>,
}

/// A directory that was made, with what goes into it and its plain path.
type Below = (Folder, Arc<Directory>, Vec<u8>);

/// A walk over a vault.
pub(super) struct Walk<'c, 'a> {
    copier: &'c Copier<'a>,
    survey: Survey<'a>,
    top: Option<Arc<Directory>>,
    /// Files with several names, by the path of the first.
    linked: HashMap<InodeId, Vec<u8>>,
    /// The ids of the directories that are being copied, from the top.
    ancestors: Vec<Option<DirectoryId>>,
    pub(super) counts: Counts,
}

impl<'c, 'a> Walk<'c, 'a> {
    pub(super) fn new(copier: &'c Copier<'a>) -> Walk<'c, 'a> {
        Walk {
            copier,
            survey: copier.survey,
            top: None,
            linked: HashMap::new(),
            ancestors: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Copies everything. Afterwards no directory is held.
    pub(super) fn top(&mut self, directory: Arc<Directory>, store: &NodeRef, pool: &Pool<'c>) {
        let folder = self.survey.top();
        self.top = Some(Arc::clone(&directory));
        self.folder(folder, &directory, b"", pool);
        if let Ok(aside) =
            store.lookup(VAULT_DIRECTORY.as_bytes()).and_then(|private| private.lookup(b"aside"))
        {
            self.aside(&aside, &directory, pool);
        }
        self.top = None;
    }

    fn unreadable(&self, path: &[u8], error: &Error) {
        self.copier.losses.add(Finding::new(path, error));
    }

    /// Copies what stands in a stored directory, and below it.
    fn folder(&mut self, folder: Folder, directory: &Arc<Directory>, path: &[u8], pool: &Pool<'c>) {
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.begin(folder, Arc::clone(directory), path.to_vec()));
        while let Some(level) = levels.last_mut() {
            let Some(listed) = level.rest.next() else {
                levels.pop();
                self.ancestors.pop();
                continue;
            };
            if self.copier.interrupt.is_asked() {
                return;
            }
            let Some((item, place)) = self.place(level, listed) else { continue };
            let Some((below, made, path)) = self.item(&level.folder, item, place, pool) else { continue };
            levels.extend(self.begin(below, made, path));
        }
    }

    /// Lists a directory; none when that cannot be.
    fn begin(&mut self, folder: Folder, directory: Arc<Directory>, path: Vec<u8>) -> Option<Level> {
        self.counts.directories += 1;
        let listing = match self.survey.list(&folder) {
            Ok(listing) => listing,
            Err(error) => {
                self.unreadable(&path, &error);
                return None;
            }
        };
        for (stored, error) in &listing.failed {
            let stored = Some(joined(&folder.stored, stored));
            self.copier.losses.add(Finding::new(&path, error).stored(stored));
        }
        let taken = listing.entries.iter().filter_map(|listed| match &listed.name {
            Named::Plain(name) => Some(name.clone()),
            _ => None,
        });
        let taken = taken.collect();
        self.ancestors.push(folder.id);
        Some(Level { folder, directory, path, taken, rest: listing.entries.into_iter() })
    }

    /// The inode of an entry, and where it goes; none when there is nothing to
    /// copy.
    fn place(&mut self, level: &mut Level, listed: Listed) -> Option<(Item, Place)> {
        let Level { folder, directory, path, taken, .. } = level;
        let whole = joined(&folder.stored, &listed.stored);
        let item = match self.survey.look(folder, listed) {
            Ok(item) => item?,
            Err(error) => {
                self.copier.losses.add(Finding::new(path, &error).stored(Some(whole)));
                return None;
            }
        };
        let name = match &item.name {
            Named::Plain(name) => name.clone(),
            Named::Conflict { .. } => self.second(&item, taken),
            Named::Foreign(what) => {
                self.copier.losses.add(Finding::name(path, &whole, what));
                return None;
            }
            Named::Lost(what) => {
                let name = self.unnamed(folder, &item, taken);
                taken.insert(name.clone());
                if folder.id.is_some() {
                    self.copier.losses.add(Finding::name(&joined(path, &name), &whole, what));
                }
                name
            }
        };
        let place = Place { directory: Arc::clone(directory), path: joined(path, &name), name };
        Some((item, place))
    }

    /// A name for a second version that nothing else in the directory has.
    fn second(&self, item: &Item, taken: &mut HashSet<Vec<u8>>) -> Vec<u8> {
        let name = numbered(item.name.shown().expect("its name is known"), taken);
        taken.insert(name.clone());
        name
    }

    /// A placeholder that nothing else in the directory is called.
    fn unnamed(&self, folder: &Folder, item: &Item, taken: &HashSet<Vec<u8>>) -> Vec<u8> {
        let known = match &item.sort {
            Sort::File => self.survey.open(item).ok().map(|opened| {
                let name = format!("#{}", opened.content.id()).into_bytes();
                opened.close();
                name
            }),
            Sort::Directory => self
                .survey
                .enter(folder, item)
                .ok()
                .and_then(|below| below.id)
                .map(|id| format!("#{id}").into_bytes()),
            Sort::Special(special) => Some(format!("#{}", special.id()).into_bytes()),
            Sort::Broken(_) | Sort::Foreign => None,
        };
        numbered(known.unwrap_or_else(|| placeholder(&item.node)), taken)
    }

    /// Copies an entry; what is below a directory is left to the caller.
    fn item(&mut self, folder: &Folder, item: Item, place: Place, pool: &Pool<'c>) -> Option<Below> {
        let attributes = match item.node.attributes() {
            Ok(attributes) => attributes,
            Err(error) => {
                self.unreadable(&place.path, &error.into());
                return None;
            }
        };
        match item.sort.clone() {
            Sort::File => self.file(item, &attributes, place, pool),
            Sort::Directory => return self.directory(folder, &item, attributes, place),
            Sort::Special(special) => self.special(&item, &special, &special.plain(&attributes), &place),
            Sort::Broken(damage) => self.unreadable(&place.path, &Error::Damaged(damage)),
            Sort::Foreign => self.unreadable(&place.path, &Error::Damaged(Damage::Name(FOREIGN_KIND))),
        }
        None
    }

    /// A file with several names is created here, so that it is there when
    /// the next name of it comes.
    fn file(&mut self, item: Item, attributes: &Attributes, place: Place, pool: &Pool<'c>) {
        let copier = self.copier;
        if attributes.links <= 1 {
            return pool.submit(Box::new(move || copier.begin(&item, place)));
        }
        if let Some(first) = self.linked.get(&attributes.id) {
            let top = self.top.as_ref().expect("there is one while the tree is walked");
            if let Err(errno) = place.directory.link(top, first, &place.name) {
                self.copier.fail(&place.path, errno);
            }
            return;
        }
        self.linked.insert(attributes.id, place.path.clone());
        if let Some(parts) = copier.begin(&item, place) {
            pool.submit(Box::new(move || Some(parts)));
        }
    }

    fn directory(
        &mut self,
        folder: &Folder,
        item: &Item,
        attributes: Attributes,
        place: Place,
    ) -> Option<Below> {
        let below = match self.survey.enter(folder, item) {
            Ok(below) => below,
            Err(error) => {
                self.unreadable(&place.path, &error);
                return None;
            }
        };
        if let Some(what) = below.stops_walk(self.ancestors.iter().copied()) {
            self.copier.losses.add(Finding::name(&place.path, &below.stored, what));
            return None;
        }
        let mut faults = Vec::new();
        if let Some(what) = below.fault
            // With the id found, nothing is lost.
            && below.id.is_none()
        {
            faults.push(Finding::name(&place.path, &below.stored, what));
        }
        let xattrs = match below.id {
            Some(id) => self.copier.xattrs(&item.node, id.0, &place.path, &mut faults),
            None => Vec::new(),
        };
        faults.into_iter().for_each(|fault| self.copier.losses.add(fault));
        match place.directory.make(&place.name, place.path.clone(), attributes, xattrs) {
            Ok(made) => Some((below, Arc::new(made), place.path)),
            Err(errno) => {
                self.copier.fail(&place.path, errno);
                None
            }
        }
    }

    fn special(&mut self, item: &Item, special: &SpecialItem, attributes: &Attributes, place: &Place) {
        if special.is_misplaced {
            self.unreadable(&place.path, &Error::Damaged(Damage::Home));
        }
        let made = if attributes.kind == Kind::Symlink {
            match self.survey.target(special) {
                Ok(target) => {
                    self.counts.symlinks += 1;
                    place.directory.symlink(&place.name, &target, attributes)
                }
                Err(error) => return self.unreadable(&place.path, &error),
            }
        } else {
            self.counts.others += 1;
            place.directory.special(&place.name, attributes)
        };
        match made {
            Ok(()) => {
                let mut faults = Vec::new();
                let xattrs = self.copier.xattrs(&item.node, special.id().0, &place.path, &mut faults);
                faults.into_iter().for_each(|fault| self.copier.losses.add(fault));
                place.directory.give_xattrs(&place.name, &place.path, &xattrs);
            }
            Err(errno) => self.copier.fail(&place.path, errno),
        }
    }

    /// Copies out what can be read of the copies that recoveries have kept.
    fn aside(&mut self, node: &NodeRef, top: &Arc<Directory>, pool: &Pool<'c>) {
        let entries = node.entries().unwrap_or_default();
        let Ok(attributes) = node.attributes() else { return };
        let mut directory = None;
        for entry in entries.iter().filter(|entry| parse_journal_name(&entry.name).is_none()) {
            let Ok(node) = node.lookup(&entry.name) else { continue };
            let listed = Listed {
                stored: entry.name.clone(),
                name: Named::Lost("it was kept aside"),
                directory: None,
            };
            let Ok(item) = self.survey.item(node, listed) else { continue };
            if !matches!(item.sort, Sort::File) {
                continue;
            }
            // Of most copies nothing opens, which is no loss of this vault's.
            let Ok(opened) = self.survey.open(&item) else { continue };
            opened.close();
            if directory.is_none() {
                match top.make(ASIDE, ASIDE.to_vec(), attributes, Vec::new()) {
                    Ok(made) => directory = Some(Arc::new(made)),
                    Err(errno) => return self.copier.fail(ASIDE, errno),
                }
            }
            let directory = directory.clone().expect("it was made just now");
            let place = Place { directory, name: entry.name.clone(), path: joined(ASIDE, &entry.name) };
            let copier = self.copier;
            pool.submit(Box::new(move || copier.begin(&item, place)));
        }
    }
}

/// The name, or the first with a number behind it, that is not taken.
fn numbered(name: Vec<u8>, taken: &HashSet<Vec<u8>>) -> Vec<u8> {
    let mut candidate = name.clone();
    let mut number = 0;
    while taken.contains(&candidate) {
        number += 1;
        candidate = [&name[..], format!(".{number}").as_bytes()].concat();
    }
    candidate
}
