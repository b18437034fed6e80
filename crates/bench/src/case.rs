//! What is measured.

use strongroom_engine::{Algorithm, Operation};

/// One measurement: what is computed, in which portions, by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What is computed.
    pub algorithm: Algorithm,
    /// Bytes of its key, one of [`Algorithm::key_lens`].
    pub key_len: usize,
    /// What is done.
    pub operation: Operation,
    /// Bytes of a batch; for sectors a multiple of 512.
    pub bytes: usize,
    /// Bytes of a segment, the last one's fewer: a whole number of cipher
    /// blocks.
    pub segment_bytes: usize,
    /// Bytes of a sector, for algorithms that work on sectors; segments that
    /// are not of whole ones have sectors of 512.
    pub sector_bytes: u32,
    /// Threads that submit at the same time, each its own batches.
    pub threads: usize,
    /// Batches that each thread has submitted and not got back; more than one
    /// makes a difference with devices alone.
    pub in_flight: usize,
}

/// The operations of an algorithm in the two directions that data take, the
/// one towards the store first.
#[must_use]
pub fn operations(algorithm: Algorithm) -> [Operation; 2] {
    match algorithm {
        Algorithm::Aead(_) => [Operation::Seal, Operation::Open],
        Algorithm::Sector(_) => [Operation::EncryptSectors, Operation::DecryptSectors],
    }
}
