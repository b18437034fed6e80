//! The status of mounts for Prometheus: the text format, version 0.0.4
//! (prometheus.io, "Exposition formats"). Counters begin with the mount.

use std::fmt::Write;

use super::Asked;
use crate::daemon::status::{MaskCounts, MountStatus};

const SECOND: f64 = 1e9;

/// One metric: its name, kind, meaning, and how a mount has it.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&MountStatus) -> Vec<(Labels, f64)>,
}

/// Labels besides the mount's.
type Labels = Vec<(&'static str, String)>;

fn one(value: f64) -> Vec<(Labels, f64)> {
    vec![(Vec::new(), value)]
}

/// A figure of each engine.
macro_rules! by_engine {
    ($value:expr) => {
        |status| {
            let value: fn(&crate::daemon::status::EngineStatus) -> f64 = $value;
            let sample = |engine: &crate::daemon::status::EngineStatus| {
                (vec![("engine", engine.name.clone())], value(engine))
            };
            status.engines.iter().map(sample).collect()
        }
    };
}

const fn metric(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&MountStatus) -> Vec<(Labels, f64)>,
) -> Metric {
    Metric { name, kind, help, samples }
}

/// The one that is there without a daemon.
const UP: &str = "strongroom_up";

const METRICS: &[Metric] = &[
    metric(UP, "gauge", "1 while the daemon answers, 0 when it does not", |_| one(1.0)),
    metric("strongroom_read_bytes_total", "counter", "Plain bytes read", |s| one(s.read_bytes as f64)),
    metric(
        "strongroom_read_around_bytes_total",
        "counter",
        "Plain bytes read unasked for the page cache",
        |s| one(s.read_around_bytes as f64),
    ),
    metric("strongroom_written_bytes_total", "counter", "Plain bytes written", |s| {
        one(s.written_bytes as f64)
    }),
    metric("strongroom_open", "gauge", "Open files and directories", |s| one(s.open as f64)),
    metric("strongroom_requests_total", "counter", "Requests of the kernel", |s| {
        let sample = |request: &crate::daemon::status::RequestStatus| {
            (vec![("kind", request.name.clone())], request.count as f64)
        };
        s.requests.iter().map(sample).collect()
    }),
    metric("strongroom_request_errors_total", "counter", "Requests that had an error as answer", |s| {
        let sample = |request: &crate::daemon::status::RequestStatus| {
            (vec![("kind", request.name.clone())], request.errors as f64)
        };
        s.requests.iter().map(sample).collect()
    }),
    metric("strongroom_request_seconds_total", "counter", "Time of requests, summed up", |s| {
        let sample = |request: &crate::daemon::status::RequestStatus| {
            (vec![("kind", request.name.clone())], request.latency_ns as f64 / SECOND)
        };
        s.requests.iter().map(sample).collect()
    }),
    metric(
        "strongroom_busy_seconds_total",
        "counter",
        "Time of threads by what they did, from samples",
        |s| {
            let time = &s.time;
            [
                ("cryptography", time.cryptography_ns),
                ("store_read", time.store_read_ns),
                ("store_write", time.store_write_ns),
                ("store_barrier", time.store_barrier_ns),
                ("store_names", time.store_names_ns),
            ]
            .map(|(part, ns)| (vec![("part", part.to_owned())], ns as f64 / SECOND))
            .to_vec()
        },
    ),
    metric("strongroom_store_waiting", "gauge", "Calls that the store has not answered for a second", |s| {
        one(s.store.waiting as f64)
    }),
    metric("strongroom_store_waiting_seconds", "gauge", "How long the first of them has been waiting", |s| {
        one(s.store.longest_ns as f64 / SECOND)
    }),
    metric(
        "strongroom_store_failed_requests_total",
        "counter",
        "Requests that failed because the store did",
        |s| one(s.store.failed_requests as f64),
    ),
    metric(
        "strongroom_engine_bytes_total",
        "counter",
        "Bytes given to an engine",
        by_engine!(|e| e.bytes as f64),
    ),
    metric("strongroom_engine_batches_total", "counter", "Batches by engine and reason", |s| {
        let of = |engine: &crate::daemon::status::EngineStatus| {
            let name = engine.name.clone();
            let sample = move |(reason, count): (&String, &u64)| {
                (vec![("engine", name.clone()), ("reason", reason.clone())], *count as f64)
            };
            engine.placements.iter().map(sample).collect::<Vec<_>>()
        };
        s.engines.iter().flat_map(of).collect()
    }),
    metric(
        "strongroom_engine_queue",
        "gauge",
        "Batches not answered yet",
        by_engine!(|e| e.in_flight as f64),
    ),
    metric(
        "strongroom_engine_latency_seconds",
        "gauge",
        "Mean time of the batches measured",
        by_engine!(|e| e.latency_ns_mean as f64 / SECOND),
    ),
    metric(
        "strongroom_engine_busy_total",
        "counter",
        "Batches refused as busy",
        by_engine!(|e| e.busy as f64),
    ),
    metric(
        "strongroom_engine_lost_total",
        "counter",
        "Batches lost and redone",
        by_engine!(|e| e.lost as f64),
    ),
    metric(
        "strongroom_engine_checked_bytes_total",
        "counter",
        "Bytes of results that the CPU recomputed",
        by_engine!(|e| e.checked_bytes as f64),
    ),
    metric(
        "strongroom_engine_mismatches_total",
        "counter",
        "Results that were wrong",
        by_engine!(|e| e.mismatches as f64),
    ),
    metric(
        "strongroom_engine_quarantined",
        "gauge",
        "1 while the engine gets no work",
        by_engine!(|e| f64::from(u8::from(e.quarantined))),
    ),
    metric("strongroom_masks_bytes_total", "counter", "Bytes of masks, by what became of them", |s| {
        let of = |kind: &'static str, counts: MaskCounts| {
            let MaskCounts { ordered_bytes, hit_bytes, miss_bytes } = counts;
            [("ordered", ordered_bytes), ("hit", hit_bytes), ("miss", miss_bytes)].map(|(what, bytes)| {
                (vec![("kind", kind.to_owned()), ("what", what.to_owned())], bytes as f64)
            })
        };
        let masks = s.masks.iter();
        masks.flat_map(|masks| [of("write", masks.writes), of("read", masks.reads)].concat()).collect()
    }),
    metric("strongroom_damaged_requests_total", "counter", "Requests that met damage", |s| {
        one(s.errors.damaged_requests as f64)
    }),
    metric("strongroom_background_errors_total", "counter", "Errors that no caller was told of", |s| {
        one(s.errors.background as f64)
    }),
    metric("strongroom_resident_bytes", "gauge", "Memory of the daemon", |s| {
        one(s.memory.resident_bytes as f64)
    }),
];

