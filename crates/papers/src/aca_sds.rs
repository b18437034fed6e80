//! Document 000: eCryptfs with a QAT card and AES-NI, and Algorithm 1.
//!
//! The host and its fit are [`strongroom_sim::aca_sds`]; this runs it under the
//! loads of the document's table and sentences, by the policies that mounts use.

use strongroom_sched::settings::Policy;
use strongroom_sim::aca_sds::{FIGURE_5_P, TABLE_1, fit, host, predictions};
use strongroom_sim::{Host, Options, Report, Settings, Workload, run};

use crate::table::{Cell, Claim, Origin, Replay, Table};

pub(crate) const TITLE: &str = "ACA-SDS: adaptive crypto acceleration for secure data storage";

/// Virtual time of each run: Algorithm 1 looks at CPUs that are sampled every 50 ms.
const RUN_NS: u64 = 1_000_000_000;

/// One run, where one result in 2^14 of a device is checked, which is next to none: the document checks none.
fn simulate(host: &Host, workload: &Workload, settings: Settings) -> Report {
    let settings = Settings { check_exponent: Settings::CHECK_EXPONENT_MAX, ..settings };
    run(host, workload, &Options { settings, duration_ns: RUN_NS, seed: 1 })
}

fn fixed(engine: u8) -> Settings {
    Settings { policy: Policy::Fixed, engine, ..Settings::default() }
}

/// Algorithm 1 as the document means it: tasks are distinct callers, blocks are the request's; the CPU
/// helps while more than M of it is idle.
fn algorithm_1(idle_cpu_permille: u16) -> Settings {
    Settings { policy: Policy::Aca, alpha: 4, beta_bytes: 4096, idle_cpu_permille, ..Settings::default() }
}

fn engine_name(is_device: bool) -> &'static str {
    if is_device { "QAT" } else { "AES-NI" }
}

fn writes() -> Table {
    let of = |clients: u32, origin: Origin| {
        predictions(clients).into_iter().map(move |prediction| Cell {
            row: format!("{} KiB", prediction.kib),
            column: format!("{} {clients} writes", engine_name(prediction.is_device)),
            published: prediction.paper_ns / 1e3,
            ours: prediction.model_ns / 1e3,
            origin,
        })
    };
    Table {
        title: "Latency of writes".into(),
        source: "Table I, rows lat",
        unit: "us",
        model: "The simulator; a page's time on each engine is fitted on 12 writes and on Figure 5",
        cells: of(12, Origin::Fitted).chain(of(32, Origin::Predicted)).collect(),
    }
}

fn reads() -> Table {
    let cells = TABLE_1.iter().flat_map(|row| {
        [(true, row.device_read_12), (false, row.cpu_read_12)].map(|(is_device, published)| {
            let report = simulate(&host(), &Workload::reads(row.kib, 12), fixed(u8::from(is_device)));
            Cell {
                row: format!("{} KiB", row.kib),
                column: format!("{} 12 reads", engine_name(is_device)),
                published,
                ours: report.latency_ns_mean as f64 / 1e3,
                origin: Origin::Fitted,
            }
        })
    });
    Table {
        title: "Latency of reads".into(),
        source: "Table I, rows lat",
        unit: "us",
        model: "The simulator; a page's time on each engine is fitted on these columns",
        cells: cells.collect(),
    }
}

/// Bandwidth for each CPU that feeds the device.
fn bandwidth() -> Table {
    let cells = FIGURE_5_P.map(|(cpus, published)| {
        let host = Host { cpus, ..host() };
        let report = simulate(&host, &Workload::writes(32, 32), fixed(1));
        Cell {
            row: "32 writes of 32 KiB".into(),
            column: format!("{cpus} CPUs"),
            published,
            ours: report.bytes_per_second / 1e6 / f64::from(cpus),
            origin: Origin::Fitted,
        }
    });
    Table {
        title: "Bandwidth of the device for each CPU".into(),
        source: "III.D, Figure 5",
        unit: "MB/s",
        model: "The simulator; the device's CPU time and its limit are fitted on these two",
        cells: cells.to_vec(),
    }
}

/// Steady throughput of a policy for 32 writers of 32 KiB over that of the better engine alone. Every block of
/// whole pages gives the same, since eCryptfs computes page by page.
fn gain(cpus: u32, settings: Settings) -> f64 {
    let (host, workload) = (Host { cpus, ..host() }, Workload::writes(32, 32));
    let rate = |settings| simulate(&host, &workload, settings).steady_bytes_per_second;
    rate(settings) / rate(fixed(0)).max(rate(fixed(1)))
}

