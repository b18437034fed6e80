//! A CPU that is busy with something else.

use std::fs;
use std::process::{Child, Command};

use strongroom_harness::command;
use strongroom_harness::failure::Result;

/// A process that computes until it is dropped.
pub(super) struct Busy(Child);

impl Busy {
    pub(super) fn start() -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        command::spawn(&mut command).map(Self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        command::end(&mut self.0);
    }
}

/// The load averages of the last 1, 5 and 15 minutes: how quiet the machine was.
pub(super) fn average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
