//! Making vaults, and refusing to.

use std::os::unix::fs::PermissionsExt;

use strongroom_format::vault::Suite;

use crate::support::{CHEAP, Place};

fn init(words: &[&str]) -> Vec<String> {
    let given = ["init", "v", "--password-file", "password", "--recovery-out", "none"];
    given.iter().chain(&CHEAP).chain(words).map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_new_vault_is_as_asked_for() {
    for suite in Suite::ALL.map(Suite::name) {
        let place = Place::new();
        let words = init(&["--suite", suite, "--block-size", "64KiB", "--label", "Ada's", "--json"]);
        let made = place.run(words).expect(0).document();
        assert_eq!(made["suite"], suite);
        assert_eq!(made["block_size"], 65536);
        assert_eq!(made["recovery"], "none");
        assert_eq!(made["slots"][0]["label"], "Ada's");
        assert_eq!(made["slots"][0]["kdf"]["memory_bytes"], 8 << 20);
        let info = place.line("info v --password-file password --json").expect(0).document();
        assert_eq!(info["suite"], suite);
        assert_eq!(info["vault_id"], made["vault_id"]);
        assert_eq!(info["authenticated"], true);
        assert_eq!(info["header_copies"][1]["state"], "sound");
        let mode = place.path("v/.strongroom").metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn the_suite_is_chosen_by_the_cpu_and_the_reason_told() {
    let place = Place::new();
    let made = place.run(init(&["--json"])).expect(0).document();
    let aes = strongroom_engine_cpu::aes_instructions();
    assert_eq!(made["suite"], if aes { "xaes-256-gcm" } else { "xchacha20-poly1305" });
    assert!(made["suite_reason"].as_str().is_some_and(|reason| reason.contains("AES")));
}

#[test]
fn an_empty_directory_becomes_a_vault_and_its_mode_stays() {
    let place = Place::new();
    std::fs::create_dir(place.path("v")).expect("a directory");
    place.run(init(&[])).expect(0);
    let again = place.run(init(&["--json"])).expect(2);
    assert!(again.error()["message"].as_str().is_some_and(|text| text.contains("vault already")));
}

#[test]
fn what_is_no_place_for_a_vault_is_refused_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("v")).expect("a directory");
    place.write("v/mine", "precious");
    let refused = place.run(init(&["--json"])).expect(2);
    let error = refused.error();
    assert_eq!(error["kind"], "usage");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("empty")));
    assert_eq!(place.read("v/mine"), b"precious");
    assert!(!place.exists("v/.strongroom"));

    place.write("file", "");
    for vault in ["file", "missing/v", "file/v"] {
        let words = ["init", vault, "--password-file", "password", "--recovery-out", "none", "--json"];
        place.run(words.iter().chain(&CHEAP)).expect(2).error();
    }
    assert!(!place.exists("missing"));
}

#[test]
fn values_out_of_bounds_are_refused_before_anything_is_made() {
    let place = Place::new();
    for words in [
        &["--block-size", "2KiB"][..],
        &["--block-size", "2MiB"],
        &["--block-size", "5000"],
        &["--suite", "null"],
        &["--kdf-target", "soon"],
        &["--surplus"],
    ] {
        let error = place.run(init(words).into_iter().chain(["--json".to_owned()])).expect(2);
        error.error();
        assert!(!place.exists("v"), "{words:?}");
    }
    for (memory, passes) in [("7MiB", "1"), ("5GiB", "1"), ("8MiB", "0"), ("8MiB", "65"), ("4GiB", "64")] {
        let words = ["init", "v", "--password-file", "password", "--recovery-out", "none", "--json"];
        let cost = ["--kdf-memory", memory, "--kdf-time", passes];
        place.run(words.iter().chain(&cost)).expect(2).error();
        assert!(!place.exists("v"), "{memory} {passes}");
    }
    let label = "x".repeat(65);
    place.run(init(&["--label", &label])).expect(2);
    assert!(!place.exists("v"));
}

#[test]
fn large_blocks_and_a_missing_recovery_key_are_warned_of() {
    let place = Place::new();
    let run = place.run(init(&["--block-size", "128KiB"])).expect(0);
    assert!(run.stderr.contains("128 KiB") && run.stderr.contains("recovery key"), "{}", run.stderr);
    let place = Place::new();
    let made = place.run(init(&["--block-size", "1MiB", "--json"])).expect(0).document();
    assert_eq!(made["warnings"].as_array().map(Vec::len), Some(2));
    let place = Place::new();
    let words =
        ["init", "v", "--password-file", "password", "--recovery-out", "key", "--block-size", "64KiB"];
    let run = place.run(words.iter().chain(&CHEAP)).expect(0);
    assert_eq!(run.stderr, "");
}

#[test]
fn the_recovery_key_goes_to_a_new_private_file_and_opens_the_vault() {
    let place = Place::new();
    let words = ["init", "v", "--password-file", "password", "--recovery-out", "key", "--json"];
    let made = place.run(words.iter().chain(&CHEAP)).expect(0).document();
    assert_eq!(made["recovery"], "file");
    assert_eq!(made["recovery_file"], "key");
    assert_eq!(made["slots"][1]["kind"], "recovery");
    let mode = place.path("key").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = String::from_utf8(place.read("key")).expect("ASCII");
    assert_eq!(text.trim_end().split('-').count(), 14);
    assert!(!place.run(["info", "v", "--json"]).stdout.contains(text.trim_end()));
    place.line("info v --recovery-file key").expect(0);
    let mut stdin = place.command(["info", "v", "--recovery-file", "-"]);
    stdin.stdin(std::fs::File::open(place.path("key")).expect("a file"));
    crate::support::finish(stdin.output().expect("run")).expect(0);
}

#[test]
fn a_recovery_key_is_not_written_over_a_file_nor_into_the_vault_nor_into_a_pipe() {
    let place = Place::new();
    place.write("key", "precious");
    std::fs::create_dir(place.path("v")).expect("a directory");
    let words = ["init", "v", "--password-file", "password"];
    for out in [&["--recovery-out", "key"][..], &["--recovery-out", "v/key"], &[], &["--recovery-out", "-"]] {
        let words = words.iter().chain(&CHEAP).chain(out).chain(&["--json"]);
        let error = place.run(words).expect(2).error();
        assert!(error["message"].as_str().is_some_and(|text| text.contains("recovery")), "{error}");
        assert!(!place.exists("v/.strongroom") && !place.exists("v/key"), "{out:?}");
    }
    assert_eq!(place.read("key"), b"precious");
}

#[test]
fn what_was_made_is_removed_when_it_fails_after_all() {
    let place = Place::new();
    // Its parent cannot be made: the key's file cannot be created.
    let words = ["init", "v", "--password-file", "password", "--recovery-out", "missing/key", "--json"];
    place.run(words.iter().chain(&CHEAP)).expect(2).error();
    assert!(!place.exists("v") && !place.exists("missing"));
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let place = Place::new();
    // Too small for two headers, which is refused by the limit of file sizes
    // as by a full disk: with an error at the write.
    let binary = env!("CARGO_BIN_EXE_strongroom");
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {binary} init v --password-file password --recovery-out none \
         --kdf-memory 8MiB --kdf-time 1 --json"
    );
    let mut command = std::process::Command::new("bash");
    command.env("XDG_STATE_HOME", place.path(".state"));
    command.arg("-c").arg(script).current_dir(place.path("")).stdin(std::process::Stdio::null());
    let run = crate::support::finish(command.output().expect("bash")).expect(7);
    assert_eq!(run.error()["kind"], "store");
    assert!(!place.exists("v"));
}
