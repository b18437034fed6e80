//! Power cuts: random histories on a store that remembers what was synced,
//! cut at every barrier and at random moments. Each image that a cut could
//! leave is opened, compared with the model, written to, closed and opened
//! again; some recoveries are cut a second time.
//!
//! A program of its own, run by `cargo test` in a short form and by
//! `cargo xtask crash` in a long one:
//! `--images N` distinct images, from the history of seed `--first S` on;
//! `--rules` leaves out every ordering rule in turn, with the feature
//! `planted-faults` also those of masks, and each must be caught;
//! `--seed S` checks the images of one history, `--image K` one of them.

mod crash_model;
mod mask_model;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crash_model::{Campaign, Trial, masked, removals};
use strongroom_vault::{Rule, Rules};

/// Distinct images of one history.
const IMAGES_EACH: usize = 1000;
/// Images that a planted fault may take before it must have shown.
const PLANTED_IMAGES: usize = 20_000;
/// Images of one history while a rule is left out.
const PLANTED_EACH: usize = 400;
/// Images of the removals.
const REMOVALS: usize = 1000;
/// Histories with masks in the short form, and images of each.
const MASKED: u64 = 4;
const MASKED_EACH: usize = 100;
/// Histories that are played to their end without a cut.
const WHOLE: u64 = 20;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Default)]
struct Arguments {
    images: Option<u64>,
    first: u64,
    seed: Option<u64>,
    image: Option<u64>,
    rules: bool,
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
                "--images" => arguments.images = number(),
                "--first" => arguments.first = number().expect("a number"),
                "--seed" => arguments.seed = number(),
                "--image" => arguments.image = number(),
                "--rules" => arguments.rules = true,
                _ => {}
            }
        }
        arguments
    }
}

