//! What programs expect of a file system, held against ext4: the same is done in a vault and on a loop device.
//! Needs root, mkfs.ext4 and loop devices; what cannot be had is said.

mod support;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use support::{PROGRAM, Place, STATE, assert_fails_with, assert_success};

/// A vault, mounted, and an ext4 beside it.
struct Both {
    place: Place,
    ext4: PathBuf,
}

impl Both {
    /// None where it cannot be had.
    fn new() -> Option<Both> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("not tried: needs root, and /dev/fuse");
            return None;
        }
        let place = Place::new();
        let (image, ext4) = (place.directory.path().join("image"), place.directory.path().join("ext4"));
        fs::create_dir(&ext4).expect("a directory");
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("a file");
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^ea_inode"]).arg(&image).status();
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&ext4).status();
        if !made.is_ok_and(|status| status.success()) || !mounted.is_ok_and(|status| status.success()) {
            eprintln!("not tried: no ext4 on a loop device can be had");
            return None;
        }
        place.mount(&[]);
        Some(Both { place, ext4 })
    }

    /// What `ask` tells of the vault, and of ext4.
    fn answers<T>(&self, ask: impl Fn(&Path) -> T) -> (T, T) {
        (ask(&self.place.mount_point()), ask(&self.ext4))
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        for at in ["overlay-0", "overlay-1"] {
            let _ = unmount(self.place.directory.path().join(at), UnmountFlags::DETACH);
        }
        let _ = unmount(&self.ext4, UnmountFlags::DETACH);
    }
}

/// The names in a directory, with what each is.
fn listing(directory: &Path) -> Vec<(String, u32, u64)> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name() != "lost+found")
        .map(|entry| {
            let metadata = entry.metadata().expect("it is there");
            (entry.file_name().into_string().expect("text"), metadata.mode(), metadata.rdev())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn names_of_attributes_are_taken_and_refused_as_on_ext4() {
    let Some(both) = Both::new() else { return };
    let answers = |root: &Path| {
        let path = root.join("f");
        fs::write(&path, "").expect("written");
        let set = |name: &str| rustix::fs::setxattr(&path, name, b"v", XattrFlags::empty()).err();
        let get = |name: &str| rustix::fs::getxattr(&path, name, &mut [0; 16]).err();
        let names = [
            "",
            "user.",
            "trusted.",
            "user.a",
            "trusted.overlay.opaque",
            "user.overlay.opaque",
            "foo.bar",
            "foo",
        ];
        names.map(|name| (name, set(name), get(name), rustix::fs::removexattr(&path, name).err()))
    };
    let (vault, ext4) = both.answers(answers);
    assert_eq!(vault, ext4);
    // Sealed, the name is longer than it was, and has to fit the store's 255 bytes: docs/answers.md.
    let path = both.place.at("f");
    let fits = |len: usize| {
        let name = format!("user.{}", "n".repeat(len - 5));
        rustix::fs::setxattr(&path, name.as_str(), b"v", XattrFlags::empty())
    };
    let longest = (6..=255).rev().find(|len| fits(*len).is_ok());
    assert_eq!(longest, Some(163));
    assert_eq!(fits(164), Err(Errno::RANGE));
}

#[test]
fn a_rename_leaves_a_whiteout_as_on_ext4() {
    let Some(both) = Both::new() else { return };
    let answers = |root: &Path| {
        let at = |name: &str| root.join(name);
        for name in ["one", "two", "three", "four"] {
            fs::write(at(name), name).expect("written");
        }
        fs::create_dir(at("d")).expect("made");
        fs::create_dir(at("e")).expect("made");
        let rename = |from: &str, to: &str, flags| renameat_with(CWD, at(from), CWD, at(to), flags);
        let whiteout = RenameFlags::WHITEOUT;
        let outcomes = [
            rename("one", "new", whiteout),
            rename("two", "three", whiteout),
            rename("four", "d/four", whiteout),
            rename("e", "d/e", whiteout),
            rename("three", "new", whiteout | RenameFlags::NOREPLACE),
            rename("missing", "other", whiteout),
            rename("new", "three", whiteout | RenameFlags::EXCHANGE),
        ];
        let contents = ["new", "three", "d/four"].map(|name| fs::read_to_string(at(name)).expect("a file"));
        // How large directories are is each file system's own.
        (outcomes, contents, listing(root), listing(&at("d")))
    };
    let (vault, ext4) = both.answers(answers);
    assert_eq!(vault, ext4);
    let left = both.place.at("one").symlink_metadata().expect("a whiteout");
    assert!(left.file_type().is_char_device() && left.rdev() == 0);
}

#[test]
fn an_overlay_works_on_top_as_on_ext4() {
    let Some(both) = Both::new() else { return };
    let lower = both.place.directory.path().join("lower");
    fs::create_dir_all(lower.join("d/sub")).expect("made");
    for name in ["a", "b", "c", "d/x", "d/sub/y"] {
        fs::write(lower.join(name), format!("lower {name}")).expect("written");
    }
    let on = |index: usize, root: &Path| {
        for name in ["upper", "work"] {
            fs::create_dir(root.join(name)).expect("made");
        }
        let at = both.place.directory.path().join(format!("overlay-{index}"));
        fs::create_dir(&at).expect("made");
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            root.join("upper").display(),
            root.join("work").display()
        );
        let options = std::ffi::CString::new(options).expect("text");
        mount("overlay", &at, "overlay", MountFlags::empty(), options.as_c_str())?;
        fs::write(at.join("a"), "changed").expect("copied up");
        fs::remove_file(at.join("b")).expect("a whiteout");
        fs::rename(at.join("c"), at.join("moved")).expect("moved, with a whiteout");
        fs::remove_dir_all(at.join("d")).expect("removed");
        fs::create_dir(at.join("d")).expect("opaque");
        fs::write(at.join("d/new"), "new").expect("written");
        let seen = ["a", "moved", "d/new"].map(|name| fs::read_to_string(at.join(name)).expect("a file"));
        let shown = (listing(&at), listing(&at.join("d")), seen);
        unmount(&at, UnmountFlags::empty())?;
        let opaque = rustix::fs::getxattr(root.join("upper/d"), "trusted.overlay.opaque", &mut [0; 8]);
        Ok::<_, Errno>((shown, listing(&root.join("upper")), opaque))
    };
    let vault = on(0, &both.place.mount_point());
    let ext4 = on(1, &both.ext4);
    match (vault, ext4) {
        (_, Err(Errno::NODEV)) => eprintln!("not tried: this kernel has no overlayfs"),
        (vault, ext4) => {
            assert!(vault.is_ok(), "{vault:?}");
            assert_eq!(vault, ext4);
        }
    }
}

/// As mount(8) calls it for `-o remount`.
fn remount(place: &Place, options: &str) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command.arg0("mount.fuse.strongroom").env("XDG_STATE_HOME", STATE);
    command.arg(place.vault()).arg(place.mount_point()).args(["-o", options]);
    command.output().expect("the program runs")
}

