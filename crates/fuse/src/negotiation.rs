//! What is agreed with the kernel in INIT, and why.

use crate::abi::flags::init;
use crate::abi::init::{InitReply, InitRequest};
use crate::abi::{MAJOR, MINOR};
use crate::arguments::Negotiated;
use crate::transport::{Chosen, DEPTH, TransportChoice, choose};

/// What a session may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Threads that answer requests; at least 1.
    pub workers: usize,
    /// Longest read or write in bytes: whole pages, at least 4096 and at most
    /// 1 MiB, the kernel's limit unless its `fs.fuse.max_pages_limit` is raised.
    pub transfer_max: usize,
    /// Collect writes in the page cache. Needed for shared writable mappings;
    /// errors show on `fsync` and `close`.
    pub writeback_cache: bool,
    /// Let the kernel guess when a listing needs attributes, instead of
    /// fetching them with every listing.
    pub readdirplus_auto: bool,
    /// Readahead of the mount in KiB, set where the system permits.
    pub readahead_kib: u32,
    /// Which part of the memory that the system lets be dirty may wait to be
    /// written to this mount, in percent; set where the system permits. The
    /// kernel gives a FUSE mount 1, since it waits for a program to write it
    /// back that may want memory itself: so little that pages written in no
    /// order, or while others are on their way, come one by one.
    pub dirty_percent: u32,
    /// Give the kernel the pages around those that a program misses. Only for
    /// files that change through this mount alone.
    pub prefetch: bool,
    /// Whether the file system always gives back the buffer that it is lent,
    /// without which FUSE over io_uring is not taken unasked.
    pub buffers_return: bool,
    /// How requests are to arrive.
    pub transport: TransportChoice,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        SessionOptions {
            workers: cpus.max(2),
            transfer_max: 1 << 20,
            writeback_cache: true,
            readdirplus_auto: false,
            readahead_kib: 1024,
            dirty_percent: 20,
            prefetch: true,
            buffers_return: true,
            transport: TransportChoice::default(),
        }
    }
}

const PAGE_LEN: usize = 4096;
const TRANSFER_MAX: usize = 256 * PAGE_LEN;

/// Requests that no caller waits for (readahead, write-back) at most, and from
/// when on they count as congestion: deep enough for 64 MiB in flight, three
/// quarters of it as the kernel's own default has.
const BACKGROUND_MAX: u16 = 64;
const CONGESTION_THRESHOLD: u16 = 48;

impl SessionOptions {
    /// `transfer_max` within its bounds and in whole pages.
    pub(crate) fn transfer_bytes(&self) -> usize {
        self.transfer_max.clamp(PAGE_LEN, TRANSFER_MAX).next_multiple_of(PAGE_LEN)
    }

    /// What is to be served where the kernel offers rings, or does not, and why.
    pub(crate) fn choose(&self, offered: bool) -> Result<(Chosen, String), String> {
        choose(self.transport, offered, self.buffers_return, self.transfer_bytes())
    }

    /// How many threads can serve any one request: all of them, or with rings
    /// those of one queue.
    #[must_use]
    pub fn threads_together(&self) -> usize {
        match self.transport {
            TransportChoice::Device => self.workers,
            _ => self.workers.min(DEPTH),
        }
    }
}

/// Whether a session can do without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Wanted,
}

/// Every flag this server takes, and why. Of those left out on purpose:
/// locks stay with the kernel, which sees all of one machine's processes;
/// splicing would take the payload out of our aligned buffers;
/// `AUTO_INVAL_DATA` suits files that change behind the mount, which ours do
/// not; NFS export would need nodes that outlive their lookups.
const FLAGS: &[(u64, Need, &str)] = &[
    (init::ASYNC_READ, Need::Wanted, "reads of one file go to several workers"),
    (init::ATOMIC_O_TRUNC, Need::Wanted, "open and truncate are one request, not two"),
    (init::BIG_WRITES, Need::Required, "writes are longer than a page"),
    (init::DONT_MASK, Need::Wanted, "default access control lists override the umask"),
    (init::DO_READDIRPLUS, Need::Wanted, "`ls -l` is one request per listing, not one per file"),
    (init::READDIRPLUS_AUTO, Need::Wanted, "by option: listings without attributes where none are asked for"),
    (init::ASYNC_DIO, Need::Wanted, "long direct transfers are split over workers"),
    (init::WRITEBACK_CACHE, Need::Wanted, "by option: small writes are collected into long ones"),
    (init::PARALLEL_DIROPS, Need::Wanted, "lookups in one directory go to several workers"),
    (init::POSIX_ACL, Need::Wanted, "access control lists are checked by the kernel"),
    (init::ABORT_ERROR, Need::Wanted, "an abort is told from an unmount"),
    (init::MAX_PAGES, Need::Required, "transfers of 1 MiB"),
    (init::CACHE_SYMLINKS, Need::Wanted, "targets change only by making a new link"),
    (init::HANDLE_KILLPRIV_V2, Need::Wanted, "no getxattr of capabilities before every write"),
    (init::SETXATTR_EXT, Need::Required, "the one layout of SETXATTR that is decoded here"),
    (init::INIT_EXT, Need::Wanted, "flags beyond the 32nd"),
    (
        init::OVER_IO_URING,
        Need::Wanted,
        "by choice: a request's answer and the next request are one system call",
    ),
    (init::DIRECT_IO_ALLOW_MMAP, Need::Wanted, "files opened for direct transfers can be mapped"),
];

