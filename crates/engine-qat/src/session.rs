//! A key, and its sessions at an instance: one for each direction, length of
//! associated data, and, for XAES-256-GCM, derived key.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use strongroom_memory::{Locked, in_wiped_stack};
use zeroize::Zeroizing;

use crate::cpa::Status;
use crate::sys::{Context, Instance, Setup};
use crate::wire::{self, KEY_MAX, Kind, Wire};

/// Sessions of an instance. A vault seals under one derived key at a time and
/// opens under a few, with two lengths of associated data.
const OPEN_MAX: usize = 128;

/// Keys that nobody uses any more.
pub(crate) type Closed = Mutex<Vec<u64>>;

/// A key of an engine's session.
pub(crate) struct Key {
    /// Different for each key of the engine.
    number: u64,
    pub(crate) wire: Wire,
    pub(crate) kind: Kind,
    bytes: Locked<Bytes>,
    closed: Arc<Closed>,
}

struct Bytes {
    bytes: Zeroizing<[u8; KEY_MAX]>,
    len: usize,
}

impl Key {
    /// Of at most [`KEY_MAX`] bytes.
    pub(crate) fn new(number: u64, wire: Wire, kind: Kind, key: &[u8], closed: Arc<Closed>) -> Key {
        let bytes = in_wiped_stack(|| {
            let mut bytes = Zeroizing::new([0; KEY_MAX]);
            bytes[..key.len()].copy_from_slice(key);
            Locked::new(Bytes { bytes, len: key.len() })
        });
        Key { number, wire, kind, bytes, closed }
    }

    /// Hands the key of a session to `act`.
    fn with<T>(&self, which: &Which, act: impl FnOnce(&[u8]) -> T) -> T {
        let key = &self.bytes.bytes[..self.bytes.len];
        in_wiped_stack(|| match self.kind {
            Kind::XAesGcm => {
                act(&wire::derived_key(key.try_into().expect("its key has 32 bytes"), &which.prefix)[..])
            }
            Kind::Gcm | Kind::Sectors(_) => act(key),
        })
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// Which of a key's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Which {
    pub(crate) encrypts: bool,
    /// What the key is derived from.
    pub(crate) prefix: [u8; 12],
    /// Bytes of associated data.
    pub(crate) ad_len: usize,
}

struct Open {
    key: u64,
    which: Which,
    context: Rc<Context>,
}

/// The sessions that are open, those that were used last behind the others.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Open>);

impl Sessions {
    /// The session for a request, opened if need be.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn find(
        &mut self,
        instance: &mut Instance,
        key: &Key,
        which: Which,
    ) -> Result<Rc<Context>, Status> {
        let Sessions(open) = self;
        if let Some(at) = open.iter().rposition(|open| open.key == key.number && open.which == which) {
            let context = Rc::clone(&open[at].context);
            open[at..].rotate_left(1);
            return Ok(context);
        }
        if open.len() >= OPEN_MAX
            && let Some(unused) = open.iter().position(|open| Rc::strong_count(&open.context) == 1)
        {
            open.remove(unused);
        }
        let context = key.with(&which, |bytes| {
            instance.open(&Setup {
                cipher: key.wire.cipher(),
                encrypts: key.wire.session_encrypts(which.encrypts),
                key: bytes,
                ad_len: (key.wire == Wire::Gcm).then_some(which.ad_len),
            })
        })?;
        let context = Rc::new(context);
        open.push(Open { key: key.number, which, context: Rc::clone(&context) });
        Ok(context)
    }

    /// Closes those of keys that nobody uses; a request that is still out keeps
    /// its own.
    pub(crate) fn close(&mut self, closed: &Closed) {
        let closed = std::mem::take(&mut *closed.lock().unwrap_or_else(PoisonError::into_inner));
        if !closed.is_empty() {
            self.0.retain(|open| !closed.contains(&open.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_keys_are_those_of_the_specification() {
        // C2SP XAES-256-GCM, its first test vector.
        let key = Key::new(0, Wire::Gcm, Kind::XAesGcm, &[1; 32], Arc::default());
        let which = Which { encrypts: true, prefix: *b"ABCDEFGHIJKL", ad_len: 0 };
        let derived = key.with(&which, <[u8]>::to_vec);
        let expected = "c8612c9ed53fe43e8e005b828a1631a0bbcb6ab2f46514ec4f439fcfd0fa969b";
        assert_eq!(derived.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
        assert_ne!(key.with(&Which { prefix: [0; 12], ..which }, <[u8]>::to_vec), derived);
    }
}
