//! POSIX access control lists: the binary form in which the kernel passes
//! them, their rules (POSIX 1003.1e draft 17, `acl(5)`), and what follows from
//! them for permission bits.
//!
//! Not done here: access checks, which are the kernel's, and storing.

use crate::error::{Error, Result, errno};

/// Version of the binary form.
const VERSION: u32 = 2;
/// Bytes before the entries.
const HEADER_LEN: usize = 4;
/// Bytes of an entry: tag, permissions, id.
const ENTRY_LEN: usize = 8;
/// The id of entries that name nobody.
const UNDEFINED_ID: u32 = u32::MAX;

/// Whom an entry is for. The order is that of a valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

impl Tag {
    fn from_wire(tag: u16, id: u32) -> Option<Tag> {
        Some(match tag {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return None,
        })
    }

    fn wire(self) -> (u16, u32) {
        match self {
            Tag::Owner => (0x01, UNDEFINED_ID),
            Tag::User(id) => (0x02, id),
            Tag::OwningGroup => (0x04, UNDEFINED_ID),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, UNDEFINED_ID),
            Tag::Other => (0x20, UNDEFINED_ID),
        }
    }

    /// Place among the tags; named entries of one sort share it.
    fn rank(self) -> u8 {
        match self {
            Tag::Owner => 0,
            Tag::User(_) => 1,
            Tag::OwningGroup => 2,
            Tag::Group(_) => 3,
            Tag::Mask => 4,
            Tag::Other => 5,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: Tag,
    /// Read 4, write 2, execute 1.
    permissions: u8,
}

/// A valid list: owner, owning group and others exactly once, a mask when
/// anybody is named, in the order of `Tag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

impl Acl {
    /// Reads the binary form; `None` for a list without entries, which stands
    /// for "no list".
    ///
    /// # Errors
    /// `EOPNOTSUPP` for another version, `EINVAL` for anything that is no
    /// valid list.
    pub fn parse(bytes: &[u8]) -> Result<Option<Acl>> {
        let invalid = || Error::Refused(errno::EINVAL);
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or_else(invalid)?;
        if u32::from_le_bytes(*header) != VERSION {
            return Err(Error::Refused(errno::EOPNOTSUPP));
        }
        if rest.len() % ENTRY_LEN != 0 {
            return Err(invalid());
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let entries = rest.chunks_exact(ENTRY_LEN).map(|entry| {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let permissions = u16::from_le_bytes([entry[2], entry[3]]);
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            let permissions = u8::try_from(permissions).ok().filter(|bits| *bits <= 7)?;
            Some(AclEntry { tag: Tag::from_wire(tag, id)?, permissions })
        });
        let acl = Acl { entries: entries.collect::<Option<Vec<_>>>().ok_or_else(invalid)? };
        if acl.is_valid() { Ok(Some(acl)) } else { Err(invalid()) }
    }

    /// The binary form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN + ENTRY_LEN * self.entries.len());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for entry in &self.entries {
            let (tag, id) = entry.tag.wire();
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&u16::from(entry.permissions).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    fn is_valid(&self) -> bool {
        let ordered = self.entries.windows(2).all(|pair| {
            let (first, second) = (pair[0].tag.rank(), pair[1].tag.rank());
            first < second || (first == second && matches!(pair[0].tag, Tag::User(_) | Tag::Group(_)))
        });
        let has = |rank| self.entries.iter().any(|entry| entry.tag.rank() == rank);
        let named = self.entries.iter().any(|entry| match entry.tag {
            Tag::User(_) | Tag::Group(_) => true,
            Tag::Owner | Tag::OwningGroup | Tag::Mask | Tag::Other => false,
        });
        let nobody = self
            .entries
            .iter()
            .any(|entry| matches!(entry.tag, Tag::User(UNDEFINED_ID) | Tag::Group(UNDEFINED_ID)));
        ordered
            && !nobody
            && has(Tag::Owner.rank())
            && has(Tag::OwningGroup.rank())
            && has(Tag::Other.rank())
            && (!named || has(Tag::Mask.rank()))
    }

    /// True when the permission bits say all that the list says.
    #[must_use]
    pub fn is_mode(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::OwningGroup | Tag::Other))
    }

    /// The nine permission bits that go with the list: the mask, where there
    /// is one, stands in the group's place.
    #[must_use]
    pub fn mode_bits(&self) -> u32 {
        let mask = self.entries.iter().any(|entry| entry.tag == Tag::Mask);
        self.entries
            .iter()
            .map(|entry| {
                let bits = u32::from(entry.permissions);
                match entry.tag {
                    Tag::Owner => bits << 6,
                    Tag::OwningGroup if !mask => bits << 3,
                    Tag::Mask => bits << 3,
                    Tag::Other => bits,
                    Tag::OwningGroup | Tag::User(_) | Tag::Group(_) => 0,
                }
            })
            .sum()
    }

    /// The list after `chmod(mode)`.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Acl {
        self.each_class(|permissions, bits| *permissions = bits, mode);
        self
    }

    /// What an inode created with `mode` under a directory with this default
    /// list gets: its access list and the permission bits that go with it.
    #[must_use]
    pub fn inherited(mut self, mode: u32) -> (Acl, u32) {
        self.each_class(|permissions, bits| *permissions &= bits, mode);
        let bits = (mode & !0o777) | self.mode_bits();
        (self, bits)
    }

    /// The nine permission bits for an inode that the list itself cannot be
    /// kept with: the group's are those of the owning group under the mask, so
    /// that it gets nothing which the mask gives to others that are named.
    #[must_use]
    pub fn bits_alone(&self) -> u32 {
        let of = |wanted: Tag| self.entries.iter().find(|entry| entry.tag == wanted);
        let group = of(Tag::OwningGroup).map_or(0, |entry| entry.permissions);
        let mask = of(Tag::Mask).map_or(7, |entry| entry.permissions);
        self.mode_bits() & !0o070 | u32::from(group & mask) << 3
    }

    /// Calls `change` for owner, mask (or owning group) and others with their
    /// three bits of `mode`.
    fn each_class(&mut self, change: impl Fn(&mut u8, u8), mode: u32) {
        let mask = self.entries.iter().any(|entry| entry.tag == Tag::Mask);
        for entry in &mut self.entries {
            let shift = match entry.tag {
                Tag::Owner => 6,
                Tag::Mask => 3,
                Tag::OwningGroup if !mask => 3,
                Tag::Other => 0,
                Tag::OwningGroup | Tag::User(_) | Tag::Group(_) => continue,
            };
            change(&mut entry.permissions, ((mode >> shift) & 7) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = UNDEFINED_ID;

    fn wire(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    fn acl(entries: &[(u16, u16, u32)]) -> Acl {
        Acl::parse(&wire(entries)).unwrap().unwrap()
    }

    const MINIMAL: [(u16, u16, u32); 3] = [(1, 6, NOBODY), (4, 4, NOBODY), (0x20, 0, NOBODY)];
    const NAMED: [(u16, u16, u32); 6] =
        [(1, 7, NOBODY), (2, 6, 1000), (2, 4, 1001), (4, 5, NOBODY), (0x10, 6, NOBODY), (0x20, 1, NOBODY)];

    #[test]
    fn the_binary_form_survives() {
        for entries in [&MINIMAL[..], &NAMED[..]] {
            assert_eq!(acl(entries).to_bytes(), wire(entries));
        }
        assert_eq!(Acl::parse(&wire(&[])).unwrap(), None);
    }

    #[test]
    fn minimal_lists_are_modes() {
        assert!(acl(&MINIMAL).is_mode());
        assert_eq!(acl(&MINIMAL).mode_bits(), 0o640);
        assert!(!acl(&NAMED).is_mode());
        assert_eq!(acl(&NAMED).mode_bits(), 0o761, "the mask stands for the group");
    }

    #[test]
    fn invalid_lists_are_refused() {
        let refused: [&[(u16, u16, u32)]; 9] = [
            &[(1, 6, NOBODY), (4, 4, NOBODY)],
            &[(1, 6, NOBODY), (0x20, 4, NOBODY)],
            &[(4, 4, NOBODY), (0x20, 0, NOBODY)],
            &[(4, 4, NOBODY), (1, 6, NOBODY), (0x20, 0, NOBODY)],
            &[(1, 6, NOBODY), (1, 6, NOBODY), (4, 4, NOBODY), (0x20, 0, NOBODY)],
            &[(1, 6, NOBODY), (2, 6, 1000), (4, 4, NOBODY), (0x20, 0, NOBODY)],
            &[(1, 8, NOBODY), (4, 4, NOBODY), (0x20, 0, NOBODY)],
            &[(3, 6, NOBODY), (4, 4, NOBODY), (0x20, 0, NOBODY)],
            &[(1, 6, NOBODY), (2, 6, NOBODY), (4, 4, NOBODY), (0x10, 7, NOBODY), (0x20, 0, NOBODY)],
        ];
        for entries in refused {
            assert_eq!(Acl::parse(&wire(entries)), Err(Error::Refused(errno::EINVAL)), "{entries:?}");
        }
        let mut cut = wire(&MINIMAL);
        cut.pop();
        assert_eq!(Acl::parse(&cut), Err(Error::Refused(errno::EINVAL)));
        assert_eq!(Acl::parse(&[2, 0]), Err(Error::Refused(errno::EINVAL)));
        assert_eq!(Acl::parse(&[1, 0, 0, 0]), Err(Error::Refused(errno::EOPNOTSUPP)));
    }

    #[test]
    fn chmod_changes_the_mask_and_leaves_the_group() {
        let changed = acl(&NAMED).with_mode(0o100_520);
        let expected = [
            (1, 5, NOBODY),
            (2, 6, 1000),
            (2, 4, 1001),
            (4, 5, NOBODY),
            (0x10, 2, NOBODY),
            (0x20, 0, NOBODY),
        ];
        assert_eq!(changed.to_bytes(), wire(&expected));
        assert_eq!(acl(&MINIMAL).with_mode(0o751).mode_bits(), 0o751);
    }

    #[test]
    fn inheritance_takes_what_both_allow() {
        let (access, mode) = acl(&NAMED).inherited(0o2640);
        assert_eq!(mode, 0o2640);
        let expected = [
            (1, 6, NOBODY),
            (2, 6, 1000),
            (2, 4, 1001),
            (4, 5, NOBODY),
            (0x10, 4, NOBODY),
            (0x20, 0, NOBODY),
        ];
        assert_eq!(access.to_bytes(), wire(&expected));
        let (_, mode) = acl(&MINIMAL).inherited(0o777);
        assert_eq!(acl(&NAMED).bits_alone(), 0o741, "5 of the group under the mask 6");
        assert_eq!(acl(&MINIMAL).bits_alone(), 0o640);
        assert_eq!(mode, 0o640, "a default list stands for the umask");
    }
}
