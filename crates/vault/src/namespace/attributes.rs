//! Attributes: the store's, but for the lengths, which are plain ones; and
//! changing them by the rules that POSIX sets for `chmod`, `chown` and
//! `truncate` and the kernel leaves to the file system.

use strongroom_store::{Attributes, Kind, Node, NodeRef, SetTime, Timestamp};

use super::inode::{Inode, lock};
use super::shape::Shape;
use super::{Changes, Namespace, PRIVATE, RECORD, ROOT};
use crate::error::{Damage, Error, Result, errno};
use crate::waiting::Attribute;

/// What every symlink's mode is said to be.
const SYMLINK_MODE: u32 = 0o777;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// The extended attribute that gives an executable privileges.
const CAPABILITY: &[u8] = b"security.capability";

/// Attributes as the store told them.
pub(super) struct Seen {
    attributes: Attributes,
    /// How many contents had ceased to be live before.
    retired: u64,
}

/// A mode without the bits that a change of owner or contents takes away:
/// set-user-id, and set-group-id where it is not the mark of old record locks.
pub(super) fn unprivileged(mode: u32) -> u32 {
    let group = if mode & GROUP_EXECUTE != 0 { SET_GROUP_ID } else { 0 };
    mode & !(SET_USER_ID | group)
}

impl Seen {
    /// The stored length.
    pub(super) fn stored_len(&self) -> u64 {
        self.attributes.len
    }

    /// Whether the inode has several names.
    pub(super) fn has_several_names(&self) -> bool {
        self.attributes.links > 1
    }
}

impl Namespace {
    /// The attributes of a node, with its plain length.
    ///
    /// A file whose stored length is damaged has attributes all the same, with
    /// the stored length; opening it reports the damage.
    ///
    /// # Errors
    /// What the store reports.
    pub fn attributes(&self, number: u64) -> Result<Attributes> {
        self.plain_attributes(&*self.table.inode(number)?)
    }

    fn plain_attributes(&self, inode: &Inode) -> Result<Attributes> {
        self.plain(inode, self.look(&*inode.node)?)
    }

    /// The attributes of a node.
    pub(super) fn look(&self, node: &dyn Node) -> Result<Seen> {
        let retired = self.contents.retired();
        Ok(Seen { attributes: node.attributes()?, retired })
    }

    /// The entry of a stored name, and its attributes.
    pub(super) fn find(&self, parent: &Inode, stored: &[u8]) -> Result<(NodeRef, Seen)> {
        let retired = self.contents.retired();
        let (node, attributes) = parent.node.lookup_with_attributes(stored)?;
        Ok((node, Seen { attributes, retired }))
    }

    /// Attributes with the plain length, of what the store told of an inode.
    pub(super) fn plain(&self, inode: &Inode, seen: Seen) -> Result<Attributes> {
        let mut attributes = self.plain_as_counted(inode, seen)?;
        if inode.is_unlinked() {
            attributes.links = 0;
        }
        Ok(attributes)
    }

    /// The same, with as many names as the store counts.
    fn plain_as_counted(&self, inode: &Inode, seen: Seen) -> Result<Attributes> {
        let mut attributes = seen.attributes;
        match &inode.shape {
            Shape::File => return self.file_attributes(inode, seen),
            Shape::Broken(Damage::Unfinished) if self.contents.follows() => {
                return Err(Error::Refused(errno::ENOENT));
            }
            Shape::Special(record) => {
                attributes.kind = record.kind();
                attributes.len = record.target_len();
                attributes.device = record.device();
                if attributes.kind == Kind::Symlink {
                    attributes.mode = SYMLINK_MODE;
                }
            }
            Shape::Directory => self.hide_private(inode, &mut attributes),
            Shape::Broken(damage) => self.observer.damaged(inode.number, &Error::Damaged(damage.clone())),
        }
        Ok(attributes)
    }

