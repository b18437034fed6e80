//! A store that loses what was written and not durable yet, and fails for as long as a file is open, as JuiceFS does:
//! callers get errors, the mount goes on by itself, and what was synced before and afterwards is there, also when
//! the power fails in the end.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::Store;
use crate::scale::promises::{self, Promises};
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_ledger::rounds::ROUND_LIMIT;

/// Files of each writer: with many some are being made whenever something is lost, and many lose something.
const FILES_OF_EACH: usize = 300;
/// How long a mount may take to go on by itself.
const BACK_LIMIT: Duration = Duration::from_secs(60);
/// Syncs after the last loss.
const SETTLED: u64 = 200;
const CHECK_LIMIT: Duration = Duration::from_secs(120);

/// So many losses, one after the other; tells what was seen.
pub(super) fn run(
    subject: &Subject,
    base: &Path,
    forgetful: &Path,
    losses: u64,
    seed: u64,
) -> Result<String> {
    let below = base.join("below");
    std::fs::create_dir(&below)?;
    let mut store = Store::start(forgetful, &below)?;
    let vault = Vault::create_over(subject, base, &below)?;
    std::fs::File::open(&below)?.sync_all()?;
    let options = || MountOptions::new(ROUND_LIMIT);
    let mount = vault.mount(options())?;
    let directory = promises::directory(mount.path())?;
    let promises = Arc::new(Promises::default());
    let mut random = Random::new(seed);
    let writers = promises.work_on_many(&directory, seed, FILES_OF_EACH)?;
    let mut longest = Duration::ZERO;
    for loss in 0..losses {
        writers.wait_for(random.below(40), BACK_LIMIT)?;
        thread::sleep(Duration::from_millis(random.below(50)));
        store.lose()?;
        let back = promises.wait_for_more(BACK_LIMIT).context(format_args!("loss {loss}"));
        in_the_end(|| readable(&directory)).context(format_args!("loss {loss}"))?;
        longest = longest.max(back.inspect_err(|_| println!("{}", vault.log_tail()))?);
    }
    // Who has failed last goes on, too.
    writers.wait_for(SETTLED, BACK_LIMIT)?;
    writers.end()?;
    // What was lost of an overwrite reads as damaged until a commit.
    in_the_end(|| mount.sync(CHECK_LIMIT))?;
    ensure!(promises.failed() > 0, "nobody was told that anything was lost");
    promises.verify(&directory).context("as found")?;
    mount.crash()?;
    store.cut(random.word())?;
    let mount = vault.mount(options())?;
    let compared = promises.verify(&directory).context("after the power was cut")?;
    mount.unmount()?;
    ensure!(vault.check(CHECK_LIMIT)?, "nothing was checked");
    store.end()?;
    Ok(format!(
        "{losses} losses, {} calls failed, {} syncs kept in {compared} files, back within {:.1} s, check clean",
        promises.failed(),
        promises.kept(),
        longest.as_secs_f64()
    ))
}

/// Tries until it works: some fail first, to tell of what was lost.
fn in_the_end(attempt: impl Fn() -> Result) -> Result {
    let until = Instant::now() + BACK_LIMIT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}

/// Reads every file that is there: what is lost is what it was before, or is not there.
fn readable(directory: &Path) -> Result {
    let read = |path: PathBuf| match std::fs::read(&path) {
        // It was listed before it was found to be lost.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        read => read.map(drop).context(path.display()),
    };
    std::fs::read_dir(directory)?.try_for_each(|entry| read(entry?.path()))
}
