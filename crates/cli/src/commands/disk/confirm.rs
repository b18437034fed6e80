//! Asking before something is destroyed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use strongroom_disk::backing::Backing;
use strongroom_disk::signature;

use crate::failure::{Failure, Result};
use crate::fit::Display;
use crate::report::bytes;

/// What is on a device, a line for each thing; empty when it looks blank.
pub(super) fn contents(path: &Path, device: &dyn Backing) -> Result<Vec<String>> {
    let found = signature::scan(device).map_err(|error| Failure::system(path, &error))?;
    let mut lines: Vec<String> = Vec::new();
    for signature in &found.signatures {
        let line = format!("{} (at byte {})", signature.what, signature.offset);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() && !found.is_blank {
        lines.push("data of an unknown kind".to_owned());
    }
    Ok(lines)
}

/// Asks whether `device` may be overwritten, having said what is there.
///
/// # Errors
/// Usage when there is no terminal to ask on, or the answer is no.
pub(super) fn overwriting(path: &Path, device: &dyn Backing, what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let len = device.len().map_err(|error| Failure::system(path, &error))?;
    let lines = contents(path, device)?;
    let mut text = format!("{} ({}) ", path.display(), bytes(len));
    if lines.is_empty() {
        text.push_str("looks empty.\n");
    } else {
        text.push_str("has:\n");
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    ask(path, &format!("{text}{what}"))
}

/// Asks a question that only `yes` answers well.
///
/// # Errors
/// As [`overwriting`].
pub(super) fn ask(path: &Path, text: &str) -> Result<()> {
    let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        Failure::usage("this destroys data, and there is no terminal to ask on")
            .at(path)
            .hint("Say --yes when you are sure.")
    })?;
    let failed = |error: std::io::Error| Failure::system(Path::new("/dev/tty"), &error);
    let question = format!("{text}\nType yes to go on: ");
    (&terminal).write_all(Display::of(&terminal).fit(&question).as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(&terminal).read_line(&mut answer).map_err(failed)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::usage("nothing was changed").at(path)) }
}
