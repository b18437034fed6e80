//! A document replayed: its figures, ours beside them.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_papers::{Errors, Origin, Replay, Table};

/// `strongroom.simulate-paper/1`.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    #[serde(flatten)]
    replay: Replay,
    /// Of each table, in its order.
    errors: Vec<Errors>,
}

impl Document {
    pub(super) fn new(replay: Replay) -> Document {
        let errors = replay.tables.iter().map(Table::errors).collect();
        Document { schema: "strongroom.simulate-paper/1", replay, errors }
    }

    pub(super) fn text(&self) -> String {
        let replay = &self.replay;
        let mut text = format!("{}: {}\n", replay.name, replay.title);
        for (table, errors) in replay.tables.iter().zip(&self.errors) {
            text.push_str(&table_text(table, errors));
        }
        text.push_str("\nWhat it says, and what comes of it here:\n");
        for claim in &replay.claims {
            let verdict = if claim.agrees { "agrees" } else { "does not agree" };
            let _ = writeln!(text, "  {}: {}", claim.source, claim.published);
            let _ = writeln!(text, "    {verdict}: {}", claim.ours);
        }
        let _ = writeln!(text, "\nPictures without numbers in the text: {}", replay.pictures);
        for left_out in &replay.left_out {
            let _ = writeln!(text, "Left out: {left_out}");
        }
        text
    }
}

fn table_text(table: &Table, errors: &Errors) -> String {
    let mut text = format!("\n{} ({}), {}\n{}\n", table.title, table.source, table.unit, table.model);
    let width = |of: fn(&strongroom_papers::Cell) -> &String| {
        table.cells.iter().map(|cell| of(cell).chars().count()).max().unwrap_or(0)
    };
    let (rows, columns) = (width(|cell| &cell.row), width(|cell| &cell.column));
    let _ = writeln!(text, "  {:rows$}  {:columns$}  published      ours  ratio", "", "");
    for cell in &table.cells {
        let origin = match cell.origin {
            Origin::Fitted => "fitted",
            Origin::Predicted => "predicted",
        };
        let _ = writeln!(
            text,
            "  {:rows$}  {:columns$}  {:9.2} {:9.2}  {:5.2}  {origin}",
            cell.row,
            cell.column,
            cell.published,
            cell.ours,
            cell.ours / cell.published
        );
    }
    let _ = write!(text, "  {} fitted, within {:.1} %", errors.fitted, errors.fitted_worst * 100.0);
    let _ = match errors.predicted {
        0 => writeln!(text, "; none predicted"),
        count => writeln!(
            text,
            "; {count} predicted: median error {:.1} %, nine in ten within {:.1} %, worst {:.1} %",
            errors.median * 100.0,
            errors.ninth_decile * 100.0,
            errors.worst * 100.0
        ),
    };
    text
}
