//! A store that loses what was written and not durable yet, and fails for as long as a file is open, as JuiceFS does:
//! callers get errors, the mount goes on by itself, and what was synced before and afterwards is there, also when
//! the power fails in the end.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::Store;
use crate::scale::promises::{self, Promises};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_ledger::rounds::ROUND_LIMIT;

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
    let writers = promises.work(&directory, seed)?;
    let mut longest = Duration::ZERO;
    for loss in 0..losses {
        writers.wait_for(random.below(40), BACK_LIMIT)?;
        thread::sleep(Duration::from_millis(random.below(50)));
        store.lose()?;
        let back = promises.wait_for_more(BACK_LIMIT).context(format_args!("loss {loss}"));
        longest = longest.max(back.inspect_err(|_| println!("{}", vault.log_tail()))?);
    }
    // Who has failed last goes on, too.
    writers.wait_for(SETTLED, BACK_LIMIT)?;
    writers.end()?;
    // What was lost of an overwrite reads as damaged until a commit; the first may tell of what failed before.
    let sync = || command::output(Command::new("sync").arg("--file-system").arg(&directory), CHECK_LIMIT);
    sync().or_else(|_| sync())?;
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
