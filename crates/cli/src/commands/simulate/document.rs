//! What a run is told as.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_sched::policy::Reason;
use strongroom_sim::aca_sds::Prediction;
use strongroom_sim::{EngineReport, Host, Options, Report, Workload};

#[derive(Serialize)]
struct Named {
    name: String,
    about: String,
}

/// `strongroom.simulate-list/1`.
#[derive(Serialize)]
pub(super) struct List {
    schema: &'static str,
    hosts: Vec<Named>,
    papers: Vec<Named>,
    workloads: Vec<String>,
}

impl List {
    pub(super) fn new() -> List {
        let hosts = Host::catalogue().into_iter();
        let paper = |name| Named {
            name: str::to_owned(name),
            about: strongroom_papers::about(name).unwrap_or_default().to_owned(),
        };
        List {
            schema: "strongroom.simulate-list/1",
            hosts: hosts.map(|Host { name, about, .. }| Named { name, about }).collect(),
            papers: strongroom_papers::NAMES.into_iter().map(paper).collect(),
            workloads: Workload::catalogue().into_iter().map(|workload| workload.name).collect(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = "Hosts:\n".to_owned();
        for host in &self.hosts {
            let _ = writeln!(text, "  {:16} {}", host.name, host.about);
        }
        let _ = writeln!(text, "  {:16} Drawn from the seed NUMBER", "random-NUMBER");
        text.push_str("\nDocuments, replayed without a workload:\n");
        for paper in &self.papers {
            let _ = writeln!(text, "  {:16} {}", paper.name, paper.about);
        }
        text.push_str("\nWorkloads (write-KIBk-CLIENTS and read-KIBk-CLIENTS also with other numbers):\n");
        for workload in &self.workloads {
            let _ = writeln!(text, "  {workload}");
        }
        text
    }
}

#[derive(Serialize)]
struct Placement {
    reason: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct EngineDocument {
    engine: String,
    bytes: u64,
    operations: u64,
    busy: u64,
    placements: Vec<Placement>,
}

impl From<&EngineReport> for EngineDocument {
    fn from(report: &EngineReport) -> EngineDocument {
        let placement = |(reason, count): (Reason, u64)| Placement { reason: reason.name(), count };
        let counted = Reason::ALL.iter().copied().zip(report.reasons).filter(|(_, count)| *count > 0);
        EngineDocument {
            engine: report.engine.clone(),
            bytes: report.bytes,
            operations: report.operations,
            busy: report.busy,
            placements: counted.map(placement).collect(),
        }
    }
}

#[derive(Serialize)]
struct Latency {
    mean: u64,
    p50: u64,
    p99: u64,
    p999: u64,
}

/// A figure of the paper beside the model's.
#[derive(Serialize)]
struct Predicted {
    bytes: u64,
    clients: u32,
    device: bool,
    paper_ns: u64,
    model_ns: u64,
    error: f64,
}

/// `strongroom.simulate/1`.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    host: String,
    workload: String,
    policy: &'static str,
    objective: &'static str,
    seed: u64,
    duration_ns: u64,
    requests: u64,
    bytes_per_second: u64,
    steady_bytes_per_second: u64,
    latency_ns: Latency,
    cpu_idle: f64,
    engines: Vec<EngineDocument>,
    /// Of the paper's host: columns that nothing was fitted on.
    predicted: Vec<Predicted>,
}

impl Document {
    pub(super) fn new(
        host: &Host,
        workload: &Workload,
        options: &Options,
        report: &Report,
        calibration: &[Prediction],
    ) -> Document {
        let predicted = |prediction: &Prediction| Predicted {
            bytes: prediction.kib * 1024,
            clients: prediction.clients,
            device: prediction.is_device,
            paper_ns: prediction.paper_ns as u64,
            model_ns: prediction.model_ns as u64,
            error: prediction.error(),
        };
        Document {
            schema: "strongroom.simulate/1",
            host: host.name.clone(),
            workload: workload.name.clone(),
            policy: options.settings.policy.name(),
            objective: options.settings.objective.name(),
            seed: options.seed,
            duration_ns: report.duration_ns,
            requests: report.requests,
            bytes_per_second: report.bytes_per_second as u64,
            steady_bytes_per_second: report.steady_bytes_per_second as u64,
            latency_ns: Latency {
                mean: report.latency_ns_mean,
                p50: report.latency_ns_p50,
                p99: report.latency_ns_p99,
                p999: report.latency_ns_p999,
            },
            cpu_idle: report.cpu_idle,
            engines: report.engines.iter().map(EngineDocument::from).collect(),
            predicted: calibration.iter().map(predicted).collect(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.predicted.is_empty() {
            text.push_str("The model against the paper, columns that nothing was fitted on:\n");
        }
        for row in &self.predicted {
            let engine = if row.device { "device" } else { "CPU" };
            let _ = writeln!(
                text,
                "  {:2} writes of {:2} KiB, {engine:6}  paper {:7.1} us  model {:7.1} us  {:+5.1} %",
                row.clients,
                row.bytes / 1024,
                row.paper_ns as f64 / 1e3,
                row.model_ns as f64 / 1e3,
                row.error * 100.0
            );
        }
        if let Some(most) = self.predicted.iter().map(|row| row.error.abs()).reduce(f64::max) {
            let _ = writeln!(text, "  largest error {:.1} %\n", most * 100.0);
        }
        let microseconds = |ns: u64| ns as f64 / 1e3;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let _ = writeln!(
            text,
            "{} under {}, policy {}, {:.3} s of virtual time",
            self.host,
            self.workload,
            self.policy,
            self.duration_ns as f64 / 1e9
        );
        let _ = writeln!(
            text,
            "throughput  {:.1} MB/s, {:.1} MB/s in the last quarter",
            megabytes(self.bytes_per_second),
            megabytes(self.steady_bytes_per_second)
        );
        let latency = &self.latency_ns;
        let _ = writeln!(
            text,
            "latency     mean {:.1} us, half {:.1}, 99 % {:.1}, 99.9 % {:.1} ({} requests)",
            microseconds(latency.mean),
            microseconds(latency.p50),
            microseconds(latency.p99),
            microseconds(latency.p999),
            self.requests
        );
        let _ = writeln!(text, "idle CPU    {:.1} %", self.cpu_idle * 100.0);
        let all = self.engines.iter().map(|engine| engine.bytes).sum::<u64>().max(1);
        for engine in &self.engines {
            let reasons: Vec<String> = engine
                .placements
                .iter()
                .map(|placed| format!("{} {}", placed.reason, placed.count))
                .collect();
            let _ = writeln!(
                text,
                "{:11} {:5.1} % of the bytes, {} batches ({})",
                engine.engine,
                engine.bytes as f64 * 100.0 / all as f64,
                engine.operations,
                if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") }
            );
        }
        text
    }
}
