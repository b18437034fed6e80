//! What the tests of single files share.

use std::io::Write;
use std::sync::{Arc, Mutex};

/// A stream that keeps what is written to it, for each of its clones.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("sound").clone()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("sound").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
