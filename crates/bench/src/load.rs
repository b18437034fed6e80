//! Other work for the CPUs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Threads that compute and do nothing else, as programs of other users would,
/// until this is dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// One busy thread for each of `cpus`. Where the system gives fewer
    /// threads there are fewer.
    #[must_use]
    pub fn on(cpus: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let stop = Arc::clone(&stop);
            std::thread::Builder::new().name("load".into()).spawn(move || compute(&stop)).ok()
        };
        let threads = (0..cpus).filter_map(busy).collect();
        Load { stop, threads }
    }

    /// How many threads are busy.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}

fn compute(stop: &AtomicBool) {
    let mut state = 1u64;
    while !stop.load(Relaxed) {
        for _ in 0..4096 {
            // Knuth's generator: integer work that cannot be left out.
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It computes and cannot panic.
            let _ = thread.join();
        }
    }
}
