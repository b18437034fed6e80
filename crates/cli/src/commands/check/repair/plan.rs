//! From what was seen to what is done about it. Nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_keys::VaultKeys;
use strongroom_store::Kind;
use strongroom_vault::namespace::NAME_MAX;
use strongroom_vault::namespace::repair::{LOST_FOUND, Repairer};
use strongroom_vault::namespace::survey::{Folder, Named, Survey, joined};

use super::StepReport;
use crate::commands::check::Subject;
use crate::commands::check::facts::{Adoptable, Fact, Misplaced};
use crate::failure::Result;
use crate::tree::open_read_only;

/// Room in a name for a dot and a number.
const NUMBER_ROOM: usize = 21;

/// One thing to do. They are done in the order of this list.
pub(super) enum Step {
    /// Write both copies of the header.
    Header,
    /// Write a directory's record again.
    Record { folder: Folder, id: DirectoryId },
    /// Write the side file of a long name again.
    LongName { folder: Folder, id: DirectoryId, name: Vec<u8> },
    /// Exchange two files, each of which is bound to the other's name.
    Exchange { one: Misplaced, other: Misplaced },
    /// Move an entry to the name that its stored name tells.
    MoveBack { entry: Misplaced, to: Folder, id: DirectoryId, name: Vec<u8> },
    /// Move what is not the vault's out of the tree.
    Foreign { folder: Folder, stored: Vec<u8> },
    /// Move an entry to the directory for what has no place.
    LostFound { entry: Misplaced, name: Vec<u8> },
    /// Bind a file to the name that it has.
    Bind { entry: Misplaced },
    /// Give an entry that a synchronisation program has left a name of its own.
    Adopt(Adoptable),
    /// Give a directory a new record; nothing stands in it any more.
    NewRecord { folder: Folder },
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Step {
    /// Before it is done.
    pub(super) fn report(&self) -> StepReport {
        let plain = |entry: &Misplaced| match &entry.item.name {
            Named::Plain(name) => joined(&entry.folder.plain, name),
            _ => entry.folder.plain.clone(),
        };
        let stored = |entry: &Misplaced| match &entry.item.name {
            Named::Plain(_) => None,
            _ => Some(joined(&entry.folder.stored, &entry.item.stored)),
        };
        let (action, path, stored, to) = match self {
            Step::Header => ("header", Vec::new(), None, None),
            Step::Record { folder, .. } => ("record", folder.plain.clone(), None, None),
            Step::NewRecord { folder } => ("new-record", folder.plain.clone(), None, None),
            Step::LongName { folder, name, .. } => {
                ("long-name", folder.plain.clone(), None, Some(joined(&folder.plain, name)))
            }
            Step::Exchange { one, other } => ("exchange", plain(one), None, Some(plain(other))),
            Step::MoveBack { entry, to, name, .. } => {
                ("move-back", plain(entry), stored(entry), Some(joined(&to.plain, name)))
            }
            Step::LostFound { entry, name } => {
                let to = joined(LOST_FOUND.as_bytes(), name);
                ("lost-found", plain(entry), stored(entry), Some(to))
            }
            Step::Foreign { folder, stored } => {
                ("foreign", folder.plain.clone(), Some(joined(&folder.stored, stored)), None)
            }
            Step::Bind { entry } => ("bind", plain(entry), None, None),
            Step::Adopt(entry) => (
                "adopt",
                entry.folder.plain.clone(),
                Some(joined(&entry.folder.stored, &entry.stored)),
                Some(joined(&entry.folder.plain, &entry.name)),
            ),
        };
        StepReport {
            action,
            path: text(&path),
            stored: stored.as_deref().map(text),
            to: to.as_deref().map(text),
            outcome: "planned",
            error: None,
        }
    }

    fn rank(&self) -> usize {
        match self {
            Step::Header => 0,
            Step::Record { .. } => 1,
            Step::LongName { .. } => 2,
            Step::Exchange { .. } => 3,
            Step::MoveBack { .. } => 4,
            Step::LostFound { .. } => 5,
            Step::Bind { .. } => 6,
            Step::NewRecord { .. } => 7,
            Step::Foreign { .. } => 8,
            Step::Adopt(_) => 9,
        }
    }
}

/// The facts in order.
#[derive(Default)]
struct Seen {
    folders: BTreeMap<DirectoryId, Folder>,
    duplicate_directories: BTreeSet<DirectoryId>,
    duplicate_files: BTreeSet<FileId>,
    lost: Vec<(Folder, usize)>,
    orphans: Vec<(Folder, Vec<u8>)>,
    misplaced: Vec<Misplaced>,
    foreign: Vec<(Folder, Vec<u8>)>,
    adoptable: Vec<Adoptable>,
}

impl Seen {
    fn new(facts: Vec<Fact>) -> Seen {
        let mut seen = Seen::default();
        for fact in facts {
            match fact {
                Fact::Folder(folder) => {
                    if let Some(id) = folder.id {
                        seen.folders.insert(id, folder);
                    }
                }
                Fact::DuplicateDirectory(id) => drop(seen.duplicate_directories.insert(id)),
                Fact::DuplicateFile(id) => drop(seen.duplicate_files.insert(id)),
                Fact::LostRecord { folder, entries } => seen.lost.push((folder, entries)),
                Fact::Orphan { folder, side } => seen.orphans.push((folder, side)),
                Fact::Misplaced(entry) => seen.misplaced.push(entry),
                Fact::Foreign { folder, stored } => seen.foreign.push((folder, stored)),
                Fact::Adoptable(entry) => seen.adoptable.push(entry),
            }
        }
        // What belongs under another name is not a second version of this one.
        let misplaced: BTreeSet<(&[u8], &[u8])> =
            seen.misplaced.iter().map(|entry| (&entry.folder.stored[..], &entry.item.stored[..])).collect();
        seen.adoptable.retain(|entry| !misplaced.contains(&(&entry.folder.stored[..], &entry.stored[..])));
        seen.misplaced
            .sort_by(|a, b| (&a.folder.stored, &a.item.stored).cmp(&(&b.folder.stored, &b.item.stored)));
        seen
    }

