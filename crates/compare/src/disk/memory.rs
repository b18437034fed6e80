//! What engines do in memory, from `crates/disk/examples/memory.rs`.

use std::process::Command;
use std::time::Duration;

use super::Plan;
use super::server::Programs;
use crate::result::{Document, Table};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// One engine with one cipher and one direction.
pub(super) struct Rate {
    engine: String,
    cipher: String,
    key_bits: u32,
    operation: String,
    bytes_per_second: f64,
}

impl Rate {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next().map(str::to_owned);
        let (engine, cipher) = (word()?, word()?);
        let key_bits = word()?.parse().ok()?;
        Some(Self { engine, cipher, key_bits, operation: word()?, bytes_per_second: word()?.parse().ok()? })
    }
}

pub(super) fn run(programs: &Programs, plan: &Plan) -> Result<Vec<Rate>> {
    let time = if plan.quick { "10" } else { "100" };
    let mut command = Command::new(&programs.memory);
    command.args([time, "", &plan.cipher]);
    let text = command::output(&mut command, LIMIT)?;
    let rate = |line| Rate::parse(line).ok_or_else(|| Failure::new(format!("not understood: {line}")));
    let rates = text.lines().map(rate).collect::<Result<Vec<_>>>()?;
    ensure!(!rates.is_empty(), "no engine has a cipher of this name");
    Ok(rates)
}

/// Adds the table and the rates.
pub(super) fn add(rates: &[Rate], document: &mut Document) {
    document.tables.push(table(rates));
    for rate in rates {
        let row = format!("{} | {} | {}", rate.cipher, rate.key_bits, rate.operation);
        document.sample(&row, &rate.engine, "bytes_per_second", vec![rate.bytes_per_second.round()]);
    }
}

/// A line for each cipher and key, a column for each engine.
fn table(rates: &[Rate]) -> Table {
    let mut engines: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, u32)> = Vec::new();
    for rate in rates {
        if !engines.contains(&rate.engine.as_str()) {
            engines.push(&rate.engine);
        }
        if !rows.contains(&(&rate.cipher, rate.key_bits)) {
            rows.push((&rate.cipher, rate.key_bits));
        }
    }
    let title = "In memory, one thread, 64 KiB in sectors of 512 bytes, encrypt / decrypt, MB/s";
    let mut table = Table::new("memory", title, &[&["cipher", "key"], engines.as_slice()].concat());
    for (cipher, key_bits) in rows {
        let of = |engine: &str, operation: &str| {
            let found = rates.iter().find(|rate| {
                (rate.cipher.as_str(), rate.key_bits, rate.engine.as_str(), rate.operation.as_str())
                    == (cipher, key_bits, engine, operation)
            });
            found.map_or("-".to_owned(), |rate| format!("{:.0}", rate.bytes_per_second / 1e6))
        };
        let both = |engine: &&str| format!("{} / {}", of(engine, "encrypt"), of(engine, "decrypt"));
        let first = [cipher.to_owned(), key_bits.to_string()];
        table.rows.push(first.into_iter().chain(engines.iter().map(both)).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_table() {
        let lines = ["a x-xts-plain64 512 encrypt 2000000", "a x-xts-plain64 512 decrypt 3000000"];
        let rates: Vec<Rate> = lines.iter().filter_map(|line| Rate::parse(line)).collect();
        assert_eq!(rates.len(), 2);
        assert_eq!(table(&rates).rows, [["x-xts-plain64", "512", "2 / 3"]]);
        assert!(Rate::parse("a b 512 encrypt").is_none());
    }
}
