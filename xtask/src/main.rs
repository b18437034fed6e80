//! Project tasks: what a person types after `cargo xtask`.
//!
//! A task that runs on mounts is a module of `strongroom-suites`, one that measures is a module of
//! `strongroom-compare`; here are those that look at the repository, and that run its own tests and tools.
//! Nothing of the product is linked in.
#![forbid(unsafe_code)]

mod arm;
mod book;
mod crash;
mod deny;
mod dist;
mod dudect;
mod fuzz;
mod gpu;
mod hostile;
mod layers;
mod model;
mod offer;
mod papers;
mod programs;
mod shipped;
mod simulate;
mod soundness;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use strongroom_compare as compare;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_ledger as ledger;
use strongroom_suites::{
    age, demo, fsx, git, kill, luks, posix, postgres, powercut, readme, scale, soak, sparse, sqlite, stores,
    stress, vm,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Strongroom's project tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Copy a real tree through an encrypted folder and compare every byte
    Demo(demo::DemoArgs),
    /// Run pjdfstest on the bare file system and on the mount, and compare
    Posix(posix::PosixArgs),
    /// Run fsx in several configurations
    Fsx(fsx::FsxArgs),
    /// Run stress-ng's file system stressors on the bare file system and on the mount
    Stress(stress::StressArgs),
    /// Kill SQLite writers again and again
    Sqlite(sqlite::SqliteArgs),
    /// Kill a PostgreSQL server again and again
    Postgres(postgres::PostgresArgs),
    /// Kill the daemon again and again, and miss nothing that was acknowledged
    Kill(kill::KillArgs),
    /// Cut the power under the daemon again and again, and miss nothing that was acknowledged
    Powercut(powercut::PowercutArgs),
    /// Load a mount for a long time, and see that the daemon does not grow
    Soak(soak::SoakArgs),
    /// Feed the parsers what no vault ever held
    Fuzz(fuzz::FuzzArgs),
    /// Write below a mount and note what is acknowledged: a part of `kill` and `powercut`
    #[command(hide = true)]
    LedgerWriter(ledger::writer::WriterArgs),
    /// Clone a repository and build a crate inside the mount
    Git(git::GitArgs),
    /// Write and check a 1 TiB file with few blocks
    Sparse(sparse::SparseArgs),
    /// Cut the power of recorded histories: every image has to be whole, every planted fault caught
    Crash(crash::CrashArgs),
    /// Compose attacks of every stored state of random histories: what is read has to have been there once
    Hostile(hostile::HostileArgs),
    /// Try many orders of the threads that share files, the journal and the table of live contents
    Model(model::ModelArgs),
    /// Type the README's lines as root and as an ordinary user, in terminals of 80 and of 40 columns
    Readme(readme::ReadmeArgs),
    /// Exchange encrypted disks with cryptsetup, QEMU, nbdkit, libnbd and fio, and put ext4 on them
    Luks(luks::LuksArgs),
    /// Read C2SP's vectors of age, and exchange single files with age and rage
    Age(age::AgeArgs),
    /// Exchange encrypted disks with dm-crypt in a virtual machine, and put ext4 on a ublk device there
    Vm(vm::VmArgs),
    /// Try what stores keep, and a vault on each: ext4, XFS, btrfs, tmpfs, sshfs, JuiceFS, rclone, s3fs
    Stores(stores::StoresArgs),
    /// A vault on JuiceFS with Redis and an S3 server, mounted by two hosts: kills, a takeover, what it costs
    Scale(scale::ScaleArgs),
    /// Write and sync, and say what was acknowledged: a part of `scale`
    #[command(hide = true)]
    ScaleWriter(scale::WriterArgs),
    /// Fill memory and check it: a part of `luks`
    #[command(hide = true)]
    LuksPressure(luks::pressure::PressureArgs),
    /// Make docs/papers.md from the models that replay published documents
    Papers,
    /// Record loads, predict them under other suites, and run them under those
    #[command(name = "whatif")]
    WhatIf(compare::whatif::WhatIfArgs),
    /// Run the scheduler's policies on modelled machines, all of them
    Simulate(simulate::SimulateArgs),
    /// Test the program for ARM processors under an emulator
    Arm(arm::ArmArgs),
    /// Test the engine for GPUs without a GPU, and look at what compilers make of its kernels
    Gpu(gpu::GpuArgs),
    /// Measure whether the time of a cipher depends on secrets
    Dudect(dudect::DudectArgs),
    /// Run the crates with unsafe code under Miri and sanitizers
    Soundness(soundness::SoundnessArgs),
    /// Measure
    Bench(compare::BenchArgs),
    /// Run every test: the workspace's own and all suites on a mount
    Test(test::TestArgs),
    /// Build the documents as a book, and check what they refer to
    Book(book::BookArgs),
    /// Make a release: a Debian package, what it consists of, and sums
    Dist(dist::DistArgs),
    /// Check licences, sources, banned crates and double versions of all libraries
    Deny,
    /// Check which crate depends on which, and where unsafe code stands
    Layers,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(arguments) => concluded(demo::run(&arguments)),
        Task::Posix(arguments) => concluded(posix::run(&arguments)),
        Task::Fsx(arguments) => concluded(fsx::run(&arguments)),
        Task::Stress(arguments) => concluded(stress::run(&arguments)),
        Task::Sqlite(arguments) => concluded(sqlite::run(&arguments)),
        Task::Postgres(arguments) => concluded(postgres::run(&arguments)),
        Task::Kill(arguments) => concluded(kill::run(&arguments)),
        Task::Powercut(arguments) => concluded(powercut::run(&arguments)),
        Task::Soak(arguments) => concluded(soak::run(&arguments)),
        Task::Fuzz(arguments) => concluded(fuzz::run(&arguments)),
        Task::LedgerWriter(arguments) => ledger::writer::run(&arguments),
        Task::Git(arguments) => concluded(git::run(&arguments)),
        Task::Sparse(arguments) => concluded(sparse::run(&arguments)),
        Task::Crash(arguments) => concluded(crash::run(&arguments)),
        Task::Hostile(arguments) => concluded(hostile::run(&arguments)),
        Task::Model(arguments) => concluded(model::run(&arguments)),
        Task::Age(arguments) => concluded(age::run(&arguments)),
        Task::Readme(arguments) => concluded(readme::run(&arguments)),
        Task::Luks(arguments) => concluded(luks::run(&arguments)),
        Task::Vm(arguments) => concluded(vm::run(&arguments)),
        Task::Stores(arguments) => concluded(stores::run(&arguments)),
        Task::Scale(arguments) => concluded(scale::run(&arguments)),
        Task::ScaleWriter(arguments) => scale::write(&arguments),
        Task::LuksPressure(arguments) => luks::pressure::fill(&arguments),
        Task::Papers => papers::run(),
        Task::WhatIf(arguments) => compare::whatif::run(&arguments),
        Task::Simulate(arguments) => simulate::run(&arguments),
        Task::Arm(arguments) => concluded(arm::run(&arguments)),
        Task::Gpu(arguments) => concluded(gpu::run(&arguments)),
        Task::Dudect(arguments) => concluded(dudect::run(&arguments)),
        Task::Soundness(arguments) => concluded(soundness::run(&arguments)),
        Task::Bench(arguments) => compare::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Book(arguments) => book::run(&arguments),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Deny => deny::run(),
        Task::Layers => layers::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a suite's summary, and makes its failures the task's.
fn concluded(tally: Result<Tally>) -> Result {
    let tally = tally?;
    println!("{}", tally.summary());
    ensure!(tally.is_success(), "the suite did not pass");
    Ok(())
}
