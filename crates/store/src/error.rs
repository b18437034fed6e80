//! Errors of stores: an errno, as the system knows it, with what was tried.

/// A result of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the store. The number is what a caller of the mount is given
/// where nothing more fitting is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    errno: i32,
    operation: &'static str,
}

impl Error {
    /// An error `errno` of `operation` (the system call's name).
    #[must_use]
    pub const fn new(errno: i32, operation: &'static str) -> Error {
        Error { errno, operation }
    }

    /// The system's error number.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.errno
    }

    /// What was tried.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// True for "no such entry".
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.errno == rustix::io::Errno::NOENT.raw_os_error()
    }

    /// True where the store itself has failed, and not only refused this call: no file system that works answers so.
    /// Its device or its server does not work, or it has turned read-only.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        use rustix::io::Errno;
        const FAILURES: [Errno; 15] = [
            Errno::IO,
            Errno::NODEV,
            Errno::ROFS,
            Errno::BADMSG,
            Errno::UCLEAN,
            Errno::REMOTEIO,
            Errno::STALE,
            Errno::NOTCONN,
            Errno::TIMEDOUT,
            Errno::CONNABORTED,
            Errno::CONNREFUSED,
            Errno::CONNRESET,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::SHUTDOWN,
        ];
        FAILURES.iter().any(|failure| failure.raw_os_error() == self.errno)
    }

    /// True for what stores say of an inode whose last name was removed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_not_found() || self.errno == rustix::io::Errno::STALE.raw_os_error()
    }

    /// True for "exists already".
    #[must_use]
    pub fn is_exists(&self) -> bool {
        self.errno == rustix::io::Errno::EXIST.raw_os_error()
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.operation, std::io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_refusal_is_no_failure_of_the_store() {
        let is_failure = |errno: Errno| Error::new(errno.raw_os_error(), "openat").is_failure();
        assert!([Errno::IO, Errno::NOTCONN, Errno::STALE, Errno::ROFS].into_iter().all(is_failure));
        let refusals =
            [Errno::NOENT, Errno::NXIO, Errno::NOSPC, Errno::ACCESS, Errno::OPNOTSUPP, Errno::NAMETOOLONG];
        assert!(!refusals.into_iter().any(is_failure));
    }
}
