//! One lane's history, and the trees that a crash may have left of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::action::{Action, Line, Wait};
use super::content::Contents;
use super::tree::{Found, Tree};

/// Names a file by the action that made it.
type FileNumber = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File(FileNumber),
    /// By the action that made it.
    Symlink(u64),
}

type Names = BTreeMap<String, Entry>;

/// Where a symlink that the action `number` made leads to.
pub fn target(number: u64) -> String {
    format!("made by {number}")
}

#[derive(Clone, Debug)]
struct File {
    contents: Contents,
    /// Nothing was written since the last descriptor was closed.
    closed: bool,
    /// From this state of the names on, what a rename over another file promised.
    promised: Option<(u64, Contents)>,
    /// What holds once the `fsync` beside returns that is under way.
    beside: Option<Beside>,
    /// The first state of the names that has it.
    created: u64,
    /// A sync of its directory has promised that it is there.
    named: bool,
}

#[derive(Clone, Debug)]
struct Beside {
    number: u64,
    /// The state of the names in which it began.
    state: u64,
    contents: Contents,
}

impl File {
    fn new(contents: Contents, created: u64) -> Self {
        Self { contents, closed: true, promised: None, beside: None, created, named: false }
    }

    fn change(&mut self, change: impl Fn(&mut Contents)) {
        self.closed = false;
        change(&mut self.contents);
        let promised = self.promised.iter_mut().map(|(_, promised)| promised);
        promised.chain(self.beside.iter_mut().map(|beside| &mut beside.contents)).for_each(change);
    }

    fn acknowledge(&mut self) {
        self.contents.acknowledge();
        self.promised = None;
        self.beside.iter_mut().for_each(|beside| beside.contents.acknowledge());
    }

    /// An `fsync` beside begins: what is there now will be durable when it returns.
    fn sync_begun(&mut self, number: u64, state: u64) {
        let mut contents = self.contents.clone();
        contents.acknowledge();
        self.beside = Some(Beside { number, state, contents });
    }

    /// An `fsync` beside has returned; false when it was not of this file.
    fn sync_ended(&mut self, number: u64) -> bool {
        let Some(beside) = self.beside.take_if(|beside| beside.number == number) else { return false };
        self.contents = beside.contents;
        // What a later rename promised is more.
        self.promised.take_if(|(from, _)| *from <= beside.state);
        true
    }

    /// A rename gives it the place of something else: from `state` on it is whole, as it was when it was
    /// closed.
    fn promise(&mut self, state: u64) {
        if self.closed {
            let mut promised = self.contents.clone();
            promised.acknowledge();
            self.promised = Some((state, promised));
        }
    }

    /// What is allowed where the names are in `state`.
    fn contents(&self, state: u64) -> &Contents {
        match &self.promised {
            Some((from, promised)) if state >= *from => promised,
            _ => &self.contents,
        }
    }
}

/// What a comparison came to, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Acknowledgements that were looked after.
    pub acknowledged: u64,
    /// Actions that had returned.
    pub actions: u64,
    /// Changes of names that the crash took, all of them unacknowledged.
    pub names_lost: u64,
    /// Files compared.
    pub files: u64,
    /// Pages of two versions, none of them promised.
    pub pages_of_two: u64,
}

impl std::ops::AddAssign for Kept {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.actions += other.actions;
        self.names_lost += other.names_lost;
        self.files += other.files;
        self.pages_of_two += other.pages_of_two;
    }
}

/// The states in which a lane may be.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Numbered states of the names, the oldest first; earlier ones cannot come back.
    states: Vec<(u64, Names)>,
    files: HashMap<FileNumber, File>,
    symlinks: HashMap<u64, String>,
    /// Symlinks that no crash takes any more.
    lasting: HashSet<u64>,
    kept: Kept,
}

impl Lane {
    /// Begins with what was found after the last crash, all of which is durable. `first` and the numbers
    /// behind it, one for each name, are not those of actions to come.
    pub fn begin(tree: &Tree, first: u64) -> Self {
        let mut lane = Self::default();
        let mut names = Names::new();
        let mut inodes = HashMap::new();
        for (number, (name, found)) in (first..).zip(tree) {
            let entry = match found {
                Found::Directory => Entry::Directory,
                Found::Symlink(target) => {
                    lane.symlinks.insert(number, target.clone());
                    lane.lasting.insert(number);
                    Entry::Symlink(number)
                }
                Found::File { inode, bytes } => {
                    let number = *inodes.entry(*inode).or_insert(number);
                    let file = || File::new(Contents::durable(bytes.clone()), 0);
                    lane.files.entry(number).or_insert_with(file);
                    Entry::File(number)
                }
            };
            names.insert(name.clone(), entry);
        }
        lane.states.push((0, names));
        lane
    }

