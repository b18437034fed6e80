//! What the store sees beside the plain tree: names, lengths and bytes of one file, and how many there are.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::demo::copy::Copied;
use strongroom_harness::failure::{Failure, Result, ensure};

const TEXT: &[u8] = b"Dear Ada, the key lies under the third stone.\n";
/// Bytes that are shown of a file.
const SHOWN: usize = 16;

/// Writes a letter into the mount, finds it in the store, and shows both.
///
/// # Errors
/// The store holds its name or its text, or another number of files than the tree.
pub(super) fn show(mount: &Path, tree: &Path, store: &Path, plain: Copied) -> Result {
    let before = stored_names(store)?;
    let directory = mount.join("letters");
    fs::create_dir(&directory)?;
    let mut letter = File::create(directory.join("to-ada.txt"))?;
    letter.write_all(TEXT)?;
    letter.sync_all()?;
    drop(letter);
    let made: Vec<_> = stored_names(store)?.difference(&before).cloned().collect();
    let [stored_directory] = made.as_slice() else {
        return Err(Failure::new(format!("a new directory is {} new names in the store", made.len())));
    };
    let stored = store.join(stored_directory);
    let inside = stored_names(&stored)?;
    let stored_file = inside.first().map(|name| stored.join(name));
    let stored_file = stored_file.ok_or_else(|| Failure::new("the letter is not in the store"))?;
    println!("what the store sees:");
    line("plain", "store");
    line("letters/", &format!("{}/", stored_directory.display()));
    let (plain_len, stored_len) = (TEXT.len(), fs::metadata(&stored_file)?.len());
    line("  to-ada.txt", &format!("  {}", file_name(&stored_file)));
    line(&format!("    {plain_len} bytes"), &format!("    {stored_len} bytes"));
    let content = fs::read(&stored_file)?;
    ensure!(
        !content.windows(8).any(|part| TEXT.windows(8).any(|text| text == part)),
        "the store has the text"
    );
    // What is stored begins with its header.
    let shown = content.rchunks(SHOWN).find(|part| part.iter().any(|byte| *byte != 0)).unwrap_or_default();
    line(&format!("    {}", hex(&TEXT[..SHOWN])), &format!("    {}", hex(shown)));
    line(&format!("    {}", text(&TEXT[..SHOWN])), &format!("    {}", text(shown)));
    let (files, directories) = count(store, true)?;
    let (plain_files, plain_directories) = count(tree, false)?;
    // The letter, its directory, and the one in which the tree was put.
    ensure!(
        (files, directories) == (plain_files + 1, plain_directories + 2) && plain_files == plain.files,
        "{plain_files} plain files in {plain_directories} directories, and {files} in {directories} stored"
    );
    line(
        &format!("{plain_files} files, {plain_directories} directories"),
        &format!("{} files, {} directories, and the letter's", files - 1, directories - 2),
    );
    fs::remove_dir_all(&directory)?;
    Ok(())
}

fn line(plain: &str, store: &str) {
    println!("  {plain:<40} {store}");
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

fn text(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
        .collect()
}

/// Names that stand for plain ones: what the vault keeps of its own begins with a dot.
fn stored_names(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let names = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<std::io::Result<_>>()?;
    Ok(names.into_iter().filter(|name| !is_own(name)).map(PathBuf::from).collect())
}

fn is_own(name: &OsString) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Files (whatever is no directory) and directories below a directory.
fn count(directory: &Path, is_store: bool) -> Result<(u64, u64)> {
    let (mut files, mut directories) = (0, 0);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_store && is_own(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            let (below, more) = count(&entry.path(), is_store)?;
            (files, directories) = (files + below, directories + more + 1);
        } else {
            files += 1;
        }
    }
    Ok((files, directories))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_vaults_own_are_not_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["a", "a/b", ".id", ".id/x"] {
            fs::create_dir(at(name)).expect("made");
        }
        for name in ["a/f", "a/.n~f", ".id/x/g"] {
            fs::write(at(name), "").expect("written");
        }
        assert_eq!(count(directory.path(), true).expect("read"), (1, 2));
        assert_eq!(count(directory.path(), false).expect("read"), (3, 4));
    }

    #[test]
    fn bytes_are_shown_as_far_as_they_can_be() {
        assert_eq!(text(b"a b\n\xff"), "a b..");
        assert_eq!(hex(b"\x00\xff"), "00 ff");
    }
}
