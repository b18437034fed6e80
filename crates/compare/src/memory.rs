//! The highest resident memory of a process, from the kernel's own mark.

use std::fs;

use rustix::process::Pid;

use strongroom_harness::failure::{Context, Failure, Result};

/// Sets the mark to what is resident now (proc(5), clear_refs, value 5).
pub(super) fn reset_peak(pid: Pid) -> Result {
    fs::write(format!("/proc/{}/clear_refs", pid.as_raw_nonzero()), "5").context("resetting the memory mark")
}

/// The mark, in bytes (proc(5), status, VmHWM).
pub(super) fn peak_bytes(pid: Pid) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
    parse(&status).ok_or_else(|| Failure::new("the daemon's status has no VmHWM"))
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_mark() {
        assert_eq!(parse("Name:\tx\nVmHWM:\t   12 kB\nVmRSS:\t 3 kB\n"), Some(12 * 1024));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
