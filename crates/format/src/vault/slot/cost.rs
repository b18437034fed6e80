//! What Argon2id may cost, within bounds that a reader checks before it spends
//! anything (section 8).

use crate::error::{FormatError, within};

/// What Argon2id may cost, checked before anything is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KdfCost {
    /// Least memory, in KiB.
    pub const MEMORY_MIN: u32 = 8 << 10;
    /// Most memory, in KiB.
    pub const MEMORY_MAX: u32 = 4 << 20;
    /// Most passes; the least is 1.
    pub const PASSES_MAX: u32 = 64;
    /// Most lanes; the least is 1.
    pub const LANES_MAX: u32 = 16;
    /// Most memory times passes, in KiB.
    pub const WORK_MAX: u64 = 16 << 20;

    /// A cost within the bounds.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`] naming the bound.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<KdfCost, FormatError> {
        let (memory, rounds) = (u64::from(memory_kib), u64::from(passes));
        let (least, most) = (u64::from(Self::MEMORY_MIN), u64::from(Self::MEMORY_MAX));
        within("Argon2id memory in KiB", memory, least, most)?;
        within("Argon2id passes", rounds, 1, u64::from(Self::PASSES_MAX))?;
        within("Argon2id lanes", u64::from(lanes), 1, u64::from(Self::LANES_MAX))?;
        within("Argon2id memory in KiB times passes", memory * rounds, 0, Self::WORK_MAX)?;
        Ok(KdfCost { memory_kib, passes, lanes })
    }

    /// Memory in KiB.
    #[must_use]
    pub const fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory.
    #[must_use]
    pub const fn passes(self) -> u32 {
        self.passes
    }

    /// Lanes, which can run at the same time.
    #[must_use]
    pub const fn lanes(self) -> u32 {
        self.lanes
    }

    /// Memory in KiB times passes, to which the time is proportional.
    #[must_use]
    pub const fn work(self) -> u64 {
        self.memory_kib as u64 * self.passes as u64
    }
}

impl core::fmt::Display for KdfCost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let KdfCost { memory_kib, passes, lanes } = self;
        write!(f, "Argon2id, {} MiB, {passes} passes, {lanes} lanes", memory_kib / 1024)
    }
}
