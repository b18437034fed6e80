//! Passwords from the terminal, and secrets from descriptors, without a buffer
//! of the standard library on the way: what is read is in secret memory alone.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use strongroom_keys::SecretBytes;

use crate::fit::Display;

/// Standard input, unbuffered. What [`io::stdin`] reads stays in its buffer.
pub(crate) struct Input(BorrowedFd<'static>);

impl Input {
    pub(crate) fn standard() -> Input {
        Input(rustix::stdio::stdin())
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, bytes)?)
    }
}

/// The terminal, which shows nothing of what is typed until this is dropped.
pub(super) struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    /// What was typed before is not for us, and forgotten.
    ///
    /// # Errors
    /// The system's; without a terminal, one of kind
    /// [`io::ErrorKind::NotConnected`].
    pub(super) fn open() -> io::Result<Silent> {
        let opened = File::options().read(true).write(true).open("/dev/tty");
        let terminal = opened.map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?;
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // The end of the line is shown: it says that the password was taken.
        silent.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Silent { terminal, before })
    }

    /// Asks for a line of at most `len_max` bytes. Nothing is shown from before
    /// the question is: whoever has read it may type.
    ///
    /// # Errors
    /// The system's; for a longer line, one of kind
    /// [`io::ErrorKind::InvalidInput`].
    pub(super) fn ask(&self, text: &str, len_max: usize) -> io::Result<SecretBytes> {
        let text = Display::of(&self.terminal).fit(text).into_owned();
        (&self.terminal).write_all(text.as_bytes())?;
        line(&mut &self.terminal, len_max)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing either.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The bytes before the end of the line, which is left out.
fn line(source: &mut dyn Read, len_max: usize) -> io::Result<SecretBytes> {
    let mut line = SecretBytes::zeroed(len_max + 1);
    let mut len = 0;
    loop {
        // A terminal gives a line at a time, but one is read past no line's
        // end: what is typed ahead is for whoever asks next.
        match source.read(&mut line.expose_mut()[len..=len]) {
            Ok(0) => break,
            Ok(_) if line.expose()[len] == b'\n' => break,
            Ok(_) if len == len_max => {
                let text = format!("a password has at most {len_max} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            Ok(_) => len += 1,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    line.truncate(len);
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_where_it_ends() {
        for (typed, expected, left) in
            [("pass word\nmore", "pass word", "more"), ("none", "none", ""), ("\n", "", "")]
        {
            let mut source = typed.as_bytes();
            assert_eq!(line(&mut source, 9).expect("short").expose(), expected.as_bytes());
            assert_eq!(source, left.as_bytes());
        }
        let error = line(&mut "ten bytes!".as_bytes(), 9).err().expect("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
