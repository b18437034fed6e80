//! A run as a picture: what each engine computed and how busy the CPUs were.

use std::path::Path;

use plotters::prelude::*;
use strongroom_sim::{Host, Report, Workload};

use crate::failure::{Exit, Failure, Result};

const SIZE: (u32, u32) = (1000, 500);
/// Told apart by people who see red and green alike (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];

/// Writes the picture.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn draw(host: &Host, workload: &Workload, report: &Report, file: &Path) -> Result<()> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Other, format!("drawing: {error}")).at(file);
    // The library writes when the drawing is dropped and would hide an error.
    let mut svg = String::new();
    chart(host, workload, report, &mut svg).map_err(|error| failed(&error))?;
    std::fs::write(file, svg).map_err(|error| Failure::system(file, &error))
}

fn chart(
    host: &Host,
    workload: &Workload,
    report: &Report,
    svg: &mut String,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let parts = report.intervals.len().max(1) as f64;
    let seconds = report.duration_ns as f64 / 1e9;
    let width = seconds / parts;
    let rate = |bytes: u64| bytes as f64 / 1e6 / width;
    let sums = || report.intervals.iter().map(|interval| interval.bytes.iter().sum::<u64>());
    let most = sums().map(rate).fold(1.0, f64::max) * 1.08;
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{} under {}", host.name, workload.name), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .right_y_label_area_size(50)
        .build_cartesian_2d(0.0..seconds, 0.0..most)?
        .set_secondary_coord(0.0..seconds, 0.0..100.0f64);
    chart.configure_mesh().x_desc("virtual time in seconds").y_desc("MB/s").draw()?;
    chart.configure_secondary_axes().y_desc("CPU used in per cent").draw()?;
    for (at, engine) in report.engines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points = report.intervals.iter().enumerate();
        let points = points.map(|(part, interval)| ((part as f64 + 0.5) * width, rate(interval.bytes[at])));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(engine.engine.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let capacity = f64::from(host.cpus) * width * 1e9;
    let used = report.intervals.iter().enumerate();
    let used = used.map(|(part, interval)| {
        ((part as f64 + 0.5) * width, (interval.busy_ns as f64 * 100.0 / capacity).min(100.0))
    });
    let grey = RGBColor(150, 150, 150);
    chart
        .draw_secondary_series(LineSeries::new(used, grey.stroke_width(1)))?
        .label("CPU used")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey.stroke_width(1)));
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