#[test]
fn a_mount_is_remounted_to_be_read_and_to_be_written() {
    let Some(both) = Both::new() else { return };
    let place = &both.place;
    let write = || fs::write(place.at("f"), "text").map_err(|error| error.raw_os_error());
    assert_eq!(write(), Ok(()));
    assert_success(&remount(place, "rw,nosuid,nodev,relatime,user_id=0,group_id=0,remount,ro"));
    assert_eq!(write(), Err(Some(Errno::ROFS.raw_os_error())));
    assert_eq!(fs::read(place.at("f")).expect("it is read"), b"text");
    assert_success(&remount(place, "remount,rw,noexec"));
    assert_eq!(write(), Ok(()));
    let flags = rustix::fs::statvfs(place.mount_point()).expect("mounted").f_flag;
    assert!(flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC | rustix::fs::StatVfsMountFlags::NOSUID));
    let open = fs::File::create(place.at("g")).expect("open for writing");
    assert_fails_with(&remount(place, "remount,ro"), 5, "open for writing");
    drop(open);
    place.umount();
    place.mount(&["--read-only"]);
    assert_fails_with(&remount(place, "remount,rw"), 2, "cannot begin to write");
    assert_eq!(write(), Err(Some(Errno::ROFS.raw_os_error())));
    place.umount();
    assert_fails_with(&remount(place, "remount,ro"), 2, "no vault is mounted");
}

#[test]
fn a_mount_point_that_is_not_empty_is_taken_when_that_is_asked_for() {
    let Some(both) = Both::new() else { return };
    both.place.umount();
    fs::write(both.place.at("beneath"), "text").expect("written");
    assert_fails_with(&both.place.try_mount(&[]), 2, "not empty");
    both.place.mount(&["-o", "nonempty"]);
    assert!(!both.place.at("beneath").exists());
    both.place.umount();
    assert_eq!(fs::read(both.place.at("beneath")).expect("it is there again"), b"text");
    fs::remove_file(both.place.at("beneath")).expect("removed");
}

#[test]
fn access_lists_are_those_of_ext4_for_every_kind() {
    let Some(both) = Both::new() else { return };
    if !Command::new("setfacl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("not tried: needs setfacl and getfacl, of the package acl");
        return;
    }
    let script = "umask 022; mkdir d && setfacl -d -m u:7:rwx,g:8:r-x,m::rwx d; echo default $?; \
                  make() { cd $1; echo > f; mkdir s; mkfifo p; mknod c c 1 3; mknod b b 7 0; ln -s f l; \
                  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"k\")'; cd ..; }; \
                  mkdir e; make e; make d; \
                  for k in f s p c b k; do setfacl -m u:9:rw e/$k; echo set $?; \
                  getfacl -cn e/$k d/$k; stat -c %A e/$k d/$k; chmod 640 d/$k; getfacl -cn d/$k; \
                  setfacl -b d/$k; echo removed $?; getfacl -cn d/$k; done; \
                  setfacl -P -m u:9:rw d/l; echo link $?";
    let (vault, ext4) = both.answers(|root| {
        let run = Command::new("bash").args(["-c", script]).current_dir(root).output().expect("bash");
        String::from_utf8(run.stdout).expect("text")
    });
    assert!(ext4.contains("user:7:rwx") && ext4.contains("user:9:rw-"), "{ext4}");
    assert_eq!(vault, ext4);
}

