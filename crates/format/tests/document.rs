//! Holds the code's offsets, lengths and numbers against the tables of
//! `docs/format/vault.md` and `docs/format/freshness.md`, in both directions.

use strongroom_format::freshness;
use strongroom_format::layout::Field;
use strongroom_format::vault::{Suite, block, header, journal, map, node, page, record, slot, special};

const DOCUMENT: &str = include_str!("../../../docs/format/vault.md");
const FRESHNESS: &str = include_str!("../../../docs/format/freshness.md");

/// A structure: its magic, its fields, and whether a part of variable length
/// stands behind them.
struct Structure {
    name: &'static str,
    fields: &'static [Field],
    magic: Option<&'static [u8]>,
    open_ended: bool,
}

const fn fixed(name: &'static str, fields: &'static [Field], magic: Option<&'static [u8]>) -> Structure {
    Structure { name, fields, magic, open_ended: false }
}

/// Every structure of the format, in the document's order.
fn structures() -> Vec<Structure> {
    vec![
        fixed("page", page::stored::FIELDS, Some(&page::MAGIC)),
        fixed("sealed part of a node", node::sealed::FIELDS, None),
        fixed("entry", node::entry::FIELDS, None),
        fixed("header fields", node::fields::FIELDS, None),
        fixed("sealed part of a map", map::sealed::FIELDS, None),
        fixed("associated data of a block", block::context::FIELDS, Some(&block::MAGIC)),
        fixed("head of a special record", special::head::FIELDS, Some(&special::MAGIC)),
        fixed("slot of a special record", special::slot::FIELDS, None),
        fixed("segment header", journal::segment::FIELDS, Some(&journal::SEGMENT_MAGIC)),
        fixed("sealed part of a segment header", journal::start::FIELDS, None),
        Structure {
            open_ended: true,
            ..fixed("record", journal::record::FIELDS, Some(&journal::RECORD_MAGIC))
        },
        Structure { open_ended: true, ..fixed("sealed part of a record", record::body::FIELDS, None) },
        fixed("vault header", header::header::FIELDS, Some(&header::MAGIC)),
        fixed("session", header::session::FIELDS, None),
        fixed("key slot", slot::slot::FIELDS, None),
    ]
}

/// The rows of each table of the document whose header is `head`.
fn tables(head: &str) -> Vec<Vec<Vec<String>>> {
    tables_of(DOCUMENT, head)
}

fn tables_of(document: &str, head: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line.trim() == head {
            let rows = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
            let cells =
                |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            tables.push(rows.map(cells).collect());
        }
    }
    tables
}

#[test]
fn every_table_is_a_structure_and_every_structure_a_table() {
    let tables = tables("| offset | length | field |");
    let structures = structures();
    assert_eq!(tables.len(), structures.len());
    for (table, structure) in tables.iter().zip(&structures) {
        check(table, structure);
    }
}

fn check(table: &[Vec<String>], structure: &Structure) {
    let name = structure.name;
    let tail = usize::from(structure.open_ended);
    assert_eq!(table.len(), structure.fields.len() + tail, "{name}: rows");
    for (row, field) in table.iter().zip(structure.fields) {
        let (offset, len, text) = (&row[0], &row[1], &row[2]);
        assert_eq!(offset.parse(), Ok(field.offset), "{name}: offset of {text}");
        assert_eq!(len.parse(), Ok(field.len), "{name}: length of {text}");
        let rest =
            text.strip_prefix(field.name).unwrap_or_else(|| panic!("{name}: {text} is not {}", field.name));
        assert!(!rest.starts_with(char::is_alphanumeric), "{name}: {text} is not {}", field.name);
    }
    if structure.open_ended {
        let last = table.last().expect("a row");
        let end = structure.fields.last().expect("a field").end();
        assert_eq!(last[0].parse(), Ok(end), "{name}: the open end");
        assert_eq!(last[1], "", "{name}: the open end has no length");
    }
    if let Some(magic) = structure.magic {
        let spelled = format!("`{}`", magic.escape_ascii());
        assert!(table[0][2].contains(&spelled), "{name}: magic {spelled}");
        assert_eq!(structure.fields[0].len, magic.len(), "{name}: length of the magic");
    }
}

