//! The power cut under the real daemon, again and again on one vault.
//!
//! The vault lies on `forgetful`, a mounted store that remembers what was synced. When the daemon has been
//! killed, that store drops to a state which a power cut could have left: any part of what no barrier had
//! covered, torn at 512 bytes, names in their order. The rest is as in `cargo xtask kill`.
//!
//! Then the store loses, again and again, what was not durable while the daemon goes on (module `losses`).
//!
//! Before that the same is done to a mount with `--durability relaxed`, which waits for no barriers. There
//! something acknowledged has to be missed soon, or else nothing here would notice anything.

mod losses;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::kill;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Subject, SubjectArgs};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;
use strongroom_ledger::churn::Mix;
use strongroom_ledger::rounds::{Plan, ROUND_LIMIT, Rounds, WORK_MAX};

/// How long a cut and the mount after it may take.
const CUT_LIMIT: Duration = Duration::from_secs(60);
/// Without barriers something has to be missed within so many rounds.
const PLANTED_ROUNDS: u64 = 40;
const RELAXED: &[&str] = &["--durability", "relaxed"];

#[derive(Args)]
pub struct PowercutArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Rounds of work and cut
    #[arg(long, default_value_t = 300)]
    rounds: u64,
    /// How often the store loses something afterwards
    #[arg(long, default_value_t = 150)]
    losses: u64,
    /// Chooses what is done, when the power is cut, and what it leaves; the moments differ all the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A built forgetful store [default: build one]
    #[arg(long, value_name = "FILE")]
    forgetful: Option<PathBuf>,
}

impl PowercutArgs {
    /// The suite as `cargo xtask test` runs it, on a built forgetful store.
    pub fn on(subject: &SubjectArgs, forgetful: Option<PathBuf>, long: bool) -> Self {
        let (rounds, losses) = if long { (300, 150) } else { (15, 8) };
        Self { subject: subject.clone(), rounds, losses, seed: 1, forgetful }
    }
}

/// Runs the rounds; the first that fails ends them.
pub fn run(arguments: &PowercutArgs) -> Result<Tally> {
    ensure!(arguments.subject.subject == Kind::Strongroom, "only strongroom has a daemon to be killed");
    let subject = arguments.subject.resolve()?;
    let forgetful = match &arguments.forgetful {
        Some(built) => built.canonicalize()?,
        None => workspace::build("strongroom-forgetful", "forgetful")?,
    };
    let scratch = arguments.subject.scratch("cut")?;
    let seed = arguments.seed;
    println!("  without barriers:");
    let planted = Cuts { name: "planted", options: relaxed, rounds: PLANTED_ROUNDS };
    let planted = planted.run(&subject, &scratch, &forgetful, seed, Tally::planted())?;
    println!("  with all barriers:");
    let real = Cuts { name: "real", options: kill::options, rounds: arguments.rounds };
    let mut tally = real.run(&subject, &scratch, &forgetful, seed, Tally::default())?;
    println!("  with a store that loses what it was given:");
    let lost = losses::run(&subject, &scratch.make("losses")?, &forgetful, arguments.losses, seed);
    tally.count("losses", lost.map(|told| println!("  {told}")));
    match planted.failures.first() {
        Some(_) => {
            println!("  without barriers a loss was noticed in round {}", planted.passed + 1);
            tally.passed += 1;
        }
        None => tally.fail(format!("nothing was missed in {PLANTED_ROUNDS} rounds without barriers")),
    }
    Ok(tally)
}

fn relaxed(_: &mut Random) -> MountOptions {
    MountOptions::new(ROUND_LIMIT).with(RELAXED)
}

/// Rounds on one fresh vault.
struct Cuts {
    name: &'static str,
    options: fn(&mut Random) -> MountOptions,
    rounds: u64,
}

impl Cuts {
    fn run(
        &self,
        subject: &Subject,
        scratch: &Scratch,
        forgetful: &Path,
        seed: u64,
        tally: Tally,
    ) -> Result<Tally> {
        let base = scratch.make(self.name)?;
        let below = base.join("below");
        std::fs::create_dir(&below)?;
        let mut store = Store::start(forgetful, &below)?;
        let vault = Vault::create_over(subject, &base, &below)?;
        // What a user does who has just made a directory for the vault, and wants to keep it.
        std::fs::File::open(&below)?.sync_all()?;
        let logs = base.join("logs");
        std::fs::create_dir(&logs)?;
        let mut cut = |random: &mut Random| store.cut(random.word());
        let plan = Plan { seed, mix: Mix::All, work_max: WORK_MAX, options: self.options };
        let tally = Rounds::begin(vault, logs, plan, &mut cut)?.play(self.rounds, tally);
        store.end()?;
        Ok(tally)
    }
}

/// The store that forgets, mounted.
struct Store {
    child: Child,
    said: Receiver<String>,
    directory: PathBuf,
}

impl Store {
    fn start(program: &Path, directory: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command::spawn(&mut command)?;
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            output.lines().map_while(std::result::Result::ok).try_for_each(|line| sender.send(line))
        });
        let store = Self { child, said, directory: directory.to_path_buf() };
        store.ready()?;
        Ok(store)
    }

    fn ready(&self) -> Result {
        let said = self.said.recv_timeout(CUT_LIMIT);
        let said = said.map_err(|_| Failure::new("the forgetful store does not answer"))?;
        ensure!(said.starts_with("ready "), "the forgetful store said: {said}");
        Ok(())
    }

    /// The power fails, and comes back.
    fn cut(&mut self, seed: u64) -> Result {
        self.tell(&format!("cut {seed}"))
    }

    /// What is not durable of files that are open to be written is lost.
    fn lose(&mut self) -> Result {
        self.tell("lose")
    }

    fn tell(&mut self, what: &str) -> Result {
        let input = self.child.stdin.as_mut().expect("its input is piped");
        writeln!(input, "{what}").context("telling the forgetful store")?;
        self.ready()
    }

    fn end(mut self) -> Result {
        drop(self.child.stdin.take());
        let status = command::wait(&mut self.child, CUT_LIMIT).context("the forgetful store")?;
        ensure!(status.success(), "the forgetful store ended with {status}");
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.stdin.take());
            if command::wait(&mut self.child, CUT_LIMIT).is_err() {
                eprintln!("the forgetful store on {} had to be killed", self.directory.display());
            }
        }
    }
}
