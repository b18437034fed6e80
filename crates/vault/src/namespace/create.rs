//! Making files, directories, symlinks and special files, with the owner,
//! mode and lists that they inherit.

use std::cell::Cell;
use std::sync::Arc;

use strongroom_format::freshness::Object;
use strongroom_format::vault::special::Special;
use strongroom_store::{Attributes, FileRef, Kind, NodeRef, RenameMode};

use super::access::{DIRECTORY_BITS, FILE_BITS};
use super::acl::Acl;
use super::inode::{Inode, write};
use super::remove::discard;
use super::shape::Shape;
use super::special::NewSpecial;
use super::xattr::{ACCESS_LIST, DEFAULT_LIST};
use super::{Creation, Entry, GENERATION, Namespace, Opening, Place};
use crate::content::{Content, Home};
use crate::error::{Error, Result, errno};
use crate::rules::Rule;
use crate::waiting::Attribute;

const SET_GROUP_ID: u32 = 0o2000;

/// What a new inode is to be given.
struct Inheritance {
    mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    /// Both lists with the names under which they stand.
    lists: Vec<(&'static [u8], Acl)>,
}

impl Namespace {
    /// Creates a regular file and opens it, or opens the one that is there
    /// unless `opening` is exclusive.
    ///
    /// # Errors
    /// `EEXIST`, `EROFS`, those of [`Namespace::lookup`] and
    /// [`Namespace::open`], or what the store reports.
    pub fn create(
        &self,
        parent: u64,
        name: &[u8],
        creation: &Creation,
        opening: Opening,
    ) -> Result<(Entry, Arc<Content>)> {
        self.writable()?;
        self.make_way();
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let place = self.place(&parent, name, &stored)?;
        let gate = write(&parent.gate);
        if gate.removed {
            return Err(Error::Refused(errno::ENOENT));
        }
        let inheritance = self.inheritance(&parent, creation, Kind::File)?;
        let home = self.names.home(place.directory, name);
        let directory = place.directory;
        let change = self.change(directory)?;
        let created = self.with_side(&parent, &stored, || {
            let (node, file) = parent.node.create(&stored.main, inheritance.mode)?;
            let undo = |content: Option<&Content>| {
                let removed = parent.node.remove(&stored.main).is_ok();
                if let (false, Some(content)) = (removed, content) {
                    self.record(directory, name, || Ok(Object::File(content.id())));
                }
                removed
            };
            self.created(node, file, home, &inheritance, Some(place), &undo)
        });
        match created {
            // The kernel has looked before it asked: as a rule there is none.
            Err(error) if error.errno() == errno::EEXIST && !opening.exclusive => {
                drop(change);
                let (node, seen) = self.find(&parent, &stored.main)?;
                let entry = self.entered(node, seen, self.place(&parent, name, &stored)?)?;
                drop(gate);
                self.open_existing(entry, opening)
            }
            Ok(created) => {
                self.record(directory, name, || Ok(Object::File(created.1.id())));
                Ok(created)
            }
            Err(error) => Err(error),
        }
    }

    fn open_existing(&self, mut entry: Entry, opening: Opening) -> Result<(Entry, Arc<Content>)> {
        let opened = self.open(entry.number, opening);
        if opened.is_err() {
            self.forget(entry.number, 1);
        } else if opening.truncate {
            entry.attributes = self.attributes(entry.number)?;
        }
        Ok((entry, opened?))
    }

    /// Creates and opens a file without a name (`O_TMPFILE`), which
    /// [`Namespace::link`] may name. `parent` decides what it inherits.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the store has no such files, `EROFS`, or what the
    /// store reports.
    pub fn create_unnamed(&self, parent: u64, creation: &Creation) -> Result<(Entry, Arc<Content>)> {
        self.writable()?;
        self.make_way();
        let parent = self.directory(parent)?;
        let inheritance = self.inheritance(&parent, creation, Kind::File)?;
        let (node, file) = parent.node.create_unnamed(inheritance.mode)?;
        self.created(node, file, Home::UNBOUND, &inheritance, None, &|_| true)
    }

