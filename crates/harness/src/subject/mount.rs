//! A mounted subject, and the promise that it does not stay mounted.
//!
//! Invariants: the mount ends with its value, cleanly if it can and by force if it must. A watchdog
//! aborts the FUSE connection when the time limit passes, so that no test hangs in a dead mount: its
//! system calls come back with an error instead.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::command;
use crate::failure::{Context, Failure, Result, ensure};
use crate::packages;
use crate::subject::Subject;
use crate::subject::connection::Connection;
use crate::subject::vault::Vault;

/// How long a mount may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long an unmount command and the daemon's last writes may take.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(120);
/// How long "busy" is taken for the tail of a process that just ended.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// The exit code of a daemon whose store has failed (`docs/exit-codes.md`).
const LOST: i32 = 7;
const POLL: Duration = Duration::from_millis(5);

/// How the daemon is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// As a child of this process, with its exit status checked after the unmount.
    Foreground,
    /// As a user starts it: the command returns when the mount is ready.
    Daemon,
}

/// How to mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    pub launch: Launch,
    /// Lets other users in.
    pub allow_other: bool,
    /// After this long the connection is aborted.
    pub limit: Duration,
    /// Further arguments for our own program; peers are not given them.
    pub arguments: &'static [&'static str],
}

impl MountOptions {
    /// A foreground daemon for this user, aborted after `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { launch: Launch::Foreground, allow_other: false, limit, arguments: &[] }
    }

    pub fn allow_other(mut self) -> Self {
        self.allow_other = true;
        self
    }

    pub fn daemon(mut self) -> Self {
        self.launch = Launch::Daemon;
        self
    }

    pub fn with(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }
}

/// A vault, mounted until this value goes.
pub struct Mount {
    vault: Vault,
    options: MountOptions,
    active: Option<Active>,
}

struct Active {
    /// The daemon, where it is our child.
    child: Option<Child>,
    pid: Pid,
    connection: Connection,
    /// Dropping it stops the watchdog.
    _watchdog: Sender<()>,
}

impl Mount {
    pub fn new(vault: &Vault, options: MountOptions) -> Result<Self> {
        let active = start(vault, options).context(format_args!("mounting {}", vault.subject.label()))?;
        Ok(Self { vault: vault.clone(), options, active })
    }

    /// The plain tree.
    pub fn path(&self) -> &Path {
        &self.vault.place.directory
    }

    /// The daemon; none for a bare directory.
    pub fn daemon(&self) -> Option<Pid> {
        self.active.as_ref().map(|active| active.pid)
    }

    /// Unmounts and mounts again: the kernel's caches of the plain tree are gone afterwards.
    pub fn remount(&mut self) -> Result {
        self.stop()?;
        self.active = start(&self.vault, self.options).context("mounting again")?;
        Ok(())
    }

    /// Ends the mount and reports what went wrong with it.
    ///
    /// # Errors
    /// The unmount failed or took too long, or the daemon ended with an error.
    pub fn unmount(mut self) -> Result {
        self.stop()
    }

    /// The same where the store may have lost what nobody synced. True when the daemon ended with the code that
    /// says so.
    pub fn unmount_after_losses(mut self) -> Result<bool> {
        let code = self.ended()?;
        ensure!(code == 0 || code == LOST, "{}", self.wrong_end(code));
        Ok(code == LOST)
    }

    /// Kills the daemon, wherever it is, and takes the dead mount away.
    pub fn crash(mut self) -> Result {
        let Some(mut active) = self.active.take() else { return Ok(()) };
        kill_process(active.pid, Signal::KILL)?;
        match &mut active.child {
            Some(child) => drop(command::wait(child, UNMOUNT_LIMIT).context("the killed daemon")?),
            None => wait_gone(active.pid, UNMOUNT_LIMIT)?,
        }
        clear(self.path())
    }

    /// [`Mount::crash`], and mounts again.
    pub fn crash_and_mount(self) -> Result<Self> {
        let (vault, options) = (self.vault.clone(), self.options);
        self.crash()?;
        Self::new(&vault, options)
    }

