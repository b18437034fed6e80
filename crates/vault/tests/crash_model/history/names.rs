//! Changes of names in histories: renames, links, directories, symlinks, files that are made without one,
//! and attributes.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_store::{Kind, RenameMode, XattrMode};
use strongroom_vault::namespace::Creation;

use super::{DIRECTORIES, Trial};
use crate::crash_model::tree::{Body, Id, Place, Tree};
use crate::support::CREATION;

impl Trial {
    fn stored_rename(&mut self, from: &Place, to: &Place, mode: RenameMode) {
        self.within(from.0, |trial, parent| {
            trial.within(to.0, |trial, to_parent| {
                let names = trial.vault().namespace();
                names.rename(parent, from.1.as_bytes(), to_parent, to.1.as_bytes(), mode).unwrap();
            });
        });
        // Rule 6: whoever sees it under its new name sees all of it.
        let other = self.tree.at(to).filter(|_| mode == RenameMode::Exchange);
        for id in self.tree.at(from).into_iter().chain(other) {
            self.promise_special(id);
        }
    }

    pub(super) fn rename(&mut self, mode: RenameMode) {
        let Some((from, id)) = self.pick(|_, _| true) else { return };
        let to = match self.rng.below(2) {
            0 => self.pick(|_, _| true).map(|(place, _)| place),
            _ => Some((self.directory(), self.name())),
        };
        let Some(to) = to else { return };
        let target = self.tree.at(&to);
        let moves_directory = self.tree.is_directory(id);
        let onto_directory = target.is_some_and(|target| self.tree.is_directory(target));
        let into_itself = moves_directory && self.tree.is_below(to.0, id);
        let out_of_target = target.is_some_and(|target| onto_directory && self.tree.is_below(from.0, target));
        let exchange = mode == RenameMode::Exchange;
        if target == Some(id) || into_itself || out_of_target || (exchange && target.is_none()) {
            return;
        }
        if !exchange && target.is_some() && (moves_directory || onto_directory) {
            return;
        }
        for id in [Some(id), target].into_iter().flatten() {
            if self.rng.below(2) == 0 {
                self.close_file(id);
            }
        }
        self.note(format!("rename {mode:?} {from:?} to {to:?} (#{id} over {target:?})"));
        let begun = self.store.position();
        self.stored_rename(&from, &to, mode);
        self.tree.take(&from);
        self.tree.put(&to, id);
        if exchange {
            self.tree.put(&from, target.expect("checked"));
        }
        self.note_names(begun);
        // Rule 6: whoever sees the name replaced sees the source whole.
        let whole = if exchange { vec![Some(id), target] } else { vec![target.map(|_| id)] };
        let position = self.store.position();
        for id in whole.into_iter().flatten() {
            if self.files.contains_key(&id) {
                self.promise_file(id, position);
            }
        }
        if let Some(target) = target {
            self.drop_if_nameless(target);
        }
    }

    /// Half of the removed files stay open for a while.
    pub(super) fn drop_if_nameless(&mut self, id: Id) {
        if self.tree.place_of(id).is_none() {
            self.tree.inodes.remove(&id);
            let open = self.open.get(&id).map(|(_, content)| Arc::clone(content));
            if let Some(content) = open.filter(|_| self.rng.below(2) == 0) {
                let data = self.data(100);
                self.change(id, &content, 0, &data);
            }
            self.close_file(id);
        }
    }

    /// What editors do: write aside, sync, rename over.
    pub(super) fn replace_aside(&mut self) {
        let Some((to, target)) = self.pick_file() else { return };
        let aside = (to.0, "aside".to_owned());
        if self.tree.at(&aside).is_some() {
            return;
        }
        let (id, content) = self.create(&aside);
        let len = 1 + self.rng.below(self.size.min(16 << 10) * 3);
        let data = self.data(len);
        self.change(id, &content, 0, &data);
        if self.rng.below(2) == 0 {
            self.sync_file(id, &content);
        }
        drop(content);
        if self.rng.below(2) == 0 {
            self.close_file(id);
        }
        self.note(format!("rename #{id} over #{target} at {to:?}"));
        let begun = self.store.position();
        self.stored_rename(&aside, &to, RenameMode::Replace);
        self.tree.take(&aside);
        self.tree.put(&to, id);
        self.note_names(begun);
        let position = self.store.position();
        self.promise_file(id, position);
        self.drop_if_nameless(target);
    }

    pub(super) fn remove(&mut self) {
        let Some((place, id)) = self.pick(|tree, id| !tree.is_directory(id)) else { return };
        if self.rng.below(2) == 0 {
            self.close_file(id);
        }
        self.note(format!("remove #{id} at {place:?}"));
        let begun = self.store.position();
        self.within(place.0, |trial, parent| {
            trial.vault().namespace().remove(parent, place.1.as_bytes()).unwrap();
        });
        self.tree.take(&place);
        self.note_names(begun);
        self.drop_if_nameless(id);
    }

    pub(super) fn make_directory(&mut self) {
        let Some(place) = self.free_place() else { return };
        if self.is_full() || self.tree.directories().len() > DIRECTORIES {
            return;
        }
        // A directory that its owner may not write gets its mode in a step of its own.
        let mode = [0o755, 0o700, 0o555][self.rng.below(3) as usize];
        self.note(format!("mkdir {place:?} {mode:o}"));
        let begun = self.store.position();
        self.within(place.0, |trial, parent| {
            let names = trial.vault().namespace();
            let creation = Creation { mode, ..CREATION };
            let entry = names.make_directory(parent, place.1.as_bytes(), &creation).unwrap();
            names.forget(entry.number, 1);
        });
        let given = self.given(place.0, mode, Kind::Directory);
        let passing = given.mode | 0o700;
        let id = self.new_inode(Body::Directory(BTreeMap::new()), Some(passing));
        self.tree.inode_mut(id).xattrs = given.lists;
        self.tree.put(&place, id);
        if passing != given.mode {
            self.note_names(begun);
            self.tree.inode_mut(id).mode = Some(given.mode);
        }
        self.note_names(begun);
    }

