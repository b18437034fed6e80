//! All unsafe code of the crate: mappings, the arena in them, the allocator
//! over it, and the bounds of stacks.
#![allow(unsafe_code)]

mod allocator;
mod arena;
pub mod foreign;
mod region;
mod stack;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

pub use allocator::Allocator;
pub(crate) use allocator::Scope;
pub(crate) use arena::Place;
pub use region::{Bytes, Region};
pub(crate) use stack::wipe_frames;
pub use stack::{lock_stack, wipe_stack};

use crate::Standing;

/// Bytes of memory for secrets.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The kernel has refused to lock some of it.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// The kernel has refused to lock a stack.
static STACK_REFUSED: AtomicBool = AtomicBool::new(false);

pub(crate) fn standing() -> Standing {
    Standing {
        bytes: BYTES.load(Relaxed),
        secrets_locked: !REFUSED.load(Relaxed),
        stacks_locked: !STACK_REFUSED.load(Relaxed),
    }
}

#[cfg(test)]
mod tests {
    /// What the kernel says of the mapping that holds `what`: `lo` for locked,
    /// `dd` for not dumped, `dc` for not forked.
    pub(super) fn flags_of<T: ?Sized>(what: &T) -> String {
        flags_at(std::ptr::from_ref(what).cast::<u8>().addr())
    }

    /// The same of the mapping at an address.
    pub(super) fn flags_at(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        let holds = |line: &str| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let hex = |text| usize::from_str_radix(text, 16).ok();
            Some((hex(start)?..hex(end)?).contains(&address))
        };
        let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
        lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("the mapping is listed").to_owned()
    }
}
