//! Reading all that a vault shows, in the two ways that there are: by names, as
//! a mount does, and over the stored tree, as `check` does.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::Kind;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::survey::{Folder, Item, Named, Sort, SpecialItem, Survey};
use strongroom_vault::namespace::{Entry, Opening, ROOT};
use strongroom_vault::{Error, Vault};

use super::bytes::Bytes;

/// Directories within one another that are followed: a composition may put a
/// directory into itself.
const DEPTH: usize = 12;

/// A name in a directory, by what cannot be moved: the directory's id.
pub(crate) type Place = (DirectoryId, Vec<u8>);

/// A content, by its hash.
pub(crate) type Digest = u64;

/// What stands at a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    File(FileId, Digest),
    Symlink(Vec<u8>),
    Special(u8, u64),
    Directory(DirectoryId),
}

/// What carries extended attributes.
pub(crate) type Owner = [u8; 16];

/// Something that was read without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) place: Place,
    pub(crate) what: What,
    /// The file says that it has had several names.
    pub(crate) linked: bool,
    /// Every directory on the way has its name and its record.
    pub(crate) reached: bool,
}

/// All that was read.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) sightings: Vec<Sighting>,
    pub(crate) attributes: Vec<(Owner, Vec<u8>, Vec<u8>)>,
    /// What was there and gave an error.
    pub(crate) refused: u64,
    /// The errors of files, for a message.
    pub(crate) errors: Vec<(Vec<u8>, String)>,
}

impl Seen {
    /// The files that can be reached, in an order that can be compared.
    pub(crate) fn files(&self) -> Vec<(&Place, &What)> {
        let is_file = |seen: &&Sighting| seen.reached && matches!(seen.what, What::File(..));
        let files = self.sightings.iter().filter(is_file);
        let mut files: Vec<_> = files.map(|seen| (&seen.place, &seen.what)).collect();
        files.sort_by(|a, b| a.0.0.0.cmp(&b.0.0.0).then_with(|| a.0.1.cmp(&b.0.1)));
        files
    }
}

/// The hash of a content.
fn digest(bytes: &Bytes) -> Digest {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn number_of(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
        Kind::Fifo => 3,
        Kind::Socket => 4,
        Kind::BlockDevice => 5,
        Kind::CharacterDevice => 6,
    }
}

/// What an error means for a reading: refused, or a fault of the harness's own
/// store, which has none.
fn refused(error: &Error) -> Result<u64, String> {
    match error {
        Error::Damaged(_) | Error::Refused(_) | Error::Store(_) => Ok(1),
        other => Err(format!("{other}, which no attack explains")),
    }
}

/// Reads by names. `hold` keeps every file open until the end, so that a
/// stored file that stands under two names is met while it is open.
pub(crate) fn by_names(vault: &Vault, size: u64, hold: bool) -> Result<Seen, String> {
    let mut walk = Names {
        vault,
        survey: vault.namespace().survey(),
        size,
        hold,
        held: Vec::new(),
        above: Vec::new(),
        seen: Seen::default(),
    };
    let top = walk.survey.top();
    let id = top.id.expect("the top directory has an id");
    walk.attributes(ROOT, id.0);
    walk.directory(ROOT, &top)?;
    for (number, content) in std::mem::take(&mut walk.held) {
        drop(content);
        vault.namespace().release(number);
        vault.namespace().forget(number, 1);
    }
    Ok(walk.seen)
}

struct Names<'a> {
    vault: &'a Vault,
    survey: Survey<'a>,
    size: u64,
    hold: bool,
    held: Vec<(u64, Arc<Content>)>,
    /// The directories that the walk stands in.
    above: Vec<Option<DirectoryId>>,
    seen: Seen,
}

