//! Which crates are compiled into the program, with their licences and sums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::workspace;

/// Most of it is waiting for other cargos.
const LIMIT: Duration = Duration::from_secs(600);

/// A crate by its name and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// A crate in a program.
pub(crate) struct Crate {
    pub(crate) licence: String,
    /// Of the archive from crates.io, SHA-256 in hexadecimal; the repository's own have none.
    pub(crate) checksum: Option<String>,
    pub(crate) directory: PathBuf,
    /// What it is compiled against.
    pub(crate) needs: BTreeSet<Key>,
}

/// The program and the crate `a` from elsewhere, which it needs, both of this version.
#[cfg(test)]
pub(crate) fn sample(version: &str) -> BTreeMap<Key, Crate> {
    let key = |name: &str| Key { name: name.to_owned(), version: version.to_owned() };
    let part = |checksum: Option<&str>, needs: BTreeSet<Key>| Crate {
        licence: "MIT".to_owned(),
        checksum: checksum.map(str::to_owned),
        directory: PathBuf::new(),
        needs,
    };
    let own = (key("strongroom"), part(None, [key("a")].into()));
    [own, (key("a"), part(Some("ff"), BTreeSet::new()))].into()
}

/// The crates in `strongroom` as it is built for the target `triple` from the repository at `root`, without
/// what only runs while it is compiled.
pub(crate) fn crates(root: &Path, triple: &str) -> Result<BTreeMap<Key, Crate>> {
    let mut ask = workspace::cargo();
    ask.current_dir(root).args(["tree", "--locked", "--package", "strongroom"]);
    ask.args(["--edges", "normal,no-proc-macro", "--target", triple, "--prefix", "depth"]);
    let needs = graph(&command::output(&mut ask, LIMIT)?)?;
    let mut ask = workspace::cargo();
    ask.current_dir(root).args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        triple,
    ]);
    let metadata: Value = serde_json::from_str(&command::output(&mut ask, LIMIT)?)?;
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?);
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        let key = Key { name: text("name"), version: text("version") };
        let Some(needs) = needs.get(&key) else { continue };
        let directory = PathBuf::from(text("manifest_path")).parent().map(PathBuf::from).unwrap_or_default();
        let checksum = checksums.get(&key).cloned();
        let licence = text("license").replace('/', " OR ");
        crates.insert(key, Crate { licence, checksum, directory, needs: needs.clone() });
    }
    for key in needs.keys() {
        ensure!(crates.contains_key(key), "cargo metadata has no {} {}", key.name, key.version);
    }
    Ok(crates)
}

/// Who needs whom, from `cargo tree --prefix depth`: a line has the depth, directly before the name.
fn graph(tree: &str) -> Result<BTreeMap<Key, BTreeSet<Key>>> {
    let mut graph: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    let mut above: Vec<Key> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (depth, key) = parse(line).ok_or_else(|| Failure::new(format!("cargo tree says: {line}")))?;
        ensure!(depth <= above.len(), "cargo tree leaves out a level before: {line}");
        above.truncate(depth);
        if let Some(parent) = above.last() {
            graph.entry(parent.clone()).or_default().insert(key.clone());
        }
        graph.entry(key.clone()).or_default();
        above.push(key);
    }
    Ok(graph)
}

fn parse(line: &str) -> Option<(usize, Key)> {
    let digits = line.len() - line.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (depth, rest) = line.split_at(digits);
    let mut words = rest.split(' ');
    let name = words.next().filter(|name| !name.is_empty())?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    Some((depth.parse().ok()?, Key { name, version }))
}

/// The sums in a `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let mut sums = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            sums.insert(Key { name, version }, sum);
        }
    }
    sums
}

/// The texts of the licences of all crates from elsewhere, each once, with the crates that it is for.
pub(crate) fn notices(crates: &BTreeMap<Key, Crate>) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for (key, part) in crates.iter().filter(|(_, part)| part.checksum.is_some()) {
        let title = format!("{} {} ({})", key.name, key.version, part.licence);
        let mut texts_here = Vec::new();
        for file in licence_files(&part.directory)? {
            let text = fs::read_to_string(&file).context(file.display())?.replace("\r\n", "\n");
            // One line is where a link to the text was.
            if text.trim().contains('\n') {
                texts_here.push(text.trim().to_owned());
            }
        }
        if texts_here.is_empty() {
            without.push(title.clone());
        }
        for text in texts_here {
            texts.entry(text).or_default().push(title.clone());
        }
    }
    let mut notices = String::from(
        "Strongroom contains the libraries below, under these licences, and Rust's standard library, under MIT OR\n\
         Apache-2.0.\n",
    );
    for (text, titles) in &texts {
        notices.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), titles.join("\n")));
    }
    if !without.is_empty() {
        let line = "=".repeat(80);
        notices.push_str(&format!(
            "\n{line}\nThese come without a text of their own; it is one of those above:\n{}\n",
            without.join("\n")
        ));
    }
    Ok(notices)
}

/// In their order by name.
fn licence_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).context(directory.display())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_one = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|start| name.starts_with(start));
        if is_one && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, version: &str) -> Key {
        Key { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn depths_make_a_graph() -> Result {
        let graph = graph("0top v0.1.0 (/here)\n1a v1.0.0\n2b v2.0.0+meta\n1c2 v3.0.0\n2a v1.0.0 (*)\n")?;
        assert_eq!(graph.len(), 4);
        assert_eq!(graph[&key("top", "0.1.0")], [key("a", "1.0.0"), key("c2", "3.0.0")].into());
        assert_eq!(graph[&key("a", "1.0.0")], [key("b", "2.0.0+meta")].into());
        assert_eq!(graph[&key("c2", "3.0.0")], [key("a", "1.0.0")].into());
        Ok(())
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        assert!(graph("error: no such package\n").is_err());
        assert!(graph("0top v0.1.0\n2deep v1.0.0\n").is_err());
    }

    #[test]
    fn sums_stand_in_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\nchecksum = \
                    \"00ff\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        assert_eq!(checksums(lock), [(key("a", "1.0.0"), "00ff".to_owned())].into());
    }

    #[test]
    fn each_text_stands_there_once_and_a_link_is_none() -> Result {
        let directory = tempfile::tempdir()?;
        let mut crates = BTreeMap::new();
        for (name, text) in
            [("a", "Permission\nis granted"), ("b", "Permission\r\nis granted\n"), ("c", "../LICENSE")]
        {
            let here = directory.path().join(name);
            fs::create_dir(&here)?;
            fs::write(here.join("LICENSE-MIT"), text)?;
            let part = Crate {
                licence: "MIT".to_owned(),
                checksum: Some("00".to_owned()),
                directory: here,
                needs: BTreeSet::new(),
            };
            crates.insert(key(name, "1.0.0"), part);
        }
        let notices = notices(&crates)?;
        assert_eq!(notices.matches("Permission\nis granted").count(), 1);
        assert!(notices.contains("a 1.0.0 (MIT)\nb 1.0.0 (MIT)\n\nPermission"), "{notices}");
        assert!(notices.ends_with("above:\nc 1.0.0 (MIT)\n"), "{notices}");
        Ok(())
    }
}
