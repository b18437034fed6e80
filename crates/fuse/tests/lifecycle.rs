//! How sessions begin and end: unmounting, aborting, failing to start, and
//! mounting as an ordinary user.

mod memory;

use memory::served::{Served, can_mount};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strongroom_engine::Buffer;
use strongroom_fuse::mount::MountMethod;
use strongroom_fuse::{
    Context, DirectoryEntries, DirectoryEntriesPlus, Ended, Entry, Errno, Filesystem, Handle, Mount,
    MountErrorKind, MountOptions, Negotiated, NodeId, OpenFlags, Opened, Read, Session, SessionError,
    SessionOptions, TimedAttributes, UnmountMode,
};

/// These tests count the process's threads.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn workers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("fuse-worker"))
        .count()
}

/// Waits until this process has so many workers: threads name themselves after
/// they have started, and leave `/proc` a moment after they were joined.
fn wait_for_workers(count: usize) {
    for _ in 0..500 {
        if workers() == count {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} workers instead of {count}", workers());
}

/// CPU time of all workers, in ticks of the system, of which there are 100 in
/// a second.
fn worker_ticks() -> u64 {
    let of = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        // User and system time are the 14th and 15th field; the third comes first here.
        let times = rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
        name.contains("(fuse-worker").then(|| times.sum::<u64>())
    };
    fs::read_dir("/proc/self/task").unwrap().filter_map(|task| of(task.ok()?)).sum()
}

/// Descriptors of this process that lead to the device.
fn device_descriptors() -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .filter(|target| target == Path::new("/dev/fuse"))
        .count()
}

/// A worker that has found many requests by looking for them stops looking.
#[test]
fn an_idle_mount_uses_no_cpu_time() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let before = worker_ticks();
    for index in 0..20_000 {
        assert!(!served.path(&format!("none-{index}")).exists());
    }
    let busy = worker_ticks() - before;
    assert!(busy > 0, "the ticks are those of the workers");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let before = worker_ticks();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let idle = worker_ticks() - before;
    assert!(idle <= 2, "{idle} ticks of 50");
    assert_eq!(served.unmount(), Ended::Unmounted);
}

#[test]
fn unmounting_ends_the_session_and_its_threads() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let served = Served::new();
    fs::write(served.path("file"), b"data").unwrap();
    wait_for_workers(4);
    assert_eq!(device_descriptors(), 4);
    let filesystem = served.filesystem.clone();
    let open = File::open(served.path("file")).unwrap();
    let busy = served.handle.unmount(UnmountMode::Orderly).unwrap_err();
    assert_eq!(busy.kind(), MountErrorKind::Busy);
    drop(open);
    assert!(!filesystem.seen.destroyed.load(Ordering::SeqCst));
    let handle = served.handle.clone();
    assert_eq!(served.unmount(), Ended::Unmounted);
    assert!(filesystem.seen.destroyed.load(Ordering::SeqCst));
    wait_for_workers(0);
    assert_eq!(device_descriptors(), 0);
    assert_eq!(handle.unmount(UnmountMode::Orderly).unwrap_err().kind(), MountErrorKind::NotMounted);
}

#[test]
fn a_lazy_unmount_serves_open_files_to_their_end() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let mut served = Served::new();
    fs::write(served.path("file"), b"data").unwrap();
    let open = File::open(served.path("file")).unwrap();
    served.handle.unmount(UnmountMode::Lazy).unwrap();
    assert!(!served.path("file").exists());
    assert_eq!(open.metadata().unwrap().len(), 4);
    drop(open);
    assert_eq!(served.ended().unwrap(), Ended::Unmounted);
    wait_for_workers(0);
}

/// Aborts while a caller waits, and says how the session ended.
fn abort_under_a_waiting_caller(mut served: Served) -> Ended {
    // Made longer without being written, so that the read has to ask.
    let file = File::create(served.path("hang")).unwrap();
    file.set_len(5).unwrap();
    let path = served.path("hang");
    let reader = std::thread::spawn(move || fs::read(path));
    assert!(served.filesystem.wait_for_hanging(1));
    served.handle.abort().unwrap();
    let error = reader.join().unwrap().unwrap_err();
    let known = [rustix::io::Errno::CONNABORTED, rustix::io::Errno::NOTCONN];
    assert!(known.iter().any(|errno| Some(errno.raw_os_error()) == error.raw_os_error()), "{error}");
    drop(file);
    served.filesystem.release_hanging();
    let ended = served.ended().unwrap();
    wait_for_workers(0);
    // What was mounted is gone: the directory is itself again.
    assert_eq!(fs::read_dir(served.path("")).unwrap().count(), 0);
    ended
}

#[test]
fn an_abort_frees_callers_that_wait() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let ended = abort_under_a_waiting_caller(Served::new());
    // Without its control file system, the kernel does not tell the two apart.
    let controlled = fs::read_dir("/sys/fs/fuse/connections").is_ok_and(|mut all| all.next().is_some());
    assert!(ended == Ended::Aborted || !controlled);
}

/// A file system that does not start.
struct Refusing;

impl Filesystem for Refusing {
    fn init(&self, _: &Negotiated) -> Result<(), Errno> {
        Err(Errno::UCLEAN)
    }

    fn lookup(&self, _: &Context, _: NodeId, _: &[u8]) -> Result<Entry, Errno> {
        Err(Errno::NOENT)
    }

    fn getattr(&self, _: &Context, _: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
        Err(Errno::NOENT)
    }

