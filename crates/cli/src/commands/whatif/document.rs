//! The answer: a table and a sentence.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_trace::{Kind, Trace};

use super::machine::{Change, Machine};
use super::model::Model;
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::progress::Steps;
use crate::report::bytes;

/// Less is not worth money.
const WORTH_BUYING: f64 = 1.10;
/// Less is no difference that the model can tell.
const SAME: f64 = 0.03;

const COLUMNS: [Column; 4] =
    [Column::left("", 0), Column::right("speed", 7), Column::right("CPU", 7), Column::left("computed by", 0)];

/// `strongroom.whatif/1`.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    trace: TraceReport,
    /// The replay of the trace as it was over what was recorded, less one.
    replay_error: f64,
    /// One in so many results of a device is checked.
    check_interval: u64,
    rows: Vec<Row>,
    answer: String,
}

#[derive(Serialize)]
struct TraceReport {
    of: String,
    algorithm: String,
    cpus: u64,
    recorded_ns: u64,
    is_full: bool,
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// Requests at once, at most.
    concurrency: u64,
    /// Time that its threads had a CPU or waited for one, over that they had one.
    cpu_stretch: f64,
    /// Which the replay has everything take too.
    is_busy: bool,
    daemon_cpu_ns: u64,
    /// Shares of the time of all chains.
    cryptography: f64,
    cpu: f64,
    waiting: f64,
    thinking: f64,
}

#[derive(Serialize)]
struct Row {
    add: String,
    /// Work in the same time, as a multiple of what it was.
    speed: f64,
    /// CPU time of the daemon for the same work, likewise.
    cpu: f64,
    duration_ns: u64,
    daemon_cpu_ns: u64,
    /// Its figures are somebody else's, or assumed.
    assumed: bool,
    engines: Vec<Share>,
}

#[derive(Serialize)]
struct Share {
    engine: String,
    bytes: f64,
}

impl Document {
    pub(super) fn new(trace: &Trace, machine: &Machine<'_>, model: &Model, changes: &[Change]) -> Document {
        let base = model.base(machine);
        let steps = Steps::begin(changes.len() as u64);
        let row = |change: &Change| {
            steps.next(&change.name());
            let run = model.changed(machine, change, &base);
            let over = |now: u64, was: u64| now as f64 / was.max(1) as f64;
            Row {
                add: change.name(),
                speed: over(base.run.duration_ns, run.duration_ns),
                cpu: over(run.daemon_cpu_ns, base.run.daemon_cpu_ns),
                duration_ns: run.duration_ns,
                daemon_cpu_ns: run.daemon_cpu_ns,
                assumed: change.is_assumed(machine),
                engines: run.engines.into_iter().map(|(engine, bytes)| Share { engine, bytes }).collect(),
            }
        };
        let rows: Vec<Row> = changes.iter().map(row).collect();
        steps.finish();
        let answer = answer(changes, &rows);
        Document {
            schema: "strongroom.whatif/1",
            trace: TraceReport::new(trace, machine, model),
            replay_error: base.run.duration_ns as f64 / model.span_ns.max(1) as f64 - 1.0,
            check_interval: 1 << machine.settings.check_exponent,
            rows,
            answer,
        }
    }

    pub(super) fn text(&self, display: Display) -> String {
        let trace = &self.trace;
        let percent = |share: f64| share * 100.0;
        let mut text = format!(
            "{} requests in {:.1} s, {} read and {} written, {} at once at most; {} on {} CPUs\n",
            trace.requests,
            trace.recorded_ns as f64 / 1e9,
            bytes(trace.read_bytes),
            bytes(trace.written_bytes),
            trace.concurrency,
            trace.algorithm,
            trace.cpus
        );
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "time: {:.0} % cryptography, {:.0} % other CPU time, {:.0} % waiting, {:.0} % between requests\n\
             the model replays it with an error of {:+.1} %\n",
            percent(trace.cryptography),
            percent(trace.cpu),
            percent(trace.waiting),
            percent(trace.thinking),
            percent(self.replay_error)
        );
        if trace.is_busy {
            let _ = writeln!(
                text,
                "the machine did other work: CPU time took {:.1} times as long; better record when it does not\n",
                trace.cpu_stretch
            );
        }
        let row = |row: &Row| {
            let engines = row.engines.iter().filter(|share| share.bytes > 0.0);
            let engines: Vec<String> =
                engines.map(|share| format!("{} {:.0} %", share.engine, percent(share.bytes))).collect();
            let assumed = if row.assumed { "; not measured here" } else { "" };
            let by = format!("{}{assumed}", engines.join(", "));
            vec![row.add.clone(), format!("{:.2}x", row.speed), format!("{:.2}x", row.cpu), by]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        text.push_str(&Form { indent: 2, titles: 1, ..Form::new(&COLUMNS) }.text(&rows, display));
        if trace.is_full {
            text.push_str("\nThe trace ended early: there was no room for more.\n");
        }
        let _ = writeln!(text, "\n{}", self.answer);
        text
    }
}

