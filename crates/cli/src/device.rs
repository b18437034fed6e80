//! Devices behind rings, named by the sockets of their functions: `vfio-user:PATH`, several one behind the
//! other as in `vfio-user:PATH:PATH`. Each function is an engine beside those of the CPU.

use std::path::Path;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine_virtio::{Options, VfioUser, VirtioEngine};

use crate::failure::{Exit, Failure, Result};

/// What stands before the sockets.
const PREFIX: &str = "vfio-user:";

/// Whether this is a name for such devices.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The same name from wherever the process goes: daemons leave the directory in which they were named.
pub(crate) fn absolute(name: &str) -> String {
    let Some(sockets) = name.strip_prefix(PREFIX) else { return name.to_owned() };
    let here = |socket: &str| match std::path::absolute(socket) {
        Ok(path) => path.to_string_lossy().into_owned(),
        // What cannot be made absolute is refused when it is opened.
        Err(_) => socket.to_owned(),
    };
    PREFIX.to_owned() + &sockets.split(':').map(here).collect::<Vec<_>>().join(":")
}

/// The engines of the functions that a name means. They start threads.
///
/// # Errors
/// Unsupported where nobody serves at a socket, or no crypto device of virtio 1.2 does.
pub(crate) fn engines(name: &str) -> Result<Vec<Arc<dyn Engine>>> {
    let sockets = name.strip_prefix(PREFIX).unwrap_or_default();
    let open = |socket: &str| -> Result<Arc<dyn Engine>> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::Unsupported, format!("no device at {socket}: {error}")).hint(
                "`vfio-user:PATH` names the socket of a virtio-crypto device that is served by vfio-user.",
            )
        };
        let bus = VfioUser::connect(Path::new(socket)).map_err(|error| failed(&error))?;
        let engine = VirtioEngine::open(&format!("{PREFIX}{socket}"), Arc::new(bus), Options::default());
        Ok(Arc::new(engine.map_err(|error| failed(&error))?))
    };
    sockets.split(':').map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_sockets_and_become_absolute() {
        assert!(is_name("vfio-user:/run/a") && !is_name("vfio") && !is_name("cpu"));
        let here = std::env::current_dir().expect("a directory");
        let expected = format!("vfio-user:{}/a:/run/b", here.display());
        assert_eq!(absolute("vfio-user:a:/run/b"), expected);
        assert_eq!(absolute("gpu"), "gpu");
    }

    #[test]
    fn a_socket_that_nobody_serves_is_unsupported() {
        for name in ["vfio-user:/nowhere/socket", "vfio-user:"] {
            let failure = engines(name).err().expect("nobody is there");
            assert_eq!(failure.exit(), Exit::Unsupported);
        }
    }
}
