//! Nonces that cannot be used twice.
//!
//! A nonce has 24 bytes: a 12-byte random write session id, 7 bytes drawn for
//! the batch, and a 5-byte counter that goes on through all batches of the
//! session. It is unique inside a process by the counter, across mounts and
//! hosts by the session id, and across copies of a running machine by the
//! batch's bytes, which come from the kernel at the moment of sealing and are
//! mixed with the clock, since a memory snapshot copies the kernel's generator
//! too. Copies that go on in one session count alike: they would have to draw
//! the same bytes at the same count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits;
use crate::machine::{Here, Machine};

/// A write session's id: the first 12 bytes of every nonce drawn in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 12]);

impl SessionId {
    /// Bytes at the beginning that a session which renews another shares with
    /// it, so that the two are known to be of one source.
    pub const KIN_LEN: usize = 4;
}

/// A nonce that has never been used. Neither `Clone` nor `Copy`: sealing
/// consumes it, so the compiler refuses its second use.
#[derive(Debug)]
pub struct FreshNonce([u8; 24]);

impl FreshNonce {
    /// The last 12 bytes, which the format stores beside the session.
    #[must_use]
    pub fn suffix(&self) -> [u8; 12] {
        self.0[12..].try_into().expect("twelve bytes")
    }

    /// The session it belongs to.
    #[must_use]
    pub fn session(&self) -> SessionId {
        SessionId(self.0[..12].try_into().expect("twelve bytes"))
    }

    /// All bytes, for storing them; the nonce itself is still there to be used.
    #[must_use]
    pub fn bytes(&self) -> [u8; 24] {
        self.0
    }

    pub(crate) fn into_bytes(self) -> [u8; 24] {
        self.0
    }

    /// For known-answer tests alone, where the nonce is published.
    #[cfg(feature = "conformance")]
    #[must_use]
    pub fn published(bytes: [u8; 24]) -> FreshNonce {
        FreshNonce(bytes)
    }
}

/// A nonce read from the store, good for opening alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredNonce([u8; 24]);

impl StoredNonce {
    /// As stored whole.
    #[must_use]
    pub fn new(bytes: [u8; 24]) -> StoredNonce {
        StoredNonce(bytes)
    }

    /// From a session id and the suffix stored beside it.
    #[must_use]
    pub fn from_parts(session: SessionId, suffix: [u8; 12]) -> StoredNonce {
        let mut bytes = [0; 24];
        bytes[..12].copy_from_slice(&session.0);
        bytes[12..].copy_from_slice(&suffix);
        StoredNonce(bytes)
    }

    /// Of the chunk of a message that [`StreamNonces`] drew the nonces of.
    #[must_use]
    pub fn of_stream(chunk: u64, last: bool) -> StoredNonce {
        StoredNonce(stream_nonce(chunk, last))
    }

    pub(crate) fn into_bytes(self) -> [u8; 24] {
        self.0
    }
}

/// The nonces of the one message that a key was made for, cut into chunks
/// (STREAM: Hoang, Reyhanitabar, Rogaway, Vizár 2015): an 11-byte big-endian
/// counter and a byte that marks the last chunk, after twelve zero bytes. For
/// algorithms with a 12-byte nonce.
///
/// Whoever makes one vouches that the key is fresh and seals no other message.
#[derive(Debug)]
pub struct StreamNonces {
    next: u64,
    ended: bool,
}

impl StreamNonces {
    /// For a key that nothing was sealed under and nothing else will be.
    #[must_use]
    pub fn for_fresh_key() -> StreamNonces {
        StreamNonces { next: 0, ended: false }
    }

    /// The nonce of the next chunk.
    ///
    /// # Panics
    /// After the last chunk, or after 2^64 - 1 chunks.
    #[must_use]
    pub fn draw(&mut self, last: bool) -> FreshNonce {
        assert!(!self.ended, "the last chunk is the last");
        let nonce = FreshNonce(stream_nonce(self.next, last));
        self.next = self.next.checked_add(1).expect("fewer than 2^64 chunks");
        self.ended = last;
        nonce
    }
}

