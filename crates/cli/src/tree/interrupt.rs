//! Ctrl-C and its like: the first asks work to end well, the second ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell reports of a program that SIGINT ended.
const ENDED: i32 = 130;

/// Whether the user wants it to end.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Where signals cannot be had, none is noticed, and
    /// the first one ends the program.
    pub(crate) fn listen() -> Interrupt {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the second signal finds the flag set.
            let _ = flag::register_conditional_shutdown(signal, ENDED, Arc::clone(&asked));
            let _ = flag::register(signal, Arc::clone(&asked));
        }
        Interrupt(asked)
    }

    /// True once it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What is true once it was asked for.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Asks for it from inside.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
