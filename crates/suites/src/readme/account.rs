//! Who types, and where: a home of its own with the files that the README speaks of.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::packages;

const LIMIT: Duration = Duration::from_secs(60);
/// How long an ended daemon may take to disappear.
const END_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Below it lie homes, as nearly everywhere.
const HOMES: &str = "/home";

/// Makes the homes stand where homes do, `/dev/fuse` open to all and its control file system mounted as they are on
/// most systems, in a name space of its own for mounts: nothing outside changes, and what is mounted goes with its last process. Then becomes the user.
const ENTER: &str = r#"
set -e
homes=$1 uid=$2 gid=$3 home=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$homes/dev"
mknod -m 666 "$homes/dev/fuse" c 10 229
mount --bind "$homes/dev/fuse" /dev/fuse
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl none /sys/fs/fuse/connections || true
mount --bind "$homes" /home
cd "$home"
if [ "$uid" = 0 ]; then exec "$@"; fi
exec setpriv --reuid="$uid" --regid="$gid" --clear-groups -- "$@"
"#;

/// A user, with a home.
pub(super) struct Account {
    pub(super) name: String,
    uid: u32,
    gid: u32,
    /// Homes of this session, which nobody else has.
    homes: PathBuf,
    /// As the user sees it.
    home: PathBuf,
    /// It is entered as [`ENTER`] says; else the process is the user already.
    is_entered: bool,
}

impl Account {
    /// Those that there are: root and an ordinary user, or who runs this.
    pub(super) fn names() -> Result<Vec<String>> {
        if packages::is_root() {
            return Ok(vec!["root".to_owned(), "nobody".to_owned()]);
        }
        Ok(vec![id("-un", None)?])
    }

    /// Makes a home below `scratch`, with the program and the files that are spoken of.
    pub(super) fn make(name: &str, scratch: &Path, program: &Path) -> Result<Self> {
        let (uid, gid) = (id("-u", Some(name))?.parse()?, id("-g", Some(name))?.parse()?);
        let homes = scratch.to_path_buf();
        let is_entered = packages::is_root();
        let home = if is_entered { Path::new(HOMES).join(name) } else { homes.join(name) };
        let account = Self { name: name.to_owned(), uid, gid, homes, home, is_entered };
        for (directory, mode) in [("dev", 0o755), ("bin", 0o755), (name, 0o700)] {
            let path = account.homes.join(directory);
            fs::create_dir(&path).context(path.display())?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        let copy = account.homes.join("bin/strongroom");
        fs::copy(program, &copy).context(program.display())?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        account.furnish()?;
        Ok(account)
    }

    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// The files that the README's lines name.
    fn furnish(&self) -> Result {
        let home = self.homes.join(&self.name);
        let documents = home.join("Documents");
        fs::create_dir_all(documents.join("letters"))?;
        fs::write(documents.join("letters/to-ada.txt"), "The key lies under the third stone.\n".repeat(400))?;
        // So that there is something to draw bars of.
        let picture: Vec<u8> =
            (0..12 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(documents.join("picture.raw"), picture)?;
        symlink("letters/to-ada.txt", documents.join("last"))?;
        fs::write(home.join("letter.pdf"), "%PDF-1.7 not really\n".repeat(2000))?;
        if self.is_entered {
            let mut all = vec![home];
            while let Some(path) = all.pop() {
                lchown(&path, Some(self.uid), Some(self.gid))?;
                if path.is_dir() && !path.is_symlink() {
                    let inside = fs::read_dir(&path)?.map(|entry| Ok(entry?.path()));
                    all.extend(inside.collect::<Result<Vec<_>>>()?);
                }
            }
        }
        Ok(())
    }

    /// What becomes this user's interactive shell: in a home, with what a login sets and nothing else.
    pub(super) fn shell(&self, locale: &str) -> Command {
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]);
        let bin = if self.is_entered { Path::new(HOMES).join("bin") } else { self.homes.join("bin") };
        if self.is_entered {
            command.args(["unshare", "--mount", "--propagation=private", "--", "sh", "-c", ENTER, "enter"]);
            command.arg(&self.homes).args([self.uid.to_string(), self.gid.to_string()]).arg(&self.home);
        } else {
            command.current_dir(&self.home);
        }
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command.args(["sh", "-i"]).env_clear();
        command.env("PATH", format!("{}:{path}", bin.display())).env("HOME", &self.home);
        command.env("USER", &self.name).env("LOGNAME", &self.name).env("SHELL", "/bin/sh");
        command.env("TERM", "xterm").env("LANG", locale);
        // What root's lines find out is not kept for this machine.
        command.env("XDG_STATE_HOME", self.home.join(".local/state"));
        command.env("STRONGROOM_TUNE_SECONDS", "8");
        command
    }
}

impl Drop for Account {
    /// Ends the daemons that were left behind, one by one: they run the program that lies in this home.
    fn drop(&mut self) {
        let program = self.homes.join("bin/strongroom");
        for signal in [Signal::TERM, Signal::KILL] {
            let until = Instant::now() + END_LIMIT;
            for pid in left_behind(&program) {
                // It may have ended by itself.
                let _ = kill_process(pid, signal);
            }
            while !left_behind(&program).is_empty() && Instant::now() < until {
                std::thread::sleep(POLL);
            }
        }
    }
}

/// Processes that run this very file, whatever they call it.
fn left_behind(program: &Path) -> Vec<Pid> {
    let Ok(own) = fs::metadata(program) else { return Vec::new() };
    let is_own = |pid: &i32| {
        fs::metadata(format!("/proc/{pid}/exe"))
            .is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_own).filter_map(Pid::from_raw).collect()
}

fn id(option: &str, name: Option<&str>) -> Result<String> {
    let mut command = Command::new("id");
    command.arg(option).args(name);
    Ok(command::output(&mut command, LIMIT)?.trim().to_owned())
}
