//! The functions that ARCHITECTURE.md names step by step have to be in the files that it names.

use std::fs;
use std::path::Path;

use strongroom_harness::failure::{Context, Result, ensure};

const PAGE: &str = "ARCHITECTURE.md";

/// A step of a trace.
#[derive(Debug, PartialEq)]
struct Step<'a> {
    /// Below `crates/`.
    file: &'a str,
    functions: Vec<&'a str>,
}

/// One line for each function that is not in its file.
pub(super) fn missing(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let steps = steps(&page);
    ensure!(steps.len() > 20, "{PAGE} has no traces");
    let mut missing = Vec::new();
    for Step { file, functions } in steps {
        let source = fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        let absent = functions.iter().filter(|function| {
            !source.contains(&format!("fn {function}(")) && !source.contains(&format!("fn {function}<"))
        });
        missing.extend(absent.map(|function| format!("{PAGE}: `{function}` is not in crates/{file}")));
    }
    Ok(missing)
}

/// Rows of tables whose first cell is a number, the second a file, the third functions.
fn steps(page: &str) -> Vec<Step<'_>> {
    page.lines().filter_map(step_of).collect()
}

fn step_of(line: &str) -> Option<Step<'_>> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
    let [number, file, functions, ..] = cells.as_slice() else { return None };
    number.parse::<u32>().ok()?;
    let file = file.strip_prefix('`')?.strip_suffix('`')?;
    Some(Step { file, functions: functions.split('`').skip(1).step_by(2).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_numbered_row_with_a_file() {
        let page =
            "| 7 | `a/src/b.rs` | `one`, `two` | three `four` |\n| 8 | | as above | |\n| x | `y` | `z` | |";
        assert_eq!(steps(page), [Step { file: "a/src/b.rs", functions: vec!["one", "two"] }]);
    }
}
