//! A function of this machine, by the kernel's VFIO: bound to `vfio-pci`, behind
//! an IOMMU, which lets it reach the memory that it is given and no other.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::{Bus, Memory, sys};

const CONTAINER: &str = "/dev/vfio/vfio";
const DRIVER: &str = "vfio-pci";
/// Regions: a BAR has its number, and behind them come a ROM and configuration.
const REGIONS: u32 = 8;
const CONFIG_REGION: u8 = 7;
/// The command register, and its bits for memory and for being a master.
const COMMAND: u64 = 4;
const ENABLED: u16 = 1 << 1 | 1 << 2;
/// Bytes that a register is read and written with, at most: wider ones may be
/// taken in two halves.
const ACCESS: usize = 4;

/// See the module.
pub struct Vfio {
    device: File,
    /// Their places in the file, and their bytes.
    regions: Vec<(u64, u64)>,
    container: File,
    // Open as long as its device is.
    _group: File,
    reached: Mutex<Vec<Memory>>,
}

fn failed(kind: io::ErrorKind, why: &str) -> io::Error {
    io::Error::new(kind, why)
}

/// An address as `0000:00:05.0`, which names nothing but itself in a path.
fn is_address(text: &str) -> bool {
    let shape = b"hhhh:hh:hh.h";
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'h' => byte.is_ascii_hexdigit(),
        _ => byte == shape,
    };
    text.len() == shape.len() && text.as_bytes().iter().zip(shape).all(fits)
}

fn name_of_link(link: &Path) -> Option<String> {
    Some(std::fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
}

fn open(path: &str) -> io::Result<File> {
    let opened = File::options().read(true).write(true).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

impl Vfio {
    /// Whether the kernel has what is needed, whatever devices there are.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe() -> io::Result<()> {
        container().map(drop)
    }

    /// Takes the function at an address, `0000:00:05.0`, for itself.
    ///
    /// # Errors
    /// There is none, it is not bound to `vfio-pci`, no IOMMU stands before it,
    /// or somebody else has it.
    pub fn open(address: &str) -> io::Result<Vfio> {
        if !is_address(address) {
            return Err(failed(io::ErrorKind::InvalidInput, "this is no address such as 0000:00:05.0"));
        }
        let container = container()?;
        let function = Path::new("/sys/bus/pci/devices").join(address);
        if name_of_link(&function.join("driver")).as_deref() != Some(DRIVER) {
            let why =
                if function.exists() { "it is not bound to vfio-pci" } else { "there is no such function" };
            return Err(failed(io::ErrorKind::NotFound, why));
        }
        let group = name_of_link(&function.join("iommu_group"))
            .ok_or_else(|| failed(io::ErrorKind::Unsupported, "no IOMMU stands before it"))?;
        let group = open(&format!("/dev/vfio/{group}"))?;
        if !sys::is_viable(&group)? {
            let why = "others behind the same IOMMU group are not bound to vfio-pci";
            return Err(failed(io::ErrorKind::PermissionDenied, why));
        }
        sys::join(&group, &container)?;
        let name = CString::new(address).expect("an address has no zero");
        let device = sys::device(&group, &name)?;
        let regions = (0..REGIONS).map(|index| sys::region(&device, index));
        // One that there is not is an error of some kernels, and empty of others.
        let regions = regions.map(Result::unwrap_or_default).collect();
        let vfio = Vfio { device, regions, container, _group: group, reached: Mutex::default() };
        let mut command = [0; 2];
        vfio.read_region(CONFIG_REGION, COMMAND, &mut command)?;
        let command = u16::from_le_bytes(command) | ENABLED;
        vfio.write(CONFIG_REGION, COMMAND, &command.to_le_bytes())?;
        Ok(vfio)
    }

    /// Where bytes of a region stand in the file.
    fn place(&self, region: u8, offset: u64, len: usize) -> io::Result<u64> {
        let (at, size) = self.regions.get(usize::from(region)).copied().unwrap_or_default();
        match offset.checked_add(len as u64) {
            Some(end) if end <= size => Ok(at + offset),
            _ => Err(failed(io::ErrorKind::InvalidData, "it has no such register")),
        }
    }

    fn read_region(&self, region: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = self.place(region, offset, bytes.len())?;
        for part in bytes.chunks_mut(ACCESS) {
            self.device.read_exact_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

fn container() -> io::Result<File> {
    let container = open(CONTAINER)?;
    match sys::is_known(&container)? {
        true => Ok(container),
        false => Err(failed(io::ErrorKind::Unsupported, "the kernel's VFIO has no IOMMU of type 1")),
    }
}

impl Bus for Vfio {
    fn read_config(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_region(CONFIG_REGION, offset, bytes)
    }

    fn read(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_region(bar, offset, bytes)
    }

    fn write(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = self.place(bar, offset, bytes.len())?;
        for part in bytes.chunks(ACCESS) {
            self.device.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Posted by the bus itself.
    fn post(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(bar, offset, bytes)
    }

    fn map(&self, memory: &File, address: u64, len: u64) -> io::Result<()> {
        let memory = Memory::map(memory.try_clone()?, 0, address, len as usize)?;
        sys::map(&self.container, &memory)?;
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        Ok(())
    }

    fn interrupts(&self, events: &[OwnedFd]) -> io::Result<()> {
        sys::set_vectors(&self.device, events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_one_shape() {
        assert!(is_address("0000:00:05.0") && is_address("ab10:FF:1f.7"));
        for text in ["", "0000:00:05", "0000:00:05.00", "../0:00:05.0", "0000/00:05.0", "000g:00:05.0"] {
            assert!(!is_address(text), "{text}");
        }
        let kind = Vfio::open("../../devices").err().map(|error| error.kind());
        assert_eq!(kind, Some(io::ErrorKind::InvalidInput));
        assert!(Vfio::open("ffff:ff:1f.7").is_err(), "nobody has so many");
    }
}
