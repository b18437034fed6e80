//! `check`: reads and verifies everything in a vault, and names what is
//! damaged by its plain path. Nothing is changed.
//!
//! One thread walks the tree ([`walk`]) and hands files to the others, which
//! verify their contents ([`verify`]). What they find is gathered in
//! [`findings`].

mod findings;
mod verify;
mod walk;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use strongroom_keys::VaultKeys;
use strongroom_store::local::OpenMode;
use strongroom_store::{Kind, NodeRef, Store};
use strongroom_vault::namespace::Observer;
use strongroom_vault::{Options, Rules, Vault};

use self::findings::{Document, Finding, Findings};
use self::verify::{Job, Verifier};
use self::walk::Walk;
use crate::args::CheckArgs;
use crate::failure::{Exit, Failure, Result};
use crate::lock::{LockError, LockMode, VaultLock};
use crate::progress::Progress;
use crate::report::{self, Output};
use crate::unlock::{Unlocked, unlock};

/// Files that are found and not verified yet. Each holds a descriptor.
const WAITING_MAX: usize = 256;

/// Verifies a vault.
///
/// # Errors
/// As unlocking; in use while the vault is mounted for writing. Damage and
/// faults of the store in single files are reported and no error.
pub(crate) fn run(args: &CheckArgs, output: Output) -> Result<Exit> {
    let started = report::now();
    let clock = Instant::now();
    crate::unlock::LockedVault::open(&args.vault, OpenMode::ReadOnly)?;
    let _lock = lock(args, output)?;
    let unlocked = unlock(&args.vault, OpenMode::ReadOnly, &args.secret, output)?;
    let findings = Arc::new(Findings::default());
    let document = check(args, unlocked, &findings)?;
    let document = Document {
        started: report::rfc3339(started),
        duration_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ..document
    };
    output.print(&document, findings::text)?;
    Ok(document.exit())
}

/// Keeps writers out. Beside one, with `--force`, nothing is locked.
fn lock(args: &CheckArgs, output: Output) -> Result<Option<VaultLock>> {
    match VaultLock::acquire(&args.vault, LockMode::Shared, "check", None) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held(_)) if args.force => {
            output.warn("the vault is in use: files that are being written can look damaged");
            Ok(None)
        }
        Err(LockError::Held(holder)) => {
            let failure = Failure::from(LockError::Held(holder)).at(&args.vault);
            Err(failure.hint("Unmount it first, or check beside it with --force."))
        }
        Err(error) => Err(Failure::from(error).at(&args.vault)),
    }
}

fn check(args: &CheckArgs, unlocked: Unlocked, findings: &Arc<Findings>) -> Result<Document> {
    let Unlocked { store, header, root, copies } = unlocked;
    // Without it the walk still works, on fewer files at a time.
    let _ = strongroom_store::local::raise_file_limit();
    let keys = VaultKeys::derive(&root, header.vault, header.generation);
    let engine = crate::compose::compose(None)?;
    let store: Arc<dyn Store> = store;
    let options = Options {
        writable: false,
        rules: Rules::STRICT,
        journal_len: Options::JOURNAL_LEN,
        host: String::new(),
        now: report::now(),
        acl: true,
        owners: false,
        background: false,
    };
    let observer = Arc::clone(findings) as Arc<dyn Observer>;
    let vault = Vault::open(Arc::clone(&store), engine.clone(), header.clone(), root, &options, observer)
        .map_err(|error| Failure::from(error).at(&args.vault))?;
    let progress = Progress::begin("Listing");
    if progress.is_shown() {
        let total = stored_bytes(&store.root(), &progress);
        progress.begin_bytes(total, "Verifying");
    }
    let threads = args.threads.map_or_else(default_threads, usize::from);
    let verifier =
        Verifier::new(vault.namespace(), findings, &progress, header.block_size, vault.is_settling());
    let mut walk = Walk::new(vault.namespace(), &verifier, findings, &keys, header.base32_names);
    let (jobs, waiting) = mpsc::sync_channel::<Job>(WAITING_MAX);
    let waiting = Mutex::new(waiting);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| verifier.run(&waiting));
        }
        walk.run(&store.root(), jobs);
    });
    walk.leftovers(&store.root(), &header);
    progress.finish();
    let recovered = verifier.recovered(&vault.recovered());
    for copy in copies.iter().filter(|copy| copy.state.is_damage()) {
        findings.add(Finding::header(copy));
    }
    Ok(Document {
        schema: "strongroom.check/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        started: String::new(),
        duration_ns: 0,
        threads,
        files: verifier.files(),
        directories: walk.counts.directories,
        symlinks: walk.counts.symlinks,
        others: walk.counts.others,
        bytes: verifier.bytes(),
        damage: findings.take(),
        leftovers: std::mem::take(&mut walk.leftovers),
        recovered,
        header_copies: copies,
    })
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// About how many bytes there are to verify. What cannot be read now is
/// reported later.
fn stored_bytes(directory: &NodeRef, progress: &Progress) -> u64 {
    let mut total = 0;
    for entry in directory.entries().unwrap_or_default() {
        let Ok(node) = directory.lookup(&entry.name) else { continue };
        match node.kind() {
            Kind::Directory => total += stored_bytes(&node, progress),
            Kind::File => {
                total +=
                    node.attributes().map_or(0, |attributes| attributes.len.min(attributes.blocks * 512));
                progress.found();
            }
            _ => {}
        }
    }
    total
}

/// Makes a path of a name in a directory.
fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