    /// Plays a log. `syncs` are positions in it, ascending: all that had ended before was acknowledged.
    ///
    /// # Errors
    /// The log makes no sense.
    pub fn play(&mut self, lines: &[(u64, Line)], syncs: &[u64]) -> Result<(), String> {
        let mut under_way: Option<(u64, &Action)> = None;
        let mut syncs = syncs.iter().peekable();
        for (position, line) in lines {
            while syncs.next_if(|sync| **sync < *position).is_some() {
                self.acknowledge_all();
            }
            match (line, under_way.take()) {
                (Line::Begin { number, action }, None) => under_way = Some((*number, action)),
                (Line::End { number }, Some((begun, action))) if begun == *number => {
                    self.apply(begun, action, true)?;
                    self.kept.actions += 1;
                }
                (Line::Gone { number }, Some((begun, action))) if begun == *number => {
                    self.apply(begun, action, false)?;
                }
                (Line::SyncBegun { number, path }, None) => {
                    let state = self.newest();
                    self.file(path)?.sync_begun(*number, state);
                }
                (Line::SyncEnded { number }, other) => {
                    under_way = other;
                    self.sync_ended(*number);
                }
                _ => return Err(format!("a log out of order: {line:?}")),
            }
        }
        if syncs.next().is_some() {
            self.acknowledge_all();
        }
        match under_way {
            Some((number, action)) => self.apply(number, action, false),
            None => Ok(()),
        }
    }

    /// Everything that has ended is durable.
    fn acknowledge_all(&mut self) {
        self.kept.acknowledged += 1;
        self.promise_names(self.newest());
        self.files.values_mut().for_each(File::acknowledge);
        self.lasting.extend(self.symlinks.keys());
    }

    fn newest(&self) -> u64 {
        self.states.last().expect("there is always a state").0
    }

    /// States before `state` cannot come back.
    fn promise_names(&mut self, state: u64) {
        self.states.retain(|(number, _)| *number >= state);
        let named: HashSet<FileNumber> = self.states.iter().flat_map(|(_, names)| files_of(names)).collect();
        self.files.retain(|number, _| named.contains(number));
    }

    fn names(&self) -> &Names {
        &self.states.last().expect("there is always a state").1
    }

    fn change_names(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names().clone();
        change(&mut names);
        self.states.push((self.newest() + 1, names));
    }

    fn file_number(&self, path: &str) -> Result<FileNumber, String> {
        match self.names().get(path) {
            Some(Entry::File(number)) => Ok(*number),
            other => Err(format!("the log changes {path}, which is {other:?}")),
        }
    }

    fn file(&mut self, path: &str) -> Result<&mut File, String> {
        let number = self.file_number(path)?;
        self.files.get_mut(&number).ok_or_else(|| format!("no file {number}"))
    }

    /// A barrier on one file has succeeded: its content is durable, and that it exists.
    fn acknowledge(&mut self, path: &str) -> Result<(), String> {
        self.kept.acknowledged += 1;
        let file = self.file(path)?;
        file.acknowledge();
        let created = file.created;
        self.promise_names(created);
        Ok(())
    }

    /// An `fsync` beside has returned. Its file may be gone for good by now.
    fn sync_ended(&mut self, number: u64) {
        self.kept.acknowledged += 1;
        let of_it = self.files.values_mut().find_map(|file| file.sync_ended(number).then_some(file.created));
        if let Some(created) = of_it {
            self.promise_names(created);
        }
    }

    /// A synchronous write has returned.
    fn acknowledge_range(&mut self, path: &str, offset: u64, len: u64) -> Result<(), String> {
        self.kept.acknowledged += 1;
        let file = self.file(path)?;
        file.change(|contents| contents.acknowledge_range(offset, len));
        let created = file.created;
        self.promise_names(created);
        Ok(())
    }

