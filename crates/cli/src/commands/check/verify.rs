//! Verifying the contents and attributes of files, on many threads, several
//! of them in one large file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strongroom_engine::Buffer;
use strongroom_format::vault::FileId;
use strongroom_store::{InodeId, NodeRef};
use strongroom_units::GroupIndex;
use strongroom_vault::content::{Content, Examination, Examined};
use strongroom_vault::namespace::survey::{Folder, Item, Named, Opened, Survey, joined, placeholder};
use strongroom_vault::{Damage, Error, Recovered};

use super::facts::{Fact, Misplaced};
use super::findings::{Finding, Findings, Recovery};
use super::sample::Sample;
use super::scrub::{Promise, Scrub};
use crate::progress::Progress;
use crate::tree::{Interrupt, Parts, groups_of, parts_of};

/// Shared by all threads that verify.
pub(super) struct Verifier<'a> {
    pub(super) survey: Survey<'a>,
    pub(super) findings: &'a Findings,
    pub(super) progress: &'a Progress,
    pub(super) interrupt: &'a Interrupt,
    /// Bytes of a block.
    pub(super) block_bytes: u64,
    /// Whether a session has crashed, so that recovery may have something to
    /// say of files.
    pub(super) settling: bool,
    /// How much is looked at.
    pub(super) extent: Extent,
    files: AtomicU64,
    bytes: AtomicU64,
    ids: Mutex<HashMap<FileId, Vec<u8>>>,
    paths: Mutex<HashMap<InodeId, Vec<u8>>>,
    linked: Mutex<HashSet<InodeId>>,
}

/// What is told to whoever makes a verifier.
pub(super) struct Wanted {
    pub(super) block_bytes: u64,
    pub(super) settling: bool,
    pub(super) extent: Extent,
}

/// How much of a vault is looked at.
pub(super) enum Extent {
    /// Names and what files begin with.
    Names,
    /// Everything.
    Whole,
    /// A random part of every file.
    Sample(Sample),
    /// The files that there is time for.
    Scrub(Scrub),
}

