//! One subject of the comparison, with its files, mounted when it is its turn.
//!
//! A subject may have variants, which are the same program with other mount options over the same store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Advice;
use rustix::process::Pid;

use crate::bench::folder::data::{self, Sample};
use crate::bench::folder::flame;
use crate::bench::folder::mix;
use crate::bench::folder::rows::{Action, STEPS, Step, Work};
use crate::bench::work::Archive;
use crate::failure::{Context, Failure, Result};
use crate::subject::mount::{Mount, MountOptions};
use crate::subject::vault::Vault;
use crate::subject::{Kind, Subject};

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

/// A sample and the daemon's CPU time for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) sample: Sample,
    pub(super) cpu_seconds: f64,
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

    /// Runs `work` and notes what the daemon's threads used meanwhile.
    fn charged(&mut self, work: impl FnOnce() -> Result<Sample>) -> Result<Measured> {
        let daemon = self.daemon();
        if let (Some(recorded), Some(daemon)) = (&mut self.recorded, daemon) {
            let (sample, printed) = flame::recorded(daemon, work)?;
            recorded.push_str(&printed);
            return Ok(Measured { sample, cpu_seconds: 0.0 });
        }
        let before = cpu_seconds(daemon)?;
        let sample = work()?;
        Ok(Measured { sample, cpu_seconds: cpu_seconds(daemon)? - before })
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
                    marks.push(cpu_seconds(daemon)?);
                    Ok(())
                })?;
                Ok(vec![Measured { sample, cpu_seconds: marks[1] - marks[0] }])
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

/// What all threads of a process have used, those that ended included (proc(5), stat). The kernel's own
/// workers for its io_uring are threads of the process too.
pub(in crate::bench) fn cpu_seconds(daemon: Option<Pid>) -> Result<f64> {
    let Some(pid) = daemon else { return Ok(0.0) };
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = fs::read_to_string(&path).context(&path)?;
    let ticks = ticks(&stat).ok_or_else(|| Failure::new(format!("{path} is not understood")))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time are the 14th and 15th field; the name in the second may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 5 6 20 0 1 0 100 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a"), None);
        assert!(cpu_seconds(Some(rustix::process::getpid())).is_ok());
    }

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
