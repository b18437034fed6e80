//! The armor as a stream: read into bytes, written from bytes.

use std::io::{self, BufRead, BufReader, Read, Write};

use strongroom_format::age::{ARMOR_BEGIN, ARMOR_END, ARMOR_LINE_BYTES, ArmorReader, INTRO, armor_line};

/// Most bytes of a line: what is longer is no armor.
const LINE_MAX: u64 = 1100;
/// Bytes that are taken out of the armor at once.
const FILL: usize = 48 << 10;

/// The input, out of its armor if it has one, and whether it has.
///
/// # Errors
/// What the input says.
pub fn detect<R: BufRead + Send + 'static>(mut input: R) -> io::Result<(Box<dyn BufRead + Send>, bool)> {
    // No header begins with dashes. What stands before an armor is junk, of
    // which its reader tells.
    let start = input.fill_buf()?;
    let has_armor = || start.windows(ARMOR_BEGIN.len()).any(|window| window == ARMOR_BEGIN.as_bytes());
    let armored =
        start.trim_ascii_start().starts_with(b"-----") || !start.starts_with(INTRO.as_bytes()) && has_armor();
    if armored {
        return Ok((Box::new(BufReader::with_capacity(FILL, Dearmor::new(input))), true));
    }
    Ok((Box::new(input), false))
}

/// Reads what stands in an armored file. Damage is an error of the kind
/// `InvalidData`, with the [`strongroom_format::FormatError`] inside.
pub struct Dearmor<R> {
    input: R,
    lines: ArmorReader,
    bytes: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<R: BufRead> Dearmor<R> {
    /// Of an input that has not been read.
    pub fn new(input: R) -> Dearmor<R> {
        Dearmor { input, lines: ArmorReader::new(), bytes: Vec::new(), taken: 0, ended: false }
    }

    fn refill(&mut self) -> io::Result<()> {
        self.bytes.clear();
        self.taken = 0;
        let mut line = Vec::new();
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while !self.ended && self.bytes.len() < FILL {
            line.clear();
            if (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
                self.lines.end().map_err(damaged)?;
                self.ended = true;
            } else {
                self.lines.line(&line, &mut self.bytes).map_err(damaged)?;
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Dearmor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.bytes.len() && !self.ended {
            self.refill()?;
        }
        let count = buffer.len().min(self.bytes.len() - self.taken);
        buffer[..count].copy_from_slice(&self.bytes[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// Writes bytes as an armored file, which [`Armor::finish`] ends.
pub struct Armor<W> {
    output: W,
    rest: Vec<u8>,
}

impl<W: Write> Armor<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(mut output: W) -> io::Result<Armor<W>> {
        output.write_all(format!("{ARMOR_BEGIN}\n").as_bytes())?;
        Ok(Armor { output, rest: Vec::new() })
    }

    /// Writes the last lines.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<W> {
        let last = if self.rest.is_empty() { String::new() } else { armor_line(&self.rest) };
        self.output.write_all(format!("{last}{ARMOR_END}\n").as_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }
}

impl<W: Write> Write for Armor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() - self.rest.len() % ARMOR_LINE_BYTES;
        let lines: String = self.rest[..whole].chunks(ARMOR_LINE_BYTES).map(armor_line).collect();
        self.output.write_all(lines.as_bytes())?;
        self.rest.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
