//! Walking the stored tree: every name, directory record, side file and
//! symlink target. The files themselves are handed to the threads that verify.

use std::collections::{HashMap, HashSet};

use strongroom_format::vault::header::Header;
use strongroom_format::vault::names::{DIRECTORY_RECORD, VAULT_DIRECTORY, parse_journal_name};
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::{DirectoryEntry, Kind, NodeRef};
use strongroom_vault::namespace::repair::FOREIGN;
use strongroom_vault::namespace::survey::{
    FOREIGN_KIND, Folder, Item, Listed, NOT_ITS_PLACE, Named, Sort, SpecialItem, Survey, joined, placeholder,
};
use strongroom_vault::{Damage, Error};

use super::facts::{Adoptable, Fact};
use super::findings::{Finding, Findings, Leftover};
use super::scrub::Scrub;
use super::verify::Verifier;
use crate::tree::{Interrupt, Pool};

/// How much was seen.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) others: u64,
}

/// A directory that is being walked, and the names in it that are left.
struct Level {
    folder: Folder,
    rest: std::vec::IntoIter<Listed>,
}

/// A walk over a vault.
pub(super) struct Walk<'v, 'a> {
    survey: Survey<'a>,
    verifier: &'v Verifier<'a>,
    findings: &'v Findings,
    interrupt: &'v Interrupt,
    directories: HashMap<DirectoryId, Vec<u8>>,
    long_targets: HashSet<Vec<u8>>,
    /// Special records with several names.
    linked: HashSet<FileId>,
    pub(super) counts: Counts,
    pub(super) leftovers: Vec<Leftover>,
}

impl<'v, 'a> Walk<'v, 'a> {
    pub(super) fn new(verifier: &'v Verifier<'a>) -> Walk<'v, 'a> {
        Walk {
            survey: verifier.survey,
            verifier,
            findings: verifier.findings,
            interrupt: verifier.interrupt,
            directories: HashMap::new(),
            long_targets: HashSet::new(),
            linked: HashSet::new(),
            counts: Counts::default(),
            leftovers: Vec::new(),
        }
    }

