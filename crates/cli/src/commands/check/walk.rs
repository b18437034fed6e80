//! Walking the stored tree: every name, directory record, side file and
//! symlink target. The files themselves are handed to the threads that verify.
//!
//! The stored tree is walked, and not the plain one, so that what does not
//! open is seen too.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::names::{
    DIRECTORY_RECORD, DirectoryRecord, LINK_ID_LEN, NameEncoding, StoredName, StoredTarget, VAULT_DIRECTORY,
    parse_journal_name, parse_link_name, side_name,
};
use strongroom_keys::names::spell;
use strongroom_keys::{NameCipher, RecordMac, VaultKeys};
use strongroom_store::{Access, DirectoryEntry, InodeId, Kind, NodeRef};
use strongroom_vault::Error;
use strongroom_vault::namespace::{Namespace, ROOT};

use super::findings::{Finding, Findings, Leftover};
use super::joined;
use super::verify::{Job, Verifier};

/// No side file is longer.
const SIDE_LEN_MAX: usize = 8192;

/// How much was seen.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) others: u64,
}

/// A walk over a vault.
pub(super) struct Walk<'a> {
    namespace: &'a Arc<Namespace>,
    verifier: &'a Verifier<'a>,
    findings: &'a Findings,
    cipher: NameCipher,
    records: RecordMac,
    encoding: NameEncoding,
    directories: HashSet<DirectoryId>,
    linked: HashSet<InodeId>,
    long_targets: HashSet<[u8; LINK_ID_LEN]>,
    pub(super) counts: Counts,
    pub(super) leftovers: Vec<Leftover>,
}

