//! Blocks on their way from a buffer into a stored file: which they are, and
//! having them sealed. Where they are stored is for `place`.

use std::ops::Range;

use strongroom_engine::client::Flight;
use strongroom_engine::{AssociatedData, Batch, Buffer, Operation, Segment};
use strongroom_units::{BlockIndex, BlockSize, GROUP_BLOCKS, GroupIndex, PlainLen, PlainOffset};

use super::Content;
use super::range::Piece;
use crate::error::Result;
use crate::sealer::{BlockNonces, Purpose};

/// One block to be sealed and stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) block: BlockIndex,
    /// Where its plaintext, then ciphertext, stands in its buffer.
    pub(super) at: usize,
    pub(super) len: usize,
}

/// Blocks to be stored from one buffer, in ascending order.
pub(super) struct Load<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) jobs: Vec<Job>,
    /// One for each job, or none yet.
    pub(super) sealed: Vec<Segment>,
}

impl<'a> Load<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, jobs: Vec<Job>) -> Load<'a> {
        Load { buffer, jobs, sealed: Vec::new() }
    }

    pub(super) fn blocks(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.len).sum()
    }

    /// The jobs of a group's blocks, which have been sealed.
    pub(super) fn of_group(&self, group: GroupIndex) -> impl Iterator<Item = (&Job, &Segment)> {
        let first = self.jobs.partition_point(|job| job.block.group() < group);
        let jobs = self.jobs.iter().zip(&self.sealed).skip(first);
        jobs.take_while(move |(job, _)| job.block.group() == group)
    }

    pub(super) fn batch(&mut self, nonces: &mut BlockNonces, content: &Content) -> Batch {
        let segments = self
            .jobs
            .iter()
            .map(|job| {
                let bound = AssociatedData::new(&content.blocks.at(job.block));
                nonces.seal(job.at, job.len, bound)
            })
            .collect();
        Batch::new(Operation::Seal, self.buffer.take(), segments)
    }
}

/// Blocks one behind the other that are to be stored together.
pub(super) struct Run<'l> {
    pub(super) blocks: Range<u64>,
    pub(super) is_journaled: bool,
    pub(super) data: &'l [u8],
}

impl Run<'_> {
    /// The groups that it has blocks of: one alone, if it goes in place.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupIndex> + use<> {
        let (first, last) = (BlockIndex(self.blocks.start), BlockIndex(self.blocks.end - 1));
        (first.group().0..=last.group().0).map(GroupIndex)
    }
}

/// The first block of a group.
pub(super) fn first_of(group: GroupIndex) -> BlockIndex {
    BlockIndex(group.0 * GROUP_BLOCKS)
}

/// The groups that loads have blocks of, in order.
pub(super) fn groups_of(loads: &[Load<'_>]) -> Vec<GroupIndex> {
    let mut groups: Vec<GroupIndex> =
        loads.iter().flat_map(|load| &load.jobs).map(|job| job.block.group()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

impl Content {
    /// Nonces for blocks of this file.
    pub(super) fn draw_for(&self, blocks: usize, bytes: usize) -> Result<BlockNonces> {
        self.context.sealer.draw_for_blocks(self.generation(), blocks, bytes)
    }

    /// Has the engine seal the loads that have blocks, together.
    pub(super) fn begin_sealing(
        &self,
        loads: &mut [Load<'_>],
        nonces: &mut BlockNonces,
    ) -> Result<Flight<'_>> {
        let batches =
            loads.iter_mut().filter(|load| !load.jobs.is_empty()).map(|load| load.batch(nonces, self));
        self.context.sealer.submit_many(Purpose::Blocks(self.generation()), batches)
    }

    /// Waits until they are sealed.
    pub(super) fn end_sealing(loads: &mut [Load<'_>], flight: &mut Flight<'_>) -> Result<()> {
        for load in loads.iter_mut().filter(|load| !load.jobs.is_empty()) {
            let batch = flight.next().expect("one for each load")?.batch;
            *load.buffer = batch.buffer;
            load.sealed = batch.segments;
        }
        Ok(())
    }
}

/// The last block of a file of `old_len`, when it stands before `first` and is
/// longer in one of `new_len`.
pub(super) fn tail(
    size: BlockSize,
    old_len: PlainLen,
    new_len: PlainLen,
    first: BlockIndex,
) -> Option<BlockIndex> {
    let grows = !old_len.0.is_multiple_of(size.bytes()) && new_len > old_len;
    grows.then(|| size.block_of(PlainOffset(old_len.0 - 1))).filter(|last| *last < first)
}

/// Puts the pieces of a write over what their blocks held.
pub(super) fn overlay(partial: &[Piece], merged: &[Job], buffer: &[u8], scratch: &mut [u8]) {
    for piece in partial {
        let job = merged.iter().find(|job| job.block == piece.block).expect("every partial piece has a job");
        scratch[job.at + piece.from..job.at + piece.to]
            .copy_from_slice(&buffer[piece.at..piece.at + piece.len()]);
    }
}

/// Pieces that are written as they come.
pub(super) fn whole_jobs(pieces: impl IntoIterator<Item = Piece>) -> Vec<Job> {
    pieces.into_iter().map(|piece| Job { block: piece.block, at: piece.at, len: piece.len() }).collect()
}
