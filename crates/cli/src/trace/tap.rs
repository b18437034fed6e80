//! At FUSE.

use std::time::Duration;

use strongroom_fuse::{NodeId, Tap, Tapped};
use strongroom_trace::{Kind, Seen};

use super::Tracing;

impl Tap for Tracing {
    fn is_on(&self) -> bool {
        self.recorder.is_on()
    }

    fn begins(&self, what: Tapped, node: NodeId, caller: u32) {
        let (kind, offset, bytes) = match what {
            Tapped::Read(offset, len) => (Kind::Read, Some(offset), len),
            Tapped::Write(offset, len) => (Kind::Write, Some(offset), len),
            Tapped::Durable => (Kind::Durable, None, 0),
            Tapped::Names => (Kind::Names, None, 0),
            Tapped::Other => (Kind::Other, None, 0),
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.recorder.begins(&Seen { kind, file: node.0, offset, bytes, caller });
    }

    fn answered(&self, took: Duration) {
        self.recorder.answered(took);
    }
}