/// Algorithm 1 with the best M of a few, in per cent, and what it gains.
fn best_gain(cpus: u32) -> (u16, f64) {
    let gains = [10, 30, 50].map(|idle| (idle, gain(cpus, algorithm_1(idle * 10))));
    gains.into_iter().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or_default()
}

/// Four CPUs feed the device and four compute, as III.D.2 divides eight, over the better of device and CPUs.
fn divided() -> f64 {
    let megabytes_of_cpu = 4096.0 * 1e3 / fit().cpu_write_ns;
    let [(four, of_four), (five, of_five)] = FIGURE_5_P;
    let device = f64::from(five) * of_five;
    (f64::from(four) * of_four + 4.0 * megabytes_of_cpu) / device.max(8.0 * megabytes_of_cpu)
}

/// Share of the CPU that 16 writers leave, least and most over the table's sizes.
fn idle(engine: u8) -> (f64, f64) {
    let of = |kib| simulate(&host(), &Workload::writes(kib, 16), fixed(engine)).cpu_idle * 1e2;
    let idle = [1, 4, 64].map(of);
    idle.into_iter().fold((f64::INFINITY, 0.0), |(least, most), share| (share.min(least), share.max(most)))
}

fn claims() -> Vec<Claim> {
    let [software, device] = [idle(0), idle(1)];
    let percent = |gain: f64| format!("{:+.0} %", (gain - 1.0) * 1e2);
    let gains = |cpus| (best_gain(cpus), gain(cpus, Settings::default()));
    let ((idle_4, theirs_4), ours_4) = gains(4);
    let ((idle_8, theirs_8), ours_8) = gains(8);
    let policies = |idle, theirs, ours| {
        format!(
            "Algorithm 1 (alpha 4 tasks, beta 4 KiB, M {idle} %) {}; `adaptive` {}",
            percent(theirs),
            percent(ours)
        )
    };
    vec![
        Claim {
            source: "II, Figure 1",
            published: "16 writers leave 3 to 12 % of the CPU with QAT and nothing with AES-NI",
            ours: format!(
                "{:.0} to {:.0} % of the 8 CPUs of Figure 11 and {:.0} %; the text does not say how many CPUs \
                 Figure 1 has",
                device.0, device.1, software.1
            ),
            agrees: software.1 < 1.0 && device.0 >= 3.0 && device.1 <= 12.0,
        },
        Claim {
            source: "IV.D, Figure 10",
            published: "with 4 CPUs the method is never slower than the better engine alone",
            ours: policies(idle_4, theirs_4, ours_4),
            agrees: theirs_4 >= 0.99,
        },
        Claim {
            source: "III.D.2, IV.D, Figure 11",
            published: "with 8 CPUs, four of which feed the device, large blocks are 15 to 25 % faster",
            ours: format!("{} by the rates of the model", percent(divided())),
            agrees: (1.15..=1.255).contains(&divided()),
        },
        Claim {
            source: "IV.D, Figure 11",
            published: "with 8 CPUs the method is 15 to 25 % faster for large blocks",
            ours: policies(idle_8, theirs_8, ours_8),
            agrees: (1.15..=1.255).contains(&theirs_8),
        },
    ]
}

pub(crate) fn replay() -> Replay {
    Replay {
        name: "paper-000",
        title: TITLE,
        tables: vec![writes(), reads(), bandwidth()],
        claims: claims(),
        left_out: vec![
            "Table I, rows slat: time until the kernel has the request, at most 4 us of up to 1,249; the model \
             begins there",
            "Reads of 1 and 2 KiB on the device come out slower than published: the model takes a whole page's CPU \
             time for each",
            "eCryptfs against no encryption, writes 16 times and reads 20 to 30 % slower: of a disk that the \
             text does not describe",
        ],
        pictures: "1, 3, 5 but for two numbers, 7 to 11",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_fitted_is_predicted_within_15_percent() {
        let errors = writes().errors();
        assert_eq!((errors.predicted, errors.fitted), (14, 14));
        assert!(errors.worst <= 0.15, "{errors:?}");
    }

    #[test]
    fn what_was_fitted_is_met() {
        let cells = [reads().cells, bandwidth().cells].concat();
        // Below a page the model is known to err: see `left_out`.
        for cell in cells.iter().filter(|cell| !matches!(cell.row.as_str(), "1 KiB" | "2 KiB")) {
            assert!(cell.error().abs() <= 0.15, "{cell:?}");
        }
    }
}
