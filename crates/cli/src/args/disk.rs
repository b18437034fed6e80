//! Options of the commands for encrypted disks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use strongroom_format::luks::{CipherSpec, Hash};

use super::secret::{password, source};
use super::values::{CIPHER, ENGINE, HASH, LogTarget, SETTING, duration, size};
use crate::secrets::Source;

/// What is done with disks.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Make a new encrypted disk: what is there is lost
    Format(DiskFormatArgs),
    /// Open a disk, and return when it can be used
    Open(Box<DiskOpenArgs>),
    /// Close an open disk, and return when everything is stored
    Close(DiskCloseArgs),
    /// List the open disks of this user
    List,
    /// Tell what a disk is made with
    Info(DiskInfoArgs),
    /// Tell by the exit code whether something is a LUKS disk: 0 if it is, 1 if not
    IsLuks(DiskInfoArgs),
    /// List, add, remove and change what opens a disk
    #[command(subcommand)]
    Key(DiskKeyCommand),
    /// Back up and restore a disk's header
    #[command(subcommand)]
    Header(DiskHeaderCommand),
    /// Make an image longer or shorter
    Resize(DiskResizeArgs),
    /// Remove all keys: the data cannot be opened any more
    Erase(DiskEraseArgs),
}

/// What opens the disk. Without any, the passphrase is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What opens the disk (else the passphrase is asked for)")]
pub(crate) struct DiskSecretArgs {
    /// Read the passphrase from FILE, or from standard input with -; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "secret")]
    password_file: Option<PathBuf>,
    /// Read the passphrase from file descriptor N until its end
    #[arg(long, value_name = "N", group = "secret", value_parser = clap::value_parser!(i32).range(0..))]
    password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the passphrase
    #[arg(long, value_name = "COMMAND", group = "secret")]
    password_command: Option<String>,
    /// Use a key file (- for standard input): all of its bytes, as cryptsetup's --key-file
    #[arg(long, value_name = "FILE", group = "secret")]
    key_file: Option<PathBuf>,
    /// Skip so many bytes of the key file
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "key_file")]
    pub(crate) keyfile_offset: Option<u64>,
    /// Take so many bytes of the key file
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "key_file")]
    pub(crate) keyfile_size: Option<u64>,
    /// Try this key slot alone
    #[arg(long, value_name = "N")]
    pub(crate) key_slot: Option<u32>,
}

/// What shall open the disk from now on. Without any, a passphrase is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What shall open it (else a new passphrase is asked for, twice)")]
pub(crate) struct NewDiskSecretArgs {
    /// Read the new passphrase from FILE, or from standard input with -; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_password_file: Option<PathBuf>,
    /// Read the new passphrase from file descriptor N until its end
    #[arg(long, value_name = "N", group = "new_secret", value_parser = clap::value_parser!(i32).range(0..))]
    new_password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the new passphrase
    #[arg(long, value_name = "COMMAND", group = "new_secret")]
    new_password_command: Option<String>,
    /// Use a key file (- for standard input): all of its bytes
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_key_file: Option<PathBuf>,
}

impl DiskSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        let password = password(&self.password_file, self.password_fd, &self.password_command);
        source(password, false, &self.key_file, &None)
    }
}

impl NewDiskSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        let password = password(&self.new_password_file, self.new_password_fd, &self.new_password_command);
        source(password, false, &self.new_key_file, &None)
    }
}

/// What trying a passphrase shall cost.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What trying a passphrase shall cost")]
pub(crate) struct DiskCostArgs {
    /// How a key is made from the passphrase [default: argon2id; LUKS1 has pbkdf2 alone]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) kdf: Option<KdfName>,
    /// Memory for Argon2 [default: measured]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) kdf_memory: Option<u64>,
    /// Passes of Argon2, or iterations of PBKDF2 [default: measured]
    #[arg(long, value_name = "N")]
    pub(crate) kdf_time: Option<u64>,
    /// Lanes of Argon2 [default: as many as there are CPUs, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) kdf_lanes: Option<u64>,
    /// How long it shall take on this machine, where it is measured
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) kdf_target: Duration,
}

/// Names of KDFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KdfName {
    /// Argon2id
    Argon2id,
    /// Argon2i
    Argon2i,
    /// PBKDF2
    Pbkdf2,
}