/// Why a kernel cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It speaks a newer major version; answer with ours and wait.
    NewerMajor,
    /// It speaks an older major version.
    OlderMajor,
    /// It lacks this required flag.
    Lacks(u64),
}

/// What to answer to `request`; with `rings`, requests are to come by these.
pub(crate) fn negotiate(
    request: &InitRequest,
    options: &SessionOptions,
    rings: bool,
) -> Result<(InitReply, Negotiated), Unfit> {
    match request.major {
        MAJOR => {}
        newer if newer > MAJOR => return Err(Unfit::NewerMajor),
        _ => return Err(Unfit::OlderMajor),
    }
    let mut flags = 0;
    for &(flag, need, _) in FLAGS {
        let chosen = match flag {
            init::WRITEBACK_CACHE => options.writeback_cache,
            init::READDIRPLUS_AUTO => options.readdirplus_auto,
            init::OVER_IO_URING => rings,
            _ => true,
        };
        match (request.flags & flag != 0, need) {
            (true, _) if chosen => flags |= flag,
            (false, Need::Required) => return Err(Unfit::Lacks(flag)),
            _ => {}
        }
    }
    let transfer_max = options.transfer_bytes();
    let minor = request.minor.min(MINOR);
    let reply = InitReply {
        minor,
        readahead_max: request.readahead_max,
        flags,
        background_max: BACKGROUND_MAX,
        congestion_threshold: CONGESTION_THRESHOLD,
        // Both fit: a transfer is at most 1 MiB.
        write_max: transfer_max as u32,
        time_granularity_ns: 1,
        pages_max: (transfer_max / PAGE_LEN) as u16,
    };
    Ok((reply, Negotiated { minor, flags, transfer_max }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(flags: u64) -> InitRequest {
        InitRequest { major: 7, minor: 45, readahead_max: 131_072, flags }
    }

    #[test]
    fn only_offered_and_chosen_flags_are_taken() {
        let (reply, agreed) = negotiate(&offer(u64::MAX), &SessionOptions::default(), false).unwrap();
        assert_eq!(reply.flags, agreed.flags);
        for refused in [
            init::POSIX_LOCKS,
            init::FLOCK_LOCKS,
            init::EXPORT_SUPPORT,
            init::SPLICE_READ,
            init::AUTO_INVAL_DATA,
            init::READDIRPLUS_AUTO,
            init::HAS_INODE_DAX,
            init::HANDLE_KILLPRIV,
            init::OVER_IO_URING,
        ] {
            assert_eq!(reply.flags & refused, 0, "{refused:#x}");
        }
        assert_eq!((reply.write_max, reply.pages_max), (1 << 20, 256));
        let plain = SessionOptions { writeback_cache: false, readdirplus_auto: true, ..Default::default() };
        let (reply, _) = negotiate(&offer(u64::MAX), &plain, true).unwrap();
        assert_eq!(reply.flags & init::WRITEBACK_CACHE, 0);
        assert_ne!(reply.flags & init::READDIRPLUS_AUTO, 0);
        assert_ne!(reply.flags & init::OVER_IO_URING, 0);
        let required = init::BIG_WRITES | init::MAX_PAGES | init::SETXATTR_EXT;
        let (reply, _) = negotiate(&offer(required), &SessionOptions::default(), true).unwrap();
        assert_eq!(reply.flags, required);
    }

    #[test]
    fn unfit_kernels_are_told_apart() {
        let options = SessionOptions::default();
        let major = |major| InitRequest { major, ..offer(u64::MAX) };
        assert_eq!(negotiate(&major(8), &options, false), Err(Unfit::NewerMajor));
        assert_eq!(negotiate(&major(6), &options, false), Err(Unfit::OlderMajor));
        let lacking = offer(!init::MAX_PAGES);
        assert_eq!(negotiate(&lacking, &options, false), Err(Unfit::Lacks(init::MAX_PAGES)));
    }

    #[test]
    fn transfers_stay_in_bounds_and_whole_pages() {
        for (asked, got) in [(0, 4096), (5000, 8192), (1 << 20, 1 << 20), (usize::MAX, 1 << 20)] {
            let options = SessionOptions { transfer_max: asked, ..Default::default() };
            assert_eq!(options.transfer_bytes(), got);
        }
    }
}
