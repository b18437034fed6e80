//! Serves an open disk as a block device through ublk (`/dev/ublk-control`,
//! Linux 6.5 and newer with the module `ublk_drv`).
//!
//! [`abi`] is what the kernel is told and tells, as bytes; [`Server`] makes and
//! removes the device; each of its queues is served by one thread, which takes
//! what has come together and hands it to the [`Device`](strongroom_disk::Device)
//! as one batch. Data is moved by `pread` and `pwrite` on the character device
//! (`UBLK_F_USER_COPY`), so that the kernel never knows an address of a buffer
//! here.
//!
//! Architecture invariant: a thread that serves a queue touches no block
//! device and allocates nothing for a request: the kernel may need the answer
//! to free memory.
//!
//! Source: `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst`
//! of Linux.
#![deny(unsafe_code)]

pub mod abi;
mod queue;
mod server;
mod sys;

pub use server::{Server, ServerHandle, StartError};
