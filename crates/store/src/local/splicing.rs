//! Copying from file to file inside the kernel: through a pipe that takes the
//! source's cached pages as they are, so that the bytes are copied once.
//!
//! Not by `copy_file_range(2)`: where the file system can it makes both files
//! share what is stored, and takes away the space that was reserved for the
//! one that is written.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, TryLockError};

use rustix::pipe::{PipeFlags, SpliceFlags, splice};

/// Bytes that the pipe is to hold: what an ordinary user may ask for.
const PIPE_LEN: usize = 1 << 20;
/// For less than this a second call costs more than a second copy.
const LEN_MIN: u64 = 32 << 10;

/// A pipe for whoever copies. Who finds it in use copies through memory.
#[derive(Debug, Default)]
pub(super) struct Splicer(Mutex<Option<Pipe>>);

/// Empty between two copies.
#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Splicer {
    /// Copies up to `len` bytes and tells how many: fewer when the source
    /// ends, and when a file, or the system, cannot be copied from or to so,
    /// or failed. What is left is to be tried in another way, which will tell
    /// why.
    pub(super) fn copy(&self, from: (impl AsFd, u64), to: (impl AsFd, u64), len: u64) -> u64 {
        if len < LEN_MIN {
            return 0;
        }
        let mut kept = match self.0.try_lock() {
            Ok(kept) => kept,
            // A pipe in which a panic has left something is not used again.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return 0,
        };
        let Some(pipe) = kept.take().or_else(Pipe::open) else { return 0 };
        let (done, is_empty) = pipe.copy(from, to, len);
        if is_empty {
            *kept = Some(pipe);
        }
        done
    }
}

impl Pipe {
    fn open() -> Option<Pipe> {
        let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
        // A shorter one does too, in more calls.
        let _ = rustix::pipe::fcntl_setpipe_size(&into, PIPE_LEN);
        Some(Pipe { out, into })
    }

    /// Tells how many bytes were copied, and whether the pipe is empty.
    fn copy(&self, from: (impl AsFd, u64), to: (impl AsFd, u64), len: u64) -> (u64, bool) {
        let ((from, start), (to, offset)) = (from, to);
        let mut done = 0;
        while done < len {
            let wanted = (len - done).min(PIPE_LEN as u64) as usize;
            let (mut at, mut end) = (start + done, offset + done);
            let taken = splice(&from, Some(&mut at), &self.into, None, wanted, SpliceFlags::empty());
            let Ok(mut left) = taken else { break };
            if left == 0 {
                break;
            }
            while left > 0 {
                let put = splice(&self.out, None, &to, Some(&mut end), left, SpliceFlags::empty());
                match put {
                    Ok(put) if put > 0 => (left, done) = (left - put, done + put as u64),
                    _ => return (done, false),
                }
            }
        }
        (done, true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn long_copies_are_made_in_the_kernel_and_leave_the_pipe_empty() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let len = 3 * PIPE_LEN as u64 + 5;
        from.write_all_at(&vec![3; len as usize], 0).unwrap();
        let splicer = Splicer::default();
        assert_eq!(splicer.copy((&from, 0), (&to, 7), LEN_MIN - 1), 0);
        assert_eq!(splicer.copy((&from, 0), (&to, 7), 2 * len), len, "to the end of the source");
        assert!(splicer.0.lock().unwrap().is_some());
        let mut found = vec![0; len as usize];
        to.read_exact_at(&mut found, 7).unwrap();
        assert!(found.iter().all(|&byte| byte == 3));
        // Taken from the source and not put anywhere: the pipe goes with it.
        let unwritable =
            File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&to))).unwrap();
        assert_eq!(splicer.copy((&from, 0), (&unwritable, 0), LEN_MIN), 0);
        assert!(splicer.0.lock().unwrap().is_none());
        assert_eq!(splicer.copy((&from, 0), (&to, 0), LEN_MIN), LEN_MIN);
    }
}
