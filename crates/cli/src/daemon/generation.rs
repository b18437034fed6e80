//! Hears from the kernel that this machine was copied, and has new write
//! sessions opened.
//!
//! A virtual machine with a VM generation device gets a new generation when it
//! is cloned or restored. The kernel then seeds its generator again (Linux 5.18
//! and later), and kernels that have the event tell user space by a device
//! event with `NEW_VMGENID=1`. Others, Linux 6.12 among them, and machines
//! without that device say nothing. Nonces do not depend on it: see
//! [`strongroom_engine::NonceSource`].

use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::Daemon;
use super::unmounting::spawn;
use crate::failure::Result;

/// The group to which the kernel sends device events.
const KERNEL_EVENTS: u32 = 1;

/// Longer than any device event (2 KiB in the kernel).
const EVENT_LEN_MAX: usize = 8192;

/// Listens, where the system lets it: without, nonces still differ by bytes
/// that are drawn for each batch.
///
/// # Errors
/// When no thread can be had.
pub(super) fn listen(daemon: &Arc<Daemon>) -> Result<()> {
    let Ok(events) = open() else { return Ok(()) };
    let daemon = Arc::clone(daemon);
    spawn("generation", move || {
        let mut event = vec![0; EVENT_LEN_MAX];
        loop {
            match rustix::net::recv(&events, &mut event[..], RecvFlags::empty()) {
                Ok((len, _)) if announces_copy(&event[..len.min(EVENT_LEN_MAX)]) => renew(&daemon),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Events were lost, which may have been this one.
                Err(rustix::io::Errno::NOBUFS) => renew(&daemon),
                Err(_) => return,
            }
        }
    })
}

fn open() -> rustix::io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(KOBJECT_UEVENT))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, KERNEL_EVENTS))?;
    Ok(socket)
}

/// An event is lines that end with a zero byte each.
fn announces_copy(event: &[u8]) -> bool {
    event.split(|&byte| byte == 0).any(|line| line == b"NEW_VMGENID=1")
}

fn renew(daemon: &Daemon) {
    match daemon.vault.renew_sessions() {
        Ok(()) => tracing::info!("the machine was copied: new write session"),
        Err(error) => tracing::error!("the machine was copied: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_word_is_understood() {
        let event = b"change@/devices/virtual/x\0ACTION=change\0NEW_VMGENID=1\0SEQNUM=7\0";
        assert!(announces_copy(event));
        assert!(!announces_copy(b"add@/devices/x\0ACTION=add\0NEW_VMGENID=10\0"));
        assert!(!announces_copy(b""));
    }
}
