//! Encrypted disks in a virtual machine, whose kernel has what this one may lack: dm-crypt, which is the oracle for
//! every cipher and mode, and ublk. A vault in a machine that is saved and loaded twice (`snapshot`). And crypto devices
//! with rings, interrupts and an IOMMU (`device`). And vaults on network file systems whose clients are the kernel's
//! (`stores`).
//!
//! A Debian kernel under QEMU's software emulation, so that neither KVM nor modules of the own kernel are needed.
//! Images made here are opened by dm-crypt there, and those that dm-crypt has made there are read here afterwards.

mod debian;
mod device;
mod guest;
mod kernel;
mod snapshot;
mod stores;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::luks::lab::{Lab, same};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

#[derive(Args)]
pub struct VmArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the working directory is made [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// How long the machine may run, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Only ciphers whose name contains this
    #[arg(long, default_value = "")]
    cipher: String,
    /// Only this part
    #[arg(long, value_enum)]
    part: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Disks: dm-crypt and ublk
    Disks,
    /// A machine that is copied while a vault is mounted in it
    Snapshots,
    /// Engines on virtio-crypto devices, through VFIO and through the kernel's driver
    Device,
    /// Vaults on NFS and on SMB
    Stores,
}

/// Programs and the Debian packages that they come from.
const PROGRAMS: [(&str, &str); 11] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("busybox", "busybox-static"),
    ("cryptsetup", "cryptsetup-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("mkfs.ext4", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("cpio", "cpio"),
    ("fusermount3", "fuse3"),
];

/// Bytes of data in an image.
const DATA: usize = 512 << 10;
/// Bytes of the disk that carries the images to the machine and back.
const CARRIER: u64 = 2 << 30;
const LIMIT: Duration = Duration::from_secs(120);

/// A cipher, a format and a direction.
pub(super) struct Image {
    cipher: String,
    key_bits: u32,
    version: &'static str,
    sector: u32,
    /// Made here, or there.
    ours: bool,
}

impl Image {
    fn name(&self) -> String {
        let whose = if self.ours { "ours" } else { "theirs" };
        format!("{whose}-{}-{}", self.version, self.cipher.replace(':', "-"))
    }

    fn title(&self) -> String {
        let Self { cipher, version, sector, .. } = self;
        match self.ours {
            true => format!("dm-crypt opens our {version}, {cipher}, {sector} bytes"),
            false => format!("we open dm-crypt's {version}, {cipher}, {sector} bytes"),
        }
    }
}

fn images(part: &str) -> Vec<Image> {
    let mut images = Vec::new();
    for cipher in ["aes", "serpent", "twofish", "camellia"] {
        for mode in
            ["xts-plain64", "xts-plain", "xts-essiv:sha256", "cbc-plain", "cbc-plain64", "cbc-essiv:sha256"]
        {
            for (version, sector) in [("luks1", 512), ("luks2", 4096)] {
                for ours in [true, false] {
                    let key_bits = if mode.starts_with("xts") { 512 } else { 256 };
                    images.push(Image {
                        cipher: format!("{cipher}-{mode}"),
                        key_bits,
                        version,
                        sector,
                        ours,
                    });
                }
            }
        }
    }
    images.retain(|image| image.cipher.contains(part));
    images
}

/// Runs the parts.
pub fn run(arguments: &VmArgs) -> Result<Tally> {
    packages::need_root("vm")?;
    packages::need(&PROGRAMS)?;
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let kernel = kernel::Kernel::fetch()?;
    println!("the machine's kernel: {}", kernel.release);
    let scratch = Scratch::new(arguments.work.as_deref(), "vm")?;
    let limit = Duration::from_secs(60 * arguments.minutes);
    let wants = |part| arguments.part.is_none_or(|only| only == part);
    let mut tally = Tally::default();
    if wants(Part::Snapshots) {
        tally = snapshot::run(&kernel, &binary, &scratch)?;
    }
    if wants(Part::Device) {
        device::run(&kernel, &binary, &scratch, limit, &mut tally)?;
    }
    if wants(Part::Stores) {
        stores::run(&kernel, &binary, &scratch, limit, &mut tally)?;
    }
    if wants(Part::Disks) {
        disks(arguments, &kernel, &binary, &scratch, &mut tally)?;
    }
    Ok(tally)
}

