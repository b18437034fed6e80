//! `whatif`: a recorded load replayed in the simulator, as it was and on
//! machines that are not here.
//!
//! [`model`] makes demands of a trace, [`machine`] the hosts, [`document`] the
//! answer. `docs/whatif.md` describes the model and what it leaves out.

mod document;
mod machine;
mod model;

use std::io::Read;
use std::path::Path;

use strongroom_sched::Settings;
use strongroom_trace::{Header, RECORD_LEN, RECORDS_MAX, Trace};

use self::document::Document;
use self::machine::{Change, Machine};
use self::model::Model;
use crate::args::WhatIfArgs;
use crate::compose;
use crate::failure::{Exit, Failure, Result};
use crate::profile::{Profile, file};
use crate::report::Output;
use crate::set;

/// A device's results are checked once in 2^10 times, unless it is said
/// otherwise, as `simulate` has it.
const CHECK_EXPONENT: u8 = 10;

/// Runs `whatif`.
///
/// # Errors
/// Usage for what is no trace, for what cannot be added, and without a profile.
pub(crate) fn run(args: &WhatIfArgs, output: Output) -> Result<Exit> {
    let trace = read(&args.trace)?;
    let profile = profile(args.engine.as_deref())?;
    let mut settings = Settings { check_exponent: CHECK_EXPONENT, ..Settings::default() };
    for word in &args.settings {
        set::apply(&mut settings, word)?;
    }
    let machine = Machine::new(&trace.header, &profile, settings)?;
    let changes = match args.add.as_slice() {
        [] => machine.usual(),
        words => words.iter().map(|word| Change::parse(word, &machine)).collect::<Result<Vec<_>>>()?,
    };
    let model = Model::of(&trace, &machine)
        .ok_or_else(|| Failure::usage("the trace has no requests").at(&args.trace))?;
    let document = Document::new(&trace, &machine, &model, &changes);
    output.print_at_width(&document, Document::text)?;
    Ok(Exit::Done)
}

/// What a batch takes with a suite on the fastest of the CPU's engines that
/// mounts choose among, in nanoseconds, as replays have it; none where the profile
/// does not know the suite.
pub(super) fn batch_ns(profile: &Profile, suite: &str, bytes: u64, is_write: bool) -> Option<f64> {
    let header = Header { algorithm: suite.to_owned(), cpus: 1, ..Header::default() };
    let machine = Machine::new(&header, profile, Settings::default()).ok()?;
    Some(machine.batch_ns(bytes, is_write))
}

fn read(path: &Path) -> Result<Trace> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let most = (RECORDS_MAX * RECORD_LEN) as u64 + (1 << 20);
    let mut bytes = Vec::new();
    let file = crate::opening::regular(path).map_err(failed)?;
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Trace::decode(&bytes).map_err(|error| {
        Failure::usage(error.to_string()).at(path).hint("`strongroom trace stop` writes traces.")
    })
}

fn profile(engine: Option<&str>) -> Result<Profile> {
    let found = file::find(&compose::engine_names(&compose::engines(engine)?));
    found.profile.ok_or_else(|| {
        let why = found.remark.unwrap_or_else(|| "there is no profile of this machine".to_owned());
        Failure::usage(why).hint("Run `strongroom tune`: what engines take here is where it begins.")
    })
}
