//! What `doctor` says of a store, and the life of a vault on it.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags, linkat, renameat_with};
use rustix::io::Errno;
use serde_json::Value;

use super::tree::Tree;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::Subject;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;

const DOCTOR_LIMIT: Duration = Duration::from_secs(5 * 60);
const MOUNT_LIMIT: Duration = Duration::from_secs(10 * 60);
const CHECK_LIMIT: Duration = Duration::from_secs(5 * 60);
const XATTR: &str = "user.stores";

/// What `doctor` has said.
pub(super) struct Diagnosis {
    pub(super) suitable: bool,
    /// As the system calls it.
    pub(super) file_system: String,
    items: Vec<Value>,
}

impl Diagnosis {
    pub(super) fn keeps(&self, ability: &str) -> bool {
        self.items.iter().any(|item| item["name"] == ability && item["kept"] == true)
    }

    fn names(&self, verdict: &str) -> String {
        let names = self.items.iter().filter(|item| item["verdict"] == verdict);
        names.filter_map(|item| item["name"].as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, without) = (self.names("missing"), self.names("advice"));
        match (missing.is_empty(), without.is_empty()) {
            (true, true) => formatter.write_str("a vault lives there and lacks nothing"),
            (true, false) => write!(formatter, "a vault lives there, without {without}"),
            (false, _) => write!(formatter, "refused for {missing}"),
        }
    }
}

/// Asks `doctor` for a store.
///
/// # Errors
/// Its exit code, its document and what it leaves do not fit together.
pub(super) fn diagnose(subject: &Subject, store: &Path) -> Result<Diagnosis> {
    let Subject::Strongroom { binary, .. } = subject else {
        return Err(Failure::new("only strongroom has a doctor"));
    };
    let mut doctor = Command::new(binary);
    doctor.args(["doctor", "--json"]).arg(store);
    let finished = command::finish(&mut doctor, DOCTOR_LIMIT)?;
    let document: Value = serde_json::from_str(&finished.stdout).context(finished.output())?;
    let suitable = document["suitable"] == true;
    let expected = if suitable { 0 } else { 6 };
    ensure!(finished.code() == expected, "doctor ended with {}: {}", finished.code(), finished.output());
    ensure!(document["left"].is_null(), "doctor left {}", document["left"]);
    let items = document["items"].as_array().cloned().unwrap_or_default();
    ensure!(!items.is_empty(), "doctor has tried nothing");
    let file_system = document["file_system"].as_str().unwrap_or("unknown").to_owned();
    Ok(Diagnosis { suitable, file_system, items })
}

/// A vault is made, mounted, filled, changed, killed, mounted again and checked.
pub(super) fn live(subject: &Subject, base: &Path, store: &Path, found: &Diagnosis) -> Result {
    let vault = Vault::create_over(subject, base, store).context("init")?;
    let mount = vault.mount(MountOptions::new(MOUNT_LIMIT))?;
    let top = mount.path().to_path_buf();
    let mut tree = Tree::write(&top)?;
    tree.compare(&top).context("as written")?;
    tree.change(&top)?;
    names(&mut tree, &top, found)?;
    tree.compare(&top).context("as changed")?;
    subject.sync(&top, MOUNT_LIMIT)?;
    removals(subject, &top)?;
    let mut mount = mount.crash_and_mount().context("killed")?;
    tree.compare(&top).context("after a kill")?;
    tree.put(&top, Path::new("a/later"), vec![3; 50_000])?;
    mount.remount()?;
    tree.compare(&top).context("mounted again")?;
    mount.unmount()?;
    ensure!(vault.check(CHECK_LIMIT)?, "nothing was checked");
    Ok(())
}

/// No vault is made where none can live, nothing is left there, and it is said why.
pub(super) fn refused(subject: &Subject, base: &Path, store: &Path, lacks: &[&str]) -> Result {
    let Subject::Strongroom { binary, .. } = subject else { return Ok(()) };
    let (vault, password) = (store.join("vault"), base.join("password"));
    fs::write(&password, "five random words of no use\n")?;
    let mut init = Command::new(binary);
    init.arg("init").arg(&vault).args(["--recovery-out", "none", "--password-file"]).arg(&password);
    let finished = command::finish(&mut init, DOCTOR_LIMIT)?;
    ensure!(finished.code() == 6, "init ended with {}: {}", finished.code(), finished.output());
    let is_named = lacks.iter().any(|ability| finished.output().contains(ability));
    ensure!(is_named && !vault.exists(), "init left something or says otherwise: {}", finished.output());
    Ok(())
}