/// Versions of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksVersion {
    /// LUKS1, for old programs and boot loaders
    Luks1,
    /// LUKS2
    Luks2,
}

/// Options of `disk format`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom disk format backup.img --size 20GiB
  sudo strongroom disk format /dev/sdb1 --label backup
  strongroom disk format old.img --size 1GiB --type luks1 --cipher serpent-xts-plain64

Shows what is there and asks before it destroys it. `cryptsetup` opens the disk too.")]
pub(crate) struct DiskFormatArgs {
    /// A file or block device
    pub(crate) image: PathBuf,
    /// Make the file of this size, header included
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Which format
    #[arg(long = "type", value_enum, value_name = "NAME", default_value_t = LuksVersion::Luks2)]
    pub(crate) version: LuksVersion,
    /// Cipher, mode and sector numbers, as dm-crypt spells them
    #[arg(long, value_name = "NAME", default_value = "aes-xts-plain64", value_parser = CIPHER, hide_possible_values = true)]
    pub(crate) cipher: CipherSpec,
    /// Bits of the volume key; XTS takes two keys [default: 512 for xts, 256 for others]
    #[arg(long, value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Bytes of a sector: 512 or 4096 [default: 4096 for LUKS2 where the size allows it]
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// The hash of LUKS1
    #[arg(long, value_name = "NAME", default_value = "sha256", value_parser = HASH)]
    pub(crate) hash: Hash,
    /// A label, at most 47 bytes (LUKS2)
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// A UUID [default: random]
    #[arg(long, value_name = "UUID")]
    pub(crate) uuid: Option<String>,
    /// Write the header to FILE, and data to the whole of the image
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) cost: DiskCostArgs,
    #[command(flatten)]
    pub(crate) secret: DiskSecretArgs,
}

/// Options of `disk open`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom disk open backup.img --raw ~/disk         ~/disk/volume is the disk in plain
  sudo losetup -f --show ~/disk/volume                 makes a block device of it
  strongroom disk open backup.img --nbd disk.socket    for QEMU, nbd-client, libnbd:
  qemu-img info 'nbd+unix:///?socket=disk.socket'
  sudo strongroom disk open backup.img --ublk          a block device, without losetup
  strongroom disk open scratch.img --ephemeral --raw ~/scratch

Close it with `strongroom disk close`. Words after -o are those of crypttab(5):
discard, readonly, key-slot=, keyfile-offset=, keyfile-size=, header=, swap, tmp,
cipher=, size=, sector-size=; those that tune dm-crypt or the boot are ignored.")]
pub(crate) struct DiskOpenArgs {
    /// A file or block device
    pub(crate) image: PathBuf,
    /// Serve it through NBD on this unix socket
    #[arg(long, value_name = "SOCKET", group = "export")]
    pub(crate) nbd: Option<PathBuf>,
    /// Serve it as a block device through ublk, where the kernel has that
    #[arg(long, group = "export")]
    pub(crate) ublk: bool,
    /// Show it as the file `volume` in this empty directory
    #[arg(long, value_name = "DIR", group = "export")]
    pub(crate) raw: Option<PathBuf>,
    /// Encrypt with a random key that is never stored: for swap and scratch; what is there is lost
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Cipher of an ephemeral disk
    #[arg(long, value_name = "NAME", default_value = "aes-xts-plain64", value_parser = CIPHER, hide_possible_values = true, requires = "ephemeral")]
    pub(crate) cipher: CipherSpec,
    /// Bits of an ephemeral key [default: 512 for xts, 256 for others]
    #[arg(long, value_name = "BITS", requires = "ephemeral")]
    pub(crate) key_size: Option<u32>,
    /// Bytes of an ephemeral disk's sector
    #[arg(long, value_name = "BYTES", requires = "ephemeral")]
    pub(crate) sector_size: Option<u32>,
    /// Read the header from FILE
    #[arg(long, value_name = "FILE", conflicts_with = "ephemeral")]
    pub(crate) header: Option<PathBuf>,
    /// Change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Pass discards on, which shows which parts of the disk are in use
    #[arg(long)]
    pub(crate) allow_discards: bool,
    /// With --raw: let other users in, root among them
    #[arg(long, conflicts_with_all = ["nbd", "ublk"])]
    pub(crate) allow_other: bool,
    /// Do not confine the daemon (for debugging)
    #[arg(long)]
    pub(crate) no_confinement: bool,
    /// Stay in the foreground until it is closed
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Compute with this engine: `auto` takes all that are worth it here, `cpu` the best of the CPU alone; or a
    /// name that `strongroom engines` lists [default: auto]
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
    /// Change what decides where it is computed, as `strongroom set` does for a mount
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = SETTING, hide_possible_values = true)]
    pub(crate) set: Vec<String>,
    /// Write messages to FILE, or to the system log with `syslog`
    #[arg(long, value_name = "FILE|syslog")]
    pub(crate) log: Option<LogTarget>,
    /// Options as crypttab(5) knows them, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    pub(crate) options: Vec<String>,
    /// Do not ask (ephemeral disks), and open what looks like something else than the header describes
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) secret: DiskSecretArgs,
}