fn stream_nonce(chunk: u64, last: bool) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[15..23].copy_from_slice(&chunk.to_be_bytes());
    nonce[23] = u8::from(last);
    nonce
}

/// Draws nonces. One per mounted vault, made after the last fork.
pub struct NonceSource {
    state: Mutex<State>,
    machine: Box<dyn Machine>,
}

struct State {
    session: SessionId,
    owner: u32,
    /// How long the machine had been suspended when the session was opened.
    suspended_ns: u64,
    cipher_blocks: u64,
    /// Nonces drawn in the session; shared with its batches.
    drawn: Arc<AtomicU64>,
}

/// The system's generator failed, or gave nothing: sealing must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntropyError;

impl std::fmt::Display for EntropyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the kernel's random generator failed")
    }
}

impl std::error::Error for EntropyError {}

impl NonceSource {
    /// Opens a write session.
    ///
    /// # Errors
    /// [`EntropyError`] when the kernel gives no random bytes.
    pub fn new() -> Result<NonceSource, EntropyError> {
        Self::on(Box::new(Here))
    }

    fn on(machine: Box<dyn Machine>) -> Result<NonceSource, EntropyError> {
        let state = State::open(&*machine)?;
        Ok(NonceSource { state: Mutex::new(state), machine })
    }

    /// The session that the next batch will use, unless it has to be renewed.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).session
    }

    /// Closes the session and opens another: when the kernel announces that
    /// the machine was copied.
    ///
    /// # Errors
    /// [`EntropyError`]; the old session must not be used then.
    pub fn renew(&self) -> Result<(), EntropyError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.renewed(&*self.machine)?;
        Ok(())
    }

    /// Nonces for one batch that seals `bytes` in all. In a process that finds
    /// itself forked, on a machine that has been suspended since, and near its
    /// limit, the session is renewed first: what was copied while the machine
    /// slept may go on elsewhere.
    ///
    /// # Errors
    /// [`EntropyError`]; nothing may be sealed then.
    pub fn batch(&self, bytes: usize) -> Result<BatchNonces, EntropyError> {
        let (session, count) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let cipher_blocks = bytes as u64 / 16 + 1;
            let spent = state.cipher_blocks.saturating_add(cipher_blocks);
            let counted = state.drawn.load(Ordering::Relaxed);
            if spent > limits::SESSION_CIPHER_BLOCKS_MAX
                || counted > limits::SESSION_NONCES_MAX
                || state.is_stale(&*self.machine)
            {
                *state = state.renewed(&*self.machine)?;
            }
            state.cipher_blocks += cipher_blocks;
            (state.session, Arc::clone(&state.drawn))
        };
        let drawn: [u8; 7] = random(&*self.machine)?;
        Ok(BatchNonces { session, drawn, count, left: limits::BATCH_NONCES_MAX })
    }
}

impl State {
    fn open(machine: &dyn Machine) -> Result<State, EntropyError> {
        Ok(State {
            session: SessionId(random(machine)?),
            owner: machine.process(),
            suspended_ns: machine.suspended_ns(),
            cipher_blocks: 0,
            drawn: Arc::default(),
        })
    }

    /// The session that follows this one.
    fn renewed(&self, machine: &dyn Machine) -> Result<State, EntropyError> {
        let mut next = State::open(machine)?;
        let kept = SessionId::KIN_LEN;
        next.session.0[..kept].copy_from_slice(&self.session.0[..kept]);
        Ok(next)
    }

    /// The process was forked, or the machine suspended, since the session was
    /// opened.
    fn is_stale(&self, machine: &dyn Machine) -> bool {
        let slept = machine.suspended_ns().saturating_sub(self.suspended_ns);
        self.owner != machine.process() || slept >= limits::SUSPENSION_MIN_NS
    }
}

/// The nonces of one batch, handed out in order.
#[derive(Debug)]
pub struct BatchNonces {
    session: SessionId,
    drawn: [u8; 7],
    /// The session's counter.
    count: Arc<AtomicU64>,
    left: u64,
}