    /// Begins to unmount and kills the daemon after `delay`. True when the daemon had ended by itself, and
    /// well, so that everything is promised to be stored. (That the command succeeds does not say it: it
    /// also clears away what a dead daemon has left.)
    pub fn crash_unmounting(mut self, delay: Duration) -> Result<bool> {
        let Some(Active { child: Some(mut child), pid, .. }) = self.active.take() else {
            return Err(Failure::new("no daemon of ours to be killed"));
        };
        let mut command =
            self.vault.subject.unmount_command(self.path()).expect("an active mount has a program");
        let mut unmounting = command::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        thread::sleep(delay);
        // Not reaped yet, its process id is its own: a daemon that has ended is not hit, nor anyone else.
        kill_process(pid, Signal::KILL)?;
        let ended = command::wait(&mut child, UNMOUNT_LIMIT).context("the killed daemon")?;
        let unmounted = command::wait(&mut unmounting, UNMOUNT_LIMIT).context("the unmount")?;
        clear(self.path())?;
        Ok(ended.success() && unmounted.success())
    }

    /// What `strongroom status --json` says about this mount; none for other subjects.
    pub fn status(&self) -> Result<Option<serde_json::Value>> {
        let Subject::Strongroom { binary, .. } = &self.vault.subject else { return Ok(None) };
        let mut command = Command::new(binary);
        command.arg("status").arg(self.path()).arg("--json");
        Ok(Some(serde_json::from_str(&command::output(&mut command, Duration::from_secs(20))?)?))
    }

    /// `strongroom set` with these words; nothing for other subjects.
    pub fn set(&self, settings: &[&str]) -> Result {
        let Subject::Strongroom { binary, .. } = &self.vault.subject else { return Ok(()) };
        let mut command = Command::new(binary);
        command.arg("set").arg(self.path()).args(settings);
        command::output(&mut command, Duration::from_secs(20)).map(drop)
    }

    /// [`Subject::sync`] of this mount.
    pub fn sync(&self, limit: Duration) -> Result {
        self.vault.subject.sync(self.path(), limit)
    }

    fn stop(&mut self) -> Result {
        let code = self.ended()?;
        ensure!(code == 0, "{}", self.wrong_end(code));
        Ok(())
    }

    fn wrong_end(&self, code: i32) -> String {
        format!("the daemon ended with code {code}\n{}", log_tail(&self.vault.place.log))
    }

    /// Unmounts, and gives the daemon's exit code.
    fn ended(&mut self) -> Result<i32> {
        let Some(mut active) = self.active.take() else { return Ok(0) };
        let outcome = stop_cleanly(&self.vault, &mut active);
        if outcome.is_err() {
            force(self.path(), &mut active);
        }
        outcome.map_err(|failure| Failure::new(format!("{failure}\n{}", log_tail(&self.vault.place.log))))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(failure) = self.stop() {
            eprintln!("unmounting {}: {failure}", self.path().display());
        }
    }
}

/// Begins to mount `vault` and kills the daemon after `delay`, whatever it is doing. True when the mount was
/// there already.
pub fn crash_mounting(vault: &Vault, options: MountOptions, delay: Duration) -> Result<bool> {
    let Some(mut command) = vault.subject.mount_command(&vault.place, &options) else { return Ok(false) };
    command.stdin(Stdio::null()).stdout(command::log_file(&vault.place.log)?);
    command.stderr(fs::File::options().append(true).open(&vault.place.log)?);
    let mut child = command::spawn(&mut command)?;
    thread::sleep(delay);
    let ended = child.try_wait()?;
    command::end(&mut child);
    // Until it is gone it has the vault.
    command::wait(&mut child, UNMOUNT_LIMIT).context("the mount that was killed")?;
    ensure!(ended.is_none(), "the daemon ended instead of mounting\n{}", log_tail(&vault.place.log));
    let mounted = Connection::of(&vault.place.directory)?.is_some();
    clear(&vault.place.directory)?;
    Ok(mounted)
}

/// Takes what a dead daemon left mounted out of the tree.
fn clear(directory: &Path) -> Result {
    if Connection::of(directory)?.is_some() {
        detach(directory);
    }
    ensure!(Connection::of(directory)?.is_none(), "{} is still mounted", directory.display());
    Ok(())
}

