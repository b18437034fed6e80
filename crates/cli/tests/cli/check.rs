//! `check` finds what was done to a vault, and names it.

use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::support::{Place, Run, flip};

fn check(place: &Place) -> Run {
    place.line("check v --password-file password --json")
}

fn filled() -> Place {
    let place = Place::new().vault();
    let filling = place.open();
    let long = "n".repeat(250);
    let target = "t/".repeat(1800);
    filling.directory("docs").directory("docs/deep");
    filling.file("docs/large", 300_000).file("docs/deep/small", 10).file("docs/empty", 0);
    filling.file(&long, 5000).file("linked", 4096).link("linked", "docs/also linked");
    filling.symlink("short link", b"docs/large").symlink("long link", target.as_bytes());
    filling.close();
    place
}

/// Everything found, names first.
#[track_caller]
fn findings(place: &Place) -> Vec<Value> {
    let document = check(place).expect(4).document();
    let mut damage = document["damage"].as_array().expect("a list").clone();
    damage.sort_by_key(|found| found["kind"] != "name");
    damage
}

/// The only finding.
#[track_caller]
fn finding(place: &Place) -> Value {
    let damage = findings(place);
    assert_eq!(damage.len(), 1, "{damage:#?}");
    damage[0].clone()
}

/// The stored file of at least `len` bytes, of which there is one.
#[track_caller]
fn stored(place: &Place, len: u64) -> std::path::PathBuf {
    let files = place.stored_files("v", len);
    assert_eq!(files.len(), 1);
    files[0].clone()
}

#[test]
fn a_sound_vault_is_counted_and_nothing_is_found() {
    let place = filled();
    let document = check(&place).expect(0).document();
    let counts = ["files", "directories", "symlinks", "others"].map(|name| document[name].as_u64());
    assert_eq!(counts, [Some(5), Some(3), Some(2), Some(0)]);
    assert!(document["damage"].as_array().is_some_and(Vec::is_empty));
    assert!(document["leftovers"].as_array().is_some_and(Vec::is_empty), "{document:#}");
    let run = place.line("check v --password-file password --threads 1").expect(0);
    assert!(run.stdout.contains("No damage"), "{}", run.stdout);
    assert_eq!(run.stderr, "", "no progress bar without a terminal");
}

#[test]
fn a_damaged_block_is_named_with_its_bytes() {
    let place = filled();
    // The page, and one block of 4 KiB per block before it.
    flip(&stored(&place, 290_000), 4096 * 3 + 100);
    let found = finding(&place);
    assert_eq!(found["path"], "docs/large");
    assert_eq!(
        (&found["kind"], &found["offset"], &found["bytes"]),
        (&"blocks".into(), &8192.into(), &4096.into())
    );
    let run = place.line("check v --password-file password").expect(4);
    assert!(run.stdout.contains("docs/large: bytes 8192 to 12287 are lost"), "{}", run.stdout);
}

#[test]
fn a_sample_says_that_it_is_one() {
    let place = filled();
    let run = place.line("check v --password-file password --sample 0.000001").expect(0);
    assert!(
        run.stdout.contains("and 1 of ") && run.stdout.contains("No damage found in the sample."),
        "{}",
        run.stdout
    );
    flip(&stored(&place, 290_000), 4096 * 3 + 100);
    let sampled = |percent: &str| {
        let line = format!("check v --password-file password --json --sample {percent}");
        place.line(&line)
    };
    let document = sampled("100").expect(4).document();
    assert_eq!(document["damage"].as_array().map(Vec::len), Some(1));
    let groups = document["sample"]["groups"].as_u64().expect("a number");
    assert!(groups > 0 && document["sample"]["examined"] == groups, "{document:#}");
    // One in a hundred million: one is drawn of these few, which may be the damaged one or not.
    let run = sampled("0.000001");
    let code = if run.code == 4 { 4 } else { 0 };
    let document = run.expect(code).document();
    assert_eq!((&document["sample"]["groups"], &document["sample"]["examined"]), (&groups.into(), &1.into()));
    // What every file begins with is looked at all the same.
    flip(&stored(&place, 290_000), 100);
    assert_eq!(sampled("0.000001").expect(4).document()["damage"][0]["path"], "docs/large");
    assert_eq!(check(&place).expect(4).document()["sample"], serde_json::Value::Null);
    sampled("0").expect(2);
    place.line("check v --password-file password --sample 5 --repair").expect(2);
}

