//! Keeps records while requests are served by many threads.
//!
//! A thread says that it begins with a request, what engines took meanwhile, and
//! that it has answered. What a thread has begun stands in its thread-local
//! memory; records go to one of several lists, each with a lock that hardly ever
//! two threads want at once. While nothing is recorded all of this costs one
//! load of a flag that nobody writes.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::record::{CPU_UNKNOWN, Kind, Offset, Record};

/// Most records of a trace: 16 MiB.
pub const RECORDS_MAX: usize = 1 << 19;
/// Lists of records.
const LISTS: usize = 16;
/// Files whose last request is remembered; two that share a place take each
/// other for jumps.
const PLACES: usize = 256;
/// One request in so many has its CPU time taken: that costs two system calls.
const SAMPLED: u32 = 16;
/// Further away is elsewhere.
const NEAR: u64 = 1 << 20;
/// Callers that have a number of their own.
const CALLERS_MAX: u16 = u16::MAX - 1;

/// A request as it begins.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What is asked.
    pub kind: Kind,
    /// Tells files apart; it is not kept.
    pub file: u64,
    /// Where it begins; none where it has no place.
    pub offset: Option<u64>,
    /// Bytes asked for.
    pub bytes: u32,
    /// Tells those who ask apart, and is not kept; 0 is the kernel.
    pub caller: u32,
}

/// When a batch began.
#[derive(Clone, Copy, Debug)]
pub enum Started {
    /// By the CPU time of the thread.
    Cpu(Duration),
    /// By the clock.
    Wall(Instant),
}

/// What a thread is about.
#[derive(Clone, Copy, Default)]
struct Begun {
    /// Which of the recorder's traces it belongs to; 0 when nothing is begun.
    trace: u32,
    kind: u8,
    offset: u8,
    bytes: u32,
    caller: u16,
    cpu_ns: Option<u64>,
    cryptography_ns: u64,
    sealed_bytes: u64,
    batches: u8,
    on_cpu: bool,
    on_device: bool,
}

thread_local! {
    static BEGUN: Cell<Begun> = const { Cell::new(Begun {
        trace: 0, kind: 0, offset: 0, bytes: 0, caller: 0, cpu_ns: None, cryptography_ns: 0, sealed_bytes: 0,
        batches: 0, on_cpu: false, on_device: false,
    }) };
    static LIST: usize = next_list();
    /// Whom this thread served last: the trace, who it was, and the number.
    static LAST: Cell<(u32, u32, u16)> = const { Cell::new((0, 0, 0)) };
}

fn next_list() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Relaxed) % LISTS
}

/// See the module.
pub struct Recorder {
    is_on: AtomicBool,
    /// Counts traces, so that what was begun in one does not end in another.
    trace: AtomicU32,
    /// What times are counted from, and when the trace began, after that.
    base: Instant,
    began_ns: AtomicU64,
    is_begun: Mutex<bool>,
    lists: [Mutex<Vec<Record>>; LISTS],
    kept: AtomicUsize,
    turn: AtomicU32,
    callers: Mutex<HashMap<u32, u16>>,
    /// A file and where its last request ended.
    places: Box<[(AtomicU64, AtomicU64)]>,
    background_ns: AtomicU64,
    background_bytes: AtomicU64,
    background_batches: AtomicU64,
    /// CPU time of the calling thread.
    thread_cpu: fn() -> Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was recorded.
pub(crate) struct Kept {
    pub(crate) records: Vec<Record>,
    pub(crate) recorded: Duration,
    pub(crate) is_full: bool,
}

impl Recorder {
    /// That records nothing yet. `thread_cpu` gives the CPU time of the thread
    /// that calls it.
    #[must_use]
    pub fn new(thread_cpu: fn() -> Duration) -> Recorder {
        Recorder {
            is_on: AtomicBool::new(false),
            trace: AtomicU32::new(0),
            base: Instant::now(),
            began_ns: AtomicU64::new(0),
            is_begun: Mutex::new(false),
            lists: std::array::from_fn(|_| Mutex::new(Vec::new())),
            kept: AtomicUsize::new(0),
            turn: AtomicU32::new(0),
            callers: Mutex::new(HashMap::new()),
            places: (0..PLACES).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect(),
            background_ns: AtomicU64::new(0),
            background_bytes: AtomicU64::new(0),
            background_batches: AtomicU64::new(0),
            thread_cpu,
        }
    }

