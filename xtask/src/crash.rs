//! Power cuts in process: the crash tests of the vault in their long form.
//!
//! The program that does it is the test target `crash` of `strongroom-vault`; here are its arguments,
//! how many images each form has, and its time limit. Rules of masks are left out in builds for tests alone, and
//! the histories of `mask_histories` show those that no power cut does.

use std::time::Duration;

use clap::Args;

use crate::programs;
use strongroom_harness::failure::Result;
use strongroom_harness::tally::Tally;

/// Distinct images unless told otherwise.
const IMAGES: u64 = 50_000;
/// Distinct images of the short form of `cargo xtask test`, which CI runs.
const SHORT: u64 = 10_000;
/// Distinct images of the long form of `cargo xtask test`.
const LONG: u64 = 1_000_000;
/// Building, and a slow machine's images.
const LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Args)]
pub(crate) struct CrashArgs {
    /// Distinct images to check
    #[arg(long, default_value_t = IMAGES)]
    images: u64,
    /// The first history
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only the images of this history, as a failure names it
    #[arg(long, conflicts_with_all = ["images", "first", "rules"])]
    seed: Option<u64>,
    /// Only this image of the history
    #[arg(long, requires = "seed")]
    image: Option<u64>,
    /// Only leave out each ordering rule, and each of masks, in turn; every one has to be caught
    #[arg(long, conflicts_with = "images")]
    rules: bool,
}

impl CrashArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        let images = if long { LONG } else { SHORT };
        Self { images, first: 0, seed: None, image: None, rules: false }
    }
}

/// Runs the images and the planted faults, or what was asked for of them.
pub(crate) fn run(arguments: &CrashArgs) -> Result<Tally> {
    let CrashArgs { images, first, seed, image, rules } = *arguments;
    let mut tally = Tally::default();
    if let Some(seed) = seed {
        let mut words = vec!["--seed".to_owned(), seed.to_string()];
        words.extend(image.into_iter().flat_map(|image| ["--image".to_owned(), image.to_string()]));
        judge(&mut tally, "crash", &words)?;
        return Ok(tally);
    }
    judge(&mut tally, "crash", &["--rules".to_owned()])?;
    judge(&mut tally, "mask_histories", &["--nocapture".to_owned()])?;
    if !rules {
        let words = ["--images".to_owned(), images.to_string(), "--first".to_owned(), first.to_string()];
        judge(&mut tally, "crash", &words)?;
    }
    Ok(tally)
}

fn judge(tally: &mut Tally, target: &str, words: &[String]) -> Result {
    if programs::shown(target, words, LIMIT)? {
        tally.passed += 1;
    } else {
        tally.failures.push(format!("{target} {}", words.join(" ")));
    }
    Ok(())
}
