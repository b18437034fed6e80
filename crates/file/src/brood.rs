//! The processes that a plugin is: it, what it starts, and what those start.
//!
//! While a plugin runs, this process is the one to which orphans fall
//! (`PR_SET_CHILD_SUBREAPER`), so that whatever the plugin has started is found
//! below this process, by what parent and under what name ever. What was there
//! before is none of it. One plugin runs at a time.
//!
//! A plugin that did its work has a moment to end by itself. What it left in a
//! session of its own is a service, such as an agent that keeps a PIN, and
//! stays; all else is killed and reaped. After an error, and at this process's
//! end, all of it is. Linux alone.

use std::collections::HashSet;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// How long a plugin may take to end after its work.
const GRACE: Duration = Duration::from_secs(2);
/// How long it is tried to kill what starts others meanwhile.
const KILLING: Duration = Duration::from_secs(10);
/// How long is waited before it is looked again.
const PAUSE: Duration = Duration::from_millis(3);

/// One plugin at a time.
static TURN: Mutex<()> = Mutex::new(());
/// What was below this process when the plugin that runs now was begun.
static BEFORE: Mutex<Option<HashSet<i32>>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process, as `proc_pid_stat(5)` tells of it.
#[derive(Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    is_dead: bool,
}

/// A plugin's processes, from before the first of them on.
pub(crate) struct Brood {
    _turn: MutexGuard<'static, ()>,
}

impl Brood {
    /// Waits until no other plugin runs.
    pub(crate) fn begin() -> Brood {
        let turn = locked(&TURN);
        // Where the kernel refuses it, orphans are not found, and nothing else
        // is lost.
        let _ = set_child_subreaper(Some(getpid()));
        *locked(&BEFORE) = Some(below().iter().map(|process| process.pid).collect());
        Brood { _turn: turn }
    }

    /// The plugin has done its work: waits for its end, and brings that about
    /// where it does not come. False when there was none, since its program
    /// could not be run.
    pub(crate) fn settle(self) -> bool {
        // Not from `getsid`: in a namespace whose leader of the session is outside
        // it is 0, which is no `Pid`.
        let session = of(getpid().as_raw_nonzero().get()).map_or(0, |own| own.session);
        let until = Instant::now() + GRACE;
        let mut found = false;
        loop {
            let left = ours();
            found |= !left.is_empty();
            let running: Vec<Process> = left.into_iter().filter(|process| !is_reaped(process)).collect();
            if !running.iter().any(|process| process.session == session) {
                return found;
            }
            if Instant::now() >= until {
                kill(|process| process.session == session);
                return true;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Brood {
    fn drop(&mut self) {
        *locked(&BEFORE) = None;
        let _ = set_child_subreaper(None);
    }
}

/// Ends the plugin that runs, if one does, with all that it has started. For
/// whoever ends this process before a plugin has ended.
pub fn end_plugins() {
    kill(|_| true);
}

/// Kills and reaps, again and again, until nothing is left that is `wanted`.
fn kill(wanted: impl Fn(&Process) -> bool) {
    let until = Instant::now() + KILLING;
    loop {
        let left: Vec<Process> =
            ours().into_iter().filter(|process| wanted(process) && !is_reaped(process)).collect();
        if left.iter().all(|process| process.is_dead) || Instant::now() >= until {
            return;
        }
        for pid in left.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // One that is gone is what is wanted.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes a child that has ended from the kernel's table.
fn is_reaped(process: &Process) -> bool {
    let is_child = process.parent == getpid().as_raw_nonzero().get();
    let Some(pid) = Pid::from_raw(process.pid).filter(|_| is_child) else { return false };
    matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)))
}

/// What the plugin that runs has brought about.
fn ours() -> Vec<Process> {
    let before = locked(&BEFORE);
    let Some(before) = &*before else { return Vec::new() };
    below().into_iter().filter(|process| !before.contains(&process.pid)).collect()
}

/// All processes below this one.
fn below() -> Vec<Process> {
    let all = all();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    let mut found: Vec<Process> = Vec::new();
    while let Some(above) = parents.pop() {
        let children = all.iter().filter(|process| process.parent == above);
        for child in children {
            found.push(*child);
            parents.push(child.pid);
        }
    }
    found
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn of(pid: i32) -> Option<Process> {
    // Names need not be text.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(words.next()?, "Z" | "X");
    let parent = words.next()?.parse().ok()?;
    let session = words.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// What one test starts is not another's.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Starts a shell, reads the line that it says, and leaves it to itself.
    #[expect(clippy::zombie_processes, reason = "it is what a brood is to reap")]
    fn started(script: &str) -> i32 {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        line.trim().parse().expect("a number")
    }

    fn runs(pid: i32) -> bool {
        of(pid).is_some_and(|process| !process.is_dead)
    }

    #[test]
    fn what_a_plugin_leaves_is_ended_whatever_became_of_its_parents() {
        let _alone = locked(&ALONE);
        let brood = Brood::begin();
        // Its parent is gone, and its session is its own.
        let orphan = started("setsid sh -c 'echo $$; exec sleep 600 >/dev/null' &");
        let child = started("echo $$; exec sleep 600 >/dev/null");
        assert!(runs(orphan) && runs(child));
        end_plugins();
        assert!(!runs(orphan) && !runs(child));
        drop(brood);
    }

    #[test]
    fn services_stay_after_the_work_and_the_rest_does_not() {
        let _alone = locked(&ALONE);
        let before = Command::new("sleep").arg("600").spawn();
        let mut before = before.expect("started");
        let brood = Brood::begin();
        let service = started("setsid sh -c 'echo $$; exec sleep 600 >/dev/null' &");
        let stays = started("trap '' TERM; echo $$; while :; do sleep 600; done >/dev/null");
        assert!(brood.settle());
        assert!(runs(service) && !runs(stays));
        assert!(runs(before.id().cast_signed()), "it is nothing of a plugin's");
        kill_process(Pid::from_raw(service).expect("a process"), Signal::KILL).expect("ours");
        before.kill().expect("ours");
        before.wait().expect("ended");
        let none = Brood::begin();
        assert!(!none.settle(), "nothing was started");
    }
}
