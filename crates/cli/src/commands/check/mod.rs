//! `check`: reads and verifies everything in a vault, or what is named of it,
//! and names what is damaged by its plain path and bytes. Nothing is changed,
//! but by `--repair`, after asking.
//!
//! One thread walks the tree ([`walk`]) and hands files to the others, which
//! verify their contents ([`verify`]). What they find is gathered in
//! [`findings`], and what a repair has to know in [`facts`].

mod facts;
pub(crate) mod findings;
mod repair;
mod sample;
mod scrub;
mod verify;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use strongroom_format::vault::header::Header;
use strongroom_keys::RootKey;
use strongroom_store::Store;
use strongroom_store::local::OpenMode;
use strongroom_vault::namespace::survey::{Folder, Item, Survey};
use strongroom_vault::{Damage, Error};

use self::findings::{Document, Finding, Findings};
use self::sample::Sample;
use self::scrub::Scrub;
use self::verify::{Extent, Verifier, Wanted};
use self::walk::Walk;
use crate::args::{self, CheckArgs};
use crate::failure::{Exit, Failure, Result};
use crate::freshness;
use crate::history::History;
use crate::lock::{LockError, LockMode, VaultLock};
use crate::progress::Progress;
use crate::report::{self, Output};
use crate::tree::{Interrupt, Pool, at_least_open_files, default_threads, open_recorded, stored_bytes};
use crate::unlock::{HeaderCopy, LockedVault, Unlocked, reread, unlock};

/// Verifies a vault.
///
/// # Errors
/// As unlocking; in use while the vault is mounted for writing. Damage and
/// faults of the store in single files are reported and no error.
pub(crate) fn run(args: &CheckArgs, output: Output) -> Result<Exit> {
    let started = report::now();
    let clock = Instant::now();
    let mode = if args.repair { OpenMode::Writable } else { OpenMode::ReadOnly };
    LockedVault::open(&args.vault, mode)?;
    let mut lock = lock(args, output)?;
    let history = History::of(&args.history);
    let mut subject = Subject::from(unlock(&args.vault, mode, &args.secret, &history, output)?);
    if let Some(lock) = &mut lock {
        let told = lock.tell(&subject.root, subject.header.vault);
        told.map_err(|error| Failure::from(error).at(&args.vault))?;
    }
    if args.freshness.is_none() {
        freshness::tell_unused(&history, subject.header.vault, output);
    }
    let interrupt = Interrupt::listen();
    let mut recovery = None;
    if args.repair {
        recovery = repair::recover(args, &mut subject, output)?;
    }
    let findings = Findings::new(args.repair);
    let extent = extent(args, &subject.header, &history, output)?;
    let mut document = check(args, &subject, &findings, &interrupt, extent)?;
    if let Some(scrub) = &mut document.scrub {
        scrub.is_remembered = history.remember_scrub(subject.header.vault, scrub.seen.clone(), output);
    }
    if args.repair && !document.interrupted {
        document.repair =
            repair::run(args, &mut subject, &document, findings.take_facts(), recovery, &interrupt, output)?;
        document.interrupted = interrupt.is_asked();
        subject.reread()?;
        history.remember(&subject.header, output);
    }
    let document = Document {
        started: report::rfc3339(started),
        duration_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ..document
    };
    output.print(&document, findings::text)?;
    Ok(document.exit())
}

/// Keeps writers out, and who repairs, everybody. Beside a writer, with
/// `--force`, nothing is locked.
fn lock(args: &CheckArgs, output: Output) -> Result<Option<VaultLock>> {
    let (mode, purpose) = match args.repair {
        true => (LockMode::Exclusive, "repair"),
        false => (LockMode::Shared, "check"),
    };
    VaultLock::settle(&args.vault, output);
    match VaultLock::acquire(&args.vault, mode, purpose, None) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held(_)) if args.force => {
            output.warn("the vault is in use: files that are being written can look damaged");
            Ok(None)
        }
        Err(LockError::Held(holder)) => {
            let failure = Failure::from(LockError::Held(holder)).at(&args.vault);
            Err(match args.repair {
                true => failure,
                false => failure.hint("Unmount it first, or check beside it with --force."),
            })
        }
        Err(error) => Err(Failure::from(error).at(&args.vault)),
    }
}

/// The vault that is checked.
struct Subject {
    store: Arc<dyn Store>,
    header: Header,
    root: RootKey,
    copies: [HeaderCopy; 2],
}

impl From<Unlocked> for Subject {
    fn from(unlocked: Unlocked) -> Subject {
        let Unlocked { store, header, root, copies } = unlocked;
        Subject { store, header, root, copies }
    }
}

impl Subject {
    /// Reads the header anew, after it was written.
    fn reread(&mut self) -> Result<()> {
        (self.header, self.copies) = reread(&*self.store, &self.root)?;
        Ok(())
    }

    fn has_damaged_copy(&self) -> bool {
        self.copies.iter().any(|copy| copy.state.is_damage())
    }
}

/// What is to be looked at.
enum Target {
    Folder(Folder),
    Item(Folder, Item),
}

