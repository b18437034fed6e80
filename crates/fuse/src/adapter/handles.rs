//! Open files and directories by the number that the kernel names them by.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::errno::Errno;
use crate::filesystem::Handle;

/// A table of what is open. A number is used again once it has been given
/// back, which is when the kernel will not name it any more.
pub(super) struct Handles<T> {
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    open: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T: Clone> Handles<T> {
    /// Nothing is open.
    pub(super) fn new() -> Handles<T> {
        Handles { slots: RwLock::new(Slots { open: Vec::new(), free: Vec::new() }) }
    }

    /// Gives `opened` a number.
    pub(super) fn insert(&self, opened: T) -> Handle {
        let mut slots = self.write();
        let index = match slots.free.pop() {
            Some(index) => {
                slots.open[index] = Some(opened);
                index
            }
            None => {
                slots.open.push(Some(opened));
                slots.open.len() - 1
            }
        };
        Handle(index as u64)
    }

    /// What is open under a number.
    ///
    /// # Errors
    /// `BADF`.
    pub(super) fn named(&self, handle: Handle) -> Result<T, Errno> {
        let index = usize::try_from(handle.0).map_err(|_| Errno::BADF)?;
        self.read().open.get(index).and_then(Clone::clone).ok_or(Errno::BADF)
    }

    /// Takes a number back, with what was open under it.
    pub(super) fn remove(&self, handle: Handle) -> Option<T> {
        let index = usize::try_from(handle.0).ok()?;
        let mut slots = self.write();
        let opened = slots.open.get_mut(index)?.take()?;
        slots.free.push(index);
        Some(opened)
    }

    /// Takes everything back.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut slots = self.write();
        slots.free.clear();
        std::mem::take(&mut slots.open).into_iter().flatten().collect()
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        let slots = self.read();
        slots.open.len() - slots.free.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots<T>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<T>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_what_is_open_and_are_used_again() {
        let handles = Handles::new();
        let (first, second) = (handles.insert('a'), handles.insert('b'));
        assert_eq!((handles.named(first), handles.named(second)), (Ok('a'), Ok('b')));
        assert_eq!(handles.remove(first), Some('a'));
        assert_eq!((handles.remove(first), handles.named(first), handles.len()), (None, Err(Errno::BADF), 1));
        assert_eq!(handles.insert('c'), first);
        assert_eq!(handles.named(Handle(u64::MAX)), Err(Errno::BADF));
        assert_eq!((handles.drain(), handles.len()), (vec!['c', 'b'], 0));
    }
}
