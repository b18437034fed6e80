//! Devices by name, each an engine beside those of the CPU: `vfio-user:PATH` is a virtio-crypto function at a
//! socket, `vfio:ADDRESS` one of this machine that the kernel's VFIO has, `kernel:DRIVER` what a driver of the kernel
//! computes, and `qat:NUMBER` an instance of Intel's QATlib. Several stand one behind the other, with `:` between
//! them, or `,` between addresses. A tier of the CPU and `+` before them have that one beside them, in place of all.

mod virtio;

use std::fmt::Display;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine_kernel::KernelEngine;
use strongroom_engine_qat::{Library, QatEngine};

use crate::failure::{Exit, Failure, Result};

/// A device's engine, or why there is none.
type Opened = std::result::Result<Arc<dyn Engine>, Box<dyn Display>>;

/// A way to devices.
pub(crate) struct Kind {
    /// What stands before the names.
    prefix: &'static str,
    separator: char,
    /// How one is named.
    pub(crate) example: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
    hint: &'static str,
    /// By the engine's name, and the device's.
    open: fn(&str, &str) -> Opened,
    missing: fn() -> Option<String>,
}

/// All of them.
pub(crate) const KINDS: [Kind; 4] = [
    Kind {
        prefix: "vfio-user:",
        separator: ':',
        example: "vfio-user:PATH",
        what: "a virtio-crypto device in another process, at the end of a socket",
        hint: "`vfio-user:PATH` names the socket of a virtio-crypto device that is served by vfio-user.",
        open: virtio::at_socket,
        missing: virtio::missing_sockets,
    },
    Kind {
        prefix: "vfio:",
        separator: ',',
        example: "vfio:ADDRESS",
        what: "a virtio-crypto device of this machine, bound to vfio-pci",
        hint: "`vfio:ADDRESS` names a virtio-crypto device as `lspci -D` does, bound to vfio-pci, behind an IOMMU.",
        open: virtio::at_address,
        missing: virtio::missing_addresses,
    },
    Kind {
        prefix: "kernel:",
        separator: ':',
        example: "kernel:DRIVER",
        what: "what a driver of the kernel computes, named as in /proc/crypto, through AF_ALG",
        hint: "`kernel:DRIVER` names a driver as /proc/crypto does; its type there is `skcipher`.",
        open: |name, driver| match KernelEngine::open(name, driver) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(error) => Err(Box::new(error)),
        },
        missing: || strongroom_engine_kernel::probe().err().map(|error| error.to_string()),
    },
    Kind {
        prefix: "qat:",
        separator: ':',
        example: "qat:NUMBER",
        what: "an instance of Intel QAT, through QATlib; this engine has never run on hardware",
        hint: "`qat:NUMBER` names an instance of QATlib, counted from 0. This engine has never run on hardware.",
        open: |name, number| match qat(name, number) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(error) => Err(error),
        },
        missing: || {
            let missing = strongroom_engine_qat::probe().err()?;
            Some(format!("{missing}. This engine has never run on hardware"))
        },
    },
];

fn qat(name: &str, number: &str) -> std::result::Result<QatEngine, Box<dyn Display>> {
    let boxed = |error| Box::new(error) as Box<dyn Display>;
    let number = number.parse().map_err(|_| Box::new("its number is none") as Box<dyn Display>)?;
    let library = Library::system().map_err(boxed)?;
    QatEngine::open(name, library, number, strongroom_engine_qat::Options::default()).map_err(boxed)
}

impl Kind {
    /// Why there is none of this kind on this machine, as far as that can be told.
    pub(crate) fn missing(&self) -> Option<String> {
        (self.missing)()
    }
}

/// The kind that a name is of, if it is one of such devices.
pub(crate) fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| name.starts_with(kind.prefix))
}

/// The name of a tier of the CPU that stands before devices, and those.
pub(crate) fn beside(name: &str) -> (Option<&str>, &str) {
    match name.split_once('+') {
        Some((tier, devices)) if kind(name).is_none() && kind(devices).is_some() => (Some(tier), devices),
        _ => (None, name),
    }
}

/// The same name from wherever the process goes: daemons leave the directory in which they were named.
pub(crate) fn absolute(name: &str) -> String {
    let (tier, devices) = beside(name);
    let prefix = KINDS[0].prefix;
    let Some(sockets) = devices.strip_prefix(prefix) else { return name.to_owned() };
    let here = |socket: &str| match std::path::absolute(socket) {
        Ok(path) => path.to_string_lossy().into_owned(),
        // What cannot be made absolute is refused when it is opened.
        Err(_) => socket.to_owned(),
    };
    let tier = tier.map_or_else(String::new, |tier| format!("{tier}+"));
    tier + prefix + &sockets.split(':').map(here).collect::<Vec<_>>().join(":")
}

/// The engines of the devices that a name of this kind means. They start threads.
///
/// # Errors
/// Unsupported where there is no such device, or it is not what it should be.
pub(crate) fn engines(kind: &Kind, name: &str) -> Result<Vec<Arc<dyn Engine>>> {
    let devices = name.strip_prefix(kind.prefix).unwrap_or_default();
    let open = |device: &str| {
        (kind.open)(&format!("{}{device}", kind.prefix), device).map_err(|error| {
            Failure::new(Exit::Unsupported, format!("no device at {device}: {error}")).hint(kind.hint)
        })
    };
    devices.split(kind.separator).map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind_and_those_of_sockets_become_absolute() {
        let example = |name| kind(name).map(|kind| kind.example);
        assert_eq!(example("vfio-user:/run/a"), Some("vfio-user:PATH"));
        assert_eq!(example("vfio:0000:00:05.0"), Some("vfio:ADDRESS"));
        assert_eq!(example("kernel:cbc-aes-caam"), Some("kernel:DRIVER"));
        assert_eq!(example("qat:0:1"), Some("qat:NUMBER"));
        assert_eq!((example("vfio"), example("kernels"), example("cpu")), (None, None, None));
        let here = std::env::current_dir().expect("a directory");
        let expected = format!("vfio-user:{}/a:/run/b", here.display());
        assert_eq!(absolute("vfio-user:a:/run/b"), expected);
        assert_eq!(absolute("kernel:cbc(aes)"), "kernel:cbc(aes)");
        assert_eq!(absolute("cpu-portable+vfio-user:/run/a+b"), "cpu-portable+vfio-user:/run/a+b");
        assert_eq!(beside("cpu-portable+qat:0"), (Some("cpu-portable"), "qat:0"));
        let path = "vfio-user:/run/a+qat:0";
        assert_eq!((beside(path), beside("cpu+sim")), ((None, path), (None, "cpu+sim")));
    }

    #[test]
    fn devices_that_are_not_there_are_unsupported() {
        let names = [
            "vfio-user:/nowhere/socket",
            "vfio-user:",
            "vfio:ffff:ff:1f.7",
            "vfio:../../dev",
            "vfio:",
            "kernel:",
            "kernel:no-such-driver",
            "qat:",
            "qat:first",
            "qat:65535",
        ];
        for name in names {
            let failure = engines(kind(name).expect("a kind"), name).err().expect("nobody is there");
            assert_eq!(failure.exit(), Exit::Unsupported, "{name}");
        }
    }
}
