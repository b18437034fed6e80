//! The extended attributes of a stored inode.

use strongroom_store::NodeRef;

use super::Survey;
use crate::error::{Error, Result, errno};

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedAttribute {
    /// Plain name; `None` when that does not open.
    pub name: Option<Vec<u8>>,
    /// The value.
    pub value: Result<Vec<u8>>,
}

impl Survey<'_> {
    /// The extended attributes of an inode, access control lists included.
    /// `id` is the file's or directory's.
    ///
    /// # Errors
    /// What the store reports.
    pub fn attributes(&self, node: &NodeRef, id: [u8; 16]) -> Result<Vec<SurveyedAttribute>> {
        let stored = match node.xattr_names() {
            Ok(stored) => stored,
            Err(error) if error.errno() == errno::EOPNOTSUPP => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let names = &self.namespace.names;
        let mut found = Vec::new();
        for stored in &stored {
            let name = match names.open_xattr_name(id, stored) {
                Ok(None) => continue,
                Ok(Some(name)) => name,
                Err(error) => {
                    found.push(SurveyedAttribute { name: None, value: Err(error) });
                    continue;
                }
            };
            let value = match node.xattr(stored) {
                Ok(sealed) => names.open_xattr_value(id, &name, &sealed),
                // It was removed since the names were read.
                Err(error) if error.errno() == errno::ENODATA => continue,
                Err(error) => Err(Error::from(error)),
            };
            found.push(SurveyedAttribute { name: Some(name), value });
        }
        Ok(found)
    }
}
