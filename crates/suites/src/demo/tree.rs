//! Makes the tree that the demonstration copies: real files of this machine, then generated ones until
//! there are enough, then one of every oddity that a file system has to keep.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use crate::demo::copy::{Copied, Copier, Quota};
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::packages;
use strongroom_harness::random::Random;

/// The least that the tree has.
pub(crate) const FILES_MIN: u64 = 20_000;
pub(crate) const BYTES_MIN: u64 = 500_000_000;

/// Stops taking real files a little above the least.
const REAL: Quota = Quota { files: 22_000, bytes: 550_000_000, file_bytes_max: 64 << 20 };

/// Where a Debian machine with Rust has real files; what is missing is passed over.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let mut found =
        vec![cargo.join("registry/src"), PathBuf::from("/usr/include"), PathBuf::from("/usr/share")];
    found.push(PathBuf::from("/usr/lib/python3"));
    found.push(PathBuf::from("/usr/lib/x86_64-linux-gnu"));
    found.push(home.join(".rustup/toolchains"));
    found.retain(|path| path.is_dir());
    found
}

/// Fills the empty directory `root`.
pub(crate) fn build(root: &Path) -> Result<Copied> {
    let mut copier = Copier::new(Some(REAL));
    for (index, source) in sources().iter().enumerate() {
        let target = root.join(format!("real-{index}"));
        fs::create_dir(&target)?;
        copier.tree(source, &target).context(source.display())?;
    }
    if copier.passed_over > 0 {
        println!("  passed over {} entries that this user may not read", copier.passed_over);
    }
    let real = copier.copied;
    let generated = generate(&root.join("generated"), real)?;
    let odd = oddities(&root.join("odd"))?;
    Ok(Copied { files: real.files + generated.files + odd, bytes: real.bytes + generated.bytes })
}

/// Source-like small files and a few large ones, until both minima are reached.
fn generate(root: &Path, real: Copied) -> Result<Copied> {
    fs::create_dir(root)?;
    let mut random = Random::new(2);
    let mut made = Copied::default();
    let mut piece = vec![0; 1 << 20];
    while real.files + made.files < FILES_MIN {
        let directory = root.join(format!("directory-{:04}", made.files / 40));
        fs::create_dir_all(&directory)?;
        let length = 200 + random.below(16 << 10) as usize;
        random.fill(&mut piece[..length]);
        fs::write(directory.join(format!("file-{}.bin", made.files)), &piece[..length])?;
        (made.files, made.bytes) = (made.files + 1, made.bytes + length as u64);
    }
    while real.bytes + made.bytes < BYTES_MIN {
        let mut file = File::create(root.join(format!("large-{}.bin", made.files)))?;
        for _ in 0..32 {
            random.fill(&mut piece);
            file.write_all(&piece)?;
        }
        (made.files, made.bytes) = (made.files + 1, made.bytes + (32 << 20));
    }
    Ok(made)
}

/// One of everything; returns how many entries were made.
fn oddities(root: &Path) -> Result<u64> {
    fs::create_dir(root)?;
    let mut made = names(root)? + links(root)? + lengths(root)? + attributes(root)?;
    made += modes_and_times(root)? + special(root)?;
    Ok(made)
}

fn names(root: &Path) -> Result<u64> {
    use std::os::unix::ffi::OsStringExt;
    let mut all: Vec<Vec<u8>> = vec![
        "n".repeat(255).into(),
        "\u{e9}\u{4e2d}\u{6587} \u{1f512}".into(),
        "spaces  and\ttabs\nand lines".into(),
        "-rf".into(),
        "..hidden".into(),
        ".id".into(),
        ".strongroom".into(),
        "quote'\"`$HOME\\".into(),
        b"not \xff\xfe utf-8".to_vec(),
    ];
    all.extend([100_usize, 175, 176, 177, 240, 254].map(|length| vec![b'x'; length]));
    let count = all.len() as u64;
    for (index, name) in all.into_iter().enumerate() {
        let path = root.join(std::ffi::OsString::from_vec(name));
        fs::write(&path, format!("name {index}\n")).context(path.display())?;
    }
    Ok(count)
}

