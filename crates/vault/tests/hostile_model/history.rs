//! Random histories of a vault, and every state of the store in them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::vault::{DirectoryId, Suite};
use strongroom_store::faulty::{EVERYTHING, FaultyStore};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Kind, RenameMode, Store, XattrMode};
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Creation, Opening, ROOT};
use strongroom_vault::{OpenOptions, Rules, Vault};

use super::facts::Facts;
use super::look::{self, Place, Seen, What};
use super::stored::{self, Path, Stored};
use crate::support::{self, CREATION, Rng, create_file, options, write};

/// Operations of one history.
const STEPS: usize = 110;
/// Inodes with names that a history keeps to.
const INODES: usize = 18;
/// Names in each directory; the last is too long to be stored as such.
const NAMES: u64 = 6;
/// States that are kept of one history.
const STATES: usize = 160;

/// A state of the store, as the attacker has kept it.
pub(crate) struct State {
    pub(crate) store: MemoryStore,
    pub(crate) entries: Vec<Stored>,
    /// Crashes before it.
    pub(crate) epoch: usize,
    /// States before it.
    pub(crate) order: usize,
    /// What it shows, where the vault had ended cleanly.
    pub(crate) shows: Option<HashSet<(Place, What)>>,
}

/// What the attacker has, and what was true.
pub(crate) struct History {
    pub(crate) states: Vec<State>,
    /// The stored paths at which each file or special record ever stood.
    pub(crate) former: HashMap<[u8; 16], BTreeSet<Path>>,
    pub(crate) facts: Facts,
    pub(crate) size: u64,
    pub(crate) options: OpenOptions,
    pub(crate) engine: Arc<dyn Engine>,
}

/// An entry as it is found before an operation.
#[derive(Clone)]
struct Spot {
    parents: Vec<Vec<u8>>,
    name: Vec<u8>,
    kind: Kind,
}

/// A state as it is kept at first.
struct Kept {
    store: MemoryStore,
    epoch: usize,
    order: usize,
    is_clean: bool,
}

struct Player {
    store: Arc<FaultyStore>,
    vault: Option<Vault>,
    rng: Rng,
    options: OpenOptions,
    engine: Arc<dyn Engine>,
    size: u64,
    facts: Facts,
    /// Where each file was seen last.
    places: BTreeMap<[u8; 16], Place>,
    /// The directories as they were seen last.
    directories: HashMap<Place, DirectoryId>,
    /// Positions of the log behind each operation.
    marks: Vec<usize>,
    /// Those at which the vault had ended cleanly.
    ends: Vec<usize>,
    kept: Vec<Kept>,
    epoch: usize,
    known: HashSet<u128>,
}

impl History {
    /// Plays the history of a seed.
    ///
    /// # Errors
    /// When a state that nobody touched does not read as what was written.
    pub(crate) fn play(seed: u64, rules: Rules) -> Result<History, String> {
        let suite = Suite::ALL[(seed % Suite::ALL.len() as u64) as usize];
        let block_size = BlockSize::from_shift([12, 12, 13][(seed % 3) as usize]).expect("a block size");
        let mut player = Player::new(seed, suite, block_size, rules);
        player.run();
        player.finish()
    }
}

impl Player {
    fn new(seed: u64, suite: Suite, block_size: BlockSize, rules: Rules) -> Player {
        let memory = MemoryStore::new();
        support::create(&memory, suite, block_size);
        let options = OpenOptions { journal_len: 96 * 4096, rules, ..options() };
        let engine = support::engine();
        let store = Arc::new(FaultyStore::new(memory));
        let mut player = Player {
            store,
            vault: None,
            rng: Rng(seed ^ 0xad_7e25),
            options,
            engine,
            size: block_size.bytes(),
            facts: Facts::default(),
            places: BTreeMap::new(),
            directories: HashMap::new(),
            marks: Vec::new(),
            ends: Vec::new(),
            epoch: 0,
            kept: Vec::new(),
            known: HashSet::new(),
        };
        player.mount();
        player
    }

    fn vault(&self) -> &Vault {
        self.vault.as_ref().expect("the vault is open")
    }

    fn mount(&mut self) {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let vault = support::open_with(store, Arc::clone(&self.engine), &self.options);
        self.vault = Some(vault.expect("a vault that nobody touched opens"));
        self.note();
    }

    fn run(&mut self) {
        for number in 0..4 {
            self.make_directory();
            self.write_new(format!("first {number}").into_bytes());
        }
        self.overwrite_late();
        for _ in 0..STEPS {
            self.step();
            self.note();
        }
    }

