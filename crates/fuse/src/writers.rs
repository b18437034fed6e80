//! Which files are open for writing.

use crate::filesystem::NodeId;
use std::collections::HashMap;

/// Nodes with handles that are open for writing, and how many.
#[derive(Debug, Default)]
pub(crate) struct Writers(HashMap<NodeId, u64>);

impl Writers {
    /// A file was opened for writing.
    pub(crate) fn opened(&mut self, node: NodeId) {
        *self.0.entry(node).or_default() += 1;
    }

    /// As many times, it was closed.
    pub(crate) fn closed(&mut self, node: NodeId) {
        if let Some(count) = self.0.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&node);
            }
        }
    }

    /// Those that some handle is open for writing of.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.0.keys().copied().collect()
    }

    /// True while some handle is open for writing.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_writers_until_the_last_is_closed() {
        let mut writers = Writers::default();
        writers.opened(NodeId(7));
        writers.opened(NodeId(7));
        writers.closed(NodeId(7));
        writers.closed(NodeId(8));
        assert!(writers.has(NodeId(7)) && !writers.has(NodeId(8)));
        writers.closed(NodeId(7));
        assert!(!writers.has(NodeId(7)));
    }
}
