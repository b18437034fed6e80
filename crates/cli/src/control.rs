//! The control socket of a mount: what is asked and answered, where the socket
//! is, and the asking side.
//!
//! One request and one answer, each a line of JSON. The socket is named by the
//! mount's device number, which is unique on a machine, and the daemon's
//! process, and lies in a directory that belongs to the user alone. No key and
//! no content passes here; names of plain files do.

pub(crate) mod holders;
pub(crate) mod mounts;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::mounts::{DeviceNumber, Mounted};
use crate::daemon::status::MountStatus;
use crate::failure::{Exit, Failure, Result};

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Figures since the mount.
    Status,
    /// Make everything durable that the daemon was given before.
    Sync,
    /// Name the files that are open for writing.
    OpenForWriting,
    /// Unmount. The answer comes when the vault is closed, or, lazily, when
    /// the mount is detached.
    Unmount {
        /// Detach even when files are open.
        lazy: bool,
    },
    /// End by force: whoever uses the mount gets errors, and what the kernel
    /// has not written back is lost. The answer comes when the vault is closed.
    Abort,
    /// Wait until the vault is closed.
    Closed,
    /// Change how batches are placed.
    Set {
        /// Words of the form `NAME=VALUE`.
        settings: Vec<String>,
    },
    /// Record the load.
    TraceStart,
    /// End that. The answer names a number of bytes, which follow it.
    TraceStop,
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// To `status`.
    Status(Box<MountStatus>),
    /// It is done.
    Done,
    /// To `trace-stop`: so many bytes follow.
    Trace {
        /// Of the trace.
        bytes: u64,
    },
    /// To `open-for-writing`.
    OpenForWriting {
        /// Of those that have a name.
        files: Vec<OpenFile>,
    },
    /// To `unmount`: the name is gone, and something keeps the file system.
    Held,
    /// It failed.
    Failed(Told),
}

/// A file that is open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenFile {
    /// Its number in the daemon.
    pub(crate) node: u64,
    /// As `stat(2)` tells it; 0 where that cannot be had.
    pub(crate) inode: u64,
    /// From the mount, as it was last found; any bytes, and none where no name
    /// is known.
    pub(crate) path: Vec<u8>,
}

/// A failure that passes from one process to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl From<&Failure> for Told {
    fn from(failure: &Failure) -> Told {
        let whole = failure.to_string();
        let hint = whole.strip_prefix(failure.message()).map(str::trim).filter(|hint| !hint.is_empty());
        Told {
            code: failure.exit().code(),
            message: failure.message().to_owned(),
            hint: hint.map(str::to_owned),
        }
    }
}

impl From<Told> for Failure {
    fn from(told: Told) -> Failure {
        let failure = Failure::new(exit_from(told.code), told.message);
        match told.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

fn exit_from(code: u8) -> Exit {
    match code {
        2 => Exit::Usage,
        3 => Exit::WrongSecret,
        4 => Exit::Damage,
        5 => Exit::InUse,
        6 => Exit::Unsupported,
        7 => Exit::Store,
        8 => Exit::Repaired,
        9 => Exit::RepairIncomplete,
        _ => Exit::Other,
    }
}

/// Where sockets of the user `uid` may be, the best first.
fn directories(uid: u32) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    if uid == 0 {
        directories.push(PathBuf::from("/run/strongroom"));
    } else {
        if uid == rustix::process::geteuid().as_raw()
            && let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())
        {
            directories.push(Path::new(&runtime).join("strongroom"));
        }
        directories.push(PathBuf::from(format!("/run/user/{uid}/strongroom")));
    }
    directories.push(PathBuf::from(format!("/tmp/strongroom-{uid}")));
    directories
}

/// Whether a directory is `uid`'s alone, so that nobody else can have put a
/// socket there.
fn is_private(directory: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == uid && found.permissions().mode() & 0o077 == 0)
}

/// A directory for this user's sockets, made where it is missing.
///
/// # Errors
/// When none can be had.
pub(crate) fn own_directory() -> Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let made = directories(uid).into_iter().find(|directory| {
        // Fails where it is there already; whether it is ours is seen below.
        let _ = std::fs::DirBuilder::new().mode(0o700).create(directory);
        is_private(directory, uid)
    });
    made.ok_or_else(|| {
        Failure::new(Exit::Other, "there is no directory for the control socket")
            .hint("Set XDG_RUNTIME_DIR to a directory of mode 0700 that is yours.")
    })
}

/// The beginning of the names of a mount's sockets. A device number is free
/// for the next mount as soon as this one is gone, and its daemon may then
/// still be busy with closing the vault: the process number tells them apart.
fn socket_prefix(device: DeviceNumber) -> String {
    format!("{}-{}-", device.major, device.minor)
}

