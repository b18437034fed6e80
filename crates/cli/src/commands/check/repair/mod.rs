//! `check --repair`: what was found is put in order as far as there is a
//! second copy or a proof of what belongs there (`docs/repair.md`).
//!
//! First a session that did not end cleanly is recovered, as any mount for
//! writing would. Then follow the check, a plan, a question, the plan step by
//! step, and a second look at everything but contents.

mod carry;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use strongroom_vault::{Damage, OpenOptions, Vault};

use self::carry::carry_out;
use self::plan::Step;
use super::Subject;
use super::facts::Fact;
use super::findings::{Document, Finding, Findings};
use super::verify::Extent;
use crate::args::CheckArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, shown};
use crate::secrets::confirm;
use crate::tree::{Interrupt, open_read_only, options};

/// What to do where nobody can be asked.
const UNASKED: &str = "Say --yes to repair without being asked.";

/// What was done.
#[derive(Serialize)]
pub(super) struct Repair {
    /// The plan was carried out, as far as it could be.
    #[serde(rename = "done")]
    pub(super) is_done: bool,
    /// The plan.
    steps: Vec<StepReport>,
    /// What is still damaged.
    pub(super) remaining: Vec<Finding>,
    /// The user ended it before everything was done; what remains was not
    /// looked at again.
    #[serde(skip)]
    pub(super) is_interrupted: bool,
}

/// A step of the plan, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StepReport {
    /// A stable name.
    action: &'static str,
    /// Plain path of what is repaired, or of its directory.
    path: String,
    /// Stored path.
    stored: Option<String>,
    /// Plain path under which it is afterwards.
    to: Option<String>,
    /// `planned`, `done` or `failed`.
    outcome: &'static str,
    /// Why it failed.
    error: Option<String>,
}

impl StepReport {
    fn line(&self) -> String {
        let path = if self.path.is_empty() { "/".to_owned() } else { shown(self.path.as_bytes()) };
        let to = self.to.as_deref().map(|to| shown(to.as_bytes())).unwrap_or_default();
        let mut line = match self.action {
            "recover" => "bring home what a session that did not end cleanly has left".to_owned(),
            "header" => "write both copies of the header".to_owned(),
            "record" => format!("{path}: write the directory's record again"),
            "new-record" => format!("{path}: give the empty directory a new record"),
            "long-name" => format!("{to}: write the long name again"),
            "move-back" => format!("{to}: move back to its place"),
            "exchange" => format!("{path} and {to}: exchange, each is in the other's place"),
            "lost-found" => format!("{path}: move what has no place there to {to}"),
            "adopt" => {
                format!("{path}: give what a synchronisation program has left a name of its own, {to}")
            }
            "foreign" if to.is_empty() => format!("{path}: move what is not the vault's aside"),
            "foreign" => format!("{path}: move what is not the vault's aside, to {to}"),
            _ => format!("{path}: bind it to its name"),
        };
        if let Some(stored) = &self.stored {
            let _ = write!(line, " (stored as {})", shown(stored.as_bytes()));
        }
        line
    }
}

impl Repair {
    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for step in self.steps.iter().filter(|step| step.outcome != "planned") {
            let outcome = if step.outcome == "done" { "repaired" } else { "NOT repaired" };
            let _ = write!(text, "{outcome}: {}", step.line());
            if let Some(error) = &step.error {
                let _ = write!(text, ": {}", shown(error.as_bytes()));
            }
            text.push('\n');
        }
        match (self.is_done, self.remaining.len()) {
            (false, _) => text.push_str("Nothing was repaired.\n"),
            (true, _) if self.is_interrupted => text.push_str(
                "Interrupted: what is not listed as repaired may still be damaged. Repair again.\n",
            ),
            (true, 0) => text.push_str("Everything was repaired.\n"),
            (true, count) => {
                let _ = writeln!(text, "Still damaged ({count}):");
                for finding in &self.remaining {
                    let _ = writeln!(text, "{}", finding.line());
                }
            }
        }
        text
    }
}

/// What recovery has done before the check.
#[derive(Default)]
pub(super) struct Recovery {
    steps: Vec<StepReport>,
    /// What the damaged journals held is lost.
    findings: Vec<Finding>,
}

