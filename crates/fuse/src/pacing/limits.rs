//! Every number of pacing with its reason; `docs/pacing.md` says what they are
//! for.

use std::time::Duration;

/// Longest poll: about twice what it takes to be woken on a CPU that slept. A
/// request that was slept for would have been found if it came within twice
/// that.
pub(super) const POLL_MAX: Duration = Duration::from_micros(20);
/// Polls in vain take at most one part in this many of all time: what a program
/// loses by them when the CPU is shared stays below what a benchmark can see.
pub(super) const POLL_SHARE: u32 = 32;
/// Most that a worker may poll in vain at once, however long it polled none: 25
/// polls, enough for a program that pauses now and then.
pub(super) const POLL_CREDIT_MAX: Duration = Duration::from_micros(500);
/// Requests that waited already, less two for each that did not, after which
/// there is work for more than one worker.
pub(super) const QUEUED_MAX: u32 = 64;
/// Short requests in a row after which a worker changes how it waits: a program
/// that asks so often goes on as a rule.
pub(super) const ROW: u32 = 8;
/// Answers in a row that somebody else wants the CPU after which it changes
/// back: one may be of a moment's work, of which there is always some.
pub(super) const REFUSALS: u32 = 3;
/// How often a worker asks for the load, which takes about a microsecond; and
/// how soon requests of a row follow each other.
pub(super) const PERIOD: Duration = Duration::from_millis(1);
/// How long a leader or a demoted worker may begin nothing before the watchdog
/// ends that: what a request waits at most for one that is held up, and longer
/// than nearly all requests take.
pub(super) const LEASE: Duration = Duration::from_millis(2);
/// How long a worker leaves off after the first time that it was ended: some
/// leases, so that failing costs little.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The same after the last, each time twice as long: a load that stays is asked
/// about once a second.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Longest read or write that is short, in bytes: a longer one takes about as
/// long as waking another worker, which could serve meanwhile.
pub(super) const SHORT_MAX: u32 = 128 << 10;

/// Bytes of a window: 16 pages, of which the first two misses are paid for and
/// fourteen spared.
pub(super) const WINDOW: usize = 64 << 10;
/// Longest read that counts as a miss, in bytes: a page of most databases.
pub(super) const MISS_MAX: usize = 16 << 10;
/// Misses upon which a window is filled: one says nothing, and with two a fill
/// at most doubles the work.
pub(super) const MISSES: u32 = 2;
/// Misses upon which it is filled again, since the kernel dropped it or nobody
/// came to fill it: more than are under way while it is filled.
pub(super) const MISSES_AGAIN: u32 = 8;
/// Windows that are remembered, in 256 KiB of memory: those of 4 GiB.
pub(super) const WINDOWS: usize = 1 << 16;
/// Windows that wait to be filled at most: older ones are read by their program
/// sooner than they are filled.
pub(super) const QUEUE_MAX: usize = 1024;
/// As many more windows that wait call one more thread to help: one is enough
/// for one program.
pub(super) const HELP: usize = 16;
/// Threads that fill, for each CPU: many programs that read on few CPUs have a
/// share each, and what one thread fills falls behind.
pub(super) const FILLERS_EACH: usize = 4;
/// Threads that fill at most, however many CPUs: each has a buffer of a window.
pub(super) const FILLERS_MAX: usize = 32;
/// Workers that wait for fills at once, each with a stand-in and its memory.
/// Where more would, too many open for writing what others read.
pub(super) const WAITING_MAX: usize = 16;

/// Bytes of a page.
pub(super) const PAGE_LEN: usize = 4096;

const _: () = assert!(WINDOW.is_multiple_of(PAGE_LEN) && WINDOWS.is_power_of_two());
const _: () = assert!(MISSES < MISSES_AGAIN && MISSES_AGAIN.is_power_of_two());
const _: () = assert!(POLL_MAX.as_nanos() < POLL_CREDIT_MAX.as_nanos());
const _: () = assert!(PERIOD.as_nanos() < LEASE.as_nanos() && LEASE.as_nanos() < BACKOFF_MIN.as_nanos());