/// The name of the socket of this process for a mount.
pub(crate) fn socket_name(device: DeviceNumber) -> String {
    format!("{}{}.socket", socket_prefix(device), std::process::id())
}

/// The sockets in a directory whose names begin with `prefix`, the newest
/// first.
pub(crate) fn sockets(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort_unstable();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Where else sockets lie, of whoever: a daemon may have been started with another `XDG_RUNTIME_DIR` than this process.
fn bound_directories() -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut directories: Vec<PathBuf> = table.lines().filter_map(bound_directory).collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// The directory of a socket of this program's in a line of `/proc/net/unix`, behind whose seven columns the path stands.
fn bound_directory(line: &str) -> Option<PathBuf> {
    let path = Path::new(line.get(line.find(" /")? + 1..)?);
    let directory = path.parent()?;
    (directory.ends_with("strongroom") && parse_socket_name(path).is_some()).then(|| directory.to_owned())
}

/// The sockets of the user `uid` whose names begin with `prefix`.
fn trusted_sockets(uid: u32, prefix: &str) -> Vec<PathBuf> {
    let known = directories(uid);
    let others = bound_directories().into_iter().filter(|directory| !known.contains(directory));
    let all = known.iter().cloned().chain(others);
    all.filter(|directory| is_private(directory, uid))
        .flat_map(|directory| sockets(&directory, prefix))
        .collect()
}

/// The mount whose device and process a socket is named by.
fn parse_socket_name(socket: &Path) -> Option<(DeviceNumber, u32)> {
    let mut numbers = socket.file_stem()?.to_str()?.split('-').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let device = DeviceNumber { major: next()?, minor: next()? };
    Some((device, next()?))
}

/// The device of the mount that the process `pid` of this user serves, whether
/// or not any mount table shows it.
pub(crate) fn device_of(pid: u32) -> Option<DeviceNumber> {
    let uid = rustix::process::geteuid().as_raw();
    let named = trusted_sockets(uid, "").into_iter().filter_map(|socket| parse_socket_name(&socket));
    named.into_iter().find(|(_, process)| *process == pid).map(|(device, _)| device)
}

/// A mount of this user's that was at `path`, is not listed any more, and is
/// served all the same.
pub(crate) fn detached(path: &Path) -> Option<Mounted> {
    let absolute = std::path::absolute(path).ok()?;
    let beside = absolute.parent().and_then(|above| above.canonicalize().ok());
    let beside = beside.zip(absolute.file_name()).map(|(above, name)| above.join(name));
    let uid = rustix::process::geteuid().as_raw();
    trusted_sockets(uid, "").iter().find_map(|socket| {
        let (device, _) = parse_socket_name(socket)?;
        let Ok(Answer::Status(status)) = Client::at(socket)?.ask(Request::Status) else { return None };
        let was = PathBuf::from(status.mount_point);
        (was == absolute || Some(&was) == beside.as_ref()).then_some(Mounted {
            kind: mounts::Kind::Vault,
            device,
            path: was,
            source: status.vault,
            owner: uid,
            read_only: status.read_only,
        })
    })
}

/// Removes sockets in a directory of this user's whose daemons are dead. One
/// that begins at the same time has bound its socket and may not listen yet:
/// it runs, and its socket stays.
pub(crate) fn remove_dead(directory: &Path) {
    for path in sockets(directory, "") {
        let refused = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        if !is_running(&path) && UnixStream::connect(&path).is_err_and(|error| refused(&error)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Removes the sockets of this user's that are named by a device number which is this process's mount's now: the mounts
/// that had it are gone. Their daemons may still be closing vaults, and what one of them says must not be taken for the
/// answer of this mount's, least of all once that has been killed.
pub(crate) fn remove_former(device: DeviceNumber) {
    let uid = rustix::process::geteuid().as_raw();
    for socket in trusted_sockets(uid, &socket_prefix(device)) {
        let _ = std::fs::remove_file(socket);
    }
}

/// Whether there is a process of the number in a socket's name.
fn is_running(socket: &Path) -> bool {
    let name = socket.file_stem().and_then(|stem| stem.to_str());
    let number = name.and_then(|name| name.rsplit('-').next()).and_then(|number| number.parse().ok());
    let process = number.and_then(rustix::process::Pid::from_raw);
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

/// Longest wait for an answer that takes no work.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the daemon of a mount.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    /// The daemon's process, where the system can name it.
    process: Option<OwnedFd>,
}

impl Client {
    /// Connects to the daemon that serves `mounted`; `None` when there is none
    /// that this user may ask.
    pub(crate) fn connect(mounted: &Mounted) -> Option<Client> {
        let prefix = socket_prefix(mounted.device);
        trusted_sockets(mounted.owner, &prefix).iter().find_map(|socket| Client::at(socket))
    }

    fn at(socket: &Path) -> Option<Client> {
        let stream = UnixStream::connect(socket).ok()?;
        // Before anything is asked: its number may be another's afterwards.
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok();
        let process = peer.and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()).ok());
        Some(Client { stream, process })
    }

    /// Waits until the daemon's process is gone, and with it everything that
    /// it held open, or for `limit`; true when it is.
    pub(crate) fn ended_within(&self, limit: Duration) -> bool {
        let Some(process) = &self.process else { return true };
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = Timespec::try_from(left).ok();
            match rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], wait.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) => return false,
                // Nothing that can be waited for is nothing to wait for.
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The daemon's failure, or that it is gone.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        let timeout = matches!(
            request,
            Request::Status | Request::OpenForWriting | Request::Set { .. } | Request::TraceStart
        )
        .then_some(ANSWER_TIMEOUT);
        self.ask_within(request, timeout)
    }

    /// Ends a trace and gets it, as a file has it.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn stop_trace(&mut self) -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&Request::TraceStop).expect("a request has text keys");
        line.push(b'\n');
        let asked =
            self.stream.set_read_timeout(Some(ANSWER_TIMEOUT)).and_then(|()| self.stream.write_all(&line));
        asked.map_err(|_| gone())?;
        let mut reader = BufReader::new(&self.stream);
        let mut answer = String::new();
        reader.read_line(&mut answer).map_err(|_| gone())?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Failed(told)) => Err(told.into()),
            Ok(Answer::Trace { bytes }) => followed(reader, bytes).ok_or_else(gone),
            _ => Err(gone()),
        }
    }

    /// As [`Client::ask`], giving up after `timeout`.
    ///
    /// # Errors
    /// As [`Client::ask`]; in use when no answer came in time.
    pub(crate) fn ask_within(&mut self, request: Request, timeout: Option<Duration>) -> Result<Answer> {
        match exchange(&self.stream, &request, timeout)? {
            Answer::Failed(told) => Err(told.into()),
            answer => Ok(answer),
        }
    }
}

