//! Composing an attack: a state of the store, with parts of all others put
//! into it. Nobody who does this needs a key.

use data_encoding::BASE64URL_NOPAD;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{AllocateMode, Kind, NodeRef, RenameMode, Store, XattrMode};
use strongroom_units::GROUP_BLOCKS;

use super::history::{History, State};
use super::stored::{self, PAGE, PRIVATE, Path, Stored};
use crate::support::Rng;

/// One thing that is done to a stored tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Attack {
    /// Both copies of the vault header of another time, or one.
    Header,
    /// The journal of another time, whole or one segment.
    Journal,
    /// Header and journal of one other time, which may claim a crash.
    Crash,
    /// Some slots of the journal of another time, or cut.
    Slots,
    /// A file as it was.
    Whole,
    /// A file's bytes in another's place.
    Other,
    /// Some pages and blocks of a file as they were.
    Pages,
    /// Some pages and blocks of another file, or from elsewhere in this one.
    OtherPages,
    /// The second group of a file's blocks as it was, with its map, its node or
    /// neither.
    Group,
    /// Another length.
    Length,
    /// A hole.
    Punch,
    /// A changed bit.
    Flip,
    /// A directory as it was, with all that is below it.
    Directory,
    /// A directory's record in another.
    Record,
    /// A directory in another's place, with a record made of both of theirs.
    Forge,
    /// A hard link over another name.
    Link,
    /// Two entries exchanged.
    Exchange,
    /// An entry moved to another name.
    Move,
    /// An inode put under a name that it had at another time.
    Former,
    /// An entry copied to another name.
    Copy,
    /// An entry that is gone put back.
    PutBack,
    /// An entry removed.
    Remove,
    /// Another kind of inode in an entry's place.
    Kind,
    /// The extended attributes as they were, of another, or none.
    Attributes,
    /// A mode.
    Mode,
    /// The bodies of two long targets, or of two side files, exchanged.
    Sides,
}

impl Attack {
    pub(crate) const ALL: [Attack; 26] = [
        Attack::Header,
        Attack::Journal,
        Attack::Crash,
        Attack::Slots,
        Attack::Whole,
        Attack::Other,
        Attack::Pages,
        Attack::OtherPages,
        Attack::Group,
        Attack::Length,
        Attack::Punch,
        Attack::Flip,
        Attack::Directory,
        Attack::Record,
        Attack::Forge,
        Attack::Link,
        Attack::Exchange,
        Attack::Move,
        Attack::Former,
        Attack::Copy,
        Attack::PutBack,
        Attack::Remove,
        Attack::Kind,
        Attack::Attributes,
        Attack::Mode,
        Attack::Sides,
    ];
}

/// A store that was attacked, and how.
pub(crate) struct Composition {
    pub(crate) store: MemoryStore,
    pub(crate) attacks: Vec<Attack>,
    /// The state that all was put into.
    pub(crate) base: usize,
    /// Nothing but headers and journals of the base's past was put back, since
    /// the last crash before it.
    pub(crate) is_past_journal: bool,
    /// In words, for a failure.
    pub(crate) told: Vec<String>,
}

/// Composes one attack from the states of a history.
pub(crate) fn compose(history: &History, rng: &mut Rng) -> Composition {
    let ends: Vec<usize> =
        (0..history.states.len()).filter(|&index| history.states[index].shows.is_some()).collect();
    // Some put the past of a clean end back into it, and do nothing else.
    let past_only = !ends.is_empty() && rng.below(12) == 0;
    let base = match past_only {
        true => ends[rng.below(ends.len() as u64) as usize],
        false => rng.below(history.states.len() as u64) as usize,
    };
    let store = history.states[base].store.snapshot();
    let told = vec![format!("state {base}")];
    let mut attacker = Attacker {
        history,
        base,
        past_only,
        rng,
        made: Composition { store, attacks: Vec::new(), base, is_past_journal: true, told },
    };
    if past_only {
        attacker.one(Attack::Crash);
        for _ in 0..attacker.rng.below(3) {
            let attack = [Attack::Header, Attack::Journal, Attack::Slots][attacker.rng.below(3) as usize];
            attacker.one(attack);
        }
        return attacker.made;
    }
    // Half of the compositions lie about a crash before anything else.
    if attacker.rng.below(2) == 0 {
        attacker.one(Attack::Crash);
    }
    for _ in 0..1 + attacker.rng.below(4) {
        let attack = Attack::ALL[attacker.rng.below(Attack::ALL.len() as u64) as usize];
        attacker.one(attack);
    }
    attacker.made
}

