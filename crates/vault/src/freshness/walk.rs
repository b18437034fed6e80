//! Comparing a whole tree with what is recorded, or taking it as it is.
//!
//! The tree is walked through the namespace, by plain names. What cannot be
//! listed or opened for another reason is left to `check`.

use std::collections::HashSet;

use strongroom_format::freshness::{Object, Special};
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::Kind;

use super::Freshness;
use crate::error::{Damage, Error, Result, Staleness};
use crate::namespace::{Entry, Namespace, Opening, ROOT};

/// Told of the plain path of what differs, and how.
type Report<'r> = &'r mut dyn FnMut(&[u8], Staleness);

/// What is done where the tree differs.
pub(crate) enum Deed<'a> {
    /// It is reported by its plain path.
    Report(Report<'a>),
    /// The entries of directories that a crash left unsettled are taken.
    Settle,
    /// Everything is taken.
    AcceptAll,
    /// The entry at this plain path is taken, with what is below it.
    Accept(Vec<Vec<u8>>),
}

/// How far a directory is taken as it is.
#[derive(Clone, Copy)]
enum Scope<'p> {
    /// Not at all, unless the directory is lenient.
    Nothing,
    /// With everything below it.
    Everything,
    /// What this path leads to, from this directory on.
    Along(&'p [Vec<u8>]),
}

