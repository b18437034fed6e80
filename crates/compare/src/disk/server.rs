//! What serves an image: our exports, and others' programs beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cpu::cpu_seconds;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages::{find, version_line};

const LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(20);

/// The passphrase of every image.
const PASSPHRASE: &str = "correct horse";

/// What is run.
pub(super) struct Programs {
    pub(super) strongroom: PathBuf,
    pub(super) memory: PathBuf,
    pub(super) raw: PathBuf,
}

impl Programs {
    pub(super) fn versions(&self) -> Result<Vec<String>> {
        let mut lines = vec![version_line(self.strongroom.as_os_str(), "--version")?];
        for program in ["qemu-nbd", "nbdkit", "fio"] {
            let path = find(program).ok_or_else(|| Failure::new(format!("there is no {program}")))?;
            lines.push(version_line(path.as_os_str(), "--version")?);
        }
        Ok(lines)
    }

    /// Makes a LUKS1 image that qemu-nbd and nbdkit open too.
    pub(super) fn luks1(&self, directory: &Path, name: &str, cipher: &str, bytes: u64) -> Result {
        fs::write(directory.join("passphrase"), PASSPHRASE)?;
        // The header and the key slots of LUKS1 have less than 4 MiB.
        let size = format!("{}", bytes + (4 << 20));
        let mut command = Command::new(&self.strongroom);
        command.current_dir(directory).args(["disk", "format", name, "--size", &size, "--type", "luks1"]);
        command.args(["--cipher", cipher, "--key-size", "512", "--kdf-time", "1000", "--yes"]);
        command::output(command.args(["--password-file", "passphrase"]), LIMIT).map(drop)
    }
}

/// How a server is ended.
enum End {
    /// By our command, for this image.
    Close(PathBuf, PathBuf),
    Unmount(PathBuf),
    Terminate,
}

/// A server that runs, and where it serves.
pub(super) struct Server {
    child: Child,
    end: Option<End>,
    /// A socket, or a file.
    pub(super) place: PathBuf,
}

impl Server {
    /// Our NBD server or raw file on an image, with more options of `disk open`.
    pub(super) fn ours(
        programs: &Programs,
        image: &Path,
        export: (&str, &Path),
        options: &[&str],
    ) -> Result<Self> {
        let (kind, place) = export;
        let directory = image.parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(&programs.strongroom);
        command.current_dir(directory).args(["disk", "open", "--foreground"]).arg(image).args(options);
        command.arg(format!("--{kind}")).arg(place);
        let place = match kind {
            "raw" => place.join("volume"),
            _ => place.to_path_buf(),
        };
        let end = End::Close(programs.strongroom.clone(), image.to_path_buf());
        Self::start(&mut command, end, place)
    }

    /// The same with the passphrase of [`Programs::luks1`].
    pub(super) fn of_luks(programs: &Programs, image: &Path, export: (&str, &Path)) -> Result<Self> {
        Self::ours(programs, image, export, &["--password-file", "passphrase"])
    }

    /// The raw file's FUSE layer over an unencrypted image.
    pub(super) fn clear(programs: &Programs, image: &Path, directory: &Path) -> Result<Self> {
        let mut command = Command::new(&programs.raw);
        command.arg(image).arg(directory);
        Self::start(&mut command, End::Unmount(directory.to_path_buf()), directory.join("volume"))
    }

    /// qemu-nbd on a LUKS1 image.
    pub(super) fn qemu(image: &Path, socket: &Path) -> Result<Self> {
        let mut command = Command::new("qemu-nbd");
        command.current_dir(image.parent().unwrap_or(Path::new("/")));
        command.args([
            "--persistent",
            "--shared=8",
            "--object",
            "secret,id=s,file=passphrase",
            "--image-opts",
        ]);
        command.arg(format!("driver=luks,key-secret=s,file.driver=file,file.filename={}", image.display()));
        command.arg("--socket").arg(socket);
        Self::start(&mut command, End::Terminate, socket.to_path_buf())
    }

    /// nbdkit with its luks filter.
    pub(super) fn nbdkit(image: &Path, socket: &Path) -> Result<Self> {
        let mut command = Command::new("nbdkit");
        command.current_dir(image.parent().unwrap_or(Path::new("/")));
        command.args(["--foreground", "--filter=luks", "file"]).arg(image).arg("passphrase=+passphrase");
        command.arg("--unix").arg(socket);
        Self::start(&mut command, End::Terminate, socket.to_path_buf())
    }

    fn start(command: &mut Command, end: End, place: PathBuf) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command::spawn(command)?;
        let until = Instant::now() + START_LIMIT;
        while !place.exists() {
            let is_over = child.try_wait()?.is_some() || Instant::now() > until;
            if is_over {
                command::end(&mut child);
                return Err(Failure::new(format!("`{}` does not serve", command::shown(command))));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { child, end: Some(end), place })
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// What it has used of the CPUs since it began.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid())
    }

    /// Ends it in good order.
    pub(super) fn stop(mut self) -> Result {
        let end = self.end.take();
        let asked = self.ask(end);
        let ended = command::wait(&mut self.child, LIMIT).context("a server that was to end")?;
        asked?;
        ensure!(ended.success() || ended.code().is_none(), "a server ended with {ended}");
        Ok(())
    }

    fn ask(&self, end: Option<End>) -> Result {
        match end {
            Some(End::Close(program, image)) => {
                let mut command = Command::new(program);
                command::output(command.args(["disk", "close"]).arg(image), LIMIT).map(drop)
            }
            Some(End::Unmount(directory)) => {
                command::output(Command::new("umount").arg(directory), LIMIT).map(drop)
            }
            _ => Ok(self.pid().map_or(Ok(()), |pid| kill_process(pid, Signal::TERM))?),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            if matches!(end, End::Unmount(_)) || self.ask(Some(end)).is_err() {
                let directory = self.place.parent().unwrap_or(Path::new("/"));
                let _ = command::finish(Command::new("umount").arg("--lazy").arg(directory), LIMIT);
            }
            command::end(&mut self.child);
        }
    }
}
