//! What has been measured, one JSON line for each sample, so that a run that was stopped can go on.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use strongroom_harness::failure::{Context, Result, ensure};

/// One sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// `tmpfs` or `disk`.
    pub(super) store: String,
    pub(super) row: String,
    pub(super) subject: String,
    /// Which mount options; empty where there are no others.
    pub(super) variant: String,
    pub(super) repeat: usize,
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    /// Of the daemon.
    pub(super) cpu_seconds: f64,
    /// Of all CPUs together.
    pub(super) busy_seconds: f64,
    pub(super) idle_seconds: f64,
}

impl Record {
    /// Bytes per second, or operations where the row moves none.
    pub(super) fn rate(&self) -> f64 {
        let work = if self.bytes > 0 { self.bytes } else { self.operations };
        work as f64 / self.seconds
    }
}

type Place = (String, String, String, String, usize);

/// The file of samples.
pub(super) struct State {
    path: PathBuf,
    file: File,
    records: Vec<Record>,
    known: HashSet<Place>,
}

impl State {
    /// Goes on with the samples in `path`, or begins.
    ///
    /// # Errors
    /// The file was made with other settings than `settings`.
    pub(super) fn open(path: &Path, settings: &str, fresh: bool) -> Result<Self> {
        if fresh && path.exists() {
            fs::remove_file(path).context(path.display())?;
        }
        let text =
            if path.exists() { fs::read_to_string(path).context(path.display())? } else { String::new() };
        let mut file = File::options().create(true).append(true).open(path).context(path.display())?;
        let mut lines = text.lines();
        match lines.next() {
            None => writeln!(file, "{settings}")?,
            Some(found) => ensure!(
                found == settings,
                "{} is of a run with other settings or versions:\n  there: {found}\n  now:   {settings}\n\
                 Say --fresh to begin anew, or name another file with --state",
                path.display()
            ),
        }
        let mut state = Self { path: path.to_path_buf(), file, records: Vec::new(), known: HashSet::new() };
        // A last line that was cut short is measured again.
        let whole = if text.ends_with('\n') { usize::MAX } else { text.lines().count().saturating_sub(2) };
        for line in lines.take(whole) {
            state.note(serde_json::from_str(line).context(path.display())?);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(state.file)?;
            state.rewrite(settings)?;
        }
        Ok(state)
    }

    fn rewrite(&mut self, settings: &str) -> Result {
        let mut text = format!("{settings}\n");
        for record in &self.records {
            text.push_str(&serde_json::to_string(record)?);
            text.push('\n');
        }
        fs::write(&self.path, text).context(self.path.display())?;
        self.file = File::options().append(true).open(&self.path)?;
        Ok(())
    }

    pub(super) fn has(&self, store: &str, row: &str, subject: &str, variant: &str, repeat: usize) -> bool {
        self.known.contains(&(store.into(), row.into(), subject.into(), variant.into(), repeat))
    }

    pub(super) fn add(&mut self, record: Record) -> Result {
        writeln!(self.file, "{}", serde_json::to_string(&record)?).context(self.path.display())?;
        self.note(record);
        Ok(())
    }

    fn note(&mut self, record: Record) {
        let place = (
            record.store.clone(),
            record.row.clone(),
            record.subject.clone(),
            record.variant.clone(),
            record.repeat,
        );
        if self.known.insert(place) {
            self.records.push(record);
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(repeat: usize) -> Record {
        Record {
            store: "tmpfs".into(),
            row: "unpack".into(),
            subject: "encfs".into(),
            variant: String::new(),
            repeat,
            seconds: 2.0,
            bytes: 0,
            operations: 10,
            cpu_seconds: 0.5,
            busy_seconds: 3.0,
            idle_seconds: 1.0,
        }
    }

    #[test]
    fn a_run_goes_on_where_it_was_cut() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("state");
        let mut state = State::open(&path, "{\"a\":1}", false)?;
        state.add(record(0))?;
        state.add(record(1))?;
        drop(state);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, &text[..text.len() - 5])?;
        let mut state = State::open(&path, "{\"a\":1}", false)?;
        assert!(
            state.has("tmpfs", "unpack", "encfs", "", 0) && !state.has("tmpfs", "unpack", "encfs", "", 1)
        );
        state.add(record(1))?;
        let state = State::open(&path, "{\"a\":1}", false)?;
        assert_eq!(state.records(), [record(0), record(1)]);
        assert_eq!(state.records()[0].rate(), 5.0);
        assert!(State::open(&path, "{\"a\":2}", false).is_err());
        assert!(State::open(&path, "{\"a\":2}", true)?.records().is_empty());
        Ok(())
    }
}
