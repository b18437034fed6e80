//! Measurements. One benchmark is one module; what they share in work and reporting stands beside them.
#![forbid(unsafe_code)]

mod awake;
mod common;
mod cpu;
mod crypto_peers;
mod device;
mod disk;
mod documents;
mod durability;
mod file;
mod floor;
mod folder;
mod masks;
mod memory;
mod page;
mod placement;
mod progress;
mod provider;
mod report;
mod result;
mod statistics;
pub mod whatif;
mod work;

use clap::{Args, Subcommand};

use self::awake::Awake;
use strongroom_harness::failure::Result;

/// What to measure, and how.
#[derive(Args)]
pub struct BenchArgs {
    /// Keeps CPUs from halting while it measures (root): in a virtual machine waking one is the host's work
    #[arg(long, global = true)]
    awake: bool,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// The speed floor: Strongroom and gocryptfs in turn on a store in memory
    Floor(floor::FloorArgs),
    /// Encrypted folders and unencrypted FUSE compared, row by row
    Folder(folder::FolderArgs),
    /// Encrypted disks: every cipher in memory and through every export, and against qemu-nbd and nbdkit
    Disk(disk::DiskArgs),
    /// What two of the replayed documents measured, on this machine: copies and programs on encrypted disks
    Documents(documents::DocumentsArgs),
    /// What the default durability costs against `--durability relaxed`, on a disk
    Durability(durability::DurabilityArgs),
    /// Single files beside age 1.3, cp and `tar | age`, on two CPUs and on one
    File(file::FileArgs),
    /// Where a mount places its work, against each engine forced, in turns on one mount
    Placement(placement::PlacementArgs),
    /// The engines against AWS-LC, ipsec-mb, libgcrypt and OpenSSL, on one core
    CryptoPeers(crypto_peers::CryptoPeersArgs),
    /// Keystream made ahead by a device against none, in turn
    Masks(masks::MasksArgs),
    /// Put the results under bench/results into docs/benchmarks.md; measures nothing
    Page(page::PageArgs),
    /// The virtio driver on a device over vfio-user: interrupts, CPU time, and where the scheduler places
    Device(device::DeviceArgs),
    /// `openssl speed` with the OpenSSL provider and without it, in turn
    Provider(provider::ProviderArgs),
}

/// Measures, prints what it found, and fails where a target is missed.
///
/// # Errors
/// A missed target, or what kept it from measuring.
pub fn run(arguments: &BenchArgs) -> Result {
    let _awake = arguments.awake.then(Awake::hold).transpose()?;
    match &arguments.benchmark {
        Benchmark::Floor(arguments) => floor::run(arguments),
        Benchmark::Folder(arguments) => folder::run(arguments),
        Benchmark::Disk(arguments) => disk::run(arguments),
        Benchmark::Documents(arguments) => documents::run(arguments),
        Benchmark::Durability(arguments) => durability::run(arguments),
        Benchmark::File(arguments) => file::run(arguments),
        Benchmark::Placement(arguments) => placement::run(arguments),
        Benchmark::CryptoPeers(arguments) => crypto_peers::run(arguments),
        Benchmark::Masks(arguments) => masks::run(arguments),
        Benchmark::Page(arguments) => page::run(arguments),
        Benchmark::Device(arguments) => device::run(arguments),
        Benchmark::Provider(arguments) => provider::run(arguments),
    }
}
