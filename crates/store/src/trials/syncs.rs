//! Barriers, and the space that there is.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Answer, Place, at, kept, lost, make, open};

/// That they return is all that can be tried: whether they keep their word, a
/// power cut shows.
pub(super) fn barriers(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"text")?;
    let file = open(&path)?;
    file.write_all_at(b"more", 4).map_err(at("writing"))?;
    file.sync_data().map_err(at("fdatasync"))?;
    file.set_len(2).map_err(at("cutting"))?;
    file.sync_all().map_err(at("fsync"))?;
    let reading = File::open(&path).map_err(at("opening"))?;
    reading.sync_all().map_err(at("fsync of a file opened to be read"))?;
    let directory = File::open(&place.directory).map_err(at("opening the directory"))?;
    directory.sync_all().map_err(at("fsync of a directory"))?;
    rustix::fs::syncfs(&directory).map_err(at("syncfs"))?;
    kept("of files, directories, and everything")
}

pub(super) fn space(place: &Place<'_>) -> Answer {
    let found = rustix::fs::statvfs(&place.directory).map_err(at("statvfs"))?;
    let mib = |fragments: u64| (u128::from(fragments) * u128::from(found.f_frsize)) >> 20;
    match found.f_blocks {
        0 => lost("the system says that there is no space at all"),
        blocks => kept(format!("{} of {} MiB are free", mib(found.f_bavail), mib(blocks))),
    }
}
