//! `init`: a new vault, whole or not at all.
//!
//! Everything that can be refused is refused before anything is made; what
//! has been made when something fails after all is removed again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Serialize;
use strongroom_engine::{Engine, Operation};
use strongroom_engine_cpu::{CpuEngine, aes_instructions};
use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::Label;
use strongroom_keys::slots::{NewVault, SlotOptions, add_slot, create_header};
use strongroom_keys::{Credential, RecoveryKey, RootKey};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::trials;
use strongroom_units::BlockSize;
use strongroom_vault::{Guards, OpenOptions, Trust, Vault};

use super::cost::{short_password, slot_options};
use super::doctor;
use super::slots::{self, SlotReport};
use crate::args::InitArgs;
use crate::args::values::RecoveryOut;
use crate::failure::{Exit, Failure, Result};
use crate::freshness;
use crate::history::History;
use crate::proc;
use crate::report::{self, Output};
use crate::secrets::RecoveryTarget;
use crate::tree::Interrupt;

/// Blocks from this size on are warned of.
const LARGE_BLOCK: u64 = 128 << 10;

/// The directory of a vault that is its own.
const PRIVATE: &str = ".strongroom";

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    vault_id: String,
    suite: &'static str,
    suite_reason: &'static str,
    block_size: u64,
    names: &'static str,
    slots: Vec<SlotReport>,
    recovery: &'static str,
    recovery_file: Option<String>,
    warnings: Vec<String>,
}

/// Makes a vault.
///
/// # Errors
/// Usage when the place cannot become a vault, unsupported when no engine has
/// the suite, and what the store reports.
pub(crate) fn run(args: &InitArgs, output: Output) -> Result<Exit> {
    let (suite, suite_reason) = choose_suite(args.suite);
    check_suite(suite)?;
    proc::need()?;
    let block_size = block_size(args.block_size)?;
    check_place(&args.vault)?;
    check_recovery_place(args)?;
    check_freshness_place(args)?;
    RecoveryTarget::check(args.recovery_out.as_ref())?;
    let credential = args.secret.source().read_new(&format!("New password of {}", args.vault.display()))?;
    let options = slot_options(&credential, &args.cost, &args.label)?;

    let mut undo = Undo::default();
    undo.make_directory(&args.vault)?;
    let store = LocalStore::open(&args.vault, OpenMode::Writable).map_err(|error| at(&args.vault, error))?;
    trials::clear(&args.vault);
    let interrupt = store.is_distant().then(Interrupt::listen).unwrap_or_default();
    if store.is_distant() {
        doctor::store::check(&args.vault, &interrupt)?;
    }
    let base32_names = store.probe_case_folding().map_err(|error| at(&args.vault, error))?;
    let new = NewVault { suite, block_size, base32_names, created: options.created };
    let (mut header, root) = create_header(&new, &credential, &options)?;
    let recovery = match &args.recovery_out {
        Some(RecoveryOut::None) => None,
        _ => Some(add_recovery(&mut header, &root, &options)?),
    };
    if interrupt.is_asked() {
        return Err(Failure::new(Exit::Other, "interrupted: no vault was made"));
    }
    let mut target = RecoveryTarget::open(args.recovery_out.as_ref())?;
    undo.file(target.as_ref().and_then(RecoveryTarget::path));
    create(&store, &args.vault, &mut header, &root, &mut undo)?;
    if let (Some(target), Some(key)) = (&mut target, &recovery) {
        target.write(key)?;
    }
    sync_parent(&args.vault)?;
    undo.keep();
    let history = History::of_environment();
    history.remember(&header, output);
    if let Some(file) = &args.freshness {
        record(args, file, header.clone(), root, &history, output)?;
    }

    let document = Document {
        schema: "strongroom.init/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        suite: suite.name(),
        suite_reason,
        block_size: block_size.bytes(),
        names: if base32_names { "base32hex" } else { "base64url" },
        slots: slots::reports(&header),
        recovery: match &target {
            None => "none",
            Some(RecoveryTarget::Terminal(_)) => "terminal",
            Some(RecoveryTarget::File { .. }) => "file",
        },
        recovery_file: target.as_ref().and_then(RecoveryTarget::path).map(|path| path.display().to_string()),
        warnings: warnings(block_size, target.is_none(), &credential),
    };
    document.warnings.iter().for_each(|warning| output.warn(warning));
    output.print(&document, text)?;
    Ok(Exit::Done)
}

