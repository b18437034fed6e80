//! Where unsafe code may stand: seven crates, and there only below a module named `sys` or `low`.
//!
//! The compiler proves `forbid(unsafe_code)`; this checks that every other crate says it, and that the
//! seven keep theirs in its place. Comments, strings and character literals are skipped by a small lexer.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Result};

/// Crates that may contain unsafe code.
const UNSAFE_CRATES: [&str; 8] =
    ["engine-cpu", "engine-gpu", "store", "fuse", "keys", "memory", "provider", "ublk"];

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

/// The source with comments, strings and character literals blanked, line breaks kept.
fn blank_text(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = text_length(rest);
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// The length of the comment or literal that `rest` starts with, or 0.
fn text_length(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if let Some(length) = raw_string(rest) {
        return length;
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    // A quote starts a character only if one closes it: 'a' and '\n', but not the lifetime 'a.
    let mut after = rest.chars().skip(1);
    if rest.starts_with('\'') && (after.next() == Some('\\') || after.next() == Some('\'')) {
        return quoted(rest, '\'');
    }
    0
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(1 + count + 1 + length)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
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
