//! The program under the emulator: what it says of the processor, and a vault mounted by it.
//!
//! The kernel sees the emulator, and answers its system calls as it does another program's. What the emulator does
//! not know, the program has to do without: rings of io_uring, filters of system calls.

use std::fs;
use std::path::Path;
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
use super::machine::{self, AARCH64};

const LIMIT: Duration = Duration::from_secs(5 * 60);
/// What its tier needs, in ARM's words.
const EXTENSION: &str = "FEAT_AES and FEAT_PMULL of the ARMv8 cryptography extension";

/// Runs it with the instructions for cryptography, and without.
pub(super) fn run(tally: &mut Tally) -> Result {
    AARCH64.need()?;
    packages::need_root("arm")?;
    let scratch = Scratch::new(None, "arm")?.guarded()?;
    let program = AARCH64.program()?;
    let hidden = hidden::library(&AARCH64, scratch.path())?;
    for (name, library) in [("armv8-crypto", None), ("hidden", Some(hidden.as_path()))] {
        let has_extension = library.is_none();
        let place = scratch.make(name)?;
        let script = place.join("strongroom");
        machine::wrapped(&AARCH64.emulator(library), &program, &script)?;
        let subject = Subject::Strongroom { binary: script.clone(), settings: Settings::default() };
        tally.count(&format!("{name}: engines"), engines(&script, has_extension));
        tally.count(&format!("{name}: the suite of a new vault"), suite(&script, &place, has_extension));
        tally.count(&format!("{name}: in the foreground"), foreground(&subject, &place));
        tally.count(&format!("{name}: in the background"), background(&subject, &place));
    }
    Ok(())
}

/// The listing explains itself, and every self-test passes.
fn engines(program: &Path, has_extension: bool) -> Result {
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
    let (state, best) = if has_extension { ("used", aes) } else { ("refused", engine("cpu-portable")?) };
    ensure!(aes["state"] == state, "cpu-aes is {}: {}", aes["state"], reason(aes));
    ensure!(has_extension || reason(aes).contains(EXTENSION), "cpu-aes: {}", reason(aes));
    ensure!(reason(best) == "the best tier of this CPU", "{}: {}", best["name"], reason(best));
    let algorithms = best["algorithms"].as_array().into_iter().flatten();
    let code_of = |name: &str| {
        let found = algorithms.clone().find(|algorithm| algorithm["name"] == name);
        found.map(|algorithm| algorithm["code"].clone()).unwrap_or_default()
    };
    let aes = if has_extension { "RustCrypto, FEAT_AES" } else { "RustCrypto" };
    for (name, expected) in [("aes-xts-plain64", aes), ("serpent-xts-plain64", "own, NEON")] {
        ensure!(code_of(name) == expected, "{name} is computed by {}", code_of(name));
    }
    let failed = algorithms.filter(|algorithm| algorithm["self_test"] != "passed");
    let failed: Vec<String> = failed.map(|algorithm| algorithm["name"].to_string()).collect();
    ensure!(failed.is_empty(), "self-tests failed: {}", failed.join(", "));
    Ok(())
}

/// `init` takes what the processor is good at.
fn suite(program: &Path, place: &Path, has_extension: bool) -> Result {
    let password = place.join("secret");
    fs::write(&password, "a new vault\n").context(password.display())?;
    let mut init = Command::new(program);
    init.args(["init", "--json", "--recovery-out", "none", "--kdf-memory", "8MiB", "--kdf-time", "1"]);
    init.arg("--password-file").arg(&password).arg(place.join("new"));
    init.env("XDG_STATE_HOME", place.join("state"));
    let said: Value = serde_json::from_str(&command::output(&mut init, LIMIT)?)?;
    let expected = if has_extension { "xaes-256-gcm" } else { "xchacha20-poly1305" };
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
