//! A file's bytes where the kernel keeps them, without copying them first.
//!
//! For whoever makes one pass over much data anyway, such as a cipher: it takes
//! them from the page cache instead of having `pread` copy them beforehand. And for copying to another file: one `pwrite`
//! out of the mapping is a copy less than `pread` and `pwrite`. It is an offer
//! and never the only way: [`MappedFile::read_with`] answers false whenever the file
//! should be read by system calls, and these then tell what is wrong.
//!
//! Not offered are: writing (after each write-back the first write to a page is
//! a fault, and what cannot be given room shows too late); what is not in the
//! page cache (a system call reads ahead and waits better than a page fault);
//! block devices, and file systems on which nobody has tried it.
//!
//! A file that gets shorter under a mapping, or a disk that fails, is a signal
//! (SIGBUS) and not an error, but for what the kernel itself reads there. The
//! signal is caught, the bytes are zeros, the range counts as not done, and the
//! file is never offered again.
//!
//! At most [`WINDOWS`] windows of 256 MiB are mapped: page tables and what is
//! accounted to the process have a bound, however long the file is. Nothing is
//! allocated but by the first use of a window, nothing is locked in memory.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use rustix::fs::OFlags;

pub use strongroom_units::SharedBytes;

use crate::low::{Mapping, WINDOW_LEN, write_shared};

/// Windows of a file at a time.
pub const WINDOWS: usize = 4;

/// Ranges outside of all windows before another window takes a place. A new
/// one costs a fault for every 64 KiB again, as much as many ranges of system
/// calls.
const MISSES_BEFORE_EXCHANGE: u32 = 64;

/// Bytes that are looked for in the page cache and written on from there at once.
const WRITTEN_AT_ONCE: u64 = 1 << 20;

/// File systems that may be mapped (`statfs(2)`).
const FILE_SYSTEMS: [u64; 4] = [
    0x0102_1994, // tmpfs
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
];

/// See the module. Threads share it.
pub struct MappedFile {
    file: fs::File,
    windows: RwLock<Windows>,
    /// Ranges outside of all windows since the last exchange.
    misses: AtomicU32,
    /// A page could not be had.
    retired: AtomicBool,
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedFile").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Windows {
    mapped: [Option<(u64, Mapping)>; WINDOWS],
    /// The place that is taken next.
    next: usize,
}

impl Windows {
    fn find(&self, index: u64) -> Option<&Mapping> {
        self.mapped.iter().flatten().find(|(of, _)| *of == index).map(|(_, mapping)| mapping)
    }
}