    /// Whether it records.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Begins a trace; false when one is under way.
    pub fn start(&self) -> bool {
        let mut is_begun = lock(&self.is_begun);
        if *is_begun {
            return false;
        }
        self.lists.iter().for_each(|list| lock(list).clear());
        lock(&self.callers).clear();
        self.places.iter().for_each(|(file, end)| {
            file.store(0, Relaxed);
            end.store(0, Relaxed);
        });
        self.kept.store(0, Relaxed);
        for count in [&self.background_ns, &self.background_bytes, &self.background_batches] {
            count.store(0, Relaxed);
        }
        // 0 is nobody's.
        let trace = self.trace.load(Relaxed).wrapping_add(1).max(1);
        self.trace.store(trace, Relaxed);
        *is_begun = true;
        self.began_ns.store(self.base.elapsed().as_nanos() as u64, Relaxed);
        self.is_on.store(true, Relaxed);
        true
    }

    /// Ends the trace; none when there is none.
    pub(crate) fn end(&self) -> Option<Kept> {
        let mut is_begun = lock(&self.is_begun);
        if !std::mem::take(&mut *is_begun) {
            return None;
        }
        let recorded = Duration::from_nanos(self.elapsed_ns());
        let is_full = !self.is_on.swap(false, Relaxed);
        let mut records: Vec<Record> =
            self.lists.iter().flat_map(|list| std::mem::take(&mut *lock(list))).collect();
        records.sort_by_key(|record| record.start_ns);
        Some(Kept { records, recorded, is_full })
    }

    /// Since the trace began.
    fn elapsed_ns(&self) -> u64 {
        (self.base.elapsed().as_nanos() as u64).saturating_sub(self.began_ns.load(Relaxed))
    }

    /// Cryptography that no request waited for: nanoseconds, bytes and batches.
    pub(crate) fn background(&self) -> [u64; 3] {
        [&self.background_ns, &self.background_bytes, &self.background_batches]
            .map(|count| count.load(Relaxed))
    }

    /// This thread begins with a request.
    pub fn begins(&self, seen: &Seen) {
        if !self.is_on() {
            return;
        }
        let turn = self.turn.fetch_add(1, Relaxed);
        BEGUN.set(Begun {
            trace: self.trace.load(Relaxed),
            kind: seen.kind as u8,
            offset: self.offset(seen) as u8,
            bytes: seen.bytes,
            caller: self.caller_known(seen.caller),
            cpu_ns: turn.is_multiple_of(SAMPLED).then(|| (self.thread_cpu)().as_nanos() as u64),
            ..Begun::default()
        });
    }

    /// A clock for a batch: CPU time where that of the thread's request is taken,
    /// which tells a busy machine from a slow engine.
    #[must_use]
    pub fn started(&self) -> Started {
        match BEGUN.get().cpu_ns {
            Some(_) => Started::Cpu((self.thread_cpu)()),
            None => Started::Wall(Instant::now()),
        }
    }

    /// What has passed by that clock.
    #[must_use]
    pub fn since(&self, started: &Started) -> Duration {
        match started {
            Started::Cpu(before) => (self.thread_cpu)().saturating_sub(*before),
            Started::Wall(before) => before.elapsed(),
        }
    }

    /// A batch of so many bytes kept this thread for so long; `is_done` when it
    /// was computed meanwhile.
    pub fn computed(&self, bytes: u64, took: Duration, is_done: bool) {
        let mut begun = BEGUN.get();
        let took = took.as_nanos() as u64;
        if begun.trace == 0 {
            self.background_ns.fetch_add(took, Relaxed);
            self.background_bytes.fetch_add(bytes, Relaxed);
            self.background_batches.fetch_add(1, Relaxed);
            return;
        }
        begun.cryptography_ns += took;
        begun.sealed_bytes += bytes;
        begun.batches = begun.batches.saturating_add(1);
        begun.on_cpu |= is_done;
        begun.on_device |= !is_done;
        BEGUN.set(begun);
    }

    /// This thread has answered, so long after the request came.
    pub fn answered(&self, took: Duration) {
        let begun = BEGUN.take();
        // It began before this trace, or outside of any.
        if begun.trace == 0 || !self.is_on() || begun.trace != self.trace.load(Relaxed) {
            return;
        }
        let cpu_ns = begun.cpu_ns.map_or(CPU_UNKNOWN, |before| {
            let used = ((self.thread_cpu)().as_nanos() as u64).saturating_sub(before);
            u32::try_from(used).unwrap_or(u32::MAX).min(CPU_UNKNOWN - 1)
        });
        if self.kept.fetch_add(1, Relaxed) >= RECORDS_MAX {
            self.is_on.store(false, Relaxed);
            return;
        }
        let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let record = Record {
            start_ns: self.elapsed_ns().saturating_sub(took.as_nanos() as u64),
            latency_ns: word(took.as_nanos() as u64),
            cryptography_ns: word(begun.cryptography_ns),
            cpu_ns,
            bytes: begun.bytes,
            sealed_bytes: word(begun.sealed_bytes),
            caller: begun.caller,
            kind: Kind::ALL[usize::from(begun.kind)],
            offset: match begun.offset {
                0 => Offset::None,
                1 => Offset::Sequential,
                2 => Offset::Near,
                _ => Offset::Far,
            },
            batches: begun.batches,
            on_cpu: begun.on_cpu,
            on_device: begun.on_device,
        };
        LIST.with(|list| lock(&self.lists[*list]).push(record));
    }

