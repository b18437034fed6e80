//! What a synchronisation program has left beside a directory's entries gets a
//! name of its own: second versions of files, and entries of a directory of the
//! same name that another machine has made.
//!
//! For a repair, which has the vault for itself.

use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::DirectoryId;
use strongroom_store::{Attributes, Kind, NodeRef, RenameMode, SetTime, XattrMode};

use super::inode::Inode;
use super::names::StoredName;
use super::shape::Shape;
use super::special::Record;
use super::{Changes, Creation, NAME_MAX, Namespace, Opening, Owner};
use crate::content::{Content, Home};
use crate::error::{Damage, Error, Result, errno};

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

impl Namespace {
    /// Gives the second version `stored` of the file or special record `of` in
    /// a directory a name of its own, `name` or one with a number behind it: its
    /// contents are copied into a new file, since there must not be two of one
    /// id. Gives the name.
    ///
    /// # Errors
    /// `EISDIR` for directories, damage, also when it does not belong under the
    /// name `of`, or what the store reports; the version is still there then.
    pub fn adopt_copy(&self, parent: u64, stored: &[u8], of: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.writable()?;
        let directory = self.directory(parent)?;
        let source = directory.node.lookup(stored)?;
        let attributes = source.attributes()?;
        let home = self.names.home(self.directory_id(&directory)?, of);
        let name = self.free_name(&directory, name)?;
        let owner = Owner { uid: attributes.uid, gid: attributes.gid };
        let creation = Creation { mode: attributes.mode, umask: 0, owner };
        let inode = self.pin_unbound(Arc::clone(&source))?;
        let made = match &inode.shape {
            Shape::File => self.copy_file(&source, home, parent, &name, &creation)?,
            Shape::Special(record) if !record.belongs(home) => return Err(Error::Damaged(Damage::Home)),
            Shape::Special(record) => self.copy_special(&inode, record, parent, &name, &creation)?,
            Shape::Directory => return Err(Error::Refused(errno::EISDIR)),
            Shape::Broken(damage) => return Err(Error::Damaged(damage.clone())),
        };
        self.give_times(made, &attributes)?;
        self.sync_directory(parent)?;
        directory.node.remove(stored)?;
        directory.node.sync()?;
        Ok(name)
    }

    /// Gives an entry, whose name was sealed under another id than that of the
    /// directory, `name` there, or one with a number behind it. Gives the name.
    ///
    /// # Errors
    /// Damage of what is moved, also when it does not belong under the name, or
    /// what the store reports.
    pub fn adopt_entry(
        &self,
        parent: u64,
        stored: &[u8],
        other: DirectoryId,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        self.writable()?;
        let directory = self.directory(parent)?;
        let id = self.directory_id(&directory)?;
        let node = directory.node.lookup(stored)?;
        let inode = self.pin_unbound(Arc::clone(&node))?;
        let to = self.free_name(&directory, name)?;
        let (from_home, home) = (self.names.home(other, name), self.names.home(id, &to));
        let sealed = self.names.seal(id, &to);
        self.with_side(&directory, &sealed, || {
            self.bind_adopted(&node, &inode, from_home, home, &to)?;
            let mode = RenameMode::NoReplace;
            Ok(directory.node.rename(stored, &*directory.node, &sealed.main, mode)?)
        })?;
        self.remove_other_side(&directory, stored);
        directory.node.sync()?;
        Ok(to)
    }

    /// Lets an entry that is about to be renamed stand under `to`, its `home`.
    fn bind_adopted(&self, node: &NodeRef, inode: &Inode, from: Home, home: Home, to: &[u8]) -> Result<()> {
        match &inode.shape {
            Shape::File => self.bind_file(node, from, home),
            Shape::Special(record) if !record.belongs(from) => Err(Error::Damaged(Damage::Home)),
            Shape::Special(record) => self.bind_special(inode, record, from, home),
            Shape::Directory => {
                let record = self.names.record_of(&**node)?;
                let home = self.names.directory_home(home.directory, to);
                self.names.add_home(&**node, record.id, home, true).map(drop)
            }
            Shape::Broken(damage) => Err(Error::Damaged(damage.clone())),
        }
    }

