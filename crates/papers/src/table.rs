//! What a replay is made of: published figures, and ours beside them.

use serde::Serialize;

/// How a figure of ours came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A parameter was computed from this figure, so that it has to agree.
    Fitted,
    /// Nothing was computed from this figure.
    Predicted,
}

/// One published figure and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// What is measured: the table's row.
    pub row: String,
    /// Under which condition: the table's column.
    pub column: String,
    /// The document's figure, in the table's unit.
    pub published: f64,
    /// The model's, in the same unit.
    pub ours: f64,
    /// Whether the model was fitted on this figure.
    pub origin: Origin,
}

impl Cell {
    /// Ours over the published figure, less one.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.ours / self.published - 1.0
    }
}

/// A table of one document, replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Where it stands in the document.
    pub source: &'static str,
    /// Of all its figures.
    pub unit: &'static str,
    /// How ours are computed, and from what.
    pub model: &'static str,
    /// Its figures, row by row.
    pub cells: Vec<Cell>,
}

/// Errors of the predicted figures of a table, as shares of the published ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Figures that were predicted.
    pub predicted: usize,
    /// Figures that were fitted, which the other errors leave out.
    pub fitted: usize,
    /// The largest error of those: what the model cannot express.
    pub fitted_worst: f64,
    /// Half of the predictions err by no more.
    pub median: f64,
    /// Nine in ten err by no more.
    pub ninth_decile: f64,
    /// The largest.
    pub worst: f64,
}

impl Errors {
    /// Of all these figures; zeros where none was predicted.
    #[must_use]
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Errors {
        let (fitted, predicted): (Vec<_>, Vec<_>) =
            cells.into_iter().partition(|cell| cell.origin == Origin::Fitted);
        let most = fitted.iter().map(|cell| cell.error().abs()).fold(0.0, f64::max);
        let mut errors: Vec<f64> = predicted.iter().map(|cell| cell.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let index = (share * errors.len() as f64) as usize;
            errors.get(index.min(errors.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        Errors {
            predicted: predicted.len(),
            fitted: fitted.len(),
            fitted_worst: most,
            median: quantile(0.5),
            ninth_decile: quantile(0.9),
            worst: errors.last().copied().unwrap_or(0.0),
        }
    }
}

impl Table {
    /// Errors of its predictions.
    #[must_use]
    pub fn errors(&self) -> Errors {
        Errors::of(&self.cells)
    }
}

/// A sentence of the document that holds a figure or a comparison, and what comes of it here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Where it stands in the document.
    pub source: &'static str,
    /// What the document says, in our words.
    pub published: &'static str,
    /// What the model or plain arithmetic says.
    pub ours: String,
    /// Whether the two agree.
    pub agrees: bool,
}

/// A document, replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// Its name, of [`crate::NAMES`].
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its sentences.
    pub claims: Vec<Claim>,
    /// Tables and figures without a number of ours, and why.
    pub left_out: Vec<&'static str>,
    /// Figures that are pictures, without numbers in the text.
    pub pictures: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_predictions_alone() {
        let cell = |ours: f64, origin| Cell {
            row: String::new(),
            column: String::new(),
            published: 100.0,
            ours,
            origin,
        };
        let predicted = [101.0, 98.0, 110.0, 100.0, 95.0].map(|ours| cell(ours, Origin::Predicted));
        let all: Vec<Cell> = predicted.into_iter().chain([cell(500.0, Origin::Fitted)]).collect();
        let errors = Errors::of(&all);
        assert_eq!((errors.predicted, errors.fitted), (5, 1));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(errors.median, 0.02) && near(errors.worst, 0.10) && near(errors.ninth_decile, 0.10));
        assert!(near(errors.fitted_worst, 4.0));
        assert_eq!(Errors::of([]).worst, 0.0);
    }
}