/// A directory on the way: its stored node, node number, id, and both paths.
struct Place<'a> {
    node: &'a NodeRef,
    number: u64,
    id: DirectoryId,
    plain: &'a [u8],
    stored: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        namespace: &'a Arc<Namespace>,
        verifier: &'a Verifier<'a>,
        findings: &'a Findings,
        keys: &VaultKeys,
        base32_names: bool,
    ) -> Walk<'a> {
        Walk {
            namespace,
            verifier,
            findings,
            cipher: NameCipher::new(keys),
            records: RecordMac::new(keys),
            encoding: NameEncoding::from_flag(base32_names),
            directories: HashSet::new(),
            linked: HashSet::new(),
            long_targets: HashSet::new(),
            counts: Counts::default(),
            leftovers: Vec::new(),
        }
    }

    /// Walks everything, and hands files to `jobs`.
    pub(super) fn run(&mut self, top: &NodeRef, jobs: SyncSender<Job>) {
        let id = self.records.root_directory();
        self.directory(&Place { node: top, number: ROOT, id, plain: b"", stored: b"" }, &jobs);
        self.verifier.xattrs(ROOT, b"");
        self.findings.collect(self.namespace);
    }

    fn directory(&mut self, place: &Place<'_>, jobs: &SyncSender<Job>) {
        self.counts.directories += 1;
        let entries = match place.node.entries() {
            Ok(entries) => entries,
            Err(error) => return self.findings.add(Finding::new(place.plain, &error.into())),
        };
        for entry in &entries {
            match self.encoding.parse(&entry.name) {
                Ok(StoredName::DirectoryRecord) => {}
                Ok(StoredName::VaultDirectory) if place.number == ROOT => {}
                Ok(StoredName::Side(long)) => self.side(place, &entries, &long),
                Ok(StoredName::Short(sealed)) => match self.cipher.open_name(place.id, &sealed) {
                    Ok(name) => self.entry(place, entry, &name, jobs),
                    Err(_) => self.misnamed(place, entry, "a stored name does not open"),
                },
                Ok(StoredName::Long) => match self.long_name(place, &entry.name) {
                    Ok(name) => self.entry(place, entry, &name, jobs),
                    Err(what) => self.misnamed(place, entry, what),
                },
                Ok(StoredName::VaultDirectory) | Err(_) => {
                    self.misnamed(place, entry, "a stored name is none of this vault's");
                }
            }
        }
    }

    fn misnamed(&self, place: &Place<'_>, entry: &DirectoryEntry, what: &'static str) {
        self.findings.add(Finding::name(place.plain, &joined(place.stored, &entry.name), what));
    }

    /// A side file is needed while there is an entry of its name.
    fn side(&mut self, place: &Place<'_>, entries: &[DirectoryEntry], long: &str) {
        if !entries.iter().any(|entry| entry.name == long.as_bytes()) {
            let stored = joined(place.stored, side_name(long).as_bytes());
            self.leave(&stored, "the name of an entry that is gone");
        }
    }

    fn leave(&mut self, stored: &[u8], what: &'static str) {
        let stored = String::from_utf8_lossy(stored).into_owned();
        self.leftovers.push(Leftover { stored, what });
    }

    /// The plain name of an entry whose sealed name stands in a side file.
    fn long_name(&self, place: &Place<'_>, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let side = side_name(&String::from_utf8_lossy(stored));
        let sealed = read(place.node, side.as_bytes()).ok_or("a long name has lost its side file")?;
        let spelled = spell(self.encoding, &sealed);
        if !spelled.is_long || spelled.name.as_bytes() != stored {
            return Err("a long name's side file is another's");
        }
        self.cipher.open_name(place.id, &sealed).map_err(|_| "a stored name does not open")
    }

    fn entry(&mut self, place: &Place<'_>, entry: &DirectoryEntry, name: &[u8], jobs: &SyncSender<Job>) {
        let plain = joined(place.plain, name);
        let found = match self.namespace.lookup(place.number, name) {
            Ok(found) => found,
            // It was removed since the directory was read.
            Err(error) if error.is_not_found() => return,
            Err(error) => return self.findings.add(Finding::new(&plain, &error)),
        };
        let number = found.number;
        match found.attributes.kind {
            Kind::File => {
                let job = Job { number, inode: found.attributes.id, path: plain };
                return self.file(job, found.attributes.links, jobs);
            }
            Kind::Directory => {
                let stored = joined(place.stored, &entry.name);
                self.subdirectory(place, entry, number, &plain, &stored, jobs);
            }
            Kind::Symlink => self.symlink(place, entry, number, &plain),
            Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => self.counts.others += 1,
        }
        self.verifier.xattrs(number, &plain);
        self.findings.collect(self.namespace);
        self.namespace.forget(number, 1);
    }

    /// A file with several names is verified here, once, so that each of its
    /// names is compared with its home before another is looked up.
    fn file(&mut self, job: Job, links: u32, jobs: &SyncSender<Job>) {
        if links <= 1 {
            // The receivers live as long as there are jobs.
            let _ = jobs.send(job);
        } else if self.linked.insert(job.inode) {
            self.verifier.verify(&job);
        } else {
            match self.namespace.open(job.number, Default::default()) {
                Ok(_) => self.namespace.release(job.number),
                Err(error) => self.findings.add(Finding::new(&job.path, &error)),
            }
            self.namespace.forget(job.number, 1);
        }
    }

    fn subdirectory(
        &mut self,
        parent: &Place<'_>,
        entry: &DirectoryEntry,
        number: u64,
        plain: &[u8],
        stored: &[u8],
        jobs: &SyncSender<Job>,
    ) {
        let node = match parent.node.lookup(&entry.name) {
            Ok(node) => node,
            Err(error) => return self.findings.add(Finding::new(plain, &error.into())),
        };
        let id = match self.record(&node) {
            Ok(id) => id,
            Err(what) => {
                self.counts.directories += 1;
                return self.findings.add(Finding::name(
                    plain,
                    &joined(stored, DIRECTORY_RECORD.as_bytes()),
                    what,
                ));
            }
        };
        if !self.directories.insert(id) {
            self.findings.add(Finding::duplicate(plain, "directory"));
        }
        self.directory(&Place { node: &node, number, id, plain, stored }, jobs);
    }

    fn record(&self, directory: &NodeRef) -> Result<DirectoryId, &'static str> {
        let target = directory.lookup(DIRECTORY_RECORD.as_bytes()).and_then(|record| record.read_link());
        let target = target.map_err(|_| "a directory has lost its record")?;
        let record = DirectoryRecord::parse(&target).map_err(|_| "a directory's record is malformed")?;
        if self.records.verifies(&record) { Ok(record.id) } else { Err("a directory's record is forged") }
    }

    fn symlink(&mut self, place: &Place<'_>, entry: &DirectoryEntry, number: u64, plain: &[u8]) {
        self.counts.symlinks += 1;
        let stored = place.node.lookup(&entry.name).and_then(|node| node.read_link());
        if let Ok(StoredTarget::Side(sealed)) = StoredTarget::parse(&stored.unwrap_or_default())
            && let Ok(id) = self.cipher.open_link_id(&sealed)
        {
            self.long_targets.insert(id);
        }
        match self.namespace.read_link(number) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                self.findings.add(Finding::name(
                    plain,
                    b".strongroom/links",
                    "a long symlink has lost its target",
                ));
            }
            Err(error) => self.findings.add(Finding::new(plain, &error)),
        }
    }

    /// Lists what lies in the vault's own directory and is of no use. To be
    /// called after the walk.
    pub(super) fn leftovers(&mut self, top: &NodeRef, header: &Header) {
        match self.list_private(top, header) {
            Ok(()) => {}
            // A vault that lacks one of these directories is given it when it
            // is needed.
            Err(error) if error.is_not_found() => {}
            Err(error) => self.findings.add(Finding::new(b"", &error)),
        }
    }

    fn list_private(&mut self, top: &NodeRef, header: &Header) -> Result<(), Error> {
        let private = top.lookup(VAULT_DIRECTORY.as_bytes())?;
        for entry in private.entries()? {
            self.private_entry(&entry.name, header);
        }
        for entry in private.lookup(b"temporary")?.entries()? {
            let stored = joined(b".strongroom/temporary", &entry.name);
            self.leave(&stored, "removed at the next mount for writing");
        }
        for entry in private.lookup(b"links")?.entries()? {
            if !parse_link_name(&entry.name).is_ok_and(|id| self.long_targets.contains(&id)) {
                let stored = joined(b".strongroom/links", &entry.name);
                self.leave(&stored, "the target of a symlink that is gone");
            }
        }
        Ok(())
    }

    fn private_entry(&mut self, name: &[u8], header: &Header) {
        let known: [&[u8]; 6] = [b"header.0", b"header.1", b"lock", b"links", b"temporary", b"recovered"];
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

fn read(directory: &NodeRef, name: &[u8]) -> Option<Vec<u8>> {
    let file = directory.lookup(name).ok()?.open(Access::Read).ok()?;
    let mut bytes = vec![0; SIDE_LEN_MAX + 1];
    let len = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(len);
    (len <= SIDE_LEN_MAX).then_some(bytes)
}
