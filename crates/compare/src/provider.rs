//! `openssl speed` with the provider and without it, in turn.
//!
//! Every size is asked of OpenSSL's own and of ours before the next one is, in rounds whose order turns, so
//! that what slows the machine down slows both. `openssl speed` counts the CPU time of its process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::statistics::median;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::{packages, workspace};

#[derive(Args)]
pub(crate) struct ProviderArgs {
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only what has this in its name, as gcm
    #[arg(long)]
    only: Option<String>,
    /// The CPU that does the work [default: the last]
    #[arg(long)]
    cpu: Option<usize>,
}

/// A cipher, and in hundredths what its rate at the largest size has to be of OpenSSL's.
const CIPHERS: [(&str, Option<u32>); 8] = [
    ("aes-256-gcm", Some(200)),
    ("aes-256-ctr", Some(200)),
    ("aes-256-xts", Some(200)),
    ("aes-128-gcm", None),
    ("aes-128-ctr", None),
    ("aes-128-xts", None),
    ("aes-256-cbc", None),
    ("chacha20-poly1305", None),
];

/// Bytes of a call.
const SIZES: [usize; 4] = [16, 256, 1024, 16_384];
/// Hundredths that no size may be below.
const LEAST: u32 = 95;
const LIMIT: Duration = Duration::from_secs(60);
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds the provider, measures, prints the table.
pub(crate) fn run(arguments: &ProviderArgs) -> Result {
    ensure!(arguments.rounds > 0, "nothing to measure");
    packages::need(&[("openssl", "openssl"), ("taskset", "util-linux")])?;
    let library = build()?;
    let scratch = tempfile::tempdir()?;
    let [with, without] = configurations(scratch.path(), &library)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = arguments.cpu.unwrap_or(cpus - 1);
    let version = command::output(Command::new("openssl").arg("version"), LIMIT)?;
    println!("{}, bound to CPU {cpu}; median of {} rounds; MB/s\n", version.trim(), arguments.rounds);
    println!("| cipher | bytes | OpenSSL | with the provider | ratio |\n|---|---|---|---|---|");
    let mut missed = Vec::new();
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    for (cipher, target) in CIPHERS.iter().filter(|(name, _)| wanted(name)) {
        for size in SIZES {
            let mut rates = [Vec::new(), Vec::new()];
            for round in 0..arguments.rounds {
                let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                for side in order {
                    let config = if side == 0 { &without } else { &with };
                    rates[side].push(speed(cipher, size, config, cpu)?);
                }
            }
            let [theirs, ours] = rates.map(|rates| median(&rates));
            let ratio = ours / theirs;
            println!("| {cipher} | {size} | {:.0} | {:.0} | {ratio:.2} |", theirs / 1e6, ours / 1e6);
            let needed = if size == SIZES[SIZES.len() - 1] { target.unwrap_or(LEAST) } else { LEAST };
            if ratio < f64::from(needed) / 100.0 {
                missed.push(format!(
                    "{cipher} at {size} bytes: {ratio:.2} of {:.2}",
                    f64::from(needed) / 100.0
                ));
            }
        }
    }
    ensure!(missed.is_empty(), "below what was promised: {}", missed.join("; "));
    Ok(())
}

/// Builds the provider as it is shipped.
fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "strongroom-provider"]);
    command::show(&mut cargo, BUILD_LIMIT)?;
    let library = workspace::target()?.join("release/libstrongroom_provider.so");
    ensure!(library.is_file(), "the build left no {}", library.display());
    Ok(library)
}

/// Configurations with the provider and without it.
fn configurations(directory: &Path, library: &Path) -> Result<[PathBuf; 2]> {
    let with = format!(
        "openssl_conf = main\n[main]\nproviders = providers\nalg_section = algorithms\n\
         [algorithms]\ndefault_properties = ?provider=strongroom\n\
         [providers]\nstrongroom = strongroom_part\ndefault = default_part\n\
         [strongroom_part]\nmodule = {}\nactivate = 1\n[default_part]\nactivate = 1\n",
        library.display()
    );
    let paths = [directory.join("with.cnf"), directory.join("without.cnf")];
    for (path, text) in paths.iter().zip([with.as_str(), ""]) {
        std::fs::write(path, text).context(path.display())?;
    }
    Ok(paths)
}

/// Bytes per second.
fn speed(cipher: &str, size: usize, config: &Path, cpu: usize) -> Result<f64> {
    let mut openssl = Command::new("taskset");
    openssl.args(["--cpu-list", &cpu.to_string(), "openssl", "speed", "-mr", "-seconds", "1", "-bytes"]);
    openssl.args([&size.to_string(), "-evp", cipher]).env("OPENSSL_CONF", config);
    let output = command::output(&mut openssl, LIMIT)?;
    let rate =
        output.lines().find_map(|line| line.strip_prefix("+F:")?.rsplit(':').next()?.trim().parse().ok());
    rate.ok_or_else(|| Failure::new(format!("openssl speed tells no rate:\n{output}")))
}
