//! Links of documents, and what comments of the source say of documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::markdown;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};

/// Files of the repository, from its root, that Git does not ignore.
pub(super) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = command::output(&mut git, Duration::from_secs(60))?;
    let files: Vec<PathBuf> =
        list.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect();
    ensure!(!files.is_empty(), "Git lists no files");
    Ok(files)
}

/// One line for each link or mention of a document whose file or anchor is not there.
pub(super) fn broken(root: &Path) -> Result<Vec<String>> {
    let files = files(root)?;
    let mut targets = Targets { files: files.iter().cloned().collect(), anchors: BTreeMap::new() };
    for file in of_kind(&files, "md") {
        let text = fs::read_to_string(root.join(file)).context(file.display())?;
        targets.anchors.insert(file.clone(), markdown::anchors(&text));
    }
    let mut broken = Vec::new();
    for file in of_kind(&files, "md") {
        let text = fs::read_to_string(root.join(file)).context(file.display())?;
        let links = markdown::links(&text);
        let wrong = links.iter().filter(|link| !targets.has(file, link));
        broken.extend(wrong.map(|link| format!("{}: {link}", file.display())));
    }
    for file in of_kind(&files, "rs") {
        let text = fs::read_to_string(root.join(file)).context(file.display())?;
        let mentions = mentions(&text);
        let wrong = mentions.iter().filter(|mention| !targets.has(Path::new(""), mention));
        broken.extend(wrong.map(|mention| format!("{}: {mention}", file.display())));
    }
    Ok(broken)
}

fn of_kind<'a>(files: &'a [PathBuf], kind: &'a str) -> impl Iterator<Item = &'a PathBuf> {
    files.iter().filter(move |file| file.extension().is_some_and(|extension| extension == kind))
}

/// What can be referred to.
struct Targets {
    files: BTreeSet<PathBuf>,
    /// Of each document.
    anchors: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Targets {
    /// Whether what `file` refers to is there. What other sites have is not looked at.
    fn has(&self, file: &Path, link: &str) -> bool {
        if link.contains("://") || link.starts_with("mailto:") {
            return true;
        }
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() { Some(file.to_path_buf()) } else { beside(file, path) };
        let Some(target) = target else { return false };
        let is_there =
            self.files.contains(&target) || self.files.iter().any(|file| file.starts_with(&target));
        let has_anchor = |anchor: &str| self.anchors.get(&target).is_some_and(|all| all.contains(anchor));
        is_there && anchor.is_none_or(has_anchor)
    }
}

/// The path from the root of what `file` calls `path`; none above the root.
pub(super) fn beside(file: &Path, path: &str) -> Option<PathBuf> {
    let mut target = file.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => target.pop().then_some(())?,
            Component::Normal(name) => target.push(name),
            _ => {}
        }
    }
    Some(target)
}

/// Documents that a source's comments name from the repository's root, with their anchors, as
/// `docs/pacing.md#transports`.
fn mentions(source: &str) -> Vec<String> {
    let mut mentions = Vec::new();
    for line in source.lines().map(str::trim_start).filter(|line| line.starts_with("//")) {
        for word in line.split(|sign: char| !(sign.is_alphanumeric() || "/._-#".contains(sign))) {
            let word = word.trim_end_matches('.');
            let path = word.split('#').next().unwrap_or_default();
            let is_page = path.ends_with(".md") && (path.starts_with("docs/") || path == "ARCHITECTURE.md");
            if is_page {
                mentions.push(word.to_owned());
            }
        }
    }
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        let files = ["README.md", "docs/a.md", "docs/format/b.md", "docs/c.json"].map(PathBuf::from);
        let anchors = [(PathBuf::from("docs/a.md"), BTreeSet::from(["one".to_owned()]))];
        Targets { files: files.into(), anchors: anchors.into() }
    }

    #[test]
    fn links_hold_from_where_they_stand() {
        let has = |file, link| targets().has(Path::new(file), link);
        assert!(
            has("README.md", "docs/a.md")
                && has("docs/a.md", "#one")
                && has("docs/format/b.md", "../a.md#one")
        );
        assert!(
            has("docs/a.md", "../README.md") && has("README.md", "docs/format") && has("docs/a.md", "c.json")
        );
        assert!(has("README.md", "https://example.org/x#y"));
        assert!(!has("docs/a.md", "docs/a.md") && !has("docs/a.md", "#two") && !has("README.md", "#one"));
        assert!(!has("README.md", "../x.md") && !has("docs/a.md", "c.json#one"));
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        let source = "//! As (`docs/a.md#one`).\nlet x = \"docs/no.md\";\n    // docs/format/b.md, and ARCHITECTURE.md\n";
        assert_eq!(mentions(source), ["docs/a.md#one", "docs/format/b.md", "ARCHITECTURE.md"]);
    }
}
