//! Rounds of work and crash: what `kill` and `powercut` have in common.

use std::time::Duration;

use super::campaign::{Campaign, Witnessed};
use super::lane::Kept;
use crate::failure::{Context, Result};
use crate::random::Random;
use crate::subject::mount::{Mount, MountOptions, crash_mounting};
use crate::subject::vault::Vault;
use crate::tally::Tally;

/// A round takes about two seconds; this is for slow machines.
pub(crate) const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Longest work before a kill, in milliseconds.
const WORK_MAX: u64 = 1500;
/// A mount is ready within this, and settling under way, in milliseconds.
const RECOVERY_MAX: u64 = 120;
/// An unmount takes about this, in milliseconds.
const UNMOUNT_MAX: u64 = 60;

/// What happens to the store once the daemon is dead.
pub(crate) type Aftermath<'a> = dyn FnMut(&mut Random) -> Result + 'a;

/// Where the kill strikes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Working,
    Unmounting,
    /// While working, and again while recovering from that.
    Recovering,
}

#[derive(Default)]
struct Counts {
    working: u64,
    unmounting: u64,
    closed: u64,
    recovering: u64,
    checks: u64,
    syncs: u64,
    kept: Kept,
}

/// Rounds on one vault.
pub(crate) struct Rounds<'a> {
    vault: Vault,
    campaign: Campaign,
    random: Random,
    counts: Counts,
    mount: Option<Mount>,
    options: fn(&mut Random) -> MountOptions,
    aftermath: &'a mut Aftermath<'a>,
}

impl<'a> Rounds<'a> {
    /// Begins with a mount and a clean unmount of a fresh vault.
    pub(crate) fn begin(
        vault: Vault,
        logs: std::path::PathBuf,
        seed: u64,
        options: fn(&mut Random) -> MountOptions,
        aftermath: &'a mut Aftermath<'a>,
    ) -> Result<Self> {
        let mut random = Random::new(seed);
        let mount = vault.mount(options(&mut random))?;
        let campaign = Campaign::begin(&vault, logs, seed)?;
        mount.unmount()?;
        Ok(Self { vault, campaign, random, counts: Counts::default(), mount: None, options, aftermath })
    }

    /// Plays so many rounds, or up to the first that fails, and counts them.
    pub(crate) fn play(mut self, rounds: u64, mut tally: Tally) -> Tally {
        for round in 1..=rounds {
            let outcome = self.one();
            let failed = outcome.is_err();
            tally.count(&format!("round {round}"), outcome);
            if failed {
                if !tally.planted {
                    println!("{}", self.vault.log_tail());
                }
                break;
            }
            if round % 50 == 0 {
                println!("  {round} rounds");
            }
        }
        self.report();
        if self.counts.kept.acknowledged == 0 && tally.failures.is_empty() {
            tally.fail("nothing was ever acknowledged".into());
        }
        if let Some(mount) = self.mount.take() {
            tally.count("the last unmount", mount.unmount());
            tally.count("the last check", self.vault.check(ROUND_LIMIT).map(drop));
        }
        tally
    }

    /// Works, kills, mounts and compares; now and then unmounts and checks. Where it does not, the next
    /// kill meets a vault that still remembers the crash before.
    fn one(&mut self) -> Result {
        let mount = match self.mount.take() {
            Some(mount) => mount,
            None => self.vault.mount((self.options)(&mut self.random)).context("mounting for the round")?,
        };
        let moment = match self.random.below(8) {
            0 | 1 => Moment::Unmounting,
            2 | 3 => Moment::Recovering,
            _ => Moment::Working,
        };
        let witnessed = self.work_and_kill(mount, moment)?;
        self.counts.syncs += witnessed.count;
        (self.aftermath)(&mut self.random)?;
        if moment == Moment::Recovering {
            self.kill_recovery()?;
        }
        let options = (self.options)(&mut self.random);
        let mount = self.vault.mount(options).context("mounting after the kill")?;
        self.counts.kept += self.campaign.verify(&witnessed)?;
        if self.random.below(2) == 0 {
            mount.unmount().context("unmounting after the comparison")?;
            self.counts.checks += 1;
            self.vault.check(ROUND_LIMIT)?;
        } else {
            self.mount = Some(mount);
        }
        Ok(())
    }

    fn work_and_kill(&mut self, mount: Mount, moment: Moment) -> Result<Witnessed> {
        let time = Duration::from_millis(20 + self.random.below(WORK_MAX));
        let mut work = self.campaign.start()?;
        self.campaign.work(&mut work, time, &mut self.random)?;
        if moment != Moment::Unmounting {
            self.counts.working += 1;
            mount.crash()?;
            return work.end(false);
        }
        self.counts.unmounting += 1;
        work.stop()?;
        let closed = mount.crash_unmounting(Duration::from_millis(self.random.below(UNMOUNT_MAX)))?;
        self.counts.closed += u64::from(closed);
        work.end(closed)
    }

    fn kill_recovery(&mut self) -> Result {
        for _ in 0..=self.random.below(3) {
            let delay = Duration::from_millis(self.random.below(RECOVERY_MAX));
            crash_mounting(&self.vault, (self.options)(&mut self.random), delay)?;
            self.counts.recovering += 1;
            (self.aftermath)(&mut self.random)?;
        }
        Ok(())
    }

    fn report(&self) {
        let Counts { working, unmounting, closed, recovering, checks, syncs, kept } = &self.counts;
        println!(
            "  killed {working} times at work, {unmounting} times unmounting ({closed} of these had ended), \
             {recovering} times mounting"
        );
        println!(
            "  {} actions, {} acknowledgements, {syncs} syncs of everything; \
             {} changes of names lost, none of them acknowledged",
            kept.actions, kept.acknowledged, kept.names_lost
        );
        println!(
            "  {} files compared, {} of their pages between two writes and promised to nobody; {checks} checks",
            kept.files, kept.pages_of_two
        );
    }
}
