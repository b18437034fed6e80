//! The way to a PCI function.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Reaches one PCI function: its configuration, its registers, its interrupts,
/// and the memory that it may reach. Shared by threads. No call waits without
/// end for a function that does not answer.
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

    /// As [`Bus::write`], without waiting until the function has seen it: for
    /// doorbells. What is read or written later comes later.
    ///
    /// # Errors
    /// The function is gone.
    fn post(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Lets the function read and write `len` bytes of a file, from its
    /// beginning on, at an address.
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