    /// The one directory with this id.
    fn folder(&self, id: DirectoryId) -> Option<&Folder> {
        self.folders.get(&id).filter(|_| !self.duplicate_directories.contains(&id))
    }
}

/// Makes the plan.
///
/// # Errors
/// What the store reports.
pub(super) fn plan(subject: &Subject, facts: Vec<Fact>) -> Result<Vec<Step>> {
    let vault = open_read_only(Arc::clone(&subject.store), &subject.header, subject.root.duplicate())?;
    let planner =
        Planner { survey: vault.namespace().survey(), repairer: repairer(subject), seen: Seen::new(facts) };
    let mut steps = Vec::new();
    if subject.has_damaged_copy() {
        steps.push(Step::Header);
    }
    planner.records(&mut steps);
    planner.entries(&mut steps)?;
    let foreign = planner.seen.foreign.iter();
    steps.extend(
        foreign.map(|(folder, stored)| Step::Foreign { folder: folder.clone(), stored: stored.clone() }),
    );
    steps.extend(planner.seen.adoptable.iter().cloned().map(Step::Adopt));
    steps.sort_by_key(Step::rank);
    Ok(steps)
}

/// What changes the vault's stored tree.
pub(super) fn repairer(subject: &Subject) -> Repairer {
    let header = &subject.header;
    let keys = VaultKeys::derive(&subject.root, header.vault);
    Repairer::new(Arc::clone(&subject.store), &keys, header.base32_names)
}

/// Whether a plain path is that of a directory for what has no place.
fn is_lost_found(path: &[u8]) -> bool {
    path.strip_prefix(LOST_FOUND.as_bytes())
        .is_some_and(|rest| rest.is_empty() || (rest[0] == b'.' && rest[1..].iter().all(u8::is_ascii_digit)))
}

fn lost_found(entry: &Misplaced, name: Vec<u8>) -> Step {
    let name = if entry.is_bound() { marked_name(&name, &entry.placeholder) } else { name };
    Step::LostFound { entry: entry.clone(), name }
}

/// The name under which a repair puts a file that it will bind, so that the
/// next one knows it if this one is cut: the file's id, behind the name that it
/// had if that is known.
fn marked_name(name: &[u8], placeholder: &[u8]) -> Vec<u8> {
    if name == placeholder {
        return placeholder.to_vec();
    }
    let room = NAME_MAX - placeholder.len() - 1 - NUMBER_ROOM;
    let mut kept = name.len().min(room);
    // Between two characters, if it is UTF-8.
    while kept < name.len() && kept > 0 && name[kept] & 0xC0 == 0x80 {
        kept -= 1;
    }
    [&name[..kept], b".", placeholder].concat()
}

/// Whether a repair may have given this name to the file of this placeholder.
fn is_marked(name: &[u8], placeholder: &[u8]) -> bool {
    let ends = |name: &[u8]| name == placeholder || name.ends_with(&[b".", placeholder].concat());
    let number = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let unnumbered = name[..name.len() - number].strip_suffix(b".").filter(|_| number > 0);
    ends(name) || unnumbered.is_some_and(ends)
}

struct Planner<'a> {
    survey: Survey<'a>,
    repairer: Repairer,
    seen: Seen,
}

