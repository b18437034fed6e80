//! What a vault on JuiceFS costs: time, objects written and transactions of metadata, beside JuiceFS alone and
//! gocryptfs on it. The figures of `docs/stores.md` come from here.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::lab::{self, Lab};
use super::life::ODD;
use super::servers::Asked;
use crate::demo::copy::Copier;
use crate::stores::served::directory;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::random::Random;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};

/// Bytes written one behind the other, in pieces of a MiB.
const LEN: u64 = 128 << 20;
const PIECE: usize = 1 << 20;
/// Overwrites of a block, each synced.
const OVERWRITES: u64 = 200;
const BLOCK: usize = 4096;
/// What is written behind a load's back is written by then: commits every four seconds.
const QUIET: Duration = Duration::from_secs(7);

/// One load on one subject.
struct Measured {
    seconds: f64,
    /// Until the load had ended.
    during: Asked,
    /// Until the subject was unmounted and all was quiet.
    until_unmounted: Asked,
}

/// Measures all loads on all subjects, each `repeats` times in turn, and prints the table.
pub(super) fn run(lab: &mut Lab, subject: &Subject, source: Option<&Path>, repeats: usize) -> Result<String> {
    let gocryptfs = Subject::resolve(Kind::Gocryptfs, Settings::default(), None)?;
    let subjects =
        [("JuiceFS alone", Subject::Bare), ("gocryptfs", gocryptfs), ("Strongroom", subject.clone())];
    let mut rows = Vec::new();
    let mut sequential: [Vec<Measured>; 3] = Default::default();
    let mut overwrites: [Vec<Measured>; 3] = Default::default();
    for repeat in 0..repeats {
        for (index, (name, subject)) in subjects.iter().enumerate() {
            let vault = made(lab, subject, &format!("table-{index}-{repeat}")).context(name)?;
            sequential[index].push(measured(lab, &vault, write).context(name)?);
            overwrites[index].push(measured(lab, &vault, overwrite).context(name)?);
        }
    }
    for (index, (name, subject)) in subjects.iter().enumerate() {
        rows.push(row("128 MiB, one fsync", name, median(&mut sequential[index]), LEN, 1));
        let bytes = OVERWRITES * BLOCK as u64;
        rows.push(row("4 KiB overwrite, fsync", name, median(&mut overwrites[index]), bytes, OVERWRITES));
        let Some(source) = source else { continue };
        let vault = made(lab, subject, &format!("table-{index}-tree"))?;
        let mut copier = Copier::new(None);
        let tree = measured(lab, &vault, |mount| parts(source, mount, &mut copier)).context(name)?;
        rows.push(row("the tree", name, &tree, copier.copied.bytes, 1));
    }
    rows.sort();
    let title = "| load | on JuiceFS | MB/s | PUTs | transactions | PUTs until unmounted |";
    println!("{title}\n|---|---|---|---|---|---|\n{}", rows.join("\n"));
    Ok(format!("{} loads, {repeats} times each but the tree", rows.len()))
}

/// A new store of a subject on the first host's JuiceFS.
fn made(lab: &Lab, subject: &Subject, name: &str) -> Result<Vault> {
    match subject {
        Subject::Bare => Vault::create(subject, &directory(&lab.hosts[0].store(), name)?),
        _ => lab.vault(subject, name),
    }
}

fn measured(lab: &Lab, vault: &Vault, load: impl FnOnce(&Path) -> Result) -> Result<Measured> {
    let mount = vault.mount(lab::options())?;
    thread::sleep(QUIET);
    let before = lab.asked()?;
    let began = Instant::now();
    load(mount.path())?;
    let seconds = began.elapsed().as_secs_f64();
    let during = lab.asked()? - before;
    thread::sleep(QUIET);
    mount.unmount()?;
    thread::sleep(QUIET);
    Ok(Measured { seconds, during, until_unmounted: lab.asked()? - before })
}

/// The one of the middling time.
fn median(all: &mut [Measured]) -> &Measured {
    all.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    &all[all.len() / 2]
}

/// A line of the table; objects and transactions are for each of `times`.
fn row(load: &str, subject: &str, measured: &Measured, bytes: u64, times: u64) -> String {
    let each = |count: u64| match times {
        1 => count.to_string(),
        _ => format!("{:.2} each", count as f64 / times as f64),
    };
    let Measured { seconds, during, until_unmounted } = measured;
    format!(
        "| {load} | {subject} | {:.2} | {} | {} | {} |",
        bytes as f64 / 1e6 / seconds,
        each(during.puts),
        each(during.transactions),
        each(until_unmounted.puts),
    )
}

fn write(mount: &Path) -> Result {
    let mut piece = vec![0; PIECE];
    let mut random = Random::new(1);
    let mut file = File::create(mount.join("file"))?;
    for _ in 0..LEN / PIECE as u64 {
        random.fill(&mut piece);
        file.write_all(&piece)?;
    }
    Ok(file.sync_all()?)
}

fn overwrite(mount: &Path) -> Result {
    let file = File::options().write(true).open(mount.join("file"))?;
    let mut random = Random::new(2);
    let mut block = vec![0; BLOCK];
    for _ in 0..OVERWRITES {
        random.fill(&mut block);
        file.write_all_at(&block, random.below(LEN / BLOCK as u64) * BLOCK as u64)?;
        file.sync_all()?;
    }
    Ok(())
}

/// The real files of the tree, and the generated ones: what is odd is not what costs.
fn parts(source: &Path, mount: &Path, copier: &mut Copier) -> Result {
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        if entry.file_name() == ODD {
            continue;
        }
        let to = mount.join(entry.file_name());
        fs::create_dir(&to)?;
        copier.tree(&entry.path(), &to)?;
    }
    Ok(())
}
