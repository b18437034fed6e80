//! `mount.strongroom`, the form in which mount(8) calls this program for the
//! type `strongroom` in /etc/fstab.
//!
//! Source: mount(8), "EXTERNAL HELPERS".

use std::ffi::OsString;

use clap::Parser;

use super::options::Strictness;
use super::remount;
use crate::args::{Cli, Command};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// What mount(8) asks for.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    vault: OsString,
    directory: OsString,
    options: Vec<OsString>,
    sloppy: bool,
    fake: bool,
}

/// Mounts what `SOURCE DIR [-sfnv] [-o OPTIONS]` names.
///
/// # Errors
/// As `mount`.
pub(crate) fn run(words: Vec<OsString>) -> Result<Exit> {
    let call = parse(words)?;
    if call.fake {
        return Ok(Exit::Done);
    }
    if remount::is_asked_for(&call.options) {
        return remount::run(call.directory.as_ref(), &call.options);
    }
    let mut line: Vec<OsString> = vec!["strongroom".into(), "mount".into()];
    for options in call.options {
        line.extend(["-o".into(), options]);
    }
    line.extend(["--".into(), call.vault, call.directory]);
    let strictness = if call.sloppy { Strictness::Sloppy } else { Strictness::Strict };
    match Cli::try_parse_from(line).map(|cli| cli.command) {
        Ok(Command::Mount(args)) => super::run_with(&args, strictness, Output { json: false }),
        Ok(_) => unreachable!("the line says mount"),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

fn parse(words: Vec<OsString>) -> Result<Call> {
    let mut places = Vec::new();
    let mut call = Call {
        vault: OsString::new(),
        directory: OsString::new(),
        options: Vec::new(),
        sloppy: false,
        fake: false,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match text.strip_prefix('-') {
            None | Some("") => places.push(word),
            // Type and mount namespace are known or done by mount(8) already.
            Some("t" | "N") => drop(words.next()),
            Some("o") => call.options.extend(words.next()),
            Some(letters) => {
                for letter in letters.chars() {
                    match letter {
                        's' => call.sloppy = true,
                        'f' => call.fake = true,
                        'n' | 'v' => {}
                        _ => return Err(wrong(&text)),
                    }
                }
            }
        }
    }
    match <[OsString; 2]>::try_from(places) {
        Ok([vault, directory]) => Ok(Call { vault, directory, ..call }),
        Err(_) => Err(wrong("expected a vault and a directory")),
    }
}

fn wrong(what: &str) -> Failure {
    Failure::usage(what).hint("Usage: mount.strongroom VAULT DIR [-sfnv] [-o OPTIONS]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Result<Call> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn calls_of_mount_are_understood() {
        let found = call(&["/v", "/m", "-sv", "-o", "rw,noatime", "-t", "fuse.strongroom"]).expect("valid");
        assert_eq!((found.vault, found.directory), ("/v".into(), "/m".into()));
        assert_eq!((found.options, found.sloppy, found.fake), (vec!["rw,noatime".into()], true, false));
        assert!(call(&["-f", "/v", "/m"]).expect("valid").fake);
    }

    #[test]
    fn others_are_refused() {
        for words in [&["/v"][..], &["/v", "/m", "/n"], &["/v", "/m", "-x"], &[]] {
            assert_eq!(call(words).map_err(|failure| failure.exit()).err(), Some(Exit::Usage), "{words:?}");
        }
    }
}
