//! Runs programs with a time limit.
//!
//! Every child leads its own process group, so that a limit ends what it started too. Nothing here
//! waits without a bound: a child that cannot be killed (stuck in a dead mount) is given up on.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::{Context, Failure, Result, ensure};

/// How often a running child is looked at.
const POLL: Duration = Duration::from_millis(5);
/// How long a killed child may take to disappear.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// What a finished program left behind.
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code, or 128 plus the signal as a shell would say it.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Both streams, for error messages.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// The program's name and arguments, for messages.
pub fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Starts a program as the leader of its own process group.
pub fn spawn(command: &mut Command) -> Result<Child> {
    command.process_group(0).spawn().context(format_args!("cannot start `{}`", shown(command)))
}

/// Waits for a child; kills its process group when the limit passes.
///
/// # Errors
/// The limit passed.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    if let Some(status) = wait_until(child, limit)? {
        return Ok(status);
    }
    end(child);
    Err(Failure::new(format!("did not finish within {} s and was killed", limit.as_secs())))
}

fn wait_until(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Kills a child's process group and reaps the child if it dies in time.
pub fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may be gone already; that is what we want.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = wait_until(child, REAP_LIMIT);
}

/// Runs a program to its end and keeps its output, whatever its exit code.
pub fn finish(command: &mut Command, limit: Duration) -> Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command)?;
    let ended = Arc::new(AtomicBool::new(false));
    let stdout = drain(child.stdout.take().expect("stdout is piped"), &ended);
    let stderr = drain(child.stderr.take().expect("stderr is piped"), &ended);
    let status = wait(&mut child, limit).context(format_args!("`{}`", shown(command)));
    ended.store(true, Ordering::Release);
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    Ok(Finished { status: status?, stdout, stderr })
}

/// Reads a pipe to its end, or until the program has `ended` and nothing more is in it: a daemon that it
/// left behind may hold the pipe open.
fn drain(mut pipe: impl Read + AsFd + Send + 'static, ended: &Arc<AtomicBool>) -> JoinHandle<Vec<u8>> {
    let ended = Arc::clone(ended);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        loop {
            // Asked first: what the program wrote is in the pipe when it has ended.
            let last = ended.load(Ordering::Acquire);
            match is_readable(&pipe) {
                Ok(false) if last => break,
                Ok(false) | Err(Errno::INTR) => continue,
                Ok(true) => {}
                Err(_) => break,
            }
            match pipe.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(length) => bytes.extend_from_slice(&piece[..length]),
            }
        }
        bytes
    })
}

/// Whether a read would not wait, asked for a moment.
fn is_readable(pipe: &impl AsFd) -> rustix::io::Result<bool> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    Ok(poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&moment))? > 0)
}

fn collect(drained: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&drained.join().expect("draining does not panic")).into_owned()
}

/// Runs a program that has to succeed, and returns its standard output.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let finished = finish(command, limit)?;
    ensure!(
        finished.status.success(),
        "`{}` failed ({}):\n{}",
        shown(command),
        finished.status,
        finished.output()
    );
    Ok(finished.stdout)
}

/// Runs a program that has to succeed and lets it write to our own streams.
pub fn show(command: &mut Command, limit: Duration) -> Result {
    command.stdin(Stdio::null());
    let mut child = spawn(command)?;
    let status = wait(&mut child, limit).context(format_args!("`{}`", shown(command)))?;
    ensure!(status.success(), "`{}` failed ({status})", shown(command));
    Ok(())
}

/// An output file for a child, opened fresh.
pub fn log_file(path: &Path) -> Result<Stdio> {
    Ok(File::create(path).context(path.display())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_whole_although_a_child_holds_the_pipe() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & head -c 300000 /dev/zero"]);
        let began = Instant::now();
        let finished = finish(&mut command, Duration::from_secs(60)).unwrap();
        assert!(finished.status.success());
        assert_eq!(finished.stdout.len(), 300_000);
        assert!(began.elapsed() < Duration::from_secs(30), "nobody waits for what was left behind");
    }
}
