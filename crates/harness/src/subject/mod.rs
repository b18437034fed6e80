//! What a suite runs on: a plain directory, our own mount, or a peer's mount.
//!
//! A [`Subject`] says which program and which settings; [`vault::Vault`] is one formatted store of it;
//! [`mount::Mount`] is that store mounted, for as long as the value lives.

pub mod connection;
pub mod mount;
pub mod peer;
pub mod scratch;
pub mod vault;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::command;
use crate::failure::Result;
use crate::packages;
use crate::subject::peer::Peer;
use crate::workspace;

/// The suites that `strongroom init --suite` knows.
pub const SUITES: [&str; 6] =
    ["xaes-256-gcm", "xchacha20-poly1305", "aegis-256x2", "aegis-256x4", "serpent-256-poly1305", "cascade"];

/// Which kind of thing is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A plain directory, nothing mounted: the yardstick.
    Bare,
    /// This project's mount.
    Strongroom,
    /// gocryptfs as installed.
    Gocryptfs,
    /// securefs as installed.
    Securefs,
    /// EncFS as installed, with its standard settings.
    Encfs,
    /// CryFS as installed.
    Cryfs,
    /// libfuse's example `passthrough_ll`, which encrypts nothing.
    Passthrough,
    /// Our FUSE transport serving a directory as it is.
    Clear,
}

impl Kind {
    /// The name, which for an installed peer is its program's and its package's.
    pub fn program(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Strongroom => "strongroom",
            Self::Gocryptfs => "gocryptfs",
            Self::Securefs => "securefs",
            Self::Encfs => "encfs",
            Self::Cryfs => "cryfs",
            Self::Passthrough => "passthrough_ll",
            Self::Clear => "clear",
        }
    }
}

/// Command line options that choose a subject.
#[derive(Args, Clone, Debug)]
pub struct SubjectArgs {
    /// What to run on
    #[arg(long, value_enum, default_value = "strongroom")]
    pub subject: Kind,
    #[command(flatten)]
    pub settings: Settings,
    /// Where the working directory is made; its file system is the bare one [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
}

/// The settings of a Strongroom vault and mount; `None` leaves the program's own choice.
#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// Cipher suite of the vault
    #[arg(long)]
    pub suite: Option<String>,
    /// Block size of the vault, in bytes or with a suffix
    #[arg(long)]
    pub block_size: Option<String>,
    /// Engine of the mount
    #[arg(long)]
    pub engine: Option<String>,
    /// Transport of the mount: auto, dev, or uring, which root has to switch on in the kernel
    #[arg(long)]
    pub transport: Option<String>,
}

impl SubjectArgs {
    /// Finds or builds the program behind the chosen subject.
    pub fn resolve(&self) -> Result<Subject> {
        let settings = self.settings.clone();
        Subject::resolve(self.subject, settings, self.binary.as_deref())
    }

    /// A fresh working directory where the options ask for it.
    pub fn scratch(&self, task: &str) -> Result<scratch::Scratch> {
        scratch::Scratch::new(self.work.as_deref(), task)
    }
}

/// A program with settings, ready to format a store and mount it.
#[derive(Clone, Debug)]
pub enum Subject {
    Bare,
    Strongroom { binary: PathBuf, settings: Settings },
    Peer(Peer),
}

impl Subject {
    pub fn resolve(kind: Kind, settings: Settings, binary: Option<&Path>) -> Result<Self> {
        if kind != Kind::Bare {
            packages::need(&[("fusermount3", "fuse3")])?;
        }
        match kind {
            Kind::Bare => Ok(Self::Bare),
            Kind::Strongroom => {
                let binary = match binary {
                    Some(path) => path.canonicalize()?,
                    None => workspace::build_strongroom()?,
                };
                Ok(Self::Strongroom { binary, settings })
            }
            peer => Ok(Self::Peer(Peer::resolve(peer)?)),
        }
    }

