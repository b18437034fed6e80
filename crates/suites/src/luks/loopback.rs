//! A loop device over the raw file, with ext4 on it: a tree, a killed server, swap.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::lab::{LIMIT, Lab};
use super::pressure;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::connection::Connection;
use strongroom_harness::tally::Tally;

const CHEAP: &str = "--kdf-memory 64KiB --kdf-time 4";

pub(super) fn run(lab: &Lab, tally: &mut Tally, long: bool) {
    if !packages::is_root() || !Path::new("/dev/loop-control").exists() {
        println!("  loop devices need root and /dev/loop-control: not run");
        tally.skipped += 4;
        return;
    }
    for sector in [512, 4096] {
        tally.count(&format!("ext4 on a loop device, {sector} bytes"), tree(lab, sector));
    }
    let kills = if long { 20 } else { 3 };
    tally.count(&format!("a server killed {kills} times while ext4 is written to"), killed(lab, kills));
    tally.count("a swap area under a one-time key", swap(lab));
    match pressure::run(lab) {
        Ok(false) => tally.skipped += 1,
        other => tally.count("swap through our own server under memory pressure", other.map(drop)),
    }
}

/// An open image with a loop device and a mounted file system; gone, as far as it can be, when dropped.
struct Mounted<'a> {
    lab: &'a Lab,
    device: Option<String>,
    point: PathBuf,
}

impl<'a> Mounted<'a> {
    fn open(lab: &'a Lab) -> Result<Self> {
        fs::create_dir_all(lab.path("raw"))?;
        fs::create_dir_all(lab.path("ext4"))?;
        lab.run("strongroom disk open image --raw raw --password-file passphrase")?;
        let mut mounted = Self { lab, device: None, point: lab.path("ext4") };
        let device = lab.run("losetup --find --show raw/volume")?.trim().to_owned();
        mounted.device = Some(device);
        Ok(mounted)
    }

    fn device(&self) -> &str {
        self.device.as_deref().unwrap_or_default()
    }

    fn mount(&self) -> Result {
        self.lab.run(&format!("mount {} ext4", self.device())).map(drop)
    }

    /// Unmounts, detaches and closes in good order.
    fn close(mut self) -> Result {
        self.lab.run("umount ext4")?;
        self.detach()?;
        self.lab.run("strongroom disk close raw").map(drop)
    }

