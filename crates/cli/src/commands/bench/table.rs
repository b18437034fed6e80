//! Rows as text.

use super::{FigureReport, Row};
use crate::report::bytes;

const MIB: f64 = 1_048_576.0;

pub(super) const CSV_HEADER: &str = "algorithm,key_bits,bytes,engine,threads,loaded,encrypt_bytes_per_second,\
    encrypt_low,encrypt_high,encrypt_portion_ns,encrypt_cpu_ns,decrypt_bytes_per_second,decrypt_low,decrypt_high,\
    decrypt_portion_ns,decrypt_cpu_ns\n";

/// What stands above the table.
pub(super) fn header(cpu: &str, cpus: u64) -> String {
    format!(
        "# {cpu}, {cpus} CPUs. Data in cache; the median of the samples ± half the distance of the quartiles.\n\
         #{:>22} | {:>4} | {:>7} | {:<12} | {:>3} | {:<6} | {:>20} | {:>20} | {:>15}\n",
        "Algorithm", "Key", "Size", "Engine", "Thr", "CPUs", "Encryption", "Decryption", "CPU s/GiB"
    )
}

/// One line.
pub(super) fn line(row: &Row) -> String {
    let rate = |figure: &FigureReport| {
        let spread =
            (figure.bytes_per_second_high - figure.bytes_per_second_low) / 2.0 / figure.bytes_per_second;
        format!("{:>9.1} MiB/s ±{:>2.0}%", figure.bytes_per_second / MIB, spread * 100.0)
    };
    let cpu = |figure: &FigureReport| figure.cpu_ns / 1e9 / row.bytes as f64 * MIB * 1024.0;
    format!(
        "{:>23} | {:>3}b | {:>7} | {:<12} | {:>3} | {:<6} | {:>20} | {:>20} | {:>6.3} / {:>6.3}\n",
        row.algorithm,
        row.key_bits,
        bytes(row.bytes as u64),
        row.engine,
        row.threads,
        if row.loaded { "loaded" } else { "idle" },
        rate(&row.encrypt),
        rate(&row.decrypt),
        cpu(&row.encrypt),
        cpu(&row.decrypt),
    )
}

/// The same for programs. No field needs quotes: names have no commas.
pub(super) fn csv(row: &Row) -> String {
    let figures = |figure: &FigureReport| {
        format!(
            "{:.0},{:.0},{:.0},{:.1},{:.1}",
            figure.bytes_per_second,
            figure.bytes_per_second_low,
            figure.bytes_per_second_high,
            figure.portion_ns,
            figure.cpu_ns
        )
    };
    let Row { algorithm, key_bits, bytes, engine, threads, loaded, encrypt, decrypt } = row;
    format!(
        "{algorithm},{key_bits},{bytes},{engine},{threads},{loaded},{},{}\n",
        figures(encrypt),
        figures(decrypt)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_as_many_fields_as_the_header() {
        let figure = FigureReport {
            bytes_per_second: 2.0 * MIB,
            bytes_per_second_low: 1.9 * MIB,
            bytes_per_second_high: 2.1 * MIB,
            portion_ns: 1000.0,
            cpu_ns: 500.0,
            samples: 3,
        };
        let row = Row {
            algorithm: "aes-xts-plain64".to_owned(),
            key_bits: 512,
            bytes: 4096,
            engine: "cpu-vaes".to_owned(),
            threads: 2,
            loaded: true,
            encrypt: figure,
            decrypt: figure,
        };
        assert_eq!(csv(&row).split(',').count(), CSV_HEADER.split(',').count());
        let text = line(&row);
        assert!(text.contains("512b |   4 KiB | cpu-vaes") && text.contains("2.0 MiB/s ± 5%"), "{text}");
        let columns = |text: &str| text.matches('|').count();
        assert_eq!(columns(&text), columns(&header("x", 1)));
    }
}
