//! The host of the ACA-SDS paper, fitted on a part of its figures and held
//! against another.
//!
//! Source: "ACA-SDS: Adaptive Crypto Acceleration for Secure Data Storage",
//! Table I (latencies in microseconds) and section III.D with Figure 5
//! (bandwidth by number of CPUs). Fitted: the columns of 12 concurrent
//! requests and Figure 5. Predicted: the columns of 32 concurrent writes,
//! which nothing here looks at but [`Prediction`].

use strongroom_sched::Settings;
use strongroom_sched::settings::Policy;

use crate::host::{Background, Cost, Device, Drift, Host, Inline};
use crate::workload::Workload;
use crate::world::{Options, run};

/// The host's name.
pub const NAME: &str = "aca-sds";

/// A row of Table I: block size in KiB, then `lat` in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Block size in KiB.
    pub kib: u64,
    /// Device (QAT), 12 concurrent reads.
    pub device_read_12: f64,
    /// CPU (AES-NI), 12 concurrent reads.
    pub cpu_read_12: f64,
    /// Device, 12 concurrent writes.
    pub device_write_12: f64,
    /// CPU, 12 concurrent writes.
    pub cpu_write_12: f64,
    /// Device, 32 concurrent writes.
    pub device_write_32: f64,
    /// CPU, 32 concurrent writes.
    pub cpu_write_32: f64,
}

const fn row(kib: u64, read: [f64; 2], write_12: [f64; 2], write_32: [f64; 2]) -> Row {
    Row {
        kib,
        device_read_12: read[0],
        cpu_read_12: read[1],
        device_write_12: write_12[0],
        cpu_write_12: write_12[1],
        device_write_32: write_32[0],
        cpu_write_32: write_32[1],
    }
}

/// Table I, the rows `lat`.
pub const TABLE_1: [Row; 7] = [
    row(1, [8.00, 3.62], [35.22, 29.22], [72.76, 79.63]),
    row(2, [14.14, 6.39], [41.67, 32.14], [85.89, 87.52]),
    row(4, [27.41, 11.29], [28.86, 30.81], [70.04, 84.27]),
    row(8, [55.97, 21.48], [61.33, 65.11], [131.38, 161.91]),
    row(16, [111.59, 40.28], [114.62, 118.58], [252.38, 321.45]),
    row(32, [221.78, 81.33], [229.52, 235.78], [507.04, 638.61]),
    row(64, [440.55, 159.07], [458.04, 469.49], [981.97, 1248.81]),
];

/// Section III.D: MB a second for each of 4 and of 5 CPUs that feed the
/// device.
pub const FIGURE_5_P: [(u32, f64); 2] = [(4, 464.5), (5, 416.4)];

/// "A QAT has twelve acceleration modules."
const UNITS: u32 = 12;
/// Figure 11's machine. Table I does not say; with 4 CPUs its device columns
/// could not be reached, by Figure 5.
const CPUS: u32 = 8;
/// eCryptfs encrypts page by page.
const PAGE_BYTES: u64 = 4096;

/// What is fitted, in nanoseconds for each page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// A unit's time for a page that is written: Figure 5 at 5 CPUs, where
    /// more CPUs no longer help, divided among the units.
    pub device_write_ns: f64,
    /// A unit's time for a page that is read.
    pub device_read_ns: f64,
    /// CPU time of a page on the device: Figure 5 at 4 CPUs, where they are
    /// what limits.
    pub device_cpu_ns: f64,
    /// The part of it that the request waits for: the latency of 12 writes,
    /// fewer than CPUs and units can take, less the unit's time.
    pub device_cpu_waited_ns: f64,
    /// CPU time of a page that software writes: with 12 requests on 8 CPUs
    /// these are what limits.
    pub cpu_write_ns: f64,
    /// The same of a page that is read.
    pub cpu_read_ns: f64,
}

/// The geometric mean of what a page takes in a column, of whole pages.
fn page_ns(column: fn(&Row) -> f64) -> f64 {
    let whole = TABLE_1.iter().filter(|row| row.kib * 1024 >= PAGE_BYTES);
    let pages = |row: &Row| (row.kib * 1024 / PAGE_BYTES) as f64;
    let (sum, count) =
        whole.fold((0.0, 0.0), |(sum, count), row| (sum + (column(row) / pages(row)).ln(), count + 1.0));
    f64::exp(sum / count) * 1e3
}

