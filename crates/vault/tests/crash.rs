//! Power cuts: random histories on a store that remembers what was synced,
//! cut at every barrier and at random moments. Each image that a cut could
//! leave is opened, compared with the model, written to, closed and opened
//! again; some recoveries are cut a second time.
//!
//! `STRONGROOM_CRASH_IMAGES` sets how many distinct images are checked,
//! `STRONGROOM_CRASH_SEED` replays one history.

mod crash_model;
mod support;

use std::collections::HashSet;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use crash_model::{Campaign, Trial};
use strongroom_vault::{Rule, Rules};

fn wanted(default: u64) -> u64 {
    std::env::var("STRONGROOM_CRASH_IMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_image_that_a_power_cut_could_leave_is_whole() {
    let images = wanted(3_000);
    if let Some(seed) = std::env::var("STRONGROOM_CRASH_SEED").ok().and_then(|text| text.parse().ok()) {
        let mut seen = HashSet::new();
        Campaign::new(seed, Rules::STRICT)
            .run(&mut seen, usize::MAX)
            .unwrap_or_else(|fault| panic!("{fault}"));
        return;
    }
    let next = AtomicU64::new(0);
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut seen = HashSet::new();
                while total.load(Ordering::Relaxed) < images {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let before = seen.len();
                    let campaign = Campaign::new(seed, Rules::STRICT);
                    if let Err(fault) = campaign.run(&mut seen, 700) {
                        total.store(u64::MAX / 2, Ordering::Relaxed);
                        panic!("history {seed}: {fault}");
                    }
                    total.fetch_add((seen.len() - before) as u64, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} distinct images of {} histories", total.into_inner(), next.into_inner());
}

/// Images that a planted fault may take before it must have shown.
const PLANTED_IMAGES: usize = 20_000;

#[test]
fn every_rule_left_out_is_caught() {
    let (first, second) = Rule::ALL.split_at(Rule::ALL.len() / 2);
    let missed: Vec<Rule> = std::thread::scope(|scope| {
        let halves = [first, second].map(|rules| scope.spawn(|| missed_of(rules)));
        halves.into_iter().flat_map(|half| half.join().expect("the campaign runs")).collect()
    });
    assert_eq!(missed, [], "rules whose absence no image shows");
}

fn missed_of(rules: &[Rule]) -> Vec<Rule> {
    let mut missed = Vec::new();
    for &rule in rules {
        let mut seen = HashSet::new();
        let caught = (0..1000).find_map(|seed| {
            // A fault may show before any cut, as a read that fails.
            let campaign = catch_unwind(|| Campaign::new(seed, Rules::STRICT.without(rule)));
            let shown = campaign.map_or(true, |campaign| campaign.run(&mut seen, 200).is_err());
            (shown || seen.len() >= PLANTED_IMAGES).then_some(shown)
        });
        let caught = caught == Some(true);
        println!("{rule:?}: {} after {} images", if caught { "caught" } else { "missed" }, seen.len());
        if !caught {
            missed.push(rule);
        }
    }
    missed
}

#[test]
fn a_history_without_a_cut_is_whole() {
    for seed in 0..20 {
        let mut trial = Trial::new(seed, Rules::STRICT);
        trial.play();
        trial.check_end().unwrap_or_else(|fault| panic!("history {seed}: {fault}"));
    }
}
