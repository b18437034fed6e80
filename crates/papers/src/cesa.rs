//! Document 004: dm-crypt on a board with Marvell's CESA engine, measured
//! through a block device and through ext4.
//!
//! One core does everything. So a byte takes the host's time for this way of
//! reading or writing, then the cipher's, then what the engine's driver costs
//! for each sector of 512 bytes; the times add up. The host's time is fitted
//! for each column on one row of the matrix, the driver's on two cells of
//! another, the cipher's is what `cryptsetup benchmark` printed on the board.

use crate::table::{Cell, Claim, Origin, Replay, Table};

pub(crate) const TITLE: &str = "Encrypted partitions on a Marvell board: CESA, plain C and ARM assembly";

const MIB: f64 = 1_048_576.0;
const SECTOR_BYTES: f64 = 512.0;
/// An initialisation vector of ESSIV is one block of AES-256.
const ESSIV_BYTES: f64 = 16.0;

/// The matrix's columns: on the block device, then on ext4.
const COLUMNS: [&str; 9] = [
    "block hdparm",
    "block WR",
    "block WR S",
    "block WR DS",
    "block RD",
    "ext4 WR",
    "ext4 WR S",
    "ext4 WR DS",
    "ext4 RD",
];
const WRITE: usize = 1;
const READ: usize = 4;
const FILE_WRITE: usize = 5;
const FILE_WRITE_SYNC: usize = 6;
const FILE_READ: usize = 8;

fn encrypts(column: usize) -> bool {
    matches!(column, 1..=3 | 5..=7)
}

/// MB/s "without encryption", by column.
const PLAIN: [f64; 9] = [137.0, 91.0, 33.7, 51.7, 149.0, 69.0, 13.0, 15.0, 149.0];

/// Who computes the cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    /// `mv_cesa`.
    Device,
    /// The kernel's C code.
    Software,
    /// The kernel's ARM assembly.
    Assembly,
}
use Engine::{Assembly, Device, Software};

