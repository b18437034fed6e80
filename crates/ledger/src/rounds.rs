//! Rounds of work and crash: what `kill` and `powercut` have in common.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::campaign::{Campaign, Witnessed};
use super::churn::Mix;
use super::lane::Kept;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::{Mount, MountOptions, crash_mounting};
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;

/// A round takes about two seconds; this is for slow machines.
pub const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Longest work before a kill, in milliseconds, unless the options say otherwise.
pub const WORK_MAX: u64 = 1500;
/// Most kills of one recovery.
const RECOVERY_KILLS_MAX: u64 = 6;
/// What a mount is thought to take at first, and settling besides is thought to take always.
const RECOVERY: Duration = Duration::from_millis(100);
/// An unmount takes about this, in milliseconds.
const UNMOUNT_MAX: u64 = 60;

/// What happens to the store once the daemon is dead.
pub type Aftermath<'a> = dyn FnMut(&mut Random) -> Result + 'a;

/// How the rounds of a vault are played.
pub struct Plan {
    pub seed: u64,
    pub mix: Mix,
    /// Longest work before a kill, in milliseconds.
    pub work_max: u64,
    /// How the vault is mounted each time.
    pub options: fn(&mut Random) -> MountOptions,
}

/// Where the kill strikes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Working,
    Unmounting,
}

#[derive(Default)]
struct Counts {
    working: u64,
    unmounting: u64,
    closed: u64,
    /// Before the mount was there.
    recovering: u64,
    /// While files were settled behind the mount.
    settling: u64,
    checks: u64,
    syncs: u64,
    kept: Kept,
}

/// Rounds on one vault.
pub struct Rounds<'a> {
    vault: Vault,
    campaign: Campaign,
    plan: Plan,
    random: Random,
    counts: Counts,
    mount: Option<Mount>,
    /// What the last mount after a kill took.
    recovery: Duration,
    aftermath: &'a mut Aftermath<'a>,
}

impl<'a> Rounds<'a> {
    /// Begins with a mount and a clean unmount of a fresh vault.
    pub fn begin(vault: Vault, logs: PathBuf, plan: Plan, aftermath: &'a mut Aftermath<'a>) -> Result<Self> {
        let mut random = Random::new(plan.seed);
        let mount = vault.mount((plan.options)(&mut random))?;
        let campaign = Campaign::begin(&vault, logs, plan.seed, plan.mix)?;
        mount.unmount()?;
        let counts = Counts::default();
        Ok(Self { vault, campaign, plan, random, counts, mount: None, recovery: RECOVERY, aftermath })
    }

    /// Plays so many rounds, or up to the first that fails, and counts them.
    pub fn play(mut self, rounds: u64, mut tally: Tally) -> Tally {
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
            None => {
                let options = self.options();
                self.vault.mount(options).context("mounting for the round")?
            }
        };
        let moment = if self.random.below(4) == 0 { Moment::Unmounting } else { Moment::Working };
        let witnessed = self.work_and_kill(mount, moment)?;
        self.counts.syncs += witnessed.count;
        (self.aftermath)(&mut self.random)?;
        if self.random.below(2) == 0 {
            self.kill_recovery()?;
        }
        let options = self.options();
        let began = Instant::now();
        let mount = self.vault.mount(options).context("mounting after the kill")?;
        self.recovery = began.elapsed();
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

    fn options(&mut self) -> MountOptions {
        (self.plan.options)(&mut self.random)
    }

    fn work_and_kill(&mut self, mount: Mount, moment: Moment) -> Result<Witnessed> {
        let time = Duration::from_millis(20 + self.random.below(self.plan.work_max));
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

    /// Mounts and kills, again and again: at any moment until the mount is there, and while files are settled
    /// behind it.
    fn kill_recovery(&mut self) -> Result {
        let longest = (self.recovery + RECOVERY).as_micros() as u64;
        for _ in 0..=self.random.below(RECOVERY_KILLS_MAX) {
            let delay = Duration::from_micros(self.random.below(longest));
            let options = self.options();
            match crash_mounting(&self.vault, options, delay)? {
                true => self.counts.settling += 1,
                false => self.counts.recovering += 1,
            }
            (self.aftermath)(&mut self.random)?;
        }
        Ok(())
    }

    fn report(&self) {
        let Counts { working, unmounting, closed, recovering, settling, checks, syncs, kept } = &self.counts;
        println!(
            "  killed {working} times at work, {unmounting} times unmounting ({closed} of these had ended), \
             {recovering} times mounting, {settling} times just after"
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