    /// Completes a file that the store has just made. When that fails, `undo`
    /// removes it and says whether it could; what could not be removed is an
    /// empty file like others, and written out like them.
    fn created(
        &self,
        node: NodeRef,
        file: FileRef,
        home: Home,
        inheritance: &Inheritance,
        place: Option<Place>,
        undo: &dyn Fn(Option<&Content>) -> bool,
    ) -> Result<(Entry, Arc<Content>)> {
        let inode = self.table.pin(Arc::clone(&node), Shape::File);
        let content = self.contents.adopt(Arc::clone(&node), file, home).inspect_err(|_| {
            undo(None);
        })?;
        inode.adopted(&content);
        if inheritance.lists.is_empty() {
            inode.set_bare();
        }
        let completed = content.reserve_header().and_then(|()| {
            let mut lists = inheritance.lists.iter();
            lists.try_for_each(|(name, acl)| self.put_list(&node, content.id().0, name, acl))?;
            let attributes = self.give(&node, inheritance)?;
            Ok(Attributes { len: content.plain_len(), ..attributes })
        });
        match completed {
            Ok(attributes) => {
                if let Some(place) = place {
                    inode.placed(place);
                    self.hint_path(&inode, &content);
                }
                Ok((Entry { number: inode.keep(), generation: GENERATION, attributes }, content))
            }
            Err(error) => {
                if undo(Some(&content)) {
                    content.unlinked();
                }
                inode.close();
                Err(error)
            }
        }
    }

    /// Makes a directory: under a temporary name, where it gets its record,
    /// and from there into its place, so that none is ever seen without.
    ///
    /// # Errors
    /// `EEXIST`, `EROFS`, those of [`Namespace::lookup`], or what the store
    /// reports.
    pub fn make_directory(&self, parent: u64, name: &[u8], creation: &Creation) -> Result<Entry> {
        let bare = Cell::new(false);
        self.make(parent, name, &bare, |parent, place| {
            let stored = &*place.stored;
            let inheritance = self.inheritance(parent, creation, Kind::Directory)?;
            bare.set(inheritance.lists.is_empty());
            let temporary = self.temporary()?;
            let passing = self.names.random_name()?;
            let id = self.names.new_directory()?;
            let home = self.names.directory_home(place.directory, &place.name);
            let node = temporary.make_directory(&passing, 0o700)?;
            let record_first = self.contents.keeps(Rule::RecordBeforeEntry);
            let put_record = || self.names.put_record(&*node, id, home);
            let completed = (if record_first { put_record() } else { Ok(()) })
                .and_then(|()| self.give(&node, &inheritance))
                .and_then(|_| {
                    let lists = &inheritance.lists;
                    lists.iter().try_for_each(|(name, acl)| self.put_list(&node, id.0, name, acl))
                })
                .and_then(|()| {
                    // A directory that its owner may not write cannot be moved.
                    node.set_mode(inheritance.mode | DIRECTORY_BITS)?;
                    let replace = RenameMode::Replace;
                    Ok(temporary.rename(&passing, &*parent.node, stored, replace)?)
                });
            if let Err(error) = completed {
                // What stays is swept when the vault is mounted next.
                let _ = discard(&node, temporary, &passing);
                return Err(error);
            }
            if !record_first {
                put_record()?;
            }
            if inheritance.mode & DIRECTORY_BITS != DIRECTORY_BITS {
                node.set_mode(inheritance.mode)?;
            }
            Ok((node, Shape::Directory))
        })
    }

    /// Makes a symlink to `target`.
    ///
    /// # Errors
    /// As [`Namespace::make_directory`]; `ENAMETOOLONG` for a target of more
    /// than 4095 bytes.
    pub fn make_symlink(
        &self,
        parent: u64,
        name: &[u8],
        target: &[u8],
        creation: &Creation,
    ) -> Result<Entry> {
        Self::check_target(target)?;
        self.make(parent, name, &Cell::new(false), |parent, place| {
            let inheritance = self.inheritance(parent, creation, Kind::Symlink)?;
            let inheritance = Inheritance { mode: FILE_BITS, ..inheritance };
            self.made_special(parent, place, &NewSpecial::Symlink(target), &inheritance)
        })
    }

    /// Makes a FIFO, socket or device node.
    ///
    /// # Errors
    /// As [`Namespace::make_directory`]; `EINVAL` for other kinds. Who may make
    /// device nodes the kernel decides.
    pub fn make_special(
        &self,
        parent: u64,
        name: &[u8],
        kind: Kind,
        device: u64,
        creation: &Creation,
    ) -> Result<Entry> {
        let special = match kind {
            Kind::Fifo => Special::Fifo,
            Kind::Socket => Special::Socket,
            Kind::CharacterDevice => Special::CharacterDevice(device),
            Kind::BlockDevice => Special::BlockDevice(device),
            Kind::File | Kind::Directory | Kind::Symlink => return Err(Error::Refused(errno::EINVAL)),
        };
        self.make(parent, name, &Cell::new(false), |parent, place| {
            let inheritance = self.inheritance(parent, creation, kind)?;
            self.made_special(parent, place, &NewSpecial::Other(special), &inheritance)
        })
    }