impl BatchNonces {
    /// The session of all of them.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The next one.
    ///
    /// # Panics
    /// After [`limits::BATCH_NONCES_MAX`], which no batch has segments for.
    #[must_use]
    pub fn draw(&mut self) -> FreshNonce {
        self.left = self.left.checked_sub(1).expect("a batch draws at most 2^32 nonces");
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(count < limits::COUNTER_END, "a session is renewed long before its counter ends");
        let mut bytes = [0; 24];
        bytes[..12].copy_from_slice(&self.session.0);
        bytes[12..19].copy_from_slice(&self.drawn);
        bytes[19..].copy_from_slice(&count.to_be_bytes()[3..]);
        FreshNonce(bytes)
    }
}

/// Random bytes of which the last seven are mixed with the fast-moving bytes of
/// the clock. They separate two copies of one machine that go on with the same
/// generator state at different moments.
fn random<const N: usize>(machine: &dyn Machine) -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    machine.random(&mut bytes)?;
    let mixed = machine.clock_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    for (byte, mix) in bytes[N - 7..].iter_mut().zip(&mixed[1..]) {
        *byte ^= mix;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nonces_differ_within_and_between_batches() {
        let source = NonceSource::new().unwrap();
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let mut batch = source.batch(4096).unwrap();
            for _ in 0..100 {
                assert!(seen.insert(batch.draw().bytes()));
            }
        }
    }

    /// Whatever the generator gives: by the counter alone.
    #[test]
    fn nonces_of_a_session_differ_by_their_counter() {
        let source = NonceSource::new().unwrap();
        let mut batches: Vec<_> = (0..50).map(|_| source.batch(4096).unwrap()).collect();
        let drawn: HashSet<[u8; 5]> = (0..1000)
            .map(|number| batches[number % 50].draw().bytes()[19..].try_into().expect("five bytes"))
            .collect();
        assert_eq!(drawn.len(), 1000);
    }

    #[test]
    fn a_session_renews_itself_before_its_counter_ends() {
        let source = NonceSource::new().unwrap();
        let (first, mut old) = (source.session(), source.batch(1).unwrap());
        source.state.lock().unwrap().drawn.store(limits::SESSION_NONCES_MAX + 1, Ordering::Relaxed);
        let mut new = source.batch(1).unwrap();
        assert_ne!(new.session(), first);
        assert_eq!(new.draw().bytes()[19..], [0; 5], "and counts from the beginning");
        assert_eq!(old.draw().session(), first, "a batch that was begun goes on");
    }

    #[test]
    fn a_stream_counts_its_chunks_and_marks_the_last() {
        let mut nonces = StreamNonces::for_fresh_key();
        let drawn = [nonces.draw(false), nonces.draw(false), nonces.draw(true)].map(FreshNonce::into_bytes);
        let stored = [(0, false), (1, false), (2, true)].map(|(n, last)| StoredNonce::of_stream(n, last));
        assert_eq!(drawn, stored.map(StoredNonce::into_bytes));
        assert_eq!(drawn[2][12..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]);
        assert!(std::panic::catch_unwind(move || nonces.draw(false)).is_err());
    }

    #[test]
    fn a_session_renews_itself_at_its_limit() {
        let source = NonceSource::new().unwrap();
        let first = source.session();
        source.state.lock().unwrap().cipher_blocks = limits::SESSION_CIPHER_BLOCKS_MAX - 1;
        let _ = source.batch(1 << 20).unwrap();
        assert_ne!(source.session(), first);
    }

    #[test]
    fn a_forked_process_opens_a_session_of_its_own() {
        let source = NonceSource::new().unwrap();
        let first = source.session();
        source.state.lock().unwrap().owner = 0;
        let _ = source.batch(1).unwrap();
        assert_ne!(source.session(), first);
    }

    /// A machine that can be copied while it runs: the copy's generator goes
    /// on from the same state.
    #[derive(Clone)]
    struct Copied {
        generator: Arc<AtomicU64>,
        clock_ns: Arc<AtomicU64>,
        suspended_ns: Arc<AtomicU64>,
    }

    impl Copied {
        fn new() -> Copied {
            let new = |value| Arc::new(AtomicU64::new(value));
            Copied { generator: new(1), clock_ns: new(1_000_000), suspended_ns: new(5) }
        }

        /// savevm and loadvm: state and source as they are, and apart from now on.
        fn copy(&self, source: &NonceSource) -> (Copied, NonceSource) {
            let apart = |value: &AtomicU64| Arc::new(AtomicU64::new(value.load(Ordering::Relaxed)));
            let copy = Copied {
                generator: apart(&self.generator),
                clock_ns: apart(&self.clock_ns),
                suspended_ns: apart(&self.suspended_ns),
            };
            let state = source.state.lock().unwrap();
            let drawn = Arc::new(AtomicU64::new(state.drawn.load(Ordering::Relaxed)));
            let state = State { drawn, ..*state };
            let source = NonceSource { state: Mutex::new(state), machine: Box::new(copy.clone()) };
            (copy, source)
        }
    }

    impl Machine for Copied {
        fn random(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
            for byte in bytes {
                let state = self.generator.load(Ordering::Relaxed);
                let next = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                self.generator.store(next, Ordering::Relaxed);
                *byte = (next >> 33) as u8;
            }
            Ok(())
        }

        fn clock_ns(&self) -> u64 {
            self.clock_ns.fetch_add(1000, Ordering::Relaxed)
        }

        fn suspended_ns(&self) -> u64 {
            self.suspended_ns.load(Ordering::Relaxed)
        }

        fn process(&self) -> u32 {
            7
        }
    }

    fn draw(source: &NonceSource) -> HashSet<[u8; 24]> {
        let batches = (0..200).map(|_| source.batch(4096).unwrap());
        batches.flat_map(|mut batch| [batch.draw().bytes(), batch.draw().bytes()]).collect()
    }

    fn copied() -> (Copied, NonceSource) {
        let machine = Copied::new();
        let source = NonceSource::on(Box::new(machine.clone())).unwrap();
        draw(&source);
        (machine, source)
    }

    #[test]
    fn copies_of_a_machine_that_go_on_at_different_moments_share_no_nonce() {
        let (machine, source) = copied();
        let (copy, other) = machine.copy(&source);
        copy.clock_ns.fetch_add(1_000_000_007, Ordering::Relaxed);
        assert!(draw(&source).is_disjoint(&draw(&other)));
        // Nor do their next sessions agree, though the generator repeats itself.
        source.renew().unwrap();
        other.renew().unwrap();
        assert_ne!(source.session(), other.session());
    }

    #[test]
    fn copies_that_were_told_share_no_nonce_even_at_the_same_moment() {
        let (machine, source) = copied();
        let (copy, other) = machine.copy(&source);
        // The kernel has a new generation: its generator is seeded again.
        copy.generator.fetch_xor(0xdead_beef, Ordering::Relaxed);
        other.renew().unwrap();
        assert_ne!(source.session(), other.session());
        assert!(draw(&source).is_disjoint(&draw(&other)));
    }

    /// The window that remains: nobody was told, and generator and clock agree
    /// to the nanosecond. The threat model says so.
    #[test]
    fn copies_alike_in_everything_are_not_told_apart() {
        let (machine, source) = copied();
        let (_, other) = machine.copy(&source);
        assert_eq!(draw(&source), draw(&other));
    }

    #[test]
    fn a_resume_opens_a_session_and_jitter_of_the_clocks_does_not() {
        let (machine, source) = copied();
        let first = source.session();
        machine.suspended_ns.fetch_add(limits::SUSPENSION_MIN_NS - 1, Ordering::Relaxed);
        draw(&source);
        assert_eq!(source.session(), first);
        machine.suspended_ns.fetch_add(1, Ordering::Relaxed);
        let _ = source.batch(1).unwrap();
        let second = source.session();
        assert_ne!(second, first);
        assert_eq!(second.0[..SessionId::KIN_LEN], first.0[..SessionId::KIN_LEN]);
        draw(&source);
        assert_eq!(source.session(), second, "once for each");
    }
}