struct Attacker<'a> {
    history: &'a History,
    base: usize,
    /// Nothing is taken but what came before the base, since the last crash.
    past_only: bool,
    rng: &'a mut Rng,
    made: Composition,
}

impl<'a> Attacker<'a> {
    fn one(&mut self, attack: Attack) {
        let told = match attack {
            Attack::Header => self.header(),
            Attack::Journal => self.journal(),
            Attack::Crash => self.claim_crash(),
            Attack::Slots => self.slots(),
            Attack::Whole => self.whole(true),
            Attack::Other => self.whole(false),
            Attack::Pages => self.pages(true),
            Attack::OtherPages => self.pages(false),
            Attack::Group => self.group(),
            Attack::Length => self.length(),
            Attack::Punch => self.punch(),
            Attack::Flip => self.flip(),
            Attack::Directory => self.put_back(|entry| entry.kind == Kind::Directory),
            Attack::Record => self.record(),
            Attack::Forge => self.forge(),
            Attack::Link => self.link(),
            Attack::Exchange => self.rename(RenameMode::Exchange),
            Attack::Move => self.rename(RenameMode::Replace),
            Attack::Former => self.former(),
            Attack::Copy => self.copy(),
            Attack::PutBack => self.put_back(|_| true),
            Attack::Remove => self.remove(),
            Attack::Kind => self.kind(),
            Attack::Attributes => self.attributes(),
            Attack::Mode => self.mode(),
            Attack::Sides => self.sides(),
        };
        if let Some(told) = told {
            let of_journal = [Attack::Header, Attack::Journal, Attack::Crash, Attack::Slots];
            self.made.is_past_journal &= of_journal.contains(&attack);
            self.made.attacks.push(attack);
            self.made.told.push(format!("{attack:?}: {told}"));
        }
    }

    /// A state to take something from, more often one near the base.
    fn state(&mut self) -> (usize, &'a State) {
        let (count, base) = (self.history.states.len(), &self.history.states[self.base]);
        let is_past = |state: &State| state.epoch == base.epoch && state.order <= base.order;
        let past: Vec<usize> =
            (0..count).filter(|&index| self.past_only && is_past(&self.history.states[index])).collect();
        let index = match self.rng.below(2) {
            _ if self.past_only => past[self.rng.below(past.len() as u64) as usize],
            0 => (self.base + count + self.rng.below(9) as usize - 4) % count,
            _ => self.rng.below(count as u64) as usize,
        };
        let state = &self.history.states[index];
        self.made.is_past_journal &= is_past(state);
        (index, state)
    }

