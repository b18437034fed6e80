//! A file of 1 TiB with a thousand blocks at random places: little is stored, and it is quick.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use clap::Args;

use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;

const LENGTH: u64 = 1 << 40;
const BLOCK: usize = 4096;
const BLOCKS: u64 = 1000;
const STORED_MAX: u64 = 16 << 20;
const TIME_MAX: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Args)]
pub struct SparseArgs {
    #[command(flatten)]
    subject: SubjectArgs,
}

impl SparseArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs) -> Self {
        Self { subject: subject.clone() }
    }
}

/// Writes the file, mounts again, checks every block and the holes around it.
pub fn run(arguments: &SparseArgs) -> Result<Tally> {
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("sparse")?;
    let vault = Vault::create(&subject, scratch.path())?;
    // What an empty vault occupies after a mount is not the file's.
    vault.mount(MountOptions::new(LIMIT))?.unmount()?;
    let before = vault.stored_bytes()?;
    let offsets = offsets();

    let mut mount = vault.mount(MountOptions::new(LIMIT))?;
    let path = mount.path().join("sparse");
    let began = Instant::now();
    let file = File::create_new(&path)?;
    file.set_len(LENGTH)?;
    for offset in &offsets {
        file.write_all_at(&block(*offset), *offset)?;
    }
    file.sync_all()?;
    drop(file);
    let written = began.elapsed();

    mount.remount()?;
    let began = Instant::now();
    check(&File::open(&path)?, &offsets)?;
    let checked = began.elapsed();
    mount.unmount()?;
    let began = Instant::now();
    let verified = vault.check(LIMIT)?;
    let verifying = if verified { began.elapsed() } else { Duration::ZERO };
    let stored = vault.stored_bytes()?.saturating_sub(before);

    println!(
        "  written and synced in {:.2} s, read and compared cold in {:.2} s, vault check {:.2} s, {:.2} MiB stored",
        written.as_secs_f64(),
        checked.as_secs_f64(),
        verifying.as_secs_f64(),
        stored as f64 / f64::from(1 << 20)
    );
    ensure!(stored < STORED_MAX, "{stored} bytes stored, {STORED_MAX} allowed");
    let total = written + checked + verifying;
    ensure!(total < TIME_MAX, "took {:.1} s, {} s allowed", total.as_secs_f64(), TIME_MAX.as_secs());
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// Different, sorted, block-aligned places, the first and the last possible among them.
fn offsets() -> Vec<u64> {
    let mut random = Random::new(9);
    let last = LENGTH / BLOCK as u64 - 1;
    let mut places = std::collections::BTreeSet::from([0, last]);
    while (places.len() as u64) < BLOCKS {
        places.insert(random.below(last));
    }
    places.into_iter().map(|place| place * BLOCK as u64).collect()
}

/// The contents of the block at an offset; never a block of zeros.
fn block(offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    Random::new(offset ^ 0x5eed).fill(&mut bytes);
    bytes
}

fn check(file: &File, offsets: &[u64]) -> Result {
    ensure!(file.metadata()?.len() == LENGTH, "the length is {}", file.metadata()?.len());
    let mut found = vec![0; BLOCK];
    for (index, offset) in offsets.iter().enumerate() {
        file.read_exact_at(&mut found, *offset).context(format_args!("reading at {offset}"))?;
        ensure!(found == block(*offset), "wrong contents at {offset}");
        let next = offsets.get(index + 1).copied().unwrap_or(LENGTH);
        let hole = offset + BLOCK as u64;
        if hole < next {
            let middle = hole + (next - hole) / 2 / BLOCK as u64 * BLOCK as u64;
            file.read_exact_at(&mut found, middle).context(format_args!("reading at {middle}"))?;
            ensure!(found.iter().all(|byte| *byte == 0), "no hole at {middle}");
        }
    }
    holes_are_reported(file, offsets)
}

/// SEEK_DATA finds every block, and at most one data range for each.
fn holes_are_reported(file: &File, offsets: &[u64]) -> Result {
    let (mut at, mut ranges, mut covered) = (0, 0, 0);
    while at < LENGTH {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error).context("SEEK_DATA"),
        };
        at = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start)).context("SEEK_HOLE")?;
        ranges += 1;
        covered += offsets.iter().filter(|offset| (start..at).contains(offset)).count();
    }
    ensure!(covered == offsets.len(), "SEEK_DATA finds {covered} of {} blocks", offsets.len());
    ensure!(ranges > offsets.len() / 2, "SEEK_DATA reports {ranges} ranges: holes are reported as data");
    Ok(())
}
