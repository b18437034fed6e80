//! Names for what is not whole yet: `.NAME.XXXXXXXX.part`, beside the name that
//! it is to have. They go with the process ([`removal`]), unless it is killed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::removal;

/// Longest name that stores have.
const NAME_MAX: usize = 255;
/// How often a name is drawn that is taken.
const TRIES: usize = 16;

/// Something under a temporary name, removed at the end.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// Has `make` make something beside `path`, under a name that nothing has.
    ///
    /// # Errors
    /// What `make` says; that there are no random bytes.
    pub(super) fn beside(
        path: &Path,
        mut make: impl FnMut(&Path) -> io::Result<()>,
    ) -> io::Result<Temporary> {
        let mut tries = 0;
        loop {
            let mut drawn = [0; 4];
            getrandom::fill(&mut drawn).map_err(io::Error::other)?;
            let temporary = path.with_file_name(name(path, u32::from_ne_bytes(drawn)));
            tries += 1;
            match removal::making(&temporary, || make(&temporary)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
                made => return made.map(|()| Temporary(temporary)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// It has its final name, or another has this one now.
    pub(super) fn forget(mut self) {
        removal::forget(&self.0);
        self.0 = PathBuf::new();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.0.as_os_str().is_empty() {
            return;
        }
        // What cannot be removed has a name that says what it is.
        removal::discard(&self.0);
        removal::forget(&self.0);
    }
}

/// No longer than names may be.
fn name(path: &Path, number: u32) -> OsString {
    let end = format!(".{number:08x}.part");
    let whole = path.file_name().unwrap_or_default().to_string_lossy();
    let mut len = whole.len().min(NAME_MAX - 1 - end.len());
    while !whole.is_char_boundary(len) {
        len -= 1;
    }
    format!(".{}{end}", &whole[..len]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_enough_and_tell_what_they_are() {
        assert_eq!(name(Path::new("d/f.age"), 0xab), ".f.age.000000ab.part");
        for long in ["n".repeat(255), "ä".repeat(127)] {
            let name = name(Path::new(&long), 1);
            assert!((254..=255).contains(&name.len()), "{}", name.len());
        }
    }

    #[test]
    fn what_is_left_of_a_killed_one_is_in_nobodys_way() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut drawn = Vec::new();
        let made = Temporary::beside(&directory.path().join("f"), |path| {
            drawn.push(path.to_owned());
            match drawn.len() {
                1 => Err(io::ErrorKind::AlreadyExists.into()),
                _ => std::fs::write(path, "x"),
            }
        });
        let made = made.expect("the second name");
        assert!(drawn[0] != drawn[1] && made.path() == drawn[1]);
        drop(made);
        assert!(!drawn[1].exists());
    }
}
