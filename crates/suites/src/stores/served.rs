//! A mounted store, with the programs that serve it. It goes with its value.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::connection;

/// How long a program may take to serve, or to end.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// A store.
pub(crate) struct Served {
    directory: PathBuf,
    /// What serves it.
    pub(crate) version: String,
    /// In the order in which they were started.
    programs: Vec<Program>,
}

/// A program that serves, in the foreground.
pub(crate) struct Program {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Program {
    /// Starts it; what it prints goes into a file of `base`.
    pub(crate) fn start(base: &Path, name: &str, command: &mut Command) -> Result<Program> {
        let log = base.join(format!("{name}.log"));
        command.stdin(Stdio::null()).stdout(command::log_file(&log)?);
        command.stderr(File::options().append(true).open(&log)?);
        // Programs look for settings and keep caches at home, where nobody's are to be touched.
        command.env("HOME", base);
        Ok(Program { child: command::spawn(command)?, name: name.to_owned(), log })
    }

    /// Waits until it serves.
    pub(crate) fn wait_until(&mut self, is_ready: impl Fn() -> Result<bool>) -> Result {
        let deadline = Instant::now() + LIMIT;
        while !is_ready()? {
            if let Some(status) = self.child.try_wait()? {
                return Err(Failure::new(format!("{} ended ({status}):\n{}", self.name, self.said())));
            }
            ensure!(Instant::now() < deadline, "{} does not serve:\n{}", self.name, self.said());
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Kills it with all that it has started, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        command::end(&mut self.child);
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// Asks it to end, and sees to it that it does.
impl Drop for Program {
    fn drop(&mut self) {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).filter(|_| is_running)
        {
            // Not reaped yet, its process id is its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        if command::wait(&mut self.child, LIMIT).is_err() {
            eprintln!("{} had to be killed", self.name);
        }
    }
}

impl Served {
    /// What is mounted on `directory` already, by nobody who has to be ended.
    pub(crate) fn mounted(directory: PathBuf, version: String) -> Served {
        Served { directory, version, programs: Vec::new() }
    }

    /// Waits until the last of the programs has mounted `directory`.
    pub(crate) fn by(directory: PathBuf, version: String, programs: Vec<Program>) -> Result<Served> {
        let mut served = Served { directory, version, programs };
        let directory = served.directory.clone();
        let last = served.programs.last_mut().expect("somebody mounts it");
        last.wait_until(|| is_mounted(&directory))?;
        Ok(served)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Unmounts it and ends the programs.
    ///
    /// # Errors
    /// Somebody still uses it.
    pub(crate) fn end(self) -> Result {
        let deadline = Instant::now() + LIMIT;
        loop {
            let unmounted = command::output(Command::new("umount").arg(&self.directory), LIMIT);
            match unmounted {
                Ok(_) => return Ok(()),
                Err(failure) => ensure!(Instant::now() < deadline, "{failure}"),
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if is_mounted(&self.directory).unwrap_or(true) {
            let _ = command::output(Command::new("umount").arg("-l").arg(&self.directory), LIMIT);
        }
        // The last one mounts what the others serve.
        while self.programs.pop().is_some() {}
    }
}

/// Whether something is mounted there.
pub(crate) fn is_mounted(directory: &Path) -> Result<bool> {
    let above = directory.parent().unwrap_or(directory);
    Ok(connection::mounts_below(above)?.iter().any(|point| point == directory))
}

/// A port of this machine's that nobody uses at the moment.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("a free port")?.local_addr()?.port())
}

/// Whether somebody serves a port.
pub(crate) fn is_served(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// A new directory.
pub(crate) fn directory(base: &Path, name: &str) -> Result<PathBuf> {
    let path = base.join(name);
    fs::create_dir(&path).context(path.display())?;
    Ok(path)
}
