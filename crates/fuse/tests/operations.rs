//! Every operation through a real mount, answered by a file system in memory.

mod memory;

use memory::served::{Served, can_mount};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::sync::atomic::Ordering;
use std::time::Duration;
use strongroom_engine::Buffer;
use strongroom_fuse::abi::{Opcode, flags};
use strongroom_fuse::{Ended, MountOptions};

const MIB: usize = 1 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 4096 * 7 + i) as u8 | 1).collect()
}

#[test]
fn long_writes_and_reads_are_whole_requests() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let data = pattern(8 * MIB + 123);
    fs::write(served.path("file"), &data).unwrap();
    assert_eq!(fs::metadata(served.path("file")).unwrap().len(), data.len() as u64);
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(direct).open(served.path("file")).unwrap();
    let mut buffer = Buffer::new(4 * MIB);
    file.read_exact_at(&mut buffer, MIB as u64).unwrap();
    assert!(buffer[..] == data[MIB..5 * MIB]);
    file.write_all_at(&buffer, 0).unwrap();
    drop(file);
    let read_back = fs::read(served.path("file")).unwrap();
    assert!(read_back[..4 * MIB] == data[MIB..5 * MIB]);
    assert!(read_back[4 * MIB..] == data[4 * MIB..]);
    let seen = &served.filesystem.seen;
    assert_eq!(seen.write_max.load(Ordering::Relaxed), MIB);
    assert_eq!(seen.read_max.load(Ordering::Relaxed), MountOptions::default().read_max as usize);
    assert_eq!(seen.unaligned.load(Ordering::Relaxed), 0);
    let statistics = served.handle.statistics();
    assert!(statistics.bytes_written >= data.len() as u64 + 4 * MIB as u64);
    assert!(statistics.operation(Opcode::Write).count >= 13);
    assert_eq!((statistics.panics, statistics.malformed), (0, 0));
    assert_eq!(served.unmount(), Ended::Unmounted);
}

#[test]
fn a_cached_file_is_read_ahead_in_long_requests() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let data = pattern(16 * MIB);
    fs::write(served.path("file"), &data).unwrap();
    let file = File::open(served.path("file")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    served.filesystem.seen.read_max.store(0, Ordering::Relaxed);
    let mut read_back = Vec::new();
    (&file).read_to_end(&mut read_back).unwrap();
    assert!(read_back == data);
    let read_max = MountOptions::default().read_max as usize;
    assert_eq!(served.filesystem.seen.read_max.load(Ordering::Relaxed), read_max);
    assert!(served.filesystem.seen.syncs.load(Ordering::Relaxed) > 0);
}

#[test]
fn the_flags_that_matter_are_agreed() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    fs::metadata(served.path("")).unwrap();
    let agreed = served.filesystem.seen.negotiated.lock().unwrap().unwrap();
    let wanted = flags::init::WRITEBACK_CACHE
        | flags::init::MAX_PAGES
        | flags::init::PARALLEL_DIROPS
        | flags::init::HANDLE_KILLPRIV_V2
        | flags::init::ATOMIC_O_TRUNC;
    assert_eq!(agreed.flags & wanted, wanted);
    assert_eq!(agreed.transfer_max, MIB);
}

