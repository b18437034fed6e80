//! Comparing a whole tree with what is recorded, or taking it as it is.
//!
//! The tree is walked through the namespace, by plain names. What cannot be
//! listed or opened for another reason is left to `check`.

use std::collections::{BTreeMap, HashSet};

use strongroom_format::freshness::Object;
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::Kind;

use crate::error::{Damage, Error, Result, Staleness};
use crate::freshness::Freshness;
use crate::namespace::survey::{DEPTH_MAX, TOO_DEEP};
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

/// A directory on the way down.
struct Level<'p> {
    number: u64,
    id: DirectoryId,
    /// Plain.
    path: Vec<u8>,
    scope: Scope<'p>,
    recorded: BTreeMap<Box<[u8]>, Object>,
    lenient: bool,
    /// In order.
    names: Vec<Vec<u8>>,
    /// The name that comes next.
    next: usize,
    /// A path was found that leads through here.
    found: bool,
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
        let mut levels = Vec::new();
        levels.extend(self.begin(number, path.to_vec(), scope)?);
        let outcome = self.levels(&mut levels, &mut report);
        // After an error the rest of the way down is still referred to.
        for level in levels.iter().skip(1) {
            self.namespace.forget(level.number, 1);
        }
        outcome
    }

    /// Walks until no level is left, and says of the first what
    /// [`Walk::directory`] does.
    fn levels<'p>(&mut self, levels: &mut Vec<Level<'p>>, report: &mut Option<Report<'_>>) -> Result<bool> {
        while let Some(level) = levels.last_mut() {
            if level.next == level.names.len() {
                self.missing(level, report);
                let done = levels.pop().expect("it is the last");
                match levels.last_mut() {
                    Some(above) => {
                        above.found |= done.found;
                        self.namespace.forget(done.number, 1);
                    }
                    None => return Ok(done.found),
                }
                continue;
            }
            let at = level.next;
            level.next += 1;
            if let Some(below) = self.step(levels, at, report)? {
                levels.push(below);
            }
        }
        Ok(false)
    }

    /// One entry of the last level; the level below when it is a directory to
    /// be walked, whose inode then stays referred to.
    fn step<'p>(
        &mut self,
        levels: &mut [Level<'p>],
        at: usize,
        report: &mut Option<Report<'_>>,
    ) -> Result<Option<Level<'p>>> {
        let (level, above) = levels.split_last_mut().expect("there is a last");
        let name = &level.names[at];
        let below = below(level.scope, name);
        let plain = joined(&level.path, name);
        let entry = match self.namespace.lookup(level.number, name) {
            Ok(entry) => entry,
            Err(Error::Damaged(Damage::Stale(what))) => {
                tell(report, &plain, what);
                return Ok(None);
            }
            Err(Error::Damaged(_)) => return Ok(None),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let settles = report.is_none() && level.lenient && matches!(level.scope, Scope::Nothing);
        let takes = settles || matches!(below, Some(Scope::Everything));
        let is_news = !level.recorded.contains_key(&name[..]);
        let number = entry.number;
        let next = self.entry(level.id, name, &plain, &entry, takes, report).and_then(|()| {
            let scope = match below {
                _ if entry.attributes.kind != Kind::Directory => None,
                Some(scope) => Some(scope),
                None if settles && is_news => Some(Scope::Everything),
                None if matches!(level.scope, Scope::Along(_)) => None,
                None => Some(Scope::Nothing),
            };
            let is_directory = entry.attributes.kind == Kind::Directory;
            level.found |= takes && (!is_directory || scope.is_some());
            let Some(scope) = scope else { return Ok(None) };
            if above.len() + 1 >= DEPTH_MAX {
                return Err(Error::Damaged(Damage::Name(TOO_DEEP)));
            }
            let next = self.begin(number, plain, scope)?;
            // A copy of a directory in itself differs from what is recorded
            // under its name, which was told, and has no end.
            let is_above = |id| id == level.id || above.iter().any(|level| level.id == id);
            Ok(next.filter(|next| !is_above(next.id)))
        });
        if !matches!(next, Ok(Some(_))) {
            self.namespace.forget(number, 1);
        }
        next
    }

    /// A directory with its names; none where it does not open.
    fn begin<'p>(&mut self, number: u64, path: Vec<u8>, scope: Scope<'p>) -> Result<Option<Level<'p>>> {
        let Some((id, names)) = self.listing(number)? else { return Ok(None) };
        self.visited.insert(id);
        let recorded = self.freshness.entries(id);
        let lenient = self.freshness.is_lenient(id);
        Ok(Some(Level { number, id, path, scope, recorded, lenient, names, next: 0, found: false }))
    }

    /// What is recorded of a directory and not there.
    fn missing(&mut self, level: &mut Level<'_>, report: &mut Option<Report<'_>>) {
        let Level { id, path, scope, recorded, lenient, names, found, .. } = level;
        let is_there = |name: &[u8]| names.binary_search_by(|listed| listed[..].cmp(name)).is_ok();
        for name in recorded.keys().filter(|name| !is_there(name)) {
            let settles = *lenient && matches!(scope, Scope::Nothing);
            if report.is_some() {
                if !*lenient && !self.freshness.may_be_gone(*id, name, recorded[name]) {
                    tell(report, &joined(path, name), Staleness::Missing);
                }
            } else if settles || matches!(below(*scope, name), Some(Scope::Everything)) {
                self.freshness.clear_entry(*id, name);
                self.taken += 1;
                *found = true;
            }
        }
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
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => {
                self.namespace.special_object(entry.number)?
            }
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