/// A file that is being verified.
struct Verifying<'v, 'a> {
    verifier: &'v Verifier<'a>,
    opened: Mutex<Option<Opened>>,
    content: std::sync::Arc<Content>,
    examination: Mutex<Option<Examination>>,
    groups: Vec<GroupIndex>,
    examined: Mutex<Examined>,
    /// Kept once all of it was looked at.
    promise: Mutex<Option<Promise<'v>>>,
    /// Of the directory where the file's own name is lost.
    path: Vec<u8>,
    stored: Option<Vec<u8>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Verifier<'a> {
    pub(super) fn new(
        survey: Survey<'a>,
        findings: &'a Findings,
        progress: &'a Progress,
        interrupt: &'a Interrupt,
        wanted: Wanted,
    ) -> Verifier<'a> {
        let Wanted { block_bytes, settling, extent } = wanted;
        Verifier {
            survey,
            findings,
            progress,
            interrupt,
            block_bytes,
            settling,
            extent,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ids: Mutex::default(),
            paths: Mutex::default(),
            linked: Mutex::default(),
        }
    }

    fn is_shallow(&self) -> bool {
        matches!(self.extent, Extent::Names)
    }

    pub(super) fn sample(&self) -> Option<&Sample> {
        if let Extent::Sample(sample) = &self.extent { Some(sample) } else { None }
    }

    pub(super) fn scrub(&self) -> Option<&Scrub> {
        if let Extent::Scrub(scrub) = &self.extent { Some(scrub) } else { None }
    }

    /// That a file will be looked at, where the next check has to know.
    pub(super) fn promise(&self, folder: &Folder, item: &Item) -> Option<Promise<'_>> {
        self.scrub().map(|scrub| scrub.promise(joined(&folder.stored, &item.stored)))
    }

    /// Opens a file; none when there is nothing more to verify of it, or no time
    /// for it.
    pub(super) fn begin<'v>(
        &'v self,
        folder: &Folder,
        item: &Item,
        mut promise: Option<Promise<'v>>,
    ) -> Option<Box<dyn Parts + 'v>> {
        let is_late = |scrub: &Scrub| !scrub.begins(&joined(&folder.stored, &item.stored));
        if self.scrub().is_some_and(is_late) {
            return None;
        }
        match self.open(folder, item, promise.as_mut()) {
            Some(verifying) => Some(Box::new(Verifying { promise: Mutex::new(promise), ..verifying })),
            None => {
                promise.into_iter().for_each(Promise::keep);
                None
            }
        }
    }

    fn open<'v>(
        &'v self,
        folder: &Folder,
        item: &Item,
        promise: Option<&mut Promise<'v>>,
    ) -> Option<Verifying<'v, 'a>> {
        let (path, stored) = match &item.name {
            Named::Plain(name) => (joined(&folder.plain, name), None),
            Named::Conflict { .. } => {
                let shown = item.name.shown().expect("its name is known");
                (joined(&folder.plain, &shown), Some(joined(&folder.stored, &item.stored)))
            }
            _ => (folder.plain.clone(), Some(joined(&folder.stored, &item.stored))),
        };
        let attributes = match item.node.attributes() {
            Ok(attributes) => attributes,
            Err(error) => {
                self.conflict(folder, item);
                self.findings.add(Finding::new(&path, &error.into()).stored(stored));
                return None;
            }
        };
        let is_first = attributes.links <= 1 || lock(&self.linked).insert(attributes.id);
        if is_first {
            self.files.fetch_add(1, Ordering::Relaxed);
            promise.into_iter().for_each(Promise::count);
            self.progress.done_file();
        }
        let opened = self.survey.open(item);
        let is_home = |fault: &Error| matches!(fault, Error::Damaged(Damage::Home));
        // What belongs elsewhere is no second version, and that is told below.
        if !opened.as_ref().is_ok_and(|opened| opened.fault.as_ref().is_some_and(is_home)) {
            self.conflict(folder, item);
        }
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) if error.is_unfinished() => {
                lock(&self.paths).insert(attributes.id, path);
                return None;
            }
            Err(error) => {
                self.findings.add(Finding::new(&path, &error).stored(stored));
                self.note(folder, item, None);
                return None;
            }
        };
        if opened.fault.as_ref().is_some_and(Error::is_unfinished) {
            lock(&self.paths).insert(attributes.id, path);
            opened.close();
            return None;
        }
        // A lost header page is told with the bytes that are lost by it.
        if let Some(fault) = &opened.fault
            && (opened.content.has_header() || self.is_shallow() || !is_first)
        {
            self.findings.add(Finding::new(&path, fault).stored(stored.clone()));
        }
        self.note(folder, item, Some(&opened));
        if !is_first {
            opened.close();
            return None;
        }
        if self.settling {
            lock(&self.paths).insert(attributes.id, path.clone());
        }
        let id = opened.content.id();
        // A second version has the same id.
        if !matches!(item.name, Named::Conflict { .. })
            && let Some(other) = self.note_id(id, &path)
        {
            self.findings.add(Finding::duplicate(&path, "file", &other).stored(stored.clone()));
            self.findings.note(Fact::DuplicateFile(id));
        }
        if opened.content.has_attributes() {
            self.attributes(&item.node, id.0, &path);
        }
        if self.is_shallow() {
            opened.close();
            return None;
        }
        self.examine(opened, path, stored)
    }

    fn examine<'v>(
        &'v self,
        opened: Opened,
        path: Vec<u8>,
        stored: Option<Vec<u8>>,
    ) -> Option<Verifying<'v, 'a>> {
        opened.content.read_once();
        let examination = match opened.content.examination() {
            Ok(examination) => examination,
            Err(error) => {
                opened.close();
                self.findings.add(Finding::new(&path, &error).stored(stored));
                return None;
            }
        };
        let groups = match self.sample() {
            Some(sample) if opened.content.has_header() => sample.draw(examination.groups()),
            // What is lost with the header page is told with its group.
            Some(sample) => sample.take_all(examination.groups()),
            None => examination.groups().to_vec(),
        };
        Some(Verifying {
            verifier: self,
            content: std::sync::Arc::clone(&opened.content),
            groups,
            opened: Mutex::new(Some(opened)),
            examination: Mutex::new(Some(examination)),
            examined: Mutex::default(),
            promise: Mutex::default(),
            path,
            stored,
        })
    }

    /// Tells of a second version that a synchronisation program has left.
    pub(super) fn conflict(&self, folder: &Folder, item: &Item) {
        if let (Named::Conflict { of, .. }, Some(shown)) = (&item.name, item.name.shown()) {
            let stored = joined(&folder.stored, &item.stored);
            self.findings.add(Finding::conflict(&joined(&folder.plain, of), &stored, &shown));
        }
    }

    /// Notes where a file's id was seen; where it was seen before, if it was.
    pub(super) fn note_id(&self, id: FileId, path: &[u8]) -> Option<Vec<u8>> {
        lock(&self.ids).insert(id, path.to_vec())
    }

    /// Notes what a repair may want to know.
    fn note(&self, folder: &Folder, item: &Item, opened: Option<&Opened>) {
        let is_home = |fault: &Error| matches!(fault, Error::Damaged(Damage::Home));
        let misplaced = opened.and_then(|opened| opened.fault.as_ref()).is_some_and(is_home);
        let lost = matches!(item.name, Named::Lost(_));
        if misplaced || lost {
            let content = opened.map(|opened| &opened.content);
            self.findings.note(Fact::Misplaced(Misplaced {
                folder: folder.clone(),
                item: item.clone(),
                file: content.map(|content| content.id()),
                directory: content.map(|content| content.directory()).filter(|id| !id.is_zero()),
                home: content.map_or([0; 16], |content| content.home()),
                placeholder: content.map_or_else(
                    || placeholder(&item.node),
                    |content| format!("#{}", content.id()).into_bytes(),
                ),
                is_linked: content.is_some_and(|content| content.is_linked()),
                is_whole: opened.is_some_and(|opened| opened.fault.as_ref().is_none_or(is_home)),
            }));
        }
    }

    /// Opens every extended attribute of an inode.
    pub(super) fn attributes(&self, node: &NodeRef, id: [u8; 16], path: &[u8]) {
        match self.survey.attributes(node, id) {
            Ok(found) => {
                let faults = found.into_iter().filter_map(|attribute| attribute.value.err());
                faults.for_each(|error| self.findings.add(Finding::new(path, &error)));
            }
            Err(error) => self.findings.add(Finding::new(path, &error)),
        }
    }

    /// Files verified.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Plain bytes opened.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What recovery made of files, by path.
    pub(super) fn recovered(&self, recovered: &BTreeMap<InodeId, Recovered>) -> Vec<Recovery> {
        let paths = lock(&self.paths);
        let known = recovered.iter().filter_map(|(inode, what)| Some((paths.get(inode)?, what)));
        let mut list: Vec<Recovery> = known
            .map(|(path, what)| Recovery {
                path: String::from_utf8_lossy(path).into_owned(),
                action: match what {
                    Recovered::Replayed => "replayed from the journal",
                    Recovered::Removed => "never synced: the next mount removes it",
                    Recovered::Trimmed => "cut to what was synced",
                    Recovered::Newer => "newer than the journal, which somebody has put back",
                },
            })
            .collect();
        list.sort_by(|a, b| a.path.cmp(&b.path));
        list
    }

    /// The plain path of a file, by the number of its stored inode.
    pub(super) fn path_of(&self, inode: u64) -> Option<Vec<u8>> {
        lock(&self.paths).iter().find(|(id, _)| id.inode == inode).map(|(_, path)| path.clone())
    }
}

