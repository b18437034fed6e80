//! The engine for virtio-crypto devices, in programs of 64 bits: what shares memory with a device
//! (`vm-memory`) is for these alone.

use super::Opened;

#[cfg(target_pointer_width = "64")]
mod engine {
    use std::fmt::Display;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use strongroom_engine_virtio::{Bus, Options, Vfio, VfioUser, VirtioEngine};

    use super::Opened;

    pub(in crate::device) fn at_socket(name: &str, socket: &str) -> Opened {
        opened(name, VfioUser::connect(Path::new(socket)))
    }

    pub(in crate::device) fn at_address(name: &str, address: &str) -> Opened {
        opened(name, Vfio::open(address))
    }

    pub(in crate::device) fn missing_sockets() -> Option<String> {
        None
    }

    pub(in crate::device) fn missing_addresses() -> Option<String> {
        Vfio::probe().err().map(|error| error.to_string())
    }

    fn opened<B: Bus + 'static>(name: &str, bus: io::Result<B>) -> Opened {
        let bus = bus.map_err(|error| Box::new(error) as Box<dyn Display>)?;
        match VirtioEngine::open(name, Arc::new(bus), Options::default()) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(error) => Err(Box::new(error)),
        }
    }
}

#[cfg(not(target_pointer_width = "64"))]
mod engine {
    use super::Opened;

    const MISSING: &str = "programs of 32 bits have no engine for these";

    pub(in crate::device) fn at_socket(_name: &str, _socket: &str) -> Opened {
        Err(Box::new(MISSING))
    }

    pub(in crate::device) fn at_address(_name: &str, _address: &str) -> Opened {
        Err(Box::new(MISSING))
    }

    pub(in crate::device) fn missing_sockets() -> Option<String> {
        Some(MISSING.to_owned())
    }

    pub(in crate::device) fn missing_addresses() -> Option<String> {
        missing_sockets()
    }
}

pub(super) use engine::{at_address, at_socket, missing_addresses, missing_sockets};
