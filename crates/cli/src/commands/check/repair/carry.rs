//! Carrying out a plan. What fails is noted, and the rest goes on.
//!
//! First everything that is a rename, while no session is listed; then, in a
//! session of its own, files that were moved are bound to their new names.

use std::sync::Arc;

use strongroom_format::vault::DirectoryId;
use strongroom_vault::error::errno::ENOTEMPTY;
use strongroom_vault::namespace::ROOT;
use strongroom_vault::namespace::repair::{LostFound, Repairer};
use strongroom_vault::namespace::survey::{Folder, joined};
use strongroom_vault::{Error, Vault, write_header};

use super::StepReport;
use super::plan::{Step, repairer};
use crate::commands::check::Subject;
use crate::commands::check::facts::{Adoptable, Misplaced};
use crate::failure::Result;
use crate::tree::{Interrupt, options};

/// A file to be bound: its step, and its plain path.
struct Unbound {
    step: usize,
    path: Vec<Vec<u8>>,
}

/// Carries out the steps, and notes in the reports what became of them. When
/// the user wants it to end, those that were not begun stay planned.
///
/// # Errors
/// When the vault cannot be opened for binding files.
pub(super) fn carry_out(
    subject: &mut Subject,
    steps: &[Step],
    reports: &mut [StepReport],
    interrupt: &Interrupt,
) -> Result<()> {
    let repairer = repairer(subject);
    let mut carrier = Carrier {
        subject,
        interrupt,
        repairer,
        lost_found: None,
        unbound: Vec::new(),
        adoptable: Vec::new(),
        merged: Vec::new(),
    };
    for (index, step) in steps.iter().enumerate() {
        if interrupt.is_asked() {
            break;
        }
        match carrier.step(index, step) {
            Ok(to) => {
                reports[index].outcome = "done";
                if let Some(to) = to {
                    reports[index].to = Some(String::from_utf8_lossy(&to).into_owned());
                }
            }
            Err(error) => note_failure(&mut reports[index], &error),
        }
    }
    carrier.bind(reports)
}

/// The home of a directory; of one that is going to be moved, and gets one
/// then, nothing.
fn home_of(folder: &Folder) -> [u8; 16] {
    folder.home.unwrap_or_default()
}

fn note_failure(report: &mut StepReport, error: &Error) {
    report.outcome = "failed";
    report.error = Some(error.to_string());
}

struct Carrier<'a> {
    subject: &'a mut Subject,
    interrupt: &'a Interrupt,
    repairer: Repairer,
    lost_found: Option<LostFound>,
    unbound: Vec<Unbound>,
    adoptable: Vec<(usize, Adoptable)>,
    merged: Vec<(usize, Folder, DirectoryId)>,
}

