//! CephFS: a cluster of one monitor, one object store and one metadata server, and Ceph's client for FUSE, all
//! of them programs that this machine runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::served::{Program, Served, directory, free_port, is_served};
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::{command, packages};

const LIMIT: Duration = Duration::from_secs(180);

pub(super) fn cephfs(base: &Path) -> Result<Served> {
    packages::need(&[
        ("ceph-mon", "ceph-mon"),
        ("ceph-osd", "ceph-osd"),
        ("ceph-mds", "ceph-mds"),
        ("ceph", "ceph-common"),
        ("ceph-fuse", "ceph-fuse"),
    ])?;
    let versions = command::output(Command::new("ceph").arg("--version"), LIMIT)?;
    let version = versions.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    let cluster = Cluster::configure(base)?;
    let monitor = cluster.monitor()?;
    let objects = cluster.objects()?;
    for pool in ["metadata", "data"] {
        cluster.ask(&["osd", "pool", "create", pool])?;
    }
    cluster.ask(&["fs", "new", "vaults", "metadata", "data"])?;
    let mut metadata = cluster.start("ceph-mds", &["-f", "--id", "a"])?;
    metadata.wait_until(|| Ok(cluster.ask(&["mds", "stat"])?.contains("up:active")))?;
    let mounted = directory(base, "mounted")?;
    let mut mount = cluster.command("ceph-fuse");
    // Access control lists are the client's to keep, as the kernel's client does unasked.
    mount.args(["-f", "--client_acl_type=posix_acl", "--fuse_default_permissions=false"]).arg(&mounted);
    let mount = Program::start(base, "ceph-fuse", &mut mount)?;
    Served::by(mounted, version, vec![monitor, objects, metadata, mount])
}

/// A cluster whose settings and data lie below a directory.
struct Cluster<'a> {
    base: &'a Path,
    id: String,
    port: u16,
}

impl<'a> Cluster<'a> {
    /// Writes the settings: nobody has to prove who they are, and each object is stored once.
    fn configure(base: &'a Path) -> Result<Self> {
        let cluster = Self { base, id: uuid()?, port: free_port()? };
        for name in ["mon", "osd", "mds", "run"] {
            directory(base, name)?;
        }
        let at = |name: &str| base.join(name).display().to_string();
        let settings = format!(
            "[global]\nfsid = {}\nmon host = {}\npublic addr = 127.0.0.1\ncluster addr = 127.0.0.1\n\
             auth cluster required = none\nauth service required = none\nauth client required = none\n\
             mon data = {}\nosd data = {}\nmds data = {}\nkeyring = {}\ncrash dir = {}\nrun dir = {}\n\
             admin socket = {}/$name.asok\nlog file = {}/$name.log\nmon cluster log file = {}\n\
             osd pool default size = 1\nosd pool default min size = 1\nosd pool default pg num = 8\n\
             osd pool default pg autoscale mode = off\nosd crush chooseleaf type = 0\n\
             mon allow pool size one = true\nbluestore block size = {}\n",
            cluster.id,
            cluster.address(),
            at("mon"),
            at("osd"),
            at("mds"),
            at("keyring"),
            at("crash"),
            at("run"),
            at("run"),
            at("run"),
            at("cluster.log"),
            4_u64 << 30,
        );
        fs::write(base.join("ceph.conf"), settings).context("settings of Ceph")?;
        Ok(cluster)
    }

    /// Where the monitor is, in the protocol's second version.
    fn address(&self) -> String {
        format!("v2:127.0.0.1:{}", self.port)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--conf").arg(self.base.join("ceph.conf"));
        command
    }

    fn start(&self, program: &str, arguments: &[&str]) -> Result<Program> {
        Program::start(self.base, program, self.command(program).args(arguments))
    }

    /// Asks the monitor, and waits for its answer.
    fn ask(&self, words: &[&str]) -> Result<String> {
        command::output(self.command("ceph").args(["--connect-timeout", "60"]).args(words), LIMIT)
    }

    fn monitor(&self) -> Result<Program> {
        let map = self.base.join("monmap");
        let mut make = Command::new("monmaptool");
        make.args(["--create", "--fsid", &self.id, "--addv", "a", &format!("[{}]", self.address())])
            .arg(&map);
        command::output(&mut make, LIMIT)?;
        command::output(self.command("ceph-mon").args(["--mkfs", "--id", "a", "--monmap"]).arg(&map), LIMIT)?;
        let mut monitor = self.start("ceph-mon", &["-f", "--id", "a"])?;
        monitor.wait_until(|| Ok(is_served(self.port)))?;
        Ok(monitor)
    }

    fn objects(&self) -> Result<Program> {
        let id = uuid()?;
        self.ask(&["osd", "new", &id])?;
        let mut make = self.command("ceph-osd");
        command::output(make.args(["--mkfs", "--id", "0", "--osd-uuid", &id]), LIMIT)?;
        self.start("ceph-osd", &["-f", "--id", "0"])
    }
}

/// A new one, of the kernel.
fn uuid() -> Result<String> {
    let source = "/proc/sys/kernel/random/uuid";
    Ok(fs::read_to_string(source).context(source)?.trim().to_owned())
}