fn choose_suite(asked: Option<Suite>) -> (Suite, &'static str) {
    match asked {
        Some(suite) => (suite, "as asked for"),
        None if aes_instructions() => (Suite::Xaes256Gcm, "this CPU has instructions for AES"),
        None => (Suite::XChaCha20Poly1305, "this CPU has no instructions for AES"),
    }
}

fn check_suite(suite: Suite) -> Result<()> {
    let algorithm = strongroom_vault::algorithm(suite);
    match CpuEngine::new().capability(algorithm, Operation::Seal) {
        Some(_) => Ok(()),
        None => Err(Failure::new(Exit::Unsupported, format!("no engine of this machine offers {suite}"))
            .hint("`strongroom doctor` lists what they do; choose another with --suite.")),
    }
}

fn block_size(bytes: u64) -> Result<BlockSize> {
    BlockSize::from_bytes(bytes).ok_or_else(|| {
        Failure::usage(format!("--block-size: {bytes} bytes is no power of two from 4KiB to 1MiB"))
    })
}

/// The place must be a directory without entries, or not exist in one that does.
fn check_place(vault: &Path) -> Result<()> {
    let mut entries = match fs::read_dir(vault) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::system(vault, &error)),
    };
    if vault.join(PRIVATE).symlink_metadata().is_ok() {
        return Err(Failure::usage("this is a vault already")
            .at(vault)
            .hint("Mount it with `strongroom mount`."));
    }
    let is_others =
        |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| !trials::is_of_trials(&entry.file_name()));
    if entries.any(is_others) {
        return Err(Failure::usage("the directory is not empty")
            .at(vault)
            .hint("Name a new or empty one; existing files are encrypted by copying them into the mount."));
    }
    Ok(())
}

