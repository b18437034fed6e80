//! The program under the emulator: what it says of the processor, and a vault mounted by it.
//!
//! The kernel sees the emulator, and answers its system calls as it does another program's. What the emulator does
//! not know, the program has to do without: rings of io_uring, filters of system calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Settings, Subject};
use strongroom_harness::tally::Tally;
use strongroom_suites::stores;

use super::hidden;
use super::machine::{self, AARCH64, ARMV7, Machine};

const LIMIT: Duration = Duration::from_secs(5 * 60);

/// What is to be seen of a processor.
struct Processor {
    name: &'static str,
    has_aes: bool,
    /// What the tier for AES needs, in ARM's words.
    requirement: &'static str,
    /// What computes sectors in AES, and in Serpent.
    codes: [&'static str; 2],
}

const WITH_EXTENSION: Processor = Processor {
    name: "armv8-crypto",
    has_aes: true,
    requirement: "FEAT_AES and FEAT_PMULL of the ARMv8 cryptography extension",
    codes: ["RustCrypto, FEAT_AES", "own, NEON"],
};
const WITHOUT: Processor =
    Processor { name: "hidden", has_aes: false, codes: ["RustCrypto", "own, NEON"], ..WITH_EXTENSION };
const OF_32_BITS: Processor = Processor {
    name: "armv7",
    has_aes: false,
    requirement: "AES instructions of x86-64 or of ARMv8 in AArch64",
    codes: ["RustCrypto", "RustCrypto"],
};

/// Runs it with the instructions for cryptography, and without.
pub(super) fn run(tally: &mut Tally) -> Result {
    let (scratch, program) = built(&AARCH64)?;
    let hidden = hidden::library(&AARCH64, scratch.path())?;
    for (processor, library) in [(WITH_EXTENSION, None), (WITHOUT, Some(hidden.as_path()))] {
        tried(&scratch, &program, &AARCH64.emulator(library), &processor, tally)?;
    }
    Ok(())
}

/// Runs it on ARM of 32 bits.
pub(super) fn run_on_32_bits(tally: &mut Tally) -> Result {
    let (scratch, program) = built(&ARMV7)?;
    tried(&scratch, &program, &ARMV7.emulator(None), &OF_32_BITS, tally)
}

/// The program, and a directory to try it in.
fn built(machine: &Machine) -> Result<(Scratch, PathBuf)> {
    machine.need()?;
    packages::need_root("arm")?;
    Ok((Scratch::new(None, "arm")?.guarded()?, machine.program()?))
}

fn tried(
    scratch: &Scratch,
    program: &Path,
    emulator: &[String],
    processor: &Processor,
    tally: &mut Tally,
) -> Result {
    let name = processor.name;
    let place = scratch.make(name)?;
    let script = place.join("strongroom");
    machine::wrapped(emulator, program, &script)?;
    let subject = Subject::Strongroom { binary: script.clone(), settings: Settings::default() };
    tally.count(&format!("{name}: engines"), engines(&script, processor));
    tally.count(&format!("{name}: the suite of a new vault"), suite(&script, &place, processor));
    tally.count(&format!("{name}: in the foreground"), foreground(&subject, &place));
    tally.count(&format!("{name}: in the background"), background(&subject, &place));
    Ok(())
}

/// The listing explains itself, and every self-test passes.
fn engines(program: &Path, processor: &Processor) -> Result {
    let said: Value =
        serde_json::from_str(&command::output(Command::new(program).args(["engines", "--json"]), LIMIT)?)?;
    let engine = |name: &str| {
        let mut engines = said["engines"].as_array().into_iter().flatten();
        engines
            .find(|engine| engine["name"] == name)
            .ok_or_else(|| Failure::new(format!("no {name} is listed")))
    };
    let reason = |engine: &Value| engine["reason"].as_str().unwrap_or_default().to_owned();
    let vectors = reason(engine("cpu-vaes")?);
    ensure!(vectors.contains("which x86-64 alone has"), "cpu-vaes: {vectors}");
    let aes = engine("cpu-aes")?;
    let (state, best) = if processor.has_aes { ("used", aes) } else { ("refused", engine("cpu-portable")?) };
    ensure!(aes["state"] == state, "cpu-aes is {}: {}", aes["state"], reason(aes));
    let requirement = processor.requirement;
    ensure!(processor.has_aes || reason(aes).contains(requirement), "cpu-aes: {}", reason(aes));
    ensure!(reason(best) == "the best tier of this CPU", "{}: {}", best["name"], reason(best));
    let algorithms = best["algorithms"].as_array().into_iter().flatten();
    let code_of = |name: &str| {
        let found = algorithms.clone().find(|algorithm| algorithm["name"] == name);
        found.map(|algorithm| algorithm["code"].clone()).unwrap_or_default()
    };
    for (name, expected) in ["aes-xts-plain64", "serpent-xts-plain64"].into_iter().zip(processor.codes) {
        ensure!(code_of(name) == expected, "{name} is computed by {}", code_of(name));
    }
    let failed = algorithms.filter(|algorithm| algorithm["self_test"] != "passed");
    let failed: Vec<String> = failed.map(|algorithm| algorithm["name"].to_string()).collect();
    ensure!(failed.is_empty(), "self-tests failed: {}", failed.join(", "));
    Ok(())
}

/// `init` takes what the processor is good at.
fn suite(program: &Path, place: &Path, processor: &Processor) -> Result {
    let password = place.join("secret");
    fs::write(&password, "a new vault\n").context(password.display())?;
    let mut init = Command::new(program);
    init.args(["init", "--json", "--recovery-out", "none", "--kdf-memory", "8MiB", "--kdf-time", "1"]);
    init.arg("--password-file").arg(&password).arg(place.join("new"));
    init.env("XDG_STATE_HOME", place.join("state"));
    let said: Value = serde_json::from_str(&command::output(&mut init, LIMIT)?)?;
    let expected = if processor.has_aes { "xaes-256-gcm" } else { "xchacha20-poly1305" };
    ensure!(said["suite"] == expected, "the suite is {}: {}", said["suite"], said["suite_reason"]);
    Ok(())
}

/// A tree is written, changed and compared; the daemon is killed and started anew; the vault is checked.
fn foreground(subject: &Subject, place: &Path) -> Result {
    let place = place.join("foreground");
    fs::create_dir(&place).context(place.display())?;
    stores::lived(subject, &place).map(drop)
}

/// The first process starts the daemon by the emulator that runs it, and ends.
fn background(subject: &Subject, place: &Path) -> Result {
    let place = place.join("background");
    fs::create_dir(&place).context(place.display())?;
    let vault = Vault::create(subject, &place)?;
    let mut mount = vault.mount(MountOptions::new(LIMIT).daemon())?;
    let file = mount.path().join("file");
    let bytes: Vec<u8> = (0..300_001u32).map(|at| (at * 7 / 5) as u8).collect();
    fs::write(&file, &bytes).context("writing")?;
    mount.remount()?;
    ensure!(fs::read(&file).context("reading")? == bytes, "the file is another one after a mount");
    let status = mount.status()?.unwrap_or_default();
    ensure!(status.to_string().contains(&place.join("plain").display().to_string()), "status: {status}");
    mount.unmount()?;
    ensure!(vault.check(LIMIT)?, "nothing was checked");
    Ok(())
}