    /// The stored length says nothing while the content is live. It may have
    /// been live when the length was read and be so no longer; then one more
    /// content has ceased to be, and the store is asked again.
    fn file_attributes(&self, inode: &Inode, mut seen: Seen) -> Result<Attributes> {
        if self.contents.follows() {
            return self.committed_attributes(inode, seen.attributes);
        }
        let mut damage = None;
        loop {
            let mut attributes = seen.attributes;
            let stored = attributes.len;
            if let Some(content) = inode.live(&self.contents) {
                attributes.len = content.plain_len();
                return Ok(attributes);
            }
            if self.contents.retired() == seen.retired {
                match self.contents.plain_len(stored) {
                    Ok(plain) => {
                        attributes.len = plain;
                        return Ok(attributes);
                    }
                    Err(error) if damage == Some(stored) => {
                        // Whoever opens what is doubted hears whether it is lost.
                        if !self.contents.is_doubted(inode.node.id()) {
                            self.observer.damaged(inode.number, &error);
                        }
                        return Ok(attributes);
                    }
                    // Somebody may be opening it, and settle it.
                    Err(_) => damage = Some(stored),
                }
            }
            seen = self.look(&*inode.node)?;
        }
    }

    /// Beside a writer the stored length is that of what nobody has committed
    /// yet, or not yet that of what is: the file itself has to be asked.
    fn committed_attributes(&self, inode: &Inode, mut attributes: Attributes) -> Result<Attributes> {
        let stored = attributes.len;
        attributes.len = match self.using_unbound(inode) {
            Ok(content) => content.plain_len(),
            Err(error) if error.is_unfinished() => return Err(Error::Refused(errno::ENOENT)),
            Err(error) => {
                if matches!(error, Error::Damaged(_)) {
                    self.observer.damaged(inode.number, &error);
                }
                self.contents.plain_len(stored).unwrap_or(stored)
            }
        };
        Ok(attributes)
    }

    /// Where the store counts a directory's subdirectories as its names, the
    /// vault's own one is not among those that can be seen.
    fn hide_private(&self, inode: &Inode, attributes: &mut Attributes) {
        let own = if inode.number == ROOT { PRIVATE } else { RECORD };
        if attributes.links > 2 && inode.node.entry_attributes(own).is_ok() {
            attributes.links -= 1;
        }
    }

    /// Changes attributes, and gives them as they are then.
    ///
    /// # Errors
    /// `EISDIR` or `EINVAL` for a length of anything but a regular file,
    /// `EOPNOTSUPP` for the mode of a symlink, `EPERM` and others as the store
    /// reports. What comes first in the order length, owner, mode, times may
    /// then have been changed.
    pub fn set_attributes(&self, number: u64, changes: &Changes) -> Result<Attributes> {
        self.writable()?;
        let inode = self.table.inode(number)?;
        if let Some(len) = changes.len {
            self.set_len(&inode, len)?;
        }
        self.set_ownership(&inode, changes)?;
        let modified = match (changes.modified, changes.len) {
            (SetTime::Omit, Some(_)) => SetTime::Now,
            (modified, _) => modified,
        };
        if (changes.accessed, modified) != (SetTime::Omit, SetTime::Omit) {
            self.contents.note_attribute(inode.node.id(), Attribute::Times);
            match inode.live(&self.contents) {
                Some(content) => content.set_times(changes.accessed, modified)?,
                None => set_times(&inode, changes.accessed, modified)?,
            }
        }
        match self.plain_attributes(&inode) {
            // The kernel sets the times of what it has just removed, and takes an error for
            // one of the mount.
            Err(Error::Store(error)) if error.is_gone() && inode.is_unlinked() => {
                Ok(without_names(&inode, changes))
            }
            attributes => attributes,
        }
    }

    fn set_len(&self, inode: &Inode, len: u64) -> Result<()> {
        match inode.kind {
            Kind::File => self.using(inode)?.set_len(len),
            Kind::Directory => Err(Error::Refused(errno::EISDIR)),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => {
                Err(Error::Refused(errno::EINVAL))
            }
        }
    }

