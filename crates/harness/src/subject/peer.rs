//! Other file systems in user space, as Debian ships them: how each is formatted, mounted and unmounted.
//!
//! libfuse's `passthrough_ll` encrypts nothing and shows what FUSE itself costs; it is built from the example
//! that comes with libfuse's headers. The example of our own FUSE crate does the same over our transport.
//! Passwords guard nothing here, so derivations are as cheap as each program allows.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::failure::{Context, Failure, Result, ensure};
use crate::packages;
use crate::subject::Kind;
use crate::subject::vault::Place;
use crate::workspace;

const EXAMPLES: &str = "/usr/share/doc/libfuse3-dev/examples";
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// A peer with the options it is mounted with.
#[derive(Clone, Debug)]
pub struct Peer {
    pub kind: Kind,
    pub binary: PathBuf,
    /// Further mount options, as the program takes them.
    pub options: Vec<String>,
}

impl Peer {
    /// Finds, installs or builds the program.
    pub fn resolve(kind: Kind) -> Result<Self> {
        let binary = match kind {
            Kind::Passthrough => build_passthrough()?,
            Kind::Clear => build_clear()?,
            other => {
                let name = other.program();
                packages::need(&[(name, name)])?;
                packages::find(name).ok_or_else(|| Failure::new(format!("{name} is not in PATH")))?
            }
        };
        Ok(Self { kind, binary, options: Vec::new() })
    }

    /// The same program with other mount options.
    pub fn with_options(&self, options: &[&str]) -> Self {
        Self { options: options.iter().map(|option| (*option).to_owned()).collect(), ..self.clone() }
    }

    /// Which version runs: Debian's package version, since not every program knows its own.
    pub fn version(&self) -> Result<String> {
        let package = match self.kind {
            Kind::Passthrough => "libfuse3-dev",
            Kind::Clear => return packages::version_line(self.binary.as_os_str(), "--version"),
            other => other.program(),
        };
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat", "${Version}", package]);
        Ok(format!("{package} {}", command::output(&mut query, Duration::from_secs(20))?))
    }

    pub fn init_command(&self, place: &Place) -> Option<Command> {
        let mut command = Command::new(&self.binary);
        match self.kind {
            Kind::Gocryptfs => {
                command.args(["-init", "-q", "-scryptn", "10", "-passfile"]).arg(&place.password);
                command.arg(&place.store);
            }
            Kind::Securefs => {
                command.args(["create", "--rounds", "1", "--pbkdf", "pkcs5-pbkdf2-hmac-sha256"]);
                command.args(["--pass", PASSWORD]).arg(&place.store);
            }
            // These two make what they do not find when they mount; the others keep nothing.
            _ => return None,
        }
        Some(command)
    }

    pub fn mount_command(&self, place: &Place, foreground: bool, allow_other: bool) -> Command {
        let mut command = Command::new(&self.binary);
        match self.kind {
            Kind::Gocryptfs => {
                command.args(["-q", "-nosyslog", "-passfile"]).arg(&place.password);
                for (wanted, option) in [(foreground, "-fg"), (allow_other, "-allow_other")] {
                    if wanted {
                        command.arg(option);
                    }
                }
                command.args(&self.options).arg(&place.store).arg(&place.directory);
            }
            Kind::Securefs => {
                command.args(["mount", "--pass", PASSWORD]).args(&self.options);
                command.arg(&place.store).arg(&place.directory);
            }
            Kind::Encfs => {
                command.args(["-f", "--standard"]);
                command.arg(format!("--extpass=cat '{}'", place.password.display()));
                command.args(&self.options).arg(&place.store).arg(&place.directory);
            }
            Kind::Cryfs => {
                command.env("CRYFS_FRONTEND", "noninteractive").env("CRYFS_NO_UPDATE_CHECK", "true");
                command.env("CRYFS_LOCAL_STATE_DIR", place.store.with_extension("state"));
                command.arg("-f").args(&self.options).arg(&place.store).arg(&place.directory);
            }
            Kind::Passthrough => {
                command.arg("-f").arg("-o").arg(format!("source={}", place.store.display()));
                command.args(&self.options).arg(&place.directory);
            }
            Kind::Clear | Kind::Bare | Kind::Strongroom => {
                command.args(&self.options).arg(&place.store).arg(&place.directory);
            }
        }
        command
    }

    /// True when the mount command reads its password from standard input.
    pub fn asks_on_input(&self) -> bool {
        self.kind == Kind::Cryfs
    }
}

/// What the password file holds, for the program that takes none.
pub const PASSWORD: &str = "only a test";

/// Compiles libfuse's example with the options its package is built with.
fn build_passthrough() -> Result<PathBuf> {
    let source = Path::new(EXAMPLES).join("passthrough_ll.c");
    packages::need(&[("cc", "gcc"), ("pkg-config", "pkg-config"), ("fusermount3", "fuse3")])?;
    if !source.exists() {
        packages::install(&["libfuse3-dev", "libc6-dev"])?;
    }
    ensure!(
        source.exists(),
        "libfuse3-dev is installed without {}: its documentation is left out",
        source.display()
    );
    let directory = workspace::target()?.join("tools");
    std::fs::create_dir_all(&directory).context(directory.display())?;
    let built = directory.join("passthrough_ll");
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "fuse3"]);
    let flags = command::output(&mut flags, Duration::from_secs(20))?;
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-o"]).arg(&built).arg(&source).args(flags.split_whitespace());
    command::output(&mut compile, Duration::from_secs(60))?;
    Ok(built)
}

/// Builds the example of our FUSE crate that serves a directory as it is.
fn build_clear() -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--package", "strongroom-fuse", "--example", "clear"]);
    command::show(&mut command, BUILD_LIMIT)?;
    Ok(workspace::target()?.join("release/examples/clear"))
}
