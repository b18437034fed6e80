//! The scheduler fits on a page: its constants are those of `docs/scheduler.md`,
//! each with its reason, and its code without tests stays short.

use std::fs;
use std::path::{Path, PathBuf};

/// Of placing, learning and failing over.
const LINES_MAX: usize = 3100;
/// Makes keystream ahead, and places nothing.
const APART: &str = "masks.rs";
const WORDS_MAX: usize = 1500;
const CONSTANTS_MAX: usize = 20;

/// Files in which a constant decides where a batch goes.
const DECIDE: [&str; 6] =
    ["policy/adaptive.rs", "policy/mod.rs", "record.rs", "placing.rs", "standing.rs", "cpu_load.rs"];

/// Constants there that decide nothing: sizes of tables, fields of words, what is read
/// where, and when the sampler sleeps.
const DECIDE_NOTHING: [&str; 13] = [
    "ENGINES_MAX",
    "OPERATIONS",
    "SIZE_CLASSES",
    "ALL",
    "KEY_BITS",
    "VALUE_BITS",
    "SHARES_EVERY",
    "IDLE_SAMPLES",
    "PATHS",
    "LOADAVG",
    "STAT",
    "OWN_STAT",
    "NO_SAMPLE",
];

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Without what is for tests, which stands last.
fn product(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file");
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::to_owned).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.file_name().is_some_and(|name| name != "tests.rs" && name != APART) {
            found.push(path);
        }
    }
}

/// The name of the constant that a line declares, if it is no private detail of
/// an item.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    let name = line.strip_prefix("const ")?.split(':').next()?;
    (!name.starts_with("fn ")).then_some(name)
}

fn document() -> String {
    fs::read_to_string(crate_root().join("../../docs/scheduler.md")).expect("the document")
}

#[test]
fn every_constant_that_decides_stands_in_the_document_with_its_reason_in_the_code() {
    let document = document();
    let listed = document.split("### Constants").nth(1).expect("a list").split("\n### ").next().expect("it");
    let mut constants = 0;
    for file in DECIDE {
        let lines = product(&crate_root().join("src").join(file));
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = declared(line).filter(|name| !DECIDE_NOTHING.contains(name)) else { continue };
            // Two that stand together may share a reason.
            let above = lines[..at].iter().rev().find(|line| declared(line).is_none()).expect("a line");
            assert!(above.trim_start().starts_with("///"), "{file}: {name} has no reason");
            assert!(listed.contains(&format!("`{name}`")), "{file}: {name} is not in docs/scheduler.md");
            constants += 1;
        }
    }
    assert!(constants > 0 && constants <= CONSTANTS_MAX, "{constants} constants");
    let names = listed.split('`').skip(1).step_by(2);
    let named = names.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_')).count();
    assert_eq!(named, constants, "the document lists what the code has, and no more");
}

#[test]
fn the_scheduler_and_its_document_stay_short() {
    let mut files = Vec::new();
    sources(&crate_root().join("src"), &mut files);
    let lines: usize = files.iter().map(|path| product(path).len()).sum();
    assert!(files.len() > 10 && lines < LINES_MAX, "{lines} lines in {} files", files.len());
    let words = document().split_whitespace().count();
    assert!(words < WORDS_MAX, "{words} words");
}
