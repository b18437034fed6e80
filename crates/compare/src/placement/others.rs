//! What other programs and other machines take of the CPUs meanwhile, by which a turn is told to be disturbed.
//!
//! This says nothing of the speed that was measured, so that leaving turns out by it favours no side.

use std::time::Instant;

use rustix::process::{Pid, getpid};

use crate::cpu::{cpu_seconds, system_seconds};
use strongroom_harness::failure::Result;

/// A moment.
pub(super) struct Before {
    daemon: Option<Pid>,
    at: Instant,
    others_seconds: f64,
}

impl Before {
    pub(super) fn now(daemon: Option<Pid>) -> Result<Self> {
        Ok(Self { daemon, at: Instant::now(), others_seconds: others_seconds(daemon)? })
    }

    /// How many CPUs others than this process and the daemon have had since.
    pub(super) fn cpus_of_others(&self) -> Result<f64> {
        Ok((others_seconds(self.daemon)? - self.others_seconds) / self.at.elapsed().as_secs_f64())
    }
}

fn others_seconds(daemon: Option<Pid>) -> Result<f64> {
    let (busy, _) = system_seconds()?;
    Ok(busy - cpu_seconds(daemon)? - cpu_seconds(Some(getpid()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells() -> Result {
        assert!(Before::now(None)?.cpus_of_others()?.is_finite());
        Ok(())
    }
}
