//! What is on a disk already: enough of it to warn before it is destroyed.

use std::io;

use crate::backing::Backing;

/// Something that was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is, for people.
    pub what: &'static str,
    /// Where its mark stands.
    pub offset: u64,
    /// Whether random bytes, as encrypted ones are, hardly ever look so: about
    /// one disk in four thousand million.
    pub is_certain: bool,
}

struct Known {
    what: &'static str,
    offset: u64,
    mark: &'static [u8],
}

const fn known(what: &'static str, offset: u64, mark: &'static [u8]) -> Known {
    Known { what, offset, mark }
}

/// Marks by which file systems and tables are told (libblkid's list, the
/// commonest of it).
const KNOWN: &[Known] = &[
    known("a LUKS volume", 0, b"LUKS\xba\xbe"),
    known("a GPT partition table", 512, b"EFI PART"),
    known("a GPT partition table", 4096, b"EFI PART"),
    known("a boot sector or MBR partition table", 510, b"\x55\xaa"),
    known("an ext2, ext3 or ext4 file system", 1080, b"\x53\xef"),
    known("an XFS file system", 0, b"XFSB"),
    known("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    known("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    known("an NTFS file system", 3, b"NTFS    "),
    known("an exFAT file system", 3, b"EXFAT   "),
    known("a FAT file system", 82, b"FAT32   "),
    known("a FAT file system", 54, b"FAT"),
    known("an ISO 9660 file system", 0x8001, b"CD001"),
    known("a squashfs file system", 0, b"hsqs"),
    known("a swap area", 4086, b"SWAPSPACE2"),
    known("an LVM physical volume", 536, b"LVM2 001"),
    known("a member of a Linux RAID", 4096, b"\xfc\x4e\x2b\xa9"),
    known("a member of a Linux RAID", 0, b"\xfc\x4e\x2b\xa9"),
    known("a ZFS pool member", 0x2_0000, b"\x00\xba\xb1\x0c"),
    known("a BitLocker volume", 3, b"-FVE-FS-"),
    known("a qcow2 image", 0, b"QFI\xfb"),
];

/// Everything that is recognised, and whether any of the first bytes is not
/// zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What was recognised.
    pub signatures: Vec<Signature>,
    /// Whether the first 128 KiB hold nothing but zeros.
    pub is_blank: bool,
}

/// Looks at the beginning of a disk.
///
/// # Errors
/// The system's.
pub fn scan(device: &dyn Backing) -> io::Result<Found> {
    let len = device.len()?.min(0x2_1000);
    let mut bytes = vec![0; len as usize];
    device.read_at(&mut bytes, 0)?;
    let has =
        |known: &&Known| bytes.get(known.offset as usize..).is_some_and(|at| at.starts_with(known.mark));
    // ext has a mark of two bytes, and a revision of 0 or 1 (ext4(5)).
    let revision = bytes.get(1100..1104).is_some_and(|bytes| bytes[0] <= 1 && bytes[1..] == [0; 3]);
    let signatures = KNOWN.iter().filter(has).map(|known| Signature {
        what: known.what,
        offset: known.offset,
        is_certain: known.mark.len() >= 4 || known.offset == 1080 && revision,
    });
    Ok(Found { signatures: signatures.collect(), is_blank: bytes.iter().all(|&byte| byte == 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileBacking;

    #[test]
    fn what_is_there_is_told() {
        let backing = FileBacking::from_file(tempfile::tempfile().expect("a file"));
        assert!(scan(&backing).expect("empty").is_blank);
        backing.set_len(1 << 20).expect("sparse");
        assert_eq!(scan(&backing).expect("read"), Found { signatures: Vec::new(), is_blank: true });
        backing.write_at(b"\x53\xef", 1080).expect("written");
        backing.write_at(b"\x55\xaa", 510).expect("written");
        let found = scan(&backing).expect("read");
        let what: Vec<_> = found.signatures.iter().map(|signature| signature.what).collect();
        assert_eq!(what, ["a boot sector or MBR partition table", "an ext2, ext3 or ext4 file system"]);
        assert!(!found.is_blank);
        // The first by two bytes alone, the second with a revision.
        let certain: Vec<_> = found.signatures.iter().map(|signature| signature.is_certain).collect();
        assert_eq!(certain, [false, true]);
        backing.write_at(&[7; 4], 1100).expect("written");
        assert!(!scan(&backing).expect("read").signatures[1].is_certain);
    }
}
