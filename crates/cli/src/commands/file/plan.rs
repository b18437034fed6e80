//! What becomes of what: all inputs and results of a call are decided, and held
//! against each other, before a byte is read, a question asked or a file made.
//!
//! Refused is what would lose something: two results of one name, a result in
//! the place of an input or of a key, a result within the directory that is
//! packed, one over what is there without `--force`; and standard input for two
//! purposes.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::descriptors::{descriptor_to_write, is_standard};
use super::target::above;
use crate::args::file::{FileKeyArgs, FileOutputArgs, FilePassphraseArgs};
use crate::failure::{Failure, Result};
use crate::opening;
use crate::report::{Output, shown};

/// One input, and where its result goes.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) input: PathBuf,
    /// `-` for standard output.
    pub(super) output: PathBuf,
}

/// All of a call.
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Bytes of all inputs, where that is known.
    pub(super) len: Option<u64>,
}

/// How results are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// FILE becomes FILE.age, DIR becomes DIR.tar.age.
    Encrypt {
        /// As text.
        armored: bool,
    },
    /// FILE.age becomes FILE.
    Decrypt,
}

/// Device and inode.
type Id = (u64, u64);

/// Something that is read, and must not be replaced.
struct Read {
    /// How it is called in messages.
    what: String,
    id: Id,
    is_directory: bool,
    len: Option<u64>,
}

/// Files that a command reads besides its inputs, each with what it is.
pub(super) struct Besides(Vec<(String, PathBuf)>);

impl Besides {
    pub(super) fn new() -> Besides {
        Besides(Vec::new())
    }

