//! One subject of the comparison, with its files, mounted when it is its turn.
//!
//! A subject may have variants, which are the same program with other mount options over the same store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Advice;
use rustix::process::Pid;

use crate::cpu::Used;
use crate::folder::data::{self, Sample};
use crate::folder::flame;
use crate::folder::mix;
use crate::folder::rows::{Action, STEPS, Step, Work};
use crate::work::Archive;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Subject};

/// No row keeps a mount in use for longer.
const MOUNT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A program with one set of mount options.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// Empty where there is only one.
    pub(super) name: String,
    pub(super) subject: Subject,
}

/// A subject, formatted and filled.
pub(super) struct Stage {
    variants: Vec<Variant>,
    vault: Vault,
    mount: Option<(usize, Mount)>,
    on_disk: bool,
    each: u64,
    /// What the daemon did in timed work, while that is recorded.
    recorded: Option<String>,
}

/// A sample and the CPU time for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) sample: Sample,
    pub(super) used: Used,
}

impl Stage {
    /// Formats a store below `base` and writes its files, of `each` bytes.
    pub(super) fn new(variants: Vec<Variant>, base: &Path, on_disk: bool, each: u64) -> Result<Self> {
        let first = variants.first().expect("a subject has a variant");
        let vault = Vault::create(&first.subject, base)?;
        let mut stage = Self { variants, vault, mount: None, on_disk, each, recorded: None };
        data::prepare(&stage.mounted(0)?, each)?;
        Ok(stage)
    }

    pub(super) fn kind(&self) -> Kind {
        self.vault.subject.kind()
    }

    pub(super) fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The plain tree, mounted with this variant's options.
    fn mounted(&mut self, variant: usize) -> Result<PathBuf> {
        if self.mount.as_ref().is_none_or(|(current, _)| *current != variant) {
            self.unmount()?;
            let vault =
                Vault { subject: self.variants[variant].subject.clone(), place: self.vault.place.clone() };
            self.mount = Some((variant, vault.mount(MountOptions::new(MOUNT_LIMIT))?));
        }
        Ok(self.vault.place.directory.clone())
    }

    /// Unmounts; also takes the ciphertext out of the page cache where that lies on a disk.
    fn unmount(&mut self) -> Result {
        if let Some((_, mount)) = self.mount.take() {
            mount.unmount()?;
        }
        if self.on_disk {
            evict(&self.vault.place.store)?;
        }
        Ok(())
    }

    fn remounted(&mut self, variant: usize) -> Result<PathBuf> {
        self.unmount()?;
        self.mounted(variant)
    }

    fn daemon(&self) -> Option<Pid> {
        self.mount.as_ref().and_then(|(_, mount)| mount.daemon())
    }

    /// Begins or ends recording what the daemon does in timed work; what was recorded so far.
    pub(super) fn record(&mut self, on: bool) -> String {
        std::mem::replace(&mut self.recorded, on.then(String::new)).unwrap_or_default()
    }

    /// Runs `work` and notes what the daemon and the CPUs did meanwhile.
    fn charged(&mut self, work: impl FnOnce() -> Result<Sample>) -> Result<Measured> {
        let daemon = self.daemon();
        if let (Some(recorded), Some(daemon)) = (&mut self.recorded, daemon) {
            let (sample, printed) = flame::recorded(daemon, work)?;
            recorded.push_str(&printed);
            return Ok(Measured { sample, used: Used::default() });
        }
        let before = Used::until_now(daemon)?;
        let sample = work()?;
        Ok(Measured { sample, used: Used::until_now(daemon)?.since(before) })
    }

    /// Ends the mount between two rows, so that no row goes on with what the one before left.
    pub(super) fn rest(&mut self) -> Result {
        self.unmount()
    }

    /// One cell, or for the steps on a tree one sample for each of them.
    ///
    /// Warm rows begin on a fresh mount too and read everything before they are timed: which pages of memory
    /// the kernel caches a file in makes a difference of 10 to 20 %, and a mount that lasts keeps its pages,
    /// so that one draw would decide all repeats.
    pub(super) fn run(
        &mut self,
        work: Work,
        variant: usize,
        budget: Duration,
        seed: u64,
        archive: &Archive,
    ) -> Result<Vec<Measured>> {
        match work {
            Work::Data(row) => {
                let directory = match row.action {
                    Action::ReadCold | Action::ReadWarm => self.remounted(variant)?,
                    Action::Write | Action::Overwrite => self.mounted(variant)?,
                };
                let each = self.each;
                if row.action == Action::ReadWarm {
                    data::warm(&directory, each)?;
                }
                Ok(vec![self.charged(|| data::run(&directory, each, row, budget, seed))?])
            }
            Work::Mix(profile, jobs) => {
                let directory = self.mounted(variant)?;
                let daemon = self.daemon();
                let mut marks = Vec::with_capacity(2);
                let sample = mix::run(&directory, profile, jobs, budget, || {
                    marks.push(Used::until_now(daemon)?);
                    Ok(())
                })?;
                Ok(vec![Measured { sample, used: marks[1].since(marks[0]) }])
            }
            Work::Step(_) => STEPS.iter().map(|(step, ..)| self.step(*step, variant, archive)).collect(),
        }
    }

    /// One step on a tree.
    pub(super) fn step(&mut self, step: Step, variant: usize, archive: &Archive) -> Result<Measured> {
        let directory = match step {
            Step::Unpack | Step::ListWarm | Step::Remove => self.mounted(variant)?,
            Step::ListCold | Step::ReadCold => self.remounted(variant)?,
            Step::GitStatusCold => {
                archive.track(&self.mounted(variant)?)?;
                self.remounted(variant)?
            }
        };
        self.charged(|| match step {
            Step::Unpack => archive.unpack_sample(&directory),
            Step::ListCold | Step::ListWarm => archive.list_sample(&directory),
            Step::ReadCold => archive.read_sample(&directory),
            Step::GitStatusCold => archive.status_sample(&directory),
            Step::Remove => archive.remove_sample(&directory),
        })
    }
}

/// Takes every file below `directory` out of the page cache, after it was written back.
fn evict(directory: &Path) -> Result {
    rustix::fs::syncfs(File::open(directory)?)?;
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).context(directory.display())? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                rustix::fs::fadvise(File::open(entry.path())?, 0, None, Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicting_leaves_the_files_as_they_were() -> Result {
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("below"))?;
        fs::write(directory.path().join("below/file"), b"contents")?;
        evict(directory.path())?;
        assert_eq!(fs::read(directory.path().join("below/file"))?, b"contents");
        Ok(())
    }
}
