//! Options of the commands that work on a vault without a mount.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use strongroom_format::vault::Suite;

use super::history::HistoryArgs;
use super::secret::{FirstSecretArgs, NewSecretArgs, SecretArgs};
use super::values::{RecoveryOut, SUITE, Sample, duration, size};

/// What trying a password shall cost.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What trying a password shall cost")]
pub(crate) struct CostArgs {
    /// Memory for Argon2id, 8MiB to 4GiB [default: measured]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) kdf_memory: Option<u64>,
    /// Passes of Argon2id over the memory, 1 to 64 [default: measured]
    #[arg(long, value_name = "PASSES")]
    pub(crate) kdf_time: Option<u32>,
    /// How long it shall take on this machine, where it is measured
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) kdf_target: Duration,
}

/// Options of `init`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom init ~/vault
  strongroom init ~/vault --recovery-out /media/usb/vault-recovery.txt
  strongroom init /srv/vault --key-file /etc/vault.key --recovery-out none

The recovery key opens the vault when the password is forgotten. It is shown
once: print it, and keep it where nobody finds it.")]
pub(crate) struct InitArgs {
    /// A new or empty directory
    pub(crate) vault: PathBuf,
    /// xaes-256-gcm, xchacha20-poly1305, aegis-256x2, aegis-256x4, serpent-256-poly1305 or cascade (AES,
    /// Twofish and Serpent) [default: what suits this CPU]
    #[arg(long, value_name = "NAME", value_parser = SUITE, hide_possible_values = true)]
    pub(crate) suite: Option<Suite>,
    /// 4KiB to 1MiB, a power of two; larger blocks suit data that is written once
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4KiB")]
    pub(crate) block_size: u64,
    /// Write the recovery key to FILE (which must not exist), or make none [default: the terminal]
    #[arg(long, value_name = "FILE|none")]
    pub(crate) recovery_out: Option<RecoveryOut>,
    /// What `key list` shall call the secret, at most 64 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Make FILE, to be kept outside of the vault, to tell when the store is rolled back (see `mount --help`)
    #[arg(long, value_name = "FILE")]
    pub(crate) freshness: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cost: CostArgs,
    #[command(flatten)]
    pub(crate) secret: FirstSecretArgs,
}

/// Options of `info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Without a secret, what is told is what the header says, and is not authenticated.")]
pub(crate) struct InfoArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// What is done with keys.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List what opens a vault
    List(InfoArgs),
    /// Let a further password, key file or recovery key open a vault
    Add(KeyAddArgs),
    /// Let something open a vault no more
    Remove(KeyRemoveArgs),
    /// Replace a password, key file or recovery key by another
    Change(KeyChangeArgs),
    /// Print the recipients of the secret keys in a file, for which `file encrypt` encrypts
    Recipient(KeyRecipientArgs),
}

/// Options of `key recipient`.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeyRecipientArgs {
    /// A file of secret keys, as `file keygen` makes them; `-` is standard input
    #[arg(value_name = "IDENTITY")]
    pub(crate) identity: PathBuf,
}

/// Options of `key add`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom key add ~/vault                                   ask for both passwords
  strongroom key add ~/vault --new-key-file /media/usb/key
  strongroom key add ~/vault --new-recovery-out recovery.txt   make a new recovery key")]
pub(crate) struct KeyAddArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// What `key list` shall call it, at most 64 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) new: NewSecretArgs,
    #[command(flatten)]
    pub(crate) cost: CostArgs,
}

/// Options of `key remove`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Any secret of the vault will do; the last slot cannot be removed. Copies of
the vault, and of its header, made before still open with what is removed.")]
pub(crate) struct KeyRemoveArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// Its number, as `key list` tells it
    pub(crate) slot: usize,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// Options of `key change`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Without --slot, the slot that the given secret opens is changed. Copies of the
