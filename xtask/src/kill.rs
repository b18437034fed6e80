//! The daemon killed at random moments, again and again on one vault.
//!
//! Writers note what was acknowledged ([`crate::ledger`]). The daemon gets SIGKILL while they work, while it
//! unmounts, and while it recovers from the kill before; then the vault is mounted again, and everything
//! acknowledged has to be there. A kill takes what the kernel had not yet handed to the daemon and what
//! stood in the daemon's memory; what a power cut takes besides is `cargo xtask powercut`'s part.

use clap::Args;

use crate::failure::Result;
use crate::ledger::rounds::{ROUND_LIMIT, Rounds};
use crate::random::Random;
use crate::subject::SubjectArgs;
use crate::subject::mount::MountOptions;
use crate::subject::vault::Vault;
use crate::tally::Tally;

/// Half of the mounts have the smallest journal, so that it is emptied all the time.
const SMALL_JOURNAL: &[&str] = &["--journal-size", "16MiB"];

#[derive(Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Rounds of work and kill
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// Chooses what is done and when it is killed; the moments differ from run to run all the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl KillArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(subject: &SubjectArgs, long: bool) -> Self {
        Self { subject: subject.clone(), rounds: if long { 500 } else { 40 }, seed: 1 }
    }
}

/// Runs the rounds; the first that fails ends them.
pub(crate) fn run(arguments: &KillArgs) -> Result<Tally> {
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("kill")?;
    let vault = Vault::create(&subject, scratch.path())?;
    let mut nothing = |_: &mut Random| Ok(());
    let rounds = Rounds::begin(vault, scratch.make("logs")?, arguments.seed, options, &mut nothing)?;
    Ok(rounds.play(arguments.rounds, Tally::default()))
}

/// How a vault is mounted for a round.
pub(crate) fn options(random: &mut Random) -> MountOptions {
    let options = MountOptions::new(ROUND_LIMIT);
    if random.below(2) == 0 { options.with(SMALL_JOURNAL) } else { options }
}