/// Computes the fit from the figures.
#[must_use]
pub fn fit() -> Fit {
    let page_of_rate = |megabytes_per_second: f64| PAGE_BYTES as f64 * 1e3 / megabytes_per_second;
    let [(_, four), (five, at_five)] = FIGURE_5_P;
    let device_write_ns = f64::from(UNITS) * page_of_rate(f64::from(five) * at_five);
    let device_cpu_waited_ns = page_ns(|row| row.device_write_12) - device_write_ns;
    let on_cpus = f64::from(CPUS) / 12.0;
    Fit {
        device_write_ns,
        device_read_ns: page_ns(|row| row.device_read_12) - device_cpu_waited_ns,
        device_cpu_ns: page_of_rate(four),
        device_cpu_waited_ns,
        cpu_write_ns: page_ns(|row| row.cpu_write_12) * on_cpus,
        cpu_read_ns: page_ns(|row| row.cpu_read_12) * on_cpus,
    }
}

/// A cost for each size up to a page. Less than a page takes the part of a
/// page's time, or the multiple of it, that its row has of the column's.
fn cost(page: f64, column: fn(&Row) -> f64) -> Cost {
    let whole = page_ns(column);
    let of = |row: &Row| (row.kib * 1024, page * column(row) * 1e3 / whole);
    let parts = TABLE_1.iter().filter(|row| row.kib * 1024 < PAGE_BYTES).map(of);
    Cost::Table(parts.chain([(PAGE_BYTES, page)]).collect())
}

/// The fitted host.
#[must_use]
pub fn host() -> Host {
    let fit = fit();
    Host {
        name: NAME.to_owned(),
        about: "The host of the ACA-SDS paper: QAT dh895xcc and AES-NI below eCryptfs".to_owned(),
        cpus: CPUS,
        request_cpu_ns: 0.0,
        batch_bytes: Some(PAGE_BYTES),
        inline: vec![Inline {
            name: "aes-ni".to_owned(),
            write: cost(fit.cpu_write_ns, |row| row.cpu_write_12),
            read: cost(fit.cpu_read_ns, |row| row.cpu_read_12),
        }],
        devices: vec![Device {
            name: "qat".to_owned(),
            units: UNITS,
            queue_max: 4096,
            write: cost(fit.device_write_ns, |row| row.device_write_12),
            read: cost(fit.device_read_ns, |row| row.device_read_12),
            submit: Cost::fixed(fit.device_cpu_waited_ns),
            complete: Cost::fixed(0.0),
            interrupt: Cost::fixed(fit.device_cpu_ns - fit.device_cpu_waited_ns),
            drift: Drift::None,
        }],
        background: Background::default(),
        jitter: 0.05,
    }
}

/// One figure of the paper beside the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Block size in KiB.
    pub kib: u64,
    /// Concurrent writes.
    pub clients: u32,
    /// On the device, or on the CPU.
    pub is_device: bool,
    /// Mean latency in the paper.
    pub paper_ns: f64,
    /// Mean latency of the model.
    pub model_ns: f64,
}

impl Prediction {
    /// The model's over the paper's, less one.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.model_ns / self.paper_ns - 1.0
    }
}

/// Runs the writes of Table I in the model: the columns of so many concurrent
/// ones, 12 (fitted) or 32 (predicted).
#[must_use]
pub fn predictions(clients: u32) -> Vec<Prediction> {
    let host = host();
    let predict = |row: &Row, is_device: bool| {
        let paper = match (clients == 32, is_device) {
            (true, true) => row.device_write_32,
            (true, false) => row.cpu_write_32,
            (false, true) => row.device_write_12,
            (false, false) => row.cpu_write_12,
        };
        let settings = Settings {
            policy: Policy::Fixed,
            engine: u8::from(is_device),
            check_exponent: Settings::CHECK_EXPONENT_MAX,
            ..Settings::default()
        };
        let options = Options { settings, duration_ns: 100_000_000, seed: 1 };
        let report = run(&host, &Workload::writes(row.kib, clients), &options);
        let model_ns = report.latency_ns_mean as f64;
        Prediction { kib: row.kib, clients, is_device, paper_ns: paper * 1e3, model_ns }
    };
    TABLE_1.iter().flat_map(|row| [predict(row, true), predict(row, false)]).collect()
}
