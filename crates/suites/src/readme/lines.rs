//! The lines of use in a Markdown document: what stands in its blocks of code.

use strongroom_harness::failure::{Failure, Result};

/// One line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// As it is typed, with its remark.
    pub(super) typed: String,
    /// The command alone.
    pub(super) command: String,
}

/// All lines of all blocks, in their order.
///
/// # Errors
/// A block does not end, or there is none.
pub(super) fn of(document: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code && !line.trim().is_empty() {
            let typed = line.strip_prefix("$ ").unwrap_or(line).trim().to_owned();
            let command = typed.split(" #").next().unwrap_or_default().trim().to_owned();
            lines.push(Line { typed, command });
        }
    }
    match (is_code, lines.is_empty()) {
        (true, _) => Err(Failure::new("a block of code does not end")),
        (false, true) => Err(Failure::new("there is no block of code")),
        (false, false) => Ok(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_blocks() {
        let document = "text\n```\n$ a b      # why\n\n$ c '#'\n```\n`code` $ no\n```sh\nmake\n```\n";
        let lines = of(document).unwrap();
        let commands: Vec<&str> = lines.iter().map(|line| line.command.as_str()).collect();
        assert_eq!(commands, ["a b", "c '#'", "make"]);
        assert_eq!(lines[0].typed, "a b      # why");
    }

    #[test]
    fn a_document_without_lines_is_refused() {
        assert!(of("text\n").is_err());
        assert!(of("```\nmake\n").is_err());
    }
}