    /// Takes note of what the vault shows after an operation.
    fn note(&mut self) {
        let seen = look::by_names(self.vault(), self.size, false).expect("a vault that nobody touched");
        for sighting in &seen.sightings {
            if let What::File(id, digest) = sighting.what
                && let Some(before) = self.places.insert(id.0, sighting.place.clone())
                && before != sighting.place
            {
                self.facts.note_renamed(before, id, digest);
            }
        }
        let directories = seen.sightings.iter().filter_map(|sighting| match sighting.what {
            What::Directory(id) => Some((sighting.place.clone(), id)),
            _ => None,
        });
        self.directories = directories.collect();
        self.facts.note_shown(&seen);
        self.marks.push(self.store.position());
    }

    fn step(&mut self) {
        match self.rng.below(68) {
            0..=7 => {
                let name = self.name();
                self.write_new(name);
            }
            8..=17 => self.overwrite(),
            18..=24 => self.on_file(|_, content| content.sync().expect("a store that works")),
            25..=28 => self.set_len(),
            29..=30 => self.punch(),
            31..=36 => self.rename(RenameMode::Replace),
            37..=38 => self.rename(RenameMode::Exchange),
            39..=40 => self.link(),
            41..=43 => self.remove(),
            44 => self.make_directory(),
            45..=46 => self.make_symlink(),
            47 => self.make_special(),
            48..=51 => self.change_attribute(),
            52..=54 => self.sync_directory(),
            55..=57 => self.vault().sync().expect("a store that works"),
            58..=60 => self.end_and_begin(),
            61..=63 => self.crash(),
            _ => self.overwrite_late(),
        }
    }

    /// Ends cleanly and mounts again.
    fn end_and_begin(&mut self) {
        let vault = self.vault.take().expect("the vault is open");
        vault.close().expect("a store that works");
        self.ends.push(self.store.position());
        drop(vault);
        self.mount();
    }

    /// The power fails, now or at the last barrier; what is left is recovered.
    fn crash(&mut self) {
        let vault = self.vault.take().expect("the vault is open");
        vault.abandon();
        drop(vault);
        self.keep_states();
        self.epoch += 1;
        let image = self.store.image(self.store.position(), self.rng.below(1 << 12));
        self.store = Arc::new(FaultyStore::new(image));
        self.mount();
        if self.rng.below(2) == 0 {
            self.vault().settle().expect("a store that works");
        }
    }

    /// Keeps a state for each operation and barrier since the last crash, and
    /// some that a power cut could have left.
    fn keep_states(&mut self) {
        let mut cuts = std::mem::take(&mut self.marks);
        let ends = std::mem::take(&mut self.ends);
        cuts.extend(&ends);
        cuts.extend(self.store.barriers());
        cuts.retain(|&cut| cut <= self.store.position());
        cuts.sort_unstable();
        cuts.dedup();
        for cut in cuts {
            self.keep(self.store.image(cut, EVERYTHING), ends.contains(&cut));
            if self.rng.below(6) == 0 {
                let choice = self.rng.below(1 << 12);
                self.keep(self.store.image(cut, choice), false);
            }
        }
    }

    fn keep(&mut self, store: MemoryStore, is_clean: bool) {
        if self.known.insert(store.fingerprint()) {
            self.kept.push(Kept { store, epoch: self.epoch, order: self.kept.len(), is_clean });
        }
    }

    fn finish(mut self) -> Result<History, String> {
        let vault = self.vault.take().expect("the vault is open");
        vault.close().expect("a store that works");
        self.ends.push(self.store.position());
        drop(vault);
        self.keep_states();
        let mut states = Vec::with_capacity(self.kept.len());
        for Kept { store, epoch, order, is_clean } in std::mem::take(&mut self.kept) {
            let seen = read_only(&store, &self.engine, &self.options, self.size);
            let seen = seen.and_then(|seen| self.facts.note_durable(&seen).map(|()| seen));
            let seen = seen.map_err(|fault| format!("state {order}: {fault}"))?;
            let shown = seen.sightings.into_iter().map(|sighting| (sighting.place, sighting.what));
            let shows = is_clean.then(|| shown.collect());
            states.push(State { entries: stored::entries(&store), store, epoch, order, shows });
        }
        while states.len() > STATES {
            let at = self.rng.below(states.len() as u64) as usize;
            states.swap_remove(at);
        }
        let former = former(&states);
        let Player { facts, size, options, engine, .. } = self;
        Ok(History { states, former, facts, size, options, engine })
    }
}