/// How much the arguments ask for.
fn extent(args: &CheckArgs, header: &Header, history: &History, output: Output) -> Result<Extent> {
    let limit = match args.sample {
        None => return Ok(Extent::Whole),
        Some(args::Sample::Part(percent)) => return Ok(Extent::Sample(Sample::new(percent))),
        Some(args::Sample::Time(limit)) => limit,
    };
    if !args.paths.is_empty() {
        return Err(Failure::usage("a check by time goes through the whole vault")
            .hint("Name no paths, or a part in percent: --sample 5%."));
    }
    if !history.is_on() {
        output.warn("nothing is remembered here: the next check by time begins anew");
    }
    Ok(Extent::Scrub(Scrub::new(limit, history.scrub(header.vault))))
}

/// Looks at everything, or what the arguments name, to the extent that is asked
/// for.
fn check(
    args: &CheckArgs,
    subject: &Subject,
    findings: &Findings,
    interrupt: &Interrupt,
    extent: Extent,
) -> Result<Document> {
    let Subject { store, header, root, copies } = subject;
    at_least_open_files();
    let file = args.freshness.as_deref();
    let vault = open_recorded(Arc::clone(store), header, root.duplicate(), &args.vault, file)?;
    vault.damage().iter().for_each(|damage| findings.add(Finding::journal(damage)));
    let survey = vault.namespace().survey();
    let targets = targets(survey, &args.paths)?;
    let progress = Progress::begin("Listing");
    if progress.is_shown() && !matches!(extent, Extent::Names | Extent::Scrub(_)) {
        let bytes = targets.iter().map(|target| match target {
            Target::Folder(folder) => stored_bytes(&folder.node, &progress),
            Target::Item(_, item) => stored_bytes(&item.node, &progress),
        });
        let total = bytes.sum();
        let total = match args.sample {
            Some(args::Sample::Part(percent)) => percent.of(total),
            _ => total,
        };
        progress.begin_bytes(total, "Verifying");
    }
    let threads = args.threads.map_or_else(default_threads, usize::from);
    let wanted = Wanted { block_bytes: header.block_size.bytes(), settling: vault.is_settling(), extent };
    let verifier = Verifier::new(survey, findings, &progress, interrupt, wanted);
    let mut walk = Walk::new(&verifier);
    let pool = Pool::new(interrupt.flag());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| pool.work());
        }
        for target in targets {
            match target {
                Target::Folder(folder) => walk.folder(&folder, &pool),
                Target::Item(folder, item) => walk.item(&folder, item, &pool),
            }
        }
        pool.close();
    });
    let is_whole = verifier.scrub().is_none_or(|scrub| scrub.is_from_the_beginning() && !scrub.is_over());
    if args.paths.is_empty() && is_whole && !interrupt.is_asked() {
        walk.leftovers(&store.root(), header);
        let stale =
            |path: &[u8], what| findings.add(Finding::new(path, &Error::Damaged(Damage::Stale(what))));
        vault.audit(&mut { stale }).map_err(|error| Failure::from(error).at(&args.vault))?;
    }
    progress.finish();
    let recovered = verifier.recovered(&vault.recovered());
    for copy in copies.iter().filter(|copy| copy.state.is_damage()) {
        findings.add(Finding::header(copy));
    }
    let (damage, unreadable) = findings.take();
    Ok(Document {
        schema: "strongroom.check/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        started: String::new(),
        duration_ns: 0,
        threads,
        interrupted: interrupt.is_asked(),
        paths: args.paths.iter().map(|path| path.display().to_string()).collect(),
        files: verifier.files(),
        directories: walk.counts.directories,
        symlinks: walk.counts.symlinks,
        others: walk.counts.others,
        bytes: verifier.bytes(),
        sample: verifier.sample().map(Sample::sampled),
        scrub: verifier.scrub().map(|scrub| scrub.scrubbed(verifier.files())),
        damage,
        unreadable,
        not_listed: findings.beyond(),
        leftovers: std::mem::take(&mut walk.leftovers),
        recovered,
        header_copies: copies.clone(),
        repair: None,
    })
}

/// Finds what the arguments name; the whole vault when they name nothing.
fn targets(survey: Survey<'_>, paths: &[PathBuf]) -> Result<Vec<Target>> {
    if paths.is_empty() {
        return Ok(vec![Target::Folder(survey.top())]);
    }
    paths.iter().map(|path| target(survey, path)).collect()
}

fn target(survey: Survey<'_>, path: &std::path::Path) -> Result<Target> {
    let missing = |error: strongroom_vault::Error| match error.is_not_found() {
        true => Failure::usage("the vault has no such file")
            .at(path)
            .hint("Name it by its path in the mount, from the mount's top."),
        false => Failure::from(error).at(path),
    };
    let mut folder = survey.top();
    let mut names = path.as_os_str().as_encoded_bytes().split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        if name.is_empty() || name == b"." {
            continue;
        }
        let item = survey.find(&folder, name).map_err(missing)?;
        if item.node.kind() != strongroom_store::Kind::Directory {
            return match names.peek() {
                None => Ok(Target::Item(folder, item)),
                Some(_) => Err(Failure::usage("not a directory").at(path)),
            };
        }
        folder = survey.enter(&folder, &item).map_err(missing)?;
    }
    Ok(Target::Folder(folder))
}
