//! The forgetful store, mounted.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a process starts: until it has become its own program it has all open files of this one, and then closes
/// them, which a store that tells of a loss once may tell.
static STARTING: Mutex<()> = Mutex::new(());

/// No process starts while the value lives.
#[allow(dead_code, reason = "not every test loses anything")]
pub(crate) fn nothing_starts() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mounted store, which goes with the value.
pub(crate) struct Mounted {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Mounted {
    pub(crate) fn on(directory: &Path, lacking: &[String]) -> Mounted {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forgetful"));
        command.arg(directory).args(lacking).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = {
            let _alone = nothing_starts();
            command.spawn().expect("started")
        };
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut mounted = Mounted { child, output };
        assert_eq!(mounted.answer(), "ready 0");
        mounted
    }

    /// Loses what is not durable of the files that are open to be written.
    #[allow(dead_code, reason = "not every test loses anything")]
    pub(crate) fn lose(&mut self) {
        self.tell("lose");
    }

    /// The same, told once by each that was open.
    #[allow(dead_code, reason = "not every test loses anything")]
    pub(crate) fn lose_once(&mut self) {
        self.tell("lose once");
    }

    #[allow(dead_code, reason = "not every test loses anything")]
    fn tell(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{word}").expect("told");
        assert!(self.answer().starts_with("ready "));
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it says when it is ready");
        line.trim().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
