//! The sums of what was made, and a signature over them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};

use super::files::{LIMIT, file_name};

pub(super) const NAME: &str = "SHA256SUMS";

/// The SHA-256 of a file, in hexadecimal.
pub(super) fn sum(file: &Path) -> Result<String> {
    let mut command = Command::new("sha256sum");
    command.arg("--").arg(file);
    let said = command::output(&mut command, LIMIT)?;
    let sum = said.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    ensure!(sum.len() == 64, "sha256sum says: {said}");
    Ok(sum.to_owned())
}

/// Writes the sums of `files`, which lie in `directory`, in the form that `sha256sum --check` reads.
pub(super) fn write(directory: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut lines = Vec::new();
    for file in files {
        lines.push((file_name(file)?.to_owned(), sum(file)?));
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    let path = directory.join(NAME);
    std::fs::write(&path, text).context(path.display())?;
    Ok(path)
}

/// Signs the sums with a secret key of minisign, which asks for the key's password at the terminal.
pub(super) fn sign(sums: &Path, key: &Path, comment: &str) -> Result<PathBuf> {
    let mut command = Command::new("minisign");
    command.args(["-S", "-s"]).arg(key).args(["-t", comment, "-m"]).arg(sums);
    let status = command.stdin(Stdio::inherit()).status().context("minisign")?;
    ensure!(status.success(), "minisign did not sign {}", sums.display());
    let signature = sums.with_extension("minisig");
    ensure!(signature.is_file(), "minisign left no {}", signature.display());
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() -> Result {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("a");
        std::fs::write(&file, "abc")?;
        let sums = write(directory.path(), &[file])?;
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(std::fs::read_to_string(sums)?, format!("{abc}  a\n"));
        Ok(())
    }
}
