//! Barriers that failed. What one should have covered may be lost for ever: a
//! kernel that could not write a page forgets it, tells of it once, and the next
//! barrier succeeds. So whoever makes a file durable is told, also when the
//! barrier was another's, the background commit's first of all.
//!
//! No I/O.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use strongroom_store::InodeId;

use crate::error::{Error, Result};
use crate::sync::Mutex;

/// Of one file.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    count: u64,
    /// How many of them somebody who asked has been told.
    told: u64,
    last: Option<Error>,
}

impl Losses {
    /// A barrier of the file has failed.
    pub(crate) fn note(&mut self, error: &Error) {
        self.count += 1;
        self.last = Some(error.clone());
    }

    /// How many there were: to be noted before whoever asks begins.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Why a barrier has failed since there were `before`, if any has: another's
    /// that succeeds covers nothing of what was written before then.
    pub(crate) fn since(&self, before: u64) -> Result<()> {
        match &self.last {
            Some(error) if self.count != before => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Why a barrier has failed, if nobody was told yet.
    pub(crate) fn untold(&self) -> Option<&Error> {
        self.last.as_ref().filter(|_| self.count > self.told)
    }

    /// Whether somebody who began at `before` has to be told.
    pub(crate) fn concern(&self, before: u64) -> bool {
        self.count > before.min(self.told)
    }

    /// What somebody is told who began at `before`, and whose own barriers came
    /// to `outcome`.
    pub(crate) fn tell(&mut self, before: u64, outcome: Result<()>) -> Result<()> {
        let concern = self.concern(before);
        self.told = self.count;
        match &self.last {
            Some(error) if concern => outcome.and(Err(error.clone())),
            _ => outcome,
        }
    }
}

/// The files of a vault that have losses of which nobody was told, for whoever
/// syncs everything.
#[derive(Debug, Default)]
pub(crate) struct Untold(Mutex<BTreeMap<InodeId, Error>>);

impl Untold {
    pub(crate) fn note(&self, inode: InodeId, error: &Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(inode, error.clone());
    }

    pub(crate) fn told(&self, inode: InodeId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&inode);
    }

    /// Whether nobody was told of this one yet.
    pub(crate) fn has(&self, inode: InodeId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&inode)
    }

    /// Tells of one, and of the others not any more.
    pub(crate) fn tell(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_values().next().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;

    #[test]
    fn what_nobody_was_told_of_is_told_to_whoever_syncs_everything() {
        let failed = || Error::Refused(errno::EIO);
        let inode = |number| InodeId { device: 1, inode: number };
        let untold = Untold::default();
        assert_eq!(untold.tell(), Ok(()));
        untold.note(inode(1), &failed());
        untold.note(inode(2), &failed());
        untold.told(inode(1));
        assert_eq!(untold.tell(), Err(failed()), "of the second");
        assert_eq!(untold.tell(), Ok(()), "once");
    }

    #[test]
    fn every_failure_is_told_to_whoever_was_there_and_else_once() {
        let failed = || Error::Refused(errno::EIO);
        let mut losses = Losses::default();
        assert_eq!(losses.tell(0, Ok(())), Ok(()));
        // Another's barrier.
        losses.note(&failed());
        assert_eq!(losses.tell(losses.count(), Ok(())), Err(failed()));
        assert_eq!(losses.tell(losses.count(), Ok(())), Ok(()), "once");
        // Two that began before it: each is told.
        let before = losses.count();
        losses.note(&failed());
        assert_eq!(losses.tell(before, Err(failed())), Err(failed()));
        assert_eq!(losses.tell(before, Ok(())), Err(failed()));
        assert_eq!(losses.tell(losses.count(), Ok(())), Ok(()));
    }
}