/// Where each file and special record stood in any state.
fn former(states: &[State]) -> HashMap<[u8; 16], BTreeSet<Path>> {
    let mut former: HashMap<_, BTreeSet<Path>> = HashMap::new();
    for state in states {
        for entry in state.entries.iter().filter(|entry| entry.kind == Kind::File) {
            if let Some(id) = stored::at(&state.store, &entry.path).as_ref().and_then(stored::id_of) {
                former.entry(id).or_default().insert(entry.path.clone());
            }
        }
    }
    former
}

/// What a state shows to who only reads.
fn read_only(
    store: &MemoryStore,
    engine: &Arc<dyn Engine>,
    options: &OpenOptions,
    size: u64,
) -> Result<Seen, String> {
    let options = OpenOptions { writable: false, ..options.clone() };
    let store: Arc<dyn Store> = Arc::new(store.snapshot());
    let vault = support::open_with(store, Arc::clone(engine), &options)
        .map_err(|error| format!("a state that nobody touched: {error}"))?;
    look::by_names(&vault, size, false)
}

/// Choosing what is worked on.
impl Player {
    fn spots(&self) -> Vec<Spot> {
        let mut found = Vec::new();
        self.list(ROOT, &mut Vec::new(), &mut found);
        found
    }

    fn list(&self, number: u64, parents: &mut Vec<Vec<u8>>, found: &mut Vec<Spot>) {
        let names = self.vault().namespace();
        let mut listed = Vec::new();
        let directory = names.open_directory(number).expect("a directory");
        let listing = names.read_directory(&directory, 2, &mut |item| {
            listed.push(item.name.to_vec());
            true
        });
        listing.expect("a directory that nobody touched");
        listed.sort_unstable();
        for name in listed {
            let Ok(entry) = names.lookup(number, &name) else { continue };
            let kind = entry.attributes.kind;
            found.push(Spot { parents: parents.clone(), name: name.clone(), kind });
            if kind == Kind::Directory {
                parents.push(name);
                self.list(entry.number, parents, found);
                parents.pop();
            }
            names.forget(entry.number, 1);
        }
    }

    fn pick(&mut self, wanted: impl Fn(&Spot) -> bool) -> Option<Spot> {
        let mut spots = self.spots();
        spots.retain(wanted);
        (!spots.is_empty()).then(|| spots.swap_remove(self.rng.below(spots.len() as u64) as usize))
    }

    fn name(&mut self) -> Vec<u8> {
        match self.rng.below(NAMES) {
            5 => [&b"5"[..], &b"-long".repeat(45)].concat(),
            number => format!("name {number}").into_bytes(),
        }
    }

    /// A directory, and a name in it that is not there.
    fn free_place(&mut self) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
        let spots = self.spots();
        if spots.len() >= INODES {
            return None;
        }
        let mut directories = vec![Vec::new()];
        for spot in spots.iter().filter(|spot| spot.kind == Kind::Directory) {
            directories.push([&spot.parents[..], std::slice::from_ref(&spot.name)].concat());
        }
        let parents = directories.swap_remove(self.rng.below(directories.len() as u64) as usize);
        let name = self.name();
        let is_free = !spots.iter().any(|spot| spot.parents == parents && spot.name == name);
        is_free.then_some((parents, name))
    }

    /// Runs `work` with the number of a directory.
    fn within<T>(&self, parents: &[Vec<u8>], work: impl FnOnce(&Vault, u64) -> T) -> T {
        let names = self.vault().namespace();
        let mut numbers = vec![ROOT];
        for name in parents {
            let above = *numbers.last().expect("the top one");
            numbers.push(names.lookup(above, name).expect("a directory that was listed").number);
        }
        let done = work(self.vault(), *numbers.last().expect("the top one"));
        numbers[1..].iter().for_each(|&number| names.forget(number, 1));
        done
    }

    fn with_spot<T>(&self, spot: &Spot, work: impl FnOnce(&Vault, u64) -> T) -> T {
        self.within(&spot.parents, |vault, parent| {
            let entry = vault.namespace().lookup(parent, &spot.name).expect("an entry that was listed");
            let done = work(vault, entry.number);
            vault.namespace().forget(entry.number, 1);
            done
        })
    }

    fn with_content<T>(&self, spot: &Spot, work: impl FnOnce(&Content) -> T) -> Option<T> {
        self.with_spot(spot, |vault, number| {
            let names = vault.namespace();
            let content = names.open(number, Opening { write: true, ..Opening::default() }).ok()?;
            let done = work(&content);
            drop(content);
            names.release(number);
            Some(done)
        })
    }

    fn on_file(&mut self, work: impl FnOnce(&mut Rng, &Content)) {
        if let Some(spot) = self.pick(|spot| spot.kind == Kind::File) {
            let mut rng = Rng(self.rng.next());
            self.with_content(&spot, |content| work(&mut rng, content));
        }
    }
}

