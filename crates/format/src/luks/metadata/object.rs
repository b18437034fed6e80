//! Members of JSON objects, with errors that name them.

use data_encoding::BASE64;
use serde_json::{Map, Value};

use crate::FormatError;
use crate::error::within;
use crate::luks::limits;

/// An object and what it is, for messages.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    what: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(super) fn new(what: &'static str, map: &'a Map<String, Value>) -> Object<'a> {
        Object { what, map }
    }

    fn wrong(self, name: &'static str) -> FormatError {
        FormatError::Member { object: self.what, member: name }
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    fn value(self, name: &'static str) -> Result<&'a Value, FormatError> {
        self.map.get(name).ok_or(self.wrong(name))
    }

    /// A member that is an object, called by its own name from there on.
    pub(super) fn object(self, name: &'static str) -> Result<Object<'a>, FormatError> {
        let map = self.value(name)?.as_object().ok_or(self.wrong(name))?;
        Ok(Object { what: name, map })
    }

    pub(super) fn text(self, name: &'static str) -> Result<&'a str, FormatError> {
        self.value(name)?.as_str().ok_or(self.wrong(name))
    }

    /// A number; LUKS2 spells those that need more than 53 bits as text.
    pub(super) fn number(self, name: &'static str) -> Result<u64, FormatError> {
        self.value(name)?.as_u64().ok_or(self.wrong(name))
    }

    /// A number of at most 32 bits within bounds.
    pub(super) fn bounded(self, name: &'static str, min: u64, max: u64) -> Result<u32, FormatError> {
        Ok(within(name, self.number(name)?, min, max.min(u64::from(u32::MAX)))? as u32)
    }

    /// A number of 64 bits, spelled as text in decimal digits.
    pub(super) fn long(self, name: &'static str) -> Result<u64, FormatError> {
        let text = self.text(name)?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or(self.wrong(name))
    }

    /// Bytes in Base64.
    pub(super) fn bytes(self, name: &'static str) -> Result<Vec<u8>, FormatError> {
        let bytes = BASE64.decode(self.text(name)?.as_bytes()).map_err(|_| self.wrong(name))?;
        within(name, bytes.len() as u64, 1, limits::SALT_LEN_MAX as u64)?;
        Ok(bytes)
    }

    /// Texts in a list.
    pub(super) fn texts(self, name: &'static str) -> Result<Vec<&'a str>, FormatError> {
        let list = self.value(name)?.as_array().ok_or(self.wrong(name))?;
        list.iter().map(|text| text.as_str().ok_or(self.wrong(name))).collect()
    }

    /// Numbers of objects, which are texts in a list.
    pub(super) fn numbers(self, name: &'static str) -> Result<Vec<u32>, FormatError> {
        self.texts(name)?.into_iter().map(|text| id(text).ok_or(self.wrong(name))).collect()
    }

    /// The members, which are objects with numbers as names.
    pub(super) fn numbered(self, most: usize) -> Result<Vec<(u32, Object<'a>)>, FormatError> {
        let mut members = Vec::new();
        for (name, value) in self.map {
            let id = id(name).filter(|id| (*id as usize) < most);
            let id = id.ok_or_else(|| FormatError::text(self.what, name.as_bytes()))?;
            let map = value.as_object().ok_or_else(|| FormatError::text(self.what, name.as_bytes()))?;
            members.push((id, Object { what: self.what, map }));
        }
        members.sort_unstable_by_key(|(id, _)| *id);
        Ok(members)
    }
}

/// The number that a name spells, in the only way that it may.
fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id: &u32| id.to_string() == text)
}
