//! docs/ublk.md says what the code does.

use std::collections::BTreeMap;

use strongroom_ublk::abi::{self, Info, Parameters, control, io};

const DOCUMENT: &str = include_str!("../../../docs/ublk.md");

/// Cells of the tables' rows.
fn rows() -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    DOCUMENT.lines().filter(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn the_commands_have_their_numbers() {
    let told: BTreeMap<String, String> =
        rows().into_iter().filter(|row| row.len() == 2).map(|row| (row[0].clone(), row[1].clone())).collect();
    for (name, number) in [
        ("ADD", control::ADD),
        ("DELETE", control::DELETE),
        ("START", control::START),
        ("STOP", control::STOP),
        ("SET_PARAMETERS", control::SET_PARAMETERS),
        ("FEATURES", control::FEATURES),
        ("FETCH", io::FETCH),
        ("COMMIT_AND_FETCH", io::COMMIT_AND_FETCH),
    ] {
        assert_eq!(told.get(name), Some(&format!("{number:#010x}")), "{name}");
    }
}

/// Every byte that is set lies in a field that is listed, and every field has
/// bytes that are set when its value has all bits.
#[test]
fn the_structures_have_their_fields() {
    let mut structures: BTreeMap<String, (usize, Vec<(usize, usize)>)> = BTreeMap::new();
    let mut current = String::new();
    for row in rows().into_iter().filter(|row| row.len() == 5 && row[3].parse::<usize>().is_ok()) {
        if !row[0].is_empty() {
            current = row[0].clone();
            structures.insert(current.clone(), (row[1].parse().expect("bytes"), Vec::new()));
        }
        let field = (row[3].parse().expect("an offset"), row[4].parse().expect("a length"));
        structures.get_mut(&current).expect("a structure comes first").1.push(field);
    }
    let info = Info { queues: !0, depth: !0, request_len_max: !0, device: !0, flags: !0 };
    let parameters =
        Parameters { attributes: !0, sector_len: 4096, request_len_max: !0 << 9, len: !0, discard: true };
    let samples = [
        ("ublksrv_ctrl_cmd", abi::control(!0, !0, !0, !0).to_vec()),
        ("ublksrv_ctrl_dev_info", info.encode().to_vec()),
        ("ublksrv_io_cmd", abi::io_command(!0, !0, !0).to_vec()),
        ("ublk_params", parameters.encode().to_vec()),
    ];
    for (name, bytes) in samples {
        let (len, fields) = &structures[name];
        assert_eq!(bytes.len(), *len, "{name}");
        let owner = |at: usize| fields.iter().position(|(start, len)| (*start..start + len).contains(&at));
        let mut seen = vec![false; fields.len()];
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            seen[owner(at).unwrap_or_else(|| panic!("{name}: byte {at} is in no field"))] = true;
        }
        assert!(seen.iter().all(|seen| *seen), "{name}: {seen:?}");
    }
    assert_eq!(structures["ublksrv_io_desc"].0, abi::DESCRIPTOR_LEN);
    assert_eq!(structures["ublksrv_io_desc"].1, [(0, 4), (4, 4), (8, 8)]);
}
