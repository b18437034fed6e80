//! Trees that are packed and unpacked, by this crate and by GNU tar, and
//! archives that try to leave the directory.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use strongroom_archive::{Error, Packer, unpack};
use tar::{Builder, EntryType, Header};

/// A tree with one of each.
fn tree(top: &Path) {
    fs::create_dir_all(top.join("a/deep/er")).expect("made");
    fs::create_dir(top.join("empty")).expect("made");
    fs::write(top.join("a/file"), b"content").expect("written");
    fs::write(top.join("a/none"), b"").expect("written");
    let large: Vec<u8> = (0..300_001u32).map(|at| (at % 251) as u8).collect();
    fs::write(top.join("a/deep/large"), &large).expect("written");
    fs::hard_link(top.join("a/deep/large"), top.join("a/deep/er/linked")).expect("linked");
    let long = "n".repeat(200);
    fs::create_dir(top.join(&long)).expect("made");
    fs::write(top.join(&long).join("m".repeat(200)), b"long").expect("written");
    symlink("t".repeat(300), top.join("far")).expect("a symlink");
    symlink("a/file", top.join("near")).expect("a symlink");
    rustix::fs::mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    fs::write(top.join("ünïcode \n name"), b"x").expect("written");
    fs::set_permissions(top.join("a/file"), fs::Permissions::from_mode(0o640)).expect("set");
    fs::set_permissions(top.join("empty"), fs::Permissions::from_mode(0o550)).expect("set");
    // Not every temporary directory can have attributes.
    let file = File::open(top.join("a/file")).expect("opened");
    let _ = rustix::fs::fsetxattr(&file, "user.note", b"a\0b\nc", XattrFlags::empty());
    for many in 0..300 {
        fs::write(top.join(format!("a/deep/er/{many}")), format!("file {many}")).expect("written");
    }
}

fn packed(top: &Path, threads: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packer::new(top, b"top", threads).expect("a directory").read_to_end(&mut bytes).expect("packed");
    bytes
}

/// All that is kept of a tree.
fn told(top: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = vec![top.to_owned()];
    while let Some(path) = pending.pop() {
        let facts = path.symlink_metadata().expect("there");
        let content = if facts.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
        let mut note = [0; 16];
        let note = match facts.is_file() {
            true => rustix::fs::getxattr(&path, "user.note", &mut note[..]).unwrap_or(0),
            false => 0,
        };
        let target = fs::read_link(&path).unwrap_or_default();
        lines.push(format!(
            "{:?} {:o} {}:{} {}.{} {} {note} {target:?} {:?}",
            path.strip_prefix(top).expect("below"),
            facts.mode(),
            facts.uid(),
            facts.gid(),
            facts.mtime(),
            facts.mtime_nsec(),
            if facts.is_dir() { 0 } else { facts.nlink() },
            content
        ));
        if facts.is_dir() {
            pending.extend(fs::read_dir(&path).expect("listed").flatten().map(|entry| entry.path()));
        }
    }
    lines.sort();
    lines
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let place = tempfile::tempdir().expect("a directory");
    let top = place.path().join("from");
    tree(&top);
    let bytes = packed(&top, 4);
    assert!(packed(&top, 1) == bytes, "threads make no difference");
    let to = place.path().join("to");
    fs::create_dir(&to).expect("made");
    let unpacked = unpack(&bytes[..], &to).expect("unpacked");
    assert_eq!(unpacked.remarks, Vec::<String>::new());
    assert_eq!(told(&to.join("top")), told(&top));
}