impl MappedFile {
    /// Offers the bytes of `file`; none where that is no file to be mapped.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: &fs::File) -> io::Result<Option<MappedFile>> {
        let kind = rustix::fs::fstatfs(file)?.f_type as u64;
        if !file.metadata()?.is_file() || !FILE_SYSTEMS.contains(&kind) {
            return Ok(None);
        }
        let flags = rustix::fs::fcntl_getfl(file)?;
        let is_direct = flags.contains(OFlags::DIRECT);
        if is_direct || flags & OFlags::RWMODE == OFlags::WRONLY {
            return Ok(None);
        }
        Ok(Some(MappedFile {
            file: file.try_clone()?,
            windows: RwLock::default(),
            misses: AtomicU32::new(0),
            retired: AtomicBool::new(false),
        }))
    }

    /// Calls `work` with the `len` bytes from `offset` on, if they are there.
    /// True when `work` said that it did what it wanted, and the bytes were the
    /// file's all the time. Otherwise nothing counts, and system calls have to
    /// read.
    pub fn read_with(&self, offset: u64, len: usize, work: &mut dyn FnMut(SharedBytes<'_>) -> bool) -> bool {
        let (index, within) = (offset / WINDOW_LEN as u64, (offset % WINDOW_LEN as u64) as usize);
        let fits = len <= WINDOW_LEN - within;
        if !fits || self.retired.load(Ordering::Acquire) {
            return false;
        }
        let mut windows = self.windows.read().unwrap_or_else(PoisonError::into_inner);
        if windows.find(index).is_none() {
            drop(windows);
            self.admit(index);
            windows = self.windows.read().unwrap_or_else(PoisonError::into_inner);
        }
        let Some(mapping) = windows.find(index) else { return false };
        let range = within..within + len;
        let done = mapping.is_resident(range.clone()) && work(mapping.bytes(range));
        if mapping.has_faulted() {
            self.retired.store(true, Ordering::Release);
            return false;
        }
        // Of its last page a file has the rest too, as zeros. A length that
        // comes from a header may lie anywhere.
        done && offset.checked_add(len as u64).is_some_and(|end| self.reaches(end))
    }

    /// Writes the `len` bytes from `at` on to `offset` of another file, which
    /// copies them once, and tells how many: fewer when the rest is not there,
    /// or the other file did not take it.
    pub(crate) fn write_to(&self, at: u64, len: u64, to: impl AsFd, offset: u64) -> u64 {
        let mut done = 0;
        while done < len {
            let in_window = WINDOW_LEN as u64 - (at + done) % WINDOW_LEN as u64;
            let part = (len - done).min(WRITTEN_AT_ONCE).min(in_window);
            // What is cut short is left to whoever writes it again, and hears why.
            let mut write = |bytes: SharedBytes<'_>| {
                write_shared(&to, bytes, offset + done).is_ok_and(|count| count == bytes.len())
            };
            // Bounded by the constant.
            if !self.read_with(at + done, part as usize, &mut write) {
                break;
            }
            done += part;
        }
        done
    }

    fn reaches(&self, end: u64) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|status| u64::try_from(status.st_size).unwrap_or(0) >= end)
    }

    /// Maps a window, if there is a place for it.
    fn admit(&self, index: u64) {
        let mut windows = self.windows.write().unwrap_or_else(PoisonError::into_inner);
        if windows.find(index).is_some() {
            return;
        }
        let free = windows.mapped.iter().position(Option::is_none);
        let missed = self.misses.fetch_add(1, Ordering::Relaxed) + 1;
        if free.is_none() && missed < MISSES_BEFORE_EXCHANGE {
            return;
        }
        self.misses.store(0, Ordering::Relaxed);
        let place = free.unwrap_or(windows.next);
        windows.next = (place + 1) % WINDOWS;
        windows.mapped[place] = None;
        match Mapping::new(&self.file, index * WINDOW_LEN as u64) {
            Ok(mapping) => windows.mapped[place] = Some((index, mapping)),
            // No room in the address space, say: not worth asking each time.
            Err(_) => self.retired.store(true, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::FileExt;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const LEN: u64 = 1 << 20;

    /// A file in memory with a pattern.
    fn file() -> fs::File {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        let bytes: Vec<u8> = (0..LEN).map(|at| (at / 7) as u8).collect();
        file.write_all_at(&bytes, 0).expect("written");
        file
    }

    fn mapped(file: &fs::File) -> MappedFile {
        MappedFile::new(file).expect("no error").expect("tmpfs can be mapped")
    }

    fn read(mapped: &MappedFile, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut work = |from: SharedBytes<'_>| {
            bytes = from.to_vec();
            true
        };
        mapped.read_with(offset, len, &mut work).then_some(bytes)
    }

    #[test]
    fn what_is_there_is_read_in_place() {
        let file = file();
        let mapped = mapped(&file);
        let mut expected = vec![0; 100_000];
        file.read_exact_at(&mut expected, 12_345).expect("read");
        assert_eq!(read(&mapped, 12_345, 100_000), Some(expected));
        assert!(!mapped.read_with(0, 4096, &mut |_| false), "as the work says");
    }

    #[test]
    fn what_is_not_there_is_refused_and_the_file_goes_on() {
        let file = file();
        let mapped = mapped(&file);
        file.set_len(4 * LEN).expect("sparse");
        assert_eq!(read(&mapped, 2 * LEN, 4096), None, "a hole is not in the page cache");
        assert_eq!(read(&mapped, 4 * LEN, 4096), None, "beyond the end");
        assert_eq!(read(&mapped, LEN - 4096, 8192), None, "half of it is a hole");
        assert_eq!(read(&mapped, WINDOW_LEN as u64 - 1, 2), None, "across windows");
        assert!(read(&mapped, LEN - 4096, 4096).is_some());
        file.set_len(LEN - 4000).expect("shorter");
        assert_eq!(read(&mapped, LEN - 4096, 4096), None, "the rest of the last page is not the file's");
        assert!(read(&mapped, 0, 4096).is_some());
        assert_eq!(file.metadata().expect("a length").len(), LEN - 4000, "nothing grew by being asked for");
    }

    #[test]
    fn what_is_there_is_written_to_another_file() {
        let from = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        let start = WINDOW_LEN as u64 - LEN;
        let bytes: Vec<u8> = (0..3 * LEN).map(|at| (at / 7) as u8).collect();
        from.write_all_at(&bytes, start).expect("written");
        let mapped = MappedFile::new(&from).expect("no error").expect("tmpfs can be mapped");
        let to = tempfile::tempfile().expect("a file");
        let len = 2 * LEN + 77;
        assert_eq!(mapped.write_to(start + 5, len, &to, 9), len, "across windows");
        let mut found = vec![0; len as usize];
        to.read_exact_at(&mut found, 9).expect("read");
        assert!(found == bytes[5..][..len as usize]);
        assert_eq!(to.metadata().expect("a length").len(), 9 + len);
        assert_eq!(mapped.write_to(start + 2 * LEN, 2 * LEN, &to, 0), LEN, "to the end of the source");
        assert_eq!(mapped.write_to(0, LEN, &to, 0), 0, "a hole is not in the page cache");
    }

    #[test]
    fn a_file_that_takes_nothing_and_a_source_that_is_cut_are_told() {
        let from = file();
        let mapped = mapped(&from);
        let to = tempfile::NamedTempFile::new().expect("a file");
        let reader = fs::File::open(to.path()).expect("opened");
        assert_eq!(mapped.write_to(0, 4096, &reader, 0), 0, "opened to read");
        assert_eq!(mapped.write_to(0, 4096, to.as_file(), 1 << 63), 0, "beyond all files");
        // The kernel, which has no page to read from, says so; no signal comes.
        let mut cut = |bytes: SharedBytes<'_>| {
            from.set_len(4096).expect("cut");
            let error =
                write_shared(to.as_file(), bytes.part(8192..bytes.len()), 0).expect_err("no such page");
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::FAULT.raw_os_error()));
            write_shared(to.as_file(), bytes, 0).expect("one page is left") == bytes.len()
        };
        assert!(!mapped.read_with(0, 300_000, &mut cut));
        assert!(to.as_file().metadata().expect("a length").len() <= 4096);
        assert!(read(&mapped, 0, 4096).is_some(), "nothing was touched that could not be had");
    }

    #[test]
    fn a_file_cut_under_the_reader_is_told_and_never_offered_again() {
        let file = file();
        let mapped = mapped(&file);
        let done = mapped.read_with(0, 300_000, &mut |bytes| {
            file.set_len(4096).expect("cut");
            assert!(bytes.part(4096..bytes.len()).to_vec().iter().all(|byte| *byte == 0));
            true
        });
        assert!(!done);
        assert_eq!(file.metadata().expect("a length").len(), 4096);
        file.set_len(LEN).expect("as long as before");
        assert_eq!(read(&mapped, 0, 4096), None, "retired");
    }

    #[test]
    fn threads_that_meet_a_cut_all_hear_of_it() {
        let file = file();
        let mapped = mapped(&file);
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for index in 0..4 {
                let (file, mapped, barrier) = (&file, &mapped, &barrier);
                scope.spawn(move || {
                    let mut work = |bytes: SharedBytes<'_>| {
                        if barrier.wait().is_leader() {
                            file.set_len(0).expect("cut");
                        }
                        barrier.wait();
                        bytes.to_vec().iter().all(|byte| *byte == 0)
                    };
                    assert!(!mapped.read_with(index * 200_000, 150_000, &mut work));
                });
            }
        });
    }

    #[test]
    fn windows_change_places_when_there_are_more_than_fit() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        let mapped = mapped(&file);
        let window = WINDOW_LEN as u64;
        for index in 0..=WINDOWS as u64 {
            file.write_all_at(&[index as u8 + 1; 4096], index * window).expect("written");
        }
        for index in 0..WINDOWS as u64 {
            assert_eq!(read(&mapped, index * window, 4096), Some(vec![index as u8 + 1; 4096]));
        }
        let last = WINDOWS as u64;
        let tries = (0..).find(|_| read(&mapped, last * window, 4096).is_some());
        assert_eq!(tries, Some(MISSES_BEFORE_EXCHANGE as usize - 1));
        assert_eq!(read(&mapped, last * window, 4096), Some(vec![last as u8 + 1; 4096]));
        assert!(read(&mapped, window, 4096).is_some() && read(&mapped, 0, 4096).is_none());
    }

    #[test]
    fn only_files_that_may_be_are_mapped() {
        let null = fs::File::options().read(true).write(true).open("/dev/null").expect("opened");
        assert!(MappedFile::new(&null).expect("no error").is_none());
        let proc = fs::File::open("/proc/self/status").expect("opened");
        assert!(MappedFile::new(&proc).expect("no error").is_none());
        let named = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
        named.as_file().write_all_at(&[1; 8192], 0).expect("written");
        let reader = mapped(&fs::File::open(named.path()).expect("opened"));
        assert!(read(&reader, 0, 8192).is_some());
        let writer = fs::File::options().write(true).open(named.path()).expect("opened");
        assert!(MappedFile::new(&writer).expect("no error").is_none());
    }

    /// The part of the test below that ends: alone it does nothing.
    #[test]
    fn ends_by_another_sigbus() {
        if std::env::var_os("STRONGROOM_SIGBUS").is_some() {
            let file = file();
            assert!(read(&mapped(&file), 0, 4096).is_some());
            let own = rustix::process::getpid();
            // Rust's library lets the first pass that has no address, and a second
            // one that is sent before that was handled is the same.
            for _ in 0..200 {
                rustix::process::kill_process(own, rustix::process::Signal::BUS).expect("sent");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }

    #[test]
    fn another_sigbus_ends_the_process_as_before() {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "mapped::tests::ends_by_another_sigbus"]);
        let ended = command.env("STRONGROOM_SIGBUS", "1").output().expect("started").status;
        assert_eq!(ended.signal(), Some(7), "SIGBUS");
    }
}
