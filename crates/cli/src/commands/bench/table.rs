//! Rows as text.

use super::{FigureReport, Row};
use crate::fit::Display;
use crate::fit::table::{Column, Form, Layout};
use crate::report::bytes;

const MIB: f64 = 1_048_576.0;

pub(super) const CSV_HEADER: &str = "algorithm,key_bits,bytes,engine,threads,loaded,encrypt_bytes_per_second,\
    encrypt_low,encrypt_high,encrypt_portion_ns,encrypt_cpu_ns,decrypt_bytes_per_second,decrypt_low,decrypt_high,\
    decrypt_portion_ns,decrypt_cpu_ns\n";

const COLUMNS: [Column; 9] = [
    Column::right("Algorithm", 23),
    Column::right("Key", 4),
    Column::right("Size", 7),
    Column::left("Engine", 12),
    Column::right("Thr", 3),
    Column::left("CPUs", 6),
    Column::right("Encryption", 20),
    Column::right("Decryption", 20),
    Column::right("CPU s/GiB", 15),
];

/// How the rows look at the width of `display`.
pub(super) fn layout(display: Display) -> Layout<'static> {
    Form { gap: " | ", titles: 4, ..Form::new(&COLUMNS) }.one_by_one(display)
}

/// What stands above the table.
pub(super) fn header(cpu: &str, cpus: u64, layout: &Layout<'_>) -> String {
    // As a remark, in the place of a blank.
    let head = layout.head().replacen(' ', "#", 1);
    format!(
        "# {cpu}, {cpus} CPUs. Data in cache; the median of the samples ± half the distance of the quartiles.\n{head}"
    )
}

/// The cells of one row.
pub(super) fn cells(row: &Row) -> Vec<String> {
    let rate = |figure: &FigureReport| {
        let spread =
            (figure.bytes_per_second_high - figure.bytes_per_second_low) / 2.0 / figure.bytes_per_second;
        format!("{:>9.1} MiB/s ±{:>2.0}%", figure.bytes_per_second / MIB, spread * 100.0)
    };
    let cpu = |figure: &FigureReport| figure.cpu_ns / 1e9 / row.bytes as f64 * MIB * 1024.0;
    vec![
        row.algorithm.clone(),
        format!("{}b", row.key_bits),
        bytes(row.bytes as u64),
        row.engine.clone(),
        row.threads.to_string(),
        if row.loaded { "loaded" } else { "idle" }.to_owned(),
        rate(&row.encrypt),
        rate(&row.decrypt),
        format!("{:>6.3} / {:>6.3}", cpu(&row.encrypt), cpu(&row.decrypt)),
    ]
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
        let layout = layout(Display { width: None, ascii: false });
        let text = layout.row(&cells(&row));
        assert!(text.contains("512b |   4 KiB | cpu-vaes") && text.contains("2.0 MiB/s ± 5%"), "{text}");
        let columns = |text: &str| text.matches('|').count();
        let header = header("x", 1, &layout);
        assert_eq!(columns(&text), columns(&header));
        assert!(header.lines().all(|line| line.starts_with('#')), "{header}");
    }
}
