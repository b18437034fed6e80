//! An object store that is away for a while, and comes back: callers get errors or wait, nothing that was synced is
//! lost, the mount goes on by itself, and `status` names the store.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::kills::CHECK_LIMIT;
use super::lab::{self, Lab};
use super::promises::{self, Promises};
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::Mount;

const WORK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long a mount may take to go on by itself once the store is back: JuiceFS tries again at growing intervals.
const BACK_LIMIT: Duration = Duration::from_secs(20 * 60);
const LOOK: Duration = Duration::from_secs(1);

/// Takes the S3 server away for `time`.
pub(super) fn run(lab: &mut Lab, subject: &Subject, time: Duration) -> Result<String> {
    let vault = lab.vault(subject, "outage")?;
    let mount = vault.mount(lab::options())?;
    let directory = promises::directory(mount.path())?;
    let promises = Arc::new(Promises::default());
    let writers = promises.work(&directory, 20)?;
    writers.wait_for(60, WORK_LIMIT)?;
    lab.s3.kill();
    let began = Instant::now();
    let mut named = None;
    while began.elapsed() < time {
        thread::sleep(LOOK.min(time));
        named = names_the_store(&mount)?.or(named);
    }
    lab.s3.start()?;
    let back = promises.wait_for_more(BACK_LIMIT).inspect_err(|_| {
        println!("{}\n{}", vault.log_tail(), lab.hosts[0].store_said());
    })?;
    writers.wait_for(60, WORK_LIMIT)?;
    writers.end()?;
    let compared = promises.verify(&directory)?;
    mount.unmount()?;
    ensure!(vault.check(CHECK_LIMIT)?, "nothing was checked");
    let mount = vault.mount(lab::options())?;
    promises.verify(&directory).context("mounted again")?;
    mount.unmount()?;
    let Some(named) = named else {
        return Err(strongroom_harness::failure::Failure::new("`status` did not name the store"));
    };
    Ok(format!(
        "S3 away for {} s: {} calls failed, the mount went on {:.0} s after, {compared} files as promised, check \
         clean; status meanwhile: {named}",
        time.as_secs(),
        promises.failed(),
        back.as_secs_f64()
    ))
}

/// What `status` says of the store, if it says that it holds things up.
fn names_the_store(mount: &Mount) -> Result<Option<String>> {
    let status = lab::status(mount)?;
    let store = &status["store"];
    let waits = store["waiting"].as_u64().unwrap_or(0) > 0
        && store["longest_ns"].as_u64().unwrap_or(0) > 1_000_000_000;
    Ok(waits.then(|| store.to_string()))
}
