//! What is done on disks, and what it takes: time, and CPU time of the whole machine, which is what the
//! documents counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::disks::{BEST, Disk, PLAIN, PORTABLE, SIDES, Side};
use crate::cpu::{children_seconds, system_seconds};
use strongroom_harness::command;
use strongroom_harness::failure::Result;

const LIMIT: Duration = Duration::from_secs(600);

/// What a turn took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    /// Of all CPUs.
    pub(super) cpu: f64,
    /// Of it, by the programs that did the work; the rest is the kernel's and the daemon's.
    pub(super) programs: f64,
    /// That were moved; 0 where that says nothing.
    pub(super) bytes: f64,
}

/// Runs `work` and tells what it took, besides the `bytes` that it moves.
pub(super) fn spent(bytes: u64, work: impl FnOnce() -> Result) -> Result<Spent> {
    let ((busy, _), programs) = (system_seconds()?, children_seconds()?);
    let began = Instant::now();
    work()?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Spent {
        seconds,
        cpu: system_seconds()?.0 - busy,
        programs: children_seconds()? - programs,
        bytes: bytes as f64,
    })
}

/// A kind of work.
pub(super) struct Work {
    pub(super) row: &'static str,
    of: Of,
    /// Shell, with `$device`, `$disk` (where ext4 is mounted), `$file` (outside, of `$bytes`) and `$program`.
    script: &'static str,
    /// Done before, and not counted.
    before: &'static str,
    moves: bool,
}

/// Which sides a work is of.
#[derive(PartialEq)]
enum Of {
    /// Document 004: each cipher.
    Ciphers,
    /// Document 003: no encryption, the best engine, portable code.
    Engines,
    /// A single file, on the unencrypted disk.
    Plain,
}

const CACHES: &str = "sync; echo 3 > /proc/sys/vm/drop_caches";
const THERE: &str = "cp \"$file\" \"$disk/file\"; sync; echo 3 > /proc/sys/vm/drop_caches";
const AWAY: &str = "rm -rf \"$disk\"/{file,file.age,copy,tree}; sync; echo 3 > /proc/sys/vm/drop_caches";

const fn work(row: &'static str, of: Of, before: &'static str, script: &'static str) -> Work {
    Work { row, of, script, before, moves: true }
}

pub(super) const WORKS: [Work; 15] = [
    work("003: copy of a file", Of::Engines, AWAY, "cp \"$file\" \"$disk/file\"; sync -f \"$disk\""),
    work(
        "003: copy into a single file",
        Of::Plain,
        AWAY,
        "\"$program\" file encrypt -i \"$key\" -o \"$disk/file.age\" \"$file\"; sync -f \"$disk\"",
    ),
    work(
        "003: copy out of a single file",
        Of::Plain,
        "rm -rf \"$disk\"/{file,file.age,copy,tree}; \"$program\" file encrypt -i \"$key\" -o \"$disk/file.age\" \"$file\"; sync; echo 3 > /proc/sys/vm/drop_caches",
        "\"$program\" file decrypt -i \"$key\" -o \"$disk/file\" \"$disk/file.age\"; sync -f \"$disk\"",
    ),
    work(
        "004: raw read",
        Of::Ciphers,
        CACHES,
        "dd if=\"$device\" of=/dev/null bs=1M count=$((bytes >> 20)) status=none",
    ),
    work(
        "004: ext4, buffered read",
        Of::Ciphers,
        THERE,
        "dd if=\"$disk/file\" of=/dev/null bs=1M status=none",
    ),
    work(
        "004: ext4, dd without sync",
        Of::Ciphers,
        AWAY,
        "dd if=/dev/zero of=\"$disk/file\" bs=1M count=$((bytes >> 20)) status=none",
    ),
    work(
        "004: ext4, dd with fdatasync",
        Of::Ciphers,
        AWAY,
        "dd if=/dev/zero of=\"$disk/file\" bs=1M count=$((bytes >> 20)) conv=fdatasync status=none",
    ),
    work(
        "004: ext4, dd with fsync",
        Of::Ciphers,
        AWAY,
        "dd if=/dev/zero of=\"$disk/file\" bs=1M count=$((bytes >> 20)) conv=fsync status=none",
    ),
    work("004: file copy to the disk", Of::Ciphers, AWAY, "cp \"$file\" \"$disk/file\"; sync -f \"$disk\""),
    work(
        "004: file copy from the disk",
        Of::Ciphers,
        THERE,
        "cp \"$disk/file\" \"$file.copy\"; rm \"$file.copy\"",
    ),
    work(
        "004: file copy on the disk",
        Of::Ciphers,
        THERE,
        "cp \"$disk/file\" \"$disk/copy\"; sync -f \"$disk\"",
    ),
    Work { moves: false, ..work("004: fio, 75 % reads of 4 KiB", Of::Ciphers, THERE, FIO_4) },
    Work { moves: false, ..work("004: fio, 75 % reads of 64 KiB", Of::Ciphers, THERE, FIO_64) },
    Work {
        moves: false,
        ..work(
            "004: rsync of 2,000 files of 16 KiB",
            Of::Ciphers,
            AWAY,
            "rsync -a \"$tree/\" \"$disk/tree/\"; sync -f \"$disk\"",
        )
    },
    Work {
        moves: false,
        ..work("004: fsck", Of::Ciphers, "umount \"$disk\"; sync; echo 3 > /proc/sys/vm/drop_caches", FSCK)
    },
];

