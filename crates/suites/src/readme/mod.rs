//! The README's lines of use, typed as they stand there: as root and as an ordinary user, in terminals of 80 and of 40
//! columns. What the README says has to be on the screen, and readable there.
//!
//! The lines are read from README.md: one that is neither typed nor left out for a reason fails, and so does one that
//! is expected and not there. `script` says what lines ask and show, `session` types them into a `shell`,
//! `screen` is what is seen.

mod account;
mod lines;
mod screen;
mod script;
mod session;
mod shell;
mod units;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use self::account::Account;
use self::lines::Line;
use self::session::Session;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::{packages, workspace};

/// All sessions together. On two idle cores they take two minutes.
const LIMIT: Duration = Duration::from_secs(20 * 60);

const COLUMNS: [u16; 2] = [80, 40];

#[derive(Args)]
pub struct ReadmeArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the working directories are made [default: the system's]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// As this user alone
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// In a terminal of so many columns alone
    #[arg(long, value_name = "N")]
    columns: Option<u16>,
    /// Print what every line shows
    #[arg(long)]
    show: bool,
}

impl ReadmeArgs {
    /// The lines as one of the test suites.
    pub fn on(binary: Option<PathBuf>, work: Option<PathBuf>) -> Self {
        Self { binary, work, user: None, columns: None, show: false }
    }
}

/// Types everything, as everybody, in every terminal.
///
/// # Errors
/// There is no program, no README, or nobody to be.
pub fn run(arguments: &ReadmeArgs) -> Result<Tally> {
    packages::need(&[
        ("fusermount3", "fuse3"),
        ("setsid", "util-linux"),
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
    ])?;
    let binary = arguments.binary.clone().map_or_else(workspace::build_strongroom, Ok)?.canonicalize()?;
    let readme = workspace::root().join("README.md");
    let lines = lines::of(&fs::read_to_string(&readme).context(readme.display())?)?;
    let mut tally = Tally::default();
    compare(&lines, &mut tally);
    let scratch = Scratch::new(arguments.work.as_deref(), "readme")?.guarded()?;
    units::run(&workspace::root(), scratch.path(), &binary, &mut tally)?;
    let until = Instant::now() + LIMIT;
    let names = Account::names()?;
    if !packages::is_root() {
        println!("  not as root, and as no other user: that takes root");
        tally.skipped += 1;
    }
    for name in names.iter().filter(|name| arguments.user.as_ref().is_none_or(|user| user == *name)) {
        for columns in COLUMNS.into_iter().filter(|one| arguments.columns.is_none_or(|other| *one == other)) {
            let began = Instant::now();
            let homes = scratch.make(&format!("{name}-{columns}"))?;
            let account = Account::make(name, &homes, &binary)?;
            let who = format!("{name}, {columns} columns");
            let before = (tally.passed, tally.failures.len());
            match Session::start(&account, columns, until, arguments.show) {
                Ok(mut session) => session.type_all(&lines, &mut tally),
                Err(failure) => tally.fail(format!("{who}: {failure}")),
            }
            println!(
                "  {who}: {} passed, {} failed ({} s)",
                tally.passed - before.0,
                tally.failures.len() - before.1,
                began.elapsed().as_secs()
            );
        }
    }
    Ok(tally)
}

/// Every line is known, and every line that is known is there.
fn compare(lines: &[Line], tally: &mut Tally) {
    let typed = script::STEPS.iter().map(|step| step.line);
    let known: Vec<&str> = typed.chain(script::SKIPS.iter().map(|(line, _)| *line)).collect();
    for line in lines.iter().filter(|line| !known.contains(&line.command.as_str())) {
        tally.fail(format!("README.md has a line that nobody types: {}", line.command));
    }
    for line in known.iter().filter(|known| lines.iter().all(|line| line.command != **known)) {
        tally.fail(format!("README.md does not have the line: {line}"));
    }
    if tally.failures.is_empty() {
        tally.passed += 1;
    }
    for (begin, reason) in script::BROKEN {
        println!("  may be broken by a narrow terminal: {begin}... ({reason})");
    }
    for (line, reason) in script::SKIPS {
        println!("  not typed: {line} ({reason})");
        tally.skipped += 1;
    }
}
