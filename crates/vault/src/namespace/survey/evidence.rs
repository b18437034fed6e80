//! The id of a directory whose record is lost: a file in it names, in its
//! header page, the directory of its home. An id counts when most stored names
//! of the directory open under it, which AES-SIV lets no other id do.

use std::collections::BTreeSet;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::special::is_special_len;
use strongroom_store::{Kind, NodeRef};

use super::Survey;
use crate::error::{Error, Result};
use crate::namespace::names::is_hidden;
use crate::namespace::shape::Shape;

/// Files that are asked before the answer is taken. More than one, since a
/// file may have been moved here from another directory.
const ASKED: usize = 8;

impl Survey<'_> {
    /// The id under which most of the directory's names open.
    pub(super) fn find_id(&self, directory: &NodeRef) -> Result<Option<DirectoryId>> {
        let names: Vec<Vec<u8>> = directory.entries()?.into_iter().map(|entry| entry.name).collect();
        let mut candidates = BTreeSet::new();
        let mut asked = 0;
        for name in names.iter().filter(|name| !is_hidden(name)) {
            let Ok(node) = directory.lookup(name) else { continue };
            if node.kind() != Kind::File {
                continue;
            }
            let Some(id) = self.directory_of(&node)? else { continue };
            if self.open_entry(directory, name, id).is_ok() {
                candidates.insert(id);
                asked += 1;
            }
            if asked == ASKED {
                break;
            }
        }
        // A file that was moved here brings its own directory's id with it.
        let entries = names.iter().filter(|name| !is_hidden(name)).count();
        let opened = |id| names.iter().filter(|name| self.open_entry(directory, name, id).is_ok()).count();
        Ok(candidates.into_iter().find(|&id| 2 * opened(id) > entries))
    }

    fn directory_of(&self, node: &NodeRef) -> Result<Option<DirectoryId>> {
        if is_special_len(node.attributes()?.len) {
            return Ok(match self.namespace.special_shape(node, None)? {
                Shape::Special(record) => Some(record.home().directory),
                Shape::File | Shape::Directory | Shape::Broken(_) => None,
            });
        }
        let opened = match self.namespace.contents.open(node, None) {
            Ok(content) => {
                let id = content.directory();
                content.released();
                Ok(id)
            }
            Err(Error::Damaged(_)) => match self.namespace.contents.open_damaged(node) {
                Ok(content) => Ok(content.directory()),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match opened {
            Ok(id) => Ok(Some(id).filter(|id| !id.is_zero())),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
