//! Plugins with a time limit: one that says nothing for too long is named and
//! ended. The time in which the user is asked something does not count.
//!
//! The `age` crate runs plugins and waits for them as long as they take, so
//! that what ends one is its process's end: a thread looks at the clock, and
//! then ends the plugin and what that has started. Linux alone.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use age::plugin::{IdentityPluginV1, RecipientPluginV1};
use age::{Callbacks, DecryptError, EncryptError};
use age_core::format::{FileKey, Stanza};
use age_core::secrecy::SecretString;
use rustix::process::{Pid, Signal, kill_process};

use crate::Error;
use crate::recipients::missing;

/// How long a plugin may say nothing: long enough to look for a token and touch
/// it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The word by which `age` starts a plugin.
const STARTED_WITH: &str = "--age-plugin=";

/// When a plugin's time is over.
struct Clock {
    state: Mutex<State>,
    changed: Condvar,
    limit: Duration,
}

enum State {
    /// Nothing runs, or the user is being asked.
    Stopped,
    Until(Instant),
    /// It was over.
    Over,
    Ended,
}

impl Clock {
    fn new(limit: Duration) -> Arc<Clock> {
        Arc::new(Clock { state: Mutex::new(State::Stopped), changed: Condvar::new(), limit })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, to: State) {
        let mut state = self.state();
        if !matches!(*state, State::Over) {
            *state = to;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn start(&self) {
        self.set(State::Until(Instant::now() + self.limit));
    }

    /// Runs `work`, with what is done to plugins once their time is over. True
    /// when it was.
    fn watch<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        *self.state() = State::Stopped;
        self.start();
        std::thread::scope(|scope| {
            // Without a thread a plugin has all the time it wants.
            let watcher =
                std::thread::Builder::new().name("plugin".into()).spawn_scoped(scope, || self.wait());
            let done = work();
            self.set(State::Ended);
            drop(watcher);
            (done, matches!(*self.state(), State::Over))
        })
    }

    fn wait(&self) {
        let mut state = self.state();
        loop {
            state = match *state {
                State::Ended | State::Over => return,
                State::Stopped => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                State::Until(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        *state = State::Over;
                        drop(state);
                        return end_plugins();
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            }
        }
    }
}

/// Ends the plugins of this process, and what they have started, which may hold
/// their pipes open.
fn end_plugins() {
    let all = processes();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_plugin = |pid: i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|word| word.starts_with(STARTED_WITH.as_bytes()))
    };
    let mut ending: Vec<i32> =
        all.iter().filter(|(pid, parent)| *parent == own && is_plugin(*pid)).map(|(pid, _)| *pid).collect();
    let mut next = 0;
    while let Some(&above) = ending.get(next) {
        ending.extend(all.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        next += 1;
    }
    for pid in ending.into_iter().filter_map(Pid::from_raw) {
        // One that is gone is what is wanted.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// All processes and their parents (`proc_pid_stat(5)`).
fn processes() -> Vec<(i32, i32)> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// Asks the user, with the clock stopped.
#[derive(Clone)]
struct Heard<C> {
    callbacks: C,
    clock: Arc<Clock>,
}

impl<C: Callbacks> Heard<C> {
    fn ask<T>(&self, ask: impl FnOnce(&C) -> T) -> T {
        self.clock.set(State::Stopped);
        let answer = ask(&self.callbacks);
        self.clock.start();
        answer
    }
}

impl<C: Callbacks> Callbacks for Heard<C> {
    fn display_message(&self, message: &str) {
        self.ask(|callbacks| callbacks.display_message(message));
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        self.ask(|callbacks| callbacks.confirm(message, yes, no))
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        self.ask(|callbacks| callbacks.request_public_string(description))
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        self.ask(|callbacks| callbacks.request_passphrase(description))
    }
}

/// What runs a plugin, and its clock.
struct Run<P> {
    name: String,
    plugin: P,
    clock: Arc<Clock>,
}

impl<P> Run<P> {
    fn over(&self) -> io::Error {
        let limit = self.clock.limit.as_secs_f32();
        io::Error::new(io::ErrorKind::TimedOut, format!("it said nothing for {limit} seconds and was ended"))
    }

    fn named(&self, error: impl std::fmt::Display) -> io::Error {
        io::Error::other(format!("age-plugin-{}: {error}", self.name))
    }
}

/// The recipients of one plugin.
pub(crate) fn recipient(
    name: &str,
    recipients: &[age::plugin::Recipient],
    identities: &[age::plugin::Identity],
    callbacks: impl Callbacks,
    limit: Duration,
) -> Result<Box<dyn age::Recipient + Send>, Error> {
    let clock = Clock::new(limit);
    let heard = Heard { callbacks, clock: Arc::clone(&clock) };
    let plugin = RecipientPluginV1::new(name, recipients, identities, heard).map_err(|_| missing(name))?;
    Ok(Box::new(Run { name: name.to_owned(), plugin, clock }))
}

/// The identities of one plugin.
pub(crate) fn identity(
    name: &str,
    identities: &[age::plugin::Identity],
    callbacks: impl Callbacks,
    limit: Duration,
) -> Result<Box<dyn age::Identity>, Error> {
    let clock = Clock::new(limit);
    let heard = Heard { callbacks, clock: Arc::clone(&clock) };
    let plugin = IdentityPluginV1::new(name, identities, heard).map_err(|_| missing(name))?;
    Ok(Box::new(Run { name: name.to_owned(), plugin, clock }))
}

impl<C: Callbacks> age::Recipient for Run<RecipientPluginV1<C>> {
    fn wrap_file_key(&self, file_key: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        match self.clock.watch(|| self.plugin.wrap_file_key(file_key)) {
            (Ok(wrapped), _) => Ok(wrapped),
            (Err(_), true) => Err(EncryptError::Io(self.named(self.over()))),
            (Err(error), false) => Err(EncryptError::Io(self.named(error))),
        }
    }
}

impl<C: Callbacks> age::Identity for Run<IdentityPluginV1<C>> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        self.unwrap_stanzas(std::slice::from_ref(stanza))
    }

    fn unwrap_stanzas(&self, stanzas: &[Stanza]) -> Option<Result<FileKey, DecryptError>> {
        match self.clock.watch(|| self.plugin.unwrap_stanzas(stanzas)) {
            (Some(Ok(file_key)), _) => Some(Ok(file_key)),
            (_, true) => Some(Err(DecryptError::Io(self.named(self.over())))),
            (Some(Err(error)), false) => Some(Err(DecryptError::Io(self.named(error)))),
            (None, false) => None,
        }
    }
}
