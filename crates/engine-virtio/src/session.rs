//! A key, and its sessions on the device: one for each direction, and for
//! XAES-256-GCM for each derived key, opened when they are first needed and
//! again after a reset.

use std::sync::{Arc, Mutex, PoisonError};

use strongroom_memory::{Locked, in_wiped_stack};
use zeroize::Zeroizing;

use crate::wire::{self, KEY_MAX, Kind, Wire};

/// Sessions of one key on the device. A vault seals under one derived key at a
/// time and opens under a few.
const OPEN_MAX: usize = 32;

/// Sessions that are not used any more.
pub(crate) type Closed = Mutex<Vec<Numbered>>;

/// A session on the device, which numbers them anew after each reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) service: u32,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

/// Which of a key's sessions: a direction, and what the key is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Which {
    pub(crate) encrypts: bool,
    pub(crate) prefix: [u8; 12],
}

struct Open {
    which: Which,
    epoch: u64,
    number: u64,
    in_use: usize,
}

struct Key {
    bytes: Zeroizing<[u8; KEY_MAX]>,
    len: usize,
}

/// See the module.
pub(crate) struct DeviceSession {
    pub(crate) wire: Wire,
    pub(crate) kind: Kind,
    key: Locked<Key>,
    open: Mutex<Vec<Open>>,
    closed: Arc<Closed>,
}

impl DeviceSession {
    /// Of a key of at most [`KEY_MAX`] bytes.
    pub(crate) fn new(wire: Wire, kind: Kind, key: &[u8], closed: Arc<Closed>) -> DeviceSession {
        let key = in_wiped_stack(|| {
            let mut bytes = Zeroizing::new([0; KEY_MAX]);
            bytes[..key.len()].copy_from_slice(key);
            Locked::new(Key { bytes, len: key.len() })
        });
        DeviceSession { wire, kind, key, open: Mutex::default(), closed }
    }

    /// Hands the key of a session to `act`.
    pub(crate) fn with_key<T>(&self, which: &Which, act: impl FnOnce(&[u8]) -> T) -> T {
        let key = &self.key.bytes[..self.key.len];
        in_wiped_stack(|| match self.kind {
            Kind::XAesGcm => {
                act(&wire::derived_key(key.try_into().expect("its key has 32 bytes"), &which.prefix)[..])
            }
            Kind::Gcm | Kind::Sectors(_) => act(key),
        })
    }

    /// The number of a session that is open, for one request.
    pub(crate) fn begin(&self, which: &Which, epoch: u64) -> Option<u64> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let at = open.iter().position(|open| open.which == *which && open.epoch == epoch)?;
        open[at].in_use += 1;
        let number = open[at].number;
        // Those that were used last stand last.
        open[at..].rotate_left(1);
        Some(number)
    }

    /// The request has its answer.
    pub(crate) fn end(&self, number: u64, epoch: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.iter_mut().find(|open| open.number == number && open.epoch == epoch) {
            open.in_use -= 1;
        }
    }

    /// A session was opened; another may be closed for it.
    pub(crate) fn opened(&self, which: Which, epoch: u64, number: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.epoch == epoch);
        if open.len() >= OPEN_MAX
            && let Some(at) = open.iter().position(|open| open.in_use == 0)
        {
            let longest_unused = open.remove(at);
            self.close(&[longest_unused]);
        }
        open.push(Open { which, epoch, number, in_use: 0 });
    }

    fn close(&self, open: &[Open]) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.extend(open.iter().map(|open| Numbered {
            service: self.wire.service,
            epoch: open.epoch,
            number: open.number,
        }));
    }
}

impl Drop for DeviceSession {
    fn drop(&mut self) {
        let open = std::mem::take(self.open.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.close(&open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_in_use_stay_open_and_the_longest_unused_goes() {
        let closed = Arc::<Closed>::default();
        let session = DeviceSession::new(Wire::GCM, Kind::XAesGcm, &[1; 32], Arc::clone(&closed));
        let which = |number: u8| Which { encrypts: true, prefix: [number; 12] };
        for number in 0..OPEN_MAX as u8 {
            session.opened(which(number), 0, number.into());
        }
        assert_eq!(session.begin(&which(0), 0), Some(0));
        assert_eq!(session.begin(&which(1), 0), Some(1));
        session.end(1, 0);
        assert_eq!(session.begin(&which(99), 0), None);
        session.opened(which(99), 0, 99);
        let closed_now = || closed.lock().unwrap().drain(..).map(|closed| closed.number).collect::<Vec<_>>();
        assert_eq!(closed_now(), [2]);
        assert_eq!(session.begin(&which(0), 1), None, "numbered anew after a reset");
        session.opened(which(0), 1, 7);
        assert!(closed_now().is_empty(), "a reset has closed them");
        drop(session);
        assert_eq!(closed_now(), [7]);
    }

    #[test]
    fn derived_keys_are_those_of_the_specification() {
        // C2SP XAES-256-GCM, its first test vector.
        let session = DeviceSession::new(Wire::GCM, Kind::XAesGcm, &[1; 32], Arc::default());
        let which = Which { encrypts: true, prefix: *b"ABCDEFGHIJKL" };
        let key = session.with_key(&which, <[u8]>::to_vec);
        let expected = "c8612c9ed53fe43e8e005b828a1631a0bbcb6ab2f46514ec4f439fcfd0fa969b";
        assert_eq!(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
        assert_ne!(session.with_key(&Which { prefix: [0; 12], ..which }, <[u8]>::to_vec), key);
    }
}