#[test]
fn the_freshness_file_is_as_its_document_says() {
    let tables = tables_of(FRESHNESS, "| offset | length | field |");
    let structures = [
        fixed("header of the file", freshness::file::FIELDS, Some(&freshness::MAGIC)),
        Structure { open_ended: true, ..fixed("frame", freshness::frame::FIELDS, None) },
    ];
    assert_eq!(tables.len(), structures.len());
    for (table, structure) in tables.iter().zip(&structures) {
        check(table, structure);
    }
    let tables = tables_of(FRESHNESS, "| kind | operation | fields |");
    let [table] = &tables[..] else { panic!("one table of operations") };
    let listed: Vec<(u8, &str)> =
        table.iter().map(|row| (row[0].parse().expect("a number"), row[1].as_str())).collect();
    assert_eq!(listed, freshness::OPERATIONS);
    for (number, name) in freshness::OBJECTS {
        assert!(FRESHNESS.contains(&format!("{number} {name}")), "{number} {name}");
    }
    let bounds = format!("length of the sealed part, 1 to {}", freshness::SEALED_MAX);
    assert!(FRESHNESS.contains(&bounds), "{bounds}");
    assert!(FRESHNESS.contains(&format!("Names are 1 to {} bytes long", freshness::NAME_MAX)));
    assert!(FRESHNESS.contains(&format!("format version: {}", freshness::VERSION)));
}

#[test]
fn the_suites_are_those_of_the_document() {
    let tables = tables("| number | name | seals with | nonce on the wire |");
    let [table] = &tables[..] else { panic!("one table of suites") };
    let listed: Vec<(u8, String)> =
        table.iter().map(|row| (row[0].parse().expect("a number"), row[1].clone())).collect();
    let known: Vec<_> = Suite::ALL.iter().map(|s| (s.number(), format!("`{}`", s.name()))).collect();
    assert_eq!(listed, known);
    let prefix = Suite::AEGIS_NONCE_PREFIX.escape_ascii().to_string();
    for row in table {
        assert_eq!(row[1].contains("aegis"), row[3].contains(&format!("`{prefix}`")), "{}", row[1]);
    }
}

#[test]
fn numbers_in_the_text_are_those_of_the_code() {
    let kinds = page::PageKind::ALL.map(|kind| kind.number());
    let slots = slot::SlotKind::ALL.map(|kind| (kind.number(), kind.to_string()));
    let cost = [
        format!("memory {} MiB to {} GiB", slot::KdfCost::MEMORY_MIN >> 10, slot::KdfCost::MEMORY_MAX >> 20),
        format!("passes 1 to {}", slot::KdfCost::PASSES_MAX),
        format!("lanes 1 to {}", slot::KdfCost::LANES_MAX),
        format!("memory times passes at most {} GiB", slot::KdfCost::WORK_MAX >> 20),
    ];
    let sentences = [
        format!(
            "page kind: {} header, {} node, {} map, {} middle map, {} root map",
            kinds[0], kinds[1], kinds[2], kinds[3], kinds[4]
        ),
        format!("sessions: {} of {} bytes", header::SESSIONS, header::session::LEN),
        format!("key slots: {} of {} bytes", header::SLOTS, slot::slot::LEN),
        format!("entries: {} of {} bytes", node::ENTRIES, node::entry::LEN),
        format!("write sessions: {} ids", node::SESSIONS),
        format!("tokens: {} of {} bytes", map::SLOTS, map::Token::LEN),
        format!("at most {} MiB long, the path hint at most {}", journal::SEALED_MAX >> 20, record::HINT_MAX),
    ];
    for sentence in sentences.into_iter().chain(cost) {
        assert!(DOCUMENT.contains(&sentence), "{sentence}");
    }
    for (number, name) in slots {
        assert!(DOCUMENT.contains(&format!("{number} {name}")), "{number} {name}");
    }
    let [first, second] = special::SLOT_OFFSETS;
    for sentence in [
        format!("The slots begin at {first} and {second}, the body at {}", special::BODY_OFFSET),
        format!("targets of up to {} bytes stand in the record", special::INLINE_TARGET_MAX),
    ] {
        assert!(DOCUMENT.contains(&sentence), "{sentence}");
    }
    for (number, name) in special::Special::NUMBERS {
        assert!(DOCUMENT.contains(&format!("{number} {name}")), "{number} {name}");
    }
    assert_eq!(strongroom_units::MAX_PLAIN_LEN, 1 << 46);
    assert!(DOCUMENT.contains("The largest plain length is 2^46 bytes"));
    assert_eq!(record::MAX_STORED_LEN, 1 << 47);
    assert!(DOCUMENT.contains("The stored length is 4096 to 2^47"));
}
