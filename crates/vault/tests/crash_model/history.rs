//! Random histories on a recording store, and what they were promised.

mod lists;
pub(crate) mod masked;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_format::vault::Suite;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Kind, RenameMode, Store};
use strongroom_units::{BlockSize, GROUP_BLOCKS};
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Creation, Entry, Opening, ROOT};
use strongroom_vault::{OpenOptions, Rules, Vault};

use super::bytes::Bytes;
use super::found::{Depth, Found};
use super::tree::{Body, Id, Inode, Place, TOP, Tree};
use crate::mask_model::Watched;
use crate::support::{self, CREATION, Rng, options, write};

/// Operations of one history.
const STEPS: usize = 220;
/// Files that a history has before anything else is done.
const FILES: usize = 8;
/// Inodes with names that a history keeps to.
const INODES: usize = 22;
/// Directories below the top one.
const DIRECTORIES: usize = 5;
/// Names in each directory; the last two are too long to be stored as such.
const NAMES: u64 = 7;

/// A content at some position of the store's log.
pub(crate) struct Version {
    pub(crate) from: usize,
    pub(crate) bytes: Bytes,
}

/// Everything a file has been.
#[derive(Default)]
pub(crate) struct FileHistory {
    pub(crate) versions: Vec<Version>,
    /// Positions from which on the version of that index is promised.
    pub(crate) synced: Vec<(usize, usize)>,
    /// Positions from which on it is promised that the file is there.
    pub(crate) named: Vec<usize>,
}

/// A state of the names: possible once `begun`, certain to have been reached
/// by `from`.
pub(crate) struct Names {
    pub(crate) begun: usize,
    pub(crate) from: usize,
    pub(crate) tree: Tree,
}

/// One history, played on a recording store.
pub(crate) struct Trial {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Arc<dyn Engine>,
    /// The engine, where it makes masks and is watched.
    pub(crate) masks: Option<Arc<Watched>>,
    pub(crate) size: u64,
    /// Whole groups are written, too: where they are short, and no rule is left out, since faults of other rules
    /// show sooner in histories without.
    copies: bool,
    vault: Option<Vault>,
    rng: Rng,
    pub(crate) files: BTreeMap<Id, FileHistory>,
    /// Of symlinks, FIFOs and their like: positions from which on it is
    /// promised that they are there.
    pub(crate) specials: BTreeMap<Id, Vec<usize>>,
    /// By file: the state with its creation, and with its last change of
    /// mode or attributes.
    needs: BTreeMap<Id, usize>,
    open: BTreeMap<Id, (u64, Arc<Content>)>,
    tree: Tree,
    next: Id,
    pub(crate) states: Vec<Names>,
    /// Positions from which on the state of that index is promised.
    pub(crate) durable: Vec<(usize, usize)>,
    pub(crate) options: OpenOptions,
    /// What was done, each with the position it began at: for failures.
    log: Vec<(usize, String)>,
}

/// Whether a history runs on the engine that is late, busy and loses work.
pub(crate) fn is_unruly(seed: u64) -> bool {
    seed % 16 == 11
}

impl Trial {
    pub(crate) fn new(seed: u64, rules: Rules) -> Trial {
        let any = Suite::ALL[(seed / 3 % Suite::ALL.len() as u64) as usize];
        let suite = if masked::is(seed) { masked::suite(seed) } else { any };
        let block_size = BlockSize::from_shift([12, 13, 16][(seed % 3) as usize]).unwrap();
        let memory = MemoryStore::new();
        support::create(&memory, suite, block_size);
        let store = Arc::new(FaultyStore::new(memory));
        let options = OpenOptions { journal_len: 48 * block_size.bytes().max(16 << 10), rules, ..options() };
        let masks = masked::is(seed).then(masked::engine);
        let engine = match &masks {
            Some(masks) => Arc::clone(masks) as Arc<dyn Engine>,
            None if is_unruly(seed) => support::unruly(),
            None => support::engine(),
        };
        let vault =
            support::open_with(Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&engine), &options).unwrap();
        let start = store.position();
        Trial {
            store,
            engine,
            masks,
            size: block_size.bytes(),
            copies: block_size == BlockSize::MIN && rules == Rules::STRICT,
            vault: Some(vault),
            rng: Rng(seed ^ 0x5eed),
            files: BTreeMap::new(),
            specials: BTreeMap::new(),
            needs: BTreeMap::new(),
            open: BTreeMap::new(),
            tree: Tree::new(),
            next: TOP + 1,
            states: vec![Names { begun: 0, from: 0, tree: Tree::new() }],
            durable: vec![(start, 0)],
            options,
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        self.log.push((self.store.position(), what));
    }

