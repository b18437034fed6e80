//! Lines of rate against size, both on logarithmic scales, as inline SVG.
//!
//! Colours and widths come from the page's style by class, so that a picture is
//! right on light and dark and on paper. Lines differ by their dashes too, and the
//! legend stands in text below: nothing depends on colour alone.

use maud::{Markup, html};

use super::words::rate;
use crate::report::bytes;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;
/// Line styles that the page defines.
pub(super) const STYLES: usize = 6;

/// One line.
pub(super) struct Line<'c> {
    pub(super) label: &'c str,
    /// Bytes and bytes a second, the smallest first.
    pub(super) points: Vec<(u64, f64)>,
}

/// A picture.
pub(super) struct Chart<'c> {
    pub(super) title: &'c str,
    pub(super) lines: Vec<Line<'c>>,
    /// Sizes from which on another line is the highest.
    pub(super) marks: Vec<u64>,
}

/// Where figures are in the picture.
struct Scale {
    sizes: (f64, f64),
    /// Exponents of ten.
    rates: (f64, f64),
}

impl Scale {
    fn of(chart: &Chart<'_>) -> Option<Scale> {
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let fold = |of: &dyn Fn(&(u64, f64)) -> f64| {
            points().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            })
        };
        let sizes = fold(&|(bytes, _)| (*bytes as f64).log2());
        let rates = fold(&|(_, rate)| rate.max(1.0).log10());
        (sizes.1 > sizes.0)
            .then(|| Scale { sizes, rates: (rates.0.floor(), rates.1.ceil().max(rates.0.floor() + 1.0)) })
    }

    fn x(&self, bytes: u64) -> f64 {
        let share = ((bytes as f64).log2() - self.sizes.0) / (self.sizes.1 - self.sizes.0);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, rate: f64) -> f64 {
        let share = (rate.max(1.0).log10() - self.rates.0) / (self.rates.1 - self.rates.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// Draws it; nothing of fewer than two sizes.
pub(super) fn draw(chart: &Chart<'_>) -> Markup {
    let Some(scale) = Scale::of(chart) else { return html! {} };
    let decades = scale.rates.0 as i32..=scale.rates.1 as i32;
    let mut sizes: Vec<u64> =
        chart.lines.iter().flat_map(|line| line.points.iter().map(|(bytes, _)| *bytes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Text at each second size, so that none meets the next.
    let ticks: Vec<u64> = sizes.iter().copied().step_by(if sizes.len() > 4 { 2 } else { 1 }).collect();
    let path = |line: &Line<'_>| {
        let points = line.points.iter();
        let points: Vec<String> =
            points.map(|(bytes, rate)| format!("{:.1},{:.1}", scale.x(*bytes), scale.y(*rate))).collect();
        points.join(" ")
    };
    html! {
        figure {
            figcaption { (chart.title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(chart.title) {
                @for decade in decades {
                    @let y = scale.y(10f64.powi(decade));
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(format!("{y:.1}")) y2=(format!("{y:.1}")) {}
                    text.tick x=(LEFT - 6.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (rate(10f64.powi(decade)).replacen(".0 ", " ", 1)) }
                }
                @for size in &ticks {
                    @let x = format!("{:.1}", scale.x(*size));
                    text.tick x=(x) y=(HEIGHT - 10.0) text-anchor="middle" { (bytes(*size)) }
                }
                @for mark in &chart.marks {
                    @let x = format!("{:.1}", scale.x(*mark));
                    line.mark x1=(x) x2=(x) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                }
                @for (at, line) in chart.lines.iter().enumerate() {
                    polyline class=(format!("l{}", at % STYLES)) points=(path(line)) {}
                    @for (bytes, rate) in &line.points {
                        circle class=(format!("d{}", at % STYLES)) cx=(format!("{:.1}", scale.x(*bytes))) cy=(format!("{:.1}", scale.y(*rate))) r="2.2" {}
                    }
                }
            }
            ul.legend {
                @for (at, line) in chart.lines.iter().enumerate() {
                    li {
                        svg.swatch viewBox="0 0 26 8" aria-hidden="true" {
                            line class=(format!("l{}", at % STYLES)) x1="0" x2="26" y1="4" y2="4" {}
                        }
                        (line.label)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_line_and_what_changes() {
        let line =
            |label, rate| Line { label, points: vec![(512, rate), (4096, 2.0 * rate), (65536, 4.0 * rate)] };
        let chart =
            Chart { title: "a < b", lines: vec![line("one", 1e9), line("two", 3e8)], marks: vec![4096] };
        let drawn = draw(&chart).into_string();
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 6);
        assert!(drawn.contains("a &lt; b") && drawn.contains("class=\"mark\""), "{drawn}");
        // The faster line is the higher one, and both are within the picture.
        let scale = Scale::of(&chart).expect("three sizes");
        assert!(scale.y(4e9) < scale.y(1.2e9));
        assert!(
            (TOP..=HEIGHT - BOTTOM).contains(&scale.y(4e9))
                && (TOP..=HEIGHT - BOTTOM).contains(&scale.y(3e8))
        );
        assert!((scale.x(512) - LEFT).abs() < 1e-9 && (scale.x(65536) - (WIDTH - RIGHT)).abs() < 1e-9);
    }

    #[test]
    fn one_size_is_no_line() {
        let chart =
            Chart { title: "t", lines: vec![Line { label: "one", points: vec![(512, 1e9)] }], marks: vec![] };
        assert_eq!(draw(&chart).into_string(), "");
    }
}
