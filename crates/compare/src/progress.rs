//! How far a long measurement is, and what spoiled it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cpu::system_seconds;

/// How long it is looked what others do before a turn.
const LOOK: Duration = Duration::from_millis(50);
/// CPUs that others may have, of all that there are together, before a turn counts as disturbed.
const OTHERS_MAX: f64 = 0.25;

/// A bar with the time that remains, on a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    turns: usize,
    disturbed: usize,
}

impl Progress {
    pub(crate) fn new(turns: usize) -> Self {
        let bar = ProgressBar::new(turns as u64);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}, {eta} left: {msg}");
        bar.set_style(style.expect("a template"));
        Self { bar, turns, disturbed: 0 }
    }

    /// Before each turn: this process waits, so that whoever computes is another.
    pub(crate) fn turn(&mut self, row: &str, side: &str) {
        self.bar.set_message(format!("{row}, {side}"));
        let busy = || system_seconds().map_or(0.0, |(busy, _)| busy);
        let before = busy();
        std::thread::sleep(LOOK);
        if busy() - before > OTHERS_MAX * LOOK.as_secs_f64() {
            self.disturbed += 1;
        }
        self.bar.inc(1);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// What `before` said of the turns of an earlier run, and what is to be said of these.
    pub(crate) fn remark(&self, before: Option<String>) -> Option<String> {
        let own = (self.disturbed > 0).then(|| {
            format!("Other work had CPU time just before {} of {} turns.", self.disturbed, self.turns)
        });
        let parts: Vec<String> = before.into_iter().chain(own).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_turns_are_told_beside_those_of_an_earlier_run() {
        let mut progress = Progress::new(2);
        assert_eq!(progress.remark(None), None);
        progress.disturbed = 1;
        let told = progress.remark(Some("Before.".into())).expect("a remark");
        assert_eq!(told, "Before. Other work had CPU time just before 1 of 2 turns.");
    }
}
