//! Text as a terminal can show it: lines broken between words at its width,
//! and in ASCII where the locale is. What goes to a file or pipe keeps its
//! lines.

pub(crate) mod table;

use std::borrow::Cow;
use std::os::fd::AsFd;

use rustix::termios::{isatty, tcgetwinsize};

/// Characters that this program's own texts have, and what stands for them.
const IN_ASCII: [(char, &str); 5] = [('…', "..."), ('µ', "u"), ('±', "~"), ('█', "#"), ('·', ".")];

/// Narrower terminals are taken for ones that do not know their width.
const WIDTH_MIN: usize = 10;

/// Where text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Display {
    /// Cells of a line; none for what is no terminal.
    pub(crate) width: Option<usize>,
    /// Nothing but ASCII can be shown.
    pub(crate) ascii: bool,
}

impl Display {
    /// What an open file shows.
    pub(crate) fn of(stream: impl AsFd) -> Display {
        let width = match isatty(&stream) {
            true => tcgetwinsize(&stream).ok().map(|size| usize::from(size.ws_col)),
            false => None,
        };
        Display { width: width.filter(|width| *width >= WIDTH_MIN), ascii: is_ascii() }
    }

    /// The text in lines that fit, of characters that can be shown.
    pub(crate) fn fit<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = match self.ascii {
            true => in_ascii(text),
            false => Cow::Borrowed(text),
        };
        match self.width {
            Some(width) if text.lines().any(|line| cells(line) > width) => {
                Cow::Owned(text.split_inclusive('\n').map(|line| broken(line, width)).collect())
            }
            _ => text,
        }
    }
}

/// Whether the locale's characters are ASCII.
pub(crate) fn is_ascii() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    !(locale.contains("utf-8") || locale.contains("utf8"))
}

fn in_ascii(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for (character, shown) in IN_ASCII {
        if text.contains(character) {
            text = Cow::Owned(text.replace(character, shown));
        }
    }
    text
}

fn cells(line: &str) -> usize {
    line.trim_end_matches('\n').chars().count()
}

/// One line as several. What follows the first stands below its value where it
/// begins with a name in a column, and else two cells further in.
fn broken(line: &str, width: usize) -> String {
    let (text, end) = match line.strip_suffix('\n') {
        Some(text) => (text, "\n"),
        None => (line, ""),
    };
    let column = value_column(text, width);
    let (mut shown, mut rest) = (String::new(), text.to_owned());
    while let Some((first, more)) = split(&rest, width) {
        shown.push_str(first);
        shown.push('\n');
        // A word that is too long for the rest of the line begins further left.
        let word = more.split(' ').next().map_or(0, |word| word.chars().count());
        let hanging = if word <= width { column.min(width - word) } else { column };
        rest = format!("{:hanging$}{more}", "");
    }
    shown + &rest + end
}

/// The column in which the value of a line begins, if it leaves half of the
/// width for it.
fn value_column(text: &str, width: usize) -> usize {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let column = text[indent..].find("  ").map(|gap| {
        let value = text[indent + gap..].trim_start_matches(' ');
        text[..text.len() - value.len()].chars().count()
    });
    column.filter(|column| *column <= width / 2).unwrap_or(indent + 2).min(width / 2)
}

/// The part of a line that fits, up to a blank, and what follows it; none when
/// all fits, or there is no blank to break at.
fn split(line: &str, width: usize) -> Option<(&str, &str)> {
    let (limit, _) = line.char_indices().nth(width)?;
    let indent = line.len() - line.trim_start_matches(' ').len();
    // The blank may be the first that does not fit.
    let at = line[limit..]
        .starts_with(' ')
        .then_some(limit)
        .or_else(|| line[..limit].rfind(' ').filter(|at| *at > indent))
        .or_else(|| line[limit..].find(' ').map(|at| limit + at))?;
    let more = line[at..].trim_start_matches(' ');
    (!more.is_empty()).then(|| (line[..at].trim_end_matches(' '), more))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Display = Display { width: Some(20), ascii: false };

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "a line of more than twenty cells\nand one of twenty ce\n";
        assert_eq!(NARROW.fit(text), "a line of more than\n  twenty cells\nand one of twenty ce\n");
        assert_eq!(NARROW.fit("one"), "one");
        assert_eq!(NARROW.fit("/a/path/that/is/long for it"), "/a/path/that/is/long\n  for it");
        assert_eq!(NARROW.fit("/a/path/that/is/too/long for it"), "/a/path/that/is/too/long\n  for it");
        assert_eq!(NARROW.fit("äöüäöüäöü äöüäöüäöüäöü"), "äöüäöüäöü\n  äöüäöüäöüäöü");
        assert_eq!(Display { width: None, ascii: false }.fit(text), text);
    }

    #[test]
    fn values_stay_below_values() {
        let text = "  vault  a value of several words\n";
        assert_eq!(NARROW.fit(text), "  vault  a value of\n         several\n         words\n");
    }

    #[test]
    fn a_long_value_begins_further_left() {
        assert_eq!(
            NARROW.fit("  vault  /a/path/of/18/long it\n"),
            "  vault\n  /a/path/of/18/long\n         it\n"
        );
        assert_eq!(NARROW.fit("  id     of/more/than/20/cells\n"), "  id\n         of/more/than/20/cells\n");
    }

    #[test]
    fn no_line_is_longer_than_it_must_be_and_no_word_is_lost() {
        let text =
            "  engine       cpu-vaes: 3.0 MB in 7 batches, 0 mismatches in 4 KiB checked, in QUARANTINE\n";
        for width in WIDTH_MIN..100 {
            let shown = Display { width: Some(width), ascii: false }.fit(text).into_owned();
            let longest = text.split_whitespace().map(str::len).max().unwrap_or(0);
            for line in shown.lines() {
                assert!(cells(line) <= width.max(longest + 15), "{width}: {shown}");
            }
            assert!(shown.split_whitespace().eq(text.split_whitespace()), "{width}: {shown}");
        }
    }

    #[test]
    fn ascii_has_what_stands_for_other_characters() {
        let display = Display { width: None, ascii: true };
        assert_eq!(display.fit("1.0 µs … █·"), "1.0 us ... #.");
    }
}
