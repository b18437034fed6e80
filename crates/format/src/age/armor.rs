//! The ASCII armor: strict PEM (RFC 7468) of lines of 64 columns.

use data_encoding::BASE64;

use crate::FormatError;

/// The line before.
pub const ARMOR_BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
/// The line after.
pub const ARMOR_END: &str = "-----END AGE ENCRYPTED FILE-----";
/// Bytes in every line but the last.
pub const ARMOR_LINE_BYTES: usize = 48;

const COLUMNS: usize = 64;
/// Most bytes of white space before and after the armor.
const AROUND_MAX: usize = 1024;

/// One line of at most [`ARMOR_LINE_BYTES`] bytes, with its newline.
#[must_use]
pub fn armor_line(bytes: &[u8]) -> String {
    let mut line = BASE64.encode(bytes);
    line.push('\n');
    line
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    /// After a line that was not full.
    AtEnd,
    After,
}

/// Takes an armored file line by line.
#[derive(Debug)]
pub struct ArmorReader {
    place: Place,
    around: usize,
}

impl ArmorReader {
    /// For the first line.
    #[must_use]
    pub fn new() -> ArmorReader {
        ArmorReader { place: Place::Before, around: 0 }
    }

    /// Takes one line with its newline, if it has one, and appends its bytes.
    ///
    /// # Errors
    /// Whatever is not spelled as the specification says.
    pub fn line(&mut self, line: &[u8], bytes: &mut Vec<u8>) -> Result<(), FormatError> {
        let whole = line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let failed = || FormatError::text("line of age's ASCII armor", line);
        match self.place {
            Place::Before | Place::After if line.iter().all(u8::is_ascii_whitespace) => {
                self.around += whole;
                if self.around > AROUND_MAX { Err(failed()) } else { Ok(()) }
            }
            Place::Before if line == ARMOR_BEGIN.as_bytes() => {
                (self.place, self.around) = (Place::Inside, 0);
                Ok(())
            }
            Place::Inside | Place::AtEnd if line == ARMOR_END.as_bytes() => {
                self.place = Place::After;
                Ok(())
            }
            Place::Inside if !line.is_empty() && line.len() <= COLUMNS => {
                let decoded = BASE64.decode(line).map_err(|_| failed())?;
                // The decoder takes several padded texts in a row.
                if BASE64.encode(&decoded).as_bytes() != line {
                    return Err(failed());
                }
                bytes.extend_from_slice(&decoded);
                if decoded.len() < ARMOR_LINE_BYTES {
                    self.place = Place::AtEnd;
                }
                Ok(())
            }
            _ => Err(failed()),
        }
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// The last line is missing.
    pub fn end(&self) -> Result<(), FormatError> {
        match self.place {
            Place::After => Ok(()),
            _ => Err(FormatError::Inconsistent { what: "age's ASCII armor ends before its last line" }),
        }
    }
}

impl Default for ArmorReader {
    fn default() -> ArmorReader {
        ArmorReader::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, FormatError> {
        let (mut reader, mut bytes) = (ArmorReader::new(), Vec::new());
        for line in text.split_inclusive('\n') {
            reader.line(line.as_bytes(), &mut bytes)?;
        }
        reader.end().map(|()| bytes)
    }

    #[test]
    fn lines_are_read_back_and_junk_is_refused() {
        for len in [0, 1, 47, 48, 49, 96, 200] {
            let plain: Vec<u8> = (0..len).collect();
            let lines: String = plain.chunks(ARMOR_LINE_BYTES).map(armor_line).collect();
            let text = format!("{ARMOR_BEGIN}\n{lines}{ARMOR_END}\n");
            assert_eq!(read(&text), Ok(plain.clone()), "{len}");
            assert_eq!(read(&format!("\n{}\r\n", text.replace('\n', "\r\n"))), Ok(plain));
            assert!(read(&format!("junk\n{text}")).is_err());
            assert!(read(&format!("{text}junk")).is_err());
            assert!(read(&text.replace(ARMOR_END, "")).is_err());
        }
        assert!(
            read(&format!("{ARMOR_BEGIN}\nAAAA\nAAAA\n{ARMOR_END}\n")).is_err(),
            "a short line is the last"
        );
        assert!(read(&format!("{ARMOR_BEGIN}\nAAA=AAAA\n{ARMOR_END}\n")).is_err(), "padding in the middle");
        assert!(read(&format!("{}{ARMOR_BEGIN}\nAAAA\n{ARMOR_END}\n", "\n".repeat(1025))).is_err());
    }
}
