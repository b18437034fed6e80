//! The servers: Redis for the metadata, versitygw for the objects. Both can be killed and started again, and both
//! are asked what was asked of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::age::peers;
use crate::stores::served::{Program, directory, free_port, is_served};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::{packages, workspace};

/// The user of the object store and the secret.
pub(super) const ACCOUNT: (&str, &str) = ("scale", "scale-scale");
pub(super) const BUCKET: &str = "bucket";
/// An S3 server over a directory (Apache-2.0; only ever run).
pub(super) const VERSITYGW: &str = "v1.8.0";
const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A server of this machine.
pub(super) struct Server {
    name: &'static str,
    base: PathBuf,
    pub(super) port: u16,
    pub(super) version: String,
    command: Box<dyn Fn() -> Command>,
    is_ready: fn(u16) -> bool,
    program: Option<Program>,
    starts: u32,
}

impl Server {
    /// Starts it, with all that it has stored.
    pub(super) fn start(&mut self) -> Result {
        self.starts += 1;
        let name = format!("{}-{}", self.name, self.starts);
        let mut program = Program::start(&self.base, &name, &mut (self.command)())?;
        let (port, is_ready) = (self.port, self.is_ready);
        program.wait_until(|| Ok(is_ready(port)))?;
        self.program = Some(program);
        Ok(())
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.kill();
        }
    }
}

/// Redis, which answers only once everything is on the disk.
pub(super) fn redis(base: &Path) -> Result<Server> {
    packages::need(&[("redis-server", "redis-server")])?;
    let program = packages::find("redis-server").expect("it is there");
    let (data, port) = (directory(base, "redis")?, free_port()?);
    let version = packages::version_line(program.as_os_str(), "--version")?;
    let version =
        version.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("").to_owned();
    let command = move || {
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(&data);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        // With another policy it would forget metadata when its memory is full.
        command.args(["--maxmemory-policy", "noeviction", "--protected-mode", "yes"]);
        command
    };
    let is_ready = |port| ask_redis(port, "PING").is_ok_and(|answer| answer.contains("PONG"));
    Ok(Server {
        name: "redis",
        base: base.to_path_buf(),
        port,
        version: format!("Redis {version}"),
        command: Box::new(command),
        is_ready,
        program: None,
        starts: 0,
    })
}

/// versitygw over a directory, and the log of its requests.
pub(super) fn s3(base: &Path) -> Result<(Server, PathBuf)> {
    let program = versitygw()?;
    let (data, port) = (directory(base, "objects")?, free_port()?);
    // Its buckets are directories. It makes none for a client that names another region, as JuiceFS does.
    directory(&data, BUCKET)?;
    let log = base.join("s3-access.log");
    let written = log.clone();
    let command = move || {
        let mut command = Command::new(&program);
        command.args(["--access", ACCOUNT.0, "--secret", ACCOUNT.1, "--port", &format!("127.0.0.1:{port}")]);
        command.arg("--access-log").arg(&written).args(["--quiet", "posix"]).arg(&data);
        command
    };
    let server = Server {
        name: "s3",
        base: base.to_path_buf(),
        port,
        version: format!("versitygw {VERSITYGW}"),
        command: Box::new(command),
        is_ready: is_served,
        program: None,
        starts: 0,
    };
    Ok((server, log))
}

/// The S3 server, below `target/tools`.
fn versitygw() -> Result<PathBuf> {
    let directory = workspace::target()?.join("tools").join(format!("versitygw-{VERSITYGW}"));
    let program = directory.join("versitygw");
    if !program.is_file() {
        let go = peers::go().map_err(|_| {
            Failure::new("there is no Go toolchain, with which the S3 server versitygw is built (Go 1.25)")
        })?;
        println!("building versitygw {VERSITYGW}");
        let mut install = Command::new(go);
        install.arg("install").arg(format!("github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"));
        install.env("GOBIN", &directory);
        command::output(&mut install, INSTALL_LIMIT).context("building versitygw")?;
    }
    ensure!(program.is_file(), "the module has no versitygw");
    Ok(program)
}

/// What was asked of the servers since they were made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Objects written.
    pub(super) puts: u64,
    /// Transactions of metadata.
    pub(super) transactions: u64,
}

impl std::ops::Sub for Asked {
    type Output = Asked;

    fn sub(self, before: Asked) -> Asked {
        Asked { puts: self.puts - before.puts, transactions: self.transactions - before.transactions }
    }
}

/// Reads it from the log of the S3 server and from Redis' statistics.
pub(super) fn asked(redis: u16, log: &Path) -> Result<Asked> {
    let puts = BufReader::new(fs::File::open(log).context(log.display())?).lines();
    let puts = puts.filter(|line| line.as_ref().is_ok_and(|line| line.contains(" s3_PutObject "))).count();
    let calls = commands(&ask_redis(redis, "INFO commandstats")?);
    Ok(Asked { puts: puts as u64, transactions: calls.get("exec").copied().unwrap_or(0) })
}

/// How often each command was called.
fn commands(statistics: &str) -> BTreeMap<String, u64> {
    let lines = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
    let calls = lines.filter_map(|line| {
        let (name, rest) = line.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    });
    calls.collect()
}

/// One command and its answer: a line, or as many bytes as its first line says.
fn ask_redis(port: u16, command: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = BufReader::new(stream);
    let mut first = String::new();
    answer.read_line(&mut first)?;
    let Some(len) = first.trim_end().strip_prefix('$') else { return Ok(first) };
    let mut text = vec![0; len.parse().context("Redis' answer")?];
    answer.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_in_statistics() {
        let text = "# Commandstats\r\ncmdstat_exec:calls=21,usec=4,usec_per_call=1.0\r\n\
                    cmdstat_config|get:calls=3,usec=1\r\nother:calls=9,x\r\n";
        let calls = commands(text);
        assert_eq!(calls.get("exec"), Some(&21));
        assert_eq!((calls.get("config|get"), calls.len()), (Some(&3), 2));
    }
}
