//! Copying files, on many threads, several of them one large file.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, retry_on_intr};
use strongroom_engine::Buffer;
use strongroom_store::{Attributes, NodeRef};
use strongroom_units::GroupIndex;
use strongroom_vault::Error;
use strongroom_vault::content::{Content, Examination, Examined};
use strongroom_vault::namespace::survey::{Item, Opened, Survey};

use super::losses::Losses;
use super::target::{Directory, Xattr, give_open, give_times};
use crate::commands::check::findings::Finding;
use crate::progress::Progress;
use crate::tree::{Interrupt, Parts, groups_of, parts_of};

/// Shared by all threads that copy.
pub(super) struct Copier<'a> {
    pub(super) survey: Survey<'a>,
    pub(super) losses: &'a Arc<Losses>,
    pub(super) progress: &'a Progress,
    pub(super) interrupt: &'a Interrupt,
    block_bytes: u64,
    resume: bool,
    files: AtomicU64,
    skipped: AtomicU64,
    bytes: AtomicU64,
}

/// Where a file goes.
pub(super) struct Place {
    pub(super) directory: Arc<Directory>,
    pub(super) name: Vec<u8>,
    /// Plain path from the destination's top.
    pub(super) path: Vec<u8>,
}

/// A file that is being copied.
struct Copying<'c, 'a> {
    copier: &'c Copier<'a>,
    place: Place,
    target: OwnedFd,
    attributes: Attributes,
    xattrs: Vec<Xattr>,
    content: Arc<Content>,
    opened: Mutex<Option<Opened>>,
    groups: Vec<GroupIndex>,
    examination: Mutex<Option<Examination>>,
    examined: Mutex<Examined>,
    /// What is wrong with the file besides its contents.
    faults: Mutex<Vec<Finding>>,
    failed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        survey: Survey<'a>,
        losses: &'a Arc<Losses>,
        progress: &'a Progress,
        interrupt: &'a Interrupt,
        block_bytes: u64,
        resume: bool,
    ) -> Copier<'a> {
        let (files, skipped, bytes) = Default::default();
        Copier { survey, losses, progress, interrupt, block_bytes, resume, files, skipped, bytes }
    }

    /// Files copied, whole or in parts.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Files that an earlier run had copied.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Plain bytes copied.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Opens a file and creates its copy; none when there is nothing to copy.
    pub(super) fn begin<'c>(&'c self, item: &Item, place: Place) -> Option<Box<dyn Parts + 'c>> {
        let attributes = match item.node.attributes() {
            Ok(attributes) => attributes,
            Err(error) => return self.unreadable(&place, &error.into()),
        };
        let opened = match self.survey.open(item) {
            Ok(opened) => opened,
            // Nothing of it was ever promised, and nothing of it can be read.
            Err(error) if error.is_unfinished() => return None,
            Err(error) => return self.unreadable(&place, &error),
        };
        self.progress.done_file();
        if self.resume && place.directory.has(&place.name, opened.content.plain_len(), attributes.modified) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            self.losses.skipped(&place.path);
            opened.close();
            return None;
        }
        // A lost header page is told with the bytes that are lost by it.
        let fault = opened.fault.as_ref().filter(|_| opened.content.has_header());
        let mut faults: Vec<Finding> =
            fault.map(|fault| Finding::new(&place.path, fault)).into_iter().collect();
        let target = match place.directory.create(&place.name) {
            Ok(target) => target,
            Err(errno) => {
                opened.close();
                self.fail(&place.path, errno);
                return None;
            }
        };
        let xattrs = match opened.content.has_attributes() {
            true => self.xattrs(&item.node, opened.content.id().0, &place.path, &mut faults),
            false => Vec::new(),
        };
        opened.content.read_once();
        let examination = match opened.content.examination() {
            Ok(examination) => examination,
            Err(error) => {
                opened.close();
                return self.unreadable(&place, &error);
            }
        };
        Some(Box::new(Copying {
            copier: self,
            place,
            target,
            attributes,
            xattrs,
            content: Arc::clone(&opened.content),
            opened: Mutex::new(Some(opened)),
            groups: examination.groups().to_vec(),
            examination: Mutex::new(Some(examination)),
            examined: Mutex::default(),
            faults: Mutex::new(faults),
            failed: AtomicBool::new(false),
        }))
    }

    fn unreadable<'c>(&self, place: &Place, error: &Error) -> Option<Box<dyn Parts + 'c>> {
        self.losses.add(Finding::new(&place.path, error));
        None
    }

    /// The destination failed; ends everything when that is for good.
    pub(super) fn fail(&self, path: &[u8], errno: Errno) {
        if self.losses.failed(path, errno) {
            self.interrupt.ask();
        }
    }

    /// The extended attributes of an inode, as far as they open.
    pub(super) fn xattrs(
        &self,
        node: &NodeRef,
        id: [u8; 16],
        path: &[u8],
        faults: &mut Vec<Finding>,
    ) -> Vec<Xattr> {
        let found = match self.survey.attributes(node, id) {
            Ok(found) => found,
            Err(error) => {
                faults.push(Finding::new(path, &error));
                return Vec::new();
            }
        };
        let mut xattrs = Vec::new();
        for attribute in found {
            match (attribute.name, attribute.value) {
                (Some(name), Ok(value)) => xattrs.push((name, value)),
                (_, Err(error)) => faults.push(Finding::new(path, &error)),
                (None, Ok(_)) => {}
            }
        }
        xattrs
    }
}

