//! The JSON area of LUKS2: key slots, segments, digests, tokens, config
//! (LUKS2, 3).
//!
//! The whole document is kept as it was read, so that tokens and members that
//! this program does not know are written back as they were; what it does
//! know is kept beside it, checked. Both change together.

mod document;
mod object;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::kdf::{Hash, Kdf};
use super::{CipherSpec, limits};
use crate::FormatError;
use crate::error::within;
use object::Object;

/// A key slot of LUKS2 that holds a volume key (LUKS2, 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyslot {
    /// Bytes of the volume key.
    pub key_size: u32,
    /// Hash of the anti-forensic splitter.
    pub af_hash: Hash,
    /// Where the split and encrypted key lies.
    pub area: Area,
    /// From a passphrase to the area's key.
    pub kdf: Kdf,
    /// The KDF's salt.
    pub salt: Vec<u8>,
    /// 0: only when asked for by number; 1: as others; 2: tried first.
    pub priority: u8,
}

impl Keyslot {
    /// Bytes of the split key.
    #[must_use]
    pub fn material_len(&self) -> u64 {
        u64::from(self.key_size) * u64::from(limits::STRIPES)
    }
}

/// Where key material lies and how it is encrypted (LUKS2, 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// First byte on the header's device.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The cipher, in sectors of 512 bytes from number 0.
    pub encryption: CipherSpec,
    /// Bytes of its key.
    pub key_size: u32,
}

/// An encrypted range of the data device (LUKS2, 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte on the data device.
    pub offset: u64,
    /// Bytes; none for all that there are.
    pub size: Option<u64>,
    /// Number that the first 512 bytes have in the tweak.
    pub iv_tweak: u64,
    /// The cipher.
    pub encryption: CipherSpec,
    /// Bytes that are encrypted at once.
    pub sector_size: u32,
}

/// What tells a right volume key from a wrong one (LUKS2, 3.4): PBKDF2 of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Slots whose key it verifies.
    pub keyslots: Vec<u32>,
    /// Segments that the key is for.
    pub segments: Vec<u32>,
    /// Hash of PBKDF2.
    pub hash: Hash,
    /// Iterations of PBKDF2.
    pub iterations: u32,
    /// Its salt.
    pub salt: Vec<u8>,
    /// What it gives.
    pub digest: Vec<u8>,
}

/// Sizes of the header's parts (LUKS2, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the JSON area.
    pub json_size: u64,
    /// Bytes of all key slot areas.
    pub keyslots_size: u64,
}

/// The JSON area's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    document: Map<String, Value>,
    keyslots: BTreeMap<u32, Keyslot>,
    /// Areas of slots of types that this program does not know.
    foreign: Vec<(u64, u64)>,
    segments: BTreeMap<u32, Segment>,
    digests: BTreeMap<u32, Digest>,
    config: Config,
}

impl Metadata {
    /// The content of a new header, without slots.
    #[must_use]
    pub fn new(config: Config, segment: &Segment) -> Metadata {
        let mut document = Map::new();
        for member in ["keyslots", "tokens", "segments", "digests", "config"] {
            document.insert(member.to_owned(), Value::Object(Map::new()));
        }
        let mut metadata = Metadata {
            document,
            keyslots: BTreeMap::new(),
            foreign: Vec::new(),
            segments: BTreeMap::from([(0, segment.clone())]),
            digests: BTreeMap::new(),
            config,
        };
        metadata.member("segments").insert("0".to_owned(), document::of_segment(segment));
        metadata.document.insert("config".to_owned(), document::of_config(config));
        metadata
    }

