//! Puts the results under `bench/results` into `docs/benchmarks.md`.
//!
//! A table stands in the page between two comments. The first names the file, the table in it and the rows that
//! are shown, separated by semicolons (all without a colon); the second is `<!-- end -->`:
//!
//! ```text
//! <!-- bench/results/disk.json judged: aes-xts-plain64 | read; serpent-xts-plain64 | read -->
//! <!-- end -->
//! ```

use std::fs;
use std::path::Path;

use clap::Args;

use crate::result::Document;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::workspace;

const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- bench/results/";
const END: &str = "<!-- end -->";

#[derive(Args)]
pub(crate) struct PageArgs {
    /// Changes nothing, and fails when the page does not show the results
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &PageArgs) -> Result {
    let path = workspace::root().join(PAGE);
    let page = fs::read_to_string(&path).context(PAGE)?;
    let filled = filled(&page, &workspace::root())?;
    if arguments.check {
        ensure!(page == filled, "{PAGE} does not show the results: run `cargo xtask bench page`");
    } else {
        fs::write(&path, filled).context(PAGE)?;
    }
    Ok(())
}

/// The page with every table of its results in place of what stood there.
///
/// # Errors
/// A comment names no file, table or row that exists, or has no end.
fn filled(page: &str, root: &Path) -> Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        if line.starts_with(BEGIN) {
            text.push_str(&format!("\n{}\n{END}\n", shown(line, root)?));
            ensure!(lines.by_ref().any(|line| line == END), "{PAGE}: no end of `{line}`");
        }
    }
    Ok(text)
}

/// What a comment asks for: the table, and below where it comes from.
fn shown(comment: &str, root: &Path) -> Result<String> {
    let wanted = comment.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
    let (file, rest) = wanted
        .and_then(|wanted| wanted.split_once(' '))
        .ok_or_else(|| Failure::new(format!("{PAGE}: `{comment}` names no file and table")))?;
    let (name, rows) =
        rest.split_once(": ").map_or((rest, Vec::new()), |(name, rows)| (name, rows.split("; ").collect()));
    let document = Document::read(&root.join(file))?;
    let table = document.table(name)?.chosen(&rows).context(file)?;
    Ok(format!("{}\n\n{}\n*{}*\n", table.title, table.markdown(), document.origin()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_the_results() -> Result {
        run(&PageArgs { check: true })
    }

    #[test]
    fn every_result_is_read_and_shown() -> Result {
        let page = fs::read_to_string(workspace::root().join(PAGE))?;
        let mut results = 0;
        for entry in fs::read_dir(workspace::root().join("bench/results"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let document = Document::read(&path)?;
                let name = format!("{BEGIN}{}.json ", document.benchmark);
                assert!(path.ends_with(format!("{}.json", document.benchmark)), "{}", path.display());
                assert!(page.contains(&name), "{name}");
                results += 1;
            }
        }
        assert!(results >= 6);
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let root = workspace::root();
        for comment in [
            "<!-- bench/results/none.json floor -->",
            "<!-- bench/results/floor.json none -->",
            "<!-- bench/results/floor.json floor: no such row -->",
            "<!-- bench/results/floor.json -->",
        ] {
            assert!(filled(&format!("{comment}\n{END}\n"), &root).is_err(), "{comment}");
        }
        assert!(filled("<!-- bench/results/floor.json floor -->\n", &root).is_err());
        assert!(filled("text\n", &root).is_ok_and(|text| text == "text\n"));
    }

    #[test]
    fn what_stood_there_is_replaced() -> Result {
        let root = workspace::root();
        let comment = "<!-- bench/results/floor.json floor: unpacking -->";
        let once = filled(&format!("before\n\n{comment}\nold\n{END}\n\nafter\n"), &root)?;
        assert!(once.contains("| unpacking small files |") && !once.contains("old"), "{once}");
        assert!(once.starts_with("before\n\n") && once.ends_with("\n\nafter\n"));
        assert_eq!(filled(&once, &root)?, once);
        Ok(())
    }
}