impl Names<'_> {
    fn refuse(&mut self, error: &Error) -> Result<(), String> {
        self.seen.refused += refused(error)?;
        Ok(())
    }

    fn directory(&mut self, number: u64, folder: &Folder) -> Result<(), String> {
        let names = self.vault.namespace();
        let mut listed = Vec::new();
        let listing = names.open_directory(number).and_then(|directory| {
            names.read_directory(&directory, 2, &mut |item| {
                listed.push(item.name.to_vec());
                true
            })
        });
        if let Err(error) = listing {
            return self.refuse(&error);
        }
        listed.sort_unstable();
        for name in listed {
            match names.lookup(number, &name) {
                Ok(entry) => self.entry(&entry, folder, name)?,
                Err(error) => self.refuse(&error)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, folder: &Folder, name: Vec<u8>) -> Result<(), String> {
        let names = self.vault.namespace();
        let id = folder.id.ok_or("a directory opens whose record does not")?;
        let place = (id, name);
        match entry.attributes.kind {
            Kind::File => return self.file(entry.number, place),
            Kind::Directory => self.enter(entry.number, folder, place)?,
            Kind::Symlink => match names.read_link(entry.number) {
                Ok(target) => {
                    let linked = self.is_linked(folder, &place.1);
                    self.sight(place, What::Symlink(target), linked);
                }
                Err(error) => self.refuse(&error)?,
            },
            kind => {
                let linked = self.is_linked(folder, &place.1);
                self.sight(place, What::Special(number_of(kind), entry.attributes.device), linked);
            }
        }
        names.forget(entry.number, 1);
        Ok(())
    }

    /// Whether a special record says that it has had several names.
    fn is_linked(&self, folder: &Folder, name: &[u8]) -> bool {
        let item = self.survey.find(folder, name);
        matches!(item.map(|item| item.sort), Ok(Sort::Special(special)) if special.is_linked())
    }

    fn sight(&mut self, place: Place, what: What, linked: bool) {
        self.seen.sightings.push(Sighting { place, what, linked, reached: true });
    }

    fn enter(&mut self, number: u64, folder: &Folder, place: Place) -> Result<(), String> {
        let below = self.survey.find(folder, &place.1).and_then(|item| self.survey.enter(folder, &item));
        let below = match below {
            Ok(below) if below.fault.is_none() => below,
            Ok(_) => {
                self.seen.refused += 1;
                return Ok(());
            }
            Err(error) => return self.refuse(&error),
        };
        let Some(id) = below.id else { return Ok(()) };
        self.sight(place, What::Directory(id), false);
        self.above.push(folder.id);
        // Neither `check` follows a copy of a directory into itself.
        let stops = self.above.len() > DEPTH || below.stops_walk(self.above.iter().copied()).is_some();
        if !stops {
            self.attributes(number, id.0);
            self.directory(number, &below)?;
        }
        self.above.pop();
        Ok(())
    }

    fn file(&mut self, number: u64, place: Place) -> Result<(), String> {
        let names = self.vault.namespace();
        let content = match names.open(number, Opening::default()) {
            Ok(content) => content,
            Err(error) => {
                names.forget(number, 1);
                self.seen.errors.push((place.1, error.to_string()));
                return self.refuse(&error);
            }
        };
        match Bytes::read(&content, self.size) {
            Ok(bytes) => self.sight(place, What::File(content.id(), digest(&bytes)), content.is_linked()),
            Err(error) => {
                self.seen.refused += 1;
                self.seen.errors.push((place.1, error));
            }
        }
        if content.has_attributes() {
            self.attributes(number, content.id().0);
        }
        if self.hold {
            self.held.push((number, content));
        } else {
            drop(content);
            names.release(number);
            names.forget(number, 1);
        }
        Ok(())
    }

    fn attributes(&mut self, number: u64, owner: Owner) {
        let names = self.vault.namespace();
        let Ok(listed) = names.xattr_names(number) else {
            self.seen.refused += 1;
            return;
        };
        for name in listed {
            match names.xattr(number, &name) {
                Ok(value) => self.seen.attributes.push((owner, name, value)),
                Err(_) => self.seen.refused += 1,
            }
        }
    }
}

/// What a special record is by the survey, and whether it has had several
/// names; none where its target does not open.
fn special_of(survey: &Survey<'_>, item: &Item, special: &SpecialItem) -> Option<(What, bool)> {
    let what = match special.kind() {
        Kind::Symlink => What::Symlink(survey.target(special).ok()?),
        kind => What::Special(number_of(kind), special.plain(&item.node.attributes().ok()?).device),
    };
    Some((what, special.is_linked()))
}

/// Reads what `check` calls sound.
pub(crate) fn by_check(vault: &Vault, size: u64) -> Result<Seen, String> {
    let mut check = Check { survey: vault.namespace().survey(), size, seen: Seen::default() };
    let top = check.survey.top();
    check.folder(&top, true, &mut Vec::new())?;
    Ok(check.seen)
}

struct Check<'a> {
    survey: Survey<'a>,
    size: u64,
    seen: Seen,
}

