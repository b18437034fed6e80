//! Tables at the width of a terminal.
//!
//! What goes to a file or pipe has columns of a fixed width, so that it looks
//! the same everywhere. On a terminal that is too narrow for these, columns
//! shrink to what is in them; then the last one is broken between words; and
//! where that leaves too little for it, each row becomes a block of
//! `name: value`. No cell is cut, and none is broken within a word.

use super::{Display, broken, cells};

/// Cells that the last column needs, to be broken between words.
const LAST_MIN: usize = 16;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    /// Cells that it has where there is room; more where a cell needs them.
    width: usize,
    is_right: bool,
}

impl Column {
    /// A column of words.
    pub(crate) const fn left(name: &'static str, width: usize) -> Column {
        Column { name, width, is_right: false }
    }

    /// A column of figures.
    pub(crate) const fn right(name: &'static str, width: usize) -> Column {
        Column { name, width, is_right: true }
    }
}

/// What a table looks like, whatever is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'c> {
    /// Its columns, of which there is one at least.
    pub(crate) columns: &'c [Column],
    /// What stands before each line.
    pub(crate) indent: usize,
    /// What stands between columns.
    pub(crate) gap: &'static str,
    /// So many columns at the left name a block, where rows become blocks.
    pub(crate) titles: usize,
    /// The columns' names stand above them; else blocks alone have them.
    pub(crate) has_head: bool,
}

impl<'c> Form<'c> {
    /// Columns two blanks apart, which all have to be named in a block.
    pub(crate) const fn new(columns: &'c [Column]) -> Form<'c> {
        Form { columns, indent: 0, gap: "  ", titles: 0, has_head: true }
    }

    /// The table at the width of `display`, its head first.
    pub(crate) fn text(&self, rows: &[Vec<String>], display: Display) -> String {
        let layout = self.layout(rows, display);
        rows.iter().fold(layout.head(), |text, row| text + &layout.row(row))
    }

    /// How rows are shown that come one by one: nobody knows what will be in
    /// them, so that no column shrinks.
    pub(crate) fn one_by_one(&self, display: Display) -> Layout<'c> {
        let widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let line = self.before(widths.len()) + widths.iter().sum::<usize>();
        let shape = match display.width {
            Some(width) if line > width => Shape::Blocks { width },
            _ => Shape::Lines(widths),
        };
        Layout { form: *self, shape }
    }

    /// How rows like these are shown, for lines between them.
    pub(crate) fn layout(&self, rows: &[Vec<String>], display: Display) -> Layout<'c> {
        let needed = |at: usize, column: &Column| {
            let of_cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cells(cell)).max();
            of_cells.unwrap_or(0).max(if self.has_head { cells(column.name) } else { 0 })
        };
        let needed: Vec<usize> =
            self.columns.iter().enumerate().map(|(at, column)| needed(at, column)).collect();
        let wide = || self.columns.iter().zip(&needed).map(|(column, needed)| column.width.max(*needed));
        let line = |widths: &[usize]| self.before(widths.len()) + widths.iter().sum::<usize>();
        let (wide, last) = (wide().collect::<Vec<_>>(), needed.len() - 1);
        let shape = match display.width {
            None => Shape::Lines(wide),
            // The last column is not padded.
            Some(width) if line(&[&wide[..last], &needed[last..]].concat()) <= width => Shape::Lines(wide),
            Some(width) if line(&needed) <= width => Shape::Lines(needed),
            Some(width) => {
                let start = self.before(needed.len()) + needed[..last].iter().sum::<usize>();
                let words = rows.iter().filter_map(|row| row.get(last)).flat_map(|cell| cell.split(' '));
                let word = words.map(cells).max().unwrap_or(0).max(LAST_MIN);
                match !self.columns[last].is_right && start + word <= width {
                    true => Shape::Broken { widths: needed, start, width },
                    false => Shape::Blocks { width },
                }
            }
        };
        Layout { form: *self, shape }
    }

    /// Cells that are no column's.
    fn before(&self, columns: usize) -> usize {
        self.indent + cells(self.gap) * (columns - 1)
    }
}

/// How the rows of a table are shown.
#[derive(Debug)]
pub(crate) struct Layout<'c> {
    form: Form<'c>,
    shape: Shape,
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// A line for each row.
    Lines(Vec<usize>),
    /// The last column begins at `start` and goes on there in further lines.
    Broken { widths: Vec<usize>, start: usize, width: usize },
    /// A block for each row.
    Blocks { width: usize },
}

