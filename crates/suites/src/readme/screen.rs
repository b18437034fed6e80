//! What a terminal shows of the bytes that were written to it.

use vt100::Parser;

/// Lines of the terminal that everything is drawn on: more than any command writes, so that nothing scrolls
/// away.
const ROWS: u16 = 4000;

/// What one command has drawn.
pub(super) struct Screen {
    /// Lines as they were written, of which the terminal made several where they were too long.
    lines: Vec<Line>,
    /// Lines that were broken where they should not be, what is gone included.
    broken: Vec<String>,
}

struct Line {
    text: String,
    rows: u16,
    /// A row ends within a word.
    is_cut: bool,
}

impl Line {
    /// The terminal had to break it although it has blanks: what is one word cannot be broken elsewhere.
    fn is_broken(&self, columns: u16) -> bool {
        let is_long = self.text.trim_end().chars().count() > usize::from(columns);
        self.rows > 1 && is_long && self.text.trim().contains(char::is_whitespace)
    }
}

impl Screen {
    /// Draws what was written to a terminal of so many columns, whose cursor stood behind `before`.
    pub(super) fn of(before: &str, written: &[u8], columns: u16) -> Self {
        let mut parser = Parser::new(ROWS, columns, 0);
        parser.process(before.as_bytes());
        let mut broken: Vec<String> = Vec::new();
        let mut note = |found: Vec<Line>| {
            for line in found {
                if !line.text.starts_with(before) && !broken.contains(&line.text) {
                    broken.push(line.text);
                }
            }
        };
        // A bar fills its line with blanks, and has the terminal go on in the next: what is drawn for a moment may do
        // so between words.
        let mut look = |screen: &vt100::Screen| {
            let near = screen.cursor_position().0.saturating_sub(4);
            note(
                lines(screen, near)
                    .into_iter()
                    .filter(|line| line.is_cut && line.is_broken(columns))
                    .collect(),
            );
        };
        // What is taken away again is taken away by a sequence, or drawn over from the line's begin.
        for piece in written.split_inclusive(|byte| *byte == b'\r' || *byte == 0x1b) {
            let (text, last) = piece.split_at(piece.len() - 1);
            parser.process(text);
            look(parser.screen());
            parser.process(last);
        }
        look(parser.screen());
        note(lines(parser.screen(), 0).into_iter().filter(|line| line.is_broken(columns)).collect());
        Self { lines: lines(parser.screen(), 0), broken }
    }

    /// The lines that are shown, but for the one that was typed and the shell's prompt.
    pub(super) fn lines(&self, prompt: &str) -> impl Iterator<Item = &str> {
        let own = move |line: &&Line| !line.text.starts_with(prompt);
        self.lines.iter().filter(own).map(|line| line.text.as_str())
    }

    /// Whether the text is shown, wherever lines end.
    pub(super) fn shows(&self, text: &str) -> bool {
        let shown: String = self.lines.iter().map(|line| squeezed(&line.text)).collect();
        shown.contains(&squeezed(text))
    }

    /// Lines that the terminal broke: within a word at some moment, or anywhere and to stay.
    pub(super) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Everything that is shown, for messages.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("    | {}\n", line.text)).collect()
    }

    /// The first word for which `is_it`.
    pub(super) fn word(&self, is_it: impl Fn(&str) -> bool) -> Option<&str> {
        self.lines.iter().flat_map(|line| line.text.split_whitespace()).find(|word| is_it(word))
    }
}

/// Without blanks: how a terminal or a program broke the lines plays no part.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The lines from a row on, up to the cursor.
fn lines(screen: &vt100::Screen, from: u16) -> Vec<Line> {
    let columns = screen.size().1;
    let last = screen.cursor_position().0;
    let mut lines: Vec<Line> = Vec::new();
    let mut goes_on = false;
    // A line that begins above belongs to what is below.
    let first = (0..from).rev().find(|row| !screen.row_wrapped(*row)).map_or(0, |row| row + 1);
    for row in first..=last.max(first) {
        let cells = (0..columns).filter_map(|column| screen.cell(row, column));
        let cells = cells.filter(|cell| !cell.is_wide_continuation());
        let text: String =
            cells.map(|cell| if cell.has_contents() { cell.contents() } else { " " }).collect();
        let text = if screen.row_wrapped(row) { text.as_str() } else { text.trim_end() };
        match lines.last_mut() {
            Some(line) if goes_on => {
                line.is_cut |= !line.text.ends_with(' ') && !text.starts_with(' ');
                line.text.push_str(text);
                line.rows += 1;
            }
            _ => lines.push(Line { text: text.to_owned(), rows: 1, is_cut: false }),
        }
        goes_on = screen.row_wrapped(row);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(written: &str) -> Vec<String> {
        Screen::of("$ ", written.as_bytes(), 10).broken
    }

    #[test]
    fn lines_that_the_terminal_broke_are_found() {
        assert_eq!(broken("ls\r\n0123456789\r\n"), [""; 0]);
        assert_eq!(broken("ls\r\n  0123456789ab\r\n"), [""; 0], "one word");
        assert_eq!(broken("ls\r\na 0123456789\r\nb"), ["a 0123456789"]);
        assert_eq!(broken("ls\r\na 345678?: b"), ["a 345678?: b"]);
        assert_eq!(broken("ls\r\na 3456789: \r\nb"), [""; 0], "a blank at the end");
        assert_eq!(broken("ls\r\na 3456789:\r\nb c"), [""; 0], "a full line");
        assert_eq!(broken("a line that was typed\r\nb\r\n"), [""; 0]);
    }

    #[test]
    fn what_is_gone_was_seen() {
        assert_eq!(broken("ls\r\na 0123456789\r\x1b[1A\x1b[2Kb\x1b[0m"), ["a 0123456789"]);
        let screen = Screen::of("$ ", b"ls\r\n50 % done\r\x1b[2Kend\r\n$ ", 10);
        assert_eq!(screen.lines("$").collect::<Vec<_>>(), ["end"]);
        assert!(screen.broken().is_empty());
        assert_eq!(
            broken("ls\r\n50 %      of it\r\x1b[1A\x1b[2K\x1b[1B\x1b[2Kend\r\n"),
            [""; 0],
            "a bar of two lines"
        );
        assert_eq!(broken("ls\r\n50 %      of it\r\n"), ["50 %      of it"]);
    }

    #[test]
    fn text_is_found_across_lines() {
        let screen = Screen::of("", b"a word\r\n  and ano\r\nther", 10);
        assert!(screen.shows("and another") && !screen.shows("an other word"));
        assert_eq!(screen.word(|word| word.starts_with('a') && word.len() == 3), Some("and"));
    }
}
