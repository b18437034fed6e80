//! Special files, modes and access control lists in histories. What a list
//! does to a mode, and what is inherited, the library says itself: here it is
//! only held to keep it across a crash.

use std::collections::BTreeMap;

use strongroom_store::{Kind, XattrMode};
use strongroom_vault::namespace::acl::Acl;
use strongroom_vault::namespace::{Changes, Creation};

use super::Trial;
use crate::crash_model::tree::{Body, Id, Place, Tree};
use crate::support::CREATION;

/// The list that decides access.
const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list that a directory hands on.
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Tags of the binary form, `acl(5)`: owner, named user, owning group, mask,
/// others.
const TAGS: [u16; 5] = [0x01, 0x02, 0x04, 0x10, 0x20];
const NAMED_USER: u16 = 0x02;
const MASK: u16 = 0x10;

/// What a new inode is to be given.
pub(super) struct Given {
    pub(super) mode: u32,
    pub(super) lists: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn may_have_lists(tree: &Tree, id: Id) -> bool {
    !tree.is_symlink(id)
}

impl Trial {
    /// What an inode of this kind and mode gets in `parent`.
    pub(super) fn given(&self, parent: Id, mode: u32, kind: Kind) -> Given {
        let mut given = Given { mode, lists: BTreeMap::new() };
        let Some(bytes) = self.tree.inodes[&parent].xattrs.get(DEFAULT) else { return given };
        let default = Acl::parse(bytes).expect("a valid list").expect("a list with entries");
        let (access, mode) = default.inherited(mode);
        given.mode = mode;
        if !access.is_mode() {
            given.lists.insert(ACCESS.to_vec(), access.to_bytes());
        }
        if kind == Kind::Directory {
            given.lists.insert(DEFAULT.to_vec(), bytes.clone());
        }
        given
    }

    pub(super) fn make_special(&mut self) {
        let Some(place) = self.free_place() else { return };
        if self.is_full() {
            return;
        }
        let kinds = [Kind::Fifo, Kind::Socket, Kind::CharacterDevice, Kind::BlockDevice];
        let kind = kinds[self.rng.below(4) as usize];
        let device = match kind {
            Kind::CharacterDevice | Kind::BlockDevice => self.rng.below(1 << 20),
            _ => 0,
        };
        let given = self.given(place.0, 0o640, kind);
        self.note(format!("make {kind:?} {place:?}"));
        let begun = self.store.position();
        self.within(place.0, |trial, parent| {
            let names = trial.vault().namespace();
            let creation = Creation { mode: 0o640, ..CREATION };
            let entry = names.make_special(parent, place.1.as_bytes(), kind, device, &creation).unwrap();
            names.forget(entry.number, 1);
        });
        let id = self.new_inode(Body::Special(kind, device), Some(given.mode));
        self.tree.put(&place, id);
        if !given.lists.is_empty() {
            self.note_names(begun);
            self.tree.inode_mut(id).xattrs = given.lists;
        }
        self.note_names(begun);
    }

    fn list(&mut self) -> Vec<u8> {
        // Now and then one that is a mode and no more.
        let is_plain = self.rng.below(4) == 0;
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for tag in TAGS.into_iter().filter(|tag| !is_plain || ![NAMED_USER, MASK].contains(tag)) {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&(self.rng.below(8) as u16).to_le_bytes());
            let id = if tag == NAMED_USER { 1000 } else { u32::MAX };
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    pub(super) fn change_list(&mut self) {
        let Some((place, id)) = self.pick(may_have_lists) else { return };
        let hands_on = self.tree.is_directory(id) && self.rng.below(2) == 0;
        let name = if hands_on { DEFAULT } else { ACCESS };
        let begun = self.store.position();
        if self.tree.inodes[&id].xattrs.contains_key(name) && self.rng.below(3) == 0 {
            self.note(format!("remove list of #{id}"));
            self.with_number(&place, |trial, number| {
                trial.vault().namespace().remove_xattr(number, name).unwrap();
            });
            self.tree.inode_mut(id).xattrs.remove(name);
        } else {
            self.set_list(&place, id, name, begun);
        }
        self.note_names(begun);
        self.note_need(id);
    }

    /// A list is set before the mode that goes with it, and removed after:
    /// in between the list decides, which is the new one or the old.
    fn set_list(&mut self, place: &Place, id: Id, name: &[u8], begun: usize) {
        let bytes = self.list();
        let acl = Acl::parse(&bytes).expect("a valid list").expect("a list with entries");
        self.note(format!("list of #{id}, mode {:o}", acl.mode_bits()));
        self.with_number(place, |trial, number| {
            trial.vault().namespace().set_xattr(number, name, &bytes, XattrMode::Any, false).unwrap();
        });
        if name == DEFAULT {
            self.tree.inode_mut(id).xattrs.insert(name.to_vec(), bytes);
            return;
        }
        let mode = self.tree.inodes[&id].mode.map(|mode| (mode & 0o7000) | acl.mode_bits());
        let inode = self.tree.inode_mut(id);
        if acl.is_mode() {
            inode.mode = mode;
            self.note_names(begun);
            self.tree.inode_mut(id).xattrs.remove(name);
        } else {
            inode.xattrs.insert(name.to_vec(), bytes);
            self.note_names(begun);
            self.tree.inode_mut(id).mode = mode;
        }
    }

    pub(super) fn change_mode(&mut self) {
        let Some((place, id)) = self.pick(|tree, id| !tree.is_symlink(id)) else { return };
        let mode = 0o400 | self.rng.below(0o400) as u32;
        self.note(format!("chmod #{id} {mode:o}"));
        let begun = self.store.position();
        self.with_number(&place, |trial, number| {
            let changes = Changes { mode: Some(mode), ..Changes::NONE };
            trial.vault().namespace().set_attributes(number, &changes).unwrap();
        });
        let inode = self.tree.inode_mut(id);
        if let Some(bytes) = inode.xattrs.get_mut(ACCESS) {
            let acl = Acl::parse(bytes).expect("a valid list").expect("a list with entries");
            *bytes = acl.with_mode(mode).to_bytes();
            self.note_names(begun);
        }
        self.tree.inode_mut(id).mode = Some(mode);
        self.note_names(begun);
        self.note_need(id);
    }
}
