//! CPUs that wait for work without halting.
//!
//! In a virtual machine it is the host that runs a halted CPU again, after what its own scheduler makes of
//! that: tens of microseconds on a host with room, milliseconds on a full one, and none of it is of any side
//! that is compared. `/dev/cpu_dma_latency` (the kernel's document pm_qos_interface) says how long the wake may
//! take; with zero an idle CPU polls.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};

use strongroom_harness::failure::{Context, Result};

const PATH: &str = "/dev/cpu_dma_latency";

/// Keeps all CPUs from halting until it is dropped, or the process ends however it does.
pub(super) struct Awake {
    _held: File,
}

impl Awake {
    /// Fails where the kernel has no such device, or this is not root.
    pub(super) fn hold() -> Result<Self> {
        let mut held = OpenOptions::new().write(true).open(PATH).context(PATH)?;
        held.write_all(&0_i32.to_ne_bytes()).context(PATH)?;
        Ok(Self { _held: held })
    }
}

/// Whether anybody keeps the CPUs from halting: the kernel tells the least that is asked for.
pub(super) fn is_held() -> Result<bool> {
    let mut file = match File::open(PATH) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(false);
        }
        file => file.context(PATH)?,
    };
    let mut microseconds = [0; 4];
    file.read_exact(&mut microseconds).context(PATH)?;
    Ok(i32::from_ne_bytes(microseconds) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_kept_awake_for_as_long_as_it_is_held() -> Result {
        let before = is_held()?;
        let Ok(awake) = Awake::hold() else {
            eprintln!("not tested: {PATH} is not to be written here");
            return Ok(());
        };
        assert!(is_held()?);
        drop(awake);
        assert_eq!(is_held()?, before);
        Ok(())
    }
}
