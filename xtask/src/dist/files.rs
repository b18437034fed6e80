//! What packages consist of, laid out below a directory.
//!
//! Everything gets fixed modes, so that the builder's umask does not show.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

use super::tree::Tree;

pub(super) const LIMIT: Duration = Duration::from_secs(600);
const DOCUMENTS: [&str; 2] = ["README.md", "CHANGELOG.md"];
pub(super) const EXAMPLES: [&str; 3] = ["Containerfile", "fstab.example", "strongroom@.service"];

/// The names that mount(8) and umount(8) look for: by the type in fstab, and by the one that the mount table
/// shows.
pub(super) const HELPERS: [&str; 4] =
    ["mount.strongroom", "mount.fuse.strongroom", "umount.strongroom", "umount.fuse.strongroom"];

/// What the files of a release for one target are made of.
pub(super) struct Release<'a> {
    pub(super) tree: &'a Tree,
    /// The program without what only debuggers read.
    pub(super) program: PathBuf,
    /// What runs it, where this machine cannot: a program, and its first words.
    pub(super) emulator: Vec<String>,
    pub(super) notices: String,
}

impl Release<'_> {
    /// The documents, as paths below the repository.
    pub(super) fn documents(&self) -> Result<Vec<PathBuf>> {
        let mut documents: Vec<PathBuf> = DOCUMENTS.map(PathBuf::from).to_vec();
        for directory in ["docs", "docs/format", "docs/json"] {
            let entries = fs::read_dir(self.tree.root.join(directory)).context(directory)?;
            for entry in entries.collect::<std::io::Result<Vec<_>>>()? {
                if entry.path().is_file() {
                    documents.push(Path::new(directory).join(entry.file_name()));
                }
            }
        }
        documents.sort();
        Ok(documents)
    }

    /// A file of the repository.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = self.tree.root.join(path);
        fs::read(&path).context(path.display())
    }

    /// All manual pages: those that the program writes, and those that no command has.
    pub(super) fn pages(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let mut pages = self.written("generate-man", directory)?;
        for entry in fs::read_dir(self.tree.root.join("packaging/man"))? {
            pages.push(entry?.path());
        }
        Ok(pages)
    }

    /// The completions for each shell, as the program names their files.
    pub(super) fn completions(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.written("generate-completions", directory)
    }

    /// A program for the same architecture as this one's, run here.
    pub(super) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new("env");
        command.args(&self.emulator).arg(program);
        command
    }

    /// What the program writes into a directory.
    fn written(&self, what: &str, directory: &Path) -> Result<Vec<PathBuf>> {
        command::output(self.run(&self.program).arg(what).arg(directory), LIMIT)?;
        let files = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
        let mut files = files.collect::<std::io::Result<Vec<_>>>()?;
        ensure!(!files.is_empty(), "`strongroom {what}` wrote nothing");
        files.sort();
        Ok(files)
    }
}

/// Writes a file below `root`, with the directories that it needs.
pub(super) fn put(root: &Path, path: impl AsRef<Path>, contents: &[u8], mode: u32) -> Result {
    let path = root.join(path);
    let parent = path.parent().expect("a packaged file lies in a directory");
    fs::create_dir_all(parent)?;
    fs::write(&path, contents)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}

/// Gives all directories below the same mode.
pub(super) fn settle(root: &Path) -> Result {
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            settle(&path)?;
        }
    }
    Ok(())
}

/// The section of a manual page.
pub(super) fn section(page: &Path) -> &str {
    page.extension().and_then(|section| section.to_str()).unwrap_or("1")
}

pub(super) fn file_name(path: &Path) -> Result<&str> {
    path.file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Failure::new(format!("an odd file name: {}", path.display())))
}

/// Splits what was linked with `objcopy`, the one for its architecture: the program as it is shipped, and what only
/// debuggers read, which it names. The program gets a section more, by its name and the file with what stands in it.
pub(super) fn separate(
    linked: &Path,
    objcopy: &str,
    (name, content): (&str, &Path),
    program: &Path,
    debug: &Path,
) -> Result {
    let objcopy = |options: &[&str], to: &Path| {
        let mut command = Command::new(objcopy);
        // Named by its file alone: the name goes into the program.
        let directory = debug.parent().expect("it lies in a directory");
        command.current_dir(directory).args(options).arg(linked).arg(to);
        command::output(&mut command, LIMIT).map(drop)
    };
    objcopy(&["--only-keep-debug"], debug)?;
    let link = format!("--add-gnu-debuglink={}", file_name(debug)?);
    let section = format!("--add-section={name}={}", content.display());
    objcopy(&["--strip-all", &section, &link], program)?;
    fs::set_permissions(debug, fs::Permissions::from_mode(0o644))?;
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}