/// A recovery key beside the vault's ciphertext opens it to everybody.
fn check_recovery_place(args: &InitArgs) -> Result<()> {
    let Some(RecoveryOut::File(path)) = &args.recovery_out else { return Ok(()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(parent), Ok(vault)) = (fs::canonicalize(parent), fs::canonicalize(&args.vault)) else {
        return Ok(());
    };
    if parent.starts_with(&vault) {
        return Err(Failure::usage("the recovery key would lie in the vault that it opens")
            .at(path)
            .hint("Write it elsewhere, best to removable media."));
    }
    Ok(())
}

/// A freshness file that is there already is another vault's.
fn check_freshness_place(args: &InitArgs) -> Result<()> {
    match &args.freshness {
        Some(path) if path.symlink_metadata().is_ok() => {
            Err(Failure::usage("the freshness file exists already").at(path).hint("Name a new one."))
        }
        _ => Ok(()),
    }
}

/// Makes the freshness file, in a session that does nothing else.
fn record(
    args: &InitArgs,
    file: &Path,
    header: Header,
    root: RootKey,
    history: &History,
    output: Output,
) -> Result<()> {
    let trusted = freshness::trusted(file, &args.vault, Trust::Record, true)?;
    let store = LocalStore::open(&args.vault, OpenMode::Writable).map_err(|error| at(&args.vault, error))?;
    let engine = crate::compose::compose(None)?;
    let witness = history.witness(move |text| output.warn(text));
    let guards = Guards { trusted: Some(trusted), fence: None, witness: Some(witness) };
    let options = OpenOptions { guards, ..crate::tree::options(true) };
    let id = header.vault;
    Vault::open(Arc::new(store), engine, header, root, &options)
        .and_then(|vault| vault.close())
        .map_err(|error| freshness::explain(error, &args.vault, Some(file)))?;
    history.remember_freshness(id, &crate::daemon::launch::absolute(file)?, output);
    Ok(())
}

fn at(vault: &Path, error: strongroom_store::Error) -> Failure {
    Failure::from(error).at(vault)
}

/// Makes the vault's own entry in its parent durable.
fn sync_parent(vault: &Path) -> Result<()> {
    let synced = fs::File::open(vault.join("..")).and_then(|parent| parent.sync_all());
    synced.map_err(|error| Failure::system(vault, &error))
}

fn add_recovery(header: &mut Header, root: &RootKey, options: &SlotOptions) -> Result<RecoveryKey> {
    let key = RecoveryKey::random()?;
    let text = key.to_text();
    let copy = RecoveryKey::parse(text.expose()).expect("a key reads back as it is printed");
    let options = SlotOptions { label: Label::default(), ..options.clone() };
    add_slot(header, root, &Credential::Recovery(copy), &options)?;
    Ok(key)
}

fn create(
    store: &LocalStore,
    vault: &Path,
    header: &mut Header,
    root: &RootKey,
    undo: &mut Undo,
) -> Result<()> {
    undo.private(vault);
    strongroom_vault::create(store, header, root).map_err(|error| match error {
        strongroom_vault::Error::Store(error) if error.is_exists() => {
            undo.private = None;
            Failure::usage("somebody else has just made a vault there").at(vault)
        }
        error => Failure::from(error).at(vault),
    })
}

fn warnings(block_size: BlockSize, no_recovery: bool, credential: &Credential) -> Vec<String> {
    let mut warnings = Vec::new();
    if block_size.bytes() >= LARGE_BLOCK {
        warnings.push(format!(
            "with blocks of {} every small write rewrites a whole one: this suits data that is written once",
            report::bytes(block_size.bytes())
        ));
    }
    if no_recovery {
        let lost = match credential {
            Credential::Password(_) => "a forgotten password",
            Credential::KeyFile(_) | Credential::Recovery(_) => "a lost key file",
            Credential::PasswordAndKeyFile(_) => "a forgotten password or a lost key file",
        };
        warnings.push(format!("there is no recovery key: {lost} means that everything is lost"));
    }
    warnings.extend(short_password(credential).map(str::to_owned));
    warnings
}

fn text(document: &Document) -> String {
    let Document { vault, suite, suite_reason, block_size, .. } = document;
    let mut text = format!("Made the vault {vault}\n");
    let _ = writeln!(text, "  suite        {suite} ({suite_reason})");
    let _ = writeln!(text, "  block size   {}", report::bytes(*block_size));
    if document.names == "base32hex" {
        let _ = writeln!(text, "  names        base32hex, since the store does not tell case apart");
    }
    if let Some(cost) = document.slots.iter().find_map(SlotReport::guess_cost) {
        let _ = writeln!(text, "  each guess   {cost}");
    }
    if let Some(file) = &document.recovery_file {
        let _ = writeln!(text, "  recovery key in {file}: move it to where nobody finds it");
    }
    let _ = writeln!(text, "Mount it with: strongroom mount {vault} DIR");
    text
}

/// What is removed again when something fails.
#[derive(Default)]
struct Undo {
    directory: Option<PathBuf>,
    private: Option<PathBuf>,
    file: Option<PathBuf>,
}

impl Undo {
    fn make_directory(&mut self, path: &Path) -> Result<()> {
        match fs::create_dir(path) {
            Ok(()) => self.directory = Some(path.to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Failure::system(path, &error).hint("Make the directory above it first."));
            }
            Err(error) => return Err(Failure::system(path, &error)),
        }
        Ok(())
    }

    fn private(&mut self, vault: &Path) {
        self.private = Some(vault.join(PRIVATE));
    }

    fn file(&mut self, path: Option<&Path>) {
        self.file = path.map(Path::to_owned);
    }

    fn keep(&mut self) {
        // Not by assignment, which would drop, and so undo, what was there.
        (self.directory, self.private, self.file) = (None, None, None);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(private) = &self.private {
            let _ = fs::remove_dir_all(private);
        }
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir(directory);
        }
    }
}