impl Carrier<'_> {
    /// Does one step; gives the plain path where an entry has gone, if that
    /// was not known before.
    fn step(&mut self, index: usize, step: &Step) -> std::result::Result<Option<Vec<u8>>, Error> {
        match step {
            Step::Header => {
                let mut header = self.subject.header.clone();
                write_header(&*self.subject.store, &mut header, &self.subject.root)?;
            }
            // What stands under the other id comes first.
            Step::Record { folder, id } if !folder.others.is_empty() => {
                self.merged.push((index, folder.clone(), *id));
            }
            Step::Adopt(entry) => self.adoptable.push((index, entry.clone())),
            Step::Record { folder, id } => {
                self.repairer.restore_record(&folder.node, *id, home_of(folder))?
            }
            Step::NewRecord { folder } => self.repairer.renew_record(&folder.node, home_of(folder))?,
            Step::Foreign { folder, stored } => {
                return self.repairer.set_foreign_aside(&folder.node, stored).map(Some);
            }
            Step::LongName { folder, id, name } => self.repairer.restore_side(&folder.node, *id, name)?,
            Step::Exchange { one, other } => {
                let (from, to) = (&one.folder.node, &other.folder.node);
                self.repairer.exchange((from, &one.item.stored), (to, &other.item.stored))?;
            }
            Step::MoveBack { entry, to, id, name } => {
                let (from, stored) = (&entry.folder.node, &entry.item.stored);
                self.repairer.move_entry(from, stored, (&to.node, *id), name, false)?;
            }
            Step::LostFound { entry, name } => {
                let to = self.lost_found()?;
                let (from, stored) = (&entry.folder.node, &entry.item.stored);
                let name = self.repairer.move_entry(from, stored, (&to.node, to.id), name, true)?;
                let path = vec![to.name.clone(), name];
                let plain = path.join(&b'/');
                self.bind_later(index, entry, path);
                return Ok(Some(plain));
            }
            Step::Bind { entry } => {
                let name = match &entry.item.name {
                    strongroom_vault::namespace::survey::Named::Plain(name) => name.clone(),
                    _ => return Ok(None),
                };
                let mut path: Vec<Vec<u8>> =
                    entry.folder.plain.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect();
                path.push(name);
                self.bind_later(index, entry, path);
            }
        }
        Ok(None)
    }

    fn bind_later(&mut self, step: usize, entry: &Misplaced, path: Vec<Vec<u8>>) {
        if entry.is_bound() {
            self.unbound.push(Unbound { step, path });
        }
    }

    fn lost_found(&mut self) -> std::result::Result<LostFound, Error> {
        match &self.lost_found {
            Some(found) => Ok(found.clone()),
            None => {
                let made = self.repairer.lost_found()?;
                Ok(self.lost_found.insert(made).clone())
            }
        }
    }

    /// Binds the files that were moved to their new names, and gives those of
    /// their own to what synchronisation programs have left.
    fn bind(mut self, reports: &mut [StepReport]) -> Result<()> {
        self.subject.reread()?;
        if self.interrupt.is_asked() {
            let later = self.adoptable.drain(..).map(|(step, _)| step);
            let later = later.chain(self.merged.drain(..).map(|(step, ..)| step));
            later.for_each(|step| reports[step].outcome = "planned");
        }
        if self.unbound.is_empty() && self.adoptable.is_empty() {
            self.merge(reports);
            return Ok(());
        }
        let Subject { store, header, root, .. } = &*self.subject;
        let (store, header, root) = (Arc::clone(store), header.clone(), root.duplicate());
        let engine = crate::compose::compose(None)?;
        let vault = Vault::open(store, engine, header, root, &options(true))?;
        for unbound in &self.unbound {
            if let Err(error) = bind(&vault, &unbound.path) {
                note_failure(&mut reports[unbound.step], &error);
            }
        }
        for (step, entry) in &self.adoptable {
            if self.interrupt.is_asked() {
                reports[*step].outcome = "planned";
                continue;
            }
            match adopt(&vault, entry) {
                Ok(name) => {
                    let to = joined(&entry.folder.plain, &name);
                    reports[*step].to = Some(String::from_utf8_lossy(&to).into_owned());
                }
                Err(error) => note_failure(&mut reports[*step], &error),
            }
        }
        vault.close()?;
        self.merge(reports);
        self.subject.reread()
    }

    /// Directories that were two get one record, once nothing stands under the
    /// other id any more.
    fn merge(&self, reports: &mut [StepReport]) {
        for (step, folder, id) in &self.merged {
            let is_other = |entry: &Adoptable| entry.folder.stored == folder.stored && entry.other.is_some();
            let is_left = self
                .adoptable
                .iter()
                .any(|(step, entry)| is_other(entry) && reports[*step].outcome != "done");
            if is_left && self.interrupt.is_asked() {
                reports[*step].outcome = "planned";
                continue;
            }
            let restored = match is_left {
                true => Err(Error::Refused(ENOTEMPTY)),
                false => self.repairer.restore_record(&folder.node, *id, home_of(folder)),
            };
            if let Err(error) = restored {
                note_failure(&mut reports[*step], &error);
            }
        }
    }
}

fn adopt(vault: &Vault, entry: &Adoptable) -> std::result::Result<Vec<u8>, Error> {
    let names = vault.namespace();
    let mut number = ROOT;
    for name in entry.folder.plain.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        number = names.lookup(number, name)?.number;
    }
    match entry.other {
        Some(other) => names.adopt_entry(number, &entry.stored, other, &entry.name),
        None => names.adopt_copy(number, &entry.stored, &entry.of, &entry.name),
    }
}

fn bind(vault: &Vault, path: &[Vec<u8>]) -> std::result::Result<(), Error> {
    let names = vault.namespace();
    let mut number = ROOT;
    for name in path {
        number = names.lookup(number, name)?.number;
    }
    names.rebind(number)
}
