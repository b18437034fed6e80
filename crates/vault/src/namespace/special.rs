//! Special records between their stored and their opened form: symlinks,
//! FIFOs, sockets and device nodes (`docs/format/vault.md`, section 4.3).
//!
//! No input or output but for reading a record whole. What is done with them is
//! in `symlink`, `create`, `rename` and `link`.

use strongroom_format::vault::names::link_name;
use strongroom_format::vault::special::{
    BODY_OVERHEAD, Head, LEN_MAX, Parts, SLOT_LEN, SLOT_OFFSETS, Slot, Special, head,
};
use strongroom_format::vault::{FileId, WriteSession};
use strongroom_keys::random::array as random;
use strongroom_store::{Access, Kind, NodeRef};

use super::names::{Names, damaged, entropy, unopened};
use crate::content::Home;
use crate::error::{Damage, Result};
use crate::reader_rules::ReaderRule;
use crate::reading::read_at;
use crate::sync::Mutex;

use super::inode::lock;

/// A special record that opens.
pub(super) struct Record {
    head: Head,
    special: Special,
    slots: Mutex<[Option<Slot>; 2]>,
    /// The target of a symlink, where it stands in the record.
    target: Option<Box<[u8]>>,
}

/// Why a stored file that is as long as a special record is none.
pub(super) struct NoRecord {
    pub(super) damage: Damage,
    /// The session that made it; none where its head was never written.
    pub(super) birth: Option<WriteSession>,
}

/// A slot to be written, and where.
pub(super) struct SlotWrite {
    pub(super) offset: u64,
    pub(super) sealed: [u8; SLOT_LEN],
    /// It takes the place of one with a home that the file had before.
    pub(super) forgets: bool,
    index: usize,
    slot: Slot,
}

impl Record {
    /// Its id.
    pub(super) fn id(&self) -> FileId {
        self.head.file
    }

    /// The session that made it.
    pub(super) fn birth(&self) -> WriteSession {
        self.head.birth
    }

    /// What it stands for.
    pub(super) fn special(&self) -> Special {
        self.special
    }

    pub(super) fn kind(&self) -> Kind {
        match self.special {
            Special::Symlink { .. } => Kind::Symlink,
            Special::Fifo => Kind::Fifo,
            Special::Socket => Kind::Socket,
            Special::CharacterDevice(_) => Kind::CharacterDevice,
            Special::BlockDevice(_) => Kind::BlockDevice,
        }
    }

    /// The device number of a device node, else zero.
    pub(super) fn device(&self) -> u64 {
        match self.special {
            Special::CharacterDevice(device) | Special::BlockDevice(device) => device,
            Special::Symlink { .. } | Special::Fifo | Special::Socket => 0,
        }
    }

    /// Bytes of a symlink's target, else zero.
    pub(super) fn target_len(&self) -> u64 {
        match self.special {
            Special::Symlink { target_len, .. } => target_len.into(),
            _ => 0,
        }
    }

    /// The target, where it stands in the record.
    pub(super) fn inline_target(&self) -> Option<&[u8]> {
        self.target.as_deref()
    }

    /// The name in `.strongroom/links` of the file that holds the target, where
    /// one does.
    pub(super) fn side(&self) -> Option<Vec<u8>> {
        self.special.has_side().then(|| link_name(self.head.file).into_bytes())
    }

    /// Whether it may stand under this home.
    pub(super) fn belongs(&self, home: Home) -> bool {
        let slots = *lock(&self.slots);
        let is_home = slots.iter().flatten().any(|slot| slot.home == home.mac);
        self.is_linked() || is_home || !ReaderRule::SpecialHome.is_kept()
    }

    /// Whether it has had several names, and is bound to none.
    pub(super) fn is_linked(&self) -> bool {
        newest(&lock(&self.slots)).is_some_and(|slot| slot.linked)
    }

    /// The home that was written last.
    pub(super) fn home(&self) -> Home {
        let newest = newest(&lock(&self.slots));
        newest.map_or(Home::UNBOUND, |slot| Home { mac: slot.home, directory: slot.directory })
    }

