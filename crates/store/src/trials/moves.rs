//! Renames: what they replace, what they take along, and what stays the same.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{Answer, Place, at, kept, lost, make, open, read, refused};

pub(super) fn replacing(place: &Place<'_>) -> Answer {
    let [old, new] = ["old", "new"].map(|name| place.at(name));
    make(&old, b"old")?;
    make(&new, b"newer")?;
    let before = open(&old)?;
    fs::rename(&new, &old).map_err(at("renaming"))?;
    let mut bytes = [0; 8];
    let len = before.read_at(&mut bytes, 0).map_err(at("reading what was replaced"))?;
    if &bytes[..len] != b"old" {
        return lost("who has the replaced file open reads the one that took its place");
    }
    match read(&old)? == b"newer" && new.symlink_metadata().is_err() {
        true => kept("replaced in one step, and kept for whoever has it open"),
        false => lost("the file that took its place is not found there"),
    }
}

pub(super) fn identity(place: &Place<'_>) -> Answer {
    let [first, second] = ["first", "second"].map(|name| place.at(name));
    make(&first, b"text")?;
    let held =
        rustix::fs::open(&first, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(at("O_PATH"))?;
    let before = fs::metadata(&first).map_err(at("stat"))?;
    fs::rename(&first, &second).map_err(at("renaming"))?;
    let after = fs::metadata(&second).map_err(at("stat"))?;
    if (before.dev(), before.ino()) != (after.dev(), after.ino()) {
        return lost("a file that was renamed has another inode number");
    }
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    let file = File::options().write(true).open(link).map_err(at("opening what was renamed"))?;
    file.write_all_at(b"more", 4).map_err(at("writing to what was renamed"))?;
    drop(file);
    match read(&second)? == b"textmore" {
        true => kept("a renamed file is the same"),
        false => lost("what is written to a renamed file is not found in it"),
    }
}

pub(super) fn directories(place: &Place<'_>) -> Answer {
    let [from, to] = ["from", "to"].map(|name| place.at(name));
    fs::create_dir_all(from.join("below")).map_err(at("mkdir"))?;
    make(&from.join("below/closed"), b"written before")?;
    let mut file = File::create_new(from.join("open")).map_err(at("creating a file"))?;
    file.write_all(b"before").map_err(at("writing"))?;
    fs::rename(&from, &to).map_err(at("renaming a directory with files just written"))?;
    file.write_all(b"behind").map_err(at("writing to a file of a renamed directory"))?;
    file.sync_all().map_err(at("fsync of a file of a renamed directory"))?;
    drop(file);
    make(&to.join("below/new"), b"made behind")?;
    let is_there = read(&to.join("below/closed"))? == b"written before"
        && read(&to.join("below/new"))? == b"made behind"
        && read(&to.join("open"))? == b"beforebehind";
    match is_there && from.symlink_metadata().is_err() {
        true => kept("they take along what was just written in them"),
        false => lost("what was just written in a renamed directory is lost"),
    }
}

pub(super) fn exchange(place: &Place<'_>) -> Answer {
    let [file, directory] = ["file", "directory"].map(|name| place.at(name));
    make(&file, b"text")?;
    fs::create_dir(&directory).map_err(at("mkdir"))?;
    if let Err(errno) = renameat_with(CWD, &file, CWD, &directory, RenameFlags::EXCHANGE) {
        return refused("exchanging", errno);
    }
    match read(&directory)? == b"text" && file.is_dir() {
        true => kept("two entries change places in one step"),
        false => lost("the two have not changed places"),
    }
}

pub(super) fn no_replace(place: &Place<'_>) -> Answer {
    let [one, other, free] = ["one", "other", "free"].map(|name| place.at(name));
    make(&one, b"one")?;
    make(&other, b"other")?;
    match renameat_with(CWD, &one, CWD, &other, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => {}
        Ok(()) => return lost("it replaces all the same"),
        Err(errno) => return refused("renaming", errno),
    }
    if let Err(errno) = renameat_with(CWD, &one, CWD, &free, RenameFlags::NOREPLACE) {
        return refused("renaming", errno);
    }
    match read(&other)? == b"other" && read(&free)? == b"one" {
        true => kept("a rename can be told to replace nothing"),
        false => lost("it replaces all the same"),
    }
}