    fn bind_file(&self, node: &NodeRef, from: Home, home: Home) -> Result<()> {
        let content = self.open_belonging(node, from)?;
        let bound = content.bind(home).and_then(|()| content.sync());
        content.released();
        bound
    }

    /// Opens a file that belongs under `home`.
    fn open_belonging(&self, node: &NodeRef, home: Home) -> Result<Arc<Content>> {
        let content = self.contents.open(node, Some(home))?;
        if content.belongs(home) {
            return Ok(content);
        }
        // It was open already, under another name.
        content.released();
        Err(Error::Damaged(Damage::Home))
    }

    /// The side file of a stored name that nothing has any more.
    fn remove_other_side(&self, directory: &Inode, stored: &[u8]) {
        if stored.starts_with(b"~") {
            let _ = directory.node.remove(&[b".n", stored].concat());
        }
    }

    /// The name, or the first with a number behind it, that nothing has.
    fn free_name(&self, directory: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        for attempt in 0u32.. {
            let suffix = if attempt == 0 { String::new() } else { format!(".{attempt}") };
            let kept = name.len().min(NAME_MAX - suffix.len());
            let name = [&name[..kept], suffix.as_bytes()].concat();
            let StoredName { main, .. } = self.stored_name(directory, &name)?;
            match directory.node.lookup(&main) {
                Err(error) if error.is_not_found() => return Ok(name),
                found => drop(found?),
            }
        }
        unreachable!("some number is free")
    }

    fn copy_file(
        &self,
        source: &NodeRef,
        home: Home,
        parent: u64,
        name: &[u8],
        creation: &Creation,
    ) -> Result<u64> {
        let from = self.open_belonging(source, home)?;
        let opening = Opening { write: true, exclusive: true, ..Opening::default() };
        let made = self.create(parent, name, creation, opening);
        let copied = made.and_then(|(entry, to)| {
            let copied =
                copy(&from, &to).and_then(|()| self.copy_attributes(source, from.id().0, entry.number));
            let synced = copied.and_then(|()| to.sync());
            drop(to);
            self.release(entry.number);
            synced.map(|()| entry.number)
        });
        from.released();
        copied
    }

    fn copy_special(
        &self,
        inode: &Inode,
        record: &Record,
        parent: u64,
        name: &[u8],
        creation: &Creation,
    ) -> Result<u64> {
        let made = match record.kind() {
            Kind::Symlink => {
                let target = match record.inline_target() {
                    Some(target) => target.to_vec(),
                    None => self.side_target(record)?.into_vec(),
                };
                self.make_symlink(parent, name, &target, creation)?
            }
            kind => self.make_special(parent, name, kind, record.device(), creation)?,
        };
        self.copy_attributes(&inode.node, record.id().0, made.number)?;
        Ok(made.number)
    }

    /// Seals the extended attributes of `source` anew, for another inode.
    fn copy_attributes(&self, source: &NodeRef, id: [u8; 16], to: u64) -> Result<()> {
        for stored in source.xattr_names()? {
            let Some(name) = self.names.open_xattr_name(id, &stored)? else { continue };
            let value = self.names.open_xattr_value(id, &name, &source.xattr(&stored)?)?;
            self.set_xattr(to, &name, &value, XattrMode::Any, false)?;
        }
        Ok(())
    }

    fn give_times(&self, number: u64, attributes: &Attributes) -> Result<()> {
        let (accessed, modified) = (SetTime::To(attributes.accessed), SetTime::To(attributes.modified));
        self.set_attributes(number, &Changes { accessed, modified, ..Changes::NONE }).map(drop)
    }
}

/// Copies contents; what reads as zeros stays a hole.
fn copy(from: &Content, to: &Content) -> Result<()> {
    let len = from.plain_len();
    let mut buffer = Buffer::new(STEP);
    let mut at = 0;
    while at < len {
        let wanted = usize::try_from(len - at).map_or(STEP, |left| left.min(STEP));
        let read = from.read_at(at, wanted, &mut buffer)?;
        if read == 0 {
            return Err(Error::Damaged(Damage::Length { stored: at }));
        }
        if buffer[..read].iter().any(|&byte| byte != 0) {
            to.write_at(at, read, &mut buffer)?;
        }
        at += read as u64;
    }
    to.set_len(len)
}