    /// Notes an action; one that has not `ended` may have happened or not, wholly or in part.
    fn apply(&mut self, number: u64, action: &Action, ended: bool) -> Result<(), String> {
        match action {
            Action::Create { path } => {
                self.change_names(|names| {
                    names.insert(path.clone(), Entry::File(number));
                });
                self.files.insert(number, File::new(Contents::new(), self.newest()));
            }
            Action::Write { path, offset, len, wait } => {
                self.file(path)?.change(|contents| contents.write(number, *offset, *len));
                if ended && *wait != Wait::No {
                    self.acknowledge_range(path, *offset, *len)?;
                }
            }
            Action::SetLen { path, len } => self.file(path)?.change(|contents| contents.set_len(*len)),
            Action::Punch { path, offset, len } => {
                self.file(path)?.change(|contents| contents.punch(*offset, *len));
            }
            Action::Fsync { path } | Action::Fdatasync { path } if ended => self.acknowledge(path)?,
            Action::Close { path } if ended => self.file(path)?.closed = true,
            Action::SyncDirectory { path } if ended => {
                self.kept.acknowledged += 1;
                self.promise_names(self.newest());
                self.promise_files_in(path);
            }
            Action::Fsync { .. }
            | Action::Fdatasync { .. }
            | Action::Close { .. }
            | Action::SyncDirectory { .. } => {}
            Action::Rename { from, to } => self.rename(from, to),
            Action::Exchange { one, other } => self.exchange(one, other),
            Action::Link { from, to } => {
                let file = self.file_number(from)?;
                self.change_names(|names| {
                    names.insert(to.clone(), Entry::File(file));
                });
            }
            Action::Symlink { path } => {
                self.symlinks.insert(number, target(number));
                self.change_names(|names| {
                    names.insert(path.clone(), Entry::Symlink(number));
                });
            }
            Action::Unlink { path } | Action::Rmdir { path } => {
                self.change_names(|names| {
                    names.remove(path);
                });
            }
            Action::Mkdir { path } => {
                self.change_names(|names| {
                    names.insert(path.clone(), Entry::Directory);
                });
            }
        }
        Ok(())
    }

