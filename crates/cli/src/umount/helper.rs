//! `umount.strongroom`, the form in which umount(8) calls this program, so
//! that it too waits until the vault is closed.
//!
//! Source: umount(8), "EXTERNAL HELPERS"; libmount's `context_umount.c`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::args::UmountArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// Unmounts what `DIR [-flnrv] [-N NAMESPACE] [-t TYPE]` names. With `-f` by
/// force, with `-l` lazily.
///
/// # Errors
/// As `umount`.
pub(crate) fn run(words: Vec<OsString>) -> Result<Exit> {
    super::run(&parse(words)?, Output { json: false })
}

fn parse(words: Vec<OsString>) -> Result<UmountArgs> {
    let mut places = Vec::new();
    let (mut lazy, mut abort) = (false, false);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match text.strip_prefix('-') {
            None | Some("") => places.push(PathBuf::from(word)),
            // Type and mount namespace are known or done by umount(8) already.
            Some("t" | "N") => drop(words.next()),
            Some(letters) => {
                for letter in letters.chars() {
                    match letter {
                        'f' => abort = true,
                        'l' => lazy = true,
                        // Reading alone is no way out of a mount that is in use.
                        'n' | 'r' | 'v' => {}
                        _ => return Err(wrong(&text)),
                    }
                }
            }
        }
    }
    match <[PathBuf; 1]>::try_from(places) {
        Ok([directory]) => Ok(UmountArgs { directory, lazy: lazy && !abort, abort }),
        Err(_) => Err(wrong("expected a directory")),
    }
}

fn wrong(what: &str) -> Failure {
    Failure::usage(what).hint("Usage: umount.strongroom DIR [-flnrv]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Result<UmountArgs> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn calls_of_umount_are_understood() {
        let found = call(&["/m", "-nv", "-t", "fuse.strongroom", "-N", "/proc/1/ns/mnt"]).expect("valid");
        assert_eq!((found.directory, found.lazy, found.abort), ("/m".into(), false, false));
        assert!(call(&["-l", "/m"]).expect("valid").lazy);
        let both = call(&["/m", "-fl"]).expect("valid");
        assert!(both.abort && !both.lazy, "force does what being lazy is for");
    }

    #[test]
    fn others_are_refused() {
        for words in [&["/m", "/n"][..], &["/m", "-x"], &[]] {
            assert_eq!(call(words).map_err(|failure| failure.exit()).err(), Some(Exit::Usage), "{words:?}");
        }
    }
}