/// Makes the images, runs the machine, and judges what it said and left.
fn disks(
    arguments: &VmArgs,
    kernel: &kernel::Kernel,
    binary: &Path,
    scratch: &Scratch,
    tally: &mut Tally,
) -> Result {
    let images = images(&arguments.cipher);
    ensure!(!images.is_empty(), "no cipher has this name");
    let carried = scratch.make("carried")?;
    let lab = Lab::new(binary.to_path_buf(), &carried)?;
    fs::write(carried.join("data"), Lab::data(DATA, 61))?;
    fs::write(carried.join("script"), guest::script(&images, DATA))?;
    println!("making {} images", images.iter().filter(|image| image.ours).count());
    for image in images.iter().filter(|image| image.ours) {
        make(&lab, image).context(image.title())?;
    }
    let disk = scratch.path().join("disk");
    carry(&carried, &disk)?;
    let initramfs = scratch.path().join("initramfs");
    guest::initramfs(kernel, binary, &guest::Others::default(), &scratch.make("root")?, &initramfs)?;
    let drive = format!("file={},format=raw,if=virtio,cache=unsafe", disk.display());
    let words = ["-drive", &drive];
    let console = boot(kernel, &initramfs, &words, "", Duration::from_secs(60 * arguments.minutes))?;
    let back = scratch.make("back")?;
    let mut debugfs = Command::new(find("debugfs"));
    debugfs.arg("-R").arg(format!("rdump / {}", back.display())).arg(&disk);
    command::output(&mut debugfs, LIMIT)?;
    let said = |name: &str| guest::verdict(&console, name);
    for image in images.iter().filter(|image| image.ours) {
        tally.count(&image.title(), said(&image.name()));
    }
    let lab = Lab::new(binary.to_path_buf(), &back)?;
    for image in images.iter().filter(|image| !image.ours) {
        let outcome = said(&image.name())
            .and_then(|()| same(&lab.plain(&image.name(), "", DATA)?, &fs::read(carried.join("data"))?));
        tally.count(&image.title(), outcome);
    }
    for (name, title) in guest::UBLK {
        tally.count(title, said(name));
    }
    keep_log(tally, &console)
}

/// Keeps what a machine said where something did not pass.
fn keep_log(tally: &Tally, console: &str) -> Result {
    if !tally.is_success() {
        let log = std::env::temp_dir().join("strongroom-vm.log");
        fs::write(&log, console)?;
        println!("what the machine said: {}", log.display());
    }
    Ok(())
}

/// An image of ours with known data.
fn make(lab: &Lab, image: &Image) -> Result {
    let name = image.name();
    let cost = if image.version == "luks1" { "--kdf-time 1000" } else { "--kdf pbkdf2 --kdf-time 1000" };
    let size = if image.version == "luks1" { 3 << 20 } else { 17 << 20 };
    lab.run(&format!(
        "strongroom disk format {name} --size {size} --type {} --cipher {} --key-size {} --sector-size {} --yes \
         --password-file passphrase {cost}",
        image.version, image.cipher, image.key_bits, image.sector
    ))?;
    lab.fill(&name, "", &fs::read(lab.path("data"))?)
}

fn find(program: &str) -> PathBuf {
    packages::find(program).unwrap_or_else(|| program.into())
}

/// Puts a directory onto a file system of its own.
fn carry(directory: &Path, disk: &Path) -> Result {
    fs::File::create(disk)?.set_len(CARRIER)?;
    let mut command = Command::new(find("mkfs.ext4"));
    command.args(["-q", "-F", "-d"]).arg(directory).arg(disk);
    command::output(&mut command, LIMIT).map(drop)
}

/// Runs a machine until it switches itself off, shows its notes, and returns what its console said. `words` are QEMU's,
/// and `kernel_words` its kernel's.
fn boot(
    kernel: &kernel::Kernel,
    initramfs: &Path,
    words: &[&str],
    kernel_words: &str,
    limit: Duration,
) -> Result<String> {
    let log = initramfs.with_extension("log");
    let began = Instant::now();
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-machine", "q35,accel=tcg,kernel-irqchip=off", "-cpu", "max", "-smp", "2", "-m", "1536"]);
    command.args(["-nographic", "-no-reboot", "-nic", "none", "-append"]);
    command.arg(format!("console=ttyS0 panic=-1 quiet rdinit=/init {kernel_words}"));
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs).args(words);
    command.stdin(Stdio::null()).stdout(command::log_file(&log)?).stderr(Stdio::null());
    let mut child = command::spawn(&mut command)?;
    let ended = command::wait(&mut child, limit);
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if let Err(failure) = ended {
        let tail: Vec<&str> = text.lines().rev().take(20).collect();
        let mut out = std::io::stdout().lock();
        tail.iter().rev().for_each(|line| drop(writeln!(out, "    {line}")));
        return Err(Failure::new(format!("the machine {failure}")));
    }
    println!("the machine ran for {} s", began.elapsed().as_secs());
    guest::notes(&text).for_each(|note| println!("{note}"));
    Ok(text)
}
