//! What the adaptive policy makes of a live mount, against each engine forced.
//!
//! One mount and one set of threads do all of a piece of work: two mounts differ by more than the policies do,
//! even where both place alike. In each round every side has one turn, in an order drawn anew; a turn begins with
//! `strongroom set` on the live mount and a part that is not measured, of the same length for all. The CPU
//! engine is the portable tier; the device is `engine-sim`, which computes with the best tier and answers when
//! the modelled device would.
//!
//! The ratio of a round is the adaptive side over the engine that is best in the median of all rounds; judged
//! is the lower end of the 95 % confidence interval of the ratios' geometric mean. The engine that is best in a
//! trial before the first round has two turns in each: its ratio to itself is what chance makes of no
//! difference.

mod others;
mod report;
mod turn;
mod work;

use std::time::Duration;

use clap::Args;

use self::report::Measured;
use self::turn::{ADAPTIVE, CPU, DEVICE, Lengths, Turns};
use self::work::{WORK, Work};
use crate::common::Common;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};
use strongroom_harness::workspace;

const MOUNT_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Bytes of the file of each thread, in a judged run and in a quick one.
const FILE: [usize; 2] = [32 << 20, 4 << 20];
/// Fewer rounds are not judged.
const ROUNDS_MIN: usize = 30;

#[derive(Args)]
pub(crate) struct PlacementArgs {
    #[command(flatten)]
    common: Common,
    /// How often each side has its turn; fewer than 30 are not judged
    #[arg(long, default_value_t = 36)]
    rounds: usize,
    /// Measured milliseconds of each turn
    #[arg(long, default_value_t = 400)]
    milliseconds: u64,
    /// Milliseconds from `set` until a turn is measured
    #[arg(long, default_value_t = 1000)]
    settle: u64,
    /// Only pieces of work whose name contains one of these
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    only: Vec<String>,
}

impl PlacementArgs {
    fn wants(&self, work: &Work) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| work.key.contains(part.as_str()))
    }

    fn lengths(&self) -> Lengths {
        let (settle, measured) = if self.common.quick { (50, 50) } else { (self.settle, self.milliseconds) };
        Lengths { settle: Duration::from_millis(settle), measured: Duration::from_millis(measured.max(1)) }
    }
}

/// Measures everything and judges it.
pub(crate) fn run(arguments: &PlacementArgs) -> Result {
    let common = &arguments.common;
    let work: Vec<&'static Work> = WORK.iter().filter(|work| arguments.wants(work)).collect();
    let keys = WORK.map(|work| work.key).join(", ");
    ensure!(!work.is_empty(), "no work is named like that; there are {keys}");
    let scratch = Scratch::new(Some(&common.work), "place")?.guarded()?;
    let (lengths, rounds) = (arguments.lengths(), if common.quick { 2 } else { arguments.rounds.max(2) });
    let mut measured = Vec::new();
    let binary = match &common.binary {
        Some(binary) => binary.clone(),
        None => workspace::build_with_test_engines()?,
    };
    for work in work {
        let settings = Settings { engine: Some(work.engine.to_owned()), ..Settings::default() };
        let subject = Subject::resolve(Kind::Strongroom, settings, Some(&binary))?;
        let vault = Vault::create(&subject, &scratch.make(work.key)?)?;
        let mount = vault.mount(MountOptions::new(MOUNT_LIMIT))?;
        work.prepare(mount.path(), FILE[usize::from(common.quick)])?;
        measured.push(measure(work, &Turns::new(work, &mount, lengths)?, rounds)?);
        mount.unmount()?;
    }
    let is_judged = rounds >= ROUNDS_MIN;
    let version = Subject::resolve(Kind::Strongroom, Settings::default(), Some(&binary))?.version()?;
    let document = report::document(version, &measured, rounds, lengths, is_judged);
    let missed = measured.iter().filter(|measured| is_judged && !measured.is_met());
    let missed: Vec<String> =
        missed.map(|measured| format!("{}: below {}", measured.work.title, report::FLOOR)).collect();
    document.conclude(common.json.as_deref(), &missed)
}

/// All rounds of one piece of work.
fn measure(work: &'static Work, turns: &Turns<'_>, rounds: usize) -> Result<Measured> {
    turns.take(ADAPTIVE, "learning")?;
    let trial = |side| turns.take(side, "trial").map(|sample| sample.rate);
    let again = if trial(CPU)? >= trial(DEVICE)? { CPU } else { DEVICE };
    let sides = [ADAPTIVE, CPU, DEVICE, again];
    let mut samples = sides.map(|_| Vec::with_capacity(rounds));
    for round in 0..rounds {
        for at in shuffled(sides.len(), round as u64) {
            samples[at].push(turns.take(sides[at], &format!("round {} of {rounds}", round + 1))?);
        }
    }
    let [adaptive, cpu, device, repeated] = samples;
    Ok(Measured { work, adaptive, cpu, device, again, repeated })
}

/// The numbers below `count`, in an order that follows from `seed`.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = Random::new(seed);
    for at in (1..count).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_has_one_turn_in_each_round_and_none_has_a_place_of_its_own() {
        let mut at = [[0; 4]; 4];
        for round in 0..30 {
            let order = shuffled(4, round);
            order.iter().enumerate().for_each(|(place, side)| at[*side][place] += 1);
            assert_eq!((0..4).map(|side| usize::from(order.contains(&side))).sum::<usize>(), 4);
        }
        assert!(at.iter().flatten().all(|times| (1..=15).contains(times)), "{at:?}");
    }
}
