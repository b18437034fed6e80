//! The model-based adversary: random histories whose every stored state is
//! kept, and attacks composed of parts of all of them. Whatever an attacked
//! vault shows must have been there once as a whole, or be an error.
//!
//! A program of its own, run by `cargo test` in a short form and by
//! `cargo xtask hostile` in a long one:
//! `--compositions N`, from the history of seed `--first S` on;
//! `--seed S` makes those of one history, `--number K` one of them;
//! `--rules` leaves out every rule of readers in turn, or that of `--only`, and
//! each must be caught;
//! `--own` lists those that other tests catch.

mod hostile_model;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hostile_model::{Attack, Campaign, Counts, Watchdog, Weakness};
use strongroom_vault::Rules;

/// Compositions of one history.
const EACH: u64 = 1000;
/// Compositions of the short form.
const SHORT: u64 = 2000;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(20);
/// A composition, or a history, that takes as many naps of the watchdog hangs.
const HANGS: u32 = 50;
const NAP: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Default)]
struct Arguments {
    compositions: Option<u64>,
    first: u64,
    seed: Option<u64>,
    number: Option<u64>,
    rules: bool,
    only: Option<String>,
    own: bool,
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
                "--rules" => arguments.rules = true,
                "--only" => arguments.only = words.next(),
                "--own" => arguments.own = true,
                _ => {}
            }
        }
        arguments
    }
}

/// A test: true when it passed.
type Test = Box<dyn Fn() -> bool>;

fn main() -> ExitCode {
    let Arguments { compositions, first, seed, number, rules, only, own } = Arguments::read();
    let mut tests: Vec<(&str, Test)> = Vec::new();
    if own {
        tests.push(("rules_with_tests_of_their_own", Box::new(rules::list_own)));
    } else if rules {
        tests.push(("every_rule_left_out_is_caught", Box::new(move || rules::every(only.as_deref()))));
    } else if let Some(seed) = seed {
        tests.push(("what_is_read_was_there_once_as_a_whole", Box::new(move || one_history(seed, number))));
    } else {
        tests.push(("a_task_that_hangs_is_named", Box::new(a_task_that_hangs)));
        let compositions = compositions.unwrap_or(SHORT);
        tests.push(("what_is_read_was_there_once_as_a_whole", Box::new(move || every(first, compositions))));
    }
    // As the usual harness says it, for who adds results up.
    let mut failed = 0;
    for (name, test) in &tests {
        let passed = catch_unwind(AssertUnwindSafe(test)).unwrap_or(false);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {} passed; {failed} failed; 0 ignored", tests.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn one_history(seed: u64, number: Option<u64>) -> bool {
    let numbers = number.map_or(0..EACH, |number| number..number + 1);
    let outcome = Campaign::new(seed, Rules::STRICT).and_then(|campaign| {
        let mut counts = Counts::default();
        numbers.into_iter().try_for_each(|number| campaign.run(number, &mut counts))
    });
    outcome.inspect_err(|fault| println!("{fault}")).is_ok()
}

/// One worker hangs and another does not.
fn a_task_that_hangs() -> bool {
    let (watchdog, is_over) = (Watchdog::default(), AtomicBool::new(false));
    let begun = std::sync::Barrier::new(3);
    let wait = |mut begin: Box<dyn FnMut() + '_>| {
        begin();
        begun.wait();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            begin();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            wait(Box::new(|| {
                number += 1;
                watchdog.begin((1, Some(number)));
            }));
            watchdog.end();
        });
        scope.spawn(|| {
            let mut is_new = true;
            wait(Box::new(|| {
                if std::mem::take(&mut is_new) {
                    watchdog.begin((7, Some(9)));
                }
            }));
            watchdog.end();
        });
        begun.wait();
        let found = watchdog.watch(Duration::from_millis(20), 10);
        is_over.store(true, Ordering::Relaxed);
        found == Some((7, Some(9)))
    }) && watchdog.watch(Duration::ZERO, 0).is_none()
}

