//! Sockets of `AF_ALG`: one for a cipher with its key, and one for each request
//! that is out on it (`Documentation/crypto/userspace-if.rst` of the kernel).

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc::{ALG_OP_DECRYPT, ALG_OP_ENCRYPT};
use nix::sys::socket::{
    AddressFamily, AlgAddr, ControlMessage, MsgFlags, SockFlag, SockType, accept4, bind, sendmsg, setsockopt,
    socket, sockopt,
};

use crate::Error;

/// Bytes of a driver's name, at most: the kernel's field has a zero behind it.
const NAME_MAX: usize = 63;

/// Bytes of one request, at most. Well below what a socket takes by default,
/// behind which it would wait for a reader, which is the same thread.
pub(crate) const REQUEST_MAX: usize = 64 << 10;

/// A socket that is nothing yet.
pub(crate) fn open() -> Result<OwnedFd, Error> {
    let made = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
    made.map_err(|errno| Error::NoInterface(errno.into()))
}

/// A cipher without a key.
pub(crate) struct Driver(OwnedFd);

impl Driver {
    /// That of a driver, or the best one where `name` is that of an algorithm.
    pub(crate) fn find(name: &str) -> Result<Driver, Error> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
            return Err(Error::NoDriver(io::Error::other("this is no name of a driver")));
        }
        let socket = open()?;
        bind(socket.as_raw_fd(), &AlgAddr::new("skcipher", name))
            .map_err(|errno| Error::NoDriver(errno.into()))?;
        Ok(Driver(socket))
    }

    /// Hands the kernel a key.
    ///
    /// # Errors
    /// The driver takes none of this length.
    pub(crate) fn with_key(self, key: &[u8]) -> io::Result<Cipher> {
        setsockopt(&self.0, sockopt::AlgSetKey::default(), &key)?;
        Ok(Cipher(self.0))
    }
}

/// A cipher with a key, which the kernel forgets with the last of its sockets.
pub(crate) struct Cipher(OwnedFd);

impl Cipher {
    /// What one request at a time can be made on.
    pub(crate) fn line(&self) -> io::Result<Line> {
        Ok(Line(accept4(&self.0, SockFlag::SOCK_CLOEXEC)?))
    }
}

/// See [`Cipher::line`]. After an error nobody knows what it holds.
pub(crate) struct Line(OwnedFd);

impl Line {
    /// Encrypts or decrypts at most [`REQUEST_MAX`] bytes in place, and waits
    /// until that is done.
    pub(crate) fn crypt(&self, encrypts: bool, iv: &[u8; 16], data: &mut [u8]) -> io::Result<()> {
        debug_assert!(data.len() <= REQUEST_MAX);
        let operation = if encrypts { ALG_OP_ENCRYPT } else { ALG_OP_DECRYPT };
        let told = [ControlMessage::AlgSetOp(&operation), ControlMessage::AlgSetIv(iv)];
        let whole = [IoSlice::new(data)];
        let sent = again(|| {
            let sent = sendmsg::<AlgAddr>(self.0.as_raw_fd(), &whole, &told, MsgFlags::empty(), None);
            sent.map_err(io::Error::from)
        })?;
        let read = match sent == data.len() {
            true => again(|| Ok(rustix::io::read(&self.0, &mut *data)?))?,
            false => return Err(io::ErrorKind::WriteZero.into()),
        };
        if read == data.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Until no signal comes between.
fn again(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_driver_is_called_is_refused() {
        for name in ["", "a\0b", &"a".repeat(NAME_MAX + 1)] {
            assert!(matches!(Driver::find(name), Err(Error::NoDriver(_))), "{name:?}");
        }
        // Of a kernel that has the interface, and of one that has not.
        let unknown = Driver::find("no-such-driver").err().expect("nobody has it");
        assert!(matches!(unknown, Error::NoDriver(_) | Error::NoInterface(_)), "{unknown}");
    }
}
