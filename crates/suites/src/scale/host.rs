//! A host: a process with a network, mounts, a name and ids of its own, as another machine has them. What it
//! mounts is seen by this process too, below a directory that both share.
//!
//! Its network has nothing but loopback, where the servers' ports are passed on ([`Link`]).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::link::Link;
use crate::stores::served::{Program, directory, is_mounted};
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::peer::Peer;

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Makes the host, and stays for as long as it is there: $1 its directory, $2 its name.
const HOLDER: &str = r#"
set -e
hostname "$2"
ip link set lo up
if [ -e /etc/machine-id ]; then mount --bind "$1/machine-id" /etc/machine-id; fi
mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id
touch "$1/ready"
exec sleep infinity
"#;

/// A host with JuiceFS mounted.
pub(super) struct Host {
    pub(super) name: &'static str,
    /// What belongs to it.
    pub(super) directory: PathBuf,
    holder: Program,
    links: Vec<Link>,
    store: Option<Program>,
    starts: u32,
}

impl Host {
    /// Makes it below `base`, whose mounts are shared; `number` tells it from others. `ports` are passed on.
    pub(super) fn start(base: &Path, name: &'static str, number: u8, ports: &[u16]) -> Result<Host> {
        let directory = directory(base, name)?;
        let id = format!("{number:02x}").repeat(16);
        fs::write(directory.join("machine-id"), format!("{id}\n"))?;
        let parts = [&id[..8], &id[..4], &id[..4], &id[..4], &id[..12]];
        fs::write(directory.join("boot-id"), format!("{}\n", parts.join("-")))?;
        let mut holder = Command::new("unshare");
        holder.args(["--net", "--mount", "--uts", "--propagation", "unchanged", "sh", "-c", HOLDER, "sh"]);
        holder.arg(&directory).arg(name);
        let mut holder = Program::start(&directory, "holder", &mut holder)?;
        let ready = directory.join("ready");
        holder.wait_until(|| Ok(ready.exists()))?;
        let network = format!("/proc/{}/ns/net", holder.id());
        let links = ports.iter().map(|port| Link::start(File::open(&network)?, *port));
        let links = links.collect::<Result<_>>()?;
        self::directory(&directory, "store")?;
        Ok(Host { name, directory, holder, links, store: None, starts: 0 })
    }

    /// A program that runs there.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--net", "--mount", "--uts", "--"]);
        command.arg(program);
        command
    }

    /// The same subject, run there.
    pub(super) fn subject(&self, subject: &Subject) -> Result<Subject> {
        let within = |program: &Path| -> Result<PathBuf> {
            let name = program.file_name().unwrap_or_default();
            let wrapper = self.directory.join(format!("run-{}", name.display()));
            let target = self.holder.id();
            // Replaced by the program, so that it has the process of whoever started it.
            let text = format!(
                "#!/bin/sh\nexec nsenter --target {target} --net --mount --uts -- '{}' \"$@\"\n",
                program.display()
            );
            fs::write(&wrapper, text)?;
            fs::set_permissions(&wrapper, Permissions::from_mode(0o755))?;
            Ok(wrapper)
        };
        match subject {
            Subject::Strongroom { binary, settings } => {
                Ok(Subject::Strongroom { binary: within(binary)?, settings: settings.clone() })
            }
            Subject::Peer(peer) => Ok(Subject::Peer(Peer { binary: within(&peer.binary)?, ..peer.clone() })),
            Subject::Bare => Ok(Subject::Bare),
        }
    }

    /// Where its store is mounted.
    pub(super) fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// Mounts the store by a command that stays; [`Host::command`] has made it.
    pub(super) fn mount_store(&mut self, command: &mut Command) -> Result {
        self.starts += 1;
        let mut program = Program::start(&self.directory, &format!("juicefs-{}", self.starts), command)?;
        let store = self.store();
        program.wait_until(|| is_mounted(&store))?;
        // The mount table comes first, the handshake after it.
        command::output(Command::new("stat").arg("--file-system").arg(&store), LIMIT)?;
        self.store = Some(program);
        Ok(())
    }

    /// Kills what serves the store, and takes away what is left of its mount.
    pub(super) fn kill_store(&mut self) -> Result {
        if let Some(program) = self.store.take() {
            program.kill();
        }
        let deadline = Instant::now() + LIMIT;
        while is_mounted(&self.store())? {
            let taken = command::output(Command::new("umount").arg("-l").arg(self.store()), LIMIT);
            ensure!(taken.is_ok() || Instant::now() < deadline, "the dead store stays mounted");
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Unmounts the store, as its user would.
    pub(super) fn unmount_store(&mut self) -> Result {
        let Some(program) = self.store.take() else { return Ok(()) };
        let deadline = Instant::now() + LIMIT;
        while let Err(failure) = command::output(Command::new("umount").arg(self.store()), LIMIT) {
            ensure!(Instant::now() < deadline, "{failure}");
            thread::sleep(POLL);
        }
        drop(program);
        Ok(())
    }

    /// What the program that serves the store has said last.
    pub(super) fn store_said(&self) -> String {
        self.store.as_ref().map(Program::said).unwrap_or_default()
    }

    /// Keeps all that it has said since it was started last: JuiceFS tells what it waits for, when its mount does not
    /// answer.
    pub(super) fn keep_log(&self) {
        let kept = std::env::temp_dir().join(format!("strongroom-scale-{}.log", self.name));
        let copied = fs::copy(self.directory.join(format!("juicefs-{}.log", self.starts)), &kept);
        if copied.is_ok() {
            println!("    what JuiceFS has said on {}: {}", self.name, kept.display());
        }
    }

    /// Takes it off the network.
    pub(super) fn cut_off(&self) {
        self.links.iter().for_each(Link::cut);
    }

    /// Puts it back.
    pub(super) fn put_back(&self) {
        self.links.iter().for_each(Link::mend);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Err(failure) = self.kill_store() {
            eprintln!("{}: {failure}", self.name);
        }
    }
}
