//! `salvage` copies out what can be read, and lists what cannot.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use serde_json::Value;

use crate::support::{Node, Place, Run, content, flip};

const SUITES: [&str; 4] = ["xaes-256-gcm", "aegis-256x2", "aegis-256x4", "cascade"];

fn filled(suite: &str) -> Place {
    let place = Place::new().vault_of(suite);
    let filling = place.open();
    filling.directory("docs").directory("docs/inner");
    filling.file("docs/a", 5000).file("docs/inner/c", 3000).file("large", 200 * 4096).file("empty", 0);
    filling.file(&"n".repeat(240), 6000).file("one", 4096).link("one", "docs/two");
    filling.symlink("docs/link", b"a").symlink("long link", "t/".repeat(1800).as_bytes());
    filling.close();
    place
}

fn salvage(place: &Place) -> Run {
    place.line("salvage v out --password-file password --json")
}

fn lost(document: &Value) -> Vec<(&str, Option<u64>, Option<u64>)> {
    let damage = document["damage"].as_array().expect("a list").iter();
    damage
        .map(|found| {
            (found["path"].as_str().expect("a path"), found["offset"].as_u64(), found["bytes"].as_u64())
        })
        .collect()
}

#[test]
fn a_sound_vault_is_copied_whole() {
    for suite in SUITES {
        let place = filled(suite);
        let stored = place.stored("docs/a");
        fs::set_permissions(&stored, fs::Permissions::from_mode(0o640)).expect("a mode");
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
        fs::File::open(&stored).expect("a file").set_modified(time).expect("a time");
        fs::set_permissions(place.stored("docs/inner"), fs::Permissions::from_mode(0o500)).expect("a mode");
        let before = place.tree("v");
        let document = salvage(&place).expect(0).document();
        assert_eq!(place.tree("v"), before, "the vault is as it was");
        assert_eq!(document["complete"], true);
        assert_eq!(
            ["files", "directories", "symlinks"].map(|name| document[name].as_u64()),
            [Some(6), Some(3), Some(2)]
        );
        let tree = place.tree("out");
        assert_eq!(tree["docs/a"], Node::File(content(5000)));
        assert_eq!(tree["large"], Node::File(content(200 * 4096)));
        assert_eq!(tree["empty"], Node::File(Vec::new()));
        assert_eq!(tree[&"n".repeat(240)], Node::File(content(6000)));
        assert_eq!(tree["docs/link"], Node::Symlink("a".into()));
        assert_eq!(tree["long link"], Node::Symlink("t/".repeat(1800).into()));
        let metadata = |path: &str| place.path("out").join(path).symlink_metadata().expect("it is there");
        assert_eq!(metadata("docs/a").mode() & 0o7777, 0o640);
        assert_eq!(metadata("docs/a").modified().expect("a time"), time);
        assert_eq!(metadata("docs/inner").mode() & 0o7777, 0o500);
        assert_eq!(metadata("one").ino(), metadata("docs/two").ino());
        assert!(!place.exists("out/.salvage-losses"));
        let report: Value = serde_json::from_slice(&place.read("out/salvage-report.json")).expect("JSON");
        crate::schemas::validate(&report);
        assert_eq!(report, document);
        fs::set_permissions(place.path("out/docs/inner"), fs::Permissions::from_mode(0o700)).expect("a mode");
    }
}

#[test]
fn holes_stay_holes() {
    let place = Place::new().vault();
    place.open().sparse("sparse", 64 << 20, 4096).close();
    salvage(&place).expect(0);
    let copy = place.path("out/sparse");
    let metadata = copy.metadata().expect("it is there");
    assert_eq!(metadata.len(), (64 << 20) + 4096);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    let mut end = vec![0; 4096];
    fs::File::open(copy).expect("a file").read_exact_at(&mut end, 64 << 20).expect("read");
    assert_eq!(end, content(4096));
}

#[test]
fn undamaged_blocks_of_damaged_files_are_copied() {
    for suite in SUITES {
        let place = filled(suite);
        let large = place.stored("large");
        let group = 4096 + 128 * 4096;
        let expect = |ranges: &[(u64, u64)]| {
            let document = salvage(&place).expect(4).document();
            let told: Vec<_> = ranges.iter().map(|&(at, len)| ("large", Some(at), Some(len))).collect();
            let ranged: Vec<_> = lost(&document).into_iter().filter(|found| found.1.is_some()).collect();
            assert_eq!(ranged, told, "{document:#}");
            let mut right = content(200 * 4096);
            for &(at, len) in ranges {
                right[at as usize..(at + len) as usize].fill(0);
            }
            assert!(place.tree("out")["large"] == Node::File(right), "what can be read is right");
            assert_eq!(place.tree("out")["docs/a"], Node::File(content(5000)), "and all else");
            fs::remove_dir_all(place.path("out")).expect("removed");
        };
        let bytes = fs::read(&large).expect("a file");
        flip(&large, 4096 * 5);
        flip(&large, 4096 * 7 + 100);
        expect(&[(4 * 4096, 4096), (6 * 4096, 4096)]);
        fs::write(&large, &bytes).expect("written");
        // Behind the map page.
        flip(&large, group + 4096 + 80);
        expect(&[(128 * 4096, 72 * 4096)]);
        fs::write(&large, &bytes).expect("written");
        flip(&large, 80);
        expect(&[(0, 128 * 4096)]);
        fs::write(&large, &bytes).expect("written");
        let cut = fs::File::options().write(true).open(&large).expect("a file");
        cut.set_len(4096 + 100 * 4096 + 5).expect("cut");
        expect(&[(100 * 4096, 28 * 4096), (128 * 4096, 72 * 4096)]);
    }
}