    /// The operations before a cut, and what they did to the store.
    pub(crate) fn history_before(&self, cut: usize) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let from = self.log.iter().rposition(|&(at, _)| at <= cut).unwrap_or(0).saturating_sub(30);
        for (index, (at, what)) in self.log.iter().enumerate().skip(from).take(34) {
            let end = self.log.get(index + 1).map_or(self.store.position(), |next| next.0);
            let _ = writeln!(text, "{at}: {what}");
            for event in self.store.events(*at..end) {
                let _ = writeln!(text, "      {event:?}");
            }
        }
        text
    }

    fn vault(&self) -> &Vault {
        self.vault.as_ref().expect("the vault is open")
    }

    /// Plays the history, and leaves the vault as a crash would.
    pub(crate) fn play(&mut self) {
        self.make_directory();
        self.make_directory();
        while self.tree.places().iter().filter(|(_, id)| self.tree.is_file(*id)).count() < FILES {
            self.write();
        }
        for _ in 0..STEPS {
            self.step();
            if self.masks.is_some() {
                self.step_with_masks();
            }
        }
    }

    pub(crate) fn abandon(&mut self) {
        if let Some(vault) = &self.vault {
            vault.abandon();
        }
    }

    fn step(&mut self) {
        match self.rng.below(72) {
            0 if self.copies => self.write_groups(),
            0..=11 => self.write(),
            12..=17 => self.overwrite(),
            18..=23 => self.sync(),
            24..=27 => self.append_and_sync(),
            28..=29 => self.set_len(),
            30 => self.punch(),
            31..=33 => self.close(),
            34..=37 => self.rename(RenameMode::Replace),
            38 => self.rename(RenameMode::Exchange),
            39..=40 => self.replace_aside(),
            41..=42 => self.remove(),
            43..=45 => self.make_directory(),
            46..=47 => self.remove_directory(),
            48..=49 => self.link(),
            50..=51 => self.make_symlink(),
            52..=53 => self.unnamed(),
            54..=55 => self.change_xattr(),
            56..=57 => self.change_mode(),
            58..=60 => self.sync_directory(),
            61 => self.sync_all(),
            62 => self.reopen(),
            63 => self.replace_empty_directory(),
            64..=66 => self.make_special(),
            _ => self.change_list(),
        }
    }

    /// What was done to the names since `begun` is one operation of the store.
    fn note_names(&mut self, begun: usize) {
        self.states.push(Names { begun, from: self.store.position(), tree: self.tree.clone() });
    }

    fn current(&self) -> usize {
        self.states.len() - 1
    }
}

/// Choosing places and inodes, and getting at them.
impl Trial {
    fn name(&mut self) -> String {
        match self.rng.below(NAMES) {
            number @ 0..5 => format!("name {number}"),
            number => format!("{number}{}", "-long".repeat(40)),
        }
    }

    fn directory(&mut self) -> Id {
        let directories = self.tree.directories();
        directories[self.rng.below(directories.len() as u64) as usize]
    }

    /// A place where nothing stands.
    fn free_place(&mut self) -> Option<Place> {
        let places = [(self.directory(), self.name()), (self.directory(), self.name())];
        places.into_iter().find(|place| self.tree.at(place).is_none())
    }

    fn pick(&mut self, wanted: impl Fn(&Tree, Id) -> bool) -> Option<(Place, Id)> {
        let mut places = self.tree.places();
        places.retain(|&(_, id)| wanted(&self.tree, id));
        (!places.is_empty()).then(|| places.swap_remove(self.rng.below(places.len() as u64) as usize))
    }

    fn pick_file(&mut self) -> Option<(Place, Id)> {
        self.pick(Tree::is_file)
    }

    fn is_full(&self) -> bool {
        self.tree.places().len() >= INODES
    }

    /// Runs `work` with the node number of a directory.
    fn within<T>(&self, directory: Id, work: impl FnOnce(&Trial, u64) -> T) -> T {
        let names = self.vault().namespace();
        let mut numbers = vec![ROOT];
        for name in self.tree.path(directory) {
            let above = *numbers.last().expect("the top one");
            numbers.push(names.lookup(above, name.as_bytes()).unwrap().number);
        }
        let done = work(self, *numbers.last().expect("the top one"));
        numbers[1..].iter().for_each(|&number| names.forget(number, 1));
        done
    }

