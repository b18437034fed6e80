//! What is removed when a command ends before its time: at Ctrl-C, SIGTERM,
//! SIGHUP or SIGQUIT.
//!
//! A thread waits for these. It ends the plugin that runs, removes what is not
//! whole yet, gives the terminal its echo back, and then has the process die of
//! the signal, so that its caller sees what happened. A second signal ends it at
//! once. A signal that the caller has had ignored, as `nohup` does, stays so.
//!
//! Invariant: whoever makes something under a temporary name, or gives it its
//! final one, holds the lock that the removal holds to the end: nothing appears
//! after it, and no directory gets its name while it is being emptied.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, unregister};
use signal_hook::{SigId, flag};

use crate::failure::{Exit, Failure, Result};
use crate::report::{shown, tell};

/// How often a directory is emptied into which somebody still writes.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

struct State {
    /// Under temporary names.
    parts: Vec<PathBuf>,
    terminal: Option<(File, Termios)>,
    handlers: Vec<SigId>,
    is_watched: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { parts: Vec::new(), terminal: None, handlers: Vec::new(), is_watched: false });
/// Set for good.
static ENDING: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on signals find all that is to be removed.
///
/// # Errors
/// When the system has no handler or thread to give.
pub(super) fn watch() -> Result<()> {
    let mut state = state();
    if std::mem::replace(&mut state.is_watched, true) {
        return Ok(());
    }
    let failed = |error: io::Error| Failure::new(Exit::Other, format!("signals: {error}"));
    let wanted: Vec<i32> =
        [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in &wanted {
        let ends = flag::register_conditional_default(*signal, Arc::clone(&is_second)).map_err(failed)?;
        let next = flag::register(*signal, Arc::clone(&is_second)).map_err(failed)?;
        state.handlers.extend([ends, next]);
    }
    let mut signals = Signals::new(&wanted).map_err(failed)?;
    let terminal = File::options().read(true).write(true).open("/dev/tty").ok();
    state.terminal = terminal.and_then(|terminal| tcgetattr(&terminal).ok().map(|modes| (terminal, modes)));
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            end(signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(failed)
}

/// Signals are somebody else's from now on. One that is on its way has come too
/// late.
pub(super) fn stand_down() {
    for handler in state().handlers.drain(..) {
        unregister(handler);
    }
    state().is_watched = false;
}

/// Whether a signal had been ignored before this program began (`proc(5)`).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// Removes everything and dies.
fn end(signal: i32) {
    let state = state();
    if !state.is_watched {
        return;
    }
    ENDING.store(true, Ordering::SeqCst);
    strongroom_file::end_plugins();
    if let Some((terminal, modes)) = &state.terminal {
        show_what_is_typed(terminal, modes);
    }
    for part in &state.parts {
        let mut tries = 0;
        while remove(part).is_err() && tries < TRIES {
            tries += 1;
            std::thread::sleep(PAUSE);
        }
        tell_of_rest(part);
    }
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

/// A password may have been asked for. From the background the terminal is not
/// touched, which would stop this process.
fn show_what_is_typed(terminal: &File, before: &Termios) {
    let is_silent = |modes: &Termios| !modes.local_modes.contains(LocalModes::ECHO);
    if is_in_foreground() && !is_silent(before) && tcgetattr(terminal).is_ok_and(|now| is_silent(&now)) {
        let _ = tcsetattr(terminal, OptionalActions::Now, before);
    }
}

/// By `proc_pid_stat(5)`, since a group whose leader is outside this namespace
/// of processes has the number 0, which is no `Pid`.
fn is_in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let words = stat.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
    let (group, foreground) = (words.clone().nth(2), words.clone().nth(5));
    group.is_some_and(|group| group != "0") && group == foreground
}

/// Has `make` make something that is removed when the command ends early.
pub(super) fn making(path: &Path, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut state = state();
    make()?;
    state.parts.push(path.to_owned());
    Ok(())
}

/// Does what must not happen once the end has come.
pub(super) fn before_the_end<T>(work: impl FnOnce() -> T) -> T {
    let _state = state();
    work()
}

/// It is no part any more.
pub(super) fn forget(path: &Path) {
    state().parts.retain(|part| part != path);
}

/// Lets nobody go on once the end has come.
pub(super) fn pass() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Removes a part, and says so if that cannot be.
pub(super) fn discard(path: &Path) {
    let _ = remove(path);
    tell_of_rest(path);
}

fn tell_of_rest(path: &Path) {
    if path.symlink_metadata().is_ok() {
        let name = shown(path.as_os_str().as_encoded_bytes());
        tell(&format!("strongroom: warning: {name}: it could not be removed, and is not whole"));
    }
}

/// Removes a file, or a directory with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    let there = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if !there.is_dir() {
        return std::fs::remove_file(path);
    }
    // A directory may forbid that things are taken out of it, or be deeper than
    // there are descriptors.
    std::fs::remove_dir_all(path).or_else(|_| flatten(path)).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Removes a directory by bringing all that is deeper up to its first level:
/// whatever its depth, no path is long, and nothing is called within itself.
fn flatten(top: &Path) -> io::Result<()> {
    let permit = |path: &Path| std::fs::set_permissions(path, Permissions::from_mode(0o700));
    permit(top)?;
    let mut number = 0_u64;
    loop {
        let entries = std::fs::read_dir(top)?.collect::<io::Result<Vec<_>>>()?;
        if entries.is_empty() {
            return std::fs::remove_dir(top);
        }
        for entry in entries {
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
                continue;
            }
            permit(&entry.path())?;
            for deeper in std::fs::read_dir(entry.path())? {
                let deeper = deeper?;
                if !deeper.file_type()?.is_dir() {
                    std::fs::remove_file(deeper.path())?;
                    continue;
                }
                // Its entry of the directory above is written.
                permit(&deeper.path())?;
                let mut free = top.join(number.to_string());
                while free.symlink_metadata().is_ok() {
                    number += 1;
                    free = top.join(number.to_string());
                }
                std::fs::rename(deeper.path(), free)?;
            }
            std::fs::remove_dir(entry.path())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn directories_that_forbid_it_are_emptied_too() {
        let place = tempfile::tempdir().expect("a directory");
        let top = place.path().join("top");
        // Root needs no permission for the short way.
        for way in [remove, flatten] {
            std::fs::create_dir_all(top.join("0/1/2/3")).expect("made");
            std::fs::create_dir_all(top.join("1/0/1")).expect("made");
            std::fs::write(top.join("0/1/f"), "x").expect("written");
            std::os::unix::fs::symlink(place.path(), top.join("0/link")).expect("a symlink");
            for name in ["top/0/1/2", "top/0/1", "top/0", "top/1", "top"] {
                std::fs::set_permissions(place.path().join(name), Permissions::from_mode(0o500))
                    .expect("set");
            }
            way(&top).expect("removed");
            assert!(!top.exists() && place.path().exists());
        }
        remove(&top).expect("it is gone");
    }

    #[test]
    fn no_directory_is_too_deep() {
        let place = tempfile::tempdir().expect("a directory");
        let top = place.path().join("top");
        std::fs::create_dir(&top).expect("made");
        let mut at =
            rustix::fs::open(&top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened");
        for _ in 0..4000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).expect("made");
            at = rustix::fs::openat(&at, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
                .expect("opened");
        }
        drop(at);
        // The short way would take the descriptors of all other tests.
        flatten(&top).expect("removed");
        assert!(!top.exists());
    }

    #[test]
    fn signals_that_are_ignored_are_known() {
        assert!(!is_ignored(SIGTERM));
        // The standard library ignores it.
        assert!(is_ignored(signal_hook::consts::SIGPIPE));
    }
}
