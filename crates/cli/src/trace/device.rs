//! At the exports of disks that do not go through FUSE.

use std::sync::Arc;
use std::time::Instant;

use strongroom_disk::{Device, Extent, Piece, Result};
use strongroom_engine::{Buffer, Origin};
use strongroom_trace::{Kind, Seen};

use super::Tracing;

/// A device that is looked at. Pieces that are asked for together are one
/// request, with the place of the first.
pub(crate) struct Traced {
    inner: Arc<dyn Device>,
    tracing: Arc<Tracing>,
}

impl Traced {
    /// Looks at `inner`.
    pub(crate) fn new(inner: Arc<dyn Device>, tracing: Arc<Tracing>) -> Traced {
        Traced { inner, tracing }
    }

    fn seen<T>(&self, kind: Kind, offset: Option<u64>, bytes: u64, serve: impl FnOnce() -> T) -> T {
        let recorder = &self.tracing.recorder;
        if !recorder.is_on() {
            return serve();
        }
        let began = Instant::now();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        recorder.begins(&Seen { kind, file: 1, offset, bytes, caller: Origin::here().caller });
        let answer = serve();
        recorder.answered(began.elapsed());
        answer
    }
}

fn bytes(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.len as u64).sum()
}

fn first(pieces: &[Piece]) -> Option<u64> {
    pieces.first().map(|piece| piece.offset)
}

impl Device for Traced {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sector_len(&self) -> u32 {
        self.inner.sector_len()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn buffer(&self, len: usize) -> Buffer {
        self.inner.buffer(len)
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn read(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        let read = || self.inner.read(pieces, buffer, outcomes);
        self.seen(Kind::Read, first(pieces), bytes(pieces), read);
    }

    fn write(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        let write = || self.inner.write(pieces, buffer, outcomes);
        self.seen(Kind::Write, first(pieces), bytes(pieces), write);
    }

    fn flush(&self) -> Result<()> {
        self.seen(Kind::Durable, None, 0, || self.inner.flush())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.seen(Kind::Other, Some(offset), 0, || self.inner.discard(offset, len))
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent> {
        self.inner.extent(offset, len)
    }
}