    fn empty_directory(&mut self) -> Option<(Place, Id)> {
        self.pick(|tree, id| tree.is_directory(id) && tree.entries(id).is_empty())
    }

    pub(super) fn remove_directory(&mut self) {
        let Some((place, id)) = self.empty_directory() else { return };
        self.note(format!("rmdir #{id} at {place:?}"));
        let begun = self.store.position();
        self.within(place.0, |trial, parent| {
            trial.vault().namespace().remove_directory(parent, place.1.as_bytes()).unwrap();
        });
        self.tree.take(&place);
        self.tree.inodes.remove(&id);
        self.note_names(begun);
    }

    /// A directory over an empty one: in between the empty one stands in the
    /// source's place.
    pub(super) fn replace_empty_directory(&mut self) {
        let Some((to, target)) = self.empty_directory() else { return };
        let Some((from, id)) = self.pick(Tree::is_directory) else { return };
        if id == target || from.0 == target || self.tree.is_below(to.0, id) {
            return;
        }
        self.note(format!("rename #{id} at {from:?} over the empty #{target} at {to:?}"));
        let begun = self.store.position();
        self.stored_rename(&from, &to, RenameMode::Replace);
        self.tree.put(&to, id);
        self.tree.put(&from, target);
        self.note_names(begun);
        self.tree.take(&from);
        self.tree.inodes.remove(&target);
        self.note_names(begun);
    }

    pub(super) fn link(&mut self) {
        let Some((from, id)) = self.pick(|tree, id| !tree.is_directory(id)) else { return };
        let Some(to) = self.free_place() else { return };
        if self.is_full() {
            return;
        }
        self.note(format!("link #{id} to {to:?}"));
        let begun = self.store.position();
        self.with_number(&from, |trial, number| trial.link_number(number, &to));
        self.promise_special(id);
        self.tree.put(&to, id);
        self.note_names(begun);
    }

    fn link_number(&self, number: u64, to: &Place) {
        self.within(to.0, |trial, parent| {
            let names = trial.vault().namespace();
            let entry = names.link(number, parent, to.1.as_bytes()).unwrap();
            names.forget(entry.number, 1);
        });
    }

    /// A file made without a name, and given one.
    pub(super) fn unnamed(&mut self) {
        let Some(to) = self.free_place() else { return };
        if self.is_full() {
            return;
        }
        self.note(format!("unnamed for {to:?}"));
        let (entry, content) = self.within(to.0, |trial, parent| {
            trial.vault().namespace().create_unnamed(parent, &CREATION).unwrap()
        });
        let given = self.given(to.0, CREATION.mode, Kind::File);
        let id = self.adopt(&entry, &content, given.mode);
        self.tree.inode_mut(id).xattrs = given.lists;
        let len = self.rng.below(self.size.min(16 << 10) * 2);
        if len > 0 {
            let data = self.data(len);
            self.change(id, &content, 0, &data);
        }
        let begun = self.store.position();
        self.link_number(entry.number, &to);
        self.tree.put(&to, id);
        self.note_names(begun);
        // Rule 6: whoever sees the name sees what had been written.
        let position = self.store.position();
        self.promise_file(id, position);
        self.needs.insert(id, 0);
    }

    pub(super) fn make_symlink(&mut self) {
        let Some(place) = self.free_place() else { return };
        if self.is_full() {
            return;
        }
        let len = [20, 200, 3900][self.rng.below(3) as usize];
        let target: Vec<u8> = (0..len).map(|_| b'a' + self.rng.below(26) as u8).collect();
        self.note(format!("symlink of {len} at {place:?}"));
        let begun = self.store.position();
        self.within(place.0, |trial, parent| {
            let names = trial.vault().namespace();
            let entry = names.make_symlink(parent, place.1.as_bytes(), &target, &CREATION).unwrap();
            names.forget(entry.number, 1);
        });
        let id = self.new_inode(Body::Symlink(target.into()), None);
        self.tree.put(&place, id);
        self.note_names(begun);
    }

    pub(super) fn change_xattr(&mut self) {
        let Some((place, id)) = self.pick(|tree, id| tree.is_file(id) || tree.is_directory(id)) else {
            return;
        };
        let name = format!("user.{}", self.rng.below(3)).into_bytes();
        let begun = self.store.position();
        let known = self.tree.inodes[&id].xattrs.contains_key(&name);
        self.note(format!("attribute of #{id}"));
        if known && self.rng.below(2) == 0 {
            self.with_number(&place, |trial, number| {
                trial.vault().namespace().remove_xattr(number, &name).unwrap();
            });
            self.tree.inode_mut(id).xattrs.remove(&name);
        } else {
            let len = self.rng.below(300);
            let value = self.data(len);
            self.with_number(&place, |trial, number| {
                let names = trial.vault().namespace();
                names.set_xattr(number, &name, &value, XattrMode::Any, false).unwrap();
            });
            self.tree.inode_mut(id).xattrs.insert(name, value);
        }
        self.note_names(begun);
        self.note_need(id);
    }

    pub(super) fn note_need(&mut self, id: Id) {
        if self.files.contains_key(&id) {
            self.needs.insert(id, self.current());
        }
    }
}