    fn pick<'b>(&mut self, entries: &'b [Stored], wanted: impl Fn(&Stored) -> bool) -> Option<&'b Stored> {
        let mut found: Vec<&Stored> = entries.iter().filter(|entry| wanted(entry)).collect();
        (!found.is_empty()).then(|| found.swap_remove(self.rng.below(found.len() as u64) as usize))
    }

    /// An entry of the user's in the store as it is by now.
    fn target(&mut self, wanted: impl Fn(&Stored) -> bool) -> Option<Stored> {
        let entries = stored::entries(&self.made.store);
        self.pick(&entries, |entry| is_users(entry) && wanted(entry)).cloned()
    }

    fn private(&self, of: &MemoryStore) -> Option<NodeRef> {
        of.root().lookup(PRIVATE).ok()
    }

    fn header(&mut self) -> Option<String> {
        let copies: &[&[u8]] = match self.rng.below(4) {
            0 => &[b"header.0"],
            1 => &[b"header.1"],
            _ => &[b"header.0", b"header.1"],
        };
        let (index, state) = self.state();
        self.take_headers(state, copies)?;
        Some(format!("{} of {index}", copies.len()))
    }

    fn take_headers(&mut self, state: &State, copies: &[&[u8]]) -> Option<()> {
        let (from, to) = (self.private(&state.store)?, self.private(&self.made.store)?);
        for name in copies {
            if let Ok(copy) = from.lookup(name) {
                stored::copy(&copy, &to, name);
            }
        }
        Some(())
    }

    fn take_journal(&mut self, state: &State, only: Option<&[u8]>) -> Option<()> {
        let (from, to) = (self.private(&state.store)?, self.private(&self.made.store)?);
        let is_meant =
            |name: &[u8]| name.starts_with(b"journal.") && only.is_none_or(|only| name.ends_with(only));
        for entry in to.entries().ok()? {
            if is_meant(&entry.name) {
                stored::remove(&to, &entry.name);
            }
        }
        for entry in from.entries().ok()? {
            if is_meant(&entry.name) {
                stored::copy(&from.lookup(&entry.name).ok()?, &to, &entry.name);
            }
        }
        Some(())
    }

    fn journal(&mut self) -> Option<String> {
        let only: Option<&[u8]> = [None, None, Some(&b".0"[..]), Some(b".1")][self.rng.below(4) as usize];
        let (index, state) = self.state();
        self.take_journal(state, only)?;
        Some(format!("of {index}, {}", only.map_or("whole".into(), String::from_utf8_lossy)))
    }

    fn claim_crash(&mut self) -> Option<String> {
        let (index, state) = self.state();
        self.take_headers(state, &[b"header.0", b"header.1"])?;
        self.take_journal(state, None)?;
        Some(format!("of {index}"))
    }

    fn slots(&mut self) -> Option<String> {
        let (index, state) = self.state();
        let entries = stored::entries(&self.made.store);
        let segment = self.pick(&entries, |entry| entry.name().starts_with(b"journal."))?;
        let file = stored::file_at(&self.made.store, &segment.path)?;
        let slots = file.len().ok()? / PAGE;
        let first = self.rng.below(slots.clamp(1, 24));
        let count = 1 + self.rng.below(4);
        let range = first * PAGE..(first + count) * PAGE;
        match self.rng.below(4) {
            0 => file.set_len(first * PAGE).ok()?,
            1 => file.write_at(&vec![0; (count * PAGE) as usize], range.start).ok()?,
            _ => {
                let name = segment.name().to_vec();
                let other = self.pick(&state.entries, |entry| entry.name() == name)?;
                let from = stored::file_at(&state.store.snapshot(), &other.path)?;
                stored::copy_bytes(&from, &file, range, first * PAGE);
            }
        }
        Some(format!("{count} from {first} on, of {index}"))
    }

    /// A file, and bytes to put into it: its own of another time, or others.
    fn file_pair(&mut self, same: bool) -> Option<(Stored, usize, Stored)> {
        let target = self.target(|entry| entry.kind == Kind::File)?;
        let (index, state) = self.state();
        let wanted = |entry: &Stored| {
            entry.kind == Kind::File && (!same && is_users(entry) || entry.path == target.path)
        };
        let source = self.pick(&state.entries, wanted)?.clone();
        Some((target, index, source))
    }

    fn whole(&mut self, same: bool) -> Option<String> {
        let (target, index, source) = self.file_pair(same)?;
        let from = stored::file_at(&self.history.states[index].store.snapshot(), &source.path)?;
        stored::replace(&from, &stored::file_at(&self.made.store, &target.path)?);
        Some(format!("{} gets {} of {index}", name(&target.path), name(&source.path)))
    }

    fn pages(&mut self, same: bool) -> Option<String> {
        let (target, index, source) = self.file_pair(same)?;
        let from = stored::file_at(&self.history.states[index].store.snapshot(), &source.path)?;
        let to = stored::file_at(&self.made.store, &target.path)?;
        let first = self.page_of(from.len().ok()?);
        let count = 1 + self.rng.below(3);
        let offset = if same { first } else { self.page_of(to.len().ok()?) };
        let end = if self.rng.below(4) == 0 { u64::MAX } else { (first + count) * PAGE };
        stored::copy_bytes(&from, &to, first * PAGE..end, offset * PAGE);
        let (target, source) = (name(&target.path), name(&source.path));
        Some(format!("{target} at {offset} gets {count} of {source} at {first} of {index}"))
    }

    /// A page of a stored file, mostly among the first or where the second
    /// group begins.
    fn page_of(&mut self, len: u64) -> u64 {
        let pages = len.div_ceil(PAGE).max(1);
        let near = if self.rng.below(3) == 0 { pages.saturating_sub(6) } else { 0 };
        (near + self.rng.below(6)).min(pages - 1)
    }

    fn group(&mut self) -> Option<String> {
        let map = 1 + GROUP_BLOCKS * (self.history.size / PAGE);
        let store = self.made.store.clone();
        let target = self.target(|entry| {
            let file = stored::file_at(&store, &entry.path);
            file.is_some_and(|file| file.len().is_ok_and(|len| len > (map + 1) * PAGE))
        })?;
        let (index, state) = self.state();
        let source = self.pick(&state.entries, |entry| entry.path == target.path)?;
        let from = stored::file_at(&state.store.snapshot(), &source.path)?;
        let first = map + self.rng.below(3);
        let end = if self.rng.below(3) == 0 { (first + 1) * PAGE } else { u64::MAX };
        let to = stored::file_at(&self.made.store, &target.path)?;
        stored::copy_bytes(&from, &to, first * PAGE..end, first * PAGE);
        Some(format!("{} from {first} on, of {index}", name(&target.path)))
    }

    fn length(&mut self) -> Option<String> {
        let target = self.target(|entry| entry.kind == Kind::File)?;
        let file = stored::file_at(&self.made.store, &target.path)?;
        let len = file.len().ok()?;
        let new = match self.rng.below(4) {
            0 => 0,
            1 => self.page_of(len) * PAGE,
            2 => self.rng.below(len + 1),
            _ => len + 1 + self.rng.below(3 * PAGE),
        };
        file.set_len(new).ok()?;
        Some(format!("{} has {new}, not {len}", name(&target.path)))
    }

    fn punch(&mut self) -> Option<String> {
        let target = self.target(|entry| entry.kind == Kind::File)?;
        let file = stored::file_at(&self.made.store, &target.path)?;
        let first = self.page_of(file.len().ok()?);
        let count = 1 + self.rng.below(2);
        file.allocate(AllocateMode::Punch, first * PAGE, count * PAGE).ok()?;
        Some(format!("{count} from {first} on of {}", name(&target.path)))
    }

    fn flip(&mut self) -> Option<String> {
        let entries = stored::entries(&self.made.store);
        let target = self.pick(&entries, |entry| entry.kind == Kind::File)?;
        let file = stored::file_at(&self.made.store, &target.path)?;
        let at = self.rng.below(file.len().ok()?.max(1));
        let mut byte = [0];
        file.read_at(&mut byte, at).ok()?;
        file.write_at(&[byte[0] ^ 1 << self.rng.below(8)], at).ok()?;
        Some(format!("{at} of {}", name(&target.path)))
    }

    /// Puts an entry of another time back, over what stands there.
    fn put_back(&mut self, wanted: impl Fn(&Stored) -> bool) -> Option<String> {
        let (index, state) = self.state();
        let source = self.pick(&state.entries, |entry| is_users(entry) && wanted(entry))?;
        let parent = stored::at(&self.made.store, source.parent())?;
        let store = state.store.snapshot();
        stored::copy(&stored::at(&store, &source.path)?, &parent, source.name());
        // The side file of a long name comes with it.
        let side = [&b".n"[..], source.name()].concat();
        if let Some(node) = stored::at(&store, &[source.parent(), std::slice::from_ref(&side)].concat()) {
            stored::copy(&node, &parent, &side);
        }
        Some(format!("{} of {index}", name(&source.path)))
    }

    fn record(&mut self) -> Option<String> {
        let target = self.target(|entry| entry.kind == Kind::Directory)?;
        let (index, state) = self.state();
        let source = self.pick(&state.entries, |entry| entry.name() == b".id")?;
        let record = stored::at(&state.store.snapshot(), &source.path)?;
        stored::copy(&record, &stored::at(&self.made.store, &target.path)?, b".id");
        Some(format!("{} of {index} in {}", name(&source.path), name(&target.path)))
    }

    /// Puts a directory in another's place, under a record that has its id,
    /// the other's home, and either's mark.
    fn forge(&mut self) -> Option<String> {
        let over = self.target(|entry| entry.kind == Kind::Directory)?;
        let (index, state) = self.state();
        let source = self.pick(&state.entries, |entry| {
            is_users(entry) && entry.kind == Kind::Directory && entry.path != over.path
        })?;
        let [theirs, mine] = [(&state.store.snapshot(), &source.path), (&self.made.store, &over.path)]
            .map(|(store, path)| record_of(store, path));
        let (theirs, mine) = (theirs?, mine?);
        let mark = if self.rng.below(2) == 0 { &theirs[32..] } else { &mine[32..] };
        let forged = BASE64URL_NOPAD.encode(&[&theirs[..16], &mine[16..32], mark].concat());
        let parent = stored::at(&self.made.store, over.parent())?;
        stored::copy(&stored::at(&state.store.snapshot(), &source.path)?, &parent, over.name());
        let record = parent.lookup(over.name()).ok()?.lookup(b".id").ok()?;
        for entry in record.entries().ok()? {
            stored::remove(&record, &entry.name);
        }
        record.create(forged.as_bytes(), 0o600).ok()?;
        Some(format!("{} of {index} as {}", name(&source.path), name(&over.path)))
    }

    /// Moves, copies or links an inode to a name that it had.
    fn former(&mut self) -> Option<String> {
        let target = self.target(|entry| entry.kind == Kind::File)?;
        let node = stored::at(&self.made.store, &target.path)?;
        let places = self.history.former.get(&stored::id_of(&node)?)?;
        let others: Vec<&Path> = places.iter().filter(|path| **path != target.path).collect();
        if others.is_empty() {
            return None;
        }
        let to = others[self.rng.below(others.len() as u64) as usize];
        let (own, directory) = to.split_last()?;
        let parent = stored::at(&self.made.store, directory)?;
        match self.rng.below(3) {
            0 => stored::copy(&node, &parent, own),
            1 => {
                stored::remove(&parent, own);
                parent.link(&*node, own).ok()?;
            }
            _ => stored::rename(&self.made.store, &target.path, to, RenameMode::Replace),
        }
        Some(format!("{} to {}", name(&target.path), name(to)))
    }

    fn link(&mut self) -> Option<String> {
        let from = self.target(|entry| entry.kind != Kind::Directory)?;
        let over = self.target(|entry| entry.kind != Kind::Directory && entry.path != from.path)?;
        let parent = stored::at(&self.made.store, over.parent())?;
        let node = stored::at(&self.made.store, &from.path)?;
        stored::remove(&parent, over.name());
        parent.link(&*node, over.name()).ok()?;
        Some(format!("{} over {}", name(&from.path), name(&over.path)))
    }

    fn rename(&mut self, mode: RenameMode) -> Option<String> {
        let from = self.target(|_| true)?;
        let to = self.target(|entry| entry.path != from.path)?;
        stored::rename(&self.made.store, &from.path, &to.path, mode);
        Some(format!("{} and {}", name(&from.path), name(&to.path)))
    }

    /// Copies an entry of another time to another name, or into another
    /// directory under its own.
    fn copy(&mut self) -> Option<String> {
        let (index, state) = self.state();
        let source = self.pick(&state.entries, is_users)?;
        let over = self.target(|_| true)?;
        let own_name = self.rng.below(3) == 0;
        let (directory, to): (Path, &[u8]) = match own_name && over.kind == Kind::Directory {
            true => (over.path.clone(), source.name()),
            false => (over.parent().to_vec(), over.name()),
        };
        let parent = stored::at(&self.made.store, &directory)?;
        stored::copy(&stored::at(&state.store.snapshot(), &source.path)?, &parent, to);
        Some(format!("{} of {index} to {}", name(&source.path), name(&over.path)))
    }

    fn remove(&mut self) -> Option<String> {
        let entries = stored::entries(&self.made.store);
        let target = self.pick(&entries, |entry| entry.name() != PRIVATE)?;
        stored::remove(&stored::at(&self.made.store, target.parent())?, target.name());
        Some(name(&target.path))
    }

    fn kind(&mut self) -> Option<String> {
        let entries = stored::entries(&self.made.store);
        let target = self.pick(&entries, |entry| entry.name() != PRIVATE)?;
        let parent = stored::at(&self.made.store, target.parent())?;
        stored::remove(&parent, target.name());
        let made = match self.rng.below(6) {
            0 => parent.make_special(target.name(), Kind::Fifo, 0o644, 0).is_ok(),
            1 => parent.make_special(target.name(), Kind::Socket, 0o644, 0).is_ok(),
            2 => parent.make_special(target.name(), Kind::CharacterDevice, 0o666, 0x105).is_ok(),
            3 => parent.make_symlink(target.name(), b"../elsewhere").is_ok(),
            4 => parent.make_directory(target.name(), 0o755).is_ok(),
            _ => parent.create(target.name(), 0o644).is_ok(),
        };
        made.then(|| name(&target.path))
    }

    /// Takes the attributes of an inode, or one value under another's name.
    fn attributes(&mut self) -> Option<String> {
        let (index, state) = self.state();
        let own = self.made.store.clone();
        let count = |store: &MemoryStore, entry: &Stored| {
            let node = stored::at(store, &entry.path).filter(|_| entry.kind != Kind::Symlink);
            node.map_or(0, |node| node.xattr_names().unwrap_or_default().len())
        };
        if self.rng.below(3) == 0 {
            let target = self.target(|entry| count(&own, entry) > 1)?;
            let node = stored::at(&own, &target.path)?;
            let mut names = node.xattr_names().ok()?;
            let one = names.swap_remove(self.rng.below(names.len() as u64) as usize);
            let other = names.swap_remove(self.rng.below(names.len() as u64) as usize);
            node.set_xattr(&one, &node.xattr(&other).ok()?, XattrMode::Any).ok()?;
            return Some(format!("one of {} under another's name", name(&target.path)));
        }
        let same = self.rng.below(2) == 0;
        let source = self.pick(&state.entries, |entry| is_users(entry) && count(&state.store, entry) > 0)?;
        let source = source.clone();
        let target =
            self.target(|entry| entry.kind != Kind::Symlink && (entry.path == source.path) == same)?;
        let from = stored::at(&state.store.snapshot(), &source.path)?;
        stored::copy_attributes(&from, &stored::at(&own, &target.path)?);
        Some(format!("{} of {index} for {}", name(&source.path), name(&target.path)))
    }

    fn mode(&mut self) -> Option<String> {
        let target = self.target(|_| true)?;
        stored::at(&self.made.store, &target.path)?.set_mode(self.rng.below(0o10000) as u32).ok()?;
        Some(name(&target.path))
    }

    /// Exchanges two of the vault's own files that hold long names or targets.
    fn sides(&mut self) -> Option<String> {
        let is_side = |entry: &Stored| {
            let in_links = entry.path.len() == 3 && entry.path[1] == b"links";
            entry.kind == Kind::File && (in_links || entry.name().starts_with(b".n"))
        };
        let entries = stored::entries(&self.made.store);
        let target = self.pick(&entries, is_side)?;
        let (index, state) = self.state();
        let source = self.pick(&state.entries, is_side)?;
        let from = stored::file_at(&state.store.snapshot(), &source.path)?;
        stored::replace(&from, &stored::file_at(&self.made.store, &target.path)?);
        Some(format!("{} gets {} of {index}", name(&target.path), name(&source.path)))
    }
}

/// An entry of the user's, and not the vault's own.
fn is_users(entry: &Stored) -> bool {
    entry.path[0] != PRIVATE && !entry.is_hidden()
}

/// The bytes of a directory's record: id, home and mark.
fn record_of(store: &MemoryStore, path: &Path) -> Option<Vec<u8>> {
    let record = stored::at(store, path)?.lookup(b".id").ok()?;
    let bytes = BASE64URL_NOPAD.decode(&record.entries().ok()?.first()?.name).ok()?;
    (bytes.len() == 48).then_some(bytes)
}

/// A stored path for a message.
fn name(path: &Path) -> String {
    let short = |name: &Vec<u8>| String::from_utf8_lossy(name).chars().take(10).collect::<String>();
    path.iter().map(short).collect::<Vec<_>>().join("/")
}
