//! Holds the derivations against the table of `docs/format/vault.md`.

use strongroom_keys::hierarchy::DERIVATIONS;

const DOCUMENT: &str = include_str!("../../../docs/format/vault.md");

#[test]
fn the_keys_are_those_of_the_document() {
    let rows = DOCUMENT.lines().skip_while(|line| *line != "| label | length | for |").skip(2);
    let listed: Vec<(String, usize)> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].trim_matches('`').to_owned(), cells[1].parse().expect("a length"))
        })
        .collect();
    let known: Vec<_> = DERIVATIONS.iter().map(|key| (key.label.to_owned(), key.len)).collect();
    assert_eq!(listed, known);
}