    /// Reads the JSON area of a header copy of `header_size` bytes; what
    /// follows its first zero byte must be zero.
    ///
    /// # Errors
    /// What is wrong with it; the name of what is not supported.
    pub fn decode(area: &[u8], header_size: u64) -> Result<Metadata, FormatError> {
        let document = document::parse(area)?;
        let root = Object::new("JSON area", &document);
        let config = document::config(root.object("config")?, header_size)?;
        let mut metadata = Metadata {
            keyslots: BTreeMap::new(),
            foreign: Vec::new(),
            segments: BTreeMap::new(),
            digests: BTreeMap::new(),
            config,
            document: Map::new(),
        };
        for (id, keyslot) in root.object("keyslots")?.numbered(limits::KEYSLOTS_MAX)? {
            match keyslot.text("type")? {
                "luks2" => drop(metadata.keyslots.insert(id, document::keyslot(keyslot)?)),
                "reencrypt" => {
                    return Err(FormatError::unsupported_name("key slot type", "reencrypt"));
                }
                // Of a newer program: its area is left alone.
                _ => metadata.foreign.push(document::area_range(keyslot.object("area")?)?),
            }
        }
        root.object("tokens")?.numbered(limits::OBJECTS_MAX)?;
        for (id, segment) in root.object("segments")?.numbered(limits::OBJECTS_MAX)? {
            metadata.segments.insert(id, document::segment(segment)?);
        }
        for (id, digest) in root.object("digests")?.numbered(limits::OBJECTS_MAX)? {
            if let Some(digest) = document::digest(digest)? {
                metadata.digests.insert(id, digest);
            }
        }
        metadata.check(header_size)?;
        metadata.document = document;
        Ok(metadata)
    }