#[test]
fn checks_by_time_go_on_where_the_last_one_ended() {
    let place = filled();
    let whole = check(&place).expect(0).document()["files"].as_u64().expect("a number");
    flip(&stored(&place, 290_000), 4096 * 3 + 100);
    // With no time but for one file at a time.
    let line = "check v --password-file password --json --threads 1 --sample 1ms";
    let (mut files, mut damaged, mut runs) = (0, 0, 0);
    let last = loop {
        let document = place.line(line);
        let document = if document.code == 4 { document.expect(4) } else { document.expect(0) }.document();
        damaged += document["damage"].as_array().map_or(0, Vec::len);
        files += document["files"].as_u64().expect("a number");
        runs += 1;
        let scrub = &document["scrub"];
        assert_eq!(
            (&scrub["pass_files"], &scrub["resumed"]),
            (&files.into(), &(runs > 1).into()),
            "{document:#}"
        );
        assert_eq!(scrub["remembered"], true);
        if scrub["next"].is_null() {
            break document;
        }
        assert!(runs <= whole + 1, "each looks at one file at least");
    };
    // One with two names is met in two of them.
    assert_eq!((files, damaged), (whole + 1, 1), "each file: {last:#}");
    // The next pass begins anew, and has the time for all.
    let text = place.line("check v --password-file password --sample 1h").expect(4).stdout;
    assert!(text.contains("The pass is complete: every file was looked at since"), "{text}");
    place.line("check v docs --password-file password --sample 1h").expect(2);
    // Which file comes first, and so whether it is the damaged one, nobody knows.
    let text = place.line("check v --password-file password --sample 1ms --threads 1 --no-history").stdout;
    assert!(text.contains("the next `check --sample TIME` begins anew"), "{text}");
    place.line("check v --password-file password --sample 0s").expect(2);
}

#[test]
fn a_check_by_time_that_is_not_remembered_says_so() {
    let place = filled();
    check(&place).expect(0);
    let states = std::fs::read_dir(place.path(".state/strongroom")).expect("a state directory");
    let mut states = states.map(|file| file.expect("a file").path());
    let record = states.find(|path| path.extension().is_some_and(|kind| kind == "json")).expect("a record");
    std::fs::write(record, "{").expect("written");
    let line = "check v --password-file password --threads 1 --sample 1ms";
    for _ in 0..2 {
        let scrub = place.line(&format!("{line} --json")).expect(0).document()["scrub"].clone();
        let told = (&scrub["resumed"], &scrub["pass_files"], &scrub["remembered"]);
        assert_eq!(told, (&false.into(), &1.into(), &false.into()), "{scrub:#}");
    }
    let text = place.line(line).expect(0).stdout;
    assert!(text.contains("begins anew"), "{text}");
}

#[test]
fn a_damaged_page_and_a_cut_file_are_named() {
    let place = filled();
    flip(&stored(&place, 290_000), 100);
    assert_eq!(finding(&place)["path"], "docs/large");
    let place = filled();
    let file = stored(&place, 290_000);
    let len = file.metadata().expect("it is there").len();
    std::fs::File::options().write(true).open(&file).expect("a file").set_len(len - 4096).expect("cut");
    let document = check(&place).expect(4).document();
    let damage = document["damage"].as_array().expect("a list");
    assert!(!damage.is_empty() && damage.iter().all(|found| found["path"] == "docs/large"), "{document:#}");
}

