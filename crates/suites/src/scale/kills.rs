//! Kills while files are written and synced, each followed by what a person would do: start again what was killed,
//! mount again where the mount is gone, and go on. Then all that was promised is compared, and the vault checked.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use super::lab::{self, Lab, mount_after_kill};
use super::promises::{self, Promises};
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::Mount;
use strongroom_harness::subject::vault::Vault;

const WORK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long a mount may take to go on by itself once the servers are back.
const BACK_LIMIT: Duration = Duration::from_secs(20 * 60);
pub(super) const CHECK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long a server that was killed stays away.
const AWAY: Duration = Duration::from_secs(2);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Victim {
    /// Strongroom's
    Daemon,
    /// JuiceFS
    Store,
    /// Both at once
    Host,
    /// With the metadata
    Redis,
    /// With the objects
    S3,
}

impl Victim {
    pub(super) fn name(self) -> &'static str {
        match self {
            Victim::Daemon => "strongroom's daemon",
            Victim::Store => "JuiceFS",
            Victim::Host => "the daemon and JuiceFS",
            Victim::Redis => "Redis",
            Victim::S3 => "the S3 server",
        }
    }
}

/// Kills one again and again; tells what was seen.
pub(super) fn rounds(
    lab: &mut Lab,
    subject: &Subject,
    victim: Victim,
    rounds: u64,
    seed: u64,
) -> Result<String> {
    let vault = lab.vault(subject, &format!("kill-{victim:?}").to_lowercase())?;
    let mut mount = vault.mount(lab::options())?;
    let directory = promises::directory(mount.path())?;
    let promises = Arc::new(Promises::default());
    let mut random = Random::new(seed);
    let mut longest = Duration::ZERO;
    let mut compared = 0;
    let mut losses = 0;
    for round in 0..rounds {
        let writers = promises.work(&directory, seed + round)?;
        writers.wait_for(10 + random.below(60), WORK_LIMIT)?;
        thread::sleep(Duration::from_millis(random.below(300)));
        let (again, back) = kill(lab, &vault, mount, victim, &promises)
            .context(format_args!("round {round}"))
            .inspect_err(|_| println!("{}\n{}", vault.log_tail(), lab.hosts[0].store_said()))?;
        writers.end()?;
        longest = longest.max(back);
        compared = promises.verify(&directory).context(format_args!("round {round}, as found"))?;
        // Of what nobody synced a server that is killed may take something with it.
        let told = match victim {
            Victim::Redis | Victim::S3 => again.unmount_after_losses(),
            _ => again.unmount().map(|()| false),
        };
        losses += u64::from(told.context(format_args!("round {round}"))?);
        ensure!(vault.check(CHECK_LIMIT)?, "nothing was checked");
        // What the kernel had cached is gone now.
        mount = vault.mount(lab::options())?;
        promises.verify(&directory).context(format_args!("round {round}, mounted again"))?;
    }
    mount.unmount()?;
    Ok(format!(
        "{rounds} kills, {} syncs kept in {compared} files, {} calls failed, {losses} unmounts told of losses, back within \
         {:.0} s, check clean",
        promises.kept(),
        promises.failed(),
        longest.as_secs_f64()
    ))
}

/// Kills it, starts it again, and gives the mount that works again, and how long that took.
fn kill(
    lab: &mut Lab,
    vault: &Vault,
    mount: Mount,
    victim: Victim,
    promises: &Promises,
) -> Result<(Mount, Duration)> {
    match victim {
        Victim::Daemon => {
            mount.crash()?;
            mount_after_kill(vault)
        }
        Victim::Store | Victim::Host => {
            if victim == Victim::Host {
                // The daemon is still to be seen when its store is gone already, or not: as it comes.
                lab.hosts[0].kill_store()?;
                mount.crash()?;
            } else {
                let failed = promises.failed();
                lab.hosts[0].kill_store()?;
                // Callers are told.
                let mut waited = Duration::ZERO;
                while promises.failed() == failed {
                    ensure!(waited < WORK_LIMIT, "the store is gone, and no caller was told");
                    thread::sleep(AWAY / 10);
                    waited += AWAY / 10;
                }
                mount.crash()?;
            }
            lab.mount_store(0)?;
            mount_after_kill(vault)
        }
        Victim::Redis | Victim::S3 => {
            let server = if victim == Victim::Redis { &mut lab.redis } else { &mut lab.s3 };
            server.kill();
            thread::sleep(AWAY);
            server.start()?;
            let back = promises.wait_for_more(BACK_LIMIT)?;
            Ok((mount, back))
        }
    }
}