    /// The JSON area, zeros behind the text.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`] when it does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut bytes = serde_json::to_vec(&self.document).expect("a document with text keys");
        // A zero byte ends the text.
        within("JSON text", bytes.len() as u64, 2, self.config.json_size - 1)?;
        bytes.resize(self.config.json_size as usize, 0);
        Ok(bytes)
    }

    fn check(&self, header_size: u64) -> Result<(), FormatError> {
        let (start, end) = self.areas(header_size);
        let mut areas = self.foreign.clone();
        for keyslot in self.keyslots.values() {
            if keyslot.material_len() > keyslot.area.size {
                return Err(FormatError::Inconsistent { what: "a key slot's area is smaller than its key" });
            }
            areas.push((keyslot.area.offset, keyslot.area.size));
        }
        areas.sort_unstable();
        let mut at = start;
        for (offset, size) in areas {
            if offset < at {
                return Err(FormatError::Inconsistent {
                    what: "key slot areas overlap, or lie in the header",
                });
            }
            match offset.checked_add(size).filter(|end_of| *end_of <= end) {
                Some(end_of) => at = end_of,
                None => return Err(FormatError::Inconsistent { what: "a key slot lies outside their area" }),
            }
        }
        let refers = |ids: &[u32], known: &dyn Fn(u32) -> bool| ids.iter().all(|id| known(*id));
        for digest in self.digests.values() {
            if !refers(&digest.segments, &|id| self.segments.contains_key(&id)) {
                return Err(FormatError::Inconsistent { what: "a digest names a segment that there is not" });
            }
        }
        Ok(())
    }

    /// The range of all key slot areas.
    #[must_use]
    pub fn areas(&self, header_size: u64) -> (u64, u64) {
        (2 * header_size, 2 * header_size + self.config.keyslots_size)
    }

    /// A free range of `len` bytes for a slot's area, aligned to 4096.
    #[must_use]
    pub fn free_area(&self, header_size: u64, len: u64) -> Option<u64> {
        let (start, end) = self.areas(header_size);
        let own = self.keyslots.values().map(|keyslot| (keyslot.area.offset, keyslot.area.size));
        let mut taken: Vec<(u64, u64)> = own.chain(self.foreign.iter().copied()).collect();
        taken.sort_unstable();
        let mut at = start;
        for (offset, size) in taken {
            if at + len <= offset {
                return Some(at);
            }
            at = (offset + size).next_multiple_of(4096);
        }
        (at + len <= end).then_some(at)
    }

    /// The slots that this program knows, by number.
    #[must_use]
    pub fn keyslots(&self) -> &BTreeMap<u32, Keyslot> {
        &self.keyslots
    }

    /// The segments, by number.
    #[must_use]
    pub fn segments(&self) -> &BTreeMap<u32, Segment> {
        &self.segments
    }

    /// The digests that this program knows, by number.
    #[must_use]
    pub fn digests(&self) -> &BTreeMap<u32, Digest> {
        &self.digests
    }

    /// Sizes of the header's parts.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
    }

    /// Numbers and types of the tokens.
    #[must_use]
    pub fn tokens(&self) -> Vec<(u32, String)> {
        let root = Object::new("JSON area", &self.document);
        let tokens = root.object("tokens").and_then(|tokens| tokens.numbered(limits::OBJECTS_MAX));
        let name = |token: Object<'_>| token.text("type").unwrap_or("?").to_owned();
        tokens
            .map(|tokens| tokens.into_iter().map(|(id, token)| (id, name(token))).collect())
            .unwrap_or_default()
    }

    /// Whether `id` is the number of any slot, of a known type or not.
    #[must_use]
    pub fn has_keyslot(&self, id: u32) -> bool {
        self.document["keyslots"].get(id.to_string()).is_some()
    }

    /// The lowest number that no slot has.
    #[must_use]
    pub fn free_keyslot(&self) -> Option<u32> {
        (0..limits::KEYSLOTS_MAX as u32).find(|id| !self.has_keyslot(*id))
    }

    /// Sets slot `id` and has digest `digest` verify it.
    pub fn set_keyslot(&mut self, id: u32, keyslot: &Keyslot, digest: u32) {
        self.member("keyslots").insert(id.to_string(), document::of_keyslot(keyslot));
        self.keyslots.insert(id, keyslot.clone());
        let linked = self.digests.get_mut(&digest);
        if let Some(linked) = linked.filter(|digest| !digest.keyslots.contains(&id)) {
            linked.keyslots.push(id);
            linked.keyslots.sort_unstable();
        }
        self.relink();
    }

    /// Removes slot `id`, and its number wherever it is named. A digest that
    /// then verifies nothing goes too.
    pub fn remove_keyslot(&mut self, id: u32) {
        self.member("keyslots").remove(&id.to_string());
        self.keyslots.remove(&id);
        for digest in self.digests.values_mut() {
            digest.keyslots.retain(|linked| *linked != id);
        }
        self.relink();
        let is_unused = |digest: &Digest| digest.keyslots.is_empty() && digest.segments.is_empty();
        let unused: Vec<u32> = self.digests.iter().filter(|(_, d)| is_unused(d)).map(|(id, _)| *id).collect();
        for id in unused {
            self.digests.remove(&id);
            self.member("digests").remove(&id.to_string());
        }
        let name = Value::from(id.to_string());
        for token in self.member("tokens").values_mut() {
            if let Some(Value::Array(linked)) = token.get_mut("keyslots") {
                linked.retain(|linked| *linked != name);
            }
        }
    }

    /// Sets a digest.
    pub fn set_digest(&mut self, id: u32, digest: &Digest) {
        self.member("digests").insert(id.to_string(), document::of_digest(digest));
        self.digests.insert(id, digest.clone());
    }

    /// Writes the slots of each digest into the document.
    fn relink(&mut self) {
        let links: Vec<(String, Value)> = self
            .digests
            .iter()
            .map(|(id, digest)| (id.to_string(), document::numbers(&digest.keyslots)))
            .collect();
        for (id, keyslots) in links {
            if let Some(Value::Object(digest)) = self.member("digests").get_mut(&id) {
                digest.insert("keyslots".to_owned(), keyslots);
            }
        }
    }

    fn member(&mut self, name: &str) -> &mut Map<String, Value> {
        match self.document.get_mut(name) {
            Some(Value::Object(member)) => member,
            _ => unreachable!("each member is an object, which decoding has checked"),
        }
    }
}

#[cfg(test)]
mod tests;