    /// Where a request begins, and that it ends there. Two threads at once may
    /// take each other's requests for jumps.
    fn offset(&self, seen: &Seen) -> Offset {
        let Some(offset) = seen.offset else { return Offset::None };
        let (file, end) =
            &self.places[(seen.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % PLACES];
        let (was, ended) = (file.swap(seen.file, Relaxed), end.swap(offset + u64::from(seen.bytes), Relaxed));
        match (was == seen.file, offset.abs_diff(ended)) {
            (true, 0) => Offset::Sequential,
            (true, distance) if distance <= NEAR => Offset::Near,
            _ => Offset::Far,
        }
    }

    /// The number of who asks, which is mostly who has asked before.
    fn caller_known(&self, caller: u32) -> u16 {
        let trace = self.trace.load(Relaxed);
        let (of, last, number) = LAST.get();
        if (of, last) == (trace, caller) {
            return number;
        }
        let number = self.caller(caller);
        LAST.set((trace, caller, number));
        number
    }

    fn caller(&self, caller: u32) -> u16 {
        if caller == 0 {
            return 0;
        }
        let mut callers = lock(&self.callers);
        if let Some(number) = callers.get(&caller) {
            return *number;
        }
        let number = u16::try_from(callers.len() + 1).ok().filter(|number| *number <= CALLERS_MAX);
        if let Some(number) = number {
            callers.insert(caller, number);
        }
        number.unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        Recorder::new(|| Duration::from_nanos(7))
    }

    fn seen(kind: Kind, offset: u64, caller: u32) -> Seen {
        Seen { kind, file: 5, offset: Some(offset), bytes: 4096, caller }
    }

    #[test]
    fn what_threads_do_is_kept_between_start_and_end_alone() {
        let recorder = recorder();
        let serve = |kind, offset, caller| {
            recorder.begins(&seen(kind, offset, caller));
            recorder.computed(4096, Duration::from_micros(3), true);
            recorder.computed(100, Duration::from_micros(1), false);
            recorder.answered(Duration::from_micros(9));
        };
        serve(Kind::Read, 0, 9);
        assert!(recorder.end().is_none() && recorder.start() && !recorder.start());
        std::thread::sleep(Duration::from_millis(1));
        serve(Kind::Write, 0, 4711);
        serve(Kind::Read, 4096, 4712);
        serve(Kind::Read, 16 << 20, 4711);
        serve(Kind::Write, 0, 0);
        let kept = recorder.end().expect("a trace");
        assert!(!kept.is_full && kept.recorded >= Duration::from_millis(1));
        let records = kept.records;
        assert_eq!(records.iter().map(|record| record.caller).collect::<Vec<_>>(), [1, 2, 1, 0]);
        let offsets: Vec<_> = records.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [Offset::Far, Offset::Sequential, Offset::Far, Offset::Far]);
        let Record { cryptography_ns, sealed_bytes, batches, on_cpu, on_device, .. } = records[1];
        assert_eq!((cryptography_ns, sealed_bytes, batches, on_cpu, on_device), (4000, 4196, 2, true, true));
        // One in 16 has its CPU time.
        assert_eq!(records.iter().filter(|record| record.cpu_ns != CPU_UNKNOWN).count(), 1);
        serve(Kind::Read, 0, 9);
        assert!(recorder.start());
        assert!(recorder.end().expect("another one").records.is_empty());
    }

    #[test]
    fn a_request_that_began_before_the_trace_is_not_in_it() {
        let recorder = recorder();
        recorder.start();
        recorder.begins(&seen(Kind::Read, 0, 1));
        recorder.end();
        recorder.start();
        recorder.answered(Duration::from_secs(1));
        assert!(recorder.end().expect("a trace").records.is_empty());
    }

    #[test]
    fn cryptography_outside_of_requests_is_counted() {
        let recorder = recorder();
        recorder.start();
        recorder.computed(4096, Duration::from_micros(2), true);
        assert_eq!(recorder.background(), [2000, 4096, 1]);
    }

    #[test]
    fn a_full_trace_is_told_and_grows_no_more() {
        let recorder = recorder();
        recorder.start();
        recorder.kept.store(RECORDS_MAX - 1, Relaxed);
        for _ in 0..3 {
            recorder.begins(&seen(Kind::Read, 0, 1));
            recorder.answered(Duration::ZERO);
        }
        assert!(!recorder.is_on());
        let kept = recorder.end().expect("a trace");
        assert!(kept.is_full && kept.records.len() == 1);
    }
}