    /// Takes over the slots of the same record, read again; false when it is
    /// another one.
    pub(super) fn renew(&self, again: &Record) -> bool {
        let is_same = again.head == self.head && again.special == self.special;
        if is_same {
            let slots = *lock(&again.slots);
            *lock(&self.slots) = slots;
        }
        is_same
    }
}

fn newest(slots: &[Option<Slot>; 2]) -> Option<Slot> {
    slots.iter().flatten().copied().max_by_key(|slot| slot.sequence)
}

/// Reads a stored file that is as long as a special record; none when it is
/// longer by now.
pub(super) fn read_whole(node: &NodeRef) -> Result<Option<Vec<u8>>> {
    let file = node.open(Access::Read)?;
    let mut bytes = vec![0; LEN_MAX + 1];
    let len = read_at(&*file, &mut bytes, 0)?;
    bytes.truncate(len);
    Ok((len <= LEN_MAX).then_some(bytes))
}

/// A new special record, and what is to be stored of it.
pub(super) struct NewRecord {
    pub(super) record: Record,
    pub(super) bytes: Vec<u8>,
    /// A target that stands in a file of its own: its name, and the sealed
    /// target.
    pub(super) side: Option<(Vec<u8>, Vec<u8>)>,
}

/// What a new special record is to stand for.
pub(super) enum NewSpecial<'a> {
    Symlink(&'a [u8]),
    Other(Special),
}

impl Names {
    /// Seals a new special record.
    pub(super) fn new_special(
        &self,
        new: &NewSpecial<'_>,
        home: Home,
        birth: WriteSession,
    ) -> Result<NewRecord> {
        let file = FileId(random().map_err(entropy)?);
        let (special, body) = match *new {
            NewSpecial::Other(special) => (special, Vec::new()),
            NewSpecial::Symlink(target) => {
                let body = self.specials.seal_body(file, target).map_err(entropy)?;
                let target_len = u16::try_from(target.len()).expect("a target is at most 4095 bytes long");
                let body_tag = *body.first_chunk().expect("sealed bytes begin with their tag");
                (Special::Symlink { target_len, body_tag }, body)
            }
        };
        let head = Head { birth, file };
        let slot = Slot { sequence: 1, linked: false, home: home.mac, directory: home.directory, special };
        let bytes_of_head = head.encode();
        let sealed = self.specials.seal_slot(0, &bytes_of_head, &slot.encode());
        let (inline, side) = match special.has_side() {
            true => (Vec::new(), Some((link_name(file).into_bytes(), body))),
            false => (body, None),
        };
        let parts = Parts { head: &bytes_of_head, slots: [&sealed, &[0; SLOT_LEN]], body: &inline };
        let target = match *new {
            NewSpecial::Symlink(target) if side.is_none() => Some(target.into()),
            _ => None,
        };
        let bytes = parts.join();
        Ok(NewRecord {
            record: Record { head, special, slots: Mutex::new([Some(slot), None]), target },
            bytes,
            side,
        })
    }

    /// Opens a special record.
    pub(super) fn open_special(&self, stored: &[u8]) -> std::result::Result<Record, NoRecord> {
        let head = head_of(stored);
        let no_record = |what| NoRecord { damage: Damage::Name(what), birth: head.map(|head| head.birth) };
        let head = head.ok_or_else(|| no_record("a short stored file is no special record"))?;
        let parts = Parts::split(stored).map_err(|_| no_record("a special record is malformed"))?;
        let slots = [0, 1].map(|index| self.open_slot(&parts, index));
        let Some(newest) = newest(&slots) else {
            return Err(no_record("a special record does not open"));
        };
        if slots.iter().flatten().any(|slot| slot.special != newest.special) {
            return Err(no_record("a special record's slots contradict each other"));
        }
        if stored.len() != newest.special.stored_len() {
            return Err(no_record("a special record has not its length"));
        }
        let target = match newest.special {
            Special::Symlink { .. } if !newest.special.has_side() => {
                let target = self.open_body(head.file, newest.special, parts.body);
                Some(target.map_err(|_| no_record("a symlink's target does not open"))?)
            }
            _ => None,
        };
        Ok(Record { head, special: newest.special, slots: Mutex::new(slots), target })
    }

