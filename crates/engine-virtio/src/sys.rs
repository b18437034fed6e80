//! The calls of the kernel's VFIO (`include/uapi/linux/vfio.h`): a container
//! holds an IOMMU's mappings, a group its devices. And the one by which a thread
//! asks for short slices.
//!
//! Invariants: a call is given memory of the length that it reads or writes,
//! which lives until it returns; what a device is given to reach is a
//! [`Memory`], which is copied from and to and never borrowed.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{from_mut, without_provenance_mut};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use crate::Memory;

/// Of the first version, with mappings that overlap being errors.
const TYPE1_V2: usize = 3;
const VERSION: i32 = 0;
/// Every device of a group has to be bound to VFIO or to nothing.
const IS_VIABLE: u32 = 1;
/// The device reads and writes.
const READ_WRITE: u32 = 3;
/// Vectors of MSI-X among the interrupts of PCI.
const MSIX: u32 = 2;
/// An eventfd for each vector, signalled by the device.
const EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;

struct Call(u8, *mut c_void);

// SAFETY: it tells opcode and pointer as they are, makes no use of the pointer,
// and says that memory may be written. What that is, is up to `call`.
unsafe impl Ioctl for Call {
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::none(b';', 100 + self.0)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.1
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// # Safety
/// `argument` is what call `number` takes, and lives until this returns.
unsafe fn call(file: &File, number: u8, argument: *mut c_void) -> io::Result<i32> {
    // SAFETY: by this function's own condition.
    Ok(unsafe { ioctl(file, Call(number, argument)) }?)
}

/// Whether a container is of the version that is spoken here, with the IOMMU
/// that is needed.
pub(crate) fn is_known(container: &File) -> io::Result<bool> {
    // SAFETY: VFIO_GET_API_VERSION takes nothing.
    let version = unsafe { call(container, 0, without_provenance_mut(0)) }?;
    // SAFETY: VFIO_CHECK_EXTENSION takes a number.
    let extension = unsafe { call(container, 1, without_provenance_mut(TYPE1_V2)) }?;
    Ok(version == VERSION && extension == 1)
}

/// Whether all of a group's devices are VFIO's.
pub(crate) fn is_viable(group: &File) -> io::Result<bool> {
    let mut status = [8u32, 0];
    // SAFETY: VFIO_GROUP_GET_STATUS reads and writes two words, the first of
    // which says how many bytes there are.
    unsafe { call(group, 3, from_mut(&mut status).cast()) }?;
    Ok(status[1] & IS_VIABLE != 0)
}

/// Puts a group into a container, which gets its IOMMU by that.
pub(crate) fn join(group: &File, container: &File) -> io::Result<()> {
    let mut descriptor = container.as_raw_fd();
    // SAFETY: VFIO_GROUP_SET_CONTAINER reads the number of an open file.
    unsafe { call(group, 4, from_mut(&mut descriptor).cast()) }?;
    // SAFETY: VFIO_SET_IOMMU takes a number.
    unsafe { call(container, 2, without_provenance_mut(TYPE1_V2)) }.map(drop)
}

/// Opens a device of a group.
pub(crate) fn device(group: &File, name: &CStr) -> io::Result<File> {
    // SAFETY: VFIO_GROUP_GET_DEVICE_FD reads a text that ends with a zero.
    let descriptor = unsafe { call(group, 6, name.as_ptr().cast_mut().cast()) }?;
    // SAFETY: it has just been opened, for nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Where a region stands in a device's file, and its bytes; none where it has
/// no such region.
pub(crate) fn region(device: &File, index: u32) -> io::Result<(u64, u64)> {
    #[repr(C)]
    struct Info {
        len: u32,
        flags: u32,
        index: u32,
        capabilities: u32,
        size: u64,
        offset: u64,
    }
    let len = size_of::<Info>() as u32;
    let mut info = Info { len, flags: 0, index, capabilities: 0, size: 0, offset: 0 };
    // SAFETY: VFIO_DEVICE_GET_REGION_INFO reads and writes this structure, whose
    // length stands in it.
    unsafe { call(device, 8, from_mut(&mut info).cast()) }?;
    Ok((info.offset, info.size))
}

/// Has the vectors of MSI-X signal eventfds.
pub(crate) fn set_vectors(device: &File, events: &[OwnedFd]) -> io::Result<()> {
    let count = events.len() as u32;
    let mut words = vec![20 + 4 * count, EVENTFD_TRIGGER, MSIX, 0, count];
    words.extend(events.iter().map(|event| event.as_raw_fd().cast_unsigned()));
    // SAFETY: VFIO_DEVICE_SET_IRQS reads five words, the first of which says how
    // many bytes there are, and behind them as many numbers of open files as the
    // last says.
    unsafe { call(device, 10, words.as_mut_ptr().cast()) }.map(drop)
}

/// Lets the devices of a container reach a memory where it says that they do.
pub(crate) fn map(container: &File, memory: &Memory) -> io::Result<()> {
    #[repr(C)]
    struct Map {
        len: u32,
        flags: u32,
        address: u64,
        base: u64,
        bytes: u64,
    }
    let address = memory.address().expose_provenance() as u64;
    let (len, bytes) = (size_of::<Map>() as u32, memory.len() as u64);
    let mut map = Map { len, flags: READ_WRITE, address, base: memory.base(), bytes };
    // SAFETY: VFIO_IOMMU_MAP_DMA reads this structure, whose length stands in it.
    // The memory that it names is mapped, and the kernel keeps its pages from
    // then on, whoever unmaps them. That a device writes there at any time is
    // what a `Memory` is for: nothing borrows its bytes.
    unsafe { call(container, 13, from_mut(&mut map).cast()) }.map(drop)
}

/// Has this thread run for so many nanoseconds at a time, and therefore begin
/// sooner than those that run for longer. Linux from 6.12 on heeds it; before, and
/// where the thread has a real-time policy, nothing changes. Source:
/// sched_setattr(2), `sched_runtime`.
pub(crate) fn ask_for_short_slices(slice_ns: u64) {
    const NORMAL: u32 = 0;
    let len = size_of::<libc::sched_attr>() as u32;
    // SAFETY: all its fields are numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let here = from_mut(&mut attributes);
    // SAFETY: of this thread (0) it writes at most `len` bytes, which are there.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, here, len, 0) };
    if known == 0 && attributes.sched_policy == NORMAL {
        attributes.sched_runtime = slice_ns;
        // SAFETY: it reads as many bytes as `size` says, which the kernel wrote there.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, from_mut(&mut attributes), 0) };
    }
}
