//! A report on the terminal.

use std::fmt::Write as _;

use super::document::{Document, EngineUse};
use super::words::{SIZES, crossover_text, rate, time};
use crate::commands::engines::{SelfTest, State};
use crate::report::bytes;

/// What follows, and nothing that it comes from but in words.
pub(super) fn conclusions(document: &Document) -> String {
    let mut text = String::new();
    for conclusion in &document.conclusions {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {}\n  {}\n", conclusion.title(), conclusion.says, conclusion.because);
    }
    text
}

/// All of it.
pub(super) fn whole(document: &Document) -> String {
    let mut text = conclusions(document);
    let machine = &document.machine;
    let _ = writeln!(
        text,
        "MACHINE\n  {}, {} CPUs, Linux {}, strongroom {}\n",
        machine.cpu, machine.cpus, machine.kernel, document.version
    );
    text.push_str(&engines(document));
    text.push_str(&rates(document));
    text.push_str(&mounts(document));
    text.push_str(&predictions(document));
    text
}

/// Where an engine stands, in a word.
pub(super) fn state(state: State) -> &'static str {
    match state {
        State::Used => "used",
        State::OnRequest => "with --engine",
        State::Refused => "not here",
    }
}

fn engines(document: &Document) -> String {
    let mut text = "ENGINES\n".to_owned();
    for engine in &document.engines {
        let (passed, failed) = (engine.count(SelfTest::Passed), engine.count(SelfTest::Failed));
        let tests = match (passed, failed) {
            (0, 0) => String::new(),
            (passed, 0) => format!("; {passed} self-tests passed"),
            (_, failed) => format!("; {failed} SELF-TESTS FAILED"),
        };
        let _ = writeln!(text, "  {:<14}{}: {}{tests}", engine.name, state(engine.state), engine.reason);
    }
    text.push('\n');
    text
}

fn rates(document: &Document) -> String {
    if document.rates.is_empty() {
        return "RATES\n  not measured: run `strongroom tune`, then this again\n\n".to_owned();
    }
    let mut text = format!("RATES on one CPU\n  {:<22}{:<9}{:>10}{:>12}\n", "", "", "4 KiB", "64 KiB");
    for found in &document.crossovers {
        let cells = SIZES.map(|size| {
            let best = document.best(&found.algorithm, &found.operation, size);
            best.map_or_else(|| "-".to_owned(), |(_, found)| rate(found))
        });
        let _ = writeln!(
            text,
            "  {:<22}{:<9}{:>10}{:>12}  {}",
            found.algorithm,
            found.operation,
            cells[0],
            cells[1],
            crossover_text(&found.fastest)
        );
    }
    text.push('\n');
    text
}

/// What an engine did, and why it was given that.
pub(super) fn engine_use(engine: &EngineUse) -> String {
    let reasons: Vec<String> =
        engine.placements.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    // An engine that stands alone is not timed.
    let each = match engine.latency_ns_mean {
        0 => String::new(),
        ns => format!(", {} each", time(ns as f64)),
    };
    format!("{}: {} in {} batches{why}{each}", engine.name, bytes(engine.bytes), engine.operations)
}

fn mounts(document: &Document) -> String {
    let mut text = "MOUNTS AND DISKS\n".to_owned();
    if document.mounts.is_empty() && document.disks.is_empty() {
        text.push_str("  none\n");
    }
    for mount in &document.mounts {
        let _ = writeln!(
            text,
            "  {}: {}, {}, policy {}; {} read, {} written",
            mount.mount_point,
            mount.suite,
            mount.transport,
            mount.policy,
            bytes(mount.read_bytes),
            bytes(mount.written_bytes)
        );
        for engine in &mount.engines {
            let _ = writeln!(text, "    {}", engine_use(engine));
        }
    }
    for disk in &document.disks {
        let _ =
            writeln!(text, "  {}: {} at {}, {}", disk.image.display(), disk.kind, disk.export, disk.cipher);
        for engine in disk.engines.iter().filter(|engine| engine.operations > 0) {
            let _ = writeln!(text, "    {}", engine_use(&engine.into()));
        }
    }
    text.push('\n');
    text
}

/// A figure in its unit.
pub(super) fn figure(unit: &str, value: f64) -> String {
    if unit == "ns" { time(value) } else { rate(value) }
}

fn predictions(document: &Document) -> String {
    if document.predictions.is_empty() {
        return String::new();
    }
    let mut text = "PREDICTED BESIDE MEASURED\n".to_owned();
    for row in &document.predictions {
        let _ = writeln!(
            text,
            "  {:>10} {:>10} {:>+6.0} %  {}",
            figure(row.unit, row.predicted),
            figure(row.unit, row.measured),
            row.error() * 100.0,
            row.what
        );
    }
    text
}