fn start(vault: &Vault, options: MountOptions) -> Result<Option<Active>> {
    let Some(mut command) = vault.subject.mount_command(&vault.place, &options) else { return Ok(None) };
    let directory = &vault.place.directory;
    command.stdin(match vault.subject.asks_on_input() {
        true => Stdio::from(fs::File::open(&vault.place.password)?),
        false => Stdio::null(),
    });
    command.stdout(command::log_file(&vault.place.log)?);
    command.stderr(fs::File::options().append(true).open(&vault.place.log)?);
    let mut child = command::spawn(&mut command)?;
    let ready = match options.launch {
        Launch::Foreground => wait_ready(&mut child, directory).map(|()| Some(child_pid(&child))),
        Launch::Daemon => wait_daemon(&mut child).and_then(|()| daemon_pid(vault)).map(|pid| {
            // The launcher is gone; what is left is found by its command line.
            Some(pid)
        }),
    };
    let connection = Connection::of(directory)?;
    match (ready, connection) {
        (Ok(Some(pid)), Some(connection)) => {
            let child = (options.launch == Launch::Foreground).then_some(child);
            Ok(Some(Active { child, pid, connection, _watchdog: watch(connection, options.limit) }))
        }
        (outcome, connection) => {
            command::end(&mut child);
            if connection.is_some() {
                detach(directory);
            }
            let reason =
                outcome.err().unwrap_or_else(|| Failure::new("reported ready, but nothing is mounted"));
            Err(Failure::new(format!("{reason}\n{}", log_tail(&vault.place.log))))
        }
    }
}

fn child_pid(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has a positive process id")
}

fn wait_ready(child: &mut Child, directory: &Path) -> Result {
    let deadline = Instant::now() + READY_LIMIT;
    while Connection::of(directory)?.is_none() {
        if let Some(status) = child.try_wait()? {
            return Err(Failure::new(format!("the daemon ended ({status}) instead of mounting")));
        }
        ensure!(Instant::now() < deadline, "not ready after {} s", READY_LIMIT.as_secs());
        thread::sleep(POLL);
    }
    // The mount table comes first, the handshake after it: a request waits until the daemon serves.
    // Another process asks, because it can be given up on.
    let mut ask = Command::new("stat");
    ask.arg("--file-system").arg(directory);
    command::output(&mut ask, READY_LIMIT).map(drop)
}

fn wait_daemon(child: &mut Child) -> Result {
    let status = command::wait(child, READY_LIMIT).context("the mount command")?;
    ensure!(status.success(), "the mount command failed ({status})");
    Ok(())
}

/// The process of the mount's program that has the mount point among its arguments.
fn daemon_pid(vault: &Vault) -> Result<Pid> {
    use std::os::unix::ffi::OsStrExt;
    let directory = vault.place.directory.as_os_str().as_bytes();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let (Some(pid), Ok(line)) = (pid, fs::read(entry.path().join("cmdline"))) else { continue };
        if line.split(|byte| *byte == 0).skip(1).any(|argument| argument == directory) {
            return Ok(pid);
        }
    }
    Err(Failure::new("no process serves the mount"))
}

fn watch(connection: Connection, limit: Duration) -> Sender<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if receiver.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a mount was still in use after {} s: aborting it", limit.as_secs());
            if let Err(failure) = connection.abort() {
                eprintln!("cannot abort it: {failure}");
            }
        }
    });
    sender
}

