//! Options of the commands about engines.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{ENGINE, size};

/// Options of `engines`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EnginesArgs {
    /// Every algorithm on a line of its own
    #[arg(long)]
    pub(crate) all: bool,
    /// Tell of this device too, as `mount --engine` names it
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
}

/// Options of `tune`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom tune               measure this machine, and keep the result
  strongroom tune --dry-run     measure and explain, keep nothing

It takes less than a minute, unless --seconds says more; let the machine do nothing else meanwhile. The
result is kept in $XDG_STATE_HOME/strongroom (for root in /var/lib/strongroom)
for this CPU and this version of the program. Mounts that begin later use it.")]
pub(crate) struct TuneArgs {
    /// Algorithms, or parts of their names; of others the profile then knows nothing [default: all]
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Measure these engines, as `mount --engine` names them [default: auto]
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
    /// Keep nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time to take, from 1 to 600; the less, the more a figure depends on chance
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure how fast each engine encrypts and decrypts
    Crypto(BenchCryptoArgs),
    /// Measure how fast files are encrypted and decrypted, here and by what else is installed
    File(BenchFileArgs),
}

/// Options of `bench file`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom bench file
  strongroom bench file --size 256MiB --repeats 3 --disk /var/tmp
  strongroom bench file --engine auto,cpu --recipient x25519,hybrid,scrypt --files 0

The programs take turns; shown are the median of their times, the least and the
most, the CPU time of all their threads, and the most memory. On a disk what is
read was forgotten before, and what is written is synced. Beside this program
run cp, dd (as much written, and nothing read) and, where they are installed,
age, rage, openssl (which authenticates nothing) and gpg; a tree, in memory
alone, also runs through tar and age.")]
pub(crate) struct BenchFileArgs {
    /// Bytes of the file; 0 for none
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) size: u64,
    /// Files of 4 KiB in the tree, which lies in memory; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) files: u32,
    /// How often each takes its turn, after one that is not counted
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Where files lie in memory [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    pub(crate) memory: Option<PathBuf>,
    /// Measure on the disk of DIR besides
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    /// Engines, as `strongroom engines` names them
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "auto", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Vec<String>,
    /// Kinds of recipients
    #[arg(long, value_name = "KIND", value_delimiter = ',', default_value = "x25519", value_parser = ["x25519", "hybrid", "scrypt"])]
    pub(crate) recipient: Vec<String>,
}

/// With or without other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CpuLoad {
    /// Nothing beside the measurement.
    Idle,
    /// A busy thread on each CPU besides.
    Loaded,
    /// First without, then with.
    Both,
}

/// Options of `bench crypto`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom bench crypto --quick
  strongroom bench crypto aes-xts serpent --key-size 256,512 --size 4KiB,64KiB
  strongroom bench crypto aes-256-gcm --engine cpu-vaes,cpu-aes --threads 1,2 --load both
  strongroom bench crypto --csv > here.csv

Algorithms are named as dm-crypt names them, or as suites; a part of a name
stands for all that contain it. Rates are in MiB/s of data in cache, the median
of the samples; after it stands half the distance of the quartiles. `CPU` is the
CPU time of the calling thread for a GiB; what a device's own threads compute is
not in it.")]
pub(crate) struct BenchCryptoArgs {
    /// Algorithms, or parts of their names [default: every cipher and mode, sectors with plain64]
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Key sizes in bits, for XTS of both keys together [default: all]
    #[arg(long, value_name = "BITS", value_delimiter = ',')]
    pub(crate) key_size: Vec<usize>,
    /// Sizes of a portion, as 512 or 64KiB; from 512 bytes to 64MiB [default: 4KiB,64KiB]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub(crate) size: Vec<u64>,
    /// Engines, as `strongroom engines` names them [default: all that are here]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Vec<String>,
    /// Threads that work at the same time [default: 1]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// What else the CPUs do
    #[arg(long, value_enum, value_name = "HOW", default_value_t = CpuLoad::Idle)]
    pub(crate) load: CpuLoad,
    /// Only 64 KiB and the longest key, and less time for each
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}
