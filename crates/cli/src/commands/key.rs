//! `key`: what opens a vault. The header alone is rewritten, never data.

use std::path::Path;

use serde::Serialize;
use strongroom_format::vault::header::{Header, SLOTS};
use strongroom_keys::slots::{add_slot, change_slot, list_slots, remove_slot};
use strongroom_keys::unlock::UnlockError;
use strongroom_keys::{Credential, RecoveryKey};
use strongroom_store::local::OpenMode;
use strongroom_vault::write_header;

use super::cost::{short_password, slot_options};
use super::slots::{self, SlotReport};
use crate::args::history::HistoryArgs;
use crate::args::secret::{NewSecretArgs, SecretArgs};
use crate::args::values::RecoveryOut;
use crate::args::vault::{KeyAddArgs, KeyChangeArgs, KeyRemoveArgs};
use crate::args::{InfoArgs, KeyCommand};
use crate::failure::{Exit, Failure, Result};
use crate::history::History;
use crate::lock::{LockMode, VaultLock};
use crate::report::Output;
use crate::secrets::{RecoveryTarget, confirm};
use crate::unlock::{LockedVault, Unlocked};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    vault_id: String,
    authenticated: bool,
    /// The slot that was added, changed or removed.
    slot: Option<usize>,
    slots: Vec<SlotReport>,
}

/// Carries out a `key` command.
///
/// # Errors
/// In use while the vault is mounted, and as unlocking.
pub(crate) fn run(command: &KeyCommand, output: Output) -> Result<Exit> {
    match command {
        KeyCommand::List(args) => list(args, output),
        KeyCommand::Add(args) => add(args, output),
        KeyCommand::Remove(args) => remove(args, output),
        KeyCommand::Change(args) => change(args, output),
        KeyCommand::Recipient(args) => super::file::keys::recipient(args, output),
    }
}

fn list(args: &InfoArgs, output: Output) -> Result<Exit> {
    let header = super::info::read(args, output)?.header;
    print(&args.vault, &header, None, args.secret.is_given(), output, "")
}

fn print(
    vault: &Path,
    header: &Header,
    slot: Option<usize>,
    authenticated: bool,
    output: Output,
    done: &str,
) -> Result<Exit> {
    let document = Document {
        schema: "strongroom.key-list/1",
        vault: vault.display().to_string(),
        vault_id: header.vault.to_string(),
        authenticated,
        slot,
        slots: slots::reports(header),
    };
    output.print_at_width(&document, |document, display| {
        format!("{done}{}", slots::table(&document.slots, display))
    })?;
    Ok(Exit::Done)
}

/// A vault that nobody else uses, opened to have its header changed.
struct Changing {
    unlocked: Unlocked,
    credential: Credential,
    history: History,
    output: Output,
    _lock: Option<VaultLock>,
}

impl Changing {
    fn begin(
        vault: &Path,
        secret: &SecretArgs,
        history: &HistoryArgs,
        purpose: &str,
        output: Output,
    ) -> Result<Changing> {
        // A first look before the lock's file is made in what is no vault.
        LockedVault::open(vault, OpenMode::Writable)?;
        VaultLock::settle(vault, output);
        let refused = |error| Failure::from(error).at(vault);
        let mut lock = VaultLock::acquire(vault, LockMode::Exclusive, purpose, None).map_err(refused)?;
        let locked = LockedVault::open(vault, OpenMode::Writable)?;
        let (source, history) = (secret.source(), History::of(history));
        locked.check_slots(vault, &source, &history)?;
        let credential = source.read(&format!("Password of {}", vault.display()))?;
        let unlocked = locked.unlock_for_use(vault, &credential, &history, output)?;
        if let Some(lock) = &mut lock {
            lock.tell(&unlocked.root, unlocked.header.vault).map_err(refused)?;
        }
        Ok(Changing { unlocked, credential, history, output, _lock: lock })
    }

    fn write(&mut self, vault: &Path) -> Result<()> {
        let Unlocked { store, header, root, .. } = &mut self.unlocked;
        write_header(&**store, header, root).map_err(|error| Failure::from(error).at(vault))?;
        self.history.remember(header, self.output);
        Ok(())
    }
}

fn add(args: &KeyAddArgs, output: Output) -> Result<Exit> {
    check_new(&args.new)?;
    let mut changing = Changing::begin(&args.vault, &args.secret, &args.history, "key add", output)?;
    let new = NewSecret::read(&args.new, &args.vault, output)?;
    let options = slot_options(&new.credential, &args.cost, &args.label)?;
    let Unlocked { header, root, .. } = &mut changing.unlocked;
    let slot = add_slot(header, root, &new.credential, &options)?;
    new.store(|| changing.write(&args.vault))?;
    let header = &changing.unlocked.header;
    print(&args.vault, header, Some(slot), true, output, &format!("Added slot {slot}.\n"))
}

