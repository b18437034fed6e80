//! What is done to an export: fio's jobs, `dd`, and a file that is copied.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::Server;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

const LIMIT: Duration = Duration::from_secs(300);

/// Where a job finds its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Through libnbd.
    Nbd,
    /// Through the page cache.
    File,
    /// Past the page cache, asynchronously.
    Direct,
}

/// A job for fio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) key: &'static str,
    pub(super) access: Access,
    /// As fio names it.
    pub(super) pattern: &'static str,
    pub(super) block: u32,
    pub(super) depth: u32,
}

/// What was moved, how long it took, and what the server used of the CPUs meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Sample {
    pub(super) fn rate(&self) -> f64 {
        self.bytes / self.seconds
    }

    /// CPU seconds of the server for each GiB.
    pub(super) fn cpu_per_gib(&self) -> f64 {
        self.cpu_seconds / self.bytes * f64::from(1 << 30)
    }
}

/// Adds the server's CPU time to what `timed` says of bytes and seconds.
pub(super) fn with_cpu(server: &Server, timed: impl FnOnce() -> Result<(f64, f64)>) -> Result<Sample> {
    let before = server.cpu_seconds()?;
    let (bytes, seconds) = timed()?;
    ensure!(bytes > 0.0 && seconds > 0.0, "nothing was moved");
    Ok(Sample { bytes, seconds, cpu_seconds: server.cpu_seconds()? - before })
}

impl Job {
    /// Sequential jobs go through `bytes` once, others last for `cell`.
    pub(super) fn run(&self, server: &Server, place: &Path, bytes: u64, cell: Duration) -> Result<Sample> {
        let mut command = Command::new("fio");
        command.args(["--name=job", "--output-format=json", "--thread", "--randrepeat=0", "--norandommap"]);
        command.arg(format!("--rw={}", self.pattern)).arg(format!("--bs={}", self.block));
        command.arg(format!("--iodepth={}", self.depth)).arg(format!("--size={bytes}"));
        match self.access {
            Access::Nbd => {
                command.arg("--ioengine=nbd").arg(format!("--uri=nbd+unix:///?socket={}", place.display()))
            }
            Access::File => command.arg("--ioengine=psync").arg(format!("--filename={}", place.display())),
            Access::Direct => command
                .args(["--ioengine=libaio", "--direct=1"])
                .arg(format!("--filename={}", place.display())),
        };
        if self.pattern.starts_with("rand") {
            command.args(["--time_based=1", "--rwmixread=75"]);
            command.arg(format!("--runtime={}ms", cell.as_millis()));
        } else if self.access == Access::File && self.pattern == "write" {
            command.arg("--end_fsync=1");
        }
        with_cpu(server, || parse(&command::output(&mut command, LIMIT)?))
    }
}

/// Bytes and seconds of a report; reading and writing of a mix happen side by side.
fn parse(report: &str) -> Result<(f64, f64)> {
    let start = report.find('{').unwrap_or(0);
    let report: Value = serde_json::from_str(&report[start..]).context("fio's report")?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio failed with error {}", job["error"]);
    let number = |direction: &str, key: &str| job[direction][key].as_f64().unwrap_or(0.0);
    let bytes = number("read", "io_bytes") + number("write", "io_bytes");
    let milliseconds = number("read", "runtime").max(number("write", "runtime"));
    Ok((bytes, milliseconds / 1000.0))
}

/// `dd` from a file in memory, timed with its start.
pub(super) fn dd(server: &Server, source: &Path, to: &Path, sync: bool) -> Result<Sample> {
    let bytes = fs::metadata(source)?.len();
    with_cpu(server, || {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", source.display())).arg(format!("of={}", to.display()));
        command.args(["bs=64k", if sync { "conv=notrunc,fsync" } else { "conv=notrunc" }]);
        let began = Instant::now();
        command::output(&mut command, LIMIT)?;
        Ok((bytes as f64, began.elapsed().as_secs_f64()))
    })
}

/// A new file written from one in memory and synced, in pieces of 128 KiB.
pub(super) fn copy(server: &Server, source: &Path, to: &Path) -> Result<Sample> {
    with_cpu(server, || {
        let began = Instant::now();
        let (mut from, mut file) = (File::open(source)?, File::create(to)?);
        let mut piece = vec![0; 128 << 10];
        let mut bytes = 0;
        loop {
            match from.read(&mut piece)? {
                0 => break,
                count => {
                    file.write_all(&piece[..count])?;
                    bytes += count;
                }
            }
        }
        file.sync_all()?;
        Ok((bytes as f64, began.elapsed().as_secs_f64()))
    })
}

/// Fills an NBD export with `data`, and compares what it answers then: no figure is for wrong bytes.
pub(super) fn fill(server: &Server, data: &Path) -> Result {
    let uri = format!("nbd+unix:///?socket={}", server.place.display());
    let nbdcopy = |from: &str, to: &str| {
        command::output(Command::new("nbdcopy").arg("--flush").arg(from).arg(to), LIMIT).map(drop)
    };
    let back = data.with_extension("back");
    let (source, target) = (data.display().to_string(), back.display().to_string());
    nbdcopy(&source, &uri)?;
    nbdcopy(&uri, &target)?;
    let written = fs::read(data)?;
    let found = fs::read(&back)?;
    fs::remove_file(&back)?;
    if found.get(..written.len()) == Some(&written[..]) {
        Ok(())
    } else {
        Err(Failure::new("an export does not answer what was written to it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let report = r#"note
            {"jobs":[{"error":0,"read":{"io_bytes":3000,"runtime":500},"write":{"io_bytes":1000,"runtime":400}}]}"#;
        assert_eq!(parse(report).expect("a report"), (4000.0, 0.5));
        assert!(parse(r#"{"jobs":[{"error":5}]}"#).is_err());
    }
}