/// `cryptsetup benchmark` with kernel 3.18: cipher, key bits as the matrix counts them, engine, MiB/s of
/// encryption and of decryption.
type Benchmark = (&'static str, u32, Engine, [f64; 2]);
const BENCHMARK: [Benchmark; 14] = [
    ("aes-cbc", 128, Software, [12.8, 13.4]),
    ("aes-cbc", 128, Assembly, [13.4, 14.1]),
    ("aes-cbc", 128, Device, [19.7, 20.2]),
    ("aes-cbc", 256, Software, [10.1, 10.5]),
    ("aes-cbc", 256, Assembly, [11.0, 11.4]),
    ("aes-cbc", 256, Device, [18.9, 19.2]),
    ("aes-xts", 128, Software, [13.1, 13.3]),
    ("aes-xts", 128, Assembly, [14.6, 14.7]),
    ("aes-xts", 256, Software, [10.2, 10.4]),
    ("aes-xts", 256, Assembly, [11.4, 11.8]),
    ("twofish-cbc", 128, Software, [13.0, 13.4]),
    ("twofish-cbc", 256, Software, [13.0, 13.4]),
    ("twofish-xts", 128, Software, [13.4, 13.2]),
    ("twofish-xts", 256, Software, [13.4, 13.2]),
];

/// A row of the matrix: cipher, IV, key bits, engine, MB/s by column.
struct Row(&'static str, &'static str, u32, Engine, [f64; 9]);

#[rustfmt::skip]
const MATRIX: [Row; 38] = [
    Row("aes-cbc", "plain", 128, Device, [8.82, 7.0, 6.1, 7.3, 9.2, 8.0, 5.5, 5.8, 9.3]),
    Row("aes-cbc", "plain", 128, Software, [11.80, 8.2, 7.4, 8.7, 12.40, 9.5, 6.2, 6.4, 12.40]),
    Row("aes-cbc", "plain", 128, Assembly, [12.76, 8.9, 7.2, 9.2, 13.60, 10.2, 6.4, 6.4, 13.60]),
    Row("aes-cbc", "plain64", 128, Device, [8.79, 6.9, 6.1, 7.5, 9.2, 7.9, 5.3, 5.6, 9.0]),
    Row("aes-cbc", "plain64", 128, Software, [11.83, 8.2, 7.4, 9.2, 12.40, 9.5, 6.2, 6.6, 12.40]),
    Row("aes-cbc", "plain64", 128, Assembly, [12.73, 8.9, 7.2, 9.3, 13.60, 10.2, 6.2, 6.1, 13.60]),
    Row("aes-cbc", "essiv", 128, Device, [7.7, 6.2, 5.5, 6.9, 8.1, 7.2, 5.2, 5.2, 8.1]),
    Row("aes-cbc", "essiv", 128, Software, [9.7, 7.8, 6.9, 8.7, 11.40, 9.1, 6.2, 6.5, 11.40]),
    Row("aes-cbc", "essiv", 128, Assembly, [12.36, 8.7, 7.0, 9.1, 13.20, 9.9, 6.3, 6.2, 13.20]),
    Row("aes-xts", "plain", 128, Software, [11.29, 8.2, 7.4, 8.7, 11.80, 9.5, 6.1, 6.5, 11.90]),
    Row("aes-xts", "plain", 128, Assembly, [12.79, 9.3, 7.5, 10.1, 13.60, 10.6, 6.3, 5.9, 13.70]),
    Row("aes-xts", "plain64", 128, Software, [11.27, 8.2, 7.4, 8.7, 11.80, 9.5, 6.2, 6.5, 11.70]),
    Row("aes-xts", "plain64", 128, Assembly, [12.84, 9.3, 7.5, 10.2, 13.70, 10.6, 6.4, 6.1, 13.70]),
    Row("aes-xts", "essiv", 128, Software, [10.30, 7.9, 7.2, 8.7, 11.10, 9.1, 6.1, 6.5, 11.10]),
    Row("aes-xts", "essiv", 128, Assembly, [12.40, 9.1, 7.5, 9.3, 13.20, 10.4, 6.3, 6.1, 13.30]),
    Row("aes-cbc", "plain", 256, Device, [8.43, 6.7, 6.1, 7.5, 8.9, 7.7, 5.5, 5.7, 8.9]),
    Row("aes-cbc", "plain", 256, Software, [9.17, 6.7, 6.1, 7.4, 9.6, 7.7, 5.5, 5.8, 9.6]),
    Row("aes-cbc", "plain", 256, Assembly, [10.32, 7.6, 6.3, 7.9, 10.80, 8.5, 5.5, 6.0, 10.80]),
    Row("aes-cbc", "plain64", 256, Device, [8.44, 6.7, 6.1, 7.5, 8.9, 7.7, 5.5, 5.7, 8.8]),
    Row("aes-cbc", "plain64", 256, Software, [9.15, 6.8, 6.1, 7.5, 9.5, 7.6, 5.5, 5.8, 9.7]),
    Row("aes-cbc", "plain64", 256, Assembly, [10.24, 7.6, 6.2, 7.8, 10.70, 8.4, 5.1, 5.5, 10.00]),
    Row("aes-cbc", "essiv", 256, Device, [7.47, 6.0, 5.5, 6.5, 7.8, 6.9, 5.0, 5.2, 7.8]),
    Row("aes-cbc", "essiv", 256, Software, [8.59, 6.7, 6.1, 7.5, 9.0, 7.5, 5.3, 5.5, 8.9]),
    Row("aes-cbc", "essiv", 256, Assembly, [9.83, 7.5, 6.2, 7.9, 10.50, 8.3, 5.5, 5.7, 10.60]),
    Row("aes-xts", "plain", 256, Software, [8.70, 6.8, 6.1, 7.5, 9.1, 7.6, 5.5, 5.6, 9.2]),
    Row("aes-xts", "plain", 256, Assembly, [10.09, 7.9, 6.6, 8.5, 10.7, 8.8, 5.2, 5.6, 10.80]),
    Row("aes-xts", "plain64", 256, Software, [8.70, 6.8, 6.1, 7.5, 9.2, 7.6, 5.5, 5.6, 9.2]),
    Row("aes-xts", "plain64", 256, Assembly, [10.14, 7.9, 6.6, 8.4, 10.80, 8.8, 5.4, 5.7, 10.80]),
    Row("aes-xts", "essiv", 256, Software, [8.37, 6.7, 6.1, 7.0, 8.8, 7.3, 5.1, 5.4, 8.4]),
    Row("aes-xts", "essiv", 256, Assembly, [9.94, 7.7, 6.3, 7.9, 10.40, 8.5, 4.9, 5.2, 9.7]),
    Row("twofish-cbc", "plain", 128, Software, [11.80, 8.4, 7.4, 9.5, 12.4, 9.6, 6.0, 6.1, 11.5]),
    Row("twofish-cbc", "essiv", 128, Software, [11.35, 8.2, 7.4, 8.7, 11.9, 9.5, 6.2, 6.5, 11.9]),
    Row("twofish-xts", "plain", 128, Software, [11.61, 8.4, 7.4, 9.4, 12.2, 9.5, 6.2, 6.6, 12.3]),
    Row("twofish-xts", "essiv", 128, Software, [11.06, 8.0, 7.4, 8.7, 11.6, 9.1, 6.2, 6.5, 11.7]),
    Row("twofish-cbc", "plain", 256, Software, [11.82, 8.4, 7.4, 9.5, 12.4, 9.7, 6.5, 6.6, 12.4]),
    Row("twofish-cbc", "essiv", 256, Software, [11.34, 8.2, 7.4, 8.7, 11.9, 9.5, 6.2, 6.6, 12.0]),
    Row("twofish-xts", "plain", 256, Software, [11.64, 8.4, 7.4, 9.4, 12.2, 9.6, 6.2, 6.6, 12.3]),
    Row("twofish-xts", "essiv", 256, Software, [11.04, 8.0, 7.4, 8.7, 11.6, 9.3, 6.2, 6.5, 11.7]),
];

/// The matrix beside one thread that computes (`stress -c 1`).
#[rustfmt::skip]
const LOADED: [Row; 6] = [
    Row("aes-cbc", "plain", 128, Device, [4.71, 3.9, 3.6, 3.8, 4.9, 4.1, 3.2, 3.4, 4.9]),
    Row("aes-cbc", "plain", 128, Software, [6.13, 4.4, 3.9, 5.3, 6.5, 5.0, 4.0, 4.0, 6.4]),
    Row("aes-cbc", "plain", 128, Assembly, [6.64, 4.8, 4.2, 5.4, 7.0, 5.3, 4.0, 4.2, 7.0]),
    Row("aes-cbc", "plain", 256, Device, [4.68, 3.8, 3.4, 3.9, 4.9, 4.0, 3.2, 3.2, 4.9]),
    Row("aes-cbc", "plain", 256, Software, [4.73, 3.6, 3.4, 4.0, 5.0, 4.0, 3.2, 3.3, 5.0]),
    Row("aes-cbc", "plain", 256, Assembly, [5.31, 4.1, 3.6, 4.4, 5.6, 4.4, 3.4, 3.6, 5.6]),
];

/// Copies of a file by `dd conv=fsync`: cipher, IV, key bits, engine, MB/s written, MB/s read.
#[rustfmt::skip]
const COPIES: [(&str, &str, u32, Engine, [f64; 2]); 24] = [
    ("aes-cbc", "plain64", 128, Device, [5.8, 8.1]),
    ("aes-cbc", "plain64", 128, Software, [6.4, 10.60]),
    ("aes-cbc", "plain64", 128, Assembly, [6.8, 12.00]),
    ("twofish-cbc", "plain64", 128, Software, [6.5, 10.60]),
    ("aes-cbc", "essiv", 128, Device, [5.4, 7.1]),
    ("aes-cbc", "essiv", 128, Software, [6.3, 10.30]),
    ("aes-cbc", "essiv", 128, Assembly, [6.6, 11.10]),
    ("twofish-cbc", "essiv", 128, Software, [6.5, 10.70]),
    ("aes-xts", "plain64", 128, Software, [6.4, 10.20]),
    ("aes-xts", "plain64", 128, Assembly, [7.0, 12.10]),
    ("twofish-xts", "plain64", 128, Software, [6.6, 11.00]),
    ("twofish-xts", "essiv", 128, Software, [6.4, 10.50]),
    ("aes-cbc", "plain64", 256, Device, [5.8, 8.3]),
    ("aes-cbc", "plain64", 256, Software, [5.5, 8.4]),
    ("aes-cbc", "plain64", 256, Assembly, [5.9, 9.5]),
    ("twofish-cbc", "plain64", 256, Software, [6.6, 11.00]),
    ("aes-cbc", "essiv", 256, Device, [5.5, 7.3]),
    ("aes-cbc", "essiv", 256, Software, [5.4, 8.0]),
    ("aes-cbc", "essiv", 256, Assembly, [5.9, 9.6]),
    ("twofish-cbc", "essiv", 256, Software, [6.5, 10.70]),
    ("aes-xts", "plain64", 256, Software, [5.5, 8.2]),
    ("aes-xts", "plain64", 256, Assembly, [6.1, 9.4]),
    ("twofish-xts", "plain64", 256, Software, [6.6, 10.90]),
    ("twofish-xts", "essiv", 256, Software, [6.3, 10.10]),
];

fn name(engine: Engine) -> &'static str {
    match engine {
        Device => "CESA",
        Software => "C",
        Assembly => "ARM",
    }
}

