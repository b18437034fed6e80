//! Holds `format::luks` against the tables and numbers of
//! `docs/format/luks.md`, in both directions.

use strongroom_format::layout::Field;
use strongroom_format::luks::{Hash, MAGIC, MAGIC_SECOND, binary, limits, phdr};

const DOCUMENT: &str = include_str!("../../../docs/format/luks.md");

/// The rows of each table of the document whose header is `head`.
fn tables(head: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables = Vec::new();
    let mut lines = DOCUMENT.lines();
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
fn every_structure_is_a_table() {
    let structures: [&[Field]; 3] = [phdr::header::FIELDS, phdr::slot::FIELDS, binary::header::FIELDS];
    let tables = tables("| offset | length | field |");
    assert_eq!(tables.len(), structures.len());
    for (table, fields) in tables.iter().zip(structures) {
        assert_eq!(table.len(), fields.len());
        for (row, field) in table.iter().zip(fields) {
            assert_eq!(row[0].parse(), Ok(field.offset), "offset of {}", row[2]);
            assert_eq!(row[1].parse(), Ok(field.len), "length of {}", row[2]);
            let rest = row[2].strip_prefix(field.name);
            let rest = rest.unwrap_or_else(|| panic!("{} is not {}", row[2], field.name));
            assert!(!rest.starts_with(char::is_alphanumeric), "{} is not {}", row[2], field.name);
        }
    }
    let spelled = |magic: &[u8]| format!("`{}`", magic.escape_ascii());
    assert!(tables[0][0][2].contains(&spelled(&MAGIC)));
    assert!(tables[2][0][2].contains(&spelled(&MAGIC)) && tables[2][0][2].contains(&spelled(&MAGIC_SECOND)));
}

#[test]
fn the_hashes_are_those_of_the_document() {
    let tables = tables("| hash | length | in |");
    let [table] = &tables[..] else { panic!("one table of hashes") };
    let listed: Vec<_> =
        table.iter().map(|row| (row[0].clone(), row[1].parse().expect("a number"))).collect();
    let known: Vec<_> =
        Hash::ALL.iter().map(|hash| (format!("`{}`", hash.name()), hash.digest_len())).collect();
    assert_eq!(listed, known);
}

#[test]
fn numbers_in_the_text_are_those_of_the_code() {
    let sentences = [
        format!("{:#010x} enabled, {:#010x} disabled", phdr::ENABLED, phdr::DISABLED),
        format!("key slots: {} of {} bytes", phdr::SLOTS, phdr::slot::LEN),
        format!("stripes: {}", limits::STRIPES),
        format!("One header of {} bytes", phdr::header::LEN),
        format!("the first slot at {} bytes", phdr::SLOT_ALIGNMENT),
        format!("a multiple of {} MiB, as cryptsetup", phdr::PAYLOAD_ALIGNMENT >> 20),
        format!(
            "{} KiB to {} MiB, a power of two",
            limits::HEADER_SIZES[0] >> 10,
            limits::HEADER_SIZES[8] >> 20
        ),
        format!("checksum algorithm: `{}`", binary::CHECKSUM),
        format!("nested at most {} deep", limits::JSON_DEPTH_MAX),
        format!("memory up to {} GiB", limits::ARGON2_MEMORY_MAX >> 20),
        format!("lanes 1 to {}", limits::ARGON2_LANES_MAX),
        format!("memory times passes at most {} GiB", limits::ARGON2_WORK_MAX >> 20),
        format!("1 to 2^{} iterations", limits::PBKDF2_ITERATIONS_MAX.ilog2()),
        format!("volume keys of {} to {} bytes", limits::KEY_LEN_MIN, limits::KEY_LEN_MAX),
        format!("a salt of Argon2 of at least {} bytes", limits::ARGON2_SALT_LEN_MIN),
        format!("salts and digests of at most {} bytes", limits::SALT_LEN_MAX),
        format!("{} slots, and {} each", limits::KEYSLOTS_MAX, limits::OBJECTS_MAX),
        format!("at most {} MiB together", limits::KEYSLOTS_AREA_MAX >> 20),
    ];
    for sentence in sentences {
        assert!(DOCUMENT.contains(&sentence), "{sentence}");
    }
    assert!(limits::PBKDF2_ITERATIONS_MAX.is_power_of_two());
}