    fn detach(&mut self) -> Result {
        if let Some(device) = self.device.take() {
            self.lab.run(&format!("losetup --detach {device}"))?;
            let gone = || !fs::read_to_string("/proc/partitions").unwrap_or_default().contains(&device[5..]);
            let until = Instant::now() + Duration::from_secs(10);
            while !gone() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Kills the server as a power cut would, and clears away what the kernel still has.
    fn kill(mut self) -> Result {
        let list: serde_json::Value = serde_json::from_str(&self.lab.run("strongroom disk list --json")?)?;
        let image = self.lab.path("image");
        let disks = list["disks"].as_array().cloned().unwrap_or_default();
        let pid = disks.iter().find(|disk| disk["image"].as_str().map(Path::new) == Some(&image));
        let pid = pid.and_then(|disk| disk["pid"].as_i64()).and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).ok_or_else(|| Failure::new("no server"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        self.clear()
    }

    fn clear(&mut self) -> Result {
        if let Ok(Some(connection)) = Connection::of(&self.lab.path("raw")) {
            let _ = connection.abort();
        }
        let _ = self.lab.finish("umount --lazy ext4");
        let _ = self.detach();
        let _ = self.lab.finish("umount --lazy raw");
        Ok(())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.device.is_some() {
            let _ = self.lab.finish("umount --lazy ext4");
            let _ = self.detach();
            let _ = self.lab.finish("strongroom disk close raw --force");
        }
    }
}

fn format(lab: &Lab, size: &str, sector: u32) -> Result {
    lab.remove(&["image"]);
    lab.run(&format!(
        "strongroom disk format image --size {size} --sector-size {sector} --yes --password-file passphrase {CHEAP}"
    ))?;
    Ok(())
}

/// Checks a file system without changing it: nothing may be wrong.
fn check(lab: &Lab, device: &str) -> Result {
    lab.run(&format!("e2fsck -f -n {device}")).map(drop)
}

/// A real tree goes in, and comes out the same after everything was closed in between.
fn tree(lab: &Lab, sector: u32) -> Result {
    format(lab, "256MiB", sector)?;
    let mounted = Mounted::open(lab)?;
    lab.run(&format!("mkfs.ext4 -q {}", mounted.device()))?;
    mounted.mount()?;
    let source = ["/usr/share/perl", "/usr/share/zoneinfo", "/usr/include", "/usr/lib/python3"];
    let source = source.into_iter().find(|path| Path::new(path).is_dir());
    let source = source.ok_or_else(|| Failure::new("this machine has no tree to copy"))?;
    lab.run(&format!("cp -a {source} ext4/tree"))?;
    mounted.close()?;
    let mounted = Mounted::open(lab)?;
    check(lab, mounted.device())?;
    mounted.mount()?;
    lab.run(&format!("diff --recursive --no-dereference {source} ext4/tree"))?;
    mounted.close()
}

/// The server dies while files are written and synced. Every file that was synced is there, whole, and the file
/// system is sound after its journal was replayed.
fn killed(lab: &Lab, kills: u64) -> Result {
    format(lab, "96MiB", 4096)?;
    let mounted = Mounted::open(lab)?;
    lab.run(&format!("mkfs.ext4 -q {}", mounted.device()))?;
    mounted.mount()?;
    mounted.close()?;
    for round in 0..kills {
        let mounted = Mounted::open(lab)?;
        mounted.mount()?;
        let directory = fs::File::open(&mounted.point)?;
        let writer = std::thread::spawn(move || write_until_it_fails(&directory, round));
        std::thread::sleep(Duration::from_millis(400 + 150 * round));
        mounted.kill()?;
        let synced = writer.join().map_err(|_| Failure::new("the writer panicked"))?;
        ensure!(!synced.is_empty(), "nothing was synced before the kill");
        let mut mounted = Mounted::open(lab)?;
        // Replays the journal; 1 means that something was corrected, as after every crash.
        let checked = lab.finish(&format!("e2fsck -f -p {}", mounted.device()))?;
        if checked.code() > 1 {
            mounted.clear()?;
            return Err(Failure::new(format!("e2fsck: {}", checked.output())));
        }
        check(lab, mounted.device())?;
        mounted.mount()?;
        for name in &synced {
            let found = fs::read(mounted.point.join(name)).context(name)?;
            ensure!(found == content(name), "{name} is not as it was synced");
            fs::remove_file(mounted.point.join(name))?;
        }
        mounted.close()?;
    }
    Ok(())
}

fn content(name: &str) -> Vec<u8> {
    Lab::data(40_000, name.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte)))
}

/// Names of the files that were synced. Made below the open directory: its path leads elsewhere, where writing
/// goes well, as soon as the mount is taken away.
fn write_until_it_fails(directory: &fs::File, round: u64) -> Vec<String> {
    let made = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let mut synced = Vec::new();
    for number in 0..1000 {
        let name = format!("file-{round}-{number}");
        let opened = rustix::fs::openat(directory, &name, made, Mode::from_raw_mode(0o644));
        let written = opened.map_err(io::Error::from).map(fs::File::from).and_then(|mut file| {
            file.write_all(&content(&name))?;
            file.sync_all()?;
            // The name too.
            directory.sync_all()
        });
        match written {
            Ok(()) => synced.push(name),
            Err(_) => break,
        }
    }
    synced
}

/// A one-time key for swap: the area is made, used where the kernel allows it, and unreadable afterwards.
fn swap(lab: &Lab) -> Result {
    lab.sparse("swap", 32 << 20)?;
    fs::create_dir_all(lab.path("raw"))?;
    lab.run("strongroom disk open swap --raw raw --yes -o swap,cipher=aes-xts-plain64,size=512,nofail")?;
    let device = lab.run("losetup --find --show --direct-io=on raw/volume")?.trim().to_owned();
    let made = || -> Result {
        lab.run(&format!("mkswap {device}"))?;
        let mut command = lab.command(&format!("swapon {device}"));
        let on = command::finish(&mut command, LIMIT)?;
        if on.status.success() {
            lab.run(&format!("swapoff {device}"))?;
        } else {
            println!("  swapon is not possible here: {}", on.output().trim());
        }
        Ok(())
    };
    let outcome = made();
    let detached = lab.run(&format!("losetup --detach {device}"));
    let closed = lab.run("strongroom disk close raw");
    outcome?;
    detached?;
    closed?;
    let stored = fs::read(lab.path("swap"))?;
    ensure!(!stored.windows(10).any(|bytes| bytes == b"SWAPSPACE2"), "the swap area is unencrypted");
    ensure!(stored.iter().any(|&byte| byte != 0), "nothing was written");
    Ok(())
}