    /// Runs `work` with the node number of what stands at a place.
    fn with_number<T>(&self, place: &Place, work: impl FnOnce(&Trial, u64) -> T) -> T {
        self.within(place.0, |trial, parent| {
            let names = trial.vault().namespace();
            let number = names.lookup(parent, place.1.as_bytes()).unwrap().number;
            let done = work(trial, number);
            names.forget(number, 1);
            done
        })
    }

    fn opened(&mut self, place: &Place, id: Id) -> Arc<Content> {
        if let Some((_, content)) = self.open.get(&id) {
            return Arc::clone(content);
        }
        let opened = self.within(place.0, |trial, parent| {
            let names = trial.vault().namespace();
            let entry = names.lookup(parent, place.1.as_bytes()).unwrap();
            let opening = Opening { write: true, ..Opening::default() };
            (entry.number, names.open(entry.number, opening).unwrap())
        });
        let content = Arc::clone(&opened.1);
        self.open.insert(id, opened);
        content
    }

    fn close_file(&mut self, id: Id) {
        if let Some((number, content)) = self.open.remove(&id) {
            drop(content);
            self.vault().namespace().release(number);
            self.vault().namespace().forget(number, 1);
        }
    }

    fn new_inode(&mut self, body: Body, mode: Option<u32>) -> Id {
        let id = self.next;
        self.next += 1;
        self.tree.inodes.insert(id, Arc::new(Inode { body, mode, xattrs: BTreeMap::new() }));
        id
    }

    fn create(&mut self, place: &Place) -> (Id, Arc<Content>) {
        let mode = [0o644, 0o600, 0o755, 0o440][self.rng.below(4) as usize];
        self.note(format!("create {place:?}"));
        let begun = self.store.position();
        let (entry, content) = self.within(place.0, |trial, parent| {
            let creation = Creation { mode, ..CREATION };
            let opening = Opening { write: true, exclusive: true, ..Opening::default() };
            trial.vault().namespace().create(parent, place.1.as_bytes(), &creation, opening).unwrap()
        });
        let given = self.given(place.0, mode, Kind::File);
        let id = self.adopt(&entry, &content, given.mode);
        self.tree.put(place, id);
        if !given.lists.is_empty() {
            self.note_names(begun);
            self.tree.inode_mut(id).xattrs = given.lists;
        }
        self.note_names(begun);
        self.needs.insert(id, self.current());
        (id, content)
    }

    fn adopt(&mut self, entry: &Entry, content: &Arc<Content>, mode: u32) -> Id {
        let id = self.new_inode(Body::File, Some(mode));
        self.open.insert(id, (entry.number, Arc::clone(content)));
        self.files.insert(id, FileHistory::default());
        let empty = Bytes::empty(self.size);
        self.note_version(id, empty);
        id
    }
}

/// Contents.
impl Trial {
    fn note_version(&mut self, id: Id, bytes: Bytes) {
        let from = self.store.position();
        self.files.get_mut(&id).expect("a file").versions.push(Version { from, bytes });
    }

    fn latest(&self, id: Id) -> &Bytes {
        &self.files[&id].versions.last().expect("a file has a version").bytes
    }

