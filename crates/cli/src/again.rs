//! This program once more, as a child process.
//!
//! An emulator of user programs may run this process (`qemu-aarch64 strongroom
//! ...`), while the kernel does not know how to run the program's file. Then the
//! child is started as this process was: by the emulator, with its options.
//! Emulators answer `/proc/self` themselves, as if they were not there, and
//! leave `/proc/thread-self` as the kernel tells it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Starts it with `words`, under the name that this process has, and as
/// `prepare` arranges it.
///
/// # Errors
/// What the system reports.
pub(crate) fn spawn(words: &[OsString], prepare: impl FnOnce(&mut Command)) -> io::Result<Child> {
    let own: Vec<OsString> = std::env::args_os().collect();
    let name = own.first().cloned().unwrap_or_else(|| OsString::from("strongroom"));
    let mut command = match Emulator::of_this_process(own.len()) {
        Some(emulator) => emulator.command(&name),
        None => {
            let mut command = Command::new(program());
            command.arg0(&name);
            command
        }
    };
    command.args(words);
    prepare(&mut command);
    command.spawn()
}

/// This program's file, or where that has been replaced since, the kernel's
/// link to what it was.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| "/proc/self/exe".into())
}

/// What runs this process in the kernel's place.
struct Emulator {
    file: PathBuf,
    /// Its name and options.
    words: Vec<OsString>,
}

impl Emulator {
    /// The one that runs this process, which has `count` words of its own. None
    /// where its file cannot be seen: then the kernel has started it, which runs
    /// such programs by itself.
    fn of_this_process(count: usize) -> Option<Emulator> {
        let link = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).ok();
        let file = link("thread-self")?;
        if link("self")? == file || !file.is_file() {
            return None;
        }
        let line = std::fs::read("/proc/thread-self/cmdline").ok()?;
        let mut words = before(&line, count)?;
        // A kernel that starts the emulator names the file besides, if it is to
        // keep the name.
        let own_file = program().canonicalize().ok();
        if words.len() == 2 && own_file.is_some() && std::fs::canonicalize(&words[1]).ok() == own_file {
            words.pop();
        }
        Some(Emulator { file, words })
    }

    /// The emulator, told to run this program, under `name` where that is its
    /// file.
    fn command(&self, name: &OsStr) -> Command {
        let mut command = Command::new(&self.file);
        if let Some((own, options)) = self.words.split_first() {
            command.arg0(own).args(options);
        }
        let named = PathBuf::from(name);
        let is_this =
            named.canonicalize().ok().is_some_and(|file| program().canonicalize().ok() == Some(file));
        command.arg(if is_this { named } else { program() });
        command
    }
}

/// The words of a command line, as the kernel shows it, before its last `count`.
fn before(line: &[u8], count: usize) -> Option<Vec<OsString>> {
    let line = line.strip_suffix(b"\0")?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let kept = words.len().checked_sub(count).filter(|kept| *kept > 0)?;
    Some(words[..kept].iter().map(|word| OsString::from_vec(word.to_vec())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_s_words_stand_before_those_of_its_program() {
        let line = b"qemu-aarch64\0-cpu\0max\0./strongroom\0mount\0\0";
        let words = |count| before(line, count);
        assert_eq!(words(3).as_deref(), Some(&["qemu-aarch64", "-cpu", "max"].map(OsString::from)[..]));
        assert_eq!(words(5).map(|words| words.len()), Some(1));
        assert_eq!(words(6), None, "nothing would run it");
        assert_eq!(words(7), None);
        assert_eq!(before(b"", 0), None);
        assert_eq!(before(b"cut off", 0), None);
    }
}
