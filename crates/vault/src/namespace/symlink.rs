//! Symlink targets, sealed into the stored symlink or, where the store takes
//! none so long, into a file of their own under `.strongroom/links`.
//!
//! A symlink never changes, so that a target is opened once.

use strongroom_store::{Kind, NodeRef};

use super::inode::Inode;
use super::names::StoredTarget;
use super::{Namespace, sidefile};
use crate::error::{Error, Result, errno};
use crate::rules::Rule;

/// Longest plain target in bytes: `PATH_MAX` of Linux, less the zero byte.
const TARGET_MAX: usize = 4095;

impl Namespace {
    /// The target of a symlink.
    ///
    /// # Errors
    /// `EINVAL` when it is none, damage, or what the store reports.
    pub fn read_link(&self, number: u64) -> Result<Vec<u8>> {
        let inode = self.table.inode(number)?;
        if inode.kind != Kind::Symlink {
            return Err(Error::Refused(errno::EINVAL));
        }
        if let Some(freshness) = self.contents.freshness() {
            self.check_recorded(&inode, freshness.symlink(&inode.node.read_link()?))?;
        }
        Ok(self.target(&inode)?.to_vec())
    }

    /// The stored target of a symlink.
    pub(crate) fn stored_target(&self, number: u64) -> Result<Vec<u8>> {
        Ok(self.table.inode(number)?.node.read_link()?)
    }

    fn target<'a>(&self, inode: &'a Inode) -> Result<&'a [u8]> {
        if let Some(target) = inode.target.get() {
            return Ok(target);
        }
        let stored = inode.node.read_link()?;
        let sealed = match self.names.parse_target(&stored)? {
            StoredTarget::Inline(sealed) => sealed,
            StoredTarget::Long(file) => sidefile::read(&**self.links()?, &file)?,
        };
        let target = self.names.open_target(&sealed)?.into_boxed_slice();
        Ok(inode.target.get_or_init(|| target))
    }

    /// Length of the plain target; the stored one's when that does not open,
    /// which `read_link` will report.
    pub(super) fn target_len(&self, inode: &Inode, stored: u64) -> u64 {
        let known = inode.target.get().map(|target| target.len() as u64);
        known.or_else(|| self.names.inline_target_len(stored)).unwrap_or_else(|| match self.target(inode) {
            Ok(target) => target.len() as u64,
            Err(_) if self.has_left(inode) => stored,
            Err(error) => {
                self.observer.damaged(inode.number, &error);
                stored
            }
        })
    }

    /// Makes the stored symlink `name` to a plain target.
    pub(super) fn store_symlink(&self, parent: &Inode, name: &[u8], target: &[u8]) -> Result<NodeRef> {
        if target.is_empty() {
            return Err(Error::Refused(errno::ENOENT));
        }
        if target.len() > TARGET_MAX {
            return Err(Error::Refused(errno::ENAMETOOLONG));
        }
        if target.contains(&0) {
            return Err(Error::Refused(errno::EINVAL));
        }
        let sealed = self.names.seal_target(target)?;
        let inline = self.names.inline_target(&sealed);
        if inline.len() <= self.store.limits().symlink_max {
            return Ok(parent.node.make_symlink(name, &inline)?);
        }
        let (file, stored) = self.names.new_long_target()?;
        sidefile::write(&**self.links()?, &file, &sealed, self.contents.keeps(Rule::SideBeforeEntry))?;
        let made = parent.node.make_symlink(name, &stored);
        if made.is_err() {
            self.remove_long_target(&file);
        }
        Ok(made?)
    }

    /// The file that holds the target of a symlink, where one does.
    pub(super) fn long_target(&self, node: &NodeRef) -> Option<Vec<u8>> {
        if node.kind() != Kind::Symlink {
            return None;
        }
        match self.names.parse_target(&node.read_link().ok()?) {
            Ok(StoredTarget::Long(file)) => Some(file),
            Ok(StoredTarget::Inline(_)) | Err(_) => None,
        }
    }

    /// Removes a target that no symlink names any more; one that stays is
    /// dead weight and no more.
    pub(super) fn remove_long_target(&self, file: &[u8]) {
        if let Ok(links) = self.links() {
            let _ = links.remove(file);
        }
    }
}
