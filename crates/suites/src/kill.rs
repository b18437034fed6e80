//! The daemon killed at random moments, again and again on one vault.
//!
//! Writers note what was acknowledged ([`strongroom_ledger`]). The daemon gets SIGKILL while they work or while it
//! unmounts, and in half of the rounds again and again while it recovers from that; then the vault is mounted
//! again, and everything acknowledged has to be there. A kill takes what the kernel had not yet handed to the daemon and what
//! stood in the daemon's memory; what a power cut takes besides is `cargo xtask powercut`'s part.

use clap::Args;

use strongroom_harness::failure::Result;
use strongroom_harness::random::Random;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;
use strongroom_ledger::churn::Mix;
use strongroom_ledger::rounds::{Plan, ROUND_LIMIT, Rounds, WORK_MAX};

/// Half of the mounts have the smallest journal, so that it is emptied all the time.
const SMALL_JOURNAL: &[&str] = &["--journal-size", "16MiB"];

#[derive(Args)]
pub struct KillArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Rounds of work and kill
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// Chooses what is done and when it is killed; the moments differ from run to run all the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the writers mostly do
    #[arg(long, value_enum, default_value = "all")]
    mix: Mix,
    /// Longest work before a kill, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = WORK_MAX)]
    work_max: u64,
}

impl KillArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        let rounds = if long { 500 } else { 10 };
        Self { subject: subject.clone(), rounds, seed: 1, mix: Mix::All, work_max: WORK_MAX }
    }
}

/// Runs the rounds; the first that fails ends them.
pub fn run(arguments: &KillArgs) -> Result<Tally> {
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("kill")?;
    let vault = Vault::create(&subject, scratch.path())?;
    let mut nothing = |_: &mut Random| Ok(());
    let KillArgs { seed, mix, work_max, .. } = *arguments;
    let plan = Plan { seed, mix, work_max, options };
    let rounds = Rounds::begin(vault, scratch.make("logs")?, plan, &mut nothing)?;
    Ok(rounds.play(arguments.rounds, Tally::default()))
}

/// How a vault is mounted for a round.
pub(crate) fn options(random: &mut Random) -> MountOptions {
    let options = MountOptions::new(ROUND_LIMIT);
    if random.below(2) == 0 { options.with(SMALL_JOURNAL) } else { options }
}