/// Calls that xfstests makes in generic/003, 020, 103, 294, 306, 394, 531 and 564, one by one.
#[test]
fn calls_are_answered_as_on_ext4() {
    let Some(both) = Both::new() else { return };
    both.place.umount();
    both.place.mount(&["-o", "dev"]);
    // Else a time that is newer than the others is left alone.
    assert_eq!(rustix::mount::mount_remount(&both.ext4, MountFlags::STRICTATIME, c""), Ok(()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected/compare.py");
    let (vault, ext4) = both.answers(|root| {
        let run = Command::new("python3").arg(&script).arg(root).output().expect("python3");
        assert_success(&run);
        String::from_utf8(run.stdout).expect("text")
    });
    // The vault's answer, ext4's, and why is in docs/answers.md.
    let differ: Vec<_> = vault.lines().zip(ext4.lines()).filter(|(vault, ext4)| vault != ext4).collect();
    let expected = [
        ("access time of a file that is read: False", "access time of a file that is read: True"),
        (
            "access time of a directory that is listed: False",
            "access time of a directory that is listed: True",
        ),
        ("access time of a symlink that is read: False", "access time of a symlink that is read: True"),
        ("an attribute of 64 KiB: E2BIG", "an attribute of 64 KiB: ENOSPC"),
    ];
    assert_eq!(differ, expected);
    assert_eq!(vault.lines().count(), ext4.lines().count());
    assert!(ext4.lines().count() > 40, "{ext4}");
}

/// What docs/answers.md lists as not there: who offers it takes it from that list.
#[test]
fn what_is_not_offered_is_refused_by_name() {
    let Some(both) = Both::new() else { return };
    let path = both.place.at("f");
    fs::write(&path, "text").expect("written");
    let file: OwnedFd = fs::File::open(&path).expect("open").into();
    assert_eq!(rustix::fs::ioctl_getflags(&file).err(), Some(Errno::NOTTY), "lsattr");
    let birth = rustix::fs::statx(CWD, &path, rustix::fs::AtFlags::empty(), rustix::fs::StatxFlags::BTIME);
    let birth = birth.expect("statx");
    assert!(birth.stx_mask & rustix::fs::StatxFlags::BTIME.bits() == 0, "birth time");
}

/// What a direct write has put there is what a read through the page cache gives as soon as the write has returned,
/// while others read the same blocks all the time (as in xfstests' generic/451).
fn stale_reads(directory: &Path) -> usize {
    const BLOCK: usize = 65_536;
    const BLOCKS: usize = 8;
    let path = directory.join("direct");
    fs::write(&path, vec![0; BLOCKS * BLOCK]).expect("a file");
    let direct =
        fs::File::options().write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(&path);
    let (direct, cached) = (direct.expect("direct writes"), fs::File::open(&path).expect("the file"));
    let mut memory = vec![0; BLOCK + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let is_over = AtomicBool::new(false);
    let mut stale = 0;
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (cached, is_over) = (&cached, &is_over);
            scope.spawn(move || {
                let mut bytes = vec![0; BLOCK];
                for at in (0..).map(|turn| turn + reader).take_while(|_| !is_over.load(Relaxed)) {
                    cached.read_exact_at(&mut bytes, (at % BLOCKS * BLOCK) as u64).expect("a read");
                }
            });
        }
        for turn in 0..300 {
            let (at, value) = (turn * 5 % BLOCKS * BLOCK, turn as u8);
            let block = &mut memory[start..start + BLOCK];
            block.fill(value);
            direct.write_all_at(block, at as u64).expect("a write");
            let mut bytes = vec![0; BLOCK];
            cached.read_exact_at(&mut bytes, at as u64).expect("a read");
            stale += usize::from(bytes.iter().any(|byte| *byte != value));
        }
        is_over.store(true, Relaxed);
    });
    stale
}

#[test]
fn reads_beside_direct_writes_are_never_stale_as_on_ext4() {
    let Some(both) = Both::new() else { return };
    assert_eq!(both.answers(stale_reads), (0, 0));
}

/// A program runs from where it was copied to, and not while somebody writes to it (as in xfstests' generic/452).
fn runs(directory: &Path) -> (bool, Option<i32>) {
    let path = directory.join("program");
    fs::copy("/bin/true", &path).expect("a copy");
    let is_run = || Command::new(&path).status();
    let runs = is_run().is_ok_and(|status| status.success());
    let writer = fs::File::options().append(true).open(&path).expect("it is not running");
    let refused = is_run().expect_err("somebody writes to it").raw_os_error();
    drop(writer);
    (runs && is_run().is_ok_and(|status| status.success()), refused)
}

#[test]
fn programs_run_from_a_mount_as_from_ext4() {
    let Some(both) = Both::new() else { return };
    let (vault, ext4) = both.answers(runs);
    assert_eq!(vault, ext4);
    assert_eq!(vault, (true, Some(Errno::TXTBSY.raw_os_error())));
}
