//! One PostgreSQL cluster: making it, starting it, killing it, asking it.
//!
//! Invariant: the server ends with the value. It listens on a socket in its own directory only.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::wait_gone;

const PROGRAMS: &str = "/usr/lib/postgresql";
const PORT: &str = "54329";
const INITDB_LIMIT: Duration = Duration::from_secs(180);
const START_LIMIT: Duration = Duration::from_secs(120);
const CHECK_LIMIT: Duration = Duration::from_secs(300);
const END_LIMIT: Duration = Duration::from_secs(30);

/// Installs the server where it is missing.
pub(super) fn install() -> Result {
    if programs().is_err() {
        packages::install(&["postgresql", "postgresql-contrib"])?;
    }
    packages::need(&[("stdbuf", "coreutils")])?;
    programs().map(drop)
}

/// The directory of the newest installed version's programs.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).context("PostgreSQL is not installed")?;
    versions
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, programs)| programs.join("postgres").is_file() && programs.join("initdb").is_file())
        .max()
        .map(|(_, programs)| programs)
        .ok_or_else(|| Failure::new("PostgreSQL is not installed"))
}

pub(super) struct Server {
    programs: PathBuf,
    data: PathBuf,
    /// Socket and log, outside the mount.
    own: PathBuf,
    user: (u32, u32),
    process: Option<Child>,
}

impl Server {
    /// Makes a cluster with data checksums in the new directory `data`.
    pub(super) fn create(data: &Path, own: PathBuf) -> Result<Self> {
        let user = super::server_user(Path::new("/etc/passwd"))?;
        fs::create_dir(data)?;
        for directory in [data, &own] {
            std::os::unix::fs::chown(directory, Some(user.0), Some(user.1))?;
        }
        let server = Self { programs: programs()?, data: data.to_path_buf(), own, user, process: None };
        let mut command = server.command("initdb");
        command.args(["--data-checksums", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        command.args(["--locale=C", "--no-instructions", "-D"]).arg(data);
        command::output(&mut command, INITDB_LIMIT)?;
        Ok(server)
    }

    pub(super) fn version(&self) -> Result<String> {
        packages::version_line(self.programs.join("postgres").as_os_str(), "--version")
    }

    /// One of the server's own programs, as the server's user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.uid(self.user.0).gid(self.user.1).current_dir(&self.own);
        command
    }

    /// A client program that connects to this server.
    pub(super) fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(&self.own).args(["-p", PORT, "-U", "postgres"]);
        command
    }

    /// Runs one statement; fields are separated by `|`.
    pub(super) fn query(&self, statement: &str) -> Result<String> {
        let mut command = self.client("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", statement]);
        command::output(&mut command, CHECK_LIMIT)
    }

    /// Starts the server and waits until it takes connections, recovery included.
    pub(super) fn start(&mut self) -> Result {
        let log = self.own.join("log");
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.own).args(["-p", PORT]);
        command.args(["-c", "listen_addresses=", "-c", "fsync=on", "-c", "full_page_writes=on"]);
        // Checkpoints often, so that kills fall into them too.
        command.args([
            "-c",
            "checkpoint_timeout=30s",
            "-c",
            "max_wal_size=48MB",
            "-c",
            "shared_buffers=32MB",
        ]);
        command.stdin(Stdio::null()).stdout(command::log_file(&log)?);
        command.stderr(fs::File::options().append(true).open(&log)?);
        let mut process = command::spawn(&mut command)?;
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let mut ready = self.client("pg_isready");
            ready.arg("-q");
            if command::finish(&mut ready, Duration::from_secs(20))?.status.success() {
                self.process = Some(process);
                return Ok(());
            }
            let ended = process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                command::end(&mut process);
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(Failure::new(format!("the server does not come up ({ended:?}):\n{log}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// `kill -9` of the server and all of its processes.
    pub(super) fn kill(&mut self) -> Result {
        self.kill_behind(|| Ok(()))
    }

    /// The same, but `first` comes before: it may take the server's files away while it works.
    pub(super) fn kill_behind<T>(&mut self, first: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(mut process) = self.process.take() else { return first() };
        let parent = pid(&process)?;
        let children = children(parent)?;
        ensure!(children.len() > 3, "the server has only {} processes", children.len());
        let outcome = first();
        for victim in std::iter::once(&parent).chain(&children) {
            // A backend may have ended in between.
            let _ = kill_process(*victim, Signal::KILL);
        }
        command::wait(&mut process, END_LIMIT).context("the killed server")?;
        children.into_iter().try_for_each(|child| wait_gone(child, END_LIMIT))?;
        outcome
    }

    /// A clean, fast shutdown.
    pub(super) fn stop(&mut self) -> Result {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        kill_process(pid(&process)?, Signal::INT)?;
        let status = command::wait(&mut process, CHECK_LIMIT).context("the stopping server")?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    /// Verifies every table and index, heap against index too.
    pub(super) fn amcheck(&self) -> Result {
        let mut command = self.client("pg_amcheck");
        command.args(["--all", "--install-missing", "--heapallindexed", "--parent-check"]);
        let finished = command::finish(&mut command, CHECK_LIMIT)?;
        ensure!(finished.status.success(), "{}", finished.output());
        Ok(())
    }

    /// Verifies the checksum of every page; the server must be stopped.
    pub(super) fn checksums(&self) -> Result {
        let mut command = self.command("pg_checksums");
        command.arg("--check").arg("-D").arg(&self.data);
        let report = command::output(&mut command, CHECK_LIMIT)?;
        ensure!(report.lines().any(|line| line.replace(' ', "") == "Badchecksums:0"), "{report}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(failure) = self.kill() {
            eprintln!("ending the server: {failure}");
        }
    }
}

fn pid(process: &Child) -> Result<Pid> {
    i32::try_from(process.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Failure::new("the server has no process id"))
}

/// The direct children of a process.
fn children(parent: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // After the name, which may contain anything, come the state and the parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let its_parent =
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        if its_parent == Some(parent.as_raw_nonzero().get()) {
            found.push(pid);
        }
    }
    Ok(found)
}
