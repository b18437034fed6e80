//! The thread that commits every few seconds, when many files wait, and when the
//! journal fills up.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use std::sync::Arc;
use std::time::Duration;

use crate::content::Contents;
use crate::context::Context;

/// What has reached the vault is durable after at most this long.
const INTERVAL: Duration = Duration::from_secs(4);
/// The promise that it serves, and what a commit may take of it.
const _: () = assert!(INTERVAL.as_secs() < 5);

/// The thread that commits in the background.
pub(crate) struct Committer {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(crate) fn start(contents: &Arc<Contents>) -> Committer {
        let stopping = Arc::new(AtomicBool::new(false));
        let (contents, stop) = (Arc::clone(contents), Arc::clone(&stopping));
        let thread = thread::Builder::new()
            .name("committer".into())
            .spawn(move || run(&contents, &stop))
            .expect("a thread can be started at mount");
        Committer { stopping, thread: Some(thread) }
    }

    /// Ends the thread; what is pending stays so.
    pub(crate) fn stop(&mut self, context: &Context) {
        self.stopping.store(true, Ordering::Release);
        context.wakeup.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(contents: &Contents, stopping: &AtomicBool) {
    let context = &contents.context;
    while !stopping.load(Ordering::Acquire) {
        context.wakeup.wait(INTERVAL);
        if stopping.load(Ordering::Acquire) {
            break;
        }
        let outcome = contents.round();
        if let Some(journal) = &context.journal {
            journal.set_failing(outcome.as_ref().err().cloned());
        }
        if let Err(error) = outcome {
            context.note_error("background commit", &error);
            // A store that fails is not asked again at once.
            thread::sleep(Duration::from_millis(200));
        }
    }
}
