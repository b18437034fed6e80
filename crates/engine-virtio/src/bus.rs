//! The way to a PCI function.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::Client;

/// Reaches one PCI function: its configuration, its registers, its interrupts,
/// and the memory that it may reach. Shared by threads.
pub trait Bus: Send + Sync {
    /// Reads the configuration space.
    ///
    /// # Errors
    /// The function is gone.
    fn read_config(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Reads registers of a BAR.
    ///
    /// # Errors
    /// The function is gone.
    fn read(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes registers of a BAR.
    ///
    /// # Errors
    /// The function is gone.
    fn write(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Lets the function reach `len` bytes of a file at an address.
    ///
    /// # Errors
    /// The function is gone, or takes no more.
    fn map(&self, memory: &File, address: u64, len: u64) -> io::Result<()>;

    /// Has the vectors of MSI-X, from the first on, signal these eventfds.
    ///
    /// # Errors
    /// The function is gone, or has not so many.
    fn interrupts(&self, events: &[OwnedFd]) -> io::Result<()>;
}

/// A function in another process, by the vfio-user protocol.
pub struct VfioUser(Mutex<Client>);

fn failed(error: vfio_user::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl VfioUser {
    /// Connects to a function's socket.
    ///
    /// # Errors
    /// Nobody serves there.
    pub fn connect(socket: &Path) -> io::Result<VfioUser> {
        Client::new(socket).map(|client| VfioUser(Mutex::new(client))).map_err(failed)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bus for VfioUser {
    fn read_config(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.client().region_read(VFIO_PCI_CONFIG_REGION_INDEX, offset, bytes).map_err(failed)
    }

    fn read(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.client().region_read(bar.into(), offset, bytes).map_err(failed)
    }

    fn write(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.client().region_write(bar.into(), offset, bytes).map_err(failed)
    }

    fn map(&self, memory: &File, address: u64, len: u64) -> io::Result<()> {
        self.client().dma_map(0, address, len, memory.as_raw_fd()).map_err(failed)
    }

    fn interrupts(&self, events: &[OwnedFd]) -> io::Result<()> {
        let events: Vec<RawFd> = events.iter().map(AsRawFd::as_raw_fd).collect();
        let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        self.client()
            .set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, flags, 0, events.len() as u32, &events)
            .map_err(failed)
    }
}