impl TraceReport {
    fn new(trace: &Trace, machine: &Machine<'_>, model: &Model) -> TraceReport {
        let of_kind = |kind: Kind| {
            let of = trace.records.iter().filter(|record| record.kind == kind);
            of.map(|record| u64::from(record.bytes)).sum()
        };
        let (parts, header) = (model.parts, &trace.header);
        let all = (parts.cryptography + parts.cpu + parts.waiting + parts.thinking).max(1.0);
        TraceReport {
            of: header.of.clone(),
            algorithm: machine.algorithm.clone(),
            cpus: machine.cpus.into(),
            recorded_ns: header.recorded_ns,
            is_full: header.is_full,
            requests: header.records,
            read_bytes: of_kind(Kind::Read),
            written_bytes: of_kind(Kind::Write),
            concurrency: model.concurrency() as u64,
            cpu_stretch: machine.stretch,
            is_busy: machine.slowdown() > 1.0,
            daemon_cpu_ns: header.daemon_cpu_ns,
            cryptography: parts.cryptography / all,
            cpu: parts.cpu / all,
            waiting: parts.waiting / all,
            thinking: parts.thinking / all,
        }
    }
}

/// A speed in words.
fn gain(speed: f64) -> String {
    match speed {
        speed if speed >= 1.5 => format!("{speed:.1} times"),
        speed if (speed - 1.0).abs() < SAME => "no difference".to_owned(),
        speed if speed > 1.0 => format!("{:.0} % more", (speed - 1.0) * 100.0),
        speed => format!("{:.0} % less", (1.0 - speed) * 100.0),
    }
}

/// The best suite first, which costs nothing; then what can be bought.
fn answer(changes: &[Change], rows: &[Row]) -> String {
    let mut tried: Vec<(&Change, &Row)> = changes.iter().zip(rows).collect();
    tried.sort_by(|one, other| other.1.speed.total_cmp(&one.1.speed));
    let said = |(change, row): &(&Change, &Row)| format!("{}: {}", change.words(), gain(row.speed));
    let suite = tried.iter().find(|(change, _)| matches!(change, Change::Suite(..)));
    let bought: Vec<_> = tried.iter().filter(|(change, _)| change.is_bought()).collect();
    let mut parts: Vec<String> = suite.into_iter().chain(bought.iter().copied()).map(said).collect();
    match bought.first() {
        None => {}
        Some((change, row)) if row.speed >= WORTH_BUYING => {
            parts.push(format!("if you buy anything, {}", change.words()));
        }
        Some(_) => parts.push("buy nothing".to_owned()),
    }
    let mut text = parts.join("; ");
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use strongroom_sched::Settings;

    use super::super::machine::tests::{header, known};
    use super::super::model::tests::trace;
    use super::*;

    #[test]
    fn the_answer_names_what_helps_and_what_not_to_buy() {
        let known = known();
        let machine = Machine::new(&header(), &known, Settings::default()).expect("known");
        let trace = trace(300);
        let model = Model::of(&trace, &machine).expect("requests");
        let document = Document::new(&trace, &machine, &model, &machine.usual());
        assert!(document.replay_error.abs() < 0.01);
        assert!(
            document.answer.starts_with("xchacha20-poly1305 on this CPU: 56 % less; "),
            "{}",
            document.answer
        );
        assert!(document.answer.ends_with("; buy nothing."), "{}", document.answer);
        let text = document.text(Display { width: None, ascii: false });
        assert!(
            text.contains("cpus=4") && text.contains("1.00x") && text.contains("not measured here"),
            "{text}"
        );
    }

    #[test]
    fn what_is_worth_its_money_is_named() {
        let row = |speed| Row {
            add: String::new(),
            speed,
            cpu: 1.0,
            duration_ns: 1,
            daemon_cpu_ns: 1,
            assumed: false,
            engines: Vec::new(),
        };
        let said = answer(&[Change::Qat, Change::Cpus(8)], &[row(1.04), row(2.25)]);
        assert_eq!(said, "8 CPUs: 2.2 times; a QAT card: 4 % more; if you buy anything, 8 CPUs.");
    }
}
