//! What masks are worth for a session.

use std::sync::Mutex;

/// What masks have to leave of the CPU's work to be worth ordering: a reader
/// that jumps wastes some of them.
const WORTH: f64 = 0.67;

/// What masks were found to be worth for a session, measured once.
#[derive(Default)]
pub(super) struct Worth(pub(super) Mutex<Option<Option<Costs>>>);

/// CPU time for a byte, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) direct: f64,
    pub(super) masked: f64,
    pub(super) ordering: f64,
}

impl Costs {
    pub(super) fn pay(&self) -> bool {
        self.masked + self.ordering <= WORTH * self.direct
    }

    pub(super) fn describe(&self) -> String {
        let gib = |ns: f64| ns * (1u64 << 30) as f64 / 1e9;
        format!(
            "the CPU needs {:.2} s for a GiB without masks, {:.2} s with them and {:.2} s to have them made",
            gib(self.direct),
            gib(self.masked),
            gib(self.ordering)
        )
    }
}
