//! What names may be, and what a directory says of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::{Answer, Failed, Place, at, kept, lost, make, read};

/// Files in the directory that is listed.
const MANY: usize = 60;

pub(super) fn long(place: &Place<'_>) -> Answer {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~.";
    let name: Vec<u8> = LETTERS.iter().copied().cycle().take(255).collect();
    let path = place.directory.join(OsStr::from_bytes(&name));
    make(&path, b"long")?;
    if read(&path)? != b"long" || listed(place)? != [name] {
        return lost("a file with such a name is not found again");
    }
    kept("255 bytes")
}

pub(super) fn exclusive(place: &Place<'_>) -> Answer {
    make(&place.at("name"), b"first")?;
    match File::create_new(place.at("name")) {
        Ok(_) => lost("a file that was there was made once more"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => kept("what is there is not made again"),
        Err(error) => Err(at("creating it once more")(error)),
    }
}

pub(super) fn listing(place: &Place<'_>) -> Answer {
    let name = |index: usize| format!("file-{index:03}");
    for index in 0..MANY {
        make(&place.at(&name(index)), b"")?;
    }
    let names = |wanted: &dyn Fn(usize) -> bool| -> Vec<Vec<u8>> {
        (0..MANY).filter(|index| wanted(*index)).map(|index| name(index).into_bytes()).collect()
    };
    if listed(place)? != names(&|_| true) {
        return lost("files that were just made are not all listed");
    }
    for index in (0..MANY).step_by(2) {
        fs::remove_file(place.at(&name(index))).map_err(at("removing"))?;
    }
    match listed(place)? == names(&|index| index % 2 == 1) {
        true => kept("what was made, and nothing that was removed"),
        false => lost("files that were just removed are listed, or others are not"),
    }
}

pub(super) fn case(place: &Place<'_>) -> Answer {
    differ(place, b"case-of-a-Name", b"CASE-OF-A-nAME")
}

/// The letter é as one code point, and as a letter with an accent.
pub(super) fn unicode_forms(place: &Place<'_>) -> Answer {
    differ(place, b"caf\xc3\xa9", b"cafe\xcc\x81")
}

pub(super) fn any_bytes(place: &Place<'_>) -> Answer {
    let name = b"\x80\xff\x01 \\:*";
    let path = place.directory.join(OsStr::from_bytes(name));
    make(&path, b"bytes")?;
    match read(&path)? == b"bytes" && listed(place)? == [name] {
        true => kept("names are bytes"),
        false => lost("names come back otherwise"),
    }
}

/// Whether two names are two files.
fn differ(place: &Place<'_>, one: &[u8], other: &[u8]) -> Answer {
    let [one, other] = [one, other].map(|name| place.directory.join(OsStr::from_bytes(name)));
    make(&one, b"one")?;
    if other.symlink_metadata().is_ok() {
        return lost("both spellings are one name");
    }
    make(&other, b"other")?;
    match read(&one)? == b"one" && read(&other)? == b"other" && listed(place)?.len() == 2 {
        true => kept("told apart"),
        false => lost("both spellings are one name"),
    }
}

/// The names in the place, sorted.
fn listed(place: &Place<'_>) -> Result<Vec<Vec<u8>>, Failed> {
    let entries = fs::read_dir(&place.directory).map_err(at("listing"))?;
    let names = entries.map(|entry| Ok(entry.map_err(at("listing"))?.file_name().as_bytes().to_vec()));
    let mut names = names.collect::<Result<Vec<_>, Failed>>()?;
    names.sort();
    Ok(names)
}
