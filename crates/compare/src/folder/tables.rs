//! A store's results as tables: rates, ratios with what is asked of them, four jobs over one, and what the CPUs did.

use crate::folder::rows::Row;
use crate::folder::summary::{Cell, Judged, Summary, Target};
use crate::result::Table;
use crate::statistics::{Ratio, half_spread, median};
use strongroom_harness::subject::Kind;

pub(super) fn tables(summary: &Summary<'_>) -> Vec<Table> {
    let tables = [ratios(summary), rates(summary), jobs(summary), loads(summary)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Without rows; its name and title say of which store it is.
fn empty(summary: &Summary<'_>, name: &str, title: &str, columns: &[&str]) -> Table {
    let store = summary.store;
    Table::new(&format!("{name}-{store}"), format!("{title}, store on {store}"), columns)
}

fn rates(summary: &Summary<'_>) -> Table {
    let programs = summary.kinds.iter().map(|kind| kind.program());
    let columns: Vec<&str> = ["row"].into_iter().chain(programs).collect();
    let mut table =
        empty(summary, "rates", "Rates, medians ± half of what lies between least and most", &columns);
    for row in summary.rows {
        let rate = |kind: &Kind| summary.cell(&row.key, *kind).as_ref().map(rate_text).unwrap_or_default();
        let rates = summary.kinds.iter().map(rate);
        table.rows.push([row.key.clone()].into_iter().chain(rates).collect());
    }
    table
}

fn ratios(summary: &Summary<'_>) -> Table {
    let peers = summary.peers().map(|peer| format!("over {}", peer.program()));
    let mut columns = vec!["row".to_owned()];
    columns.extend(peers);
    columns.extend(["CPU s/GiB".into(), "of gocryptfs's".into()]);
    let title = "Ratios, ours over theirs, with their 95 % bounds";
    let mut table = Table { columns, ..empty(summary, "ratios", title, &[]) };
    for row in summary.rows {
        let mut cells = vec![row.key.clone()];
        let ratio = |judged: Option<Judged>| judged.as_ref().map(ratio_text).unwrap_or_default();
        cells.extend(summary.peers().map(|peer| ratio(summary.judged(row, peer))));
        let ours = summary.cell(&row.key, Kind::Strongroom).and_then(|cell| cell.load());
        cells.push(ours.map(|load| format!("{:.2}", load.daemon)).unwrap_or_default());
        cells.push(ratio(summary.cpu(row)));
        table.rows.push(cells);
    }
    let mean = |judged: Option<Judged>| {
        let text = |judged: Judged| format!("{}; {} rows", ratio_text(&judged), judged.ratio.count);
        judged.map(text).unwrap_or_default()
    };
    let mut means = vec!["**geometric mean**".to_owned()];
    means.extend(summary.peers().map(|peer| mean(summary.mean(peer))));
    means.extend([String::new(), mean(summary.cpu_mean())]);
    table.rows.push(means);
    table
}

fn jobs(summary: &Summary<'_>) -> Table {
    let mut table = empty(summary, "jobs", "Four jobs over one", &["row", "over one job"]);
    let of_row = |row: &Row| Some(vec![row.key.clone(), ratio_text(&summary.jobs(row)?)]);
    table.rows.extend(summary.rows.iter().filter_map(of_row));
    table
}

/// A row for each subject, so that it tells what limits a row that misses.
fn loads(summary: &Summary<'_>) -> Table {
    let columns = ["row", "program", "elapsed, s/GiB", "all CPUs busy, s/GiB", "of it the daemon", "idle"];
    let mut table = empty(summary, "cpus", "What the CPUs did", &columns);
    for row in summary.rows {
        for kind in summary.kinds {
            if let Some(load) = summary.cell(&row.key, *kind).and_then(|cell| cell.load()) {
                let [elapsed, busy, daemon] =
                    [load.seconds, load.busy, load.daemon].map(|seconds| format!("{seconds:.2}"));
                let idle = format!("{:.0} %", 100.0 * load.idle_share);
                table.push([row.key.clone(), kind.program().into(), elapsed, busy, daemon, idle]);
            }
        }
    }
    table
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
