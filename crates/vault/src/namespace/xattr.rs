//! Extended attributes and access control lists, sealed by name and value.
//!
//! They stand in the store's `user.` class, which every stored inode takes.
//! Lists are taken by every kind but symlinks.

use strongroom_format::vault::names::XATTR_PREFIX;
use strongroom_store::{Kind, NodeRef, XattrMode};

use super::access::FILE_BITS;
use super::acl::Acl;
use super::inode::{Inode, lock};
use super::shape::Shape;
use super::{Namespace, attributes};
use crate::error::{Error, Result, errno};
use crate::waiting::Attribute;

/// The list that decides access.
pub(super) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The list that a directory hands on to what is created in it.
pub(super) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Longest name and value of Linux (`XATTR_NAME_MAX`, `XATTR_SIZE_MAX`).
const NAME_LEN_MAX: usize = 255;
const VALUE_LEN_MAX: usize = 65536;

/// "Argument list too long", which `setxattr(2)` gives for values.
const E2BIG: i32 = 7;

/// Sort of an attribute, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Plain,
    Access,
    Default,
}

impl Namespace {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name, `EOPNOTSUPP` for a class or
    /// inode that has none, damage, or what the store reports.
    pub fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.table.inode(number)?;
        self.class(&inode, name)?;
        if inode.is_bare() || self.has_lost_attributes(&inode) {
            return Err(Error::Refused(errno::ENODATA));
        }
        let _metadata = lock(&inode.metadata);
        let id = self.attributed_id(&inode)?.ok_or(Error::Refused(errno::ENODATA))?;
        let stored = self.stored_xattr_name(id, name)?;
        let sealed = self.granted_alone(&inode.node, FILE_BITS, || Ok(inode.node.xattr(&stored)?))?;
        self.names.open_xattr_value(id, name, &sealed)
    }

    /// Names of all extended attributes. One that does not open is left out
    /// and reported to the observer.
    ///
    /// # Errors
    /// What the store reports.
    pub fn xattr_names(&self, number: u64) -> Result<Vec<Vec<u8>>> {
        let inode = self.table.inode(number)?;
        if inode.is_bare() || self.has_lost_attributes(&inode) {
            return Ok(Vec::new());
        }
        let _metadata = lock(&inode.metadata);
        let Some(id) = self.attributed_id(&inode)? else { return Ok(Vec::new()) };
        let stored = inode.node.xattr_names()?;
        let opened = stored.iter().filter_map(|stored| {
            let name = self.names.open_xattr_name(id, stored);
            name.map_err(|error| self.observer.damaged(number, &error)).ok().flatten()
        });
        let acl = self.options.acl;
        Ok(opened.filter(|name| acl || (name != ACCESS_LIST && name != DEFAULT_LIST)).collect())
    }

    /// Whether a crash has taken the id to which the stored attributes are
    /// bound, and nobody may remove them. That shows when the file is opened.
    fn has_lost_attributes(&self, inode: &Inode) -> bool {
        if !self.options.read_only || inode.kind != Kind::File || !self.contents.is_recovering() {
            return false;
        }
        let _metadata = lock(&inode.metadata);
        self.using_alone(inode).is_ok_and(|content| !content.has_attributes())
    }

    /// Sets an extended attribute. Setting an access control list sets the
    /// permission bits too; with `kill_sgid` that takes set-group-id away.
    ///
    /// # Errors
    /// `EEXIST` or `ENODATA` by `mode`, `ERANGE` for a name and `E2BIG` for a
    /// value too long to be sealed, `EOPNOTSUPP`, `EINVAL` for an invalid
    /// list, `ENOSPC` and others as the store reports.
    pub fn set_xattr(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        self.writable()?;
        let inode = self.table.inode(number)?;
        let class = self.class(&inode, name)?;
        if class != Class::Plain {
            return self.set_list(&inode, class, Acl::parse(value)?, kill_sgid);
        }
        let _metadata = lock(&inode.metadata);
        let id = self.inode_id(&inode)?;
        inode.clothe();
        self.set_sealed(&inode.node, id, name, value, mode)
    }

    /// Removes an extended attribute. Removing an access control list that is
    /// not there is no error.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`, or what the store reports.
    pub fn remove_xattr(&self, number: u64, name: &[u8]) -> Result<()> {
        self.writable()?;
        let inode = self.table.inode(number)?;
        let class = self.class(&inode, name)?;
        let _metadata = lock(&inode.metadata);
        match self.remove_sealed(&inode, name) {
            Err(error) if class != Class::Plain && error.errno() == errno::ENODATA => Ok(()),
            other => other,
        }
    }

    /// The default list of a directory.
    pub(super) fn default_list(&self, directory: &Inode) -> Result<Option<Acl>> {
        self.list(directory, DEFAULT_LIST)
    }

    /// Brings the access list, if there is one, in line with a new mode.
    /// The caller holds `metadata`.
    pub(super) fn change_access_list(&self, inode: &Inode, mode: u32) -> Result<()> {
        match self.list(inode, ACCESS_LIST)? {
            Some(acl) => self.put_list(&inode.node, self.inode_id(inode)?, ACCESS_LIST, &acl.with_mode(mode)),
            None => Ok(()),
        }
    }

    /// Stores a list of an inode whose id is `id`.
    pub(super) fn put_list(&self, node: &NodeRef, id: [u8; 16], name: &[u8], acl: &Acl) -> Result<()> {
        self.set_sealed(node, id, name, &acl.to_bytes(), XattrMode::Any)
    }

    /// A list of an inode. The caller holds `metadata`, except for directories.
    fn list(&self, inode: &Inode, name: &[u8]) -> Result<Option<Acl>> {
        if !self.takes_lists(inode.kind) || inode.is_bare() {
            return Ok(None);
        }
        let Some(id) = self.attributed_id(inode)? else { return Ok(None) };
        let stored = self.stored_xattr_name(id, name)?;
        let sealed = match self.granted_alone(&inode.node, FILE_BITS, || Ok(inode.node.xattr(&stored)?)) {
            Err(error) if matches!(error.errno(), errno::ENODATA | errno::EOPNOTSUPP) => return Ok(None),
            other => other?,
        };
        Acl::parse(&self.names.open_xattr_value(id, name, &sealed)?)
    }

    fn set_list(&self, inode: &Inode, class: Class, acl: Option<Acl>, kill_sgid: bool) -> Result<()> {
        let name = if class == Class::Access { ACCESS_LIST } else { DEFAULT_LIST };
        if class == Class::Default && inode.kind != Kind::Directory {
            return if acl.is_none() { Ok(()) } else { Err(Error::Refused(errno::EACCES)) };
        }
        let _metadata = lock(&inode.metadata);
        let id = self.inode_id(inode)?;
        let Some(acl) = acl else { return self.remove_list(inode, name) };
        if class == Class::Default {
            inode.clothe();
            return self.put_list(&inode.node, id, name, &acl);
        }
        // Where a crash leaves one without the other, a list decides who has
        // access: the new one, or the old. Bits alone would give the owning
        // group what the mask gives to those who are named.
        if acl.is_mode() {
            self.set_mode_of_list(inode, &acl, kill_sgid)?;
            self.remove_list(inode, name)
        } else {
            inode.clothe();
            self.put_list(&inode.node, id, name, &acl)?;
            self.set_mode_of_list(inode, &acl, kill_sgid)
        }
    }

    fn set_mode_of_list(&self, inode: &Inode, acl: &Acl, kill_sgid: bool) -> Result<()> {
        let before = inode.node.attributes()?.mode;
        let kept = if kill_sgid { attributes::unprivileged(before) | (before & 0o4000) } else { before };
        let mode = (kept & 0o7000) | acl.mode_bits();
        if mode != before {
            self.contents.note_attribute(inode.node.id(), Attribute::Other);
            inode.node.set_mode(mode)?;
        }
        Ok(())
    }

    fn remove_list(&self, inode: &Inode, name: &[u8]) -> Result<()> {
        match self.remove_sealed(inode, name) {
            Err(error) if error.errno() == errno::ENODATA => Ok(()),
            other => other,
        }
    }

    /// Seals and stores one attribute. The caller holds `metadata` or alone
    /// knows the inode.
    fn set_sealed(
        &self,
        node: &NodeRef,
        id: [u8; 16],
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let stored = self.stored_xattr_name(id, name)?;
        let sealed = self.names.seal_xattr_value(id, name, value)?;
        if sealed.len() > VALUE_LEN_MAX {
            return Err(Error::Refused(E2BIG));
        }
        self.contents.note_attribute(node.id(), Attribute::Other);
        self.granted_alone(node, FILE_BITS, || Ok(node.set_xattr(&stored, &sealed, mode)?))
    }

    /// As [`Namespace::set_sealed`], removing it.
    pub(super) fn remove_sealed(&self, inode: &Inode, name: &[u8]) -> Result<()> {
        if inode.is_bare() {
            return Err(Error::Refused(errno::ENODATA));
        }
        let id = self.attributed_id(inode)?.ok_or(Error::Refused(errno::ENODATA))?;
        let node = &inode.node;
        let stored = self.stored_xattr_name(id, name)?;
        self.contents.note_attribute(node.id(), Attribute::Other);
        self.granted_alone(node, FILE_BITS, || Ok(node.remove_xattr(&stored)?))
    }

    fn stored_xattr_name(&self, id: [u8; 16], name: &[u8]) -> Result<Vec<u8>> {
        let stored = self.names.seal_xattr_name(id, name);
        stored.filter(|stored| stored.len() <= NAME_LEN_MAX).ok_or(Error::Refused(errno::ERANGE))
    }

    /// The id of an inode that has attributes; none of one without. A file is
    /// not opened to learn that it has none. The caller holds `metadata`, except
    /// for directories.
    fn attributed_id(&self, inode: &Inode) -> Result<Option<[u8; 16]>> {
        if matches!(inode.shape, Shape::File | Shape::Broken(_)) && inode.file_id().is_none() {
            let stored = match inode.node.xattr_names() {
                Err(error) if error.errno() == errno::EOPNOTSUPP => return Ok(None),
                stored => stored?,
            };
            if !stored.iter().any(|stored| stored.starts_with(XATTR_PREFIX.as_bytes())) {
                return Ok(None);
            }
        }
        self.inode_id(inode).map(Some)
    }

    /// The id that binds attributes to their inode. The caller holds
    /// `metadata`, except for directories.
    fn inode_id(&self, inode: &Inode) -> Result<[u8; 16]> {
        match &inode.shape {
            Shape::Directory => Ok(self.directory_id_alone(inode)?.0),
            Shape::File => match inode.file_id() {
                Some(id) => Ok(id),
                None => Ok(self.using_alone(inode)?.id().0),
            },
            Shape::Special(record) => Ok(record.id().0),
            Shape::Broken(damage) => Err(Error::Damaged(damage.clone())),
        }
    }

    /// Whether inodes of this kind may have access lists: all but symlinks, as
    /// on ext4.
    pub(super) fn takes_lists(&self, kind: Kind) -> bool {
        self.options.acl && kind != Kind::Symlink
    }

    /// The class of an attribute that this inode may have.
    fn class(&self, inode: &Inode, name: &[u8]) -> Result<Class> {
        let unsupported = Err(Error::Refused(errno::EOPNOTSUPP));
        match name {
            ACCESS_LIST if self.takes_lists(inode.kind) => Ok(Class::Access),
            DEFAULT_LIST if self.takes_lists(inode.kind) => Ok(Class::Default),
            _ if [&b"user."[..], b"trusted.", b"security."].iter().any(|class| name.starts_with(class)) => {
                Ok(Class::Plain)
            }
            _ => unsupported,
        }
    }
}
