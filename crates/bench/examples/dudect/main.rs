//! Does a time depend on secrets? `cargo xtask dudect`, or `cargo run --release
//! -p strongroom-bench --example dudect -- CALLS [--hold] [NAME ...]`.
//!
//! Each subject runs on inputs of two classes that differ in secrets alone, in
//! random order, and Welch's t-test says whether their times have one mean
//! (Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?", DATE
//! 2017). As there, slow measurements are cut off at several quantiles, since
//! interrupts hide what is sought, and the largest |t| counts. Below 4.5
//! nothing was seen; above 10 there is a dependence, or something on the
//! machine that changes with the class. Nothing seen is no proof.
//!
//! The classes: equal data against random data; one key against random keys,
//! spread over equally many sessions; a tag, MAC or password that is wrong in
//! its first byte against one that is wrong in its last. Two controls have to
//! be seen: a comparison that ends at the first difference, and a table
//! look-up.
//!
//! With `--hold` a subject whose classes differ in each of three measurements
//! fails the run: chance and a busy machine do that once, a leak every time.
//! NAMEs choose subjects by their name or the secret.

mod controls;
mod engines;
mod passwords;
mod statistics;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use statistics::{Rng, Times, largest_t};

/// Above this |t| the classes differ.
const DIFFERS: f64 = 10.0;
/// Above this |t| it is worth measuring once more.
const DOUBTFUL: f64 = 4.5;
/// How often a difference has to be seen to count with `--hold`, and how often
/// a control may be missed.
const TIMES: usize = 3;

/// Measures so many calls.
type Measure = Box<dyn Fn(usize, &mut Rng) -> Times>;

/// Something whose time is measured.
struct Subject {
    what: String,
    secret: &'static str,
    times: Measure,
}

impl Subject {
    fn new(
        what: String,
        secret: &'static str,
        times: impl Fn(usize, &mut Rng) -> Times + 'static,
    ) -> Subject {
        Subject { what, secret, times: Box::new(times) }
    }

    fn is_chosen(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| self.what.contains(name) || self.secret == name)
    }

    /// Measures and prints.
    fn t(&self, calls: usize, rng: &mut Rng) -> f64 {
        let t = largest_t(&(self.times)(calls, rng));
        println!("{:<52}{:<10}{t:>9.1}  {}", self.what, self.secret, verdict(t));
        t
    }
}

fn verdict(t: f64) -> &'static str {
    match t {
        t if t > DIFFERS => "differs",
        t if t > DOUBTFUL => "doubtful",
        _ => "nothing seen",
    }
}

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let hold = flags.iter().any(|flag| flag == "--hold");
    let calls = words.first().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let names = words.get(1..).unwrap_or_default();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let mut rng = Rng(seed);
    println!("{calls} calls for each line\n{:<52}{:<10}{:>9}", "what", "secret", "|t|");
    let controls = [
        Subject::new("control: comparison with an early end".into(), "data", controls::early_exit),
        Subject::new("control: table of 8 MiB".into(), "data", controls::table),
    ];
    let is_seen = |control: &Subject, rng: &mut Rng| (0..TIMES).any(|_| control.t(calls, rng) > DIFFERS);
    // A measurement that sees nothing where there is something says nothing.
    if !controls.iter().all(|control| is_seen(control, &mut rng)) {
        eprintln!("a control was not seen: the machine is too busy, or the calls too few");
        return ExitCode::FAILURE;
    }
    let mut leaks = 0;
    for subject in passwords::subjects().into_iter().chain(engines::subjects()) {
        if subject.is_chosen(names) {
            let times = if hold { TIMES } else { 1 };
            let differs = (0..times).all(|_| subject.t(calls, &mut rng) > DIFFERS);
            leaks += usize::from(hold && differs);
        }
    }
    if leaks > 0 {
        eprintln!("{leaks} times depend on secrets");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