fn bytes(rng: &mut Rng, len: u64) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).take(len as usize).collect()
}

/// What is done to files.
impl Player {
    fn write_new(&mut self, name: Vec<u8>) {
        let text = String::from_utf8(name).expect("names of a history are text");
        if self.spots().iter().any(|spot| spot.parents.is_empty() && spot.name == text.as_bytes()) {
            return;
        }
        if self.spots().len() >= INODES {
            return;
        }
        let mut rng = Rng(self.rng.next());
        let (entry, content) = create_file(self.vault().namespace(), &text);
        self.note();
        let names = self.vault().namespace();
        let len = 1 + rng.below(3 * self.size);
        write(&content, 0, &bytes(&mut rng, len)).expect("a store that works");
        if rng.below(2) == 0 {
            content.sync().expect("a store that works");
        }
        drop(content);
        names.release(entry.number);
        names.forget(entry.number, 1);
        self.note();
    }

    /// Writes somewhere into a file, now and then in another group of blocks.
    fn overwrite(&mut self) {
        let size = self.size;
        self.on_file(|rng, content| {
            let group = if rng.below(4) == 0 { 128 * size } else { 0 };
            let offset = group + rng.below(4 * size);
            let len = 1 + rng.below(2 * size);
            write(content, offset, &bytes(rng, len)).expect("a store that works");
        });
    }

    /// Writes into both groups of blocks, of a file that has two if one is found.
    fn overwrite_late(&mut self) {
        let (size, mut chosen) = (self.size, None);
        for _ in 0..6 {
            let Some(spot) = self.pick(|spot| spot.kind == Kind::File) else { return };
            let len = self.with_content(&spot, Content::plain_len);
            chosen = Some(spot);
            if len.is_some_and(|len| len > 128 * size) {
                break;
            }
        }
        let (Some(spot), mut rng) = (chosen, Rng(self.rng.next())) else { return };
        // At one length, so that states differ in their blocks alone.
        self.with_content(&spot, |content| {
            if content.plain_len() != 131 * size {
                content.set_len(131 * size).expect("a store that works");
            }
        });
        self.note();
        for group in [0, 128 * size] {
            let (offset, len) = (group + rng.below(2 * size), 1 + rng.below(size));
            if rng.below(2) == 0 {
                let data = bytes(&mut rng, len);
                self.with_content(&spot, |content| {
                    write(content, offset, &data).expect("a store that works")
                });
                self.note();
            }
        }
        if rng.below(2) == 0 {
            self.with_content(&spot, |content| content.sync().expect("a store that works"));
        }
    }

    fn set_len(&mut self) {
        let size = self.size;
        self.on_file(|rng, content| {
            let len = match rng.below(4) {
                0 => 0,
                1 => rng.below(content.plain_len() + 1),
                2 => rng.below(6 * size),
                _ => (128 + rng.below(3)) * size + rng.below(size),
            };
            content.set_len(len).expect("a store that works");
        });
    }

    fn punch(&mut self) {
        let size = self.size;
        self.on_file(|rng, content| {
            let offset = rng.below(content.plain_len() + 1);
            content.allocate(Allocate::Punch, offset, 1 + rng.below(3 * size)).expect("a store that works");
        });
    }
}

/// What is done to names.
impl Player {
    fn rename(&mut self, mode: RenameMode) {
        let Some(from) = self.pick(|_| true) else { return };
        // Now and then over a directory, which is refused for most.
        let over_directory = self.rng.below(8) == 0;
        let onto = self.pick(|spot| (spot.kind == Kind::Directory) == over_directory);
        let onto = onto.filter(|_| self.rng.below(2) == 0);
        let to = match (onto, mode) {
            (Some(spot), _) => (spot.parents, spot.name),
            (None, RenameMode::Exchange) => return,
            (None, _) => match self.free_place() {
                Some(place) => place,
                None => return,
            },
        };
        self.note_exchange(&from, &to);
        self.within(&from.parents, |vault, parent| {
            self.within(&to.0, |_, to_parent| {
                // A directory into itself, over a file: refused, and no part of the history.
                let _ = vault.namespace().rename(parent, &from.name, to_parent, &to.1, mode);
            });
        });
    }