fn stop_cleanly(vault: &Vault, active: &mut Active) -> Result<i32> {
    let deadline = Instant::now() + BUSY_LIMIT;
    loop {
        let mut command =
            vault.subject.unmount_command(&vault.place.directory).expect("an active mount has a program");
        let finished = command::finish(&mut command, UNMOUNT_LIMIT)?;
        // It fails too where it has unmounted and something holds the file system for more than a moment, be it
        // that the machine stood still: then the daemon's end says whether all is well.
        if finished.status.success() || Connection::of(&vault.place.directory)?.is_none() {
            break;
        }
        ensure!(Instant::now() < deadline, "`{}`: {}", command::shown(&command), finished.output().trim());
        thread::sleep(Duration::from_millis(100));
    }
    let code = match &mut active.child {
        Some(child) => {
            let status = command::wait(child, UNMOUNT_LIMIT).context("the daemon after the unmount")?;
            status.code().ok_or_else(|| Failure::new(format!("the daemon ended with {status}")))?
        }
        None => {
            wait_gone(active.pid, UNMOUNT_LIMIT)?;
            0
        }
    };
    ensure!(Connection::of(&vault.place.directory)?.is_none(), "still mounted after the unmount");
    Ok(code)
}

/// Waits for a process that is not our child to end.
pub fn wait_gone(pid: Pid, limit: Duration) -> Result {
    let deadline = Instant::now() + limit;
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        ensure!(Instant::now() < deadline, "process {} is still there", pid.as_raw_nonzero());
        thread::sleep(POLL);
    }
    Ok(())
}

fn is_zombie(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn force(directory: &Path, active: &mut Active) {
    if Connection::of(directory).ok().flatten().is_some() {
        if let Err(failure) = active.connection.abort() {
            eprintln!("cannot abort the connection: {failure}");
        }
        detach(directory);
    }
    match &mut active.child {
        Some(child) => command::end(child),
        // Without a child to reap, the process may have ended and its id been reused: check who it is.
        None if is_zombie(active.pid) => {}
        None if serves(active.pid, directory) => {
            let _ = kill_process(active.pid, Signal::KILL);
        }
        None => {}
    }
}

fn serves(pid: Pid, directory: &Path) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&line).split('\0').any(|argument| Path::new(argument) == directory)
}

/// Takes the mount point out of the tree, in use or not.
fn detach(directory: &Path) {
    let mut command = if packages::is_root() {
        let mut command = Command::new("umount");
        command.arg("-l");
        command
    } else {
        let mut command = Command::new("fusermount3");
        command.args(["-u", "-z"]);
        command
    };
    if let Err(failure) = command::output(command.arg(directory), Duration::from_secs(20)) {
        eprintln!("cannot detach {}: {failure}", directory.display());
    }
}

pub fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    format!("the daemon printed:\n{}", String::from_utf8_lossy(&text[start..]).trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::scratch::Scratch;
    use crate::subject::{Kind, Settings};

    fn peer() -> Result<(Scratch, Vault)> {
        let scratch = Scratch::new(None, "mount-test")?;
        let subject = Subject::resolve(Kind::Gocryptfs, Settings::default(), None)?;
        let vault = Vault::create(&subject, scratch.path())?;
        Ok((scratch, vault))
    }

    #[test]
    #[ignore = "needs gocryptfs and root"]
    fn a_stuck_daemon_is_aborted_in_time_and_nothing_stays() -> Result {
        let (_scratch, vault) = peer()?;
        let mount = vault.mount(MountOptions::new(Duration::from_secs(1)))?;
        let pid = mount.daemon().expect("a peer has a daemon");
        kill_process(pid, Signal::STOP)?;
        let began = Instant::now();
        assert!(fs::read_dir(mount.path()).is_err());
        assert!(began.elapsed() < Duration::from_secs(5));
        kill_process(pid, Signal::KILL)?;
        drop(mount);
        assert_eq!(Connection::of(&vault.place.directory)?, None);
        Ok(())
    }

    #[test]
    #[ignore = "needs gocryptfs and root"]
    fn both_ways_to_start_know_their_daemon() -> Result {
        let (_scratch, vault) = peer()?;
        for options in
            [MountOptions::new(Duration::from_secs(30)), MountOptions::new(Duration::from_secs(30)).daemon()]
        {
            let mut mount = vault.mount(options)?;
            let first = mount.daemon().expect("a peer has a daemon");
            mount.remount()?;
            wait_gone(first, Duration::ZERO)?;
            let second = mount.daemon().expect("a peer has a daemon");
            mount.unmount()?;
            wait_gone(second, Duration::ZERO)?;
        }
        Ok(())
    }
}
