//! The model-based adversary: random histories whose every stored state is
//! kept, and attacks composed of parts of all of them. Whatever an attacked
//! vault shows must have been there once as a whole, or be an error.
//!
//! A program of its own, run by `cargo test` in a short form and by
//! `cargo xtask hostile` in a long one:
//! `--compositions N`, from the history of seed `--first S` on;
//! `--seed S` makes those of one history, `--number K` one of them.

mod hostile_model;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hostile_model::{Attack, Campaign, Counts, Weakness};
use strongroom_vault::Rules;

/// Compositions of one history.
const EACH: u64 = 1000;
/// Compositions of the short form.
const SHORT: u64 = 2000;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(20);
/// A composition that takes as long hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What to run.
#[derive(Default)]
struct Arguments {
    compositions: Option<u64>,
    first: u64,
    seed: Option<u64>,
    number: Option<u64>,
}

impl Arguments {
    /// Reads the command line; what `cargo test` adds for its own harness
    /// means nothing here.
    fn read() -> Arguments {
        let mut arguments = Arguments::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|text| text.parse().ok());
                Some(value.unwrap_or_else(|| panic!("{word} takes a number")))
            };
            match word.as_str() {
                "--compositions" => arguments.compositions = number(),
                "--first" => arguments.first = number().expect("a number"),
                "--seed" => arguments.seed = number(),
                "--number" => arguments.number = number(),
                _ => {}
            }
        }
        arguments
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let passed = match arguments.seed {
        Some(seed) => {
            let numbers = arguments.number.map_or(0..EACH, |number| number..number + 1);
            let outcome = Campaign::new(seed, Rules::STRICT).and_then(|campaign| {
                let mut counts = Counts::default();
                numbers.into_iter().try_for_each(|number| campaign.run(number, &mut counts))
            });
            outcome.inspect_err(|fault| println!("{fault}")).is_ok()
        }
        None => every(arguments.first, arguments.compositions.unwrap_or(SHORT)),
    };
    let (verdict, failed) = if passed { ("ok", 0) } else { ("FAILED", 1) };
    println!("test what_is_read_was_there_once_as_a_whole ... {verdict}");
    println!("test result: {verdict}. {} passed; {failed} failed; 0 ignored", 1 - failed);
    ExitCode::from(failed)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the workers share.
struct Shared {
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicBool,
    counts: Mutex<Counts>,
    said: Mutex<Instant>,
}

fn every(first: u64, compositions: u64) -> bool {
    let began = Instant::now();
    let shared = Shared {
        next: AtomicU64::new(first),
        done: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        counts: Mutex::default(),
        said: Mutex::new(began),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| work(&shared, compositions));
        }
    });
    let histories = shared.next.into_inner() - first;
    let counts = shared.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(&counts, histories, began.elapsed());
    !shared.failed.into_inner()
}

fn work(shared: &Shared, compositions: u64) {
    while shared.done.load(Ordering::Relaxed) < compositions && !shared.failed.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        let mut counts = Counts::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let campaign = Campaign::new(seed, Rules::STRICT)?;
            (0..EACH.min(compositions)).try_for_each(|number| {
                let began = Instant::now();
                campaign.run(number, &mut counts)?;
                if began.elapsed() > HANGS {
                    return Err(format!("composition {number} of history {seed} took {:?}", began.elapsed()));
                }
                let done = shared.done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Ok(mut said) = shared.said.try_lock()
                    && said.elapsed() >= PROGRESS
                {
                    *said = Instant::now();
                    println!("{done} of {compositions} compositions");
                }
                Ok(())
            })
        }));
        shared.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&counts);
        let outcome = outcome.unwrap_or_else(|_| {
            Err(format!("composition {} of history {seed} panicked", counts.compositions.saturating_sub(1)))
        });
        if let Err(fault) = outcome {
            println!("{fault}");
            shared.failed.store(true, Ordering::Relaxed);
        }
    }
}

fn tell(counts: &Counts, histories: u64, took: Duration) {
    println!("{} compositions of {histories} histories in {} s", counts.compositions, took.as_secs());
    println!("  {} vaults refused whole, {} readings, {} errors", counts.closed, counts.read, counts.refused);
    for attack in Attack::ALL {
        println!("  attack {attack:?}: {}", counts.attacks.get(&attack).unwrap_or(&0));
    }
    for weakness in Weakness::ALL {
        println!("  weakness {weakness:?}: {}", counts.weak.get(&weakness).unwrap_or(&0));
    }
}
