//! The documents as a book (mdBook), and the check that what they refer to is there.
//!
//! The book's source is staged under the target directory: the pages at the root of the repository and the
//! directories that they link to beside each other as they lie here, so that their links hold in both places.
//! Only `docs/SUMMARY.md`, which mdBook wants at the top, is rewritten.

mod links;
mod markdown;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages::{self, Tool};
use strongroom_harness::workspace;

/// MPL-2.0; only ever run.
const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", options: &["--no-default-features", "--features", "search"] };
const BUILD_LIMIT: Duration = Duration::from_secs(120);
const SUMMARY: &str = "docs/SUMMARY.md";
/// Directories that are in the book as a whole.
const STAGED: [&str; 3] = ["docs", "bench/results", "packaging"];

#[derive(Args)]
pub(crate) struct BookArgs {
    /// Only checks links, anchors and the functions that ARCHITECTURE.md names; builds nothing
    #[arg(long)]
    check: bool,
}

/// Checks the documents and builds the book.
pub(crate) fn run(arguments: &BookArgs) -> Result {
    let root = workspace::root();
    let mut wrong = links::broken(&root)?;
    wrong.extend(traces::missing(&root)?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    if arguments.check {
        println!("every link, anchor and function that the documents name is there");
        return Ok(());
    }
    let mdbook = packages::tool(&MDBOOK)?;
    let book = workspace::target()?.join("book");
    stage(&root, &book)?;
    let mut command = std::process::Command::new(mdbook);
    command.arg("build").arg(&book);
    command::output(&mut command, BUILD_LIMIT)?;
    let html = book.join("html");
    let missing = unresolved(&html)?;
    ensure!(missing.is_empty(), "the book has links to nothing:\n{}", missing.join("\n"));
    println!("{}", html.join("index.html").display());
    Ok(())
}

/// Makes the source of the book anew.
fn stage(root: &Path, book: &Path) -> Result {
    let source = book.join("source");
    for old in [&source, &book.join("html")] {
        if old.exists() {
            fs::remove_dir_all(old).context(old.display())?;
        }
    }
    fs::create_dir_all(&source)?;
    fs::copy(root.join("book.toml"), book.join("book.toml")).context("book.toml")?;
    for path in links::files(root)?.iter().filter(|path| is_staged(path)) {
        let to = source.join(path);
        fs::create_dir_all(to.parent().expect("a file is in a directory"))?;
        fs::copy(root.join(path), &to).context(path.display())?;
    }
    fs::remove_file(source.join(SUMMARY)).context(SUMMARY)?;
    let summary = fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    Ok(fs::write(source.join("SUMMARY.md"), from_the_top(&summary))?)
}

/// Whether a file of the repository is part of the book's source.
fn is_staged(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let is_page = !name.contains('/') && (name.ends_with(".md") || name.starts_with("LICENSE"));
    is_page || STAGED.iter().any(|directory| path.starts_with(directory))
}

/// The summary with the paths that hold at the top.
fn from_the_top(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

/// Pages of the rendered book that refer to files which are not in it.
fn unresolved(html: &Path) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for page in pages(html)? {
        let text = fs::read_to_string(&page).context(page.display())?;
        let directory = page.parent().ok_or_else(|| Failure::new("a page without a directory"))?;
        for target in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let is_elsewhere = path.is_empty() || path.contains(':') || path.starts_with('/');
            if !is_elsewhere && !directory.join(path).exists() {
                missing.push(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok(missing)
}

fn pages(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).context(directory.display())? {
        let path = entry?.path();
        // The page for paths that do not exist has links from the top of a site.
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "html") && !path.ends_with("404.html") {
            pages.push(path);
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_anchors_and_functions_of_the_documents_are_there() -> Result {
        run(&BookArgs { check: true })
    }

    #[test]
    fn what_pages_link_to_is_in_the_book() -> Result {
        let root = workspace::root();
        let mut outside = Vec::new();
        for page in links::files(&root)?.iter().filter(|path| is_staged(path)) {
            if page.extension().is_some_and(|kind| kind == "md") {
                let found = markdown::links(&fs::read_to_string(root.join(page))?);
                let own = found.iter().filter(|link| !link.contains(':') && !link.starts_with('#'));
                let strays = own.filter(|link| {
                    let path = link.split('#').next().unwrap_or_default();
                    !links::beside(page, path).is_some_and(|target| is_staged(&target))
                });
                outside.extend(strays.map(|link| format!("{}: {link}", page.display())));
            }
        }
        assert!(outside.is_empty(), "{outside:?}");
        Ok(())
    }

    #[test]
    fn every_page_is_in_the_summary() -> Result {
        let root = workspace::root();
        let summary = from_the_top(&fs::read_to_string(root.join(SUMMARY))?);
        let pages = links::files(&root)?;
        let pages = pages.iter().map(|path| path.to_string_lossy()).filter(|path| {
            path.ends_with(".md") && *path != SUMMARY && (!path.contains('/') || path.starts_with("docs/"))
        });
        let absent: Vec<_> = pages.filter(|page| !summary.contains(&format!("]({page})"))).collect();
        assert!(absent.is_empty(), "{absent:?}");
        Ok(())
    }

    #[test]
    fn a_link_of_the_rendered_book_to_nothing_is_found() -> Result {
        let directory = tempfile::tempdir()?;
        let page = "<a href=\"other.html#x\">a</a> <a href=\"https://x\">b</a> <a href=\"#y\">c</a>";
        fs::write(directory.path().join("page.html"), page)?;
        assert_eq!(unresolved(directory.path())?.len(), 1);
        fs::write(directory.path().join("other.html"), "")?;
        assert_eq!(unresolved(directory.path())?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn the_summary_is_moved_to_the_top() {
        assert_eq!(from_the_top("[a](../A.md) [b](format/b.md)"), "[a](A.md) [b](docs/format/b.md)");
    }
}