#[test]
fn gnu_tar_reads_and_writes_the_same() {
    let place = tempfile::tempdir().expect("a directory");
    let top = place.path().join("top");
    tree(&top);
    let (by_tar, by_us) = (place.path().join("by tar"), place.path().join("by us"));
    fs::create_dir(&by_tar).expect("made");
    fs::create_dir(&by_us).expect("made");
    fs::write(place.path().join("a.tar"), packed(&top, 2)).expect("written");
    let tar = |words: &[&str]| {
        let output = Command::new("tar").args(words).current_dir(place.path()).output().expect("tar runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    tar(&["-xpf", "a.tar", "--xattrs", "-C", "by tar"]);
    assert_eq!(told(&by_tar.join("top")), told(&top));
    for format in ["gnu", "pax", "posix"] {
        let of = format!("--format={format}");
        let xattrs: &[&str] = if format == "gnu" { &[] } else { &["--xattrs"] };
        tar(&[&["-cf", "b.tar", &of], xattrs, &["top"]].concat());
        let to = by_us.join(format);
        fs::create_dir(&to).expect("made");
        unpack(File::open(place.path().join("b.tar")).expect("there"), &to).expect("unpacked");
        match format {
            // It has whole seconds and no attributes.
            "gnu" => assert_eq!(told(&to.join("top")).len(), told(&top).len()),
            _ => assert_eq!(told(&to.join("top")), told(&top)),
        }
    }
}

fn hostile(build: impl FnOnce(&mut Builder<Vec<u8>>)) -> Cursor<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    build(&mut builder);
    Cursor::new(builder.into_inner().expect("in memory"))
}

fn raw_name(name: &[u8], kind: EntryType, link: &[u8]) -> Header {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
    header.set_mode(0o644);
    header.set_size(0);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    header
}

#[test]
fn nothing_leaves_the_directory() {
    let place = tempfile::tempdir().expect("a directory");
    let outside = place.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("victim"), b"whole").expect("written");
    let target = outside.to_str().expect("text").as_bytes().to_vec();
    let victim = [&target[..], b"/victim"].concat();
    let archives: Vec<(&str, Cursor<Vec<u8>>)> = vec![
        (
            "up",
            hostile(|tar| {
                tar.append(&raw_name(b"../outside/new", EntryType::Regular, b""), &[][..])
                    .expect("in memory");
            }),
        ),
        (
            "within",
            hostile(|tar| {
                tar.append(&raw_name(b"a/../../outside/new", EntryType::Regular, b""), &[][..])
                    .expect("in memory");
            }),
        ),
        (
            "absolute",
            hostile(|tar| {
                let name = [&target[..], b"/new"].concat();
                tar.append(&raw_name(&name, EntryType::Regular, b""), &[][..]).expect("in memory");
            }),
        ),
        (
            "through a symlink",
            hostile(|tar| {
                tar.append(&raw_name(b"link", EntryType::Symlink, &target), &[][..]).expect("in memory");
                tar.append(&raw_name(b"link/new", EntryType::Regular, b""), &[][..]).expect("in memory");
            }),
        ),
        (
            "a hard link to what is outside",
            hostile(|tar| {
                tar.append(&raw_name(b"hard", EntryType::Link, &victim), &[][..]).expect("in memory");
            }),
        ),
        (
            "a hard link through a symlink",
            hostile(|tar| {
                tar.append(&raw_name(b"link", EntryType::Symlink, &target), &[][..]).expect("in memory");
                tar.append(&raw_name(b"hard", EntryType::Link, b"link/victim"), &[][..]).expect("in memory");
            }),
        ),
        (
            "the directory as a symlink",
            hostile(|tar| {
                tar.append(&raw_name(b".", EntryType::Symlink, &target), &[][..]).expect("in memory");
            }),
        ),
    ];
    for (number, (what, archive)) in archives.into_iter().enumerate() {
        let to = place.path().join(number.to_string());
        fs::create_dir(&to).expect("made");
        let error = unpack(archive, &to).expect_err(what);
        assert!(matches!(error, Error::Outside(_)), "{what}: {error}");
        assert_eq!(fs::read_dir(&outside).expect("listed").count(), 1, "{what}");
        assert_eq!(fs::metadata(outside.join("victim")).expect("there").nlink(), 1, "{what}");
    }
}

#[test]
fn a_symlink_that_a_later_entry_replaces_is_not_written_through() {
    let place = tempfile::tempdir().expect("a directory");
    let victim = place.path().join("victim");
    fs::write(&victim, b"whole").expect("written");
    let to = place.path().join("to");
    fs::create_dir(&to).expect("made");
    let archive = hostile(|tar| {
        let target = victim.to_str().expect("text").as_bytes();
        tar.append(&raw_name(b"name", EntryType::Symlink, target), &[][..]).expect("in memory");
        let mut header = raw_name(b"name", EntryType::Regular, b"");
        header.set_size(4);
        header.set_cksum();
        tar.append(&header, &b"evil"[..]).expect("in memory");
    });
    unpack(archive, &to).expect("unpacked");
    assert_eq!(fs::read(&victim).expect("there"), b"whole");
    assert_eq!(fs::read(to.join("name")).expect("there"), b"evil");
}

#[test]
fn an_archive_that_is_cut_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    tree(&place.path().join("from"));
    let bytes = packed(&place.path().join("from"), 2);
    for (number, len) in [1, 511, 513, 5000, 100_000, bytes.len() / 2 + 7].into_iter().enumerate() {
        let to = place.path().join(number.to_string());
        fs::create_dir(&to).expect("made");
        let error = unpack(&bytes[..len], &to).expect_err("cut");
        assert!(matches!(error, Error::Archive(_)), "{len}: {error}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let place = tempfile::tempdir().expect("a directory");
    let file = File::create_new(place.path().join("large")).expect("made");
    file.set_len(1 << 20).expect("made");
    let mut packer = Packer::new(place.path(), b"top", 1).expect("a directory");
    packer.read_exact(&mut [0; 100_000]).expect("begun");
    file.write_all_at(b"x", 0).expect("written");
    file.set_len((1 << 20) + 1).expect("grown");
    let error = packer.read_to_end(&mut Vec::new()).expect_err("it changed");
    let error = error.into_inner().expect("an error inside").downcast::<Error>().expect("ours");
    assert!(matches!(*error, Error::Changed(_)), "{error}");
}

/// A PAX record, whose length counts itself.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let mut len = rest.len();
    while len != rest.len() + len.to_string().len() {
        len = rest.len() + len.to_string().len();
    }
    [len.to_string().into_bytes(), rest].concat()
}