    fn promise_files_in(&mut self, directory: &str) {
        let is_in = |name: &str| name.rsplit_once('/').map_or("", |(above, _)| above) == directory;
        let names = self.names().iter().filter(|(name, _)| is_in(name)).map(|(_, entry)| *entry);
        for entry in names.collect::<Vec<_>>() {
            match entry {
                Entry::File(number) => {
                    if let Some(file) = self.files.get_mut(&number) {
                        file.named = true;
                    }
                }
                Entry::Symlink(number) => drop(self.lasting.insert(number)),
                Entry::Directory => {}
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let (source, replaced) = (self.names().get(from).copied(), self.names().get(to).copied());
        if source == replaced && source != Some(Entry::Directory) {
            // Two names of one file: nothing happens.
            return;
        }
        self.change_names(|names| {
            let moved = taken(names, from);
            put(names, to, moved);
        });
        self.moved(source);
        if let (Some(Entry::File(number)), Some(Entry::File(_))) = (source, replaced) {
            self.promise(number);
        }
    }

    fn exchange(&mut self, one: &str, other: &str) {
        let (first, second) = (self.names().get(one).copied(), self.names().get(other).copied());
        if first == second && first != Some(Entry::Directory) {
            // Two names of one file: nothing happens.
            return;
        }
        self.change_names(|names| {
            let (first, second) = (taken(names, one), taken(names, other));
            put(names, other, first);
            put(names, one, second);
        });
        for entry in [first, second] {
            self.moved(entry);
            if let Some(Entry::File(number)) = entry {
                self.promise(number);
            }
        }
    }

    /// A symlink's new name is durable in it before the entry moves.
    fn moved(&mut self, entry: Option<Entry>) {
        if let Some(Entry::Symlink(number)) = entry {
            self.lasting.insert(number);
        }
    }

    fn promise(&mut self, number: FileNumber) {
        let state = self.newest();
        if let Some(file) = self.files.get_mut(&number) {
            file.promise(state);
        }
    }

    /// Looks for a state that explains what was found.
    ///
    /// # Errors
    /// Nothing does; the text says what is wrong with the nearest.
    pub fn explain(&self, found: &Tree) -> Result<Kept, String> {
        let mut reasons = Vec::new();
        for (state, names) in self.states.iter().rev() {
            match self.explain_state(*state, names, found) {
                Ok((files, pages_of_two)) => {
                    let names_lost = self.newest() - state;
                    return Ok(Kept { names_lost, files, pages_of_two, ..self.kept });
                }
                Err(reason) => reasons.push(format!("state {state}: {reason}")),
            }
        }
        // The state with the right names says most.
        let nearest = reasons.iter().find(|reason| !reason.contains("names ")).unwrap_or(&reasons[0]);
        Err(format!("none of {} states explains what is there: {nearest}", reasons.len()))
    }

    /// A crash may take a file or symlink that was never made durable, by itself or with its directory.
    fn may_be_gone(&self, entry: &Entry, state: u64) -> bool {
        match entry {
            Entry::File(number) => {
                let file = &self.files[number];
                !file.named && !file.contents(state).is_synced()
            }
            Entry::Symlink(number) => !self.lasting.contains(number),
            Entry::Directory => false,
        }
    }

    /// How many files were compared, and how many of their pages are of two versions.
    fn explain_state(&self, state: u64, names: &Names, found: &Tree) -> Result<(u64, u64), String> {
        let expected =
            names.iter().filter(|(name, entry)| found.contains_key(*name) || !self.may_be_gone(entry, state));
        if !expected.map(|(name, _)| name).eq(found.keys()) {
            let (is, should) = (found.keys().collect::<Vec<_>>(), names.keys().collect::<Vec<_>>());
            return Err(format!("names {is:?} instead of {should:?}"));
        }
        let mut inodes: HashMap<FileNumber, u64> = HashMap::new();
        let mut pages_of_two = 0;
        for (name, entry) in names {
            let Some(is) = found.get(name) else { continue };
            match (entry, is) {
                (Entry::Directory, Found::Directory) => {}
                (Entry::Symlink(number), Found::Symlink(target)) if *target == self.symlinks[number] => {}
                (Entry::File(number), Found::File { inode, bytes }) => {
                    if *inodes.entry(*number).or_insert(*inode) != *inode {
                        return Err(format!("{name} is another file than its other name"));
                    }
                    let contents = self.files[number].contents(state);
                    pages_of_two += contents
                        .explain(bytes)
                        .map_err(|reason| format!("{name} (made by {number}): {reason}"))?;
                }
                _ => return Err(format!("{name} is something else")),
            }
        }
        let distinct: HashSet<u64> = inodes.values().copied().collect();
        if distinct.len() != inodes.len() {
            return Err("two files have become one".into());
        }
        Ok((inodes.len() as u64, pages_of_two))
    }
}

/// Takes an entry out of the names, with all that is below it: what stands behind its name, and the entry.
fn taken(names: &mut Names, path: &str) -> Vec<(String, Entry)> {
    let below = format!("{path}/");
    let is_it = |name: &String| name == path || name.starts_with(&below);
    let moved: Vec<String> = names.keys().filter(|name| is_it(name)).cloned().collect();
    let entries = moved.into_iter().map(|name| {
        let entry = names.remove(&name).expect("just listed");
        (name[path.len()..].to_owned(), entry)
    });
    entries.collect()
}

/// Gives what was [`taken`] another name.
fn put(names: &mut Names, path: &str, entries: Vec<(String, Entry)>) {
    names.extend(entries.into_iter().map(|(rest, entry)| (format!("{path}{rest}"), entry)));
}

fn files_of(names: &Names) -> impl Iterator<Item = FileNumber> {
    names.values().filter_map(|entry| match entry {
        Entry::File(number) => Some(*number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::pattern;
    use super::*;

    /// A history in which everything ends but what stands behind `rest`.
    fn log(actions: &[(u64, Action)], unended: &[(u64, Action)]) -> Vec<(u64, Line)> {
        let ended = actions.iter().flat_map(|(number, action)| {
            [Line::Begin { number: *number, action: action.clone() }, Line::End { number: *number }]
        });
        let begun =
            unended.iter().map(|(number, action)| Line::Begin { number: *number, action: action.clone() });
        (1..).zip(ended.chain(begun)).collect()
    }

    fn create(path: &str) -> Action {
        Action::Create { path: path.into() }
    }

    fn write(path: &str, len: u64) -> Action {
        Action::Write { path: path.into(), offset: 0, len, wait: Wait::No }
    }

    fn file(inode: u64, tag: u64, len: usize) -> Found {
        Found::File { inode, bytes: pattern::bytes(tag, 0, len) }
    }

    fn tree(entries: &[(&str, Found)]) -> Tree {
        entries.iter().map(|(name, found)| ((*name).to_owned(), found.clone())).collect()
    }

    fn lane(lines: &[(u64, Line)], syncs: &[u64]) -> Lane {
        let mut lane = Lane::begin(&Tree::new(), 0);
        lane.play(lines, syncs).expect("a log that makes sense");
        lane
    }

    #[test]
    fn names_are_lost_in_their_order_alone() {
        let mkdir = |path: &str| Action::Mkdir { path: path.into() };
        let lane = lane(&log(&[(1, mkdir("a")), (2, mkdir("b"))], &[(3, mkdir("c"))]), &[]);
        let is = |names: &[&str]| {
            lane.explain(&tree(&names.iter().map(|n| (*n, Found::Directory)).collect::<Vec<_>>()))
        };
        for allowed in [&[][..], &["a"], &["a", "b"], &["a", "b", "c"]] {
            assert!(is(allowed).is_ok(), "{allowed:?}");
        }
        assert!(is(&["b"]).is_err());
    }

    #[test]
    fn a_file_that_was_never_synced_may_be_gone_and_no_other() {
        let empty = |inode| Found::File { inode, bytes: Vec::new() };
        let made = [(1, create("a")), (2, create("b"))];
        let lane1 = lane(&log(&made, &[]), &[]);
        assert!(lane1.explain(&tree(&[("b", empty(2))])).is_ok());
        assert!(lane1.explain(&tree(&[("a", empty(1)), ("b", empty(1))])).is_err(), "two have become one");
        let synced = [(3, Action::Fsync { path: "a".into() })];
        let lane2 = lane(&log(&[&made[..], &synced].concat(), &[]), &[]);
        assert!(lane2.explain(&tree(&[("b", empty(2))])).is_err());
        assert!(lane2.explain(&tree(&[("a", empty(1))])).is_ok());
        let named = [(3, Action::SyncDirectory { path: String::new() })];
        let lane3 = lane(&log(&[&made[..], &named].concat(), &[]), &[]);
        assert!(lane3.explain(&tree(&[("a", empty(1))])).is_err());
    }

    #[test]
    fn what_was_acknowledged_is_missed() {
        let sync = Action::SyncDirectory { path: String::new() };
        let lane1 = lane(&log(&[(1, create("a")), (2, sync)], &[]), &[]);
        assert!(lane1.explain(&Tree::new()).is_err());
        let fsync = Action::Fsync { path: "a".into() };
        let lane2 = lane(&log(&[(1, create("a")), (2, write("a", 100)), (3, fsync)], &[]), &[]);
        assert!(lane2.explain(&Tree::new()).is_err());
        assert!(lane2.explain(&tree(&[("a", file(1, 2, 99))])).is_err());
        assert_eq!(lane2.explain(&tree(&[("a", file(1, 2, 100))])).expect("whole").acknowledged, 1);
    }

    #[test]
    fn a_sync_covers_what_had_ended() {
        let lines = log(&[(1, create("a")), (2, write("a", 100)), (3, write("a", 50))], &[]);
        // Behind the end of the first write, before that of the second.
        let lane = lane(&lines, &[5]);
        assert!(lane.explain(&tree(&[("a", file(1, 2, 99))])).is_err());
        let mut newer = pattern::bytes(2, 0, 100);
        newer[..50].copy_from_slice(&pattern::bytes(3, 0, 50));
        assert!(lane.explain(&tree(&[("a", file(1, 2, 100))])).is_ok());
        assert!(lane.explain(&tree(&[("a", Found::File { inode: 1, bytes: newer })])).is_ok());
    }

    #[test]
    fn a_file_renamed_over_another_is_whole_or_not_there() {
        let actions = [
            (1, create("a")),
            (2, Action::Fsync { path: "a".into() }),
            (3, create("b")),
            (4, write("b", 100)),
            (5, Action::Close { path: "b".into() }),
            (6, Action::Rename { from: "b".into(), to: "a".into() }),
        ];
        let lane = lane(&log(&actions, &[]), &[]);
        assert!(lane.explain(&tree(&[("a", file(1, 4, 100))])).is_ok());
        assert!(lane.explain(&tree(&[("a", file(1, 4, 0))])).is_ok(), "the old one");
        assert!(lane.explain(&tree(&[("a", file(1, 4, 0)), ("b", file(2, 4, 50))])).is_ok());
        assert!(lane.explain(&tree(&[("a", file(1, 4, 50))])).is_err(), "half of the new one");
    }

    #[test]
    fn a_directory_takes_its_names_with_it() {
        let actions = [
            (1, Action::Mkdir { path: "d".into() }),
            (2, create("d/f")),
            (3, Action::Link { from: "d/f".into(), to: "g".into() }),
            (4, Action::Rename { from: "d".into(), to: "e".into() }),
            (5, Action::SyncDirectory { path: String::new() }),
        ];
        let lane = lane(&log(&actions, &[]), &[]);
        let empty = Found::File { inode: 1, bytes: Vec::new() };
        let names = [("e", Found::Directory), ("e/f", empty.clone()), ("g", empty)];
        assert!(lane.explain(&tree(&names)).is_ok());
    }

    #[test]
    fn an_exchange_is_whole_or_has_not_been() {
        let actions = [
            (1, Action::Mkdir { path: "d".into() }),
            (2, create("d/f")),
            (3, create("a")),
            (4, Action::SyncDirectory { path: String::new() }),
            (5, Action::SyncDirectory { path: "d".into() }),
            (6, Action::Exchange { one: "d".into(), other: "a".into() }),
        ];
        let lane = lane(&log(&actions, &[]), &[]);
        let empty = |inode| Found::File { inode, bytes: Vec::new() };
        assert!(lane.explain(&tree(&[("a", Found::Directory), ("a/f", empty(1)), ("d", empty(2))])).is_ok());
        assert!(lane.explain(&tree(&[("a", empty(2)), ("d", Found::Directory), ("d/f", empty(1))])).is_ok());
        assert!(lane.explain(&tree(&[("a", Found::Directory), ("a/f", empty(1))])).is_err());
        assert!(lane.explain(&tree(&[("a", empty(2)), ("d", empty(1))])).is_err());
    }

    #[test]
    fn files_that_were_exchanged_are_whole() {
        let close = |path: &str| Action::Close { path: path.into() };
        let actions = [
            (1, create("a")),
            (2, write("a", 100)),
            (3, close("a")),
            (4, create("b")),
            (5, write("b", 200)),
            (6, close("b")),
            (7, Action::Exchange { one: "a".into(), other: "b".into() }),
        ];
        let lane = lane(&log(&actions, &[]), &[]);
        assert!(lane.explain(&tree(&[("a", file(2, 5, 200)), ("b", file(1, 2, 100))])).is_ok());
        assert!(lane.explain(&tree(&[("a", file(1, 2, 50)), ("b", file(2, 5, 0))])).is_ok(), "before");
        assert!(lane.explain(&tree(&[("a", file(2, 5, 200)), ("b", file(1, 2, 50))])).is_err());
        assert!(lane.explain(&tree(&[("a", file(2, 5, 150)), ("b", file(1, 2, 100))])).is_err());
    }

    /// A write, an fsync beside that covers it, another write, and whether the fsync returned before that.
    fn synced_beside(ended: bool) -> Lane {
        let mut lines = log(&[(1, create("a")), (2, write("a", 100))], &[]);
        let mut note = |line| {
            let position = lines.len() as u64 + 1;
            lines.push((position, line));
        };
        note(Line::SyncBegun { number: 9, path: "a".into() });
        note(Line::Begin { number: 3, action: Action::SetLen { path: "a".into(), len: 0 } });
        if ended {
            note(Line::SyncEnded { number: 9 });
        }
        note(Line::End { number: 3 });
        lane(&lines, &[])
    }

    #[test]
    fn an_fsync_beside_promises_what_was_there_when_it_began() {
        let empty = || Found::File { inode: 1, bytes: Vec::new() };
        for ended in [true, false] {
            let lane = synced_beside(ended);
            assert!(lane.explain(&tree(&[("a", file(1, 2, 100))])).is_ok());
            assert!(lane.explain(&tree(&[("a", empty())])).is_ok(), "cut since");
            assert_eq!(lane.explain(&tree(&[("a", file(1, 2, 50))])).is_err(), ended);
            assert_eq!(lane.explain(&Tree::new()).is_err(), ended);
        }
    }
}
