//! Damaged, missing, foreign and forged headers, and backups of them.

use serde_json::Value;

use crate::support::{CHEAP, Place};
use strongroom_format::vault::VERSION;

const COPIES: [&str; 2] = ["v/.strongroom/header.0", "v/.strongroom/header.1"];
/// Where the first key slot's fields stand in the header (section 8 of the
/// format).
const SLOT: usize = 1632;

fn flip(place: &Place, copy: &str, at: usize) {
    let mut bytes = place.read(copy);
    bytes[at] ^= 0x10;
    place.write(copy, bytes);
}

fn states(document: &Value) -> Vec<&str> {
    let copies = document["header_copies"].as_array().expect("a list");
    copies.iter().filter_map(|copy| copy["state"].as_str()).collect()
}

#[test]
fn one_damaged_copy_is_told_and_does_no_harm() {
    for (index, copy) in COPIES.into_iter().enumerate() {
        for at in [0, 8, 40, 96, SLOT + 20, SLOT + 130, SLOT + 170, 8000, 16383] {
            let place = Place::new().vault();
            flip(&place, copy, at);
            let run = place.line("info v --password-file password --json");
            assert_eq!(run.code, 4, "{copy} byte {at}: {}{}", run.stdout, run.stderr);
            let mut expected = ["sound", "sound"];
            expected[index] = "damaged";
            assert_eq!(states(&run.document()), expected, "{copy} byte {at}");
            let run = place.line("check v --password-file password --json").expect(4);
            assert_eq!(run.document()["damage"][0]["kind"], "header");
            // Any change of keys writes both anew.
            place.write("new", "new");
            let line = "key change v --password-file password --new-password-file new";
            let run = place.run(line.split_whitespace().chain(CHEAP)).expect(0);
            assert!(run.stderr.contains("warning") && run.stderr.contains("damaged"), "{}", run.stderr);
            let info = place.line("info v --password-file new --json").expect(0).document();
            assert_eq!(states(&info), ["sound", "sound"]);
        }
    }
}

#[test]
fn a_missing_and_a_cut_copy_are_told() {
    for copy in COPIES {
        let place = Place::new().vault();
        std::fs::remove_file(place.path(copy)).expect("it is there");
        let info = place.line("info v --password-file password --json").expect(4).document();
        assert!(states(&info).contains(&"missing") && states(&info).contains(&"sound"));
        place.write(copy, [0; 100]);
        let info = place.line("info v --json").expect(4).document();
        assert!(states(&info).contains(&"damaged") && states(&info).contains(&"readable"));
    }
}

#[test]
fn two_damaged_copies_are_code_4_and_a_backup_brings_them_back() {
    let place = Place::new().vault();
    place.open().file("a", 100).close();
    place.line("header backup v saved --json").expect(0).document();
    for at in [0, 40, 96, SLOT + 20, SLOT + 170, 16383] {
        COPIES.iter().for_each(|copy| flip(&place, copy, at));
        // With another salt in both copies no secret looks right any more.
        let code = if at == SLOT + 20 { 3 } else { 4 };
        place.line("info v --password-file password --json").expect(code).error();
        let line = "header restore v saved --password-file password --yes --json";
        let restored = place.line(line).expect(0).document();
        assert_eq!(restored["slots"][0]["kind"], "password");
        let info = place.line("info v --password-file password --json").expect(0).document();
        assert_eq!(states(&info), ["sound", "sound"]);
        let check = place.line("check v --password-file password --json").expect(0).document();
        assert_eq!(check["files"], 1, "byte {at}");
    }
    COPIES.iter().for_each(|copy| std::fs::remove_file(place.path(copy)).expect("it is there"));
    place.line("info v --json").expect(4).error();
    place.line("check v --password-file password --json").expect(4).error();
    place.line("header restore v saved --password-file password --yes").expect(0);
    place.line("check v --password-file password").expect(0);
}

#[test]
fn a_header_of_another_vault_is_damage() {
    let place = Place::new().vault();
    place.open().file("a", 100).close();
    let other = Place::new().vault();
    for (copies, code) in [(&COPIES[..1], 0), (&COPIES[1..], 0), (&COPIES[..], 4)] {
        let own = COPIES.map(|copy| place.read(copy));
        copies.iter().for_each(|copy| place.write(copy, other.read(copy)));
        let run = place.line("check v --password-file password --json");
        // With one copy left, the newer of the two that open decides; the
        // foreign one has the lower number here, as its vault never changed.
        if code == 4 {
            run.expect(4).error();
            place.line("info v --password-file password --json").expect(4).error();
        } else {
            let document = run.expect(4).document();
            assert_eq!(document["files"], 1);
            assert_eq!(document["damage"][0]["kind"], "header");
        }
        COPIES.iter().zip(own).for_each(|(copy, own)| place.write(copy, own));
    }
    place.line("check v --password-file password").expect(0);
    other.line("header backup v saved").expect(0);
    place.write("foreign", other.read("saved"));
    let before = place.read(COPIES[0]);
    place.line("header restore v foreign --password-file password --json").expect(4).error();
    assert_eq!(place.read(COPIES[0]), before);
}

