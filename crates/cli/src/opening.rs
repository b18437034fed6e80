//! Opening files that somebody named, or that stand where others may write:
//! never waiting in the call for what a FIFO or a device is waiting for, and
//! never taking one kind of file for another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

/// How long a FIFO is waited for that nobody writes to yet.
const WRITER_WAIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

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
/// make them. A FIFO is given a few seconds to have a writer.
///
/// # Errors
/// The system's; `TimedOut` for a FIFO that nobody writes to.
pub(crate) fn to_read(path: &Path) -> io::Result<File> {
    let file = without_waiting(path, OFlags::RDONLY)?;
    if file.metadata()?.file_type().is_fifo() {
        let mut waiting = [PollFd::new(&file, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&WRITER_WAIT)))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it is a FIFO that nobody writes to"));
        }
    }
    blocking(file)
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

    #[test]
    fn a_fifo_is_read_once_it_has_a_writer_and_not_waited_for_without() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = fifo(&directory);
        let began = Instant::now();
        assert_eq!(to_read(&path).expect_err("no writer").kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = File::options().write(true).open(path).expect("opened");
                std::thread::sleep(Duration::from_millis(100));
                pipe.write_all(b"secret").expect("written");
                std::thread::sleep(Duration::from_millis(100));
                pipe.write_all(b"s").expect("written");
            }
        });
        let mut text = String::new();
        to_read(&path).expect("a writer came").read_to_string(&mut text).expect("read");
        writer.join().expect("ends");
        assert_eq!(text, "secrets");
    }
}
