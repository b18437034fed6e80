//! Carrying out a plan. What fails is noted, and the rest goes on.
//!
//! First everything that is a rename, while no session is listed; then, in a
//! session of its own, files that were moved are bound to their new names.

use std::sync::Arc;

use strongroom_store::Kind;
use strongroom_vault::namespace::repair::{LostFound, Repairer};
use strongroom_vault::namespace::survey::Folder;
use strongroom_vault::namespace::{ROOT, Unobserved};
use strongroom_vault::{Error, Vault, write_header};

use super::StepReport;
use super::plan::{Step, repairer};
use crate::commands::check::Subject;
use crate::commands::check::facts::Misplaced;
use crate::failure::Result;
use crate::tree::options;

/// A file to be bound: its step, and its plain path.
struct Unbound {
    step: usize,
    path: Vec<Vec<u8>>,
}

/// Carries out the steps, and notes in the reports what became of them.
///
/// # Errors
/// When the vault cannot be opened for binding files.
pub(super) fn carry_out(subject: &mut Subject, steps: &[Step], reports: &mut [StepReport]) -> Result<()> {
    let repairer = repairer(subject);
    let mut carrier = Carrier { subject, repairer, lost_found: None, unbound: Vec::new() };
    for (index, step) in steps.iter().enumerate() {
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
    repairer: Repairer,
    lost_found: Option<LostFound>,
    unbound: Vec<Unbound>,
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
        if entry.item.node.kind() == Kind::File && !entry.is_linked && entry.is_whole {
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

    /// Binds the files that were moved to their new names.
    fn bind(self, reports: &mut [StepReport]) -> Result<()> {
        self.subject.reread()?;
        if self.unbound.is_empty() {
            return Ok(());
        }
        let Subject { store, header, root, .. } = &*self.subject;
        let (store, header, root) = (Arc::clone(store), header.clone(), root.duplicate());
        let engine = crate::compose::compose(None)?;
        let vault = Vault::open(store, engine, header, root, &options(true), Arc::new(Unobserved))?;
        for unbound in &self.unbound {
            if let Err(error) = bind(&vault, &unbound.path) {
                note_failure(&mut reports[unbound.step], &error);
            }
        }
        vault.close()?;
        self.subject.reread()
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
