//! Counts of a suite's checks, and its one-line summary.

/// What one suite came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    /// What failed, one text each; its first line says which check and why.
    pub(crate) failures: Vec<String>,
    /// Failures are what was hoped for: a fault was planted, to see that it is noticed.
    pub(crate) planted: bool,
}

impl Tally {
    /// Of checks on something with a planted fault, whose failures are no news.
    pub(crate) fn planted() -> Self {
        Self { planted: true, ..Self::default() }
    }

    /// Counts one check and prints a failure at once.
    pub(crate) fn count(&mut self, name: &str, outcome: crate::failure::Result) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(failure) => self.fail(format!("{name}: {failure}")),
        }
    }

    pub(crate) fn fail(&mut self, line: String) {
        match self.planted {
            true => println!("  noticed, as it has to be: {}", line.lines().next().unwrap_or_default()),
            false => println!("  FAILED {line}"),
        }
        self.failures.push(line);
    }

    /// `12 passed, 0 failed`, and the skipped ones if there are any.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{} passed, {} failed", self.passed, self.failures.len());
        if self.skipped > 0 {
            text.push_str(&format!(", {} skipped", self.skipped));
        }
        text
    }

    /// Passed means: something ran, and nothing failed.
    pub(crate) fn is_success(&self) -> bool {
        self.passed > 0 && self.failures.is_empty()
    }
}