    fn open(&self, _: &Context, _: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
        Err(Errno::NOENT)
    }

    fn read(&self, _: &Context, _: NodeId, _: &Read, _: &mut Buffer) -> Result<usize, Errno> {
        Err(Errno::NOENT)
    }

    fn readdir(
        &self,
        _: &Context,
        _: NodeId,
        _: Handle,
        _: u64,
        _: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::NOENT)
    }

    fn readdirplus(
        &self,
        _: &Context,
        _: NodeId,
        _: Handle,
        _: u64,
        _: &mut DirectoryEntriesPlus<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::NOENT)
    }
}

#[test]
fn a_file_system_that_does_not_start_leaves_no_mount() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = Mount::new(directory.path(), &MountOptions::default()).unwrap();
    let ended = Session::new(mount, Arc::new(Refusing), SessionOptions::default()).run();
    assert!(matches!(ended, Err(SessionError::Init(Errno::UCLEAN))), "{ended:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    wait_for_workers(0);
    assert_eq!(device_descriptors(), 0);
}

#[test]
fn a_mount_that_is_not_served_is_taken_back() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = Mount::new(directory.path(), &MountOptions::default()).unwrap();
    let listed = |path: &Path| {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().any(|line| line.contains("fuse.strongroom") && line.contains(path.to_str().unwrap()))
    };
    assert!(listed(mount.path()));
    let again = Mount::new(directory.path(), &MountOptions::default());
    assert_ne!(again.unwrap_err().kind(), MountErrorKind::System);
    drop(mount);
    assert!(!listed(directory.path()));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_read_only_mount_refuses_writes() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let options = MountOptions { read_only: true, source: "a, b\\c".to_owned(), ..Default::default() };
    let served = Served::with(&options, SessionOptions::default()).unwrap();
    let error = File::create(served.path("file")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(table.contains("a,\\040b\\134c "), "{table}");
}

#[test]
fn readahead_and_dirty_memory_are_set_where_permitted() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let options = SessionOptions { readahead_kib: 512, dirty_percent: 7, ..Default::default() };
    let served = Served::with(&MountOptions::default(), options).unwrap();
    fs::metadata(served.path("")).unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    // The directory's name ends in letters of its own, behind an escaped blank.
    let name = served.path("").to_str().unwrap().trim_end_matches('/').rsplit(' ').next().unwrap().to_owned();
    let line = table.lines().find(|line| line.contains(&name)).unwrap();
    let device = line.split(' ').nth(2).unwrap();
    // INIT is answered before they are set; give it a moment.
    let read = |name| fs::read_to_string(format!("/sys/class/bdi/{device}/{name}")).unwrap();
    let found = || (read("read_ahead_kb").trim().to_owned(), read("max_ratio").trim().to_owned());
    let wanted = ("512".to_owned(), "7".to_owned());
    for _ in 0..100 {
        if found() == wanted {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(found(), wanted);
}

/// Becomes `nobody`, where `/dev/fuse` is open to all as it is on most systems:
/// in a name space of its own for mounts, so that nothing outside changes.
const AS_NOBODY: &str = r#"
set -e
mkdir "$1/dev"
mount -t tmpfs tmpfs "$1/dev"
mknod -m 666 "$1/dev/fuse" c 10 229
mount --bind "$1/dev/fuse" /dev/fuse
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl fusectl /sys/fs/fuse/connections
exec setpriv --reuid=65534 --regid=65534 --clear-groups -- \
    "$1/program" --exact as_an_ordinary_user --ignored --nocapture
"#;

/// Runs the test below as `nobody`, from a copy of this program that `nobody`
/// may read.
#[test]
fn an_ordinary_user_mounts_through_the_program() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let found = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).exists())
    };
    if !["setpriv", "unshare", "fusermount3"].into_iter().all(found) {
        eprintln!("skipped: setpriv, unshare and fusermount3 are needed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let everyone = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), everyone.clone()).unwrap();
    let program = directory.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, everyone).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "--", "sh", "-c", AS_NOBODY, "sh"])
        .arg(directory.path())
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "run by an_ordinary_user_mounts_through_the_program"]
fn as_an_ordinary_user() {
    let _alone = alone();
    let options = MountOptions { method: MountMethod::Fusermount, ..Default::default() };
    let mut served = Served::with(&options, SessionOptions { workers: 3, ..Default::default() }).unwrap();
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    fs::write(served.path("file"), &data).unwrap();
    assert!(fs::read(served.path("file")).unwrap() == data);
    wait_for_workers(3);
    let open = File::open(served.path("file")).unwrap();
    assert_eq!(served.handle.unmount(UnmountMode::Orderly).unwrap_err().kind(), MountErrorKind::Busy);
    drop(open);
    served.handle.unmount(UnmountMode::Orderly).unwrap();
    assert_eq!(served.ended().unwrap(), Ended::Unmounted);
    wait_for_workers(0);
    drop(served);
    let served = Served::with(&options, SessionOptions::default()).unwrap();
    assert_eq!(abort_under_a_waiting_caller(served), Ended::Aborted);
    // Not permitted by /etc/fuse.conf, or permitted: never a hang, never a panic.
    let others = MountOptions { allow_other: true, ..options };
    match Served::with(&others, SessionOptions::default()) {
        Ok(served) => assert_eq!(served.unmount(), Ended::Unmounted),
        Err(error) => {
            assert_eq!(error.kind(), MountErrorKind::Refused);
            assert!(error.to_string().contains("allow_other"), "{error}");
        }
    }
}