#[test]
fn what_has_lost_its_name_gets_one_from_its_id() {
    for suite in SUITES {
        let place = filled(suite);
        let long = place.stored(&"n".repeat(240));
        let side = format!(".n{}", long.file_name().expect("a name").to_string_lossy());
        fs::remove_file(long.with_file_name(side)).expect("removed");
        fs::remove_dir_all(place.stored("docs").join(".id")).expect("removed");
        fs::remove_file(place.path("v/.strongroom/header.0")).expect("removed");
        let document = salvage(&place).expect(4).document();
        let found = lost(&document);
        assert_eq!(found.len(), 1, "{document:#}");
        let (name, ..) = found[0];
        assert!(name.starts_with('#'), "{name}");
        let tree = place.tree("out");
        assert_eq!(tree[name], Node::File(content(6000)));
        // The directory's id is found by its file.
        assert_eq!(tree["docs/a"], Node::File(content(5000)));
        assert_eq!(tree["docs/inner/c"], Node::File(content(3000)));
    }
}

#[test]
fn it_goes_on_where_it_was_cut_short() {
    let place = filled(SUITES[0]);
    flip(&place.stored("large"), 4096 * 5);
    let first = salvage(&place).expect(4).document();
    salvage(&place).expect(2);
    // As it was before the last files were complete.
    fs::remove_file(place.path("out/docs/a")).expect("removed");
    fs::File::options()
        .write(true)
        .open(place.path("out/empty"))
        .expect("a file")
        .set_len(7)
        .expect("longer");
    let large = place.path("out/large");
    let lines = first["damage"].as_array().expect("a list").iter().map(|found| format!("{found}\n"));
    place.write("out/.salvage-losses", lines.collect::<String>() + "{\"path\": \"cut o");
    let before = large.metadata().expect("it is there");
    let again = place.line("salvage v out --password-file password --json --resume").expect(4).document();
    assert_eq!((&again["files"], &again["skipped"]), (&2.into(), &4.into()));
    assert_eq!(again["damage"], first["damage"], "what was lost in files that are skipped is told again");
    assert_eq!(large.metadata().expect("it is there").ino(), before.ino());
    assert_eq!(place.tree("out")["docs/a"], Node::File(content(5000)));
    assert_eq!(place.tree("out")["empty"], Node::File(Vec::new()));
}

#[test]
fn the_destination_is_apart_and_empty() {
    let place = filled(SUITES[0]);
    for line in ["v/out", "v", ".", "v/../v/x"] {
        let run = place.line(&format!("salvage v {line} --password-file password --json")).expect(2);
        assert_eq!(run.error()["kind"], "usage", "{line}");
    }
    assert!(!place.exists("v/out") && !place.exists("v/x"));
    std::os::unix::fs::symlink("v", place.path("alias")).expect("a symlink");
    place.line("salvage v alias/out --password-file password").expect(2);
    assert!(!place.exists("v/out"));
}

#[test]
fn files_with_the_names_of_the_report_and_the_log_are_copied() {
    let place = Place::new().vault();
    place.open().file("salvage-report.json", 100).file(".salvage-losses", 200).close();
    salvage(&place).expect(0);
    let tree = place.tree("out");
    assert_eq!(tree[".salvage-losses"], Node::File(content(200)));
    assert_eq!(tree["salvage-report.json"], Node::File(content(100)));
    assert!(tree.contains_key("salvage-report.1.json"));
}

/// A small file system that goes with the test; none where it may not be
/// mounted.
struct Small(std::path::PathBuf);

impl Small {
    fn mounted(path: std::path::PathBuf) -> Option<Small> {
        fs::create_dir(&path).expect("a directory");
        mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"], &path).then_some(Small(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

fn mount(options: &[&str], path: &std::path::Path) -> bool {
    let mounted = std::process::Command::new("mount").args(options).arg(path).output();
    mounted.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_destination_is_told_and_gone_on_with() {
    let place = Place::new().vault();
    place.open().file("a", 100).file("large", 3 << 20).file("z", 100).close();
    let Some(small) = Small::mounted(place.path("out")) else {
        eprintln!("not tested: no file system can be mounted here");
        return;
    };
    let error = salvage(&place).expect(7).error();
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--resume")), "{error}");
    // Files are copied side by side: a small one may be the first to find it full.
    let names = ["`a`", "`large`", "`z`"];
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("No space left") && names.iter().any(|name| message.contains(name)), "{error}");
    assert!(mount(&["-o", "remount,size=16m"], &small.0), "made larger");
    let line = "salvage v out --password-file password --json --resume";
    let document = place.line(line).expect(0).document();
    assert_eq!(document["complete"], true);
    let tree = place.tree("out");
    assert_eq!(tree["large"], Node::File(content(3 << 20)));
    assert_eq!((&tree["a"], &tree["z"]), (&Node::File(content(100)), &Node::File(content(100))));
}