    /// Changes owner, group and mode.
    fn set_ownership(&self, inode: &Inode, changes: &Changes) -> Result<()> {
        let chown = changes.uid.is_some() || changes.gid.is_some();
        // A directory's bits mean something else and stay.
        let strip = (chown || changes.kill_suid_sgid) && inode.kind != Kind::Directory;
        if !chown && !strip && changes.mode.is_none() {
            return Ok(());
        }
        let _metadata = lock(&inode.metadata);
        self.contents.note_attribute(inode.node.id(), Attribute::Other);
        let before = inode.node.attributes()?.mode;
        if chown {
            inode.node.set_owner(changes.uid, changes.gid)?;
        }
        if inode.kind == Kind::Symlink {
            return if changes.mode.is_some() { Err(Error::Refused(errno::EOPNOTSUPP)) } else { Ok(()) };
        }
        let stripped = if strip { unprivileged(before) } else { before };
        let mode = changes.mode.map_or(stripped, |mode| mode & 0o7777);
        if strip && inode.kind == Kind::File {
            self.remove_capability(inode)?;
        }
        if changes.mode.is_some() {
            self.change_access_list(inode, mode)?;
        }
        // A change of owner makes the store take bits away that may belong there.
        if mode != before || chown && before & (SET_USER_ID | SET_GROUP_ID) != 0 {
            inode.node.set_mode(mode)?;
        }
        Ok(())
    }

    /// Takes set-user-id, set-group-id and capabilities away.
    pub(super) fn strip(&self, inode: &Inode) -> Result<()> {
        self.set_ownership(inode, &Changes { kill_suid_sgid: true, ..Changes::NONE })
    }

    fn remove_capability(&self, inode: &Inode) -> Result<()> {
        match self.remove_sealed(inode, CAPABILITY) {
            Err(error) if !matches!(error.errno(), errno::ENODATA | errno::EOPNOTSUPP) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Sets the times of a stored inode. Of one without a name there are stores
/// that refuse it.
fn set_times(inode: &Inode, accessed: SetTime, modified: SetTime) -> Result<()> {
    match inode.node.set_times(accessed, modified) {
        Err(error) if error.is_gone() && inode.is_unlinked() => Ok(()),
        Err(_) if inode.node.attributes().is_ok_and(|attributes| attributes.links == 0) => Ok(()),
        set => Ok(set?),
    }
}

/// What is left to tell of an inode that its store does not know any more.
fn without_names(inode: &Inode, changes: &Changes) -> Attributes {
    let time = |set| match set {
        SetTime::To(time) => time,
        SetTime::Now | SetTime::Omit => Timestamp { seconds: 0, nanoseconds: 0 },
    };
    Attributes {
        id: inode.node.id(),
        kind: inode.kind,
        mode: 0,
        links: 0,
        uid: 0,
        gid: 0,
        device: 0,
        len: changes.len.unwrap_or(0),
        blocks: 0,
        accessed: time(changes.accessed),
        modified: time(changes.modified),
        changed: time(changes.modified),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use strongroom_format::vault::Suite;
    use strongroom_store::Store;
    use strongroom_store::memory::MemoryStore;
    use strongroom_units::BlockSize;

    use crate::support;

    /// A file is seen while it is written, and told of when it is closed: what
    /// was seen is then neither what it had before nor what it has now.
    #[test]
    fn a_length_seen_before_the_file_was_closed_is_not_told() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
        let vault = support::open(store);
        let namespace = vault.namespace();
        let (entry, content) = support::create_file(namespace, "file");
        let inode = namespace.table.inode(entry.number).unwrap();
        let before = namespace.look(&*inode.node).unwrap();
        support::write(&content, 0, &[7; 10_000]).unwrap();
        content.sync().unwrap();
        let open = namespace.look(&*inode.node).unwrap();
        assert_eq!(namespace.plain(&inode, open).unwrap().len, 10_000);

        namespace.release(entry.number);
        assert!(inode.live(&namespace.contents).is_none(), "it is home");
        assert_eq!(namespace.plain(&inode, before).unwrap().len, 10_000);
        let closed = namespace.look(&*inode.node).unwrap();
        assert_eq!(namespace.plain(&inode, closed).unwrap().len, 10_000);
    }
}