/// Seconds of a byte at so many MB/s.
fn seconds(megabytes_per_second: f64) -> f64 {
    1e-6 / megabytes_per_second
}

/// Seconds of the cipher for a byte. The benchmark names every cipher of the
/// matrix; where it does not, the byte takes for ever, which no test passes.
fn cipher_seconds(cipher: &str, bits: u32, engine: Engine, encrypts: bool) -> f64 {
    let rates = BENCHMARK
        .iter()
        .find(|(named, of_bits, by, _)| *named == cipher && *of_bits == bits && *by == engine)
        .map(|(_, _, _, rates)| rates);
    rates.map_or(f64::INFINITY, |[encryption, decryption]| {
        1.0 / (MIB * if encrypts { encryption } else { decryption })
    })
}

/// What is fitted: 11 numbers, in seconds for each byte.
struct Fit {
    /// The host's time, by column: the row of AES-CBC with 128 bits in C.
    host: [f64; 9],
    /// The device's driver, of writes and reads: two cells of the same row on the device.
    driver: [f64; 2],
}

impl Fit {
    fn new() -> Fit {
        let (software, device) = (&MATRIX[1], &MATRIX[0]);
        let cipher = |row: &Row, column| cipher_seconds(row.0, row.2, row.3, encrypts(column));
        let host = std::array::from_fn(|column| seconds(software.4[column]) - cipher(software, column));
        let driver =
            [WRITE, READ].map(|column| seconds(device.4[column]) - cipher(device, column) - host[column]);
        Fit { host, driver }
    }

