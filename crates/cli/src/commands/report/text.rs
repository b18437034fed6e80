//! A report on the terminal.

use std::fmt::Write as _;

use super::document::{Crossover, Document, EngineUse};
use super::prediction::Prediction;
use super::words::{SIZES, crossover_text, other_suites, rate, time};
use crate::commands::engines::{SelfTest, State};
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::report::bytes;
use crate::status::masks_text;

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
pub(super) fn whole(document: &Document, display: Display) -> String {
    let mut text = conclusions(document);
    let machine = &document.machine;
    let _ = writeln!(
        text,
        "MACHINE\n  {}, {} CPUs, Linux {}, strongroom {}\n",
        machine.cpu, machine.cpus, machine.kernel, document.version
    );
    text.push_str(&engines(document));
    text.push_str(&rates(document, display));
    text.push_str(&mounts(document));
    text.push_str(&predictions(document, display));
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

const RATES: [Column; 5] = [
    Column::left("", 20),
    Column::left("", 7),
    Column::right("4 KiB", 8),
    Column::right("64 KiB", 10),
    Column::left("", 0),
];

fn rates(document: &Document, display: Display) -> String {
    if document.rates.is_empty() {
        return "RATES\n  not measured: run `strongroom tune`, then this again\n\n".to_owned();
    }
    let row = |found: &Crossover| {
        let [small, large] = SIZES.map(|size| {
            let best = document.best(&found.algorithm, &found.operation, size);
            best.map_or_else(|| "-".to_owned(), |(_, found)| rate(found))
        });
        vec![found.algorithm.clone(), found.operation.clone(), small, large, crossover_text(&found.fastest)]
    };
    let rows: Vec<_> = document.crossovers.iter().map(row).collect();
    let form = Form { indent: 2, titles: 2, ..Form::new(&RATES) };
    format!("RATES on one CPU\n{}\n", form.text(&rows, display))
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
        if let Some(suites) = other_suites(mount).filter(|_| !mount.is_idle()) {
            let _ = writeln!(text, "    speed with another suite, predicted: {suites}");
        }
        if let Some(masks) = &mount.masks {
            let _ = writeln!(text, "    masks {}", masks_text(masks));
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

const PREDICTIONS: [Column; 4] = [
    Column::right("predicted", 10),
    Column::right("measured", 10),
    Column::right("error", 8),
    Column::left("", 0),
];

fn predictions(document: &Document, display: Display) -> String {
    if document.predictions.is_empty() {
        return String::new();
    }
    let row = |row: &Prediction| {
        let (predicted, measured) = (figure(row.unit, row.predicted), figure(row.unit, row.measured));
        vec![predicted, measured, format!("{:+.0} %", row.error() * 100.0), format!(" {}", row.what)]
    };
    let rows: Vec<_> = document.predictions.iter().map(row).collect();
    let form = Form { indent: 2, gap: " ", has_head: false, ..Form::new(&PREDICTIONS) };
    format!("PREDICTED BESIDE MEASURED\n{}", form.text(&rows, display))
}
