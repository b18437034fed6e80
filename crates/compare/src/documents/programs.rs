//! A file sent through SSH over loopback onto an encrypted folder and beside it, with each cipher (004).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::works::{Spent, spent};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::subject::{Kind, Settings, Subject};

const LIMIT: Duration = Duration::from_secs(300);

pub(super) const SSH_CIPHERS: [&str; 5] = [
    "aes128-ctr",
    "aes256-ctr",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
];

pub(super) fn row(cipher: &str) -> String {
    format!("004: ssh, {cipher}")
}

/// An SSH server of its own, and a mounted folder.
pub(super) struct Server {
    sshd: Child,
    port: u16,
    directory: PathBuf,
    bytes: u64,
    plain: PathBuf,
    folder: Option<Mount>,
}

impl Server {
    pub(super) const SIDES: [&str; 2] = ["unencrypted", "folder"];

    pub(super) fn start(binary: &Path, scratch: &Scratch, file_mib: u64) -> Result<Self> {
        let directory = scratch.make("ssh")?;
        let settings = Settings { engine: Some("cpu".to_owned()), ..Settings::default() };
        let subject = Subject::resolve(Kind::Strongroom, settings, Some(binary))?;
        let vault = Vault::create(&subject, &scratch.make("vault")?)?;
        let folder = vault.mount(MountOptions::new(LIMIT))?;
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            command::output(
                keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(key)),
                LIMIT,
            )?;
        }
        fs::copy(directory.join("user.pub"), directory.join("authorized"))?;
        let port = free_port()?;
        let server = |name: &str| directory.join(name).display().to_string();
        // It refuses to run without.
        fs::create_dir_all("/run/sshd")?;
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f", "/dev/null", "-p", &port.to_string(), "-h", &server("host")]);
        for option in [
            format!("AuthorizedKeysFile={}", server("authorized")),
            format!("PidFile={}", server("pid")),
            "ListenAddress=127.0.0.1".into(),
            "StrictModes=no".into(),
            "PermitRootLogin=yes".into(),
        ] {
            sshd.args(["-o", &option]);
        }
        sshd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let sshd = command::spawn(&mut sshd)?;
        let plain = scratch.make("beside")?;
        let server = Self { sshd, port, directory, bytes: file_mib << 20, plain, folder: Some(folder) };
        let until = Instant::now() + Duration::from_secs(30);
        while server.run(SSH_CIPHERS[0], "true").is_err() {
            if Instant::now() > until {
                return Err(Failure::new("sshd does not serve"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// Sends zeros, which neither side compresses, into a file of the side.
    pub(super) fn copy(&self, cipher: &str, side: &str) -> Result<Spent> {
        let place = match side {
            "folder" => self.folder.as_ref().map_or(self.plain.as_path(), Mount::path),
            _ => &self.plain,
        };
        let into = format!("cat > {0}/file && sync {0}/file", place.display());
        spent(self.bytes, || self.run(cipher, &into))
    }

    fn run(&self, cipher: &str, remote: &str) -> Result {
        let mut shell = Command::new("bash");
        let script = "set -o pipefail; head -c \"$bytes\" /dev/zero | ssh -q -F none -c \"$cipher\" -p \"$port\" \
            -i \"$key\" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes \
            root@127.0.0.1 \"$remote\"";
        let bytes = if remote == "true" { 0 } else { self.bytes };
        shell.args(["-c", script]).env("bytes", bytes.to_string()).env("cipher", cipher);
        shell
            .env("port", self.port.to_string())
            .env("key", self.directory.join("user"))
            .env("remote", remote);
        command::output(&mut shell, LIMIT).map(drop)
    }

    pub(super) fn stop(mut self) -> Result {
        command::end(&mut self.sshd);
        self.folder.take().map_or(Ok(()), Mount::unmount)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        command::end(&mut self.sshd);
    }
}

/// One that nobody listens on now.
fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
