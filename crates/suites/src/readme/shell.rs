//! A shell in a terminal of its own, typed into as a person does: what is asked has to be on the screen first.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::screen::squeezed;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

/// The lines of a terminal, as most have them.
const ROWS: u16 = 24;
/// How long an ended shell may take to disappear.
const REAP_LIMIT: Duration = Duration::from_secs(10);
/// How often an ended shell is looked for.
const POLL: Duration = Duration::from_millis(20);

/// The prompt: it tells how the last command ended.
const PROMPT: &str = "sr<$?>$ ";
/// What every prompt begins with.
pub(super) const PROMPT_BEGIN: &str = "sr<";

/// What a command wrote, and how it ended.
pub(super) struct Ended {
    pub(super) code: i32,
    /// The prompt behind which it was typed.
    pub(super) prompt: String,
    /// All that went to the terminal since the line was typed, the next prompt included.
    pub(super) written: Vec<u8>,
}

/// What is waited for.
pub(super) enum Seen {
    /// The text is on the screen.
    Text,
    /// The command has ended before it was.
    Ended(Ended),
}

/// A shell, and the terminal that it runs in.
pub(super) struct Shell {
    terminal: File,
    child: Child,
    pub(super) columns: u16,
    /// The prompt behind which the line was typed.
    prompt: String,
    /// Written since then.
    written: Vec<u8>,
    /// So much of it stood there when something was answered.
    answered: usize,
}

impl Shell {
    /// Starts `command`, which has to become an interactive shell, with the terminal as all that it has open.
    pub(super) fn start(command: &mut Command, columns: u16, limit: Duration) -> Result<Self> {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        let name = ptsname(&terminal, Vec::new())?;
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size)?;
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let inside = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty())?;
        let side = || -> Result<Stdio> { Ok(inside.try_clone()?.into()) };
        command.stdin(side()?).stdout(side()?).stderr(side()?).env("PS1", PROMPT);
        let child = command.spawn().context("the shell")?;
        let (terminal, prompt) = (File::from(terminal), String::new());
        let mut shell = Self { terminal, child, columns, prompt, written: Vec::new(), answered: 0 };
        shell.ended(limit)?;
        Ok(shell)
    }

    /// Types a line for the shell.
    pub(super) fn enter(&mut self, line: &str) -> Result {
        self.written.clear();
        self.answered = 0;
        self.keys(&format!("{line}\n"))
    }

    /// Presses keys.
    pub(super) fn keys(&mut self, keys: &str) -> Result {
        self.answered = self.written.len();
        self.terminal.write_all(keys.as_bytes()).context("typing")
    }

    /// Waits until a text is shown that was not there when something was typed last, or the command ends.
    ///
    /// # Errors
    /// Neither happens in time.
    pub(super) fn wait_for(&mut self, text: &str, limit: Duration) -> Result<Seen> {
        let until = Instant::now() + limit;
        loop {
            let shown = String::from_utf8_lossy(&self.written[self.answered..]).into_owned();
            if squeezed(&shown).contains(&squeezed(text)) {
                return Ok(Seen::Text);
            }
            if let Some(code) = code(&self.written) {
                return Ok(Seen::Ended(self.end(code)));
            }
            self.read(until).context(format_args!("waiting for `{text}`"))?;
        }
    }

    /// Waits until the command has ended.
    ///
    /// # Errors
    /// It does not in time.
    pub(super) fn ended(&mut self, limit: Duration) -> Result<Ended> {
        let until = Instant::now() + limit;
        loop {
            if let Some(code) = code(&self.written) {
                return Ok(self.end(code));
            }
            self.read(until).context("waiting for its end")?;
        }
    }

    fn end(&mut self, code: i32) -> Ended {
        let prompt = std::mem::replace(&mut self.prompt, format!("{PROMPT_BEGIN}{code}>$ "));
        Ended { code, prompt, written: std::mem::take(&mut self.written) }
    }

    /// Takes more of what is written.
    fn read(&mut self, until: Instant) -> Result {
        let left = until.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "it takes too long; the last that was written: {}", self.tail());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut wanted = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut wanted, Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        let mut piece = [0; 16 << 10];
        match self.terminal.read(&mut piece) {
            Ok(0) => Err(Failure::new("the shell has ended")),
            Ok(len) => {
                self.written.extend_from_slice(&piece[..len]);
                Ok(())
            }
            // The last process inside has closed it.
            Err(_) => Err(Failure::new(format!("the shell has ended: {}", self.tail()))),
        }
    }

    fn tail(&self) -> String {
        let from = self.written.len().saturating_sub(600);
        String::from_utf8_lossy(&self.written[from..]).escape_debug().to_string()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell leads its session; what it left running is the session's owner's.
        let _ = self.child.kill();
        let until = Instant::now() + REAP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }
}

/// How the command ended, once the next prompt stands at the end of what was written. The line that was typed has
/// no such text: it is typed behind the prompt before.
fn code(written: &[u8]) -> Option<i32> {
    let text = String::from_utf8_lossy(written);
    let before = text.strip_suffix(">$ ")?;
    let (_, code) = before.rsplit_once(PROMPT_BEGIN)?;
    code.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell() -> Shell {
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "sh", "-i"]).env_remove("ENV");
        Shell::start(&mut command, 40, LIMIT).unwrap()
    }

    #[test]
    fn a_line_is_typed_and_answered() {
        let mut shell = shell();
        shell.enter("printf 'who is\\nit? '; read -r name; echo \"<$name>\"; (exit 7)").unwrap();
        assert!(matches!(shell.wait_for("who is it?", LIMIT).unwrap(), Seen::Text));
        shell.keys("me\n").unwrap();
        let ended = shell.ended(LIMIT).unwrap();
        assert_eq!(ended.code, 7);
        assert!(String::from_utf8_lossy(&ended.written).contains("<me>"));
        assert_eq!((ended.prompt.as_str(), shell.prompt.as_str()), ("sr<0>$ ", "sr<7>$ "));
    }

    #[test]
    fn what_ends_unasked_is_not_waited_for() {
        let mut shell = shell();
        shell.enter("stty size; false").unwrap();
        let Seen::Ended(ended) = shell.wait_for("never", LIMIT).unwrap() else { panic!("it is not shown") };
        assert_eq!(ended.code, 1);
        assert!(String::from_utf8_lossy(&ended.written).contains("24 40"));
    }
}