#[test]
fn names_come_and_go() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let path = |name| served.path(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/a"), b"a").unwrap();
    fs::write(path("d/b"), b"b").unwrap();
    fs::hard_link(path("d/a"), path("d/a2")).unwrap();
    assert_eq!(fs::metadata(path("d/a")).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("d/a", path("link")).unwrap();
    assert_eq!(fs::read_link(path("link")).unwrap().to_str(), Some("d/a"));
    assert_eq!(fs::read(path("link")).unwrap(), b"a");
    assert_eq!(fs::remove_dir(path("d")).unwrap_err().kind(), std::io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(fs::remove_dir(path("d/a")).unwrap_err().kind(), std::io::ErrorKind::NotADirectory);
    fs::rename(path("d/a"), path("c")).unwrap();
    assert_eq!(fs::metadata(path("d/a")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let rename = |from, to, flags| {
        rustix::fs::renameat_with(rustix::fs::CWD, path(from), rustix::fs::CWD, path(to), flags)
    };
    assert_eq!(rename("c", "d/b", RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename("c", "d/b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(path("c")).unwrap(), fs::read(path("d/b")).unwrap()), (b"b".into(), b"a".into()));
    assert_eq!(rename("c", "e", RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
    for name in ["c", "d/b", "d/a2", "link"] {
        fs::remove_file(path(name)).unwrap();
    }
    fs::remove_dir(path("d")).unwrap();
    assert_eq!(fs::read_dir(path("")).unwrap().count(), 0);
}

#[test]
fn ten_thousand_names_are_listed_once_each_with_their_attributes() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    fs::create_dir(served.path("many")).unwrap();
    for i in 0..10_000 {
        File::create(served.path(&format!("many/a rather long name of file {i:05}"))).unwrap();
    }
    let lookups_before = served.handle.statistics().operation(Opcode::Lookup).count;
    let mut names = std::collections::BTreeSet::new();
    for entry in fs::read_dir(served.path("many")).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().is_file());
        assert!(names.insert(entry.file_name()));
    }
    assert_eq!(names.len(), 10_000);
    assert!(served.filesystem.seen.listings_plus.load(Ordering::Relaxed) > 0);
    let lookups = served.handle.statistics().operation(Opcode::Lookup).count - lookups_before;
    assert!(lookups < 1000, "{lookups} lookups beside the listing");
    for name in names {
        fs::remove_file(served.path("many").join(name)).unwrap();
    }
    fs::remove_dir(served.path("many")).unwrap();
}

#[test]
fn nodes_are_forgotten_when_nothing_leads_to_them() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let path = served.path("file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(b"still here").unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.sync_all().unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    assert_eq!(served.filesystem.node_count(), 2);
    drop(file);
    // Forgetting is the kernel's, and no caller waits for it.
    for _ in 0..200 {
        if served.filesystem.node_count() == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(served.filesystem.node_count(), 1);
}

#[test]
fn a_file_without_a_name_can_get_one() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(served.path(""), flags, Mode::from_raw_mode(0o600)).unwrap();
    let mut file = File::from(file);
    file.write_all(b"unnamed").unwrap();
    assert_eq!(fs::read_dir(served.path("")).unwrap().count(), 0);
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let cwd = rustix::fs::CWD;
    rustix::fs::linkat(cwd, own, cwd, served.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(file);
    assert_eq!(fs::read(served.path("named")).unwrap(), b"unnamed");
}

#[test]
fn attributes_are_changed() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let path = served.path("file");
    fs::write(&path, pattern(10_000)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(5000).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o4755)).unwrap();
    let past = std::time::UNIX_EPOCH - std::time::Duration::from_millis(1500);
    file.set_times(fs::FileTimes::new().set_modified(past).set_accessed(past)).unwrap();
    std::os::unix::fs::chown(&path, Some(123), Some(456)).unwrap();
    drop(file);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.uid(), metadata.gid()), (5000, 123, 456));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-2, 500_000_000));
    // A change of owner drops the set-user-id bit.
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o755);
    OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    let space = rustix::fs::statvfs(served.path("")).unwrap();
    assert_eq!((space.f_blocks, space.f_bavail, space.f_namemax), (1000, 400, 255));
    assert_eq!((space.f_frsize, space.f_bsize, space.f_files), (4096, 1 << 20, 300));
}

#[test]
fn the_umask_is_applied_once() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    // The mask belongs to the whole process; the other tests ask for modes
    // that this one leaves alone.
    let before = rustix::process::umask(Mode::from_raw_mode(0o022));
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(served.path("file"), flags, Mode::from_raw_mode(0o666)).unwrap();
    rustix::fs::mkdir(served.path("directory"), Mode::from_raw_mode(0o777)).unwrap();
    rustix::process::umask(before);
    let mode = |name| fs::metadata(served.path(name)).unwrap().permissions().mode();
    assert_eq!((mode("file"), mode("directory")), (0o100_644, 0o040_755));
}

#[test]
fn extended_attributes_are_kept() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let path = served.path("file");
    fs::write(&path, b"").unwrap();
    let long = pattern(60_000);
    let set = |name, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    set("user.short", b"value", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.short", b"value", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    set("user.long", &long, XattrFlags::empty()).unwrap();
    let mut value = vec![0; 65_536];
    let len = rustix::fs::getxattr(&path, "user.long", value.as_mut_slice()).unwrap();
    assert!(value[..len] == long);
    assert_eq!(rustix::fs::getxattr_query(&path, "user.long"), Ok(60_000));
    let mut small = [0; 4];
    assert_eq!(rustix::fs::getxattr(&path, "user.short", &mut small), Err(rustix::io::Errno::RANGE));
    let len = rustix::fs::listxattr(&path, value.as_mut_slice()).unwrap();
    assert_eq!(value[..len], *b"user.long\0user.short\0");
    rustix::fs::removexattr(&path, "user.short").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.short", &mut small), Err(rustix::io::Errno::NODATA));
}

