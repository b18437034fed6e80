//! Locks, within this process and against another one.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Answer, Place, at, kept, lost, make, open, refused};
use crate::claims::claim;

pub(super) fn whole(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"")?;
    let (held, second) = (open(&path)?, open(&path)?);
    flock(&held, FlockOperation::NonBlockingLockExclusive).map_err(at("flock"))?;
    match flock(&second, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => {}
        Ok(()) => return lost("two open files have one lock"),
        Err(errno) => return Err(at("flock")(errno)),
    }
    let ask = || (place.other)(&path).map_err(at("another process"));
    if ask()? {
        return lost("two processes have one lock");
    }
    drop((held, second));
    match ask()? {
        true => kept("they keep out others, this machine's at least"),
        false => lost("a lock stays when its file is closed"),
    }
}

pub(super) fn ranges(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"")?;
    let (held, second) = (open(&path)?, open(&path)?);
    let claimed = |file: &File| claim(file, 7, true);
    match claimed(&held) {
        Ok(true) => {}
        Ok(false) => return lost("nobody else has it, and it is not to be had"),
        Err(error) => return refused_claim(&error),
    }
    match claimed(&second) {
        Ok(false) => kept("they keep out others, this machine's at least"),
        Ok(true) => lost("two open files have one lock"),
        Err(error) => refused_claim(&error),
    }
}

fn refused_claim(error: &std::io::Error) -> Answer {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    refused("locking a byte", errno)
}
