//! A directory with images, passphrases and known data, and the program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;

/// Longest that one program may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The passphrase of every image.
pub(crate) const PASSPHRASE: &str = "correct horse";

/// Where everything of one run lies.
pub(crate) struct Lab {
    binary: PathBuf,
    directory: PathBuf,
}

impl Lab {
    pub(crate) fn new(binary: PathBuf, directory: &Path) -> Result<Self> {
        let lab = Self { binary, directory: directory.to_path_buf() };
        fs::write(lab.path("passphrase"), PASSPHRASE)?;
        fs::write(lab.path("second"), "battery staple")?;
        Ok(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs a program in the directory; it has to succeed. Words are separated by blanks.
    pub(crate) fn run(&self, line: &str) -> Result<String> {
        command::output(&mut self.command(line), LIMIT)
    }

    /// Runs a program in the directory, whatever it answers.
    pub(crate) fn finish(&self, line: &str) -> Result<command::Finished> {
        command::finish(&mut self.command(line), LIMIT)
    }

    /// A program in the directory; `strongroom` is the one under test.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a line names a program");
        let mut command = match program {
            "strongroom" => Command::new(&self.binary),
            other => Command::new(strongroom_harness::packages::find(other).unwrap_or_else(|| other.into())),
        };
        command.args(words).current_dir(&self.directory).env("LC_ALL", "C");
        command
    }

    /// Bytes that depend on the seed alone.
    pub(crate) fn data(len: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Random::new(seed).fill(&mut bytes);
        bytes
    }

    /// Opens an image as a raw file, gives it to `with`, and closes it.
    pub(crate) fn opened<T>(
        &self,
        image: &str,
        options: &str,
        with: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let directory = self.path("open");
        fs::create_dir_all(&directory)?;
        self.run(&format!("strongroom disk open {image} --raw open --password-file passphrase {options}"))?;
        let outcome = with(&directory.join("volume"));
        let closed = self.run("strongroom disk close open");
        let value = outcome?;
        closed?;
        Ok(value)
    }

    /// The plain bytes of an image from its beginning, as the program reads them.
    pub(crate) fn plain(&self, image: &str, options: &str, len: usize) -> Result<Vec<u8>> {
        self.opened(image, options, |volume| {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; len];
            fs::File::open(volume)?.read_exact_at(&mut bytes, 0).context("reading the volume")?;
            Ok(bytes)
        })
    }

    /// Writes plain bytes to an image from its beginning, through the program.
    pub(crate) fn fill(&self, image: &str, options: &str, bytes: &[u8]) -> Result {
        self.opened(image, options, |volume| {
            use std::os::unix::fs::FileExt;
            let file = fs::File::options().write(true).open(volume)?;
            file.write_all_at(bytes, 0).context("writing the volume")?;
            Ok(file.sync_all()?)
        })
    }

    /// Makes a sparse file.
    pub(crate) fn sparse(&self, name: &str, len: u64) -> Result {
        let path = self.path(name);
        let _ = fs::remove_file(&path);
        Ok(fs::File::create(&path)?.set_len(len)?)
    }

    pub(crate) fn remove(&self, names: &[&str]) {
        names.iter().for_each(|name| drop(fs::remove_file(self.path(name))));
    }
}

/// Fails unless both are the same, and says where they are not.
pub(crate) fn same(found: &[u8], expected: &[u8]) -> Result {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    ensure!(
        found.len() == expected.len() && differs.is_none(),
        "the bytes differ: {} of {}, first at {differs:?}",
        found.len(),
        expected.len()
    );
    Ok(())
}
