//! Our engines against the best libraries, one core, messages of 64 KiB in cache.
//!
//! Each library is a program of its own (`peer.c`, compiled here), since none of them may be linked into the
//! product, and so are our engines (an example of `engine-cpu`). All are bound to one CPU and asked in turn
//! for a few milliseconds each, so that what slows the machine down slows all of them.

mod peer;
mod table;

use std::path::PathBuf;

use clap::Args;

use self::peer::{Peer, Sample};
use self::table::{Comparison, summed_up};
use crate::result::Document;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::packages;

#[derive(Args)]
pub(crate) struct CryptoPeersArgs {
    /// Rounds; in each, every library is asked once for everything
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Milliseconds for one question
    #[arg(long, default_value_t = 10)]
    milliseconds: u32,
    /// Only what has this in its name, as serpent or portable
    #[arg(long)]
    only: Option<String>,
    /// The CPU that does the work [default: the last]
    #[arg(long)]
    cpu: Option<usize>,
    /// Writes the report there too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is compared, and how many times the best peer's rate ours has to reach.
pub(super) struct Row {
    algorithm: &'static str,
    direction: &'static str,
    engine: Engine,
    /// In hundredths; none where nothing was promised.
    target_percent: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// The best tier, against every library as it is.
    Best,
    /// The portable tier, against OpenSSL without instructions for AES and carry-less multiplication.
    Portable,
}

const fn row(
    algorithm: &'static str,
    direction: &'static str,
    engine: Engine,
    target_percent: Option<u32>,
) -> Row {
    Row { algorithm, direction, engine, target_percent }
}

const ROWS: &[Row] = &[
    row("aes-gcm", "encrypt", Engine::Best, Some(95)),
    row("aes-xts", "encrypt", Engine::Best, Some(95)),
    row("aes-xts", "decrypt", Engine::Best, Some(95)),
    row("aes-ctr", "encrypt", Engine::Best, Some(95)),
    row("aes-cbc", "decrypt", Engine::Best, Some(95)),
    row("chacha20-poly1305", "encrypt", Engine::Best, None),
    row("serpent-xts", "encrypt", Engine::Best, Some(500)),
    row("serpent-xts", "decrypt", Engine::Best, Some(500)),
    row("serpent-ctr", "encrypt", Engine::Best, None),
    row("twofish-xts", "encrypt", Engine::Best, Some(150)),
    row("twofish-xts", "decrypt", Engine::Best, Some(150)),
    row("twofish-ctr", "encrypt", Engine::Best, None),
    row("camellia-xts", "encrypt", Engine::Best, Some(500)),
    row("camellia-xts", "decrypt", Engine::Best, Some(500)),
    row("camellia-ctr", "encrypt", Engine::Best, None),
    row("aes-gcm", "encrypt", Engine::Portable, Some(90)),
    row("aes-xts", "encrypt", Engine::Portable, Some(90)),
    row("aes-xts", "decrypt", Engine::Portable, Some(90)),
    row("aes-ctr", "encrypt", Engine::Portable, Some(90)),
    row("aes-cbc", "decrypt", Engine::Portable, Some(90)),
    row("chacha20-poly1305", "encrypt", Engine::Portable, Some(90)),
];

impl Row {
    fn name(&self) -> String {
        let tier = if self.engine == Engine::Portable { "portable " } else { "" };
        format!("{tier}{} {}", self.algorithm, self.direction)
    }
}

/// Builds everything, measures in turn, prints the table.
pub(crate) fn run(arguments: &CryptoPeersArgs) -> Result {
    ensure!(arguments.rounds > 0 && arguments.milliseconds > 0, "nothing to measure");
    packages::need(&[("gcc", "gcc"), ("taskset", "util-linux")])?;
    peer::need_libraries()?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = arguments.cpu.unwrap_or(cpus - 1);
    let scratch = tempfile::tempdir()?;
    let programs = peer::build(scratch.path())?;
    let mut peers = programs.start(cpu)?;
    let wanted = |row: &&Row| arguments.only.as_ref().is_none_or(|part| row.name().contains(part.as_str()));
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    ensure!(!rows.is_empty(), "no row has this in its name");
    println!("bound to CPU {cpu}; {} rounds of {} ms", arguments.rounds, arguments.milliseconds);
    for peer in &peers {
        println!("  {:<18} {}", peer.name, peer.version);
    }
    let mut comparisons: Vec<Comparison> = Vec::new();
    for row in &rows {
        comparisons.push(compare(row, &mut peers, arguments)?);
        println!("{}", comparisons.last().expect("just pushed").line());
    }
    let versions = peers.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
    let mut document = Document::new("crypto-peers", versions);
    document.tables.push(table::table(&comparisons, arguments.rounds));
    for comparison in &comparisons {
        comparison.sample(&mut document);
    }
    let missed: Vec<String> = comparisons.iter().filter_map(Comparison::missed).collect();
    document.conclude(arguments.json.as_deref(), &missed)
}

/// Asks all that take part in a row, in turn, every second round in reverse.
fn compare(row: &Row, peers: &mut [Peer], arguments: &CryptoPeersArgs) -> Result<Comparison> {
    let takes_part = |peer: &Peer| match row.engine {
        Engine::Best => !peer.is_masked,
        Engine::Portable => peer.is_masked,
    };
    let mut samples: Vec<Vec<Sample>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 0..arguments.rounds {
        let mut order: Vec<usize> = (0..peers.len()).filter(|at| takes_part(&peers[*at])).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if let Some(sample) = peers[at].ask(row.algorithm, row.direction, arguments.milliseconds)? {
                samples[at].push(sample);
            }
        }
    }
    let of = |at: usize| (peers[at].name.clone(), peers[at].is_ours, samples[at].as_slice());
    let measured: Vec<_> = (0..peers.len()).filter(|at| !samples[*at].is_empty()).map(of).collect();
    let sums: Vec<u64> =
        measured.iter().flat_map(|(_, _, samples)| samples.iter().map(|sample| sample.checksum)).collect();
    ensure!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{}: not all compute the same", row.name());
    summed_up(row.name(), row.target_percent, &measured)
}
