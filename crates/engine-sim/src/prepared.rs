//! Results computed beforehand, so that answering costs a comparison and a
//! copy, and no cryptography.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use strongroom_engine::{Batch, Completed, Engine, Operation, Outcome, Session, client};

/// What tells batches apart at first sight; the data are compared besides.
type Key = (Operation, [u8; 24], usize);

/// Sources with their results.
#[derive(Default)]
pub(crate) struct Prepared(Mutex<HashMap<Key, Vec<(Batch, Completed)>>>);

fn key(batch: &Batch) -> Option<Key> {
    Some((batch.operation, *batch.segments.first()?.nonce(), batch.bytes()))
}

impl Prepared {
    pub(crate) fn prepare(&self, inner: &dyn Engine, session: &Session, batch: &Batch) -> bool {
        let Some(key) = key(batch) else { return false };
        let compute = || client::execute(inner, session, batch.duplicate()).ok();
        // Computed twice: what will be handed out unseen has to be right.
        let (Some(one), Some(other)) = (compute(), compute()) else { return false };
        if one.outcome != Outcome::Done || one.batch.buffer[..] != other.batch.buffer[..] {
            return false;
        }
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.entry(key).or_default().push((batch.duplicate(), one));
        true
    }

    /// The answer to a batch like one that was prepared, in its own buffer.
    pub(crate) fn answer(&self, batch: &mut Batch) -> Option<Outcome> {
        let prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.is_empty() {
            return None;
        }
        let is_same = |source: &Batch| {
            source.buffer[..] == batch.buffer[..]
                && source.segments.len() == batch.segments.len()
                && source.segments.iter().zip(&batch.segments).all(|(one, other)| {
                    one.range() == other.range()
                        && one.nonce() == other.nonce()
                        && one.associated_data() == other.associated_data()
                        && one.tag() == other.tag()
                })
        };
        let (_, done) = prepared.get(&key(batch)?)?.iter().find(|(source, _)| is_same(source))?;
        batch.buffer.copy_from_slice(&done.batch.buffer);
        batch.absorb(0, &done.batch);
        Some(done.outcome)
    }
}