#[test]
fn versions_suites_and_kinds_of_another_program_are_code_6() {
    for (at, value) in [(8, VERSION - 1), (8, VERSION + 1), (12, 9), (14, 2), (SLOT + 1, 3), (7776 + 1, 0x80)]
    {
        let place = Place::new().vault();
        for copy in COPIES {
            let mut bytes = place.read(copy);
            bytes[at] = value;
            place.write(copy, bytes);
        }
        for line in
            ["info v --json", "info v --password-file password --json", "check v --json", "key list v --json"]
        {
            let run = place.line(line);
            assert_eq!(run.code, 6, "byte {at}: {line}: {}", run.stderr);
            assert_eq!(run.error()["kind"], "unsupported");
        }
    }
}

#[test]
fn absurd_costs_in_a_forged_header_cost_nothing() {
    let absurd: [[u32; 3]; 4] = [[u32::MAX, 1, 1], [8192, u32::MAX, 1], [4 << 20, 64, 1], [8192, 1, 255]];
    for cost in absurd {
        let place = Place::new().vault();
        for copy in COPIES {
            let mut bytes = place.read(copy);
            for (i, value) in cost.into_iter().enumerate() {
                bytes[SLOT + 4 + 4 * i..][..4].copy_from_slice(&value.to_le_bytes());
            }
            place.write(copy, bytes);
        }
        let start = std::time::Instant::now();
        place.line("info v --password-file password --json").expect(4).error();
        assert!(start.elapsed().as_secs() < 60, "{cost:?}");
    }
}

#[test]
fn a_cost_within_bounds_that_the_machine_has_not_is_refused() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("Linux");
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a line");
    let total: u64 = total.trim().trim_end_matches("kB").trim().parse().expect("a number");
    if total > 4 << 20 {
        // The format's own limit comes first: nothing within it is too much.
        return;
    }
    let place = Place::new().vault();
    for copy in COPIES {
        let mut bytes = place.read(copy);
        bytes[SLOT + 4..][..4].copy_from_slice(&(4u32 << 20).to_le_bytes());
        place.write(copy, bytes);
    }
    place.line("info v --password-file password --json").expect(6).error();
}

#[test]
fn what_is_no_vault_is_code_2() {
    let place = Place::new();
    std::fs::create_dir(place.path("d")).expect("a directory");
    place.write("f", "");
    for vault in ["d", "f", "missing"] {
        for words in [&["info"][..], &["check"], &["key", "list"], &["key", "add"]] {
            let given = [vault, "--password-file", "password", "--json"];
            place.run(words.iter().chain(&given)).expect(2).error();
        }
        assert!(!place.exists("d/.strongroom"));
    }
}

#[test]
fn a_backup_is_private_new_and_checked() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new().vault();
    let document = place.line("header backup v saved --password-file password --json").expect(0).document();
    assert_eq!(document["authenticated"], true);
    assert_eq!(place.read("saved"), place.read(COPIES[0]));
    let mode = place.path("saved").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.line("header backup v saved --json").expect(2).error();
    for (name, content) in [("cut", place.read("saved")[..999].to_vec()), ("text", b"hello".to_vec())] {
        place.write(name, content);
        place
            .run(["header", "restore", "v", name, "--password-file", "password", "--json"])
            .expect(4)
            .error();
    }
    flip(&place, "saved", SLOT + 170);
    place.line("header restore v saved --password-file password --json").expect(4).error();
    place.write("wrong", "wrong");
    flip(&place, "saved", SLOT + 170);
    place.line("header restore v saved --password-file wrong --json").expect(3).error();
    place.line("header restore v missing --password-file wrong --json").expect(2).error();
}

#[test]
fn a_restored_header_keeps_the_sessions_of_now() {
    let place = Place::new().vault();
    place.line("header backup v saved").expect(0);
    place.open().file("a", 100).crash();
    let before = place.line("info v --json").expect(0).document();
    assert_eq!(before["sessions"].as_array().map(Vec::len), Some(1));
    place.line("header restore v saved --password-file password --yes").expect(0);
    let after = place.line("info v --password-file password --json").expect(0).document();
    assert_eq!(after["sessions"], before["sessions"]);
    assert!(after["sequence"].as_u64() > before["sequence"].as_u64());

    // Where there is no header left to take them from, the journals tell.
    COPIES.iter().for_each(|copy| std::fs::remove_file(place.path(copy)).expect("it is there"));
    place.line("header restore v saved --password-file password --yes").expect(0);
    let after = place.line("info v --json").expect(0).document();
    assert_eq!(after["sessions"][0]["id"], before["sessions"][0]["id"]);
    let check = place.line("check v --password-file password --json").expect(0).document();
    assert_eq!((&check["files"], &check["bytes"]), (&Value::from(1), &Value::from(100)));
}
