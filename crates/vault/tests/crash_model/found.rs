//! What an image holds, read through the vault.

use std::collections::BTreeMap;

use strongroom_store::Kind;
use strongroom_vault::Vault;
use strongroom_vault::namespace::{Entry, Opening, ROOT};

use super::bytes::Bytes;

/// How much is asked of each file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All its bytes.
    Read,
    /// Every page and block verified besides.
    Verify,
}

/// What an inode turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) enum FoundBody {
    File(Bytes),
    Symlink(Vec<u8>),
    Special(Kind, u64),
    Directory(BTreeMap<String, usize>),
}

/// An inode as it was found.
#[derive(Debug, PartialEq)]
pub(crate) struct FoundInode {
    pub(crate) body: FoundBody,
    pub(crate) mode: u32,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All inodes of an image, in the order of their first sight; the top
/// directory is the first.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) inodes: Vec<FoundInode>,
}

struct Reader<'a> {
    vault: &'a Vault,
    depth: Depth,
    size: u64,
    inodes: Vec<FoundInode>,
    seen: BTreeMap<u64, usize>,
    links: BTreeMap<usize, (u32, u32)>,
}

impl Found {
    /// Reads everything. Whatever does not open is an error.
    pub(crate) fn read(vault: &Vault, size: u64, depth: Depth) -> Result<Found, String> {
        let mut reader =
            Reader { vault, depth, size, inodes: Vec::new(), seen: BTreeMap::new(), links: BTreeMap::new() };
        reader.directory(ROOT, 0)?;
        match reader.links.values().find(|(counted, told)| counted != told) {
            Some((counted, told)) => Err(format!("{counted} names of an inode with {told} links")),
            None => Ok(Found { inodes: reader.inodes }),
        }
    }

    /// Forgets an entry of the top directory, and what stands under it.
    pub(crate) fn without(mut self, name: &str) -> Result<Found, String> {
        let FoundBody::Directory(entries) = &mut self.inodes[0].body else { unreachable!("the top") };
        let gone = entries.remove(name).ok_or_else(|| format!("{name} is not there"))?;
        self.inodes.remove(gone);
        for inode in &mut self.inodes {
            if let FoundBody::Directory(entries) = &mut inode.body {
                entries.values_mut().filter(|index| **index > gone).for_each(|index| *index -= 1);
            }
        }
        Ok(self)
    }
}

impl Reader<'_> {
    fn directory(&mut self, number: u64, mode: u32) -> Result<usize, String> {
        let names = self.vault.namespace();
        let listing = names.open_directory(number).map_err(|error| format!("opening: {error}"))?;
        let mut listed = Vec::new();
        names
            .read_directory(&listing, 0, &mut |item| {
                listed.push(String::from_utf8_lossy(item.name).into_owned());
                true
            })
            .map_err(|error| format!("listing: {error}"))?;
        listed.retain(|name| name != "." && name != "..");
        listed.sort_unstable();
        let xattrs = self.xattrs(number)?;
        let index = self.inodes.len();
        self.inodes.push(FoundInode { body: FoundBody::Directory(BTreeMap::new()), mode, xattrs });
        let mut entries = BTreeMap::new();
        for name in listed {
            let entry = names
                .lookup(number, name.as_bytes())
                .map_err(|error| format!("{}: lookup: {error}", short(&name)))?;
            let found = self.entry(&entry);
            names.forget(entry.number, 1);
            entries.insert(name.clone(), found.map_err(|reason| format!("{}: {reason}", short(&name)))?);
        }
        self.inodes[index].body = FoundBody::Directory(entries);
        Ok(index)
    }

    fn entry(&mut self, entry: &Entry) -> Result<usize, String> {
        let attributes = &entry.attributes;
        if attributes.kind == Kind::Directory {
            return self.directory(entry.number, attributes.mode);
        }
        let body = match attributes.kind {
            Kind::Symlink => {
                let target = self.vault.namespace().read_link(entry.number);
                FoundBody::Symlink(target.map_err(|error| format!("reading the link: {error}"))?)
            }
            Kind::File => FoundBody::File(self.file(entry)?),
            other => FoundBody::Special(other, attributes.device),
        };
        let next = self.inodes.len();
        let index = *self.seen.entry(attributes.id.inode).or_insert(next);
        self.links.entry(index).or_insert((0, attributes.links)).0 += 1;
        if index == next {
            let xattrs = self.xattrs(entry.number)?;
            self.inodes.push(FoundInode { body, mode: attributes.mode, xattrs });
        }
        Ok(index)
    }

    /// Opens a file under each of its names, and reads it under the first.
    fn file(&mut self, entry: &Entry) -> Result<Bytes, String> {
        let names = self.vault.namespace();
        let known = self.seen.contains_key(&entry.attributes.id.inode);
        let content =
            names.open(entry.number, Opening::default()).map_err(|error| format!("open: {error}"))?;
        let bytes = if known { Ok(Bytes::empty(self.size)) } else { Bytes::read(&content, self.size) };
        let verified = match self.depth {
            Depth::Verify if !known => content.verify(&mut |_| {}).map(|found| found.damage.len()),
            _ => Ok(0),
        };
        drop(content);
        names.release(entry.number);
        match verified {
            Ok(0) => bytes,
            Ok(damage) => Err(format!("{damage} places are damaged")),
            Err(error) => Err(format!("verify: {error}")),
        }
    }

    fn xattrs(&self, number: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let names = self.vault.namespace();
        let listed = names.xattr_names(number).map_err(|error| format!("listing attributes: {error}"))?;
        let value = |name: Vec<u8>| {
            let value = names.xattr(number, &name).map_err(|error| format!("an attribute: {error}"))?;
            Ok((name, value))
        };
        listed.into_iter().map(value).collect()
    }
}

/// A name for a message.
pub(crate) fn short(name: &str) -> String {
    if name.len() > 20 { format!("{}… ({})", &name[..12], name.len()) } else { name.to_owned() }
}