/// One walk over the tree.
pub(crate) struct Walk<'a> {
    namespace: &'a Namespace,
    freshness: &'a Freshness,
    /// Directories that were listed.
    visited: HashSet<DirectoryId>,
    /// Records that were changed.
    pub(crate) taken: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(namespace: &'a Namespace, freshness: &'a Freshness) -> Walk<'a> {
        Walk { namespace, freshness, visited: HashSet::new(), taken: 0 }
    }

    /// Walks the tree.
    ///
    /// # Errors
    /// What a store reported; `ENOENT` for a path to be accepted that neither
    /// the tree nor the record has.
    pub(crate) fn run(&mut self, deed: Deed<'_>) -> Result<()> {
        match deed {
            Deed::Report(report) => self.directory(ROOT, b"", Scope::Nothing, Some(report)).map(drop),
            Deed::Settle => self.directory(ROOT, b"", Scope::Nothing, None).map(drop),
            Deed::AcceptAll => {
                self.directory(ROOT, b"", Scope::Everything, None)?;
                self.freshness.retain_directories(&self.visited);
                Ok(())
            }
            Deed::Accept(path) => match self.directory(ROOT, b"", Scope::Along(&path), None)? {
                true => Ok(()),
                false => Err(Error::Refused(crate::error::errno::ENOENT)),
            },
        }
    }

    /// One directory and what is below it. True when a path was found that
    /// leads through here.
    fn directory(
        &mut self,
        number: u64,
        path: &[u8],
        scope: Scope<'_>,
        mut report: Option<Report<'_>>,
    ) -> Result<bool> {
        let Some((id, names)) = self.listing(number)? else { return Ok(false) };
        self.visited.insert(id);
        let recorded = self.freshness.entries(id);
        let lenient = self.freshness.is_lenient(id);
        let mut found = false;
        for name in &names {
            let below = below(scope, name);
            let plain = joined(path, name);
            let entry = match self.namespace.lookup(number, name) {
                Ok(entry) => entry,
                Err(Error::Damaged(Damage::Stale(what))) => {
                    tell(&mut report, &plain, what);
                    continue;
                }
                Err(Error::Damaged(_)) => continue,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            let settles = report.is_none() && lenient && matches!(scope, Scope::Nothing);
            let takes = settles || matches!(below, Some(Scope::Everything));
            let is_news = !recorded.contains_key(&name[..]);
            let visited = self.entry(id, name, &plain, &entry, takes, &mut report).and_then(|()| {
                if entry.attributes.kind != Kind::Directory {
                    return Ok(takes);
                }
                let scope = match below {
                    Some(scope) => scope,
                    None if settles && is_news => Scope::Everything,
                    None if matches!(scope, Scope::Along(_)) => return Ok(false),
                    None => Scope::Nothing,
                };
                let report = report.as_mut().map(|report| &mut **report as _);
                Ok(self.directory(entry.number, &plain, scope, report)? || takes)
            });
            self.namespace.forget(entry.number, 1);
            found |= visited?;
        }
        for name in
            recorded.keys().filter(|name| names.binary_search_by(|listed| listed[..].cmp(name)).is_err())
        {
            let settles = lenient && matches!(scope, Scope::Nothing);
            if report.is_some() {
                if !lenient && !self.freshness.may_be_gone(id, name, recorded[name]) {
                    tell(&mut report, &joined(path, name), Staleness::Missing);
                }
            } else if settles || matches!(below(scope, name), Some(Scope::Everything)) {
                self.freshness.clear_entry(id, name);
                self.taken += 1;
                found = true;
            }
        }
        Ok(found)
    }

    /// A directory's id and its names in order; none where its record or the
    /// directory itself does not open.
    fn listing(&self, number: u64) -> Result<Option<(DirectoryId, Vec<Vec<u8>>)>> {
        let listed = self.namespace.directory_record(number).and_then(|id| {
            let mut names = Vec::new();
            let directory = self.namespace.open_directory(number)?;
            self.namespace.read_directory(&directory, 2, &mut |item| {
                names.push(item.name.to_vec());
                true
            })?;
            names.sort_unstable();
            Ok((id, names))
        });
        match listed {
            Ok(listed) => Ok(Some(listed)),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Compares one entry, or takes it.
    fn entry(
        &mut self,
        directory: DirectoryId,
        name: &[u8],
        plain: &[u8],
        entry: &Entry,
        takes: bool,
        report: &mut Option<Report<'_>>,
    ) -> Result<()> {
        let object = match self.object(entry, takes) {
            Ok(object) => object,
            Err(Error::Damaged(Damage::Stale(what))) => {
                tell(report, plain, what);
                return Ok(());
            }
            Err(Error::Damaged(_)) if takes => Object::Unknown,
            Err(Error::Damaged(_)) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if takes {
            self.taken += u64::from(self.freshness.entries_differ(directory, name, object));
            self.freshness.set_entry(directory, name, object);
        } else if let Err(Error::Damaged(Damage::Stale(what))) =
            self.freshness.check_entry(directory, name, object)
        {
            tell(report, plain, what);
        }
        Ok(())
    }

    /// What an entry leads to. Opening a file compares its version, and taking
    /// it takes that.
    fn object(&mut self, entry: &Entry, takes: bool) -> Result<Object> {
        Ok(match entry.attributes.kind {
            Kind::File => Object::File(self.file(entry.number, takes)?),
            Kind::Directory => Object::Directory(self.namespace.directory_record(entry.number)?),
            Kind::Symlink => self.freshness.symlink(&self.namespace.stored_target(entry.number)?),
            Kind::Fifo => Object::Special(Special::Fifo),
            Kind::Socket => Object::Special(Special::Socket),
            Kind::BlockDevice => Object::Special(Special::BlockDevice),
            Kind::CharacterDevice => Object::Special(Special::CharacterDevice),
        })
    }

    fn file(&mut self, number: u64, takes: bool) -> Result<FileId> {
        let content = self.namespace.open(number, Opening::default())?;
        let id = content.id();
        if takes && let Some(version) = content.durable_version() {
            self.taken += u64::from(self.freshness.take_version(id, version));
        }
        drop(content);
        self.namespace.release(number);
        Ok(id)
    }
}

/// The scope of what `name` leads to; none where the path leads elsewhere, or
/// there is none.
fn below<'p>(scope: Scope<'p>, name: &[u8]) -> Option<Scope<'p>> {
    match scope {
        Scope::Everything => Some(Scope::Everything),
        Scope::Along([last]) if last == name => Some(Scope::Everything),
        Scope::Along([first, rest @ ..]) if first == name => Some(Scope::Along(rest)),
        Scope::Along(_) | Scope::Nothing => None,
    }
}

fn tell(report: &mut Option<Report<'_>>, path: &[u8], what: Staleness) {
    if let Some(report) = report {
        report(path, what);
    }
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
