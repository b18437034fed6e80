//! When to commit: every few seconds, when many files wait, when the journal
//! fills up, and when someone asks for everything.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use std::sync::Arc;
use std::time::Duration;

use crate::content::stale_homes::remove_covered;
use crate::content::{Content, Extent, checkpoint_all, commit_all};
use crate::context::Context;
use crate::error::Result;
use crate::freshness::Freshness;
use crate::rules::Rule;

/// What has reached the vault is durable after at most this long.
const INTERVAL: Duration = Duration::from_secs(4);
/// The promise that it serves, and what a commit may take of it.
const _: () = assert!(INTERVAL.as_secs() < 5);

/// Files whose commits share barriers, and whose commit locks are held at once.
const ROUND: usize = 256;

/// The thread that commits in the background.
pub(crate) struct Committer {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(crate) fn start(context: &Arc<Context>) -> Committer {
        let stopping = Arc::new(AtomicBool::new(false));
        let (context, stop) = (Arc::clone(context), Arc::clone(&stopping));
        let thread = thread::Builder::new()
            .name("committer".into())
            .spawn(move || run(&context, &stop))
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

fn run(context: &Context, stopping: &AtomicBool) {
    while !stopping.load(Ordering::Acquire) {
        context.wakeup.wait(INTERVAL);
        if stopping.load(Ordering::Acquire) {
            break;
        }
        let outcome = round(context);
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

/// Commits what is pending, and empties a journal segment when it is time.
pub(crate) fn round(context: &Context) -> Result<()> {
    let full = context.journal.as_ref().is_some_and(|journal| journal.wants_rotation());
    let outcome = if full { rotate(context) } else { commit_pending(context) };
    // That the freshness file cannot be written to stops no commit: what it
    // says is older then.
    if let Some(Err(error)) = context.freshness.as_ref().map(Freshness::flush) {
        context.note_error("recording in the freshness file", &error);
    }
    outcome
}

/// Commits everything that is pending.
pub(crate) fn commit_pending(context: &Context) -> Result<()> {
    let unsynced = context.table.unsynced();
    let files = !unsynced.is_empty() && context.rules.keeps(Rule::NewFileBeforeReply);
    let specials =
        context.rules.keeps(Rule::SpecialBeforeReply) && context.table.has_specials(&context.barriers);
    if files || specials || context.table.has_stale_homes() {
        context.sync_store()?;
    }
    remove_covered(context);
    context.table.synced(&unsynced);
    let pending = context.table.pending();
    let outcome = commit_contents(context, &pending);
    retire(context, &pending);
    outcome
}

/// Commits these files in rounds; a failure of one round does not keep the
/// others from theirs.
fn commit_contents(context: &Context, contents: &[Arc<Content>]) -> Result<()> {
    let mut outcome = Ok(());
    for round in contents.chunks(ROUND) {
        let round: Vec<&Content> = round.iter().map(|content| &**content).collect();
        if let Err(error) = commit_all(context, &round, Extent::Data) {
            outcome = Err(error);
        }
        context.counters.commits.fetch_add(1, Ordering::Relaxed);
    }
    outcome
}

fn retire(context: &Context, contents: &[Arc<Content>]) {
    for content in contents {
        context.table.retire(content);
    }
}

/// Lets the other journal segment take over and empties the full one.
fn rotate(context: &Context) -> Result<()> {
    let Some(journal) = &context.journal else { return Ok(()) };
    match journal.rotate() {
        Some(full) => empty(context, full),
        None => commit_pending(context),
    }
}

/// Brings everything home that the segment's records or images may still be
/// needed for, and readies it for its next use.
fn empty(context: &Context, segment: u8) -> Result<()> {
    let Some(journal) = &context.journal else { return Ok(()) };
    // Until this succeeds the segment stays as it is, and the other fills up.
    loop {
        let pending = context.table.pending();
        let committed = commit_contents(context, &pending);
        let through = journal.end();
        make_removals_durable(context)?;
        let live = context.table.live();
        checkpoint_all(context, &live, Rule::HomeBeforeReuse)?;
        if live_images(&live, segment) {
            committed?;
            continue;
        }
        // A file that cannot be committed, for lack of space say, and has
        // nothing in the segment is no reason to stop the others.
        if let Err(error) = committed {
            context.note_error("commit", &error);
        }
        context.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        context.fenced.check()?;
        journal.reuse(segment, through, &context.sealer)?;
        retire(context, &live);
        return Ok(());
    }
}

/// The records of removed files may be forgotten only once the removals are
/// durable: a crash might bring the files back.
fn make_removals_durable(context: &Context) -> Result<()> {
    let going: Vec<_> = context.table.live().into_iter().filter(|content| content.is_going()).collect();
    if context.table.take_removed()
        && context.rules.keeps(Rule::RemovalBeforeReuse)
        && let Err(error) = context.sync_store()
    {
        context.table.note_removed();
        return Err(error);
    }
    going.iter().for_each(|content| content.set_gone());
    Ok(())
}

/// Whether any image still stands in `segment`.
fn live_images(contents: &[Arc<Content>], segment: u8) -> bool {
    contents.iter().any(|content| content.has_images_in(segment))
}

/// Commits and brings home everything, for a clean end.
pub(crate) fn settle_all(context: &Context) -> Result<()> {
    commit_pending(context)?;
    let live = context.table.live();
    checkpoint_all(context, &live, Rule::HomeBeforeDelisting)?;
    if context.rules.keeps(Rule::HomeBeforeDelisting) {
        context.sync_store()?;
    }
    retire(context, &live);
    Ok(())
}