    pub(super) fn with(mut self, what: &str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Besides {
        self.0.extend(paths.into_iter().map(|path| (what.to_owned(), path.as_ref().to_owned())));
        self
    }

    /// What opens a file.
    pub(super) fn keys(args: &FileKeyArgs) -> Besides {
        Besides::new().with("-i", &args.identity).passphrase(&args.source)
    }

    pub(super) fn passphrase(self, args: &FilePassphraseArgs) -> Besides {
        let descriptor = args.password_fd.map(|number| PathBuf::from(format!("/dev/fd/{number}")));
        self.with("--password-file", &args.password_file).with("--password-fd", descriptor)
    }

    /// Refuses to read what can be read only once for two purposes.
    ///
    /// # Errors
    /// Usage.
    pub(super) fn check_streams(&self, inputs: &[PathBuf]) -> Result<()> {
        let inputs = inputs.iter().map(|input| ("the input".to_owned(), input.clone()));
        let mut taken: Vec<(i32, String)> = Vec::new();
        for (what, path) in self.0.iter().cloned().chain(inputs) {
            let Some(number) = opening::descriptor(&path) else { continue };
            if let Some((_, before)) = taken.iter().find(|(other, _)| *other == number) {
                let name = match number {
                    0 => "standard input".to_owned(),
                    number => format!("file descriptor {number}"),
                };
                let both = match *before == what {
                    true => format!("{name} is named twice, for {what}"),
                    false => format!("{name} is named for {before} and for {what}"),
                };
                return Err(Failure::usage(both).hint("It can be read once: name a file for the other."));
            }
            taken.push((number, what));
        }
        Ok(())
    }

    fn read(&self) -> impl Iterator<Item = Read> {
        let read = |(what, path): &(String, PathBuf)| {
            let facts = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
            let what = format!("{what} {}", name_of(path));
            Some(Read { what, id: id(&facts), is_directory: false, len: None })
        };
        self.0.iter().filter_map(read)
    }
}

fn id(facts: &std::fs::Metadata) -> Id {
    (facts.dev(), facts.ino())
}

fn name_of(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

/// The inputs that are named, or standard input.
pub(super) fn inputs_of(files: &[PathBuf]) -> Vec<PathBuf> {
    if files.is_empty() { vec![PathBuf::from("-")] } else { files.to_vec() }
}

impl Plan {
    /// # Errors
    /// Usage for all that is refused; what the system says of an input, or of
    /// the directory of a result.
    pub(super) fn of(
        inputs: Vec<PathBuf>,
        args: &FileOutputArgs,
        way: Way,
        besides: &Besides,
        output: Output,
    ) -> Result<Plan> {
        besides.check_streams(&inputs)?;
        let read = inputs.iter().map(|input| reading(input, way)).collect::<Result<Vec<_>>>()?;
        let len = read.iter().map(|read| read.len).sum();
        let guarded: Vec<Read> = read.into_iter().chain(besides.read()).collect();
        let mut places: Vec<(Id, OsString)> = Vec::new();
        let count = inputs.len();
        let mut steps: Vec<Step> = Vec::with_capacity(count);
        for input in inputs {
            let mut path = place(&input, count, args, way)?;
            if args.output.is_none() && count == 1 {
                path = redirected(path, output);
            }
            if is_standard(&path) {
                check_standard(&guarded, way)?;
            } else if let Some(key) = check(&path, args.force, &guarded)? {
                if let Some(at) = places.iter().position(|other| *other == key) {
                    let (one, two) = (name_of(&steps[at].input), name_of(&input));
                    return Err(Failure::usage(format!("{one} and {two} would both become this"))
                        .at(&path)
                        .hint("Nothing was written. Encrypt or decrypt them in two calls."));
                }
                places.push(key);
            }
            steps.push(Step { input, output: path });
        }
        Ok(Plan { steps, len })
    }
}

/// What an input is.
fn reading(path: &Path, way: Way) -> Result<Read> {
    let what = name_of(path);
    let failed = |error: std::io::Error| Failure::system(path, &error);
    if is_standard(path) {
        let stat = rustix::fs::fstat(rustix::stdio::stdin()).map_err(|errno| failed(errno.into()))?;
        return Ok(Read { what, id: (stat.st_dev, stat.st_ino), is_directory: false, len: None });
    }
    let facts = match opening::descriptor(path) {
        Some(number) => opening::descriptor_copy(number).and_then(|file| file.metadata()),
        None => std::fs::metadata(path),
    };
    let facts = facts.map_err(failed)?;
    if facts.is_dir() && way == Way::Decrypt {
        return Err(Failure::usage("it is a directory, and no encrypted file").at(path));
    }
    let len = Some(facts.len()).filter(|len| facts.is_file() && *len > 0);
    Ok(Read { what, id: id(&facts), is_directory: facts.is_dir(), len })
}

/// Where the result of an input goes.
fn place(input: &Path, inputs: usize, args: &FileOutputArgs, way: Way) -> Result<PathBuf> {
    match &args.output {
        Some(given) if !is_standard(given) && given.is_dir() => {
            if opening::descriptor(input).is_some() {
                return Err(Failure::usage("standard input has no name: name a file with -o"));
            }
            // `.` and `..` have one of their own.
            let whole = match input.file_name() {
                None => input.canonicalize().map_err(|error| Failure::system(input, &error))?,
                Some(_) => input.to_owned(),
            };
            let named = named(&whole, way)?;
            Ok(given.join(named.file_name().unwrap_or(named.as_os_str())))
        }
        Some(_) if inputs > 1 => Err(Failure::usage("several files need an existing directory after -o")),
        Some(given) if descriptor_to_write(given) == Some(1) => Ok(PathBuf::from("-")),
        Some(given) => Ok(given.clone()),
        None if opening::descriptor(input).is_some() => match inputs {
            1 => Ok(PathBuf::from("-")),
            _ => Err(Failure::usage("standard input beside other files has no name")
                .hint("Encrypt or decrypt it by itself.")),
        },
        None => named(input, way),
    }
}

fn named(path: &Path, way: Way) -> Result<PathBuf> {
    let say = "Say with -o where it shall go.";
    match way {
        Way::Encrypt { .. } => {
            let name = path.file_name().map(OsStr::to_owned);
            let mut name = name.ok_or_else(|| Failure::usage("it has no name").at(path).hint(say))?;
            name.push(if path.is_dir() { ".tar.age" } else { ".age" });
            Ok(path.with_file_name(name))
        }
        Way::Decrypt => {
            let refused = |text: &str| Failure::usage(text).at(path).hint(say);
            let whole = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            let stem = whole.strip_suffix(b".age");
            match stem.ok_or_else(|| refused("its name does not end in .age"))? {
                b"" | b"." | b".." => Err(refused("nothing is left of its name without .age")),
                stem => Ok(path.with_file_name(OsStr::from_bytes(stem))),
            }
        }
    }
}

/// As age's users type, `... FILE > FILE.age`: what the shell has just made for
/// standard output is the file that is meant. Another one would stay empty.
fn redirected(path: PathBuf, output: Output) -> PathBuf {
    let Some(standard) = standard_output().filter(|stat| stat.st_size == 0) else {
        return path;
    };
    let there = std::fs::metadata(&path).ok();
    if there.is_some_and(|there| id(&there) == (standard.st_dev, standard.st_ino)) {
        return PathBuf::from("-");
    }
    if !is_standard(&path) && !output.json {
        let name = name_of(&path);
        output
            .warn(&format!("the result is {name}, and not on standard output, to which -o - would write it"));
    }
    path
}

/// Standard output, where it is a regular file.
fn standard_output() -> Option<rustix::fs::Stat> {
    let stat = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat)
}

fn check_standard(guarded: &[Read], way: Way) -> Result<()> {
    if way == (Way::Encrypt { armored: false }) && std::io::stdout().is_terminal() {
        return Err(Failure::usage("what is encrypted is nothing for a terminal")
            .hint("Name a file with -o, or armor it with -a; -o - writes it all the same into a pipe."));
    }
    let Some(stat) = standard_output() else { return Ok(()) };
    if let Some(read) = guarded.iter().find(|read| read.id == (stat.st_dev, stat.st_ino)) {
        return Err(Failure::usage(format!("standard output is {}, which is read", read.what))
            .hint("Name another file with -o."));
    }
    match std::fs::read_link("/proc/self/fd/1") {
        Ok(path) => check_outside(above(&path), Path::new("standard output"), guarded),
        Err(_) => Ok(()),
    }
}

/// Holds a result against what is there and what is read, and gives what no
/// other result may be; none for a device.
fn check(path: &Path, force: bool, guarded: &[Read]) -> Result<Option<(Id, OsString)>> {
    if descriptor_to_write(path).is_some() {
        return Ok(None);
    }
    let there = std::fs::metadata(path).ok();
    if there.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(Failure::usage("it is a directory, and no file can have its name")
            .at(path)
            .hint("Name a file with -o."));
    }
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return Ok(None);
    }
    if let Some(read) = guarded.iter().find(|read| there.as_ref().is_some_and(|there| id(there) == read.id)) {
        return Err(Failure::usage(format!("the result would replace {}, which is read", read.what))
            .at(path)
            .hint("Name another file with -o."));
    }
    if !force && path.symlink_metadata().is_ok() {
        return Err(super::target::exists(path));
    }
    // What a symlink names is replaced, and not the symlink.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().ok_or_else(|| Failure::usage("it has no file name").at(path))?;
    let directory = above(&whole);
    let facts = std::fs::metadata(directory).map_err(|error| Failure::system(directory, &error))?;
    check_outside(directory, path, guarded)?;
    Ok(Some((id(&facts), name.to_owned())))
}