    fn was_used(row: &Row, column: usize) -> bool {
        row.0 == "aes-cbc"
            && row.1 == "plain"
            && row.2 == 128
            && (row.3 == Software || row.3 == Device && matches!(column, WRITE | READ))
    }

    /// Seconds of a byte in one cell of the matrix.
    fn byte_seconds(&self, cipher: &str, iv: &str, bits: u32, engine: Engine, column: usize) -> f64 {
        let encrypts = encrypts(column);
        let driver = if engine == Device { self.driver[usize::from(!encrypts)] } else { 0.0 };
        // The device takes whole requests of CBC; a vector of ESSIV is the CPU's.
        let vectors = if engine == Assembly { Assembly } else { Software };
        let essiv = ESSIV_BYTES / SECTOR_BYTES * cipher_seconds("aes-cbc", 256, vectors, true);
        self.host[column]
            + cipher_seconds(cipher, bits, engine, encrypts)
            + driver
            + if iv == "essiv" { essiv } else { 0.0 }
    }

    fn cell(&self, row: &Row, column: usize) -> Cell {
        let ours = 1e-6 / self.byte_seconds(row.0, row.1, row.2, row.3, column);
        let origin = if Fit::was_used(row, column) { Origin::Fitted } else { Origin::Predicted };
        cell(row, COLUMNS[column], row.4[column], ours, origin)
    }

    /// Beside a thread that computes, this core is ours for half of the time. Waiting for the disk goes on
    /// as before: what an unencrypted write takes longer when it syncs.
    fn loaded(&self, row: &Row, column: usize) -> Cell {
        let unsynced = if column < FILE_WRITE { WRITE } else { FILE_WRITE };
        let waits = if encrypts(column) { seconds(PLAIN[column]) - seconds(PLAIN[unsynced]) } else { 0.0 };
        let idle = self.byte_seconds(row.0, row.1, row.2, row.3, column);
        let ours = 1e-6 / (2.0 * (idle - waits) + waits);
        cell(row, COLUMNS[column], row.4[column], ours, Origin::Predicted)
    }
}

fn cell(row: &Row, column: &str, published: f64, ours: f64, origin: Origin) -> Cell {
    let Row(cipher, iv, bits, engine, _) = row;
    let row = format!("{cipher}-{iv}, {bits} bits, {}", name(*engine));
    Cell { row, column: column.to_owned(), published, ours, origin }
}

fn matrix(fit: &Fit) -> Table {
    let cells = MATRIX.iter().flat_map(|row| (0..COLUMNS.len()).map(move |column| fit.cell(row, column)));
    Table {
        title: "Reading and writing through dm-crypt, idle CPU".into(),
        source: "Ciphers benchmark, 128b key and 256b key; Twofish cipher",
        unit: "MB/s",
        model: "Seconds of a byte: the host's for the column, the cipher's by `cryptsetup benchmark`, the \
                device driver's, and one block of AES-256 a sector for ESSIV",
        cells: cells.collect(),
    }
}

