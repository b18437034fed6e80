//! The whole of it: servers, two hosts, and JuiceFS mounted on both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::host::Host;
use super::servers::{self, ACCOUNT, Asked, BUCKET, Server};
use crate::stores::remote::juicefs_program;
use crate::stores::served::directory;
use serde_json::Value;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::packages;
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::vault::{Place, Vault};

const LIMIT: Duration = Duration::from_secs(120);
const MOUNT_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// How long JuiceFS keeps the locks of a client that was killed.
const LOCK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Caches of names and attributes would show a reader beside the writer what was; without, each look asks.
const UNCACHED: [&str; 6] = ["--attr-cache", "0", "--entry-cache", "0", "--dir-entry-cache", "0"];
/// Seconds between a client's signs of life; five of them later its locks go.
const HEARTBEAT: &str = "3";

/// How often JuiceFS tries an upload: after the last time it gives up, loses what it was given, and fails every
/// call on the file for as long as that is open. It waits for the square of the try, in seconds, so that this
/// is most of a day.
const TRIES: &str = "60";

/// What JuiceFS is told of Redis.
///
/// How long it waits for an answer: thirty seconds unless told otherwise. It takes the transaction for failed then, and
/// does not repeat it, so that what it was to record of a file is lost, and every call on the file fails for as long as
/// that is open. A machine that is stopped for so long finds all answers late when it goes on.
///
/// And the longest pause between two tries, ten seconds unless told otherwise. A connection that Redis had taken when
/// it was killed is greeted again and again although it is closed, as often as [`TRIES`] says, before another one is
/// opened: nothing would be answered for more than eight minutes after Redis is back.
const REDIS: &str = "read-timeout=30m&max-retry-backoff=500ms";

/// All that is started.
pub(super) struct Lab {
    // Hosts first: what they mount is served by the others.
    pub(super) hosts: [Host; 2],
    pub(super) redis: Server,
    pub(super) s3: Server,
    log: PathBuf,
    juicefs: PathBuf,
    volume: String,
    pub(super) versions: String,
    shared: Shared,
}

/// A directory in which mounts are seen by all hosts.
struct Shared(PathBuf);

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = command::output(Command::new("umount").arg("-l").arg(&self.0), LIMIT);
    }
}

impl Lab {
    /// Starts everything below `base`, but for the stores' mounts.
    pub(super) fn start(base: &Path) -> Result<Lab> {
        packages::need(&[("nsenter", "util-linux"), ("ip", "iproute2"), ("fusermount3", "fuse3")])?;
        let juicefs = juicefs_program()?;
        let mut redis = servers::redis(base)?;
        let (mut s3, log) = servers::s3(base)?;
        redis.start()?;
        s3.start()?;
        let version = packages::version_line(juicefs.as_os_str(), "--version")?;
        let version =
            version.split_whitespace().find(|word| word.contains('+') || word.starts_with(char::is_numeric));
        let versions = format!("JuiceFS {}, {}, {}", version.unwrap_or(""), redis.version, s3.version);
        let volume = format!("redis://127.0.0.1:{}/1?{REDIS}", redis.port);
        let mut format = Command::new(&juicefs);
        format.args([
            "format",
            "--no-update",
            "--storage",
            "s3",
            "--trash-days",
            "0",
            "--enable-acl",
            "--bucket",
        ]);
        format.arg(format!("http://127.0.0.1:{}/{BUCKET}", s3.port));
        format.args(["--access-key", ACCOUNT.0, "--secret-key", ACCOUNT.1, &volume, "scale"]);
        command::output(format.env("HOME", base), LIMIT).context("formatting a volume")?;
        let shared = Shared(directory(base, "hosts")?);
        command::output(Command::new("mount").arg("--bind").arg(&shared.0).arg(&shared.0), LIMIT)?;
        command::output(Command::new("mount").arg("--make-shared").arg(&shared.0), LIMIT)?;
        let ports = [redis.port, s3.port];
        let hosts =
            [Host::start(&shared.0, "one", 0x1a, &ports)?, Host::start(&shared.0, "other", 0x2b, &ports)?];
        Ok(Lab { hosts, redis, s3, log, juicefs, volume, versions, shared })
    }

    /// Mounts the store on a host.
    pub(super) fn mount_store(&mut self, host: usize) -> Result {
        let host = &mut self.hosts[host];
        let mut command = host.command(&self.juicefs);
        command.args(["mount", "--no-usage-report", "--no-syslog", "--enable-xattr"]);
        command.args(["--heartbeat", HEARTBEAT, "--io-retries", TRIES]).args(UNCACHED);
        command.args(["--cache-size", "1024", "--cache-dir"]).arg(host.directory.join("cache"));
        command.arg("--log").arg(host.directory.join("juicefs.log")).arg(&self.volume).arg(host.store());
        host.mount_store(&mut command).context(format_args!("JuiceFS on {}", host.name))
    }

    /// A new vault on the store, which is mounted on the first host.
    pub(super) fn vault(&self, subject: &Subject, name: &str) -> Result<Vault> {
        let host = &self.hosts[0];
        let (base, below) = (directory(&host.directory, name)?, directory(&host.store(), name)?);
        Vault::create_over(&host.subject(subject)?, &base, &below).context("init")
    }

    /// The same vault as the other host sees it.
    pub(super) fn on_the_other(&self, subject: &Subject, vault: &Vault, name: &str) -> Result<Vault> {
        let host = &self.hosts[1];
        let base = directory(&host.directory, name)?;
        let place = Place {
            store: host.store().join(name).join("store"),
            directory: directory(&base, "plain")?,
            password: vault.place.password.clone(),
            log: base.join("daemon.log"),
        };
        Ok(Vault { subject: host.subject(subject)?, place })
    }

    /// What was asked of the servers.
    pub(super) fn asked(&self) -> Result<Asked> {
        servers::asked(self.redis.port, &self.log)
    }

    /// Makes it whole again after a step that has failed anywhere.
    pub(super) fn repair(&mut self) {
        self.hosts.iter().for_each(Host::put_back);
        for server in [&mut self.redis, &mut self.s3] {
            server.kill();
            if let Err(failure) = server.start() {
                eprintln!("{failure}");
            }
        }
        for host in 0..self.hosts.len() {
            let again = self.hosts[host].kill_store().and_then(|()| self.mount_store(host));
            if let Err(failure) = again {
                eprintln!("{failure}");
            }
        }
    }

    /// Ends what is left, and sees that it goes.
    pub(super) fn end(mut self) -> Result {
        for host in &mut self.hosts {
            host.unmount_store().context(host.name)?;
        }
        let Lab { hosts, redis, s3, shared, .. } = self;
        drop(hosts);
        drop((redis, s3, shared));
        Ok(())
    }
}

/// How vaults are mounted here.
pub(super) fn options() -> MountOptions {
    MountOptions::new(MOUNT_LIMIT)
}

/// Mounts a vault whose last daemon was killed with its store. Tells how long it took.
pub(super) fn mount_after_kill(vault: &Vault) -> Result<(Mount, Duration)> {
    let began = Instant::now();
    let mount = once_unlocked(|| vault.mount(options()))?;
    Ok((mount, began.elapsed()))
}

/// Tries until the vault is not in use: JuiceFS keeps the locks of one that was killed for a while.
pub(super) fn once_unlocked<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(failure) if failure.to_string().contains("in use") && began.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(Duration::from_millis(500));
            }
            done => return done,
        }
    }
}

/// What `status` says of a mount.
pub(super) fn status(mount: &Mount) -> Result<Value> {
    let mut document = mount.status()?.unwrap_or_default();
    Ok(document["mounts"][0].take())
}
