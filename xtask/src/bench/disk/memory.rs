//! What engines do in memory, from `crates/disk/examples/memory.rs`.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::Plan;
use super::server::Programs;
use crate::command;
use crate::failure::{Failure, Result, ensure};

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

    pub(super) fn json(&self) -> Value {
        json!({
            "engine": self.engine,
            "cipher": self.cipher,
            "key_bits": self.key_bits,
            "operation": self.operation,
            "bytes_per_second": self.bytes_per_second.round(),
        })
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

/// A line for each cipher and key, a pair of columns for each engine.
pub(super) fn table(rates: &[Rate]) -> String {
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
    let mut text =
        "In memory, one thread, 64 KiB in sectors of 512 bytes, encrypt / decrypt, MB/s:\n\n".to_owned();
    let _ = writeln!(text, "| cipher | key | {} |", engines.join(" | "));
    let _ = writeln!(text, "|---|---{}|", "|---".repeat(engines.len()));
    for (cipher, key_bits) in rows {
        let _ = write!(text, "| {cipher} | {key_bits} |");
        for engine in &engines {
            let of = |operation: &str| {
                let found = rates.iter().find(|rate| {
                    (rate.cipher.as_str(), rate.key_bits, rate.engine.as_str(), rate.operation.as_str())
                        == (cipher, key_bits, *engine, operation)
                });
                found.map_or(f64::NAN, |rate| rate.bytes_per_second / 1e6)
            };
            let _ = write!(text, " {:.0} / {:.0} |", of("encrypt"), of("decrypt"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_table() {
        let lines = ["a x-xts-plain64 512 encrypt 2000000", "a x-xts-plain64 512 decrypt 3000000"];
        let rates: Vec<Rate> = lines.iter().filter_map(|line| Rate::parse(line)).collect();
        assert_eq!(rates.len(), 2);
        assert!(table(&rates).contains("| x-xts-plain64 | 512 | 2 / 3 |"));
        assert!(Rate::parse("a b 512 encrypt").is_none());
    }
}
