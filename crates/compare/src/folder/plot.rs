//! The ratios as a picture: for each row, how many times faster than each peer, with its bounds.

use std::path::Path;

use plotters::coord::ranged1d::{IntoSegmentedCoord, SegmentValue};
use plotters::prelude::*;

use crate::folder::summary::Summary;
use strongroom_harness::failure::{Failure, Result};

const WIDTH: u32 = 1200;
const ROW_HEIGHT: u32 = 22;
/// Told apart by people who see red and green alike (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("drawing: {error}"))
}

/// Draws the ratios of one store into `file`.
pub(super) fn draw(summary: &Summary<'_>, file: &Path) -> Result {
    let mut rows: Vec<_> = summary
        .rows
        .iter()
        .filter(|row| summary.peers().any(|peer| summary.judged(row, peer).is_some()))
        .collect();
    rows.reverse();
    if rows.is_empty() {
        return Ok(());
    }
    let judged = |row, peer| summary.judged(row, peer);
    let most = rows
        .iter()
        .flat_map(|row| summary.peers().filter_map(|peer| Some(judged(row, peer)?.ratio.high)))
        .fold(2.0, f64::max);
    let least = rows
        .iter()
        .flat_map(|row| summary.peers().filter_map(|peer| Some(judged(row, peer)?.ratio.low)))
        .fold(0.5, f64::min);
    let names: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
    let height = 110 + ROW_HEIGHT * names.len() as u32;
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Strongroom's speed over each peer's, {}", summary.store), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(190)
        .build_cartesian_2d((least.max(0.02)..most.min(200.0)).log_scale(), (0..names.len()).into_segmented())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("times faster (logarithmic; right of 1 ours is faster)")
        .y_labels(names.len())
        .y_label_formatter(&|value| match value {
            SegmentValue::CenterOf(index) => names.get(*index).cloned().unwrap_or_default(),
            _ => String::new(),
        })
        .x_label_formatter(&|value| format!("{value:.2}"))
        .label_style(("sans-serif", 12))
        .draw()
        .map_err(failed)?;
    let whole = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Last)];
    chart.draw_series(LineSeries::new(whole, BLACK.stroke_width(2))).map_err(failed)?;
    for (index, peer) in summary.peers().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<_> = rows
            .iter()
            .enumerate()
            .filter_map(|(index, row)| Some((index, judged(row, peer)?.ratio)))
            .collect();
        chart
            .draw_series(points.iter().map(|(index, ratio)| {
                let ends = [ratio.low, ratio.high].map(|value| (value, SegmentValue::CenterOf(*index)));
                PathElement::new(ends.to_vec(), colour.stroke_width(2))
            }))
            .map_err(failed)?;
        chart
            .draw_series(points.iter().map(|(index, ratio)| {
                Circle::new((ratio.mean, SegmentValue::CenterOf(*index)), 4, colour.filled())
            }))
            .map_err(failed)?
            .label(peer.program())
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK)
        .label_font(("sans-serif", 13))
        .draw()
        .map_err(failed)?;
    area.present().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::rows;
    use crate::folder::state::Record;
    use strongroom_harness::subject::Kind;

    #[test]
    fn a_picture_names_rows_and_peers() -> Result {
        let rows: Vec<_> = rows::all().into_iter().take(3).collect();
        let kinds = [Kind::Strongroom, Kind::Gocryptfs];
        let record = |row: &str, subject: Kind, repeat, seconds| Record {
            store: "tmpfs".into(),
            row: row.into(),
            subject: subject.program().into(),
            variant: String::new(),
            repeat,
            seconds,
            bytes: 1 << 20,
            operations: 1,
            cpu_seconds: 0.0,
            busy_seconds: 0.0,
            idle_seconds: 0.0,
        };
        let records: Vec<_> = rows
            .iter()
            .flat_map(|row| {
                (0..3).flat_map(move |repeat| {
                    let later = repeat as f64 / 10.0;
                    [(Kind::Strongroom, 1.0 + later), (Kind::Gocryptfs, 2.0)]
                        .map(|(kind, seconds)| record(&row.key, kind, repeat, seconds))
                })
            })
            .collect();
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("ratios.svg");
        draw(&Summary::new("tmpfs", &rows, &kinds, &records), &file)?;
        let text = std::fs::read_to_string(file)?;
        assert!(
            text.starts_with("<svg") && text.contains("gocryptfs") && text.contains(&rows[2].key),
            "{text}"
        );
        Ok(())
    }
}
