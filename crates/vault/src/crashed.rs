//! Sessions that did not end cleanly and are not settled yet: what a crash may
//! explain.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::PoisonError;

use strongroom_format::vault::WriteSession;

/// Those that the vault header lists.
#[derive(Default)]
pub(crate) struct Crashed {
    sessions: Mutex<Vec<WriteSession>>,
    any: AtomicBool,
}

impl Crashed {
    pub(crate) fn new(sessions: Vec<WriteSession>) -> Crashed {
        Crashed { any: AtomicBool::new(!sessions.is_empty()), sessions: Mutex::new(sessions) }
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> Vec<WriteSession> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These are listed from now on.
    pub(crate) fn set(&self, sessions: Vec<WriteSession>) {
        let mut listed = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(!sessions.is_empty(), Ordering::Release);
        *listed = sessions;
    }
}