/// Recovers sessions that did not end cleanly. A damaged journal is asked for
/// first, since what its records say behind the damage is given up.
///
/// # Errors
/// Usage when nobody can be asked, damage when the answer is no, or what the
/// store reports.
pub(super) fn recover(args: &CheckArgs, subject: &mut Subject, output: Output) -> Result<Option<Recovery>> {
    if subject.header.sessions.iter().flatten().next().is_none() {
        return Ok(None);
    }
    let failed = |failure: Failure| failure.at(&args.vault);
    let damage = open_read_only(Arc::clone(&subject.store), &subject.header, subject.root.duplicate())
        .map_err(failed)?
        .damage()
        .to_vec();
    if !damage.is_empty() && !args.history.yes && !may_give_up(&damage)? {
        let failure = Failure::new(Exit::Damage, "the journal is damaged, and nothing was repaired");
        return Err(failed(failure));
    }
    let (store, header) = (Arc::clone(&subject.store), subject.header.clone());
    let (engine, root) = (crate::compose::compose(None)?, subject.root.duplicate());
    let options = OpenOptions { damaged_journals: true, ..options(true) };
    let vault = Vault::open(store, engine, header, root, &options)?;
    vault.settle()?;
    vault.close()?;
    let mut recovery = Recovery::default();
    let done = |action| StepReport {
        action,
        path: String::new(),
        stored: None,
        to: None,
        outcome: "done",
        error: None,
    };
    if subject.has_damaged_copy() {
        let copies = subject.copies.iter().filter(|copy| copy.state.is_damage());
        recovery.findings.extend(copies.map(Finding::header));
        recovery.steps.push(done("header"));
    }
    if !damage.is_empty() {
        recovery.findings.extend(damage.iter().map(Finding::journal));
        recovery.steps.push(done("recover"));
    }
    if !output.json {
        crate::report::tell("Recovered what a session that did not end cleanly has left.");
    }
    subject.reread().map_err(failed)?;
    Ok(Some(recovery))
}

fn may_give_up(damage: &[Damage]) -> Result<bool> {
    for damage in damage {
        crate::report::tell(&format!("{damage}."));
    }
    crate::report::tell(
        "What the records before it say is kept. What it and later ones say is lost already.",
    );
    confirm("Go on without it, and keep the journal in .strongroom/aside?", UNASKED)
}

/// Plans, asks, and repairs; none when nothing is damaged.
///
/// # Errors
/// Usage when nobody can be asked. What fails in single steps is reported and
/// no error.
pub(super) fn run(
    args: &CheckArgs,
    subject: &mut Subject,
    document: &Document,
    facts: Vec<Fact>,
    recovery: Option<Recovery>,
    interrupt: &Interrupt,
    output: Output,
) -> Result<Option<Repair>> {
    let Recovery { steps: recovered, findings: given_up } = recovery.unwrap_or_default();
    if document.damage.is_empty() && recovered.is_empty() {
        return Ok(None);
    }
    let steps = plan::plan(subject, facts)?;
    let mut reports: Vec<StepReport> = steps.iter().map(Step::report).collect();
    if !reports.is_empty() && !args.history.yes {
        if !output.json {
            document.damage.iter().for_each(|finding| crate::report::tell(&finding.line()));
        }
        crate::report::tell("\nTo be repaired:");
        reports.iter().for_each(|report| crate::report::tell(&format!("  {}", report.line())));
        if !confirm("Go on?", UNASKED)? {
            let remaining = document.damage.clone();
            return Ok(Some(Repair { is_done: false, steps: reports, remaining, is_interrupted: false }));
        }
    }
    let mut remaining = document.damage.clone();
    if !reports.is_empty() {
        carry_out(subject, &steps, &mut reports, interrupt)?;
        let findings = Findings::new(false);
        let after = super::check(args, subject, &findings, interrupt, Extent::Names)?;
        // A look that was interrupted says nothing of what it did not reach.
        if !interrupt.is_asked() {
            remaining.retain(|finding| !finding.is_structural());
        }
        remaining.extend(after.damage);
        remaining.sort();
        remaining.dedup();
    }
    let is_interrupted = interrupt.is_asked() && !reports.is_empty();
    // What a damaged journal held is gone, although nothing shows it now.
    remaining.extend(given_up.into_iter().filter(Finding::is_lost_journal));
    let steps = recovered.into_iter().chain(reports).collect();
    Ok(Some(Repair { is_done: true, steps, remaining, is_interrupted }))
}
