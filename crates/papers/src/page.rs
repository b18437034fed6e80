//! `docs/papers.md`: what the replays come to, as a page.

use std::fmt::Write as _;

use crate::table::{Errors, Replay, Table};
use crate::{NAMES, replay};

const HEAD: &str = "# Five papers replayed\n\n\
    Five documents on accelerated storage encryption end in tables and figures. `strongroom simulate NAME` \
    prints each figure whose number the text gives, ours beside it, and their ratio: *fitted* where a parameter \
    of the model was computed from that figure, *predicted* where nothing was. Figures that exist only as \
    pictures are named. This page is made by `cargo xtask papers`; a test fails where it is not what the models \
    say.\n";

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 1e2)
}

fn row(table: &Table) -> String {
    let Errors { predicted, fitted, fitted_worst, median, ninth_decile, worst } = table.errors();
    let errors = if predicted == 0 {
        "| - | - | -".to_owned()
    } else {
        format!("| {} | {} | {}", percent(median), percent(ninth_decile), percent(worst))
    };
    let (title, source, model) = (&table.title, table.source, table.model);
    let fitted =
        if fitted == 0 { "0".to_owned() } else { format!("{fitted} (within {})", percent(fitted_worst)) };
    format!("| {title} ({source}) | {model} | {fitted} | {predicted} {errors} |")
}

fn section(replay: &Replay) -> String {
    let mut text = format!("\n## {}: {}\n", replay.name, replay.title);
    if !replay.tables.is_empty() {
        text.push_str("\n| table | model | fitted | predicted | error, median | 90 % | worst |\n");
        text.push_str("|---|---|---|---|---|---|---|\n");
        for table in &replay.tables {
            let _ = writeln!(text, "{}", row(table));
        }
    }
    text.push_str("\n| the document | here | |\n|---|---|---|\n");
    for claim in &replay.claims {
        let agrees = if claim.agrees { "agrees" } else { "**does not agree**" };
        let _ = writeln!(text, "| {} ({}) | {} | {agrees} |", claim.published, claim.source, claim.ours);
    }
    let _ = writeln!(text, "\nPictures without numbers: {}. Left out:\n", replay.pictures);
    for left_out in &replay.left_out {
        let _ = writeln!(text, "- {left_out}.");
    }
    text
}

/// The whole page, in Markdown.
#[must_use]
pub fn write() -> String {
    let sections = NAMES.iter().filter_map(|name| replay(name)).map(|replay| section(&replay));
    std::iter::once(HEAD.to_owned()).chain(sections).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_what_the_models_say() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/papers.md");
        let kept = std::fs::read_to_string(page).expect("docs/papers.md");
        assert!(
            kept == super::write(),
            "docs/papers.md is not what the models say: `cargo xtask papers` writes it"
        );
    }
}