vault, and of its header, made before still open with what it was.")]
pub(crate) struct KeyChangeArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// Number of the slot to change, as `key list` tells it
    #[arg(long, value_name = "N")]
    pub(crate) slot: Option<usize>,
    /// What `key list` shall call it [default: as before]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) new: NewSecretArgs,
    #[command(flatten)]
    pub(crate) cost: CostArgs,
}

/// What is done with the vault header.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HeaderCommand {
    /// Copy the header to a file
    Backup(HeaderBackupArgs),
    /// Put a header back that was backed up
    Restore(HeaderRestoreArgs),
}

/// Options of `header backup`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The backup opens with every password that opens the vault now, also when that
is changed or removed later: make a new one then, and destroy the old one.")]
pub(crate) struct HeaderBackupArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// A new file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// Options of `header restore`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The secret is one that opened the vault when the backup was made. The vault
opens with what opened it then; passwords that were changed or removed since
are back. It asks first when the backup is older than the header is now, or than
this machine has seen it. The header gets a number above both, so that no
machine takes it for an older one. Not while it is mounted.")]
pub(crate) struct HeaderRestoreArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// Options of `check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 everything is sound; 4 damage was found; 8 damage was found and
all of it repaired; 9 some of it was not, or could not be. Every damaged file is
named by its plain path, with the bytes that are lost. Without --repair nothing
is changed. While the vault is mounted for writing, files that are being written
can look damaged: unmount it first, or take that into account with --force.

--repair shows what it is going to do, and asks. It restores what there is a
second copy or a proof of: a header copy, directory records, long names, files
that were moved in the vault. What has lost its name goes to the directory
lost+found at the top. Contents have no second copy: a damaged file stays as it
is; see `strongroom salvage` for what can be read of it. docs/repair.md says
what is done about each kind of damage.

Examples:
  strongroom check ~/vault
  strongroom check ~/vault Documents/letters photo.jpg    only these
  strongroom check ~/vault --sample 5%                     a twentieth of the data
  strongroom check ~/vault --sample 30m                    what half an hour allows, and
                                                           next time the files that follow
  strongroom check ~/vault --repair --yes                 without asking")]
pub(crate) struct CheckArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// Files and directories to check, by their path in the mount [default: everything]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Check although the vault is mounted for writing
    #[arg(long)]
    pub(crate) force: bool,
    /// Restore what can be restored, after asking
    #[arg(long, conflicts_with_all = ["force", "paths"])]
    pub(crate) repair: bool,
    /// Look at this part of what files hold, drawn anew each time, and at all names and directories; or for this
    /// long, as `30m`, at whole files, going on where the last time ended
    #[arg(long, value_name = "PERCENT|TIME", conflicts_with = "repair")]
    pub(crate) sample: Option<Sample>,
    /// Threads that verify [default: two per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Compare with this freshness file too, and name what was rolled back, deleted, put back or exchanged
    #[arg(long, value_name = "FILE")]
    pub(crate) freshness: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// Options of `salvage`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Copies over whatever is damaged: sound files whole, and of the others the bytes
that can be read, with a hole where they cannot. Names that are lost are spelled
# and an id. Works without a mount and changes nothing in the vault. What was not
read is listed, and written to salvage-report.json in the destination. Owners are
kept as root alone.

Exit codes: 0 everything was copied; 4 something could not be read; 7 the
destination is full or failed: go on with --resume; 1 it was interrupted, or the
destination did not take something, as device files without root.

Examples:
  strongroom salvage ~/vault /media/usb/rescued
  strongroom salvage ~/vault /media/usb/rescued --resume    go on after a stop")]
pub(crate) struct SalvageArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// A new or empty directory
    #[arg(value_name = "DEST")]
    pub(crate) destination: PathBuf,
    /// Go on in a destination, and skip the files that are complete there
    #[arg(long)]
    pub(crate) resume: bool,
    /// Copy although the vault is mounted for writing
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads that copy [default: two per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}