fn remove(args: &KeyRemoveArgs, output: Output) -> Result<Exit> {
    let mut changing = Changing::begin(&args.vault, &args.secret, &args.history, "key remove", output)?;
    let Unlocked { header, root, .. } = &mut changing.unlocked;
    remove_slot(header, root, args.slot)?;
    changing.write(&args.vault)?;
    let header = &changing.unlocked.header;
    print(&args.vault, header, Some(args.slot), true, output, &format!("Removed slot {}.\n", args.slot))
}

const NAME_SLOT: &str = "Name the slot that is to be changed with --slot: `strongroom key list` shows them.";

fn change(args: &KeyChangeArgs, output: Output) -> Result<Exit> {
    check_new(&args.new)?;
    let mut changing = Changing::begin(&args.vault, &args.secret, &args.history, "key change", output)?;
    let slot = match args.slot {
        Some(slot) => slot,
        None => opened_by(&changing.unlocked.header, &changing.credential)?,
    };
    // Whoever has forgotten a password opens with the recovery key, and means
    // the password.
    if args.slot.is_none() && matches!(changing.credential, Credential::Recovery(_)) {
        let question = format!("Slot {slot} is the recovery key that opened the vault. Replace it?");
        if !confirm(&question, NAME_SLOT)? {
            return Err(Failure::usage("nothing was changed").hint(NAME_SLOT));
        }
    }
    if !output.json {
        crate::report::tell(&format!("Changing slot {slot}."));
    }
    let old = changing.unlocked.header.slots.get(slot).and_then(Option::as_ref);
    let old = old.ok_or(strongroom_keys::slots::SlotError::Empty { index: slot })?;
    let old = old.known().map(|old| old.label.as_str());
    let label = args.label.clone().unwrap_or_else(|| old.unwrap_or_default().to_owned());
    let new = NewSecret::read(&args.new, &args.vault, output)?;
    let options = slot_options(&new.credential, &args.cost, &label)?;
    let Unlocked { header, root, .. } = &mut changing.unlocked;
    change_slot(header, root, slot, &new.credential, &options)?;
    new.store(|| changing.write(&args.vault))?;
    let header = &changing.unlocked.header;
    print(&args.vault, header, Some(slot), true, output, &format!("Changed slot {slot}.\n"))
}

/// The slot that a secret opens, which it does. Of several slots of its kind
/// each is tried alone, which costs the KDF again.
fn opened_by(header: &Header, credential: &Credential) -> Result<usize> {
    let alike = list_slots(header).filter(|(_, slot)| slot.kind == credential.kind());
    let alike: Vec<usize> = alike.map(|(index, _)| index).collect();
    let opens = |index: usize| {
        let mut alone = header.clone();
        alone.slots = [const { None }; SLOTS];
        alone.slots[index] = header.slots[index].clone();
        // The header's MAC does not fit it any more: what is asked here is
        // whether the slot opens.
        let opened = strongroom_keys::unlock(&alone, credential);
        matches!(opened, Ok(_) | Err(UnlockError::Damaged(_)))
    };
    match alike[..] {
        [only] => Ok(only),
        _ => alike.into_iter().find(|&index| opens(index)).ok_or_else(|| {
            Failure::new(Exit::WrongSecret, "no slot opens with the secret")
                .hint("Name the slot with --slot.")
        }),
    }
}

fn check_new(args: &NewSecretArgs) -> Result<()> {
    match args.recovery_out() {
        Some(RecoveryOut::None) => Err(Failure::usage("--new-recovery-out none makes no key")
            .hint("Name a file, or - for the terminal.")),
        Some(out) => RecoveryTarget::check(Some(out)),
        None => Ok(()),
    }
}

/// What shall open a slot, and where it is still to be written.
struct NewSecret<'a> {
    credential: Credential,
    recovery: Option<(&'a RecoveryOut, RecoveryKey)>,
}

impl<'a> NewSecret<'a> {
    fn read(args: &'a NewSecretArgs, vault: &Path, output: Output) -> Result<NewSecret<'a>> {
        let Some(out) = args.recovery_out() else {
            let credential = args.source().read_new(&format!("New password of {}", vault.display()))?;
            if let Some(remark) = short_password(&credential) {
                output.warn(remark);
            }
            return Ok(NewSecret { credential, recovery: None });
        };
        let key = RecoveryKey::random()?;
        let copy = RecoveryKey::parse(key.to_text().expose()).expect("a key reads back as it is printed");
        Ok(NewSecret { credential: Credential::Recovery(copy), recovery: Some((out, key)) })
    }

    /// Runs `write`, which makes the slot; a new recovery key is written
    /// before it, so that none is in the header which nobody has.
    fn store(self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some((out, key)) = self.recovery else { return write() };
        let target = RecoveryTarget::open(Some(out))?;
        let mut target = target.expect("`none` has been refused before");
        let written = target.write(&key).and_then(|()| write());
        if written.is_err()
            && let Some(path) = target.path()
        {
            let _ = std::fs::remove_file(path);
        }
        written
    }
}