#[test]
fn ranges_are_allocated_punched_sought_and_copied() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let data = pattern(40_960);
    fs::write(served.path("from"), &data).unwrap();
    let from = OpenOptions::new().read(true).write(true).open(served.path("from")).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&from, hole, 8192, 8192).unwrap();
    assert_eq!(rustix::fs::seek(&from, SeekFrom::Hole(0)), Ok(8192));
    assert_eq!(rustix::fs::seek(&from, SeekFrom::Data(8192)), Ok(16_384));
    assert_eq!(rustix::fs::seek(&from, SeekFrom::Data(50_000)), Err(rustix::io::Errno::NXIO));
    rustix::fs::fallocate(&from, FallocateFlags::empty(), 0, 50_000).unwrap();
    assert_eq!(from.metadata().unwrap().len(), 50_000);
    let to = File::create(served.path("to")).unwrap();
    let (mut at, mut to_at) = (16_384, 100);
    let copied = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), 10_000).unwrap();
    assert_eq!(copied, 10_000);
    assert_eq!(served.filesystem.seen.copies.load(Ordering::Relaxed), 1);
    let expected = [&[0; 100], &data[16_384..26_384]].concat();
    assert!(fs::read(served.path("to")).unwrap() == expected);
}

#[test]
fn a_handler_that_panics_answers_an_error_and_the_rest_goes_on() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let error = fs::metadata(served.path("panic")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    fs::write(served.path("file"), b"fine").unwrap();
    assert_eq!(served.handle.statistics().panics, 1);
}

#[test]
fn many_threads_are_served_at_once() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let root = served.path("");
            scope.spawn(move || {
                for round in 0..20 {
                    let path = root.join(format!("{thread} {round}"));
                    let data = pattern(1000 * thread + 70_000 * round);
                    fs::write(&path, &data).unwrap();
                    assert!(fs::read(&path).unwrap() == data);
                    fs::remove_file(&path).unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_dir(served.path("")).unwrap().count(), 0);
}

#[test]
fn locks_are_the_kernels() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let first = File::create(served.path("file")).unwrap();
    let second = File::open(served.path("file")).unwrap();
    first.lock().unwrap();
    assert!(matches!(second.try_lock(), Err(fs::TryLockError::WouldBlock)));
    drop(first);
    second.try_lock().unwrap();
    let statistics = served.handle.statistics();
    assert_eq!(statistics.operation(Opcode::SetLk).count + statistics.operation(Opcode::SetLkW).count, 0);
}

#[test]
fn notifications_drop_what_the_kernel_caches() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    fs::write(served.path("file"), b"old").unwrap();
    File::open(served.path("file")).unwrap().sync_all().unwrap();
    let node = served.filesystem.change(b"file", b"new data");
    let notifier = served.handle.notifier();
    notifier.invalidate_inode(node, 0, 0).unwrap();
    assert_eq!(fs::read(served.path("file")).unwrap()[..3], *b"new");
    served.filesystem.forget_name(b"file");
    notifier.invalidate_entry(strongroom_fuse::NodeId::ROOT, b"file").unwrap();
    assert_eq!(fs::metadata(served.path("file")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    served.unmount();
    assert!(notifier.invalidate_inode(node, 0, 0).is_err());
}

/// What `strongroom sync` relies on; `syncfs(2)` may return before.
#[test]
fn a_sync_of_a_file_waits_for_pages_that_were_sent() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let mut file = File::create(served.path("hang")).unwrap();
    file.write_all(b"text").unwrap();
    let root = File::open(served.path("")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| rustix::fs::syncfs(&root));
        let hangs = served.filesystem.wait_for_hanging(1);
        let path = served.path("hang");
        let synced = scope.spawn(move || File::open(path).and_then(|other| other.sync_data()));
        std::thread::sleep(Duration::from_millis(200));
        let waits = !synced.is_finished();
        served.filesystem.release_hanging();
        assert!(hangs && waits, "nobody had answered");
        synced.join().unwrap().unwrap();
    });
    assert_eq!(fs::read(served.path("hang")).unwrap(), b"text");
}