    fn open_slot(&self, parts: &Parts<'_>, index: usize) -> Option<Slot> {
        let number = u8::try_from(index).expect("two slots");
        let opened = self.specials.open_slot(number, parts.head, parts.slots[index]).ok()?;
        Slot::decode(&opened).ok()
    }

    fn open_body(&self, file: FileId, special: Special, sealed: &[u8]) -> Result<Box<[u8]>> {
        let Special::Symlink { target_len, body_tag } = special else {
            return Err(damaged("a special record that is no symlink has a target"));
        };
        let is_named =
            sealed.len() == BODY_OVERHEAD + usize::from(target_len) && sealed.starts_with(&body_tag);
        if !is_named {
            return Err(damaged("a symlink's target is another's"));
        }
        let target = self.specials.open_body(file, sealed);
        Ok(target.map_err(unopened("a symlink's target does not open"))?.into_boxed_slice())
    }

    /// Opens the target of a symlink that stands in a file of its own.
    pub(super) fn open_side_body(&self, record: &Record, sealed: &[u8]) -> Result<Box<[u8]>> {
        self.open_body(record.head.file, record.special, sealed)
    }

    /// The slot to be written so that a record belongs under `to`, while
    /// the entry stands under `from`: the slot that names that stays. None when
    /// there is nothing to write. `linked` makes it belong under any name.
    pub(super) fn rebound(&self, record: &Record, from: Home, to: Home, linked: bool) -> Option<SlotWrite> {
        let slots = *lock(&record.slots);
        let newest = newest(&slots)?;
        let is_there = slots.iter().flatten().any(|slot| slot.home == to.mac);
        if newest.linked || (is_there && !linked) {
            return None;
        }
        Some(self.next_slot(record, &slots, newest, (from, to), linked))
    }

    /// The slot to be written so that a linked record belongs under `home` alone.
    /// None when it is not linked.
    pub(super) fn rebound_alone(&self, record: &Record, home: Home) -> Option<SlotWrite> {
        let slots = *lock(&record.slots);
        let newest = newest(&slots).filter(|newest| newest.linked)?;
        Some(self.next_slot(record, &slots, newest, (home, home), false))
    }

    fn next_slot(
        &self,
        record: &Record,
        slots: &[Option<Slot>; 2],
        newest: Slot,
        (from, to): (Home, Home),
        linked: bool,
    ) -> SlotWrite {
        let index = match slots {
            [Some(one), Some(_)] if one.home == from.mac => 1,
            [Some(_), Some(other)] if other.home == from.mac => 0,
            [Some(one), Some(other)] => usize::from(other.sequence < one.sequence),
            [None, _] => 0,
            [_, None] => 1,
        };
        let slot = Slot {
            sequence: newest.sequence + 1,
            linked,
            home: to.mac,
            directory: to.directory,
            special: record.special,
        };
        let number = u8::try_from(index).expect("two slots");
        let sealed = self.specials.seal_slot(number, &record.head.encode(), &slot.encode());
        let forgets = slots[index].is_some_and(|slot| slot.home != from.mac);
        let offset = SLOT_OFFSETS[index] as u64;
        SlotWrite { offset, sealed, forgets, index, slot }
    }

    /// What stands for the record in a freshness file.
    pub(super) fn mark(&self, record: &Record) -> [u8; 16] {
        let tag = match record.special {
            Special::Symlink { body_tag, .. } => body_tag,
            _ => [0; 16],
        };
        self.records.special(record.head.file, tag)
    }
}

impl SlotWrite {
    /// The slot is about to be written: what stands there is not known any more.
    pub(super) fn begin(&self, record: &Record) {
        lock(&record.slots)[self.index] = None;
    }

    /// The slot has been written.
    pub(super) fn end(&self, record: &Record) {
        lock(&record.slots)[self.index] = Some(self.slot);
    }
}

fn head_of(stored: &[u8]) -> Option<Head> {
    Head::decode(stored.first_chunk::<{ head::LEN }>()?).ok()
}

/// Whether nothing of a short stored file was ever written, as far as can be
/// seen: its head is missing, or zeros.
pub(super) fn is_unwritten(stored: &[u8]) -> bool {
    stored.len() < head::LEN || stored[..head::LEN].iter().all(|&byte| byte == 0)
}
