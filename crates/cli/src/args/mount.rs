//! Options of mounts and what is asked of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::history::HistoryArgs;
use super::secret::SecretArgs;
use super::values::{ENGINE, LogTarget, SETTING, duration, size, some_time};
use strongroom_fuse::TransportChoice;

/// Options of `mount`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom mount ~/vault ~/plain
  strongroom mount ~/vault ~/plain --password-command \"pass show vault\" --idle 30m
  sudo strongroom mount /srv/vault /srv/plain --key-file /media/usb/key --allow-other

Returns when the mount can be used, or with the exit code of what went wrong.
Unmount with `strongroom umount DIR`.

Words after -o, as in /etc/fstab: ro, rw, suid, dev, noexec, allow_other,
nonempty, no_history, log_names, fsname=, idle=, engine=, transport=, log=,
freshness=, journal_size=, durability=, password_file=, password_fd=,
password_command=, key_file=, recovery_file=, and the settings of
`strongroom set`. Those of mount(8) and systemd that mean nothing here are
passed over.")]
pub(crate) struct MountArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// Where its files shall be seen: an empty directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Stay in the foreground until it is unmounted
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Change nothing in the vault. Several may read it so at once, also beside a mount for writing: an opening sees
    /// what was synced before. With --freshness nobody can mount it for writing meanwhile
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let other users in, as far as file modes permit (for others than root,
    /// /etc/fuse.conf must have user_allow_other). Of a mount by root the store is written to as root: the store's
    /// quotas and the blocks that it reserves for root bind nobody
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Unmount after this long without use, as 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) idle: Option<Duration>,
    /// Compute with this engine: `auto` takes all that are worth it here, `cpu` the best of the CPU alone; or a
    /// name that `strongroom engines` lists [default: auto]
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
    /// How requests come from the kernel: `dev` is /dev/fuse, `uring` needs a kernel that offers it, `auto`
    /// takes what is best here (`status` says which, and why)
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) transport: Option<Transport>,
    /// Write messages to FILE, or to the system log with `syslog` [default: syslog, or standard error in the
    /// foreground]
    #[arg(long, value_name = "FILE|syslog")]
    pub(crate) log: Option<LogTarget>,
    /// Do not confine the daemon (for debugging: see `status`)
    #[arg(long)]
    pub(crate) no_confinement: bool,
    /// Name damaged files and directories in the log by their plain paths, which then has mode 0600: without this,
    /// `status` and `check` name them
    #[arg(long)]
    pub(crate) log_names: bool,
    /// What the mount table shows as the source [default: the vault]
    #[arg(long, value_name = "NAME")]
    pub(crate) fsname: Option<String>,
    /// Options as mount(8) knows them, separated by commas: see below
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    pub(crate) options: Vec<String>,
    /// What a power cut may take: with `full` nothing that was synced; `relaxed` waits for no barriers, and a
    /// power cut may take the last seconds and damage what was being overwritten
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Durability::Full)]
    pub(crate) durability: Durability,
    /// Space for the journal, at least 16MiB
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub(crate) journal_size: u64,
    /// Record in FILE, kept outside of the vault, what is durable, and refuse what was rolled back, deleted or
    /// exchanged in the store; the first time, FILE is made
    #[arg(long, value_name = "FILE")]
    pub(crate) freshness: Option<PathBuf>,
    /// Begin the freshness file anew where it is missing and the vault has had one: the vault is taken as it is now,
    /// with whatever was changed in the store meanwhile
    #[arg(long)]
    pub(crate) new_freshness: bool,
    /// Take the vault over from another machine that has it mounted for writing. Only when that machine is gone for
    /// certain: its last changes that were not synced are lost, and if it writes on, files that both change are
    /// damaged. A daemon that still runs there notices at its next commit, and writes nothing more
    #[arg(long)]
    pub(crate) takeover: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// How requests come from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// What is best here.
    Auto,
    /// /dev/fuse.
    Dev,
    /// FUSE over io_uring.
    Uring,
}

impl From<Transport> for TransportChoice {
    fn from(transport: Transport) -> TransportChoice {
        match transport {
            Transport::Auto => TransportChoice::Automatic,
            Transport::Dev => TransportChoice::Device,
            Transport::Uring => TransportChoice::Ring,
        }
    }
}

/// What is waited for before a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// Every rule of the format is kept.
    Full,
    /// No barriers.
    Relaxed,
}

/// Options of `umount`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UmountArgs {
    /// Where it is mounted, or was, when something still holds it
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Detach now, and end when the last open file is closed, which is not waited for
    #[arg(long, conflicts_with = "abort")]
    pub(crate) lazy: bool,
    /// End at once: whoever uses the mount gets errors, and what was not synced may be lost
    #[arg(long, visible_alias = "force")]
    pub(crate) abort: bool,
}

/// Options of `sync`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SyncArgs {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Options of `status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// Where it is mounted [default: all mounts of this user; for root, of everybody]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Show it on the whole terminal as it changes, until q is pressed
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    pub(crate) watch: bool,
    /// How often --watch asks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", requires = "watch")]
    pub(crate) interval: Duration,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}

/// Options of `set`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Settings:
  policy=fixed|size|aca|adaptive      what decides which engine computes
  objective=throughput|latency|cpu    what `adaptive` minimises
  alpha=N         for aca: a device is used with more than N callers at once
  beta=SIZE       for aca and size: a device is used from this size on
  idle-cpu=P%     for aca: the CPU is used when more than P per cent of it is idle
  use=N           for fixed: the engine in this place of `status`, from 0
  check=N         one result of a device in N is recomputed on the CPU; 1, which
                  is the default, lets no wrong result pass
  masks=auto|on|off                   whether a device makes keystream ahead

They hold from the next request on, until the mount ends. The same words may
stand after -o of `mount`.")]
pub(crate) struct SetArgs {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// What to change
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = SETTING, hide_possible_values = true)]
    pub(crate) settings: Vec<String>,
}