/// Longest trace that is taken: its records, and room for the header.
const TRACE_LEN_MAX: u64 = (strongroom_trace::RECORDS_MAX * strongroom_trace::RECORD_LEN) as u64 + (1 << 20);

/// The bytes that were announced; `None` when fewer come.
pub(crate) fn followed(reader: impl std::io::Read, bytes: u64) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    reader.take(bytes.min(TRACE_LEN_MAX)).read_to_end(&mut found).ok()?;
    (found.len() as u64 == bytes).then_some(found)
}

/// Asks a daemon, and gives its answer; after `timeout` none is waited for.
///
/// # Errors
/// In use when no answer came in time; that the daemon is gone, or is not
/// understood.
pub(crate) fn exchange<A: DeserializeOwned>(
    mut stream: &UnixStream,
    request: &impl Serialize,
    timeout: Option<Duration>,
) -> Result<A> {
    let mut line = serde_json::to_vec(request).expect("a request has text keys");
    line.push(b'\n');
    let mut answer = String::new();
    let exchanged = stream
        .set_read_timeout(timeout)
        .and_then(|()| stream.write_all(&line))
        .and_then(|()| BufReader::new(stream).read_line(&mut answer));
    match exchanged {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(Failure::new(Exit::InUse, "the daemon does not answer"));
        }
        Err(_) | Ok(0) => return Err(gone()),
        Ok(_) => {}
    }
    serde_json::from_str(&answer)
        .map_err(|error| Failure::new(Exit::Other, format!("the daemon's answer is not understood: {error}")))
}

fn gone() -> Failure {
    Failure::new(Exit::Other, "the daemon ended without closing the vault")
        .hint(
        "While the store is there, what was synced is safe; what was not may be lost. The next mount recovers what it \
         can. The system's log may say why.",
    )
}