/// Refuses a result in `directory`, which is one that is packed, or below it.
fn check_outside(directory: &Path, result: &Path, guarded: &[Read]) -> Result<()> {
    if !guarded.iter().any(|read| read.is_directory) {
        return Ok(());
    }
    let Ok(whole) = directory.canonicalize() else { return Ok(()) };
    for above in whole.ancestors() {
        let Ok(facts) = std::fs::metadata(above) else { continue };
        if let Some(read) = guarded.iter().find(|read| read.is_directory && read.id == id(&facts)) {
            let text = format!("the result would stand in {}, of which it is the archive", read.what);
            return Err(Failure::usage(text).at(result).hint("Name a file outside of it with -o."));
        }
    }
    Ok(())
}

/// Refuses to replace a directory in which something stands that is read.
///
/// # Errors
/// Usage.
pub(super) fn check_extract(to: &Path, input: &Path, besides: &Besides) -> Result<()> {
    besides.check_streams(std::slice::from_ref(&input.to_owned()))?;
    reading(input, Way::Decrypt)?;
    let Ok(there) = std::fs::metadata(to) else { return Ok(()) };
    let all = besides.0.iter().map(|(_, path)| path.as_path()).chain([input]);
    for path in all.filter(|path| opening::descriptor(path).is_none()) {
        let Ok(whole) = path.canonicalize() else { continue };
        let mut above = whole.ancestors().filter_map(|above| std::fs::metadata(above).ok());
        if above.any(|above| id(&above) == id(&there)) {
            return Err(Failure::usage(format!("{} stands in it, and would be removed", name_of(path)))
                .at(to)
                .hint("Name another directory."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str, way: Way) -> Option<PathBuf> {
        named(Path::new(path), way).ok()
    }

    #[test]
    fn results_are_named_after_their_inputs() {
        let encrypt = Way::Encrypt { armored: false };
        for (plain, sealed) in
            [("f", "f.age"), ("a/f.txt", "a/f.txt.age"), ("-f", "-f.age"), (".f", ".f.age")]
        {
            assert_eq!(name(plain, encrypt), Some(sealed.into()));
            assert_eq!(name(sealed, Way::Decrypt), Some(plain.into()));
        }
        assert_eq!(name("..", encrypt), None);
        for path in [".age", "..age", "...age", "f", "f.age.txt", "age", "a/..age"] {
            assert_eq!(name(path, Way::Decrypt), None, "{path}");
        }
    }
}