impl Layout<'_> {
    /// The line with the columns' names, if there is one; blocks have them
    /// inside.
    pub(crate) fn head(&self) -> String {
        let names: Vec<String> = self.form.columns.iter().map(|column| column.name.to_owned()).collect();
        match &self.shape {
            Shape::Lines(widths) | Shape::Broken { widths, .. } if self.form.has_head => {
                self.line(&names, widths) + "\n"
            }
            _ => String::new(),
        }
    }

    /// One row, with the end of its line.
    pub(crate) fn row(&self, row: &[String]) -> String {
        match &self.shape {
            Shape::Lines(widths) => self.line(row, widths) + "\n",
            Shape::Broken { widths, start, width } => hung(&self.line(row, widths), *start, *width) + "\n",
            Shape::Blocks { width } => self.block(row, *width),
        }
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let padded = self.form.columns.iter().zip(widths).zip(row).map(|((column, &width), cell)| {
            if column.is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = padded.collect::<Vec<_>>().join(self.form.gap);
        format!("{:indent$}{}", "", line.trim_end(), indent = self.form.indent)
    }

    fn block(&self, row: &[String], width: usize) -> String {
        let Form { columns, indent, titles, .. } = self.form;
        // What was padded within a cell stood below its like.
        let cells = row.iter().map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
        let (mut title, mut lines) = (Vec::new(), Vec::new());
        for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
            match (cell.is_empty(), at < titles) {
                (true, _) => {}
                (false, true) => title.push(cell),
                (false, false) if column.name.is_empty() => lines.push(cell),
                (false, false) => lines.push(format!("{}: {cell}", column.name)),
            }
        }
        let inner = if titles == 0 { indent } else { indent + 2 };
        let mut text = String::new();
        let mut push = |indent: usize, line: &str| {
            text.push_str(&broken(&format!("{:indent$}{line}\n", ""), width));
        };
        if !title.is_empty() {
            push(indent, &title.join(" "));
        }
        lines.iter().for_each(|line| push(inner, line));
        // Nothing else tells where the next one begins.
        if titles == 0 {
            text.push('\n');
        }
        text
    }
}

/// One line as several, of which all but the first begin at `start`.
fn hung(line: &str, start: usize, width: usize) -> String {
    let at = line.char_indices().nth(start).map_or(line.len(), |(at, _)| at);
    let (mut text, last) = (line[..at].to_owned(), &line[at..]);
    let mut used = start;
    for (number, word) in last.split(' ').enumerate() {
        match number {
            0 => {}
            _ if used + 1 + cells(word) <= width => {
                text.push(' ');
                used += 1;
            }
            _ => {
                text.push_str(&format!("\n{:start$}", ""));
                used = start;
            }
        }
        text.push_str(word);
        used += cells(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::right("slot", 4),
        Column::left("kind", 17),
        Column::left("cost", 33),
        Column::left("label", 0),
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["0", "password", "512 MiB, 4 passes", "the one of every day"]),
            row(["11", "recovery", "nothing: it cannot be guessed", ""]),
        ]
    }

    fn shown(width: Option<usize>) -> String {
        Form::new(&COLUMNS).text(&rows(), Display { width, ascii: false })
    }

    #[test]
    fn elsewhere_than_on_a_terminal_columns_have_their_width() {
        let lines = "slot  kind               cost                               label\n   0  password           512 MiB, 4 \
                     passes                  the one of every day\n  11  recovery           nothing: it cannot \
                     be guessed\n";
        assert_eq!(shown(None), lines);
        assert_eq!(shown(Some(80)), lines, "it fits");
    }

    #[test]
    fn columns_shrink_to_what_is_in_them() {
        assert_eq!(
            shown(Some(70)),
            "slot  kind      cost                           label\n   0  password  512 MiB, 4 passes              \
             the one of every day\n  11  recovery  nothing: it cannot be guessed\n"
        );
    }

    #[test]
    fn the_last_column_is_broken_between_words() {
        assert_eq!(
            shown(Some(65)),
            "slot  kind      cost                           label\n   0  password  512 MiB, 4 passes              \
             the one of every\n                                               day\n  11  recovery  nothing: it \
             cannot be guessed\n"
        );
    }

    #[test]
    fn rows_become_blocks() {
        let blocks = "slot: 0\nkind: password\ncost: 512 MiB, 4 passes\nlabel: the one of every day\n\nslot: 11\n\
                      kind: recovery\ncost: nothing: it cannot be guessed\n\n";
        assert_eq!(shown(Some(40)), blocks);
        let titled = Form { titles: 2, indent: 1, ..Form::new(&COLUMNS) };
        assert_eq!(
            titled.text(&rows(), Display { width: Some(24), ascii: false }),
            " 0 password\n   cost: 512 MiB, 4\n     passes\n   label: the one of\n     every day\n 11 recovery\n   \
             cost: nothing: it\n     cannot be guessed\n"
        );
    }

    #[test]
    fn nothing_is_lost_and_no_line_is_too_long() {
        let all: Vec<String> = rows().concat();
        let words = || all.iter().flat_map(|cell| cell.split_whitespace());
        for width in 10..100 {
            let text = shown(Some(width));
            for word in words() {
                assert!(text.split_whitespace().any(|found| found == word), "{width}: {word} in\n{text}");
            }
            // `password` and its column's name are more than the narrowest.
            assert!(text.lines().all(|line| cells(line) <= width.max(12)), "{width}:\n{text}");
        }
    }

    #[test]
    fn rows_that_come_one_by_one_look_the_same() {
        let one_by_one = |width| {
            let layout = Form::new(&COLUMNS).one_by_one(Display { width, ascii: false });
            rows().iter().fold(layout.head(), |text, row| text + &layout.row(row))
        };
        for width in [None, Some(80), Some(40)] {
            assert_eq!(one_by_one(width), shown(width));
        }
    }

    #[test]
    fn names_without_a_head_stand_in_blocks_alone() {
        let form = Form { has_head: false, ..Form::new(&COLUMNS[2..]) };
        let row = vec!["one".to_owned(), "the other one".to_owned()];
        let text = |width| form.text(std::slice::from_ref(&row), Display { width, ascii: false });
        assert_eq!(text(Some(20)), "one  the other one\n");
        assert_eq!(text(Some(14)), "cost: one\nlabel: the\n  other one\n\n");
    }
}