/// Nobody answers for a mount.
pub(crate) fn unanswered(mounted: &Mounted) -> Failure {
    let own = mounted.owner == rustix::process::geteuid().as_raw();
    let failure = Failure::new(Exit::Other, "no daemon answers for this mount").at(&mounted.path);
    if own {
        failure.hint("If it has ended, unmount: strongroom umount DIR.")
    } else {
        failure.hint(format!("It is a mount of user {}: ask as that user or as root.", mounted.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_pass_between_processes() {
        for failure in [Failure::usage("what"), Failure::new(Exit::Store, "a: b").hint("Do this.\nOr that.")]
        {
            assert_eq!(Failure::from(Told::from(&failure)), failure);
        }
    }

    #[test]
    fn every_code_passes() {
        for exit in Exit::ALL.into_iter().filter(|exit| *exit != Exit::Done) {
            assert_eq!(exit_from(exit.code()), exit);
        }
    }

    #[test]
    fn requests_are_lines_of_json() {
        let line = serde_json::to_string(&Request::Unmount { lazy: true }).expect("text");
        assert_eq!(line, r#"{"request":"unmount","lazy":true}"#);
    }

    #[test]
    fn sockets_say_whose_they_are() {
        let device = DeviceNumber { major: 0, minor: 39 };
        let name = socket_name(device);
        assert_eq!(
            parse_socket_name(Path::new("/run/x").join(name).as_path()),
            Some((device, std::process::id()))
        );
        for name in ["0-39.socket", "a-b-c.socket", ".socket", "0--1-7.socket"] {
            assert_eq!(parse_socket_name(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_daemon_with_another_directory_for_sockets_is_found_if_that_is_private() {
        let elsewhere = tempfile::tempdir().expect("a directory");
        let directory = elsewhere.path().join("a b/strongroom");
        std::fs::create_dir_all(&directory).expect("made");
        let name = "0-4194303-4194307.socket";
        let _socket = std::os::unix::net::UnixListener::bind(directory.join(name)).expect("ours");
        let uid = rustix::process::geteuid().as_raw();
        let found = |mode| {
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).expect("ours");
            trusted_sockets(uid, "0-4194303-")
        };
        assert_eq!(found(0o700), [directory.join(name)]);
        assert!(found(0o755).is_empty());
        let line = |path: &str| format!("0: 00000002 00000000 00010000 0001 01 44645 {path}");
        for other in ["/run/dbus/socket", "/run/x/0-39-7.socket", "@/strongroom/0-39-7.socket", ""] {
            assert_eq!(bound_directory(&line(other)), None, "{other}");
        }
    }

    #[test]
    fn who_had_a_device_before_is_not_asked_for_the_mount_that_has_it_now() {
        let elsewhere = tempfile::tempdir().expect("a directory");
        let directory = elsewhere.path().join("strongroom");
        std::fs::DirBuilder::new().mode(0o700).create(&directory).expect("made");
        let listen = |name: &str| std::os::unix::net::UnixListener::bind(directory.join(name)).expect("ours");
        let _closing = (listen("0-4194301-4194307.socket"), listen("0-419430-4194307.socket"));
        remove_former(DeviceNumber { major: 0, minor: 4_194_301 });
        assert_eq!(sockets(&directory, ""), [directory.join("0-419430-4194307.socket")]);
    }

    #[test]
    fn a_daemon_is_waited_for_until_its_process_is_gone() {
        let (stream, _other) = UnixStream::pair().expect("sockets");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a number");
        let process = Some(pidfd_open(pid, PidfdFlags::empty()).expect("ours"));
        let client = Client { stream, process };
        assert!(!client.ended_within(Duration::from_millis(20)));
        child.kill().expect("ours");
        assert!(client.ended_within(Duration::from_secs(20)));
        child.wait().expect("it ends");
    }

    #[test]
    fn the_newest_socket_of_a_mount_is_tried_first_and_dead_ones_go() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let listen = |name: &str| {
            std::thread::sleep(Duration::from_millis(5));
            std::os::unix::net::UnixListener::bind(path(name)).expect("ours")
        };
        // Above the most that Linux numbers processes by.
        for name in ["0-39-4194307.socket", "0-39-4194308.socket", "0-3-4194309.socket"] {
            drop(listen(name));
        }
        let prefix = socket_prefix(DeviceNumber { major: 0, minor: 39 });
        assert_eq!(
            sockets(directory.path(), &prefix),
            [path("0-39-4194308.socket"), path("0-39-4194307.socket")]
        );
        let live = listen("0-40-4194310.socket");
        // As one that is bound and not listened to yet.
        let begun = format!("0-41-{}.socket", std::process::id());
        drop(listen(&begun));
        remove_dead(directory.path());
        assert_eq!(sockets(directory.path(), ""), [path(&begun), path("0-40-4194310.socket")]);
        drop(live);
    }

    #[test]
    fn a_directory_of_others_is_not_trusted() {
        let directory = tempfile::tempdir().expect("a directory");
        let uid = rustix::process::geteuid().as_raw();
        let set_mode = |mode| {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
        };
        set_mode(0o700);
        assert!(is_private(directory.path(), uid));
        assert!(!is_private(directory.path(), uid + 1));
        set_mode(0o755);
        assert!(!is_private(directory.path(), uid));
    }
}