/// All metrics of all mounts.
pub(super) fn text(asked: &Asked) -> String {
    let mut text = String::new();
    for metric in METRICS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind);
        for status in &asked.mounts {
            for (labels, value) in (metric.samples)(status) {
                let _ = write!(text, "{}{{mount=\"{}\"", metric.name, escaped(&status.mount_point));
                for (name, value) in labels {
                    let _ = write!(text, ",{name}=\"{}\"", escaped(&value));
                }
                let _ = writeln!(text, "}} {value}");
            }
        }
        for mount_point in asked.unanswered.iter().filter(|_| metric.name == UP) {
            let _ = writeln!(text, "{UP}{{mount=\"{}\"}} 0", escaped(mount_point));
        }
    }
    text
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_line_is_of_the_format() {
        let mut status = sample();
        status.mount_point = "/a \"b\"\\\n".to_owned();
        let asked = Asked { mounts: vec![status, sample()], unanswered: vec!["/gone".to_owned()] };
        let text = text(&asked);
        assert!(
            text.contains("\nstrongroom_up{mount=\"/m\"} 1\nstrongroom_up{mount=\"/gone\"} 0\n"),
            "{text}"
        );
        assert_eq!(text.matches("/gone").count(), 1);
        assert!(
            text.contains("strongroom_written_bytes_total{mount=\"/a \\\"b\\\"\\\\\\n\"} 2000"),
            "{text}"
        );
        assert!(
            text.contains("strongroom_engine_batches_total{mount=\"/m\",engine=\"cpu\",reason=\"only\"} 7")
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(
                value.parse::<f64>().is_ok() && series.ends_with('}') && series.contains("{mount="),
                "{line}"
            );
        }
        let helps = text.lines().filter(|line| line.starts_with("# HELP")).count();
        assert_eq!(helps, METRICS.len());
    }
}