impl Copying<'_, '_> {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match retry_on_intr(|| rustix::io::pwrite(&self.target, &bytes[done..], offset + done as u64))? {
                0 => return Err(Errno::IO),
                count => done += count,
            }
        }
        Ok(())
    }

    fn failed(&self, errno: Errno) {
        self.failed.store(true, Ordering::Relaxed);
        self.copier.fail(&self.place.path, errno);
    }

    fn is_ended(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.copier.interrupt.is_asked()
    }

    /// The copy is given what belongs to it; its time comes last, since that
    /// says that it is complete.
    fn complete(&self) -> Result<(), Errno> {
        let examined = std::mem::take(&mut *lock(&self.examined));
        let examination = lock(&self.examination).take().expect("a file is finished once");
        self.copier.bytes.fetch_add(examined.bytes, Ordering::Relaxed);
        let mut findings = std::mem::take(&mut *lock(&self.faults));
        for loss in Content::conclude(examination, examined) {
            let finding = Finding::new(&self.place.path, &Error::Damaged(loss.damage));
            findings.push(finding.range(loss.range));
        }
        retry_on_intr(|| rustix::fs::ftruncate(&self.target, self.content.plain_len()))?;
        give_open(&self.target, &self.attributes, &self.xattrs, &self.place.path, self.copier.losses);
        self.copier
            .losses
            .add_for_good(findings)
            .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
        give_times(&self.target, &self.attributes)
    }
}

impl Parts for Copying<'_, '_> {
    fn count(&self) -> usize {
        parts_of(&self.groups, self.copier.block_bytes)
    }

    fn run(&self, part: usize, scratch: &mut Buffer) {
        if self.is_ended() {
            return;
        }
        let mut sink = |offset: u64, bytes: &[u8]| {
            self.copier.progress.done(bytes.len() as u64);
            match self.write(bytes, offset) {
                Ok(()) => !self.is_ended(),
                Err(errno) => {
                    self.failed(errno);
                    false
                }
            }
        };
        let groups = groups_of(&self.groups, self.copier.block_bytes, part);
        match self.content.examine(groups, scratch, &mut sink) {
            Ok(examined) => lock(&self.examined).add(examined),
            Err(error) => {
                // The store could not be read: a resumed run tries again.
                self.failed.store(true, Ordering::Relaxed);
                self.copier.losses.add(Finding::new(&self.place.path, &error));
            }
        }
    }

    fn finish(&self) {
        if !self.is_ended() {
            self.copier.files.fetch_add(1, Ordering::Relaxed);
            if let Err(errno) = self.complete() {
                self.failed(errno);
            }
        }
        if let Some(opened) = lock(&self.opened).take() {
            opened.close();
        }
    }
}
