//! Holds what an image shows against what the history promised: some state of
//! the names since the last promised one must match exactly, and every file
//! must hold a version that it may hold.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::found::{Found, FoundBody, FoundInode, short};
use super::history::{Trial, Version};
use super::tree::{Body, Id, Inode, TOP, Tree};

/// Looks for a state of the names, and of every file's content, that the cut
/// may have left.
pub(crate) fn explain(trial: &Trial, found: &Found, cut: usize) -> Result<(), String> {
    let promised = trial.durable.iter().filter(|&&(from, _)| from <= cut).map(|&(_, state)| state).max();
    let mut reasons = Vec::new();
    for (index, names) in trial.states.iter().enumerate().skip(promised.unwrap_or(0)) {
        if index > 0 && names.begun >= cut {
            break;
        }
        // The state of an operation that the cut interrupts has its promises.
        let matching = Matching { trial, found, tree: &names.tree, cut: cut.max(names.from) };
        match matching.all() {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(format!("state {index}: {reason}")),
        }
    }
    Err(format!("no state explains the image:\n  {}", reasons.join("\n  ")))
}

/// Everything is as the model has it now.
pub(crate) fn matches_exactly(trial: &Trial, found: &Found, tree: &Tree) -> Result<(), String> {
    Matching { trial, found, tree, cut: usize::MAX }.all()
}

struct Matching<'a> {
    trial: &'a Trial,
    found: &'a Found,
    tree: &'a Tree,
    cut: usize,
}

impl Matching<'_> {
    fn all(&self) -> Result<(), String> {
        let mut pairs = BTreeMap::new();
        self.directory(TOP, 0, &mut pairs)?;
        // Names first: contents are compared for the state alone that fits.
        for (&id, &index) in &pairs {
            self.inode(id, &self.tree.inodes[&id], &self.found.inodes[index])
                .map_err(|reason| format!("#{id}: {reason}"))?;
        }
        Ok(())
    }

    fn directory(&self, id: Id, index: usize, pairs: &mut BTreeMap<Id, usize>) -> Result<(), String> {
        let FoundBody::Directory(found) = &self.found.inodes[index].body else {
            return Err(format!("#{id} is no directory"));
        };
        let entries = self.tree.entries(id);
        let is_there =
            |(name, child): &(&String, &Id)| found.contains_key(*name) || !self.may_be_gone(**child);
        if !found.keys().eq(entries.iter().filter(is_there).map(|(name, _)| name)) {
            let names = |keys: Vec<&String>| keys.into_iter().map(|name| short(name)).collect::<Vec<_>>();
            let (found, wanted) = (names(found.keys().collect()), names(entries.keys().collect()));
            return Err(format!("#{id} holds {found:?}, not {wanted:?}"));
        }
        pairs.insert(id, index);
        for (name, &child) in entries {
            let Some(&index) = found.get(name) else { continue };
            if self.tree.is_directory(child) {
                self.directory(child, index, pairs).map_err(|reason| format!("{}/{reason}", short(name)))?;
            } else if *pairs.entry(child).or_insert(index) != index {
                return Err(format!("two names of #{child} are two files"));
            }
        }
        Ok(())
    }

    fn inode(&self, id: Id, wanted: &Inode, found: &FoundInode) -> Result<(), String> {
        if let Some(mode) = wanted.mode
            && mode != found.mode
        {
            return Err(format!("mode {:o}, not {mode:o}", found.mode));
        }
        match (&wanted.body, &found.body) {
            (Body::Directory(_), FoundBody::Directory(_)) => {}
            (Body::Symlink(target), FoundBody::Symlink(found)) if **target == **found => {}
            (Body::Special(kind, device), FoundBody::Special(of, found)) if (kind, device) == (of, found) => {
            }
            (Body::File, FoundBody::File(bytes)) => self.content(id, bytes)?,
            _ => return Err("not what it was".into()),
        }
        if found.xattrs != wanted.xattrs {
            let keys: Vec<_> = found.xattrs.keys().map(|name| String::from_utf8_lossy(name)).collect();
            return Err(format!("attributes {keys:?} are not those set"));
        }
        Ok(())
    }

    /// A crash may take what was never made durable, but for directories, under
    /// all names.
    fn may_be_gone(&self, id: Id) -> bool {
        let is_promised = |positions: &Vec<usize>| positions.iter().any(|&from| from <= self.cut);
        if self.cut == usize::MAX {
            return false;
        }
        match self.tree.inodes[&id].body {
            Body::Directory(_) => false,
            Body::File => self.promised(id).is_none() && !is_promised(&self.trial.files[&id].named),
            Body::Symlink(_) | Body::Special(..) => !self.trial.specials.get(&id).is_some_and(is_promised),
        }
    }

    fn promised(&self, id: Id) -> Option<usize> {
        let synced = &self.trial.files[&id].synced;
        synced.iter().filter(|&&(from, _)| from <= self.cut).map(|&(_, version)| version).max()
    }

    fn content(&self, id: Id, bytes: &Bytes) -> Result<(), String> {
        let file = &self.trial.files[&id];
        let promised = self.promised(id);
        let possible: Vec<&Version> = file.versions[promised.unwrap_or(0)..]
            .iter()
            .take_while(|version| version.from <= self.cut)
            .collect();
        if self.cut == usize::MAX {
            let latest = possible.last().is_some_and(|version| version.bytes == *bytes);
            return if latest { Ok(()) } else { Err("not what was written".into()) };
        }
        if possible.iter().any(|version| version.bytes == *bytes) {
            return Ok(());
        }
        let lens: Vec<u64> = possible.iter().map(|version| version.bytes.len).collect();
        Err(format!("{} bytes are no version since the last sync, of {lens:?}", bytes.len))
    }
}
