//! Masks out of a batch of keystream.

use strongroom_engine::{Batch, MaskMemory};

/// One mask, wiped when it is dropped.
struct Copied(Vec<u8>);

impl MaskMemory for Copied {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// The masks of all segments; the batch's buffer is wiped.
pub(crate) fn split(mut batch: Batch) -> Vec<Box<dyn MaskMemory>> {
    let copy = |segment: &strongroom_engine::Segment| {
        Box::new(Copied(batch.buffer[segment.range()].to_vec())) as Box<dyn MaskMemory>
    };
    let masks = batch.segments.iter().map(copy).collect();
    batch.buffer.fill(0);
    std::hint::black_box(&batch.buffer);
    masks
}