/// A test: true when it passed.
type Test = Box<dyn Fn() -> bool>;

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let everything = arguments.images.is_none() && arguments.seed.is_none() && !arguments.rules;
    let mut tests: Vec<(&str, Test)> = Vec::new();
    if let Some(seed) = arguments.seed {
        let image = arguments.image;
        tests.push(("the_images_of_one_history_are_whole", Box::new(move || replay(seed, image))));
    }
    if everything || arguments.images.is_some() {
        tests.push(("a_history_without_a_cut_is_whole", Box::new(without_cuts)));
    }
    if everything || arguments.rules {
        tests.push(("a_removed_file_that_comes_back_is_as_it_was_synced", Box::new(removed_files)));
    }
    if everything || arguments.rules {
        tests.push(("no_mask_and_no_nonce_is_used_twice_over_power_cuts", Box::new(masked_histories)));
    }
    if let Some(images) = arguments.images.or(everything.then_some(2_000)) {
        let first = arguments.first;
        tests.push((
            "every_image_that_a_power_cut_could_leave_is_whole",
            Box::new(move || every_image(first, images)),
        ));
    }
    if arguments.rules {
        #[cfg(feature = "planted-faults")]
        tests.push(("every_rule_of_masks_left_out_is_caught", Box::new(planted::every_rule_of_masks)));
        tests.push(("every_rule_left_out_is_caught", Box::new(every_rule)));
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

fn told(outcome: Result<usize, String>) -> bool {
    if let Err(fault) = &outcome {
        println!("{fault}");
    }
    outcome.is_ok()
}

fn replay(seed: u64, image: Option<u64>) -> bool {
    let campaign = Campaign::new(seed, Rules::STRICT);
    told(match image {
        Some(number) => campaign.run_one(number).map(|()| 1),
        None => campaign.run(usize::MAX / 8, || ()),
    })
}

fn without_cuts() -> bool {
    (0..WHOLE).all(|seed| {
        let mut trial = Trial::new(seed, Rules::STRICT);
        trial.play();
        told(trial.check_end().map(|()| 0).map_err(|fault| format!("history {seed}: {fault}")))
    })
}

fn removed_files() -> bool {
    told(removals::run(Rules::STRICT, REMOVALS, || ()))
}

/// With every rule kept; masks have to be there, or nothing is shown.
fn masked_histories() -> bool {
    let mut masked = [0; 2];
    let are_whole = (0..MASKED).all(|number| {
        let campaign = Campaign::new(masked::FIRST + number * masked::ONE_IN, Rules::STRICT);
        let is_whole = told(campaign.run(MASKED_EACH, || ()));
        masked.iter_mut().zip(campaign.masked()).for_each(|(sum, masked)| *sum += masked);
        is_whole
    });
    println!("{} blocks sealed and {} opened with masks", masked[0], masked[1]);
    are_whole && masked[0] > 0
}

/// Counts, and says so now and then.
struct Progress {
    done: AtomicU64,
    of: u64,
    said: Mutex<Instant>,
}

impl Progress {
    fn one(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Ok(mut said) = self.said.try_lock()
            && said.elapsed() >= PROGRESS
        {
            *said = Instant::now();
            println!("{done} of {} images", self.of);
        }
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

fn every_image(first: u64, images: u64) -> bool {
    let began = Instant::now();
    let progress = Progress { done: AtomicU64::new(0), of: images, said: Mutex::new(began) };
    let next = AtomicU64::new(first);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while progress.done() < images && !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let left = images.saturating_sub(progress.done()).max(1) as usize;
                    let outcome = catch_unwind(AssertUnwindSafe(|| {
                        Campaign::new(seed, Rules::STRICT).run(left.min(IMAGES_EACH), || progress.one())
                    }));
                    if !told(outcome.unwrap_or_else(|_| Err(format!("history {seed} panicked")))) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let histories = next.into_inner() - first;
    let seconds = began.elapsed().as_secs();
    println!("{} distinct images of {histories} histories in {seconds} s", progress.done());
    !failed.into_inner()
}

fn every_rule() -> bool {
    // The one that takes most images begins first, so that no thread waits for it in the end.
    let mut rules = Rule::ALL.to_vec();
    rules.sort_by_key(|rule| *rule != Rule::MoveBeforeSlot);
    let next = AtomicU64::new(0);
    let missed = AtomicU64::new(0);
    // A fault may show as a panic in the history; it is told by the line below.
    std::panic::set_hook(Box::new(|_| ()));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(&rule) = rules.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let (caught, images) = plant(rule);
                    let verdict = if caught { "caught" } else { "MISSED" };
                    println!("{rule:?}: {verdict} after {images} images");
                    missed.fetch_add(u64::from(!caught), Ordering::Relaxed);
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    missed.into_inner() == 0
}

/// Whether the absence of a rule shows, and after how many images.
fn plant(rule: Rule) -> (bool, usize) {
    let images = AtomicU64::new(0);
    let count = || {
        images.fetch_add(1, Ordering::Relaxed);
    };
    let rules = Rules::STRICT.without(rule);
    if rule == Rule::RemovalBeforeReuse {
        let outcome = removals::run(rules, PLANTED_IMAGES, count);
        return (outcome.is_err(), images.into_inner() as usize + 1);
    }
    for seed in 0.. {
        // A fault may show before any cut, as a read that fails.
        let outcome = catch_unwind(AssertUnwindSafe(|| Campaign::new(seed, rules).run(PLANTED_EACH, count)));
        let checked = images.load(Ordering::Relaxed) as usize;
        if !matches!(outcome, Ok(Ok(_))) {
            return (true, checked + 1);
        }
        if checked >= PLANTED_IMAGES {
            return (false, checked);
        }
    }
    unreachable!("the images run out before the seeds")
}

/// Leaving out rules of masks, one for the whole process at a time.
#[cfg(feature = "planted-faults")]
mod planted {
    use strongroom_vault::{MaskRule, Rules, leave_out_of_masks};

    use super::{AssertUnwindSafe, Campaign, MASKED_EACH, catch_unwind, masked};

    /// Histories in which a rule left out must have shown.
    const HISTORIES: u64 = 6;

    /// Those that a power cut and what follows it can show; `mask_histories` has
    /// the others too.
    const RULES: [MaskRule; 2] = [MaskRule::TakenOnce, MaskRule::OfSession];

    pub(super) fn every_rule_of_masks() -> bool {
        std::panic::set_hook(Box::new(|_| ()));
        let mut missed = 0;
        for rule in RULES {
            leave_out_of_masks(Some(rule));
            let caught = (0..HISTORIES).find_map(is_caught);
            leave_out_of_masks(None);
            match &caught {
                Some(fault) => println!("{rule:?}: caught: {fault}"),
                None => println!("{rule:?}: MISSED in {HISTORIES} histories"),
            }
            missed += usize::from(caught.is_none());
        }
        let _ = std::panic::take_hook();
        missed == 0
    }

    /// What shows in this history: in its images, or while it is played.
    fn is_caught(number: u64) -> Option<String> {
        let played = AssertUnwindSafe(|| {
            Campaign::new(masked::FIRST + number * masked::ONE_IN, Rules::STRICT).run(MASKED_EACH, || ())
        });
        match catch_unwind(played) {
            Ok(outcome) => outcome.err().and_then(|fault| fault.lines().next().map(str::to_owned)),
            Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
        }
    }
}
