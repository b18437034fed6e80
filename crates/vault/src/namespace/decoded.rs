//! What is kept of the names in a directory.

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

/// Plain names by stored ones, so that listing a directory again is cheap.
pub(super) struct DecodedNames {
    pub(super) names: HashMap<Arc<[u8]>, Arc<[u8]>>,
    /// Counts the names of all directories.
    pub(super) held: Arc<AtomicUsize>,
}

impl Drop for DecodedNames {
    fn drop(&mut self) {
        self.held.fetch_sub(self.names.len(), Ordering::Relaxed);
    }
}
