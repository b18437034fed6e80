//! Counts of a suite's checks, and its one-line summary.

/// What one suite came to.
#[derive(Default)]
pub struct Tally {
    pub passed: u64,
    pub skipped: u64,
    /// What failed, one text each; its first line says which check and why.
    pub failures: Vec<String>,
    /// Failures are what was hoped for: a fault was planted, to see that it is noticed.
    pub planted: bool,
}

impl Tally {
    /// Of checks on something with a planted fault, whose failures are no news.
    pub fn planted() -> Self {
        Self { planted: true, ..Self::default() }
    }

    /// Counts one check and prints a failure at once.
    pub fn count(&mut self, name: &str, outcome: crate::failure::Result) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(failure) => self.fail(format!("{name}: {failure}")),
        }
    }

    pub fn fail(&mut self, line: String) {
        match self.planted {
            true => println!("  noticed, as it has to be: {}", line.lines().next().unwrap_or_default()),
            false => println!("  FAILED {line}"),
        }
        self.failures.push(line);
    }

    /// Adds what a part of the suite came to.
    pub fn add(&mut self, part: Self) {
        self.passed += part.passed;
        self.skipped += part.skipped;
        self.failures.extend(part.failures);
    }

    /// `12 passed, 0 failed`, and the skipped ones if there are any.
    pub fn summary(&self) -> String {
        let mut text = format!("{} passed, {} failed", self.passed, self.failures.len());
        if self.skipped > 0 {
            text.push_str(&format!(", {} skipped", self.skipped));
        }
        text
    }

    /// Passed means: something ran, and nothing failed.
    pub fn is_success(&self) -> bool {
        self.passed > 0 && self.failures.is_empty()
    }
}