/// Ends the program when a task hangs, and names it.
fn watch(watchdog: &Watchdog) {
    if let Some((seed, number)) = watchdog.watch(NAP, HANGS) {
        let what = number.map_or("the playing".into(), |number| format!("composition {number}"));
        println!("{what} of history {seed} hangs: it has taken {HANGS} s");
        println!("test what_is_read_was_there_once_as_a_whole ... FAILED");
        std::process::exit(1);
    }
}

/// What the workers share.
struct Shared {
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicBool,
    counts: Mutex<Counts>,
    said: Mutex<Instant>,
    watchdog: Watchdog,
}

fn every(first: u64, compositions: u64) -> bool {
    let began = Instant::now();
    let shared = Shared {
        next: AtomicU64::new(first),
        done: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        counts: Mutex::default(),
        said: Mutex::new(began),
        watchdog: Watchdog::default(),
    };
    let begun = std::sync::Barrier::new(threads() + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                shared.watchdog.begin((first, None));
                begun.wait();
                work(&shared, compositions);
                shared.watchdog.end();
            });
        }
        begun.wait();
        watch(&shared.watchdog);
    });
    let histories = shared.next.into_inner() - first;
    let counts = shared.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(&counts, histories, began.elapsed());
    !shared.failed.into_inner()
}

