//! A vault on an engine that scales: JuiceFS, its metadata in Redis, its objects in an S3 server, mounted by two
//! hosts. All of it is on this machine, over loopback; a host is a process with a network and mounts of its own.
//!
//! On it: the demonstration's tree; kills of the daemon, of JuiceFS, of Redis and of the S3 server while files are
//! written and synced; a vault taken over by the other host; a reader there beside a writer here; the S3 server away
//! for a while; and what it costs, in objects and transactions.

mod host;
mod hosts;
mod kills;
mod lab;
mod life;
mod link;
mod outage;
pub(crate) mod promises;
mod servers;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::host::Host;
use self::kills::Victim;
use self::lab::Lab;
pub use self::promises::{WriterArgs, write};
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::{Kind, Subject, SubjectArgs};
use strongroom_harness::tally::Tally;

#[derive(Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Kill only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VICTIM")]
    kill: Vec<Victim>,
    /// Kills of each victim
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// Chooses what is written, and when it is killed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long the S3 server is away, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    outage: u64,
    /// How long a reader reads beside a writer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    reader: u64,
    /// So many files of the tree, of about 22,000, and all that is odd in it; 0: no tree in the table
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    files: u64,
    /// How often each load of the table is measured
    #[arg(long, default_value_t = 1)]
    repeats: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The demonstration's tree
    Tree,
    /// Kills of the daemon, JuiceFS, Redis and the S3 server
    Kills,
    /// A vault taken over by the other host
    Takeover,
    /// A reader on the other host beside a writer
    Reader,
    /// The S3 server away for a while
    Outage,
    /// What it costs
    Table,
}

/// Runs the parts.
pub fn run(arguments: &ScaleArgs) -> Result<Tally> {
    packages::need_root("scale")?;
    ensure!(arguments.subject.subject == Kind::Strongroom, "only strongroom's mounts are tried here");
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("scale")?.guarded()?;
    let mut lab = Lab::start(scratch.path())?;
    println!("  {}, two hosts", lab.versions);
    let mut tally = Tally::default();
    for host in 0..lab.hosts.len() {
        lab.mount_store(host)?;
    }
    let is_wanted = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let is_tree_in_table = arguments.files > 0;
    let source = match is_wanted(Part::Tree) || (is_wanted(Part::Table) && is_tree_in_table) {
        true => {
            let whole = life::source(&scratch.make("source")?)?;
            Some(life::part(&whole, &scratch.make("part")?, arguments.files)?)
        }
        false => None,
    };
    for part in Part::value_variants().iter().copied().filter(|part| is_wanted(*part)) {
        tried(part, arguments, &mut lab, (&subject, source.as_ref()), &mut tally);
    }
    tally.count("ending it", lab.end());
    Ok(tally)
}

/// The steps of a part, one after the other.
fn tried(
    part: Part,
    arguments: &ScaleArgs,
    lab: &mut Lab,
    (subject, source): (&Subject, Option<&PathBuf>),
    tally: &mut Tally,
) {
    let mut step = |name: &str, lab: &mut Lab, step: &dyn Fn(&mut Lab) -> Result<String>| {
        let began = Instant::now();
        match step(lab) {
            Ok(told) => {
                println!("  {name}: {told} ({:.0} s)", began.elapsed().as_secs_f64());
                tally.passed += 1;
            }
            Err(failure) => {
                tally.fail(format!("{name}: {failure}"));
                lab.hosts.iter().for_each(Host::keep_log);
                lab.repair();
            }
        }
    };
    let source = || source.ok_or_else(|| Failure::new("there is no tree"));
    let ScaleArgs { rounds, seed, repeats, .. } = *arguments;
    let [outage, reader] = [arguments.outage, arguments.reader].map(Duration::from_secs);
    match part {
        Part::Tree => step("tree", lab, &|lab| life::through(lab, subject, source()?)),
        Part::Kills => {
            let is_wanted = |victim: &Victim| arguments.kill.is_empty() || arguments.kill.contains(victim);
            for victim in Victim::value_variants().iter().copied().filter(is_wanted) {
                let name = format!("kills of {}", victim.name());
                step(&name, lab, &|lab| kills::rounds(lab, subject, victim, rounds, seed));
            }
        }
        Part::Takeover => {
            step("takeover", lab, &|lab| hosts::takeover_of_the_living(lab, subject));
            step("takeover after a cut", lab, &|lab| hosts::takeover_of_the_lost(lab, subject));
        }
        Part::Reader => step("reader", lab, &|lab| hosts::reader(lab, subject, reader)),
        Part::Outage => step("outage", lab, &|lab| outage::run(lab, subject, outage)),
        Part::Table => {
            let source = source().ok().map(PathBuf::as_path);
            step("table", lab, &|lab| table::run(lab, subject, source, repeats));
        }
    }
}