/// An entry with records before it.
fn with_records(records: &[(&str, &[u8])], kind: EntryType, content: &[u8]) -> Cursor<Vec<u8>> {
    hostile(|tar| {
        let records: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
        let mut header = raw_name(b"records", EntryType::XHeader, b"");
        header.set_size(records.len() as u64);
        header.set_cksum();
        tar.append(&header, &records[..]).expect("in memory");
        let mut header = raw_name(b"name", kind, b"");
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).expect("in memory");
    })
}

#[test]
fn numbers_that_cannot_be_are_errors_or_passed_over() {
    let place = tempfile::tempdir().expect("a directory");
    let most = u64::MAX.to_string();
    let to = |number: usize| {
        let to = place.path().join(number.to_string());
        fs::create_dir(&to).expect("made");
        to
    };
    for (number, kind) in [EntryType::Regular, EntryType::Directory, EntryType::Fifo].into_iter().enumerate()
    {
        let archive = with_records(&[("size", most.as_bytes())], kind, b"");
        let error = unpack(archive, &to(number)).expect_err("no file is so long");
        assert!(matches!(error, Error::Archive(_)), "{kind:?}: {error}");
    }
    let times: [&[u8]; 6] =
        [b"9223372036854775807.-1234567", b"-9223372036854775808.9", b"1e9", b"x", b"-1.", b"5.\xc3\xa4"];
    for (number, time) in times.into_iter().enumerate() {
        let archive = with_records(&[("mtime", time)], EntryType::Regular, b"plain");
        let to = to(10 + number);
        // The store may have no such time.
        if unpack(archive, &to).is_ok() {
            assert_eq!(fs::read(to.join("name")).expect("there"), b"plain");
        }
    }
}

#[test]
fn names_without_an_end_or_with_a_nul_are_errors() {
    let place = tempfile::tempdir().expect("a directory");
    let deep = b"d/".repeat(100_000);
    for (number, name) in [&deep[..], b"a\0b"].into_iter().enumerate() {
        let to = place.path().join(number.to_string());
        fs::create_dir(&to).expect("made");
        unpack(with_records(&[("path", name)], EntryType::Regular, b""), &to).expect_err("no name");
        assert_eq!(fs::read_dir(&to).expect("listed").count(), 0);
    }
}

#[test]
fn what_has_a_name_twice_is_what_came_last() {
    let place = tempfile::tempdir().expect("a directory");
    let kinds = [EntryType::Regular, EntryType::Symlink, EntryType::Fifo];
    let mut number = 0;
    for first in kinds {
        for last in kinds {
            number += 1;
            let to = place.path().join(number.to_string());
            fs::create_dir(&to).expect("made");
            let archive = hostile(|tar| {
                for kind in [first, last] {
                    tar.append(&raw_name(b"name", kind, b"/nowhere"), &[][..]).expect("in memory");
                }
            });
            unpack(archive, &to).expect("unpacked");
            let found = to.join("name").symlink_metadata().expect("there").file_type();
            let is_last = match last {
                EntryType::Regular => found.is_file(),
                EntryType::Symlink => found.is_symlink(),
                _ => !found.is_file() && !found.is_symlink(),
            };
            assert!(is_last, "{first:?}, {last:?}");
            assert_eq!(fs::read_dir(&to).expect("listed").count(), 1);
        }
    }
    // A directory is not replaced by what is none.
    let to = place.path().join("directory");
    fs::create_dir(&to).expect("made");
    let archive = hostile(|tar| {
        tar.append(&raw_name(b"name/", EntryType::Directory, b""), &[][..]).expect("in memory");
        tar.append(&raw_name(b"name", EntryType::Symlink, b"/"), &[][..]).expect("in memory");
        tar.append(&raw_name(b"name/new", EntryType::Regular, b""), &[][..]).expect("in memory");
    });
    unpack(archive, &to).expect_err("a directory is there");
    assert!(to.join("name").symlink_metadata().expect("there").is_dir());
}

#[test]
fn files_that_are_made_up_while_they_are_read_are_packed_whole() {
    // A directory of the kernel's, whose files have no length.
    let top = Path::new("/proc/sys/kernel/random");
    let Ok(expected) = fs::read(top.join("poolsize")) else {
        return eprintln!("skipped: there is no /proc here");
    };
    let place = tempfile::tempdir().expect("a directory");
    unpack(&packed(top, 2)[..], place.path()).expect("unpacked");
    assert_eq!(fs::read(place.path().join("top/poolsize")).expect("there"), expected);
}