/// So many requests at 16 in flight, whatever they take.
const FIO_4: &str = "fio --name=mix --filename=\"$disk/file\" --rw=randrw --rwmixread=75 --bs=4k --direct=1 \
    --ioengine=libaio --iodepth=16 --number_ios=20000 --end_fsync=1 --output=/dev/null";
const FIO_64: &str = "fio --name=mix --filename=\"$disk/file\" --rw=randrw --rwmixread=75 --bs=64k --direct=1 \
    --ioengine=libaio --iodepth=16 --number_ios=4000 --end_fsync=1 --output=/dev/null";
/// Mounts it again: that is a moment.
const FSCK: &str = "e2fsck -f -n \"$device\" > /dev/null 2>&1; mount \"$device\" \"$disk\"";

impl Work {
    pub(super) fn is_of(&self, side: &Side) -> bool {
        match self.of {
            Of::Ciphers => side.name != PORTABLE,
            Of::Engines => [PLAIN, BEST, PORTABLE].contains(&side.name),
            Of::Plain => side.name == PLAIN,
        }
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = &'static Side> {
        SIDES.iter().filter(|side| self.is_of(side))
    }

    pub(super) fn run(&self, disk: &Disk, file: &Outside, program: &Path) -> Result<Spent> {
        let shell = |script: &str| {
            let mut shell = Command::new("bash");
            shell.args(["-e", "-c", script]).env("device", &disk.device.path).env("disk", disk.path());
            shell.env("file", &file.path).env("bytes", file.bytes.to_string()).env("tree", &file.tree);
            shell.env("key", &file.key).env("program", program);
            command::output(&mut shell, LIMIT).map(drop)
        };
        if self.of == Of::Plain && !file.key.exists() {
            shell("\"$program\" file keygen -o \"$key\"")?;
        }
        shell(self.before)?;
        spent(if self.moves { file.bytes } else { 0 }, || shell(self.script))
    }
}

/// What lies outside of the disks.
pub(super) struct Outside {
    path: PathBuf,
    bytes: u64,
    tree: PathBuf,
    key: PathBuf,
}

/// A file of so many bytes that do not compress, a tree of small files, and where a key will be.
pub(super) fn file(directory: &Path, bytes: u64) -> Result<Outside> {
    let outside = Outside {
        path: directory.join("file"),
        bytes,
        tree: directory.join("tree"),
        key: directory.join("key"),
    };
    let mut noise = Command::new("dd");
    noise.arg("if=/dev/urandom").arg(format!("of={}", outside.path.display()));
    command::output(noise.args(["bs=1M", "status=none", &format!("count={}", bytes >> 20)]), LIMIT)?;
    fs::create_dir(&outside.tree)?;
    for number in 0..2000u32 {
        let content: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(16 << 10).collect();
        fs::write(outside.tree.join(number.to_string()), content)?;
    }
    Ok(outside)
}