#[test]
fn exchanged_copied_and_misnamed_files_are_named() {
    let place = filled();
    let files = place.stored_files("v", 290_000);
    let copy = files[0].with_file_name("AAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    std::fs::copy(&files[0], &copy).expect("copied");
    let found = findings(&place);
    assert_eq!(found.iter().map(|found| &found["kind"]).collect::<Vec<_>>(), ["name", "duplicate"]);
    assert_eq!(found[0]["path"], "docs");
    assert!(
        found[0]["stored"].as_str().is_some_and(|stored| stored.ends_with("/AAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
    );
    std::fs::remove_file(&copy).expect("removed");

    let other = place.open();
    other.file("docs/other", 290_001).close();
    let files = place.stored_files("v", 290_000);
    assert_eq!(files.len(), 2);
    let aside = files[0].with_file_name("aside");
    for (from, to) in [(&files[0], &aside), (&files[1], &files[0]), (&aside, &files[1])] {
        std::fs::rename(from, to).expect("renamed");
    }
    let document = check(&place).expect(4).document();
    let paths: Vec<_> =
        document["damage"].as_array().expect("a list").iter().map(|f| (&f["path"], &f["kind"])).collect();
    assert_eq!(paths, [(&"docs/large".into(), &"home".into()), (&"docs/other".into(), &"home".into())]);

    std::fs::copy(&files[0], &files[1]).expect("copied");
    let document = check(&place).expect(4).document();
    assert!(document["damage"].as_array().is_some_and(|damage| !damage.is_empty()));
}

#[test]
fn a_lost_record_and_a_lost_long_name_are_named() {
    let place = filled();
    let directories: Vec<_> = std::fs::read_dir(place.path("v"))
        .expect("a directory")
        .flatten()
        .filter(|entry| entry.path().join(".id").symlink_metadata().is_ok())
        .collect();
    assert_eq!(directories.len(), 1);
    std::fs::remove_dir_all(directories[0].path().join(".id")).expect("removed");
    let found = finding(&place);
    assert_eq!((&found["path"], &found["kind"]), (&"docs".into(), &"name".into()));

    let place = filled();
    let side = std::fs::read_dir(place.path("v")).expect("a directory").flatten();
    let side: Vec<_> =
        side.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".n~")).collect();
    assert_eq!(side.len(), 1);
    std::fs::remove_file(side[0].path()).expect("removed");
    let found = finding(&place);
    assert_eq!((&found["path"], &found["kind"]), (&"".into(), &"name".into()));
    assert!(found["stored"].as_str().is_some_and(|stored| stored.starts_with('~')));
}

#[test]
fn damaged_symlinks_are_named() {
    let place = filled();
    let links: Vec<_> =
        std::fs::read_dir(place.path("v/.strongroom/links")).expect("it is there").flatten().collect();
    assert_eq!(links.len(), 1);
    flip(&links[0].path(), 20);
    assert_eq!(finding(&place)["path"], "long link");
    std::fs::remove_file(links[0].path()).expect("removed");
    assert_eq!(finding(&place)["path"], "long link");
}

#[test]
fn leftovers_are_listed_and_no_damage() {
    let place = filled();
    place.write("v/.strongroom/stray", "");
    place.write("v/.strongroom/journal.00112233445566778899aabb.0", "");
    place.write("v/.strongroom/links/AAAAAAAAAAAAAAAAAAAAAA", "");
    std::fs::create_dir(place.path("v/.strongroom/temporary/half")).expect("a directory");
    let long: Vec<_> = std::fs::read_dir(place.path("v")).expect("a directory").flatten().collect();
    let long = long
        .iter()
        .find(|entry| strongroom_format::vault::names::is_long_name(entry.file_name().as_encoded_bytes()))
        .expect("a long name");
    std::fs::remove_file(long.path()).expect("removed");
    let document = check(&place).expect(0).document();
    let leftovers = document["leftovers"].as_array().expect("a list");
    assert_eq!(leftovers.len(), 5, "{document:#}");
}

#[test]
fn after_a_crash_what_was_synced_is_sound_and_nothing_is_changed() {
    let place = Place::new().vault();
    place.open().file("a", 10_000).crash();
    let before = place
        .stored_files("v", 0)
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect::<Vec<_>>();
    let document = check(&place).expect(0).document();
    assert_eq!(document["files"], 1);
    let after = place
        .stored_files("v", 0)
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect::<Vec<_>>();
    assert_eq!(before, after);
}

#[test]
fn names_that_would_steer_a_terminal_are_escaped() {
    let place = Place::new().vault();
    place.open().file("evil\u{1b}[2J", 5000).close();
    flip(&stored(&place, 5000), 5000);
    let run = place.line("check v --password-file password").expect(4);
    assert!(run.stdout.contains("evil\\u{1b}[2J: bytes 0 to"), "{}", run.stdout);
    assert_eq!(finding(&place)["path"], "evil\u{1b}[2J");
}

#[test]
fn single_files_and_directories_can_be_checked() {
    let place = filled();
    flip(&stored(&place, 290_000), 4096 * 3 + 100);
    let check = |paths: &str| place.line(&format!("check v {paths} --password-file password --json"));
    let document = check("docs/deep linked").expect(0).document();
    let counts = ["files", "directories"].map(|name| document[name].as_u64());
    assert_eq!(counts, [Some(2), Some(1)]);
    assert_eq!(document["paths"], serde_json::json!(["docs/deep", "linked"]));
    check("docs").expect(4);
    check("/docs/large").expect(4);
    check("docs/empty").expect(0);
    let error = check("docs/nothing").expect(2).error();
    assert!(error["message"].as_str().is_some_and(|message| message.contains("docs/nothing")), "{error}");
    check("docs/empty/below").expect(2);
}

#[test]
fn the_parts_of_a_large_file_are_checked_by_all_threads() {
    let place = Place::new().vault();
    // Three parts of 16 MiB, and a bit.
    place.open().file("large", (40 << 20) + 5).close();
    let file = stored(&place, 1 << 20);
    for threads in [1, 3] {
        let line = format!("check v --password-file password --json --threads {threads}");
        let document = place.line(&line).expect(0).document();
        assert_eq!(document["bytes"], (40 << 20) + 5);
    }
    // A block in the second part, and the node page of the group after it.
    let (group, map) = (4096 + 128 * 4096, 4096);
    flip(&file, map + 40 * group + 4096 + 7 * 4096 + 5);
    flip(&file, map + 41 * group + 200);
    let document = check(&place).expect(4).document();
    let lost: Vec<_> = document["damage"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| (found["offset"].as_u64().expect("known"), found["bytes"].as_u64().expect("known")))
        .collect();
    assert_eq!(lost, [((40 * 128 + 7) * 4096, 4096), (41 * 128 * 4096, 128 * 4096)]);
}

#[test]
fn a_file_without_its_header_page_loses_its_first_group() {
    let place = Place::new().vault();
    place.open().file("two groups", 200 * 4096).close();
    let file = stored(&place, 1 << 19);
    let bytes = std::fs::read(&file).expect("a file");
    for spoiled in [100, 4095] {
        flip(&file, spoiled);
        let found = finding(&place);
        assert_eq!((&found["path"], &found["kind"]), (&"two groups".into(), &"page".into()));
        assert_eq!((&found["offset"], &found["bytes"]), (&0.into(), &(128 * 4096).into()));
        std::fs::write(&file, &bytes).expect("written");
    }
    let header = vec![0; 4096];
    std::fs::File::options()
        .write(true)
        .open(&file)
        .expect("a file")
        .write_all_at(&header, 0)
        .expect("written");
    assert_eq!(finding(&place)["bytes"], 128 * 4096);
}

/// Asked to end while it reads, it ends with a report of what it has seen. It
/// is stopped while it is asked, and tried again when it was done before, or
/// had opened the file and seen nothing of it.
#[test]
fn an_interrupt_leaves_a_report_of_what_was_seen() {
    let place = Place::new().vault();
    place.open().file("large", 96 << 20).close();
    let file = stored(&place, 1 << 20);
    let signal = |name: &str, pid: u32| {
        std::process::Command::new("kill").args([name, &pid.to_string()]).status().expect("kill");
    };
    for _ in 0..40 {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_strongroom"));
        command.args(["check", "v", "--password-file", "password", "--json", "--threads", "1"]);
        command.args(["--sample", "1h"]);
        command.env("XDG_STATE_HOME", place.path(".state"));
        command.current_dir(place.path("")).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("started");
        let descriptors = format!("/proc/{}/fd", child.id());
        let reads = || {
            let open = std::fs::read_dir(&descriptors).ok()?.flatten();
            let mut open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            open.any(|path| path == file.canonicalize().expect("a path")).then_some(())
        };
        while reads().is_none()
            && std::path::Path::new(&descriptors).read_dir().is_ok_and(|mut d| d.next().is_some())
        {
            std::thread::yield_now();
        }
        for name in ["-STOP", "-INT", "-CONT"] {
            signal(name, child.id());
        }
        let run = crate::support::finish(child.wait_with_output().expect("it ends"));
        if run.code == 0 {
            continue;
        }
        let document = run.expect(1).document();
        assert_eq!(document["interrupted"], true);
        assert_eq!(document["damage"], serde_json::json!([]), "what was not looked at is no damage");
        assert!(document["bytes"].as_u64().expect("a number") < 96 << 20);
        let scrub = &document["scrub"];
        assert!(
            scrub["next"].is_string() && scrub["pass_files"] == 0,
            "the pass is not complete: {document:#}"
        );
        if document["files"] == 1 {
            let next = place.line("check v --password-file password --json --sample 1h").expect(0).document();
            let scrub = &next["scrub"];
            assert_eq!(
                (&scrub["resumed"], &scrub["pass_files"], &scrub["next"]),
                (&true.into(), &1.into(), &serde_json::Value::Null)
            );
            return;
        }
        assert_eq!(document["files"], 0);
    }
    panic!("it was never asked while it read");
}