    /// An empty directory that another replaces is exchanged with it first.
    fn note_exchange(&mut self, from: &Spot, (parents, name): &(Vec<Vec<u8>>, Vec<u8>)) {
        let within = [&parents[..], std::slice::from_ref(name)].concat();
        if self.spots().iter().any(|spot| spot.parents == within) {
            return;
        }
        let [from, to] = [(&from.parents, &from.name), (parents, name)].map(|(parents, name)| {
            let top = self.vault().namespace().survey().top().id.expect("the top directory has an id");
            let below = |id, name: &Vec<u8>| self.directories[&(id, name.clone())];
            (parents.iter().fold(top, below), name.clone())
        });
        if let (Some(_), Some(&replaced)) = (self.directories.get(&from), self.directories.get(&to)) {
            self.facts.note_exchanged(from, replaced);
        }
    }

    fn link(&mut self) {
        let Some(from) = self.pick(|spot| spot.kind == Kind::File) else { return };
        let Some((parents, name)) = self.free_place() else { return };
        self.with_spot(&from, |vault, number| {
            self.within(&parents, |_, parent| {
                let entry = vault.namespace().link(number, parent, &name).expect("a free place");
                vault.namespace().forget(entry.number, 1);
            });
        });
    }

    fn remove(&mut self) {
        let Some(spot) = self.pick(|_| true) else { return };
        self.within(&spot.parents, |vault, parent| {
            let names = vault.namespace();
            let _ = match spot.kind {
                // Refused while it holds something.
                Kind::Directory => names.remove_directory(parent, &spot.name),
                _ => names.remove(parent, &spot.name),
            };
        });
    }

    fn make_directory(&mut self) {
        let Some((parents, name)) = self.free_place() else { return };
        self.within(&parents, |vault, parent| {
            let creation = Creation { mode: 0o755, ..CREATION };
            let entry = vault.namespace().make_directory(parent, &name, &creation).expect("a free place");
            vault.namespace().forget(entry.number, 1);
        });
    }

    fn make_symlink(&mut self) {
        let Some((parents, name)) = self.free_place() else { return };
        let len = [20, 200, 3900][self.rng.below(3) as usize];
        let target: Vec<u8> = (0..len).map(|_| b'a' + self.rng.below(26) as u8).collect();
        self.within(&parents, |vault, parent| {
            let made = vault.namespace().make_symlink(parent, &name, &target, &CREATION);
            vault.namespace().forget(made.expect("a free place").number, 1);
        });
    }

    fn make_special(&mut self) {
        let Some((parents, name)) = self.free_place() else { return };
        let kinds = [Kind::Fifo, Kind::Socket, Kind::CharacterDevice];
        let kind = kinds[self.rng.below(3) as usize];
        let device = if kind == Kind::CharacterDevice { 0x100 + self.rng.below(4) } else { 0 };
        self.within(&parents, |vault, parent| {
            let made = vault.namespace().make_special(parent, &name, kind, device, &CREATION);
            vault.namespace().forget(made.expect("a free place").number, 1);
        });
    }

    fn change_attribute(&mut self) {
        let Some(spot) = self.pick(|spot| matches!(spot.kind, Kind::File | Kind::Directory)) else { return };
        for _ in 0..1 + self.rng.below(3) {
            let name = format!("user.{}", self.rng.below(3)).into_bytes();
            let len = self.rng.below(60);
            let value = bytes(&mut self.rng, len);
            let keeps = self.rng.below(5) > 0;
            self.with_spot(&spot, |vault, number| {
                let names = vault.namespace();
                if keeps {
                    names
                        .set_xattr(number, &name, &value, XattrMode::Any, false)
                        .expect("a store that works");
                } else {
                    // There may be none.
                    let _ = names.remove_xattr(number, &name);
                }
            });
            self.note();
        }
    }

    fn sync_directory(&mut self) {
        let spot = self.pick(|spot| spot.kind == Kind::Directory);
        let sync =
            |vault: &Vault, number| vault.namespace().sync_directory(number).expect("a store that works");
        match spot {
            Some(spot) => self.with_spot(&spot, sync),
            None => sync(self.vault(), ROOT),
        }
    }
}