fn loaded(fit: &Fit) -> Table {
    let cells = LOADED.iter().flat_map(|row| (0..COLUMNS.len()).map(move |column| fit.loaded(row, column)));
    Table {
        title: "The same beside one computing thread".into(),
        source: "Loaded CPU benchmark",
        unit: "MB/s",
        model: "Half of the core, but for the time that an unencrypted write waits for the disk",
        cells: cells.collect(),
    }
}

fn copies(fit: &Fit) -> Table {
    let copy =
        |(cipher, iv, bits, engine, published): &(&'static str, &'static str, u32, Engine, [f64; 2])| {
            let of = |column| fit.byte_seconds(cipher, iv, *bits, *engine, column);
            let written = seconds(PLAIN[FILE_READ]) + of(FILE_WRITE_SYNC);
            let read = of(FILE_READ) + seconds(PLAIN[FILE_WRITE]);
            let row = Row(cipher, iv, *bits, *engine, [0.0; 9]);
            [("copied to", published[0], written), ("copied from", published[1], read)].map(
                |(column, published, time)| cell(&row, column, published, 1e-6 / time, Origin::Predicted),
            )
        };
    Table {
        title: "A file copied to and from an encrypted ext4".into(),
        source: "File copy benchmark",
        unit: "MB/s",
        model: "Reading from one side and writing to the other, one after the other",
        cells: COPIES.iter().flat_map(copy).collect(),
    }
}

fn claims() -> Vec<Claim> {
    // KiB/s of fio's mixture, with the device and with ARM assembly, at 4 and at 64 KiB.
    let mixtures = [(479.0 + 160.0, 478.0 + 159.0), (5663.0 + 1931.0, 5622.0 + 1917.0)];
    let apart = mixtures.map(|(device, assembly): (f64, f64)| device / assembly - 1.0);
    let [rate, c] = [Device, Software].map(|engine| 1e-6 / cipher_seconds("aes-cbc", 128, engine, false));
    let fit = Fit::new();
    let within = 1e-6 / fit.byte_seconds("aes-cbc", "plain", 128, Device, READ);
    vec![
        Claim {
            source: "fio benchmark",
            published: "random reads and writes are as fast with the device as with the CPU",
            ours: format!(
                "{:.1} % apart at 4 KiB, {:.1} % at 64 KiB: the disk's seeks are what takes time",
                apart[0] * 1e2,
                apart[1] * 1e2
            ),
            agrees: apart.iter().all(|share| share.abs() < 0.02),
        },
        Claim {
            source: "Encrypted partition",
            published: "hardware acceleration is a bit slower than software, though its benchmark is faster",
            ours: format!(
                "the cipher alone has {rate:.1} against {c:.1} MB/s; with {:.0} us a sector for its driver, \
                 reading has {within:.1} against 12.4 MB/s",
                fit.driver[1] * SECTOR_BYTES * 1e6
            ),
            agrees: rate > c && within < 12.4,
        },
    ]
}

pub(crate) fn replay() -> Replay {
    let fit = Fit::new();
    Replay {
        name: "paper-004",
        title: TITLE,
        tables: vec![matrix(&fit), loaded(&fit), copies(&fit)],
        claims: claims(),
        left_out: vec![
            "Kernel 5.8's `cryptsetup benchmark`: rates of another driver, without a matrix that uses them",
            "SSH performance, rsync and fsck: one program's time on this board each, with nothing to compute \
             them from",
        ],
        pictures: "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Errors;

    #[test]
    fn the_matrix_is_predicted_within_its_bounds() {
        let table = matrix(&Fit::new());
        let errors = table.errors();
        assert_eq!((errors.fitted, errors.predicted), (11, 38 * 9 - 11));
        assert!(errors.median <= 0.04 && errors.ninth_decile <= 0.10, "{errors:?}");
        let without = table.cells.iter().filter(|cell| cell.row.contains("-plain,"));
        let errors = Errors::of(without);
        assert_eq!(errors.predicted, 115);
        assert!(errors.median <= 0.03 && errors.ninth_decile <= 0.07 && errors.worst <= 0.16, "{errors:?}");
    }

    #[test]
    fn what_follows_from_the_matrix_stays_near() {
        let fit = Fit::new();
        for table in [loaded(&fit), copies(&fit)] {
            let errors = table.errors();
            assert_eq!(errors.fitted, 0);
            assert!(errors.median <= 0.10, "{}: {errors:?}", table.title);
        }
        assert!(claims().iter().all(|claim| claim.agrees));
    }
}