/// Options of `disk close`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskCloseArgs {
    /// The image, the socket, the directory or the block device
    pub(crate) target: PathBuf,
    /// Close it although it is in use: whoever uses it gets errors
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `disk info`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskInfoArgs {
    /// A file or block device, or a detached header
    pub(crate) image: PathBuf,
}

/// What is done with keys of a disk.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DiskKeyCommand {
    /// List the key slots
    List(DiskInfoArgs),
    /// Let a further passphrase or key file open a disk
    Add(DiskKeyAddArgs),
    /// Let something open a disk no more
    Remove(DiskKeyRemoveArgs),
    /// Replace a passphrase or key file by another
    Change(DiskKeyChangeArgs),
}

/// Options of `disk key add`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskKeyAddArgs {
    /// A file or block device, or a detached header
    pub(crate) image: PathBuf,
    /// Use this key slot [default: the lowest that is free]
    #[arg(long, value_name = "N")]
    pub(crate) new_key_slot: Option<u32>,
    #[command(flatten)]
    pub(crate) secret: DiskSecretArgs,
    #[command(flatten)]
    pub(crate) new: NewDiskSecretArgs,
    #[command(flatten)]
    pub(crate) cost: DiskCostArgs,
}

/// Options of `disk key remove`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Any secret of the disk will do; the last slot cannot be removed (see `disk erase`).
Copies of the disk, and of its header, made before still open with what is removed.")]
pub(crate) struct DiskKeyRemoveArgs {
    /// A file or block device, or a detached header
    pub(crate) image: PathBuf,
    /// Its number, as `disk key list` tells it
    pub(crate) slot: u32,
    #[command(flatten)]
    pub(crate) secret: DiskSecretArgs,
}

/// Options of `disk key change`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "The slot that the given secret opens is changed. In LUKS1 it gets another number.")]
pub(crate) struct DiskKeyChangeArgs {
    /// A file or block device, or a detached header
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) secret: DiskSecretArgs,
    #[command(flatten)]
    pub(crate) new: NewDiskSecretArgs,
    #[command(flatten)]
    pub(crate) cost: DiskCostArgs,
}

/// What is done with the header of a disk.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DiskHeaderCommand {
    /// Copy the header with its key slots to a new file
    Backup(DiskHeaderArgs),
    /// Put a header back that was backed up
    Restore(DiskHeaderRestoreArgs),
}

/// Options of `disk header backup`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The backup opens with everything that opens the disk now, also when that is
changed or removed later. `cryptsetup luksHeaderRestore` takes it too.")]
pub(crate) struct DiskHeaderArgs {
    /// A file or block device
    pub(crate) image: PathBuf,
    /// A new file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Options of `disk header restore`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskHeaderRestoreArgs {
    /// A file or block device
    pub(crate) image: PathBuf,
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Options of `disk resize`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The size is the file's, header included. A file system on the disk is to be made
longer afterwards, and shorter before. Not while the disk is open.")]
pub(crate) struct DiskResizeArgs {
    /// An image file
    pub(crate) image: PathBuf,
    /// Its new size
    #[arg(value_parser = size)]
    pub(crate) size: u64,
    /// Do not ask before making it shorter
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Options of `disk erase`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskEraseArgs {
    /// A file or block device, or a detached header
    pub(crate) image: PathBuf,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}