    /// The same program with other vault settings; peers have none and stay as they are.
    pub fn with(&self, settings: Settings) -> Self {
        match self {
            Self::Strongroom { binary, .. } => Self::Strongroom { binary: binary.clone(), settings },
            other => other.clone(),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Bare => Kind::Bare,
            Self::Strongroom { .. } => Kind::Strongroom,
            Self::Peer(peer) => peer.kind,
        }
    }

    /// `strongroom sync` of a mount, which is given `limit`: `syncfs(2)` does not reach the daemon. Nothing for other
    /// subjects.
    pub fn sync(&self, mount: &Path, limit: Duration) -> Result {
        let Self::Strongroom { binary, .. } = self else { return Ok(()) };
        command::output(Command::new(binary).arg("sync").arg(mount), limit).map(drop)
    }

    /// The name with the settings that differ from the defaults.
    pub fn label(&self) -> String {
        match self {
            Self::Bare => "bare".into(),
            Self::Peer(peer) => peer.kind.program().into(),
            Self::Strongroom { settings, .. } => {
                let mut label = String::from("strongroom");
                let Settings { suite, block_size, engine, transport } = settings;
                for part in [suite, block_size, engine, transport].into_iter().flatten() {
                    label.push(' ');
                    label.push_str(part);
                }
                label
            }
        }
    }

    /// The version line of the program; the kernel's for the bare file system.
    pub fn version(&self) -> Result<String> {
        match self {
            Self::Bare => Ok(format!("Linux {}", rustix::system::uname().release().to_string_lossy())),
            Self::Strongroom { binary, .. } => packages::version_line(binary.as_os_str(), "--version"),
            Self::Peer(peer) => peer.version(),
        }
    }

    /// The command that formats the store; none where there is nothing to format.
    fn init_command(&self, place: &vault::Place) -> Option<Command> {
        match self {
            Self::Bare => None,
            Self::Peer(peer) => peer.init_command(place),
            Self::Strongroom { binary, settings } => {
                let mut command = Command::new(binary);
                command.arg("init").arg(&place.store).arg("--password-file").arg(&place.password);
                command.env("XDG_STATE_HOME", place.state());
                // The cheapest derivation that the program accepts: these vaults guard nothing.
                command.args(["--recovery-out", "none", "--kdf-memory", "8MiB", "--kdf-time", "1"]);
                option(&mut command, "--suite", settings.suite.as_deref());
                option(&mut command, "--block-size", settings.block_size.as_deref());
                Some(command)
            }
        }
    }

    /// The command that mounts `store` on `directory`; none for a bare directory.
    fn mount_command(&self, place: &vault::Place, options: &mount::MountOptions) -> Option<Command> {
        let foreground = options.launch == mount::Launch::Foreground;
        match self {
            Self::Bare => None,
            Self::Peer(peer) => Some(peer.mount_command(place, foreground, options.allow_other)),
            Self::Strongroom { binary, settings } => {
                let mut command = Command::new(binary);
                command.arg("mount").arg(&place.store).arg(&place.directory);
                command.arg("--password-file").arg(&place.password);
                command.env("XDG_STATE_HOME", place.state());
                option(&mut command, "--engine", settings.engine.as_deref());
                option(&mut command, "--transport", settings.transport.as_deref());
                flag(&mut command, "--foreground", foreground);
                flag(&mut command, "--allow-other", options.allow_other);
                command.args(options.arguments);
                Some(command)
            }
        }
    }

    /// True when the mount command reads its password from standard input.
    fn asks_on_input(&self) -> bool {
        matches!(self, Self::Peer(peer) if peer.asks_on_input())
    }

    /// The command that a user would end the mount with.
    fn unmount_command(&self, directory: &Path) -> Option<Command> {
        match self {
            Self::Bare => None,
            Self::Strongroom { binary, .. } => {
                let mut command = Command::new(binary);
                command.arg("umount").arg(directory);
                Some(command)
            }
            Self::Peer(_) => {
                let mut command = Command::new("fusermount3");
                command.arg("-u").arg(directory);
                Some(command)
            }
        }
    }
}

fn option(command: &mut Command, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        command.args([name, value]);
    }
}

fn flag(command: &mut Command, name: &str, wanted: bool) {
    if wanted {
        command.arg(name);
    }
}
