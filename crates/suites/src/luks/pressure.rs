//! Swap on a server of ours on its own host, under memory pressure.
//!
//! The pressure is bounded by a cgroup: a program in it needs more memory than the cgroup may have, so that the
//! kernel moves its pages to the swap area, and needs the server for each. A server that waited for memory, or
//! lost a page, would hang the program or give it wrong bytes. Where the server may declare itself an I/O
//! flusher (CAP_SYS_RESOURCE), it is held to the same cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use super::lab::Lab;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::random::Random;
use strongroom_harness::subject::connection::Connection;

/// What the cgroup may have beside the server's own memory.
const ROOM: u64 = 48 << 20;
/// What the program in it fills.
const FILLED_MIB: u64 = 160;
const SWAP: u64 = 256 << 20;
const LIMIT: Duration = Duration::from_secs(120);
const PAGE: usize = 4096;

#[derive(Args)]
pub struct PressureArgs {
    /// How much memory to fill, in MiB
    mib: u64,
}

/// Fills memory with bytes that depend on their place, and reads them back twice.
///
/// # Errors
/// Wrong bytes.
pub fn fill(arguments: &PressureArgs) -> Result {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    let content = |index: u64| {
        let mut page = vec![0; PAGE];
        Random::new(index).fill(&mut page);
        page
    };
    let count = arguments.mib * (1 << 20) / PAGE as u64;
    pages.extend((0..count).map(content));
    for round in 0..2 {
        for (index, page) in (0..).zip(&pages) {
            ensure!(*page == content(index), "page {index} came back changed in round {round}");
        }
    }
    Ok(())
}

/// A cgroup of the kernel's memory controller, of either version; gone when dropped.
struct Cgroup {
    directory: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Cgroup {
    /// None where this machine lets nobody make one.
    fn make(name: &str) -> Option<Self> {
        let (first, second) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let (parent, limit, usage) = match first.join("memory.limit_in_bytes").exists() {
            true => (first, "memory.limit_in_bytes", "memory.usage_in_bytes"),
            false => (second, "memory.max", "memory.current"),
        };
        let directory = parent.join(name);
        fs::create_dir(&directory).ok()?;
        let cgroup = Self { directory, limit, usage };
        cgroup.directory.join(limit).exists().then_some(cgroup)
    }

    fn usage(&self) -> Result<u64> {
        let text = fs::read_to_string(self.directory.join(self.usage)).context("reading a cgroup's usage")?;
        Ok(text.trim().parse()?)
    }

    fn limit(&self, bytes: u64) -> Result {
        fs::write(self.directory.join(self.limit), bytes.to_string()).context("limiting a cgroup")
    }

    /// A command that joins it before it becomes what it is to be.
    fn joining(&self, command: &Command) -> Command {
        let mut joining = Command::new("sh");
        joining.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.directory.join("cgroup.procs"));
        joining.arg(command.get_program()).args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            joining.current_dir(directory);
        }
        joining
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("a cgroup is left: {}", self.directory.display());
    }
}

/// What stands in /proc/self/status of capabilities: whether an I/O flusher may be declared.
fn may_be_flusher() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> CAP_SYS_RESOURCE & 1 == 1)
}

/// Pages that were written to swap areas since the machine started.
fn swapped_out() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("pswpout ")?.parse().ok()).unwrap_or(0)
}

/// Runs it; `Ok(false)` where this machine has no swap or no cgroups for it.
pub(super) fn run(lab: &Lab) -> Result<bool> {
    let Some(cgroup) = Cgroup::make(&format!("sr-pressure-{}", std::process::id())) else {
        println!("  this machine lets nobody make cgroups: not run");
        return Ok(false);
    };
    lab.sparse("swap", SWAP)?;
    fs::create_dir_all(lab.path("raw"))?;
    let line = "strongroom disk open swap --raw raw --yes --ephemeral";
    let within = may_be_flusher();
    match within {
        true => command::output(&mut cgroup.joining(&lab.command(line)), LIMIT).map(drop)?,
        false => {
            println!("  no CAP_SYS_RESOURCE, so no I/O flusher: the server stays outside of the cgroup");
            lab.run(line)?;
        }
    }
    let outcome = serve_swap(lab, &cgroup);
    if outcome.is_err()
        && let Ok(Some(connection)) = Connection::of(&lab.path("raw"))
    {
        // Whoever waits for the server gets an error.
        let _ = connection.abort();
    }
    let closed = lab.finish("strongroom disk close raw");
    let used = outcome?;
    ensure!(closed?.status.success(), "the swap disk could not be closed");
    Ok(used)
}

fn serve_swap(lab: &Lab, cgroup: &Cgroup) -> Result<bool> {
    let locked = locked_bytes(lab)?;
    ensure!(locked > 1 << 20, "the server has locked {locked} bytes of its memory");
    let device = lab.run("losetup --find --show --direct-io=on raw/volume")?.trim().to_owned();
    let outcome = on_device(lab, cgroup, &device);
    let off = lab.finish(&format!("swapoff {device}"));
    let detached = lab.run(&format!("losetup --detach {device}"));
    let used = outcome?;
    ensure!(!used || off?.status.success(), "swapoff failed");
    detached?;
    Ok(used)
}

fn on_device(lab: &Lab, cgroup: &Cgroup, device: &str) -> Result<bool> {
    lab.run(&format!("mkswap {device}"))?;
    let on = lab.finish(&format!("swapon {device}"))?;
    if !on.status.success() {
        println!("  swapon is not possible here: {}", on.output().trim());
        return Ok(false);
    }
    cgroup.limit(cgroup.usage()? + ROOM)?;
    let before = swapped_out();
    let mut fill = Command::new(std::env::current_exe()?);
    fill.args(["luks-pressure", &FILLED_MIB.to_string()]);
    command::output(&mut cgroup.joining(&fill), LIMIT).context("a program whose memory was swapped out")?;
    let pages = swapped_out() - before;
    ensure!(pages * PAGE as u64 > ROOM, "only {pages} pages were swapped out");
    // What the cgroup still has is moved or freed.
    cgroup.limit(1 << 40)?;
    Ok(true)
}

/// Memory that the server has locked (proc(5), status, VmLck).
fn locked_bytes(lab: &Lab) -> Result<u64> {
    let list: serde_json::Value = serde_json::from_str(&lab.run("strongroom disk list --json")?)?;
    let image = lab.path("swap");
    let disks = list["disks"].as_array().cloned().unwrap_or_default();
    let disk = disks.iter().find(|disk| disk["image"].as_str().map(Path::new) == Some(&image));
    let pid = disk.and_then(|disk| disk["pid"].as_u64()).ok_or_else(|| Failure::new("no server"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|text| text.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| Failure::new("the server's status has no VmLck"))
}
