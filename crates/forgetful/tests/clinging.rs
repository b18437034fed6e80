//! A local store on a file system that loses what was written, and keeps the error for as long as a file is
//! open to be written. It needs `/dev/fuse`.

mod mounted;

use std::time::{Duration, Instant};

use mounted::{Mounted, nothing_starts};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::{Access, AllocateMode, FileRef, NodeRef, Result, Store};

const EIO: i32 = 5;
/// How long the system may take to tell the file system that a file was closed.
const LIMIT: Duration = Duration::from_secs(30);

struct Trial {
    store: LocalStore,
    node: NodeRef,
    file: FileRef,
    mounted: Mounted,
    _directory: tempfile::TempDir,
}

impl Trial {
    /// A file with four bytes that are durable, created just now or opened later.
    fn new(is_created: bool) -> Trial {
        let directory = tempfile::tempdir().expect("a directory");
        let mounted = Mounted::on(directory.path(), &[]);
        let store = LocalStore::open(directory.path(), OpenMode::Writable).expect("it opens");
        let (node, mut file) = store.root().create(b"file", 0o600).expect("made");
        if !is_created {
            drop(file);
            file = node.open(Access::ReadWrite).expect("open");
        }
        file.write_at(b"aaaa", 0).expect("written");
        file.sync_all().expect("durable");
        store.sync_all().expect("nobody else has the file open");
        Trial { store, node, file, mounted, _directory: directory }
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; 16];
        let len = self.node.open(Access::Read).expect("open").read_at(&mut content, 0).expect("read");
        content.truncate(len);
        content
    }
}

