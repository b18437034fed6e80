//! Opening files that somebody named, or that stand where others may write:
//! never waiting in the call for what a FIFO or a device is waiting for, and
//! never taking one kind of file for another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, tee};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// How long a FIFO is waited for that nobody has opened to write to it.
const WRITER_WAIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Opens a regular file to be read; symlinks are followed.
///
/// # Errors
/// The system's; `InvalidInput` for anything else that has this name.
pub(crate) fn regular(path: &Path) -> io::Result<File> {
    let file = without_waiting(path, OFlags::RDONLY)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens what a user names to be read: a file, a device, or a pipe as shells
/// make them. `-` is standard input; an open descriptor that is named as one,
/// as in `/dev/stdin` and `/dev/fd/63`, is taken as it is, whatever it is.
///
/// Who has a FIFO open to write to it may take as long as they like; where
/// nobody has, it is waited for half a minute.
///
/// # Errors
/// The system's; `TimedOut` for a FIFO that nobody opens to write to it;
/// `NotFound` for a descriptor that is not open.
pub(crate) fn to_read(path: &Path) -> io::Result<File> {
    to_read_within(path, &WRITER_WAIT)
}

fn to_read_within(path: &Path, limit: &Timespec) -> io::Result<File> {
    if let Some(number) = descriptor(path) {
        let open = descriptor_copy(number)?;
        // A file is read from its beginning, as it is by others here.
        if path == Path::new("-") || !open.metadata()?.is_file() {
            return Ok(open);
        }
    }
    let file = without_waiting(path, OFlags::RDONLY)?;
    if file.metadata()?.file_type().is_fifo() {
        let mut waiting = [PollFd::new(&file, PollFlags::IN)];
        let silent = rustix::io::retry_on_intr(|| poll(&mut waiting, Some(limit)))? == 0;
        if silent && !has_writer(&file)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it is a FIFO that nobody writes to"));
        }
    }
    blocking(file)
}

/// The number of the descriptor that a path stands for.
pub(crate) fn descriptor(path: &Path) -> Option<i32> {
    let text = path.to_str()?;
    if matches!(text, "-" | "/dev/stdin") {
        return Some(0);
    }
    let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|directory| text.strip_prefix(directory))?;
    number.parse().ok().filter(|number| *number >= 0)
}

/// A descriptor of this process as one of our own, which shares its offset.
///
/// # Errors
/// `NotFound` when it is not open, or the system's.
pub(crate) fn descriptor_copy(number: i32) -> io::Result<File> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
    match own {
        Ok(file) => Ok(File::from(file)),
        // Some containers forbid the call. Opened by its name, a pipe is the
        // same pipe, and a file is read from its beginning.
        Err(Errno::PERM | Errno::NOSYS) => File::open(format!("/proc/self/fd/{number}")),
        Err(_) => {
            Err(io::Error::new(io::ErrorKind::NotFound, format!("file descriptor {number} is not open")))
        }
    }
}

/// Whether somebody has an empty FIFO open to write to it. Nothing is taken
/// out of it.
fn has_writer(fifo: &File) -> io::Result<bool> {
    let (_end, aside) = io::pipe()?;
    match tee(fifo, &aside, 1, SpliceFlags::NONBLOCK) {
        Ok(0) => Ok(false),
        Ok(_) | Err(Errno::AGAIN) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens, or makes with mode 0600, a file to be appended to: `ENXIO` for a FIFO that nobody
/// reads.
///
/// # Errors
/// The system's.
pub(crate) fn to_append(path: &Path) -> io::Result<File> {
    blocking(without_waiting(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?)
}

fn without_waiting(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?))
}

fn blocking(file: File) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    fn fifo(directory: &tempfile::TempDir) -> std::path::PathBuf {
        let path = directory.path().join("fifo");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::RWXU, 0).expect("a FIFO");
        path
    }

    #[test]
    fn what_is_no_file_is_told_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = fifo(&directory);
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [path.as_path(), &socket, directory.path(), Path::new("/dev/zero")] {
            assert!(regular(path).is_err(), "{}", path.display());
        }
        let file = directory.path().join("file");
        std::fs::write(&file, "text").expect("written");
        let mut text = String::new();
        regular(&file).expect("a file").read_to_string(&mut text).expect("read");
        assert_eq!(text, "text");
        let no_reader = to_append(&path).expect_err("nobody reads it");
        assert_eq!(no_reader.raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error()));
    }

    const SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

    #[test]
    fn a_fifo_without_a_writer_is_not_waited_for_for_ever() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = fifo(&directory);
        let began = Instant::now();
        assert_eq!(to_read_within(&path, &SHORT).expect_err("no writer").kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_writer_may_take_its_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = fifo(&directory);
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = File::options().write(true).open(path).expect("opened");
                std::thread::sleep(Duration::from_secs(2));
                pipe.write_all(b"secret").expect("written");
                std::thread::sleep(Duration::from_millis(300));
                pipe.write_all(b"s").expect("written");
            }
        });
        // It is there, and silent for longer than one that is not there may be.
        std::thread::sleep(Duration::from_millis(100));
        let mut text = String::new();
        to_read_within(&path, &SHORT).expect("a writer").read_to_string(&mut text).expect("read");
        writer.join().expect("ends");
        assert_eq!(text, "secrets");
    }

    #[test]
    fn descriptors_are_known_by_their_names() {
        for (path, number) in
            [("-", Some(0)), ("/dev/stdin", Some(0)), ("/dev/fd/63", Some(63)), ("/proc/self/fd/7", Some(7))]
        {
            assert_eq!(descriptor(Path::new(path)), number, "{path}");
        }
        for path in ["./-", "stdin", "/dev/fd/", "/dev/fd/-1", "/dev/fd/x", "/dev/stdout"] {
            assert_eq!(descriptor(Path::new(path)), None, "{path}");
        }
        assert_eq!(to_read(Path::new("/dev/fd/987")).expect_err("closed").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_socket_can_be_read_by_its_descriptor() {
        use std::os::fd::AsRawFd;
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        ours.write_all(b"secret").expect("written");
        drop(ours);
        let mut text = String::new();
        let path = format!("/dev/fd/{}", theirs.as_raw_fd());
        to_read(Path::new(&path)).expect("open").read_to_string(&mut text).expect("read");
        assert_eq!(text, "secret");
    }
}