fn work(shared: &Shared, compositions: u64) {
    while shared.done.load(Ordering::Relaxed) < compositions && !shared.failed.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        shared.watchdog.begin((seed, None));
        let mut counts = Counts::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let campaign = Campaign::new(seed, Rules::STRICT)?;
            (0..EACH.min(compositions)).try_for_each(|number| {
                shared.watchdog.begin((seed, Some(number)));
                campaign.run(number, &mut counts)?;
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

/// Without the feature no rule can be left out.
#[cfg(not(feature = "planted-faults"))]
mod rules {
    pub(super) fn every(_: Option<&str>) -> bool {
        println!("rules are left out with the feature `planted-faults` alone");
        false
    }

    pub(super) fn list_own() -> bool {
        every(None)
    }
}

/// Leaving out each rule of readers in turn.
#[cfg(feature = "planted-faults")]
mod rules {
    use super::*;
    use strongroom_vault::{ReaderRule, leave_out};

    /// Compositions that a planted fault may take before it must have shown.
    const PLANTED: u64 = 3000;
    /// Of one history.
    const PLANTED_EACH: u64 = 500;

    pub(super) fn every(only: Option<&str>) -> bool {
        // A fault may show as a panic; it is told by the line below.
        std::panic::set_hook(Box::new(|_| ()));
        let mut campaigns = Vec::new();
        let mut is_well = only.is_some() || is_quiet(&mut campaigns);
        let is_chosen = |rule: &ReaderRule| match only {
            Some(only) => format!("{rule:?}") == only,
            None => own_test(*rule).is_none(),
        };
        for rule in ReaderRule::ALL.into_iter().filter(is_chosen) {
            let (caught, compositions) = plant(rule, &mut campaigns);
            leave_out(None);
            match &caught {
                Some(fault) => {
                    println!("{rule:?}: caught after {compositions} compositions: {}", first_line(fault))
                }
                None => println!("{rule:?}: MISSED after {compositions} compositions"),
            }
            is_well &= caught.is_some();
        }
        let _ = std::panic::take_hook();
        is_well
    }

    /// Lists the rules whose absence gives nothing that never was, each with a
    /// test that it fails.
    pub(super) fn list_own() -> bool {
        for rule in ReaderRule::ALL {
            if let Some((target, test)) = own_test(rule) {
                println!("own {rule:?} {target} {test}");
            }
        }
        true
    }

    fn own_test(rule: ReaderRule) -> Option<(&'static str, &'static str)> {
        match rule {
            // Each read finds what is missing.
            ReaderRule::StoredLength => Some(("attacks", "every_other_stored_length_is_an_error_at_open")),
            // Without the keys of a generation, its files are whole states of theirs.
            ReaderRule::Generation => Some(("generations", "none_below_the_lowest_opens")),
            // What is at home is an older whole state.
            ReaderRule::JournalPresent => Some(("attacks_names", "a_journal_that_was_deleted_is_damage")),
            ReaderRule::RecordDurable => Some(("attacks_journal", "a_durable_record_that_is_gone_is_damage")),
            // What they leave is a whole state or an error, though not the best.
            ReaderRule::ImageTag => {
                Some(("attacks_journal", "a_record_does_not_take_an_older_image_of_its_page"))
            }
            ReaderRule::RecordChain => Some(("attacks_journal", "a_record_follows_the_one_that_it_names")),
            // What is read is held against its home, too.
            ReaderRule::SideName => {
                Some(("namespace", "attacks::a_long_name_with_another_side_file_is_left_out"))
            }
            _ => None,
        }
    }

    /// What the rule says is part of what is written: its histories are played
    /// without it.
    fn shapes_histories(rule: ReaderRule) -> bool {
        matches!(rule, ReaderRule::HomeBefore | ReaderRule::AttributeOwner | ReaderRule::AttributeName)
    }

    fn first_line(fault: &str) -> String {
        fault.lines().next().unwrap_or_default().chars().take(120).collect()
    }

    /// With every rule kept, the same attacks achieve nothing.
    fn is_quiet(campaigns: &mut Vec<Campaign>) -> bool {
        let done = AtomicU64::new(0);
        let fault = attack(campaign(campaigns, 0), &done);
        match &fault {
            Some(fault) => println!("no rule left out: {fault}"),
            None => println!("no rule left out: nothing after {} compositions", done.into_inner()),
        }
        fault.is_none()
    }

    /// The history of a seed, played with every rule kept.
    fn campaign(campaigns: &mut Vec<Campaign>, seed: u64) -> &Campaign {
        while campaigns.len() as u64 <= seed {
            let next = Campaign::new(campaigns.len() as u64, Rules::STRICT);
            campaigns.push(next.expect("every rule is kept"));
        }
        &campaigns[seed as usize]
    }

    /// How the absence of a rule shows, and after how many compositions.
    fn plant(rule: ReaderRule, campaigns: &mut Vec<Campaign>) -> (Option<String>, u64) {
        let done = AtomicU64::new(0);
        for seed in 0..PLANTED / PLANTED_EACH {
            let fault = if shapes_histories(rule) {
                leave_out(Some(rule));
                match catch_unwind(|| Campaign::new(seed, Rules::STRICT)) {
                    Ok(Ok(campaign)) => attack(&campaign, &done),
                    Ok(Err(fault)) => Some(fault),
                    Err(_) => Some(format!("history {seed} panicked")),
                }
            } else {
                let campaign = campaign(campaigns, seed);
                leave_out(Some(rule));
                let fault = attack(campaign, &done);
                leave_out(None);
                fault
            };
            if fault.is_some() {
                return (fault, done.into_inner());
            }
        }
        (None, done.into_inner())
    }

    /// What an attack on a history achieves, if one does.
    fn attack(campaign: &Campaign, done: &AtomicU64) -> Option<String> {
        let (next, caught) = (AtomicU64::new(0), Mutex::new(None));
        let find =
            |number| match catch_unwind(AssertUnwindSafe(|| campaign.run(number, &mut Counts::default()))) {
                Ok(outcome) => outcome.err(),
                Err(_) => Some(format!("composition {number} panicked")),
            };
        let lock = || caught.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for _ in 0..threads() {
                scope.spawn(|| {
                    while lock().is_none() {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= PLANTED_EACH {
                            break;
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                        if let Some(fault) = find(number) {
                            lock().get_or_insert(fault);
                        }
                    }
                });
            }
        });
        caught.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
