//! Submitting, waiting, trying again, and making the data of the checks.

use std::time::Duration;

use crate::client::{Cause, Failure, Flight};
use crate::{
    Algorithm, AssociatedData, Batch, Buffer, Capability, Completed, Engine, FreshNonce, Operation, Outcome,
    Refusal, Segment, Session, SessionError, StoredNonce, Tag, Vanished, Verdict,
};

/// How long one batch may take on the slowest engine and machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine under test.
#[derive(Clone, Copy)]
pub(super) struct Exerciser<'e> {
    pub(super) engine: &'e dyn Engine,
    pub(super) tolerate_loss: bool,
}

/// One message, as sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) nonce: [u8; 24],
    pub(super) ad: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) tag: Tag,
}

impl Exerciser<'_> {
    pub(super) fn claims(&self, algorithm: Algorithm, operation: Operation) -> bool {
        self.engine.capability(algorithm, operation).is_some()
    }

    pub(super) fn claims_pair(&self, algorithm: Algorithm, one: Operation, other: Operation) -> bool {
        let claimed = self.claims(algorithm, one);
        let name = self.engine.name();
        assert_eq!(claimed, self.claims(algorithm, other), "{name}: {algorithm:?} {one:?} without {other:?}");
        claimed
    }

    pub(super) fn capability(&self, algorithm: Algorithm, operation: Operation) -> Capability {
        self.engine.capability(algorithm, operation).expect("a claimed operation")
    }

    pub(super) fn session(&self, algorithm: Algorithm, key: &[u8]) -> Session {
        let session = self.engine.session(algorithm, key);
        let session = session.unwrap_or_else(|error| {
            panic!("{}: {algorithm:?} key of {}: {error}", self.engine.name(), key.len())
        });
        assert_eq!(session.algorithm(), algorithm);
        session
    }

    /// As [`Exerciser::session`]; `None` when the engine lacks keys of this
    /// length.
    pub(super) fn session_if_offered(&self, algorithm: Algorithm, key: &[u8]) -> Option<Session> {
        match self.engine.session(algorithm, key) {
            Err(SessionError::Unsupported) => None,
            _ => Some(self.session(algorithm, key)),
        }
    }

    /// Runs the batch to its end, through busy and, where tolerated, loss.
    pub(super) fn execute(&self, session: &Session, mut batch: Batch) -> Completed {
        let kept = batch.duplicate();
        let capability = self.engine.capability(session.algorithm(), batch.operation);
        let name = self.engine.name();
        loop {
            let ticket = match self.engine.submit(session, batch) {
                Ok(ticket) => ticket,
                Err(refused) => {
                    assert_eq!(refused.refusal, Refusal::Busy, "{name}: a sound batch was refused");
                    assert_same(&refused.batch, &kept, name);
                    self.engine.flush();
                    std::thread::sleep(Duration::from_micros(20));
                    batch = refused.batch;
                    continue;
                }
            };
            if capability.is_some_and(|capability| capability.inline) {
                assert!(ticket.is_inline(), "{name}: claims to be inline and is not");
            }
            self.engine.flush();
            match ticket.wait_for(PATIENCE) {
                Ok(Ok(completed)) if completed.outcome != Outcome::DeviceLost => return completed,
                Ok(Ok(_)) | Ok(Err(Vanished)) => {
                    assert!(self.tolerate_loss, "{name}: lost a batch");
                    batch = kept.duplicate();
                }
                Err(_) => panic!("{name}: no answer within {PATIENCE:?}"),
            }
        }
    }

    /// What `submit` says of an unsound batch, once it is not busy. The batch
    /// must come back untouched.
    pub(super) fn refusal(&self, session: &Session, batch: Batch) -> Refusal {
        let kept = batch.duplicate();
        let name = self.engine.name();
        let mut batch = batch;
        loop {
            let refused = self.engine.submit(session, batch).err();
            let refused = refused.unwrap_or_else(|| panic!("{name}: accepted an unsound batch"));
            assert_same(&refused.batch, &kept, name);
            if refused.refusal != Refusal::Busy {
                return refused.refusal;
            }
            batch = refused.batch;
            self.engine.flush();
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Runs the batches together, each to its end, and gives them in their order.
    pub(super) fn execute_together(&self, session: &Session, batches: Vec<Batch>) -> Vec<Completed> {
        let kept: Vec<Batch> = batches.iter().map(Batch::duplicate).collect();
        let name = self.engine.name();
        let mut flight = Flight::new(self.engine);
        for batch in batches {
            if let Err(failure) = flight.add(session, batch) {
                panic!("{name}: a sound batch: {failure}");
            }
        }
        let one = |(answer, kept): (Result<Completed, Failure>, &Batch)| match answer {
            Ok(completed) => completed,
            Err(Failure { cause: Cause::DeviceLost | Cause::Vanished, .. }) if self.tolerate_loss => {
                self.execute(session, kept.duplicate())
            }
            Err(failure) => panic!("{name}: one of several batches: {failure}"),
        };
        flight.zip(&kept).map(one).collect()
    }

    /// Seals one message that begins at `start` in its buffer, and checks
    /// that the bytes around it stay as they were.
    pub(super) fn seal(
        &self,
        session: &Session,
        nonce: [u8; 24],
        ad: &[u8],
        plaintext: &[u8],
        start: usize,
    ) -> Sealed {
        let nonce = fitting(session.algorithm(), nonce);
        let segment =
            Segment::seal(start, plaintext.len(), FreshNonce::published(nonce), AssociatedData::new(ad));
        let batch = framed(Operation::Seal, segment, plaintext);
        let completed = self.execute(session, batch);
        assert_eq!(completed.outcome, Outcome::Done, "{}", self.engine.name());
        let data = unframed(&completed, self.engine.name());
        Sealed { nonce, ad: ad.to_vec(), data, tag: *completed.batch.segments[0].tag() }
    }

    /// Opens one message; `None` when it is forged, and then its bytes must
    /// be zero.
    pub(super) fn open(&self, session: &Session, sealed: &Sealed, start: usize) -> Option<Vec<u8>> {
        let segment = sealed.open_segment(start);
        let completed = self.execute(session, framed(Operation::Open, segment, &sealed.data));
        let name = self.engine.name();
        let data = unframed(&completed, name);
        match completed.batch.segments[0].verdict() {
            Verdict::Done => {
                assert_eq!(completed.outcome, Outcome::Done, "{name}");
                Some(data)
            }
            Verdict::Forged => {
                assert_eq!(completed.outcome, Outcome::AuthenticationFailed, "{name}");
                assert!(data.iter().all(|&byte| byte == 0), "{name}: forged bytes were not zeroed");
                None
            }
            Verdict::Pending => panic!("{name}: completed a batch with a pending segment"),
        }
    }
}

impl Sealed {
    pub(super) fn open_segment(&self, start: usize) -> Segment {
        let nonce = StoredNonce::new(self.nonce);
        Segment::open(start, self.data.len(), nonce, AssociatedData::new(&self.ad), self.tag)
    }
}

/// What stands before and after a segment in its buffer.
const FRAME: u8 = 0xa5;
const FRAME_LEN: usize = 64;

/// A batch of one segment over `data`, with a frame around it.
pub(super) fn framed(operation: Operation, segment: Segment, data: &[u8]) -> Batch {
    let mut buffer = Buffer::new(segment.start() + segment.len() + FRAME_LEN);
    buffer.fill(FRAME);
    buffer[segment.range()].copy_from_slice(data);
    Batch::new(operation, buffer, vec![segment])
}

/// The segment's bytes, after a look at the frame.
pub(super) fn unframed(completed: &Completed, name: &str) -> Vec<u8> {
    let buffer = &completed.batch.buffer;
    let range = completed.batch.segments[0].range();
    let untouched = buffer[..range.start].iter().chain(&buffer[range.end..]).all(|&byte| byte == FRAME);
    assert!(untouched, "{name}: wrote outside the segment {range:?}");
    buffer[range].to_vec()
}

fn assert_same(found: &Batch, kept: &Batch, name: &str) {
    assert_eq!(found.operation, kept.operation, "{name}: a refusal changed the operation");
    assert!(found.buffer[..] == kept.buffer[..], "{name}: a refusal changed the data");
    let segments = |batch: &Batch| {
        let fields = batch.segments.iter().map(|segment| {
            (segment.start(), segment.len(), *segment.nonce(), *segment.tag(), segment.verdict())
        });
        fields.collect::<Vec<_>>()
    };
    assert_eq!(segments(found), segments(kept), "{name}: a refusal changed the segments");
}

/// `len` bytes that look random and depend on `seed` (SplitMix64).
pub(super) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95) ^ len as u64;
    let mut words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    });
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&words.next().expect("an endless iterator"));
    }
    bytes.truncate(len);
    bytes
}

/// A nonce that depends on `seed`.
pub(super) fn nonce(seed: u64) -> [u8; 24] {
    bytes(seed ^ 0x6e6f_6e63_6500_0000, 24).try_into().expect("24 bytes")
}

/// The nonce with zeros where the algorithm has no byte of it.
pub(super) fn fitting(algorithm: Algorithm, mut nonce: [u8; 24]) -> [u8; 24] {
    if let Algorithm::Aead(aead) = algorithm {
        nonce[..24 - aead.nonce_len()].fill(0);
    }
    nonce
}

/// The first start at or after `wanted` that the engine can work at.
pub(super) fn aligned(wanted: usize, capability: Capability) -> usize {
    wanted.next_multiple_of(capability.alignment.max(1))
}
