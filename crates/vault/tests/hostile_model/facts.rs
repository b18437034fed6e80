//! What a history has been, and the judgement over what an attacked vault
//! shows: a state that was there once, or a named weakness.

use std::collections::{BTreeMap, HashMap, HashSet};

use strongroom_format::vault::{DirectoryId, FileId};

use super::look::{Digest, Owner, Place, Seen, Sighting, What};

/// What an attack may achieve beside putting a whole state back, with the
/// reason: each is a row of the threat model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Weakness {
    /// What has had several names, and is no directory, opens under any.
    Linked,
    /// What was renamed may stand under the name before: a file until its next
    /// commit, a directory until the next barrier, a special record until it is
    /// renamed again; and an empty directory that was replaced in the place of
    /// the one that did. It was there, if never durably.
    BeforeRename,
    /// A whole state that a file had under this name, and that no barrier made
    /// durable: parts of it were stored all the same, and whoever keeps every
    /// write may put them together.
    NotDurable,
}

impl Weakness {
    pub(crate) const ALL: [Weakness; 3] = [Weakness::Linked, Weakness::BeforeRename, Weakness::NotDurable];
}

/// Everything that was true at some time of a history.
#[derive(Default)]
pub(crate) struct Facts {
    /// What stood at a place in a state of the store that a power cut could
    /// have left, as it was read from there.
    durable: HashSet<(Place, What)>,
    /// The contents that a file has had, as the running vault showed them.
    versions: HashMap<FileId, HashSet<Digest>>,
    /// The places where the running vault showed what.
    shown: HashSet<(Place, What)>,
    /// What files held when they were renamed, with the place before: what a
    /// commit has changed since is bound to the new one alone.
    before_rename: HashSet<(Place, FileId, Digest)>,
    targets: HashSet<Vec<u8>>,
    attributes: HashSet<(Owner, Vec<u8>, Vec<u8>)>,
}

impl Facts {
    /// Takes note of a file that has just been renamed from `before`.
    pub(crate) fn note_renamed(&mut self, before: Place, id: FileId, digest: Digest) {
        self.before_rename.insert((before, id, digest));
    }

    /// Takes note of a directory that is going to be replaced by the one at
    /// `place`, where a crash may leave it.
    pub(crate) fn note_exchanged(&mut self, place: Place, replaced: DirectoryId) {
        self.shown.insert((place, What::Directory(replaced)));
    }

    /// Takes note of what the running vault shows.
    pub(crate) fn note_shown(&mut self, seen: &Seen) {
        for sighting in &seen.sightings {
            self.shown.insert((sighting.place.clone(), sighting.what.clone()));
            match &sighting.what {
                What::File(id, digest) => {
                    self.versions.entry(*id).or_default().insert(*digest);
                }
                What::Symlink(target) => drop(self.targets.insert(target.clone())),
                What::Special(..) | What::Directory(_) => {}
            }
        }
        self.attributes.extend(seen.attributes.iter().cloned());
    }

    /// Takes note of what a state of the store shows that nobody has touched.
    ///
    /// # Errors
    /// When it shows what the running vault never did.
    pub(crate) fn note_durable(&mut self, seen: &Seen) -> Result<(), String> {
        for sighting in &seen.sightings {
            let fact = (sighting.place.clone(), sighting.what.clone());
            let known = match &sighting.what {
                What::File(id, digest) => self.versions.get(id).is_some_and(|had| had.contains(digest)),
                _ => self.shown.contains(&fact),
            };
            if !known {
                return Err(format!("a state that nobody touched shows {}", told(sighting)));
            }
            self.durable.insert(fact);
        }
        match seen.attributes.iter().find(|attribute| !self.attributes.contains(*attribute)) {
            Some((_, name, _)) => {
                Err(format!("an attribute {} that never was", String::from_utf8_lossy(name)))
            }
            None => Ok(()),
        }
    }

    /// Holds what an attacked vault shows against what was; counts weaknesses.
    ///
    /// # Errors
    /// What shows that never was.
    pub(crate) fn judge(&self, seen: &Seen, weak: &mut BTreeMap<Weakness, u64>) -> Result<(), String> {
        for sighting in &seen.sightings {
            if let Some(weakness) = self.weakness(sighting)? {
                *weak.entry(weakness).or_default() += 1;
            }
        }
        match seen.attributes.iter().find(|attribute| !self.attributes.contains(*attribute)) {
            Some((owner, name, _)) => {
                Err(format!("{owner:x?} has a {} that it never had", String::from_utf8_lossy(name)))
            }
            None => Ok(()),
        }
    }

    fn weakness(&self, sighting: &Sighting) -> Result<Option<Weakness>, String> {
        if self.durable.contains(&(sighting.place.clone(), sighting.what.clone())) {
            return Ok(None);
        }
        match &sighting.what {
            What::File(id, digest) => self.weakness_of_file(sighting, *id, *digest).map(Some),
            What::Symlink(target) if !self.targets.contains(target) => {
                Err(format!("a target that never was: {}", told(sighting)))
            }
            What::Symlink(_) | What::Special(..) if sighting.linked => Ok(Some(Weakness::Linked)),
            _ if self.shown.contains(&(sighting.place.clone(), sighting.what.clone())) => {
                Ok(Some(Weakness::BeforeRename))
            }
            _ => Err(format!("under a name that it did not have: {}", told(sighting))),
        }
    }

    fn weakness_of_file(&self, sighting: &Sighting, id: FileId, digest: Digest) -> Result<Weakness, String> {
        let Some(versions) = self.versions.get(&id) else {
            return Err(format!("a file that never was: {}", told(sighting)));
        };
        if !versions.contains(&digest) {
            return Err(format!("a content that the file never had: {}", told(sighting)));
        }
        if sighting.linked {
            return Ok(Weakness::Linked);
        }
        if self.before_rename.contains(&(sighting.place.clone(), id, digest)) {
            return Ok(Weakness::BeforeRename);
        }
        if self.shown.contains(&(sighting.place.clone(), sighting.what.clone())) {
            return Ok(Weakness::NotDurable);
        }
        Err(format!("a state under a name that it did not have: {}", told(sighting)))
    }
}

fn told(sighting: &Sighting) -> String {
    let name = String::from_utf8_lossy(&sighting.place.1);
    let name: String = name.chars().take(16).collect();
    let what = match &sighting.what {
        What::Symlink(target) => format!("a symlink of {} bytes", target.len()),
        other => format!("{other:x?}"),
    };
    format!("`{name}` in {:?} is {what}", sighting.place.0)
}
