//! Models of the threads that check and copy: the pool itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use strongroom_engine::Buffer;
use strongroom_model::{Schedules, explore, thread};

use crate::pool::{Parts, Pool};

/// Parts of each file that is handed over.
const FILES: [usize; 4] = [2, 1, 3, 0];

/// What was done, in all files.
#[derive(Default)]
struct Done {
    begun: AtomicUsize,
    finished: AtomicUsize,
    parts: AtomicUsize,
}

struct Counted {
    left: Vec<AtomicUsize>,
    done: Arc<Done>,
}

impl Counted {
    fn new(parts: usize, done: &Arc<Done>) -> Counted {
        done.begun.fetch_add(1, Relaxed);
        Counted { left: (0..parts).map(|_| AtomicUsize::new(1)).collect(), done: Arc::clone(done) }
    }
}

impl Parts for Counted {
    fn count(&self) -> usize {
        self.left.len()
    }

    fn run(&self, part: usize, _: &mut Buffer) {
        // Other threads may go on while a part is worked on.
        thread::yield_now();
        assert_eq!(self.left[part].fetch_sub(1, Relaxed), 1, "a part is worked on once");
        self.done.parts.fetch_add(1, Relaxed);
    }

    fn finish(&self) {
        assert!(self.left.iter().all(|left| left.load(Relaxed) == 0), "finished before its parts");
        self.done.finished.fetch_add(1, Relaxed);
    }
}

/// Two threads work while a third hands files over, with room for one.
fn work(interrupted: bool) -> Arc<Done> {
    let done = Arc::new(Done::default());
    let interrupt = Arc::new(AtomicBool::new(false));
    let pool = Pool::with_room(Arc::clone(&interrupt), 1);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| pool.work());
        }
        if interrupted {
            scope.spawn(|| interrupt.store(true, Relaxed));
        }
        for parts in FILES {
            let done = Arc::clone(&done);
            pool.submit(Box::new(move || {
                (parts > 0).then(|| Box::new(Counted::new(parts, &done)) as Box<dyn Parts>)
            }));
        }
        pool.close();
    });
    done
}

#[test]
fn every_part_of_every_file_is_worked_on_once() {
    explore(Schedules::All, || {
        let done = work(false);
        assert_eq!(done.parts.load(Relaxed), FILES.iter().sum::<usize>());
        assert_eq!(done.finished.load(Relaxed), FILES.iter().filter(|parts| **parts > 0).count());
    });
}

/// Who is interrupted ends, whoever waits for whom, and what was begun is
/// finished.
#[test]
fn an_interrupt_at_any_moment_ends_every_thread() {
    explore(Schedules::All, || {
        let done = work(true);
        assert_eq!(done.begun.load(Relaxed), done.finished.load(Relaxed));
    });
}