    fn change(&mut self, id: Id, content: &Content, offset: u64, data: &[u8]) {
        self.note(format!("  write {} at {offset} to #{id}", data.len()));
        let mut bytes = self.latest(id).clone();
        bytes.write(offset, data);
        self.note_version(id, bytes);
        write(content, offset, data).unwrap();
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.rng.next().to_le_bytes()).take(len as usize).collect()
    }

    fn write(&mut self) {
        let place = (self.directory(), self.name());
        let (id, content) = match self.tree.at(&place) {
            Some(id) if self.tree.is_file(id) => (id, self.opened(&place, id)),
            None if !self.is_full() => self.create(&place),
            _ => return,
        };
        let span = self.size * if self.rng.below(8) == 0 { 300 } else { 6 };
        let offset = self.rng.below(span);
        let len = 1 + self.rng.below(self.size.min(16 << 10) * 2);
        let data = self.data(len);
        self.change(id, &content, offset, &data);
    }

    /// Writes whole groups one behind the other, as a copy does, which takes
    /// their pages with it.
    fn write_groups(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        let group = GROUP_BLOCKS * self.size;
        let mut at = self.latest(id).len.min(self.rng.below(2) * 3 * group);
        let end = at + group + self.rng.below(group);
        let request = [2 * group, group / 2, group + 1000][self.rng.below(3) as usize];
        while at < end {
            let data = self.data(request.min(end - at));
            self.change(id, &content, at, &data);
            at += data.len() as u64;
        }
    }

    fn overwrite(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let len = self.latest(id).len;
        if len > 0 {
            let content = self.opened(&place, id);
            let offset = self.rng.below(len);
            let part = (1 + self.rng.below(self.size.min(16 << 10))).min(len - offset);
            let data = self.data(part);
            self.change(id, &content, offset, &data);
        }
    }

    fn append_and_sync(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        for _ in 0..1 + self.rng.below(3) {
            let len = 1 + self.rng.below(600);
            let data = self.data(len);
            let end = self.latest(id).len;
            self.change(id, &content, end, &data);
            self.sync_file(id, &content);
        }
    }

    fn set_len(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        let mut bytes = self.latest(id).clone();
        let len = match self.rng.below(3) {
            0 => 0,
            1 => self.rng.below(bytes.len + 1),
            _ => self.rng.below(self.size * 8),
        };
        self.note(format!("set length {len} of #{id}"));
        bytes.set_len(len);
        self.note_version(id, bytes);
        content.set_len(len).unwrap();
    }

    fn punch(&mut self) {
        let Some((place, id)) = self.pick_file() else { return };
        let content = self.opened(&place, id);
        let mut bytes = self.latest(id).clone();
        let offset = self.rng.below(bytes.len + 1);
        let len = 1 + self.rng.below(self.size * 4);
        self.note(format!("punch {len} at {offset} of #{id}"));
        bytes.clear(offset, len);
        self.note_version(id, bytes);
        content.allocate(Allocate::Punch, offset, len).unwrap();
    }

    fn sync(&mut self) {
        if let Some((place, id)) = self.pick_file() {
            let content = self.opened(&place, id);
            self.sync_file(id, &content);
        }
    }

    /// What `fsync` promises: the content, and the file's creation, mode and
    /// attributes with what was done before them.
    fn sync_file(&mut self, id: Id, content: &Content) {
        self.note(format!("sync #{id}"));
        content.sync().unwrap();
        let position = self.store.position();
        self.promise_file(id, position);
        if let Some(&state) = self.needs.get(&id) {
            self.durable.push((position, state));
        }
    }

    fn promise_file(&mut self, id: Id, position: usize) {
        let file = self.files.get_mut(&id).expect("a file");
        file.synced.push((position, file.versions.len() - 1));
    }

    fn sync_directory(&mut self) {
        let directory = self.directory();
        self.note(format!("sync directory #{directory}"));
        self.within(directory, |trial, number| trial.vault().namespace().sync_directory(number).unwrap());
        let position = self.store.position();
        self.durable.push((position, self.current()));
        // Its names are promised, and with them that the files are there.
        let children: Vec<Id> = self.tree.entries(directory).values().copied().collect();
        for id in children {
            if let Some(file) = self.files.get_mut(&id) {
                file.named.push(position);
            }
            self.promise_special(id);
        }
    }

    fn sync_all(&mut self) {
        self.note("sync all".into());
        self.vault().sync().unwrap();
        self.promise_all();
    }

    fn promise_all(&mut self) {
        let position = self.store.position();
        self.durable.push((position, self.current()));
        for (_, id) in self.tree.places() {
            if self.files.contains_key(&id) {
                self.promise_file(id, position);
            }
            self.promise_special(id);
        }
    }

    /// A symlink, FIFO or the like is there from now on.
    fn promise_special(&mut self, id: Id) {
        if self.tree.is_special(id) {
            let position = self.store.position();
            self.specials.entry(id).or_default().push(position);
        }
    }

    fn close(&mut self) {
        let open: Vec<Id> = self.open.keys().copied().collect();
        if !open.is_empty() {
            let id = open[self.rng.below(open.len() as u64) as usize];
            self.note(format!("close #{id}"));
            self.close_file(id);
        }
    }

    fn reopen(&mut self) {
        self.note("close and open the vault".into());
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.close_file(id);
        }
        self.vault.take().expect("the vault is open").close().unwrap();
        self.promise_all();
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        self.vault = Some(support::open_with(store, Arc::clone(&self.engine), &self.options).unwrap());
    }
}

impl Trial {
    /// Without a cut everything is there.
    pub(crate) fn check_end(mut self) -> Result<(), String> {
        self.reopen();
        let vault = self.vault.take().expect("the vault is open");
        let found = Found::read(&vault, self.size, Depth::Verify)?;
        vault.close().map_err(|error| error.to_string())?;
        super::explain::matches_exactly(&self, &found, &self.tree)
    }
}
