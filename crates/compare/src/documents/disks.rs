//! The disks that programs work on: an image in a file, plain or encrypted, as a loop device with ext4.
//!
//! `strongroom disk open --raw` shows the disk as a file, which the loop device is made of: there is a copy
//! more than with a driver in the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::subject::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(120);

/// What a program works on.
pub(super) struct Side {
    pub(super) name: &'static str,
    /// None where nothing is encrypted.
    cipher: Option<&'static str>,
    pub(super) engine: &'static str,
}

const fn disk(name: &'static str, cipher: &'static str, engine: &'static str) -> Side {
    Side { name, cipher: Some(cipher), engine }
}

pub(super) const PLAIN: &str = "unencrypted";
/// The best engine, and code for any CPU, which stands for what software was to the documents.
pub(super) const BEST: &str = "aes-xts";
pub(super) const PORTABLE: &str = "aes-xts, cpu-portable";

pub(super) const SIDES: [Side; 6] = [
    Side { name: PLAIN, cipher: None, engine: "cpu" },
    disk(BEST, "aes-xts-plain64", "cpu"),
    disk(PORTABLE, "aes-xts-plain64", "cpu-portable"),
    disk("aes-cbc-essiv", "aes-cbc-essiv:sha256", "cpu"),
    disk("serpent-xts", "serpent-xts-plain64", "cpu"),
    disk("twofish-xts", "twofish-xts-plain64", "cpu"),
];

/// A disk with ext4 on it, mounted. Its parts end in this order.
pub(super) struct Disk {
    mounted: Mounted,
    pub(super) device: Device,
    _volume: Volume,
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = command::finish(Command::new("umount").arg("--lazy").arg("--quiet").arg(&self.0), LIMIT);
    }
}

/// A loop device. It ends with this handle and the mount, also where this process is killed.
pub(super) struct Device {
    pub(super) path: PathBuf,
    _held: fs::File,
}

impl Device {
    fn of(file: &Path) -> Result<Self> {
        let told = command::output(Command::new("losetup").args(["--find", "--show"]).arg(file), LIMIT)?;
        let path = PathBuf::from(told.trim());
        let held = fs::File::open(&path).context(path.display())?;
        // Takes effect when nobody has it open any more.
        command::output(Command::new("losetup").arg("--detach").arg(&path), LIMIT)?;
        Ok(Self { path, _held: held })
    }
}

/// What a loop device is made of: an image, or the file that an open disk is shown as.
enum Volume {
    Image(PathBuf),
    Opened { binary: PathBuf, image: PathBuf, file: PathBuf },
}

impl Volume {
    fn file(&self) -> &Path {
        let (Self::Image(file) | Self::Opened { file, .. }) = self;
        file
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Self::Opened { binary, image, .. } = self {
            let _ = command::finish(Command::new(binary).args(["disk", "close"]).arg(image), LIMIT);
        }
    }
}

impl Disk {
    /// Makes and opens a disk with room for four files of so many bytes.
    pub(super) fn open(binary: &Path, scratch: &Scratch, side: &Side, file_bytes: u64) -> Result<Self> {
        let name = side.name.replace(", ", "-");
        let (base, bytes) = (scratch.make(&name)?, file_bytes * 4 + (128 << 20));
        let volume = match side.cipher {
            None => {
                fs::File::create(base.join("image"))?.set_len(bytes)?;
                Volume::Image(base.join("image"))
            }
            Some(cipher) => encrypted(binary, &base, side, cipher, bytes)?,
        };
        let device = Device::of(volume.file())?;
        command::output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&device.path), LIMIT)?;
        let mounted = Mounted(scratch.make(&format!("{name}.ext4"))?);
        command::output(Command::new("mount").arg(&device.path).arg(&mounted.0), LIMIT)?;
        Ok(Self { mounted, device, _volume: volume })
    }

    /// Where ext4 is mounted.
    pub(super) fn path(&self) -> &Path {
        &self.mounted.0
    }
}

/// The file that an encrypted disk is shown as.
fn encrypted(binary: &Path, base: &Path, side: &Side, cipher: &str, bytes: u64) -> Result<Volume> {
    fs::write(base.join("passphrase"), "correct horse battery")?;
    let plain = base.join("plain");
    fs::create_dir(&plain)?;
    let (size, bits) = (bytes.to_string(), if cipher.contains("xts") { "512" } else { "256" });
    let mut format = Command::new(binary);
    format.current_dir(base).args(["disk", "format", "image", "--size", &size, "--cipher", cipher, "--yes"]);
    format.args(["--key-size", bits, "--kdf-memory", "32MiB", "--kdf-time", "4"]);
    command::output(format.args(["--password-file", "passphrase"]), LIMIT).context("disk format")?;
    let mut open = Command::new(binary);
    open.current_dir(base).args(["disk", "open", "image", "--password-file", "passphrase"]);
    command::output(open.args(["--engine", side.engine, "--raw"]).arg(&plain), LIMIT).context("disk open")?;
    Ok(Volume::Opened { binary: binary.to_owned(), image: base.join("image"), file: plain.join("volume") })
}
