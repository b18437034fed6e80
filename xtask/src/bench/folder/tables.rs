//! A store's results as Markdown tables: rates, ratios with what is asked of them, and four jobs over one.

use crate::bench::folder::rows::Row;
use crate::bench::folder::statistics::{Ratio, half_spread};
use crate::bench::folder::summary::{Cell, Judged, Summary, Target};
use crate::bench::ratio::median;
use crate::subject::Kind;

pub(super) fn tables(summary: &Summary<'_>) -> String {
    let store = summary.store;
    let mut text = format!("### Rates on {store}\n\n{}\n", rates(summary));
    text.push_str(&format!("### Ratios on {store}\n\n{}\n", ratios(summary)));
    text.push_str(&format!("### Four jobs over one on {store}\n\n{}\n", jobs(summary)));
    text.push_str(&format!("### What the CPUs did on {store}\n\n{}", loads(summary)));
    text
}

fn rates(summary: &Summary<'_>) -> String {
    let header = summary.kinds.iter().map(|kind| kind.program().to_owned()).collect();
    let rows = summary.rows.iter().map(|row| {
        let cells = summary.kinds.iter().map(|kind| summary.cell(&row.key, *kind));
        (row.key.clone(), cells.map(|cell| cell.as_ref().map(rate_text)).collect())
    });
    table(header, rows)
}

fn ratios(summary: &Summary<'_>) -> String {
    let mut header: Vec<String> = summary.peers().map(|peer| format!("over {}", peer.program())).collect();
    header.extend(["CPU s/GiB".into(), "of gocryptfs's".into()]);
    let row = |row: &Row| {
        let mut cells: Vec<_> =
            summary.peers().map(|peer| summary.judged(row, peer).as_ref().map(ratio_text)).collect();
        let ours = summary.cell(&row.key, Kind::Strongroom).and_then(|cell| cell.load());
        cells.push(ours.map(|load| format!("{:.2}", load.daemon)));
        cells.push(summary.cpu(row).as_ref().map(ratio_text));
        (row.key.clone(), cells)
    };
    let mean = |judged: Option<Judged>| {
        judged.map(|judged| format!("{}; {} rows", ratio_text(&judged), judged.ratio.count))
    };
    let mut means: Vec<_> = summary.peers().map(|peer| mean(summary.mean(peer))).collect();
    means.extend([None, mean(summary.cpu_mean())]);
    let last = std::iter::once(("**geometric mean**".to_owned(), means));
    table(header, summary.rows.iter().map(row).chain(last))
}

fn jobs(summary: &Summary<'_>) -> String {
    let rows = summary.rows.iter().filter_map(|row| {
        let judged = summary.jobs(row)?;
        Some((row.key.clone(), vec![Some(ratio_text(&judged))]))
    });
    table(vec!["over one job".into()], rows)
}

/// A row for each subject, so that it tells what limits a row that misses.
fn loads(summary: &Summary<'_>) -> String {
    let of_row = |row: &Row| {
        let of_subject = |kind: &Kind| {
            let load = summary.cell(&row.key, *kind)?.load()?;
            let seconds = [load.seconds, load.busy, load.daemon].map(|seconds| Some(format!("{seconds:.2}")));
            let idle = format!("{:.0} %", 100.0 * load.idle_share);
            let cells = [Some(kind.program().to_owned())].into_iter().chain(seconds).chain([Some(idle)]);
            Some((row.key.clone(), cells.collect()))
        };
        summary.kinds.iter().filter_map(of_subject).collect::<Vec<_>>()
    };
    let header = ["", "elapsed, s/GiB", "all CPUs busy, s/GiB", "of it the daemon", "idle"];
    table(header.map(str::to_owned).to_vec(), summary.rows.iter().flat_map(of_row))
}

fn table(header: Vec<String>, rows: impl Iterator<Item = (String, Vec<Option<String>>)>) -> String {
    let mut text = format!("| row | {} |\n|---{}|\n", header.join(" | "), "|---".repeat(header.len()));
    for (name, cells) in rows {
        text.push_str(&format!("| {name} |"));
        for cell in cells {
            text.push_str(&cell.map_or(" |".into(), |cell| format!(" {cell} |")));
        }
        text.push('\n');
    }
    text
}

fn rate_text(cell: &Cell<'_>) -> String {
    let rates = cell.rates();
    let (middle, spread) = (median(&rates), 100.0 * half_spread(&rates));
    let text = match cell.moves_bytes() {
        true => format!("{:.0} MB/s", middle / 1e6),
        false => format!("{:.1} k/s", middle / 1e3),
    };
    let variant = if cell.variant.is_empty() { String::new() } else { format!(" ({})", cell.variant) };
    format!("{text} ± {spread:.0} %{variant}")
}

fn ratio_text(judged: &Judged) -> String {
    let Ratio { low, mean, high, .. } = judged.ratio;
    let bounds = if judged.ratio.has_bounds() { format!(" ({low:.2}-{high:.2})") } else { String::new() };
    let asked = match judged.target {
        None => return format!("{mean:.2}{bounds}"),
        Some(Target::Least(least)) => format!("asked {least:.2}"),
        Some(Target::Most(most)) => format!("at most {most:.2}"),
    };
    let mark = if judged.is_met() { "" } else { "**" };
    format!("{mean:.2}{bounds}, {mark}{asked}{mark}")
}