    /// Makes a special record, and gives it what it inherits.
    fn made_special(
        &self,
        parent: &Inode,
        place: &Place,
        new: &NewSpecial<'_>,
        inheritance: &Inheritance,
    ) -> Result<(NodeRef, Shape)> {
        let (node, record) = self.store_special(parent, place, new, inheritance.mode)?;
        let id = record.id().0;
        let completed = self.give(&node, inheritance).and_then(|_| {
            inheritance.lists.iter().try_for_each(|(name, acl)| self.put_list(&node, id, name, acl))
        });
        if let Err(error) = completed {
            // The caller is told; the entry that stays is a whole one.
            if parent.node.remove(&place.stored).is_ok() {
                self.remove_long_target(&record);
            }
            return Err(error);
        }
        Ok((node, Shape::Special(record)))
    }

    /// Runs `store` for a name that does not exist in `parent`, whose gate is
    /// held meanwhile, and enters what it made. `bare` then says whether that
    /// is known to have no extended attributes.
    fn make(
        &self,
        parent: u64,
        name: &[u8],
        bare: &Cell<bool>,
        store: impl FnOnce(&Inode, &Place) -> Result<(NodeRef, Shape)>,
    ) -> Result<Entry> {
        self.writable()?;
        self.make_way();
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let place = self.place(&parent, name, &stored)?;
        let gate = write(&parent.gate);
        if gate.removed {
            return Err(Error::Refused(errno::ENOENT));
        }
        match parent.node.lookup(&stored.main) {
            Ok(_) => return Err(Error::Refused(errno::EEXIST)),
            Err(error) if error.is_not_found() => (),
            Err(error) => return Err(error.into()),
        }
        let _change = self.change(place.directory)?;
        let (node, shape) = self.with_side(&parent, &stored, || store(&parent, &place))?;
        let pin = self.table.pin(Arc::clone(&node), shape);
        self.record(place.directory, name, || self.object_of(&node));
        let entry = self.settle(pin, self.look(&*node)?, place)?;
        if bare.get() {
            self.table.inode(entry.number)?.set_bare();
        }
        Ok(entry)
    }

    /// What an inode created in `parent` is to be given.
    fn inheritance(&self, parent: &Inode, creation: &Creation, kind: Kind) -> Result<Inheritance> {
        let above = parent.node.attributes()?;
        let mut mode = creation.mode & 0o7777;
        let mut lists = Vec::new();
        match self.default_list(parent)? {
            Some(default) if kind != Kind::Symlink => {
                let (access, inherited) = default.clone().inherited(mode);
                mode = inherited;
                match (access.is_mode(), self.takes_lists(kind)) {
                    (true, _) => {}
                    (false, true) => lists.push((ACCESS_LIST, access)),
                    (false, false) => mode = mode & !0o777 | access.bits_alone(),
                }
                if kind == Kind::Directory {
                    lists.push((DEFAULT_LIST, default));
                }
            }
            _ => mode &= !creation.umask,
        }
        let set_group_id = above.mode & SET_GROUP_ID != 0;
        if set_group_id && kind == Kind::Directory {
            mode |= SET_GROUP_ID;
        }
        let own = self.options.owners;
        let gid = if set_group_id { Some(above.gid) } else { Some(creation.owner.gid).filter(|_| own) };
        Ok(Inheritance { mode, uid: Some(creation.owner.uid).filter(|_| own), gid, lists })
    }

    /// Gives a new inode its owner and mode; tells its attributes then.
    fn give(&self, node: &NodeRef, inheritance: &Inheritance) -> Result<Attributes> {
        let mut found = node.attributes()?;
        let to_uid = inheritance.uid.filter(|to| *to != found.uid);
        let to_gid = inheritance.gid.filter(|to| *to != found.gid);
        if to_uid.is_some() || to_gid.is_some() {
            self.contents.note_attribute(node.id(), Attribute::Other);
            match node.set_owner(to_uid, to_gid) {
                Ok(()) => found = node.attributes()?,
                // An ordinary user may be no member of the directory's group.
                Err(error) if error.errno() == errno::EPERM && !self.options.owners => (),
                Err(error) => return Err(error.into()),
            }
        }
        if found.mode != inheritance.mode {
            self.contents.note_attribute(node.id(), Attribute::Other);
            node.set_mode(inheritance.mode)?;
            found = node.attributes()?;
        }
        Ok(found)
    }
}