impl Planner<'_> {
    fn records(&self, steps: &mut Vec<Step>) {
        for (folder, entries) in &self.seen.lost {
            match folder.id {
                Some(id) if self.seen.folder(id).is_some() && !self.would_forget(folder) => {
                    steps.push(Step::Record { folder: folder.clone(), id });
                }
                Some(_) => {}
                None => {
                    let movable = self
                        .seen
                        .misplaced
                        .iter()
                        .filter(|entry| entry.folder.stored == folder.stored && self.can_move(entry));
                    if movable.count() == *entries {
                        steps.push(Step::NewRecord { folder: folder.clone() });
                    }
                }
            }
        }
    }

    /// Whether a new record would forget the id under which the name of an entry
    /// opens that has to stay.
    fn would_forget(&self, folder: &Folder) -> bool {
        let is_other = |entry: &Misplaced| {
            entry.folder.stored == folder.stored
                && entry.item.directory.is_some_and(|id| folder.id != Some(id))
        };
        self.seen.misplaced.iter().any(|entry| is_other(entry) && !(entry.is_whole && self.can_move(entry)))
    }

    /// Whether an entry may be moved at all: not where that would touch a
    /// sound file of another name, nor bring a copy of a file into the tree.
    fn can_move(&self, entry: &Misplaced) -> bool {
        if entry.item.node.kind() != Kind::File {
            return true;
        }
        let is_copy = entry.file.is_some_and(|file| self.seen.duplicate_files.contains(&file));
        let is_shared = entry.item.node.attributes().is_ok_and(|attributes| attributes.links > 1);
        !is_copy && (!is_shared || entry.is_linked)
    }

    fn entries(&self, steps: &mut Vec<Step>) -> Result<()> {
        let mut exchanged = BTreeSet::new();
        for (index, entry) in self.seen.misplaced.iter().enumerate() {
            if exchanged.contains(&index) || !self.can_move(entry) {
                continue;
            }
            match &entry.item.name {
                Named::Lost(_) => steps.extend(self.nameless(entry)),
                Named::Plain(_) => match self.partner(index, entry) {
                    Some((partner, other)) => {
                        exchanged.insert(partner);
                        steps.push(Step::Exchange { one: entry.clone(), other: other.clone() });
                    }
                    None => steps.extend(self.not_of_its_name(entry)?),
                },
                Named::Conflict { .. } | Named::Foreign(_) => {}
            }
        }
        Ok(())
    }

    /// An entry whose stored name does not open where it stands.
    fn nameless(&self, entry: &Misplaced) -> Option<Step> {
        let stored = &entry.item.stored;
        if let Some((folder, id, name)) = self.orphaned_name(entry) {
            return Some(if folder.stored == entry.folder.stored {
                Step::LongName { folder, id, name }
            } else {
                self.back_or_lost(entry, folder, id, name)
            });
        }
        let known = entry.directory.into_iter().chain(self.seen.folders.keys().copied());
        for id in known {
            let Some(name) = self.survey.name_in(&entry.folder, stored, id) else { continue };
            return Some(match self.seen.folder(id) {
                Some(folder) => self.back_or_lost(entry, folder.clone(), id, name),
                None => lost_found(entry, name),
            });
        }
        // Without its header page a file cannot be bound to another name.
        entry.is_whole.then(|| lost_found(entry, entry.placeholder.clone()))
    }

    /// Where the side file is that has lost this entry.
    fn orphaned_name(&self, entry: &Misplaced) -> Option<(Folder, DirectoryId, Vec<u8>)> {
        let side = [b".n", &entry.item.stored[..]].concat();
        for (folder, orphan) in self.seen.orphans.iter().filter(|(_, orphan)| *orphan == side) {
            // A side file that was moved names its entry's directory by its own
            // seal: the entry's directory, or its own.
            let candidates = [(&entry.folder, entry.folder.id), (folder, folder.id)];
            for (home, id) in candidates.into_iter().filter_map(|(home, id)| Some((home, id?))) {
                if let Some(name) = self.repairer.name_in_side(&folder.node, orphan, id) {
                    return Some((home.clone(), id, name));
                }
            }
        }
        None
    }

    /// Back to its directory where the name is free there.
    fn back_or_lost(&self, entry: &Misplaced, to: Folder, id: DirectoryId, name: Vec<u8>) -> Step {
        let is_bound = entry.file.is_none()
            || entry.is_linked
            || self.survey.home(id, &name).mac == entry.home
            // Its header page is damaged, which moving it does not change.
            || !entry.is_whole;
        let is_free = self.survey.find(&to, &name).is_err_and(|error| error.is_not_found());
        if is_bound && is_free {
            Step::MoveBack { entry: entry.clone(), to, id, name }
        } else {
            lost_found(entry, name)
        }
    }

    /// Another file that stands where this one belongs, and belongs where this
    /// one stands.
    fn partner(&self, index: usize, entry: &Misplaced) -> Option<(usize, &Misplaced)> {
        let is_of = |file: &Misplaced, place: &Misplaced| match (&place.item.name, place.folder.id) {
            (Named::Plain(name), Some(id)) => self.survey.home(id, name).mac == file.home,
            _ => false,
        };
        let others = self.seen.misplaced.iter().enumerate().skip(index + 1);
        let mut others = others.filter(|(_, other)| other.file.is_some() && self.can_move(other));
        others.find(|(_, other)| is_of(entry, other) && is_of(other, entry))
    }

    /// A file under a name that is another's.
    fn not_of_its_name(&self, entry: &Misplaced) -> Result<Option<Step>> {
        if !entry.is_whole {
            return Ok(None);
        }
        if is_lost_found(&entry.folder.plain)
            && let Named::Plain(name) = &entry.item.name
            && is_marked(name, &entry.placeholder)
        {
            return Ok(Some(Step::Bind { entry: entry.clone() }));
        }
        let mut name = entry.placeholder.clone();
        if let Some(id) = entry.directory
            && let Some(folder) = self.seen.folder(id)
        {
            for listed in self.survey.list(folder)?.entries {
                if let Named::Plain(taken) = listed.name
                    && self.survey.home(id, &taken).mac == entry.home
                {
                    name = taken;
                }
            }
        }
        Ok(Some(lost_found(entry, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_repair_gives_tells_the_id() {
        let (id, other) = (format!("#{}", "a1".repeat(16)), format!("#{}", "b2".repeat(16)));
        let (id, other) = (id.as_bytes(), other.as_bytes());
        for name in [&b"letter"[..], id, other, b"", &[b'n'; 255], "\u{fc}".repeat(127).as_bytes()] {
            let given = marked_name(name, id);
            assert!(given.len() + NUMBER_ROOM <= NAME_MAX);
            assert!(is_marked(&given, id) && is_marked(&[&given[..], b".12"].concat(), id));
            assert!(!is_marked(&given, other) && !is_marked(&[&given[..], b".x"].concat(), id));
            assert!(name == id || !is_marked(name, id));
            assert_eq!(std::str::from_utf8(&given).is_ok(), std::str::from_utf8(name).is_ok());
        }
    }
}