fn links(root: &Path) -> Result<u64> {
    let directory = root.join("links");
    fs::create_dir(&directory)?;
    let first = directory.join("first");
    fs::write(&first, vec![7; 10_000])?;
    for name in ["second", "third"] {
        fs::hard_link(&first, directory.join(name))?;
    }
    fs::hard_link(&first, root.join("link from elsewhere"))?;
    symlink("first", directory.join("symlink"))?;
    symlink("nowhere/at all", directory.join("dangling"))?;
    symlink("/absolute/target", directory.join("absolute"))?;
    symlink("t".repeat(4095), directory.join("long"))?;
    Ok(8)
}

fn lengths(root: &Path) -> Result<u64> {
    let directory = root.join("lengths");
    fs::create_dir(&directory)?;
    let mut random = Random::new(3);
    let around = [4096_usize, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20];
    let lengths: Vec<usize> =
        [0, 1, 15, 16, 17].into_iter().chain(around.into_iter().flat_map(|n| [n - 1, n, n + 1])).collect();
    for length in &lengths {
        let mut bytes = vec![0; *length];
        random.fill(&mut bytes);
        fs::write(directory.join(format!("{length}")), bytes)?;
    }
    let sparse = File::create(directory.join("sparse"))?;
    for offset in [0, 5_000_000, 3_000_000_000, 6_000_000_000] {
        sparse.write_all_at(b"an island", offset)?;
    }
    sparse.set_len(8_000_000_000)?;
    File::create(directory.join("only a hole"))?.set_len(1 << 32)?;
    fs::write(directory.join("zeros"), vec![0; 300_000])?;
    Ok(lengths.len() as u64 + 3)
}

fn attributes(root: &Path) -> Result<u64> {
    let directory = root.join("attributes");
    fs::create_dir(&directory)?;
    let file = directory.join("file");
    fs::write(&file, "with attributes\n")?;
    for (name, value) in [
        ("user.comment", b"a comment".to_vec()),
        ("user.empty", Vec::new()),
        ("user.binary", (0..=255).collect()),
        ("user.larger", vec![b'v'; 1500]),
    ] {
        let set = rustix::fs::lsetxattr(&file, name, &value, XattrFlags::empty());
        if matches!(set, Err(rustix::io::Errno::NOTSUP)) {
            println!("  the working directory's file system keeps no user attributes: not compared");
            break;
        }
        set.context(name)?;
    }
    // user:0 besides the owner: version 2, then tag, permissions and id of each entry (linux/posix_acl_xattr.h).
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 0), (4, 4, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)]
    {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&permissions.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    if let Err(error) = rustix::fs::lsetxattr(&file, "system.posix_acl_access", &acl, XattrFlags::empty()) {
        println!("  the working directory's file system keeps no ACLs ({error}): not compared");
    }
    Ok(1)
}

fn modes_and_times(root: &Path) -> Result<u64> {
    let directory = root.join("modes");
    fs::create_dir(&directory)?;
    let modes = [0o400, 0o600, 0o644, 0o755, 0o777, 0o4755, 0o2755, 0o6711];
    for (index, mode) in modes.into_iter().enumerate() {
        let path = directory.join(format!("{mode:o}"));
        fs::write(&path, format!("{mode:o}\n"))?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        let time = Timespec { tv_sec: -86_400 + index as i64 * 700_000_000, tv_nsec: 123_456_789 };
        set_time(&path, time)?;
    }
    let sticky = directory.join("sticky");
    fs::create_dir(&sticky)?;
    fs::set_permissions(&sticky, Permissions::from_mode(0o1777))?;
    set_time(&sticky, Timespec { tv_sec: 1_000_000_000, tv_nsec: 1 })?;
    Ok(modes.len() as u64)
}

fn set_time(path: &Path, time: Timespec) -> Result {
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

fn special(root: &Path) -> Result<u64> {
    let directory = root.join("special");
    fs::create_dir(&directory)?;
    let mode = Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(CWD, directory.join("fifo"), FileType::Fifo, mode, 0)?;
    rustix::fs::mknodat(CWD, directory.join("socket"), FileType::Socket, mode, 0)?;
    if !packages::is_root() {
        return Ok(2);
    }
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, directory.join("null"), FileType::CharacterDevice, mode, null)?;
    let owned = directory.join("owned");
    fs::write(&owned, "by nobody\n")?;
    std::os::unix::fs::chown(&owned, Some(65534), Some(65534))?;
    Ok(4)
}
