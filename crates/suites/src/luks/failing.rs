//! Images that are cut or full under a running server: whoever reads or writes gets an error, and the server
//! goes on. On a file system in memory, where large reads are done in the mapped image, and on ext4.

use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;

use super::lab::{Lab, same};
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::tally::Tally;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 24 * MIB;
/// What the full file system has, which is less than [`SIZE`].
const ROOM: u64 = 12 * MIB;

pub(super) fn run(lab: &Lab, tally: &mut Tally) {
    if !packages::is_root() || !Path::new("/dev/loop-control").exists() {
        println!("  file systems of their own size need root and /dev/loop-control: not run");
        tally.skipped += 4;
        return;
    }
    for kind in ["tmpfs", "ext4"] {
        let at = |what: &str| format!("an image on {kind} that is {what} under its server");
        tally.count(&at("cut"), on(lab, kind, 64 * MIB, cut));
        tally.count(&at("given no room"), on(lab, kind, ROOM, full));
    }
}

/// Runs `test` with an open image on a file system of `room` bytes.
fn on(lab: &Lab, kind: &str, room: u64, test: fn(&Lab, &Path) -> Result) -> Result {
    fs::create_dir_all(lab.path("small"))?;
    fs::create_dir_all(lab.path("open"))?;
    match kind {
        "tmpfs" => lab.run(&format!("mount -t tmpfs -o size={room} none small"))?,
        _ => {
            lab.sparse("carrier", room)?;
            lab.run("mkfs.ext4 -q -F -O ^has_journal -m 0 carrier")?;
            lab.run("mount -o loop carrier small")?
        }
    };
    let opened = || -> Result {
        lab.run(&format!(
            "strongroom disk format small/image --size {} --type luks1 --kdf-time 1000 --yes --password-file passphrase",
            SIZE + 4 * MIB
        ))?;
        lab.run("strongroom disk open small/image --raw open --password-file passphrase")?;
        let outcome = test(lab, &lab.path("open/volume"));
        // A flush that failed is told again when it is closed.
        let closed = lab.finish("strongroom disk close open");
        outcome?;
        let closed = closed?;
        ensure!(matches!(closed.code(), 0 | 7), "closing answered: {}", closed.output());
        Ok(())
    };
    let outcome = opened();
    let _ = lab.finish("umount --lazy open");
    let unmounted = lab.run("umount small");
    lab.remove(&["carrier"]);
    outcome?;
    unmounted.map(drop)
}

/// Past the page cache, so that the server is asked each time.
fn direct(volume: &Path) -> Result<fs::File> {
    let flags = OFlags::DIRECT.bits() as i32;
    Ok(fs::File::options().read(true).write(true).custom_flags(flags).open(volume)?)
}

/// A buffer of 1 MiB as direct transfers want it: at a page's beginning.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new() -> Self {
        let bytes = vec![0; (MIB + 4096) as usize];
        let skip = bytes.as_ptr().align_offset(4096);
        Self(bytes, skip)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..][..MIB as usize]
    }
}

/// Readers and a writer are at it while the image loses its end.
fn cut(lab: &Lab, volume: &Path) -> Result {
    let image: PathBuf = lab.path("small/image");
    let length = fs::metadata(&image)?.len();
    let data = Lab::data(MIB as usize, 5);
    let file = direct(volume)?;
    let mut buffer = Aligned::new();
    buffer.bytes().copy_from_slice(&data);
    for at in 0..SIZE / MIB {
        file.write_all_at(buffer.bytes(), at * MIB)?;
    }
    let is_over = AtomicBool::new(false);
    let failures = std::thread::scope(|scope| -> Result<usize> {
        let reader = || -> Result<usize> {
            let (file, mut buffer, mut failures) = (direct(volume)?, Aligned::new(), 0);
            while !is_over.load(Ordering::Relaxed) {
                for at in 0..SIZE / MIB {
                    match file.read_exact_at(buffer.bytes(), at * MIB) {
                        Ok(()) => same(buffer.bytes(), &data)?,
                        Err(error) if error.raw_os_error() == Some(5) => failures += 1,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Ok(failures)
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        std::thread::sleep(Duration::from_millis(200));
        let cut =
            fs::File::options().write(true).open(&image).and_then(|file| file.set_len(length / 2 + 1000));
        std::thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
        let mut failures = 0;
        for reader in readers {
            failures += reader.join().map_err(|_| Failure::new("a reader panicked"))??;
        }
        cut?;
        Ok(failures)
    })?;
    ensure!(failures > 0, "nobody heard that the image was cut");
    file.read_exact_at(buffer.bytes(), 0)?;
    same(buffer.bytes(), &data)
}

/// More is written than there is room for.
fn full(_: &Lab, volume: &Path) -> Result {
    let data = Lab::data(MIB as usize, 6);
    let file = direct(volume)?;
    let mut buffer = Aligned::new();
    buffer.bytes().copy_from_slice(&data);
    let mut written = 0;
    let failed = loop {
        ensure!(written < SIZE / MIB, "more was written than there is room for");
        match file.write_all_at(buffer.bytes(), written * MIB) {
            Ok(()) => written += 1,
            Err(error) => break error.raw_os_error(),
        }
    };
    ensure!(matches!(failed, Some(28 | 5)), "writing failed with {failed:?}");
    ensure!(written > 2, "there was room for more than {written} MiB");
    for at in 0..written {
        file.read_exact_at(buffer.bytes(), at * MIB)?;
        same(buffer.bytes(), &data)?;
    }
    Ok(())
}