impl Check<'_> {
    fn folder(
        &mut self,
        folder: &Folder,
        reached: bool,
        above: &mut Vec<Option<DirectoryId>>,
    ) -> Result<(), String> {
        let listing = self.survey.list(folder).map_err(|error| format!("check, listing: {error}"))?;
        self.seen.refused += (listing.orphans.len() + listing.failed.len()) as u64;
        for listed in listing.entries {
            let looked =
                self.survey.look(folder, listed).map_err(|error| format!("check, looking: {error}"))?;
            if let Some(item) = looked {
                self.item(folder, &item, reached, above)?;
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        folder: &Folder,
        item: &Item,
        reached: bool,
        above: &mut Vec<Option<DirectoryId>>,
    ) -> Result<(), String> {
        let place = match (&item.name, folder.id, folder.fault) {
            (Named::Plain(name), Some(id), None) => Some((id, name.clone())),
            _ => None,
        };
        let what = match &item.sort {
            Sort::File => self.file(item)?,
            Sort::Directory => return self.enter(folder, item, (place, reached), above),
            Sort::Special(special) if special.is_misplaced => None,
            Sort::Special(special) => special_of(&self.survey, item, special),
            Sort::Broken(_) | Sort::Foreign => None,
        };
        match (place, what) {
            (Some(place), Some((what, linked))) => {
                self.seen.sightings.push(Sighting { place, what, linked, reached });
            }
            _ => self.seen.refused += 1,
        }
        Ok(())
    }

    fn enter(
        &mut self,
        folder: &Folder,
        item: &Item,
        (place, reached): (Option<Place>, bool),
        above: &mut Vec<Option<DirectoryId>>,
    ) -> Result<(), String> {
        let below = self.survey.enter(folder, item).map_err(|error| format!("check, entering: {error}"))?;
        let mut is_reached = false;
        match (place, below.id, below.fault) {
            (Some(place), Some(id), None) => {
                is_reached = reached;
                let what = What::Directory(id);
                self.seen.sightings.push(Sighting { place, what, linked: false, reached });
            }
            _ => self.seen.refused += 1,
        }
        above.push(folder.id);
        let stops = above.len() > DEPTH || below.stops_walk(above.iter().copied()).is_some();
        let walked = if stops { Ok(()) } else { self.folder(&below, is_reached, above) };
        above.pop();
        walked
    }

    /// A file in which `check` finds nothing.
    fn file(&mut self, item: &Item) -> Result<Option<(What, bool)>, String> {
        let opened = match self.survey.open(item) {
            Ok(opened) => opened,
            Err(error) => return refused(&error).map(|_| None),
        };
        let content = Arc::clone(&opened.content);
        let mut bytes = Bytes::empty(self.size);
        bytes.set_len(content.plain_len());
        let mut sink = |offset: u64, data: &[u8]| {
            bytes.write(offset, data);
            true
        };
        let failed = |error: Error| format!("check, examining: {error}");
        let examination = content.examination().map_err(failed)?;
        let examined =
            content.examine(examination.groups(), &mut Buffer::empty(), &mut sink).map_err(failed)?;
        let losses = Content::conclude(examination, examined);
        let sound = opened.fault.is_none() && losses.is_empty();
        let found = sound.then(|| (What::File(content.id(), digest(&bytes)), content.is_linked()));
        drop(content);
        opened.close();
        Ok(found)
    }
}
