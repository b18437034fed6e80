//! Errors on demand: which call fails, how, and for how long.

use std::time::Duration;

use rustix::io::Errno;

use crate::{Error, Result};

/// The kinds of calls of a store, its nodes and its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the method of the contract of the same name")]
pub enum Call {
    SyncStore,
    Space,
    Attributes,
    SetMode,
    SetOwner,
    SetTimes,
    ReadLink,
    Open,
    Xattr,
    SetXattr,
    XattrNames,
    RemoveXattr,
    Lookup,
    Entries,
    Create,
    CreateUnnamed,
    MakeDirectory,
    MakeSpecial,
    MakeSymlink,
    Link,
    Remove,
    RemoveDirectory,
    Rename,
    /// A rename that exchanges two entries.
    Exchange,
    SyncDirectory,
    Read,
    Write,
    SyncData,
    SyncAll,
    Len,
    SetLen,
    Allocate,
}

/// Number of kinds.
const CALLS: usize = Call::Allocate as usize + 1;

impl Call {
    /// True for calls that a read-only store refuses.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Call::Space
                | Call::Attributes
                | Call::ReadLink
                | Call::Open
                | Call::Xattr
                | Call::XattrNames
                | Call::Lookup
                | Call::Entries
                | Call::Read
                | Call::Len
        )
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this errno and does nothing.
    Fails(i32),
    /// A write does its first `bytes` and then fails with `errno`; other
    /// calls fail outright.
    PartialWrite {
        /// Bytes that are written.
        bytes: usize,
        /// The error after them.
        errno: i32,
    },
    /// A read returns at most so many bytes, as if the file ended there;
    /// other calls are not affected.
    ShortRead(usize),
    /// A barrier on a file or on the store fails with this errno, and what it
    /// should have made durable of the content of files is lost, in memory too;
    /// other calls fail outright.
    LosesUnsynced(i32),
    /// It fails with `EROFS` if it would change anything or is a barrier.
    ReadOnly,
    /// It begins so many milliseconds late, and passes: for tests of what
    /// others do meanwhile.
    Late(u64),
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The calls that count, `None` for all.
    pub call: Option<Call>,
    /// How many of them pass first.
    pub after: u64,
    /// How many of them are then affected, `u64::MAX` for all: a store that
    /// disappears is every call failing with `EIO`, `ESTALE` or `ENODEV`,
    /// one that comes back is a bound here, or [`super::FaultyStore::heal`].
    pub times: u64,
    /// What happens to them.
    pub effect: Effect,
}

impl Plan {
    /// The call number `after` (from 0) fails once with `errno`.
    #[must_use]
    pub fn once(after: u64, errno: i32) -> Plan {
        Plan { call: None, after, times: 1, effect: Effect::Fails(errno) }
    }

    /// All calls from number `after` on fail with `errno`.
    #[must_use]
    pub fn from(after: u64, errno: i32) -> Plan {
        Plan { call: None, after, times: u64::MAX, effect: Effect::Fails(errno) }
    }

    /// The same for calls of one kind alone.
    #[must_use]
    pub fn of(self, call: Call) -> Plan {
        Plan { call: Some(call), ..self }
    }
}

/// A plan and how many calls it has counted.
struct Active {
    plan: Plan,
    counted: u64,
}

/// Counts calls and decides which fail.
pub(super) struct Faults {
    counts: [u64; CALLS],
    fired: u64,
    active: Vec<Active>,
}

/// What a call that does not fail outright has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// Write so many bytes, then fail.
    Partial(usize, Error),
    /// Read at most so many bytes.
    Short(usize),
    /// Lose what is not synced, then fail.
    Lose(Error),
    /// Wait, then pass.
    Late(Duration),
}

impl Faults {
    pub(super) fn new() -> Faults {
        Faults { counts: [0; CALLS], fired: 0, active: Vec::new() }
    }

    pub(super) fn add(&mut self, plan: Plan) {
        self.active.push(Active { plan, counted: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.active.clear();
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    pub(super) fn count(&self, call: Option<Call>) -> u64 {
        match call {
            Some(call) => self.counts[call as usize],
            None => self.counts.iter().sum(),
        }
    }

    /// Counts a call and decides.
    pub(super) fn enter(&mut self, call: Call, operation: &'static str) -> Result<Verdict> {
        self.counts[call as usize] += 1;
        let mut effect = None;
        for Active { plan, counted } in &mut self.active {
            if plan.call.is_none_or(|wanted| wanted == call) {
                if *counted >= plan.after && *counted - plan.after < plan.times && effect.is_none() {
                    effect = Some(plan.effect);
                }
                *counted += 1;
            }
        }
        let Some(effect) = effect else { return Ok(Verdict::Pass) };
        let verdict = match effect {
            Effect::Fails(errno) => Err(Error::new(errno, operation)),
            Effect::PartialWrite { bytes, errno } if call == Call::Write => {
                Ok(Verdict::Partial(bytes, Error::new(errno, operation)))
            }
            Effect::LosesUnsynced(errno)
                if matches!(call, Call::SyncData | Call::SyncAll | Call::SyncStore) =>
            {
                Ok(Verdict::Lose(Error::new(errno, operation)))
            }
            Effect::PartialWrite { errno, .. } | Effect::LosesUnsynced(errno) => {
                Err(Error::new(errno, operation))
            }
            Effect::ShortRead(bytes) if call == Call::Read => Ok(Verdict::Short(bytes)),
            Effect::ShortRead(_) => return Ok(Verdict::Pass),
            Effect::ReadOnly if call.changes() => Err(Error::new(Errno::ROFS.raw_os_error(), operation)),
            Effect::ReadOnly => return Ok(Verdict::Pass),
            Effect::Late(milliseconds) => Ok(Verdict::Late(Duration::from_millis(milliseconds))),
        };
        self.fired += 1;
        verdict
    }
}