/// What not every store offers works, or is refused by its name.
fn names(tree: &mut Tree, top: &Path, found: &Diagnosis) -> Result {
    let [one, other, link, named] =
        ["a/one", "a/other", "a/link", "a/named"].map(|path| Path::new(path).to_path_buf());
    tree.put(top, &one, b"one".to_vec())?;
    tree.put(top, &other, b"other".to_vec())?;
    let linked = linkat(CWD, top.join(&one), CWD, top.join(&link), AtFlags::empty());
    if fits("hard-links", linked, Errno::OPNOTSUPP, found)? {
        let inode = |path: &Path| fs::metadata(top.join(path)).map(|found| (found.ino(), found.nlink()));
        ensure!(inode(&one)? == inode(&link)? && inode(&one)?.1 == 2, "a link is no link");
        tree.linked(&one, &link);
    }
    let exchanged = renameat_with(CWD, top.join(&one), CWD, top.join(&other), RenameFlags::EXCHANGE);
    if fits("exchange", exchanged, Errno::INVAL, found)? {
        tree.exchanged(&one, &other);
    }
    let set = rustix::fs::setxattr(top.join(&other), XATTR, b"value", XattrFlags::empty());
    if fits("xattrs", set, Errno::OPNOTSUPP, found)? {
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(top.join(&other), XATTR, &mut value).context("getxattr")?;
        ensure!(&value[..len] == b"value", "an extended attribute is another one");
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(top.join("a"), flags, Mode::RUSR | Mode::WUSR);
    let unnamed = opened.as_ref().map(|_| ()).map_err(|errno| *errno);
    if fits("unnamed-files", unnamed, Errno::OPNOTSUPP, found)? {
        let mut file = File::from(opened?);
        file.write_all(b"unnamed")?;
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, from, CWD, top.join(&named), AtFlags::SYMLINK_FOLLOW).context("naming a file")?;
        drop(file);
        ensure!(fs::read(top.join(&named))? == b"unnamed", "a file that was named is another one");
        tree.put(top, &named, b"unnamed".to_vec())?;
    }
    Ok(())
}

/// Whether something worked, as `doctor` has said that it would, or was refused by the name that it should.
fn fits(ability: &str, done: rustix::io::Result<()>, refusal: Errno, found: &Diagnosis) -> Result<bool> {
    match (done, found.keeps(ability)) {
        (Ok(()), true) => Ok(true),
        (Err(errno), false) if errno == refusal => Ok(false),
        (done, kept) => {
            Err(Failure::new(format!("{ability}: the store keeps it: {kept}, the mount: {done:?}")))
        }
    }
}

/// What was removed or replaced, synced or not, open or not, keeps nobody from anything: neither a barrier, nor
/// whoever removes the directory that it was in. Who has it open goes on using it.
fn removals(subject: &Subject, top: &Path) -> Result {
    let [tree, file, other] =
        ["passing", "passing/below/file", "passing/below/other"].map(|path| top.join(path));
    for (is_synced, is_open) in [(true, false), (false, false), (true, true), (false, true)] {
        let what = format!("a file (synced: {is_synced}, open: {is_open})");
        fs::create_dir_all(top.join("passing/below"))?;
        for path in [&file, &other] {
            fs::write(path, [5; 9_000])?;
        }
        if is_synced {
            subject.sync(top, MOUNT_LIMIT)?;
        }
        let open = |path| File::options().read(true).write(true).open(path);
        let opened = if is_open { vec![open(&file)?, open(&other)?] } else { vec![] };
        fs::rename(&other, &file).context(format_args!("replacing {what}"))?;
        fs::remove_dir_all(&tree).context(format_args!("removing {what} with its directory"))?;
        subject.sync(top, MOUNT_LIMIT).context(format_args!("after the removal of {what}"))?;
        for file in opened {
            ensure!(file.metadata()?.nlink() == 0, "{what} is removed and has a name");
            file.write_all_at(&[6; 100], 8_950)?;
            file.sync_all().context(format_args!("fsync of {what} that is removed"))?;
            let mut bytes = [0; 9_050];
            file.read_exact_at(&mut bytes, 0)?;
            ensure!(
                bytes[..8_950] == [5; 8_950] && bytes[8_950..] == [6; 100],
                "{what} is another one once it is removed"
            );
        }
    }
    let state = status(subject, top)?;
    ensure!(
        state["store"]["failed_requests"] == 0,
        "status takes a removal for a failure: {}",
        state["store"]
    );
    let damaged = &state["errors"]["damaged"];
    ensure!(damaged.as_array().is_some_and(Vec::is_empty), "status takes a removal for damage: {damaged}");
    Ok(())
}

/// What `status` says of the mount.
fn status(subject: &Subject, top: &Path) -> Result<Value> {
    let Subject::Strongroom { binary, .. } = subject else {
        return Err(Failure::new("only strongroom has a status"));
    };
    let told = command::output(Command::new(binary).args(["status", "--json"]).arg(top), MOUNT_LIMIT)?;
    let document: Value = serde_json::from_str(&told).context("status")?;
    Ok(document["mounts"][0].clone())
}
