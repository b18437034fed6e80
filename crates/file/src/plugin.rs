//! Plugins with a time limit: one that says nothing for too long is named and
//! ended. The time in which the user is asked something does not count.
//!
//! The `age` crate runs plugins and waits for them as long as they take, so
//! that what ends one is its process's end: a thread looks at the clock, and
//! then ends the plugin and what that has started (`brood`). So ends
//! one that has failed.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use age::plugin::{IdentityPluginV1, RecipientPluginV1};
use age::{Callbacks, DecryptError, EncryptError};
use age_core::format::{FileKey, Stanza};
use age_core::secrecy::SecretString;

use crate::Error;
use crate::brood::{Brood, end_plugins};
use crate::error::missing;

/// How long a plugin may say nothing: long enough to look for a token and touch
/// it.
pub const PATIENCE: Duration = Duration::from_secs(120);

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
        if !matches!(*state, State::Over | State::Ended) {
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
        *self.state() = State::Until(Instant::now() + self.limit);
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

/// Asks the user, with the clock stopped.
#[derive(Clone)]
struct Heard<C> {
    callbacks: C,
    clock: Arc<Clock>,
    /// The first question that had no answer.
    unanswered: Arc<Mutex<Option<String>>>,
}

impl<C: Callbacks> Heard<C> {
    fn new(callbacks: C, limit: Duration) -> Heard<C> {
        Heard { callbacks, clock: Clock::new(limit), unanswered: Arc::default() }
    }

    /// As `ask`, and remembers what had no answer.
    fn want<T>(&self, question: &str, ask: impl FnOnce(&C) -> Option<T>) -> Option<T> {
        let answer = self.ask(ask);
        if answer.is_none() {
            let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
            unanswered.get_or_insert_with(|| question.to_owned());
        }
        answer
    }

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
        self.want(message, |callbacks| callbacks.confirm(message, yes, no))
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        self.want(description, |callbacks| callbacks.request_public_string(description))
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        self.want(description, |callbacks| callbacks.request_passphrase(description))
    }
}

/// What runs a plugin, and what that has heard.
struct Run<P> {
    name: String,
    plugin: P,
    clock: Arc<Clock>,
    unanswered: Arc<Mutex<Option<String>>>,
}

impl<P> Run<P> {
    fn new<C>(name: &str, heard: &Heard<C>, plugin: P) -> Run<P> {
        let (clock, unanswered) = (Arc::clone(&heard.clock), Arc::clone(&heard.unanswered));
        Run { name: name.to_owned(), plugin, clock, unanswered }
    }

    /// Runs the plugin for `work`, whose outcome `is_done` tells. When it is not
    /// done, the plugin and all that it has started are ended, and why is said.
    fn run<T>(&self, work: impl FnOnce(&P) -> T, is_done: impl FnOnce(&T) -> bool) -> Ran<T> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let brood = Brood::begin();
        let (outcome, is_over) = self.clock.watch(|| work(&self.plugin));
        if !is_over && is_done(&outcome) {
            return Ran::Done { outcome, was_there: brood.settle() };
        }
        end_plugins();
        match is_over {
            true => Ran::Failed(self.named(self.over())),
            false => Ran::Undone(outcome),
        }
    }

    fn over(&self) -> String {
        let limit = self.clock.limit.as_secs_f32();
        format!("it said nothing for {limit} seconds and was ended")
    }

    /// An error with the plugin's name, and the question that it may be due to.
    fn named(&self, error: impl std::fmt::Display) -> io::Error {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let unanswered = unanswered.map(|question| format!(" (it asked `{question}`, and had no answer)"));
        let said = shown(&format!("{error}{}", unanswered.unwrap_or_default()));
        io::Error::other(format!("age-plugin-{}: {said}", self.name))
    }
}

/// How a plugin's run ended.
enum Ran<T> {
    Done {
        outcome: T,
        /// A process of the plugin's was seen.
        was_there: bool,
    },
    /// With the plugin's own error.
    Undone(T),
    /// With ours.
    Failed(io::Error),
}

/// What a plugin says as one line that cannot steer a terminal.
fn shown(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    lines.map(|line| line.chars().map(escaped).collect::<String>()).collect::<Vec<_>>().join(" ")
}

/// The recipients of one plugin.
pub(crate) fn recipient(
    name: &str,
    recipients: &[age::plugin::Recipient],
    identities: &[age::plugin::Identity],
    callbacks: impl Callbacks,
    limit: Duration,
) -> Result<Box<dyn age::Recipient + Send>, Error> {
    let heard = Heard::new(callbacks, limit);
    let plugin = RecipientPluginV1::new(name, recipients, identities, heard.clone());
    Ok(Box::new(Run::new(name, &heard, plugin.map_err(|_| missing(name))?)))
}

/// The identities of one plugin.
pub(crate) fn identity(
    name: &str,
    identities: &[age::plugin::Identity],
    callbacks: impl Callbacks,
    limit: Duration,
) -> Result<Box<dyn age::Identity>, Error> {
    let heard = Heard::new(callbacks, limit);
    let plugin = IdentityPluginV1::new(name, identities, heard.clone());
    Ok(Box::new(Run::new(name, &heard, plugin.map_err(|_| missing(name))?)))
}

impl<C: Callbacks> age::Recipient for Run<RecipientPluginV1<C>> {
    fn wrap_file_key(&self, file_key: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        match self.run(|plugin| plugin.wrap_file_key(file_key), Result::is_ok) {
            Ran::Done { outcome, .. } => outcome,
            Ran::Undone(failed) => failed.map_err(|error| EncryptError::Io(self.named(error))),
            Ran::Failed(error) => Err(EncryptError::Io(error)),
        }
    }
}

impl<C: Callbacks> age::Identity for Run<IdentityPluginV1<C>> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        self.unwrap_stanzas(std::slice::from_ref(stanza))
    }

    fn unwrap_stanzas(&self, stanzas: &[Stanza]) -> Option<Result<FileKey, DecryptError>> {
        let is_done = |opened: &Option<Result<FileKey, DecryptError>>| !matches!(opened, Some(Err(_)));
        match self.run(|plugin| plugin.unwrap_stanzas(stanzas), is_done) {
            Ran::Done { outcome: None, was_there } => self.silent(was_there),
            Ran::Done { outcome, .. } => outcome,
            Ran::Undone(failed) => {
                failed.map(|failed| failed.map_err(|error| DecryptError::Io(self.named(error))))
            }
            Ran::Failed(error) => Some(Err(DecryptError::Io(error))),
        }
    }
}

impl<C: Callbacks> Run<IdentityPluginV1<C>> {
    /// It opens nothing and tells of no error, which is what a plugin may do
    /// whose question had no answer, and what becomes of one that is no program.
    fn silent(&self, was_there: bool) -> Option<Result<FileKey, DecryptError>> {
        if !was_there {
            return Some(Err(DecryptError::Io(self.named("its program could not be run"))));
        }
        let has_none = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        (!has_none).then(|| Err(DecryptError::Io(self.named("it opens nothing"))))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_plugins_say_is_one_line_without_control_characters() {
        assert_eq!(super::shown("a\u{1b}[2J\tb\r\n\n  - c\u{7}\n"), "a\\u{1b}[2J\\tb - c\\u{7}");
    }
}
