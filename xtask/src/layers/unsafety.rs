//! Where unsafe code may stand: eleven crates, and there only below a module named `sys` or `low`.
//!
//! The compiler proves `forbid(unsafe_code)`; this checks that every other crate says it, and that the
//! eleven keep theirs in its place.

use std::fs;
use std::path::{Path, PathBuf};

use super::lexer::blank_text;
use strongroom_harness::failure::{Context, Result};

/// Crates that may contain unsafe code.
const UNSAFE_CRATES: [&str; 11] = [
    "engine-cpu",
    "engine-gpu",
    "engine-qat",
    "engine-virtio",
    "store",
    "fuse",
    "keys",
    "memory",
    "mock-qat",
    "provider",
    "ublk",
];

/// Every breach below the repository root, one line each.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut crates: Vec<PathBuf> = fs::read_dir(root.join("crates"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::result::Result<_, _>>()?;
    crates.push(root.join("xtask"));
    crates.retain(|path| path.join("Cargo.toml").is_file());
    crates.sort();
    for directory in crates {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if UNSAFE_CRATES.contains(&name.as_str()) {
            misplaced(root, &directory, &mut faults)?;
        } else if !forbids(&directory)? {
            faults.push(format!("{name}: the crate root lacks #![forbid(unsafe_code)]"));
        }
    }
    Ok(faults)
}

fn forbids(directory: &Path) -> Result<bool> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|file| directory.join(file));
    for file in roots.iter().filter(|file| file.is_file()) {
        if !fs::read_to_string(file).context(file.display())?.contains("#![forbid(unsafe_code)]") {
            return Ok(false);
        }
    }
    Ok(roots.iter().any(|file| file.is_file()))
}

fn misplaced(root: &Path, directory: &Path, faults: &mut Vec<String>) -> Result {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !is_home(&name) && name != "target" {
                misplaced(root, &path, faults)?;
            }
        } else if let Some(stem) = name.strip_suffix(".rs")
            && !is_home(stem)
        {
            let source = fs::read_to_string(&path).context(path.display())?;
            for line in unsafe_lines(&source) {
                let place = path.strip_prefix(root).unwrap_or(&path).display();
                faults.push(format!("{place}:{line}: unsafe code outside a `sys` or `low` module"));
            }
        }
    }
    Ok(())
}

fn is_home(name: &str) -> bool {
    matches!(name, "sys" | "low")
}

/// Lines (from 1) that have the keyword `unsafe` in code.
fn unsafe_lines(source: &str) -> Vec<usize> {
    let code = blank_text(source);
    code.lines()
        .enumerate()
        .filter(|(_, line)| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
        })
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_keyword_in_code_only() {
        let source = "// unsafe\n/* unsafe /* unsafe */ */ fn a() {}\nlet s = \"unsafe \\\" unsafe\";\n\
            let r = r#\"unsafe \" \"#;\nlet c = '\\''; unsafe { b() }\n#![forbid(unsafe_code)]\n\
            fn f<'a>(x: &'a str) { unsafe_name() }\npub unsafe fn g() {}\n";
        assert_eq!(unsafe_lines(source), [5, 8]);
    }
}