fn errno<T>(result: Result<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

/// Tries until it works; the system tells later that a file was closed.
fn in_the_end(mut attempt: impl FnMut() -> Result<()>) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = attempt() {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_barrier_that_fails_is_not_the_end_of_a_file() {
    for is_created in [true, false] {
        let mut trial = Trial::new(is_created);
        trial.file.write_at(b"bb", 0).expect("written");
        trial.mounted.lose();
        assert_eq!(errno(trial.file.sync_data()), Some(EIO));
        let file = &trial.file;
        in_the_end(|| file.write_at(b"cc", 2).and_then(|()| file.sync_data()));
        assert_eq!(trial.content(), b"aacc");
    }
}

#[test]
fn what_was_lost_before_a_change_failed_is_told_by_the_next_barrier() {
    let changes: [fn(&FileRef) -> Result<()>; 3] = [
        |file| file.write_at(b"x", 9),
        |file| file.write_vectored_at(&[std::io::IoSlice::new(b"x")], 9),
        |file| file.allocate(AllocateMode::Extend, 0, 12),
    ];
    for change in changes {
        for syncs in [|trial: &Trial| trial.file.sync_data(), |trial: &Trial| trial.store.sync_all()] {
            let mut trial = Trial::new(false);
            trial.file.write_at(b"bb", 0).expect("written");
            trial.mounted.lose();
            assert_eq!(errno(change(&trial.file)), Some(EIO));
            let file = &trial.file;
            // A change that comes too early fails once more; that it works does not make up for what is lost.
            in_the_end(|| file.write_at(b"cc", 2));
            assert_eq!(errno(syncs(&trial)), Some(EIO));
            in_the_end(|| file.write_at(b"cc", 2).and_then(|()| syncs(&trial)));
            assert_eq!(trial.content(), b"aacc");
        }
    }
}

/// A file that was closed stays open until the store's barrier.
#[test]
fn what_is_kept_of_a_closed_file_does_not_keep_the_error() {
    let mut trial = Trial::new(false);
    trial.file.write_at(b"bb", 0).expect("written");
    trial.file = trial.node.open(Access::ReadWrite).expect("open");
    trial.mounted.lose();
    assert_eq!(errno(trial.file.write_at(b"cc", 2)), Some(EIO));
    let file = &trial.file;
    in_the_end(|| file.write_at(b"cc", 2));
    assert_eq!(errno(trial.store.sync_all()), Some(EIO), "somebody lost something");
    in_the_end(|| file.write_at(b"cc", 2).and_then(|()| file.sync_data()));
    file.write_at(b"d", 3).expect("written");
    trial.store.sync_all().expect("durable");
    trial.mounted.lose();
    assert_eq!(trial.content(), b"aacd", "the barrier was one of the file that is open now");
}

/// Who syncs the file hears nothing of what is told to who syncs the store, and the other way round.
#[test]
fn a_loss_is_told_to_who_syncs_the_file_and_to_who_syncs_the_store() {
    let of_file = |trial: &Trial| errno(trial.file.sync_data());
    let of_store = |trial: &Trial| errno(trial.store.sync_all());
    for order in [[of_file as fn(&Trial) -> Option<i32>, of_store], [of_store, of_file]] {
        let mut trial = Trial::new(false);
        trial.file.write_at(b"bb", 0).expect("written");
        trial.mounted.lose();
        assert_eq!(order[0](&trial), Some(EIO));
        let file = &trial.file;
        in_the_end(|| file.write_at(b"cc", 2));
        assert_eq!(order[1](&trial), Some(EIO));
        in_the_end(|| file.write_at(b"dd", 2).and_then(|()| file.sync_data()));
        in_the_end(|| trial.store.sync_all());
        assert_eq!(trial.content(), b"aadd");
    }
}

#[test]
fn a_change_that_fails_by_itself_costs_nothing() {
    let trial = Trial::new(false);
    trial.file.write_at(b"bb", 0).expect("written");
    let too_long = trial.file.set_len(1 << 63).expect_err("there is no such length");
    assert_ne!(too_long.errno(), EIO);
    trial.file.sync_data().expect("nothing is lost");
    assert_eq!(trial.content(), b"bbaa");
}

/// Files of the mount that this process has open to be written.
fn open_to_write(trial: &Trial) -> usize {
    const ACCESS: u32 = 0o3;
    const READ_WRITE: u32 = 0o2;
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("listed").flatten();
    let writes = |fd: &std::fs::DirEntry| {
        let leads_there =
            std::fs::read_link(fd.path()).is_ok_and(|link| link.starts_with(trial._directory.path()));
        let info = std::path::Path::new("/proc/self/fdinfo").join(fd.file_name());
        let info = std::fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
        leads_there && flags & ACCESS == READ_WRITE
    };
    descriptors.filter(writes).count()
}

/// A store that tells of a loss once tells it to what was open then, be it closed since or not.
#[test]
fn what_a_closed_file_has_lost_is_told_to_who_syncs_it_later() {
    for changes in [false, true] {
        let mut trial = Trial::new(false);
        trial.file.write_at(b"bb", 0).expect("written");
        trial.file = trial.node.open(Access::ReadWrite).expect("open");
        let _alone = nothing_starts();
        trial.mounted.lose_once();
        if changes {
            trial.file.write_at(b"cc", 2).expect("written");
        }
        assert_eq!(errno(trial.file.sync_data()), Some(EIO));
        assert_eq!(errno(trial.store.sync_all()), Some(EIO));
        trial.file.sync_data().expect("told once");
        trial.store.sync_all().expect("told once");
    }
}

#[test]
fn what_was_synced_does_not_stay_open_for_the_stores_barrier() {
    let trial = Trial::new(false);
    let before = open_to_write(&trial);
    for number in 0..40 {
        let (_, file) = trial.store.root().create(format!("{number}").as_bytes(), 0o600).expect("made");
        file.write_at(b"a", 0).expect("written");
        file.sync_all().expect("durable");
    }
    assert_eq!(open_to_write(&trial), before);
}

#[test]
fn one_handle_of_a_file_stays_open_however_often_it_is_opened() {
    let trial = Trial::new(false);
    let before = open_to_write(&trial);
    for _ in 0..40 {
        trial.node.open(Access::ReadWrite).expect("open").write_at(b"a", 0).expect("written");
    }
    assert!(open_to_write(&trial) <= before + 1);
}