impl Verifying<'_, '_> {
    fn finding(&self, error: &Error) -> Finding {
        Finding::new(&self.path, error).stored(self.stored.clone())
    }
}

impl Parts for Verifying<'_, '_> {
    fn count(&self) -> usize {
        parts_of(&self.groups, self.verifier.block_bytes)
    }

    fn run(&self, part: usize, scratch: &mut Buffer) {
        let verifier = self.verifier;
        let mut sink = |_: u64, bytes: &[u8]| {
            verifier.progress.done(bytes.len() as u64);
            !verifier.interrupt.is_asked()
        };
        if verifier.interrupt.is_asked() {
            return;
        }
        match self.content.examine(groups_of(&self.groups, verifier.block_bytes, part), scratch, &mut sink) {
            Ok(examined) => lock(&self.examined).add(examined),
            Err(error) => verifier.findings.add(self.finding(&error)),
        }
    }

    fn finish(&self) {
        let examined = std::mem::take(&mut *lock(&self.examined));
        self.verifier.bytes.fetch_add(examined.bytes, Ordering::Relaxed);
        let examination = lock(&self.examination).take().expect("a file is finished once");
        let promise = lock(&self.promise).take();
        let mut losses = if self.verifier.interrupt.is_asked() {
            // Of what was not looked at nothing is said.
            examined.losses
        } else {
            promise.into_iter().for_each(Promise::keep);
            Content::conclude(examination, examined)
        };
        losses.sort_by_key(|loss| loss.range.as_ref().map_or(0, |range| range.start));
        for loss in losses {
            let error = Error::Damaged(loss.damage);
            self.verifier.findings.add(self.finding(&error).range(loss.range));
        }
        if let Some(opened) = lock(&self.opened).take() {
            opened.close();
        }
    }
}
