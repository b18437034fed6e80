//! What the two hosts do to each other: a vault taken over from a host that lives, and from one that is cut off;
//! and a reader on one host beside a writer on the other.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::kills::CHECK_LIMIT;
use super::lab::{self, Lab, mount_after_kill, once_unlocked};
use super::promises::{self, Look, Promises};
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::Mount;
use strongroom_harness::subject::vault::Vault;

const WORK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// A reader reads every image that the journal has got since it looked last. On a store of this kind that takes as
/// long as writing them did, so that it never catches up with one who writes all the time.
const PACE: Duration = Duration::from_secs(1);
/// How long a reader may take to see what was synced.
const SEEN_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// What a host that has its network again is given to do what it should not.
const COMING_BACK: Duration = Duration::from_secs(10);

/// Takes a vault over from a host that still has it mounted.
pub(super) fn takeover_of_the_living(lab: &mut Lab, subject: &Subject) -> Result<String> {
    let vault = lab.vault(subject, "living")?;
    let other = lab.on_the_other(subject, &vault, "living")?;
    let (mount, promises) = worked(&vault)?;
    refused_without_a_word(&other)?;
    let taken = other.mount(lab::options().with(&["--takeover"])).context("taking over")?;
    let compared = promises.verify(&taken.path().join("writers")).context("taken over")?;
    // Who lost it writes nothing more, and says so.
    let mut file = File::options().append(true).create(true).open(mount.path().join("late"));
    let late = file.as_mut().map_err(|error| error.to_string()).and_then(|file| {
        file.write_all(b"late").and_then(|()| file.sync_all()).map_err(|error| error.to_string())
    });
    ensure!(late.is_err(), "the host that lost the vault goes on writing");
    drop(file);
    let told = lab::status(&mount)?["errors"]["last"].to_string();
    ensure!(told.contains("taken"), "the host that lost the vault says {told}");
    // Its unmount fails by design, with the same words.
    let unmounted = mount.unmount();
    ensure!(unmounted.is_err_and(|failure| failure.to_string().contains("taken")), "it closed the vault");
    let writers = promises.work(&taken.path().join("writers"), 7)?;
    writers.wait_for(30, WORK_LIMIT)?;
    writers.end()?;
    close(&other, taken, &promises)?;
    Ok(format!("{compared} files taken over, the host before refused to write, check clean"))
}

/// Takes a vault over from a host that has lost the network, and comes back.
pub(super) fn takeover_of_the_lost(lab: &mut Lab, subject: &Subject) -> Result<String> {
    let vault = lab.vault(subject, "lost")?;
    let other = lab.on_the_other(subject, &vault, "lost")?;
    let (mount, promises) = worked(&vault)?;
    let writers = promises.work(&mount.path().join("writers"), 8)?;
    writers.wait_for(20, WORK_LIMIT)?;
    lab.hosts[0].cut_off();
    refused_without_a_word(&other)?;
    let taken = other.mount(lab::options().with(&["--takeover"])).context("taking over")?;
    // Writers of the lost host hang or fail, and are promised nothing.
    lab.hosts[0].put_back();
    thread::sleep(COMING_BACK);
    // Its uploads wait for long by now; whoever waits for them can be ended once their server is.
    lab.hosts[0].kill_store()?;
    mount.crash()?;
    writers.end()?;
    let compared = promises.verify(&taken.path().join("writers")).context("taken over")?;
    let more = promises.work(&taken.path().join("writers"), 9)?;
    more.wait_for(30, WORK_LIMIT)?;
    more.end()?;
    close(&other, taken, &promises)?;
    lab.mount_store(0)?;
    Ok(format!("{compared} files taken over from a host without a network, check clean"))
}

fn worked(vault: &Vault) -> Result<(Mount, Arc<Promises>)> {
    let mount = vault.mount(lab::options())?;
    let directory = promises::directory(mount.path())?;
    let promises = Arc::new(Promises::default());
    let writers = promises.work(&directory, 6)?;
    writers.wait_for(60, WORK_LIMIT)?;
    writers.end()?;
    Ok((mount, promises))
}

/// Without `--takeover` the other host is refused, and told who has the vault.
fn refused_without_a_word(other: &Vault) -> Result {
    match other.mount(lab::options()) {
        Ok(mount) => {
            drop(mount);
            Err(Failure::new("two hosts write to one vault"))
        }
        Err(failure) => {
            let failure = failure.to_string();
            ensure!(failure.contains("in use") && failure.contains("of one"), "refused otherwise: {failure}");
            Ok(())
        }
    }
}

fn close(vault: &Vault, mount: Mount, promises: &Promises) -> Result {
    mount.unmount()?;
    ensure!(once_unlocked(|| vault.check(CHECK_LIMIT))?, "nothing was checked");
    let (mount, _) = mount_after_kill(vault)?;
    promises.verify(&mount.path().join("writers")).context("mounted again")?;
    mount.unmount()
}

/// A reader beside a writer, for `time`.
pub(super) fn reader(lab: &mut Lab, subject: &Subject, time: Duration) -> Result<String> {
    let vault = lab.vault(subject, "reader")?;
    let other = lab.on_the_other(subject, &vault, "reader")?;
    let (mount, promises) = worked(&vault)?;
    let reading = other.mount(lab::options().with(&["--read-only"])).context("the reader")?;
    let directory = reading.path().join("writers");
    promises.verify(&directory).context("what was synced before the reader came")?;
    let writers = promises.work_slowly(&mount.path().join("writers"), 10, PACE)?;
    let mut random = Random::new(11);
    let (mut fitted, mut refused, mut last) = (0, 0, String::new());
    let began = Instant::now();
    while began.elapsed() < time {
        match promises.look(&directory, &mut random)? {
            Look::Nothing => {}
            Look::Fitted => fitted += 1,
            Look::Refused(why) => {
                refused += 1;
                last = why;
            }
        }
    }
    writers.end()?;
    let seen = seen(&promises, &directory)?;
    // The writer goes on, and is not noticed to have been read.
    fs::write(mount.path().join("more"), b"more")?;
    reading.unmount()?;
    ensure!(fitted > 0, "nothing could be read beside the writer: {last}");
    close(&vault, mount, &promises)?;
    let refused = match refused {
        0 => String::new(),
        count => format!(" ({count} others refused, as {last})"),
    };
    Ok(format!(
        "{fitted} files read while they were written, each as it was promised{refused}; all that was synced seen \
         within {:.0} s",
        seen.as_secs_f64()
    ))
}

/// Waits until the reader sees all that was synced.
fn seen(promises: &Promises, directory: &std::path::Path) -> Result<Duration> {
    let began = Instant::now();
    loop {
        match promises.verify(directory) {
            Ok(_) => return Ok(began.elapsed()),
            Err(failure) => ensure!(began.elapsed() < SEEN_LIMIT, "the reader does not see it: {failure}"),
        }
        thread::sleep(POLL);
    }
}