    /// Walks a directory and what is below it, and hands files to the pool.
    pub(super) fn folder(&mut self, folder: &Folder, pool: &Pool<'v>) {
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.begin(folder.clone()));
        while let Some(level) = levels.last_mut() {
            let Some(listed) = level.rest.next() else {
                levels.pop();
                continue;
            };
            let stored = joined(&level.folder.stored, &listed.stored);
            let is_over = self.verifier.scrub().is_some_and(Scrub::is_over);
            if self.interrupt.is_asked() || is_over {
                if let Some(scrub) = self.verifier.scrub().filter(|_| !is_over) {
                    scrub.leave(&stored);
                }
                return;
            }
            if self.verifier.scrub().is_some_and(|scrub| scrub.is_past(&stored)) {
                continue;
            }
            let item = match self.survey.look(&level.folder, listed) {
                Ok(Some(item)) => item,
                Ok(None) => continue,
                Err(error) => {
                    let stored = Some(stored);
                    self.findings.add(Finding::new(&level.folder.plain, &error).stored(stored));
                    continue;
                }
            };
            let Some(below) = self.entry(&level.folder, item, pool) else { continue };
            if let Some(what) = below.stops_walk(levels.iter().map(|level| level.folder.id)) {
                self.findings.add(Finding::name(&below.plain, &below.stored, what));
                continue;
            }
            levels.extend(self.begin(below));
        }
    }

    /// Verifies a directory itself; none when it cannot be listed.
    fn begin(&mut self, folder: Folder) -> Option<Level> {
        self.counts.directories += 1;
        if let Some(what) = folder.fault {
            let record = joined(&folder.stored, DIRECTORY_RECORD.as_bytes());
            self.findings.add(Finding::name(&folder.plain, &record, what));
        }
        if let Some(id) = folder.id {
            if let Some(other) = self.directories.insert(id, folder.plain.clone()) {
                self.findings.add(Finding::duplicate(&folder.plain, "directory", &other));
                self.findings.note(Fact::DuplicateDirectory(id));
            }
            self.verifier.attributes(&folder.node, id.0, &folder.plain);
        }
        self.findings.note(Fact::Folder(folder.clone()));
        let listing = match self.survey.list(&folder) {
            Ok(listing) => listing,
            Err(error) => {
                self.findings.add(Finding::new(&folder.plain, &error));
                return None;
            }
        };
        if folder.fault.is_some() {
            self.findings.note(Fact::LostRecord { folder: folder.clone(), entries: listing.entries.len() });
        }
        self.foreign_records(&folder);
        for (stored, error) in &listing.failed {
            let stored = Some(joined(&folder.stored, stored));
            self.findings.add(Finding::new(&folder.plain, error).stored(stored));
        }
        for orphan in &listing.orphans {
            self.findings.note(Fact::Orphan { folder: folder.clone(), side: orphan.clone() });
            self.leave(&joined(&folder.stored, orphan), "the name of an entry that is gone");
        }
        let mut entries = listing.entries;
        if self.verifier.scrub().is_some() {
            entries.sort_by(|one, other| one.stored.cmp(&other.stored));
        }
        Some(Level { folder, rest: entries.into_iter() })
    }

    /// Tells of the names in a directory's record that are none of the vault's,
    /// of which whoever has the store may have made any number.
    fn foreign_records(&self, folder: &Folder) {
        if folder.foreign.is_empty() {
            return;
        }
        let stored = joined(&folder.stored, DIRECTORY_RECORD.as_bytes());
        let record = folder.node.lookup(DIRECTORY_RECORD.as_bytes());
        let record = record.ok().map(|node| Folder { node, stored: stored.clone(), ..folder.clone() });
        for foreign in folder.foreign.iter() {
            let what = "what stands in a directory's record is none of the vault's";
            self.findings.add(Finding::name(&folder.plain, &joined(&stored, foreign), what));
            if let Some(record) = &record {
                self.findings.note(Fact::Foreign { folder: record.clone(), stored: foreign.clone() });
            }
        }
    }

    fn leave(&mut self, stored: &[u8], what: impl Into<String>) {
        let stored = String::from_utf8_lossy(stored).into_owned();
        self.leftovers.push(Leftover { stored, what: what.into() });
    }

    /// Verifies one entry, and what is below it.
    pub(super) fn item(&mut self, folder: &Folder, item: Item, pool: &Pool<'v>) {
        if let Some(below) = self.entry(folder, item, pool) {
            self.folder(&below, pool);
        }
    }

    /// Verifies one entry; the directory that it is, if it is one, is still to
    /// be walked.
    fn entry(&mut self, folder: &Folder, item: Item, pool: &Pool<'v>) -> Option<Folder> {
        if let Named::Lost(what) | Named::Foreign(what) = item.name
            // Of a directory without an id no name opens, which is told once.
            && folder.id.is_some()
        {
            let stored = joined(&folder.stored, &item.stored);
            self.findings.add(Finding::name(&folder.plain, &stored, what));
        }
        if matches!(item.name, Named::Foreign(_)) {
            self.findings.note(Fact::Foreign { folder: folder.clone(), stored: item.stored });
            return None;
        }
        let plain =
            item.name.shown().map_or_else(|| folder.plain.clone(), |name| joined(&folder.plain, &name));
        self.adoptable(folder, &item);
        match &item.sort {
            Sort::File | Sort::Broken(_) => {
                let (verifier, folder) = (self.verifier, folder.clone());
                let promise = verifier.promise(&folder, &item);
                pool.submit(Box::new(move || verifier.begin(&folder, &item, promise)));
                return None;
            }
            Sort::Directory => match self.survey.enter(folder, &item) {
                Ok(below) => {
                    if below.fault != Some(NOT_ITS_PLACE) {
                        self.verifier.conflict(folder, &item);
                    }
                    if matches!(item.name, Named::Lost(_)) {
                        let id = below.id.map(|id| format!("#{id}").into_bytes());
                        let name = id.unwrap_or_else(|| placeholder(&item.node));
                        self.findings.note(Fact::misplaced(folder, &item, name));
                    }
                    return Some(below);
                }
                Err(error) => {
                    self.findings.add(Finding::new(&plain, &error));
                    self.verifier.conflict(folder, &item);
                    return None;
                }
            },
            Sort::Special(special) => self.special(folder, &item, special, &plain),
            Sort::Foreign => {
                let stored = joined(&folder.stored, &item.stored);
                self.findings.add(Finding::name(&plain, &stored, FOREIGN_KIND));
                self.verifier.conflict(folder, &item);
                self.findings.note(Fact::Foreign { folder: folder.clone(), stored: item.stored });
            }
        }
        None
    }

    /// Notes what a synchronisation program has left.
    fn adoptable(&mut self, folder: &Folder, item: &Item) {
        let Some(name) = item.name.shown() else { return };
        let other = item.directory.filter(|id| folder.id != Some(*id));
        match &item.name {
            Named::Conflict { .. } if matches!(item.sort, Sort::Directory) => return,
            Named::Conflict { .. } => {}
            _ if other.is_none() => return,
            _ => {}
        }
        let Some(of) = item.name.bound().map(<[u8]>::to_vec) else { return };
        let (folder, stored) = (folder.clone(), item.stored.clone());
        self.findings.note(Fact::Adoptable(Adoptable { folder, stored, of, name, other }));
    }

    /// Verifies a symlink, FIFO, socket or device node.
    fn special(&mut self, folder: &Folder, item: &Item, special: &SpecialItem, plain: &[u8]) {
        match special.kind() {
            Kind::Symlink => self.counts.symlinks += 1,
            _ => self.counts.others += 1,
        }
        self.long_targets.extend(special.long_target());
        if special.kind() == Kind::Symlink
            && let Err(error) = self.survey.target(special)
        {
            self.findings.add(Finding::new(plain, &error));
        }
        match special.is_misplaced {
            true => self.findings.add(Finding::new(plain, &Error::Damaged(Damage::Home))),
            false => self.verifier.conflict(folder, item),
        }
        if special.is_misplaced || matches!(item.name, Named::Lost(_)) {
            self.findings.note(Fact::misplaced_special(folder, item, special));
        }
        let is_first = item.node.attributes().is_ok_and(|attributes| attributes.links <= 1)
            || self.linked.insert(special.id());
        if !is_first {
            return;
        }
        if !matches!(item.name, Named::Conflict { .. })
            && let Some(other) = self.verifier.note_id(special.id(), plain)
        {
            self.findings.add(Finding::duplicate(plain, "file", &other));
            self.findings.note(Fact::DuplicateFile(special.id()));
        }
        self.verifier.attributes(&item.node, special.id().0, plain);
    }

    /// Lists what lies in the vault's own directory and is of no use. To be
    /// called after the walk.
    pub(super) fn leftovers(&mut self, top: &NodeRef, header: &Header) {
        match self.list_private(top, header) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => self.findings.add(Finding::new(b"", &error)),
        }
    }

    fn list_private(&mut self, top: &NodeRef, header: &Header) -> Result<(), Error> {
        let private = top.lookup(VAULT_DIRECTORY.as_bytes())?;
        for entry in private.entries()? {
            self.private_entry(&entry.name, header);
        }
        for entry in self.private_directory(&private, "aside")? {
            let stored = joined(b".strongroom/aside", &entry.name);
            self.leave(&stored, self.kept_aside(&entry.name));
        }
        for entry in self.private_directory(&private, "temporary")? {
            let stored = joined(b".strongroom/temporary", &entry.name);
            self.leave(&stored, self.kept_temporary(&private, &entry.name));
        }
        // What could not be looked at may be the symlink that has one of them.
        if self.findings.has_unreadable() {
            return Ok(());
        }
        for entry in self.private_directory(&private, "links")? {
            if !self.long_targets.contains(&entry.name) {
                let stored = joined(b".strongroom/links", &entry.name);
                self.leave(&stored, "the target of a symlink that is gone");
            }
        }
        Ok(())
    }

    /// The entries of a directory of the vault's own; none when there is none,
    /// which is told where something else has its name.
    fn private_directory(&self, private: &NodeRef, name: &str) -> Result<Vec<DirectoryEntry>, Error> {
        match private.lookup(name.as_bytes()) {
            Ok(node) if node.kind() == Kind::Directory => Ok(node.entries()?),
            Ok(_) => {
                let stored = joined(VAULT_DIRECTORY.as_bytes(), name.as_bytes());
                let what = "a directory of the vault's own is something else: move it away";
                self.findings.add(Finding::name(b"", &stored, what));
                Ok(Vec::new())
            }
            // It is made when it is needed.
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// What becomes of an entry of `.strongroom/temporary`.
    fn kept_temporary(&self, private: &NodeRef, name: &[u8]) -> &'static str {
        let found = private.lookup(b"temporary").and_then(|temporary| temporary.lookup(name));
        match found.is_ok_and(|node| !self.survey.is_swept(&node)) {
            true => "nothing of the vault's; no mount removes it, and it may be taken out",
            false => "removed at the next mount for writing",
        }
    }

    /// What lies aside: what settling has taken out of the tree.
    fn kept_aside(&self, name: &[u8]) -> String {
        if parse_journal_name(name).is_some() {
            return "a damaged journal; it may be deleted".to_owned();
        }
        if name.starts_with(FOREIGN.as_bytes()) {
            return "what a repair found that was not the vault's; it may be taken out".to_owned();
        }
        let inode = String::from_utf8_lossy(name).rsplit('.').next().and_then(|text| text.parse().ok());
        let path = inode.and_then(|inode| self.verifier.path_of(inode));
        let of = path.map_or_else(|| "a file".to_owned(), |path| crate::report::shown(&path));
        format!(
            "what was stored of {of} that a recovery has taken away; `salvage` reads it, and it may be deleted"
        )
    }

    fn private_entry(&mut self, name: &[u8], header: &Header) {
        let known: [&[u8]; 7] =
            [b"header.0", b"header.1", b"header.spare", b"lock", b"links", b"temporary", b"aside"];
        let is_open = |session| header.session(session).is_some();
        if known.contains(&name) || parse_journal_name(name).is_some_and(|(session, _)| is_open(session)) {
            return;
        }
        let what = match parse_journal_name(name) {
            Some(_) => "the journal of a session that ended",
            None => "nothing of the vault's",
        };
        self.leave(&joined(VAULT_DIRECTORY.as_bytes(), name), what);
    }
}
