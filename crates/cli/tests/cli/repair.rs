//! `check --repair`: an image of damage for each row of the table in
//! `docs/repair.md` that a repair does something about, and for some that it
//! leaves; what is sound is never touched.

mod attributes;
mod conflicts;
mod crashes;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Node, Place, Run, content, flip};

const SUITES: [&str; 4] = ["xaes-256-gcm", "aegis-256x2", "aegis-256x4", "cascade"];

fn long(letter: &str) -> String {
    letter.repeat(240)
}

/// A vault with something of everything.
fn filled(suite: &str) -> Place {
    let place = Place::new().vault_of(suite);
    let filling = place.open();
    filling.directory("docs").directory("docs/inner").directory("empty").directory("above");
    filling.directory("above/below").directory("bare").directory("bare/inner").file("bare/inner/e", 4000);
    filling.file("docs/a", 5000).file("docs/b", 70_000).file("docs/inner/c", 3000).file("top", 10_000);
    filling.file(&format!("docs/{}", long("n")), 6000).file("above/below/d", 4000);
    filling.file("linked", 4096).link("linked", "docs/linked too");
    filling.symlink("docs/link", b"a").symlink("above/link", b"below/d");
    filling.close();
    place
}

fn check(place: &Place) -> Run {
    place.line("check v --password-file password --json")
}

fn repair(place: &Place) -> Run {
    place.line("check v --password-file password --json --repair --yes")
}

/// The plain tree as `salvage` copies it.
fn plain(place: &Place, code: i32) -> BTreeMap<String, Node> {
    let _ = fs::remove_dir_all(place.path("out"));
    place.line("salvage v out --password-file password").expect(code);
    let mut tree = place.tree("out");
    tree.retain(|name, _| !name.starts_with("salvage-report") && name != ".salvage-losses");
    tree
}

fn actions(document: &Value) -> Vec<&str> {
    let steps = document["repair"]["steps"].as_array().expect("a list");
    assert!(steps.iter().all(|step| step["outcome"] == "done"), "{steps:#?}");
    steps.iter().map(|step| step["action"].as_str().expect("a name")).collect()
}

/// Damages a vault, repairs it, and gives the plain trees before and after.
/// Stored files but those named may not have changed.
#[track_caller]
fn repaired(
    suite: &str,
    damage: impl FnOnce(&Place),
    expected: &[&str],
) -> (Place, BTreeMap<String, Node>, BTreeMap<String, Node>) {
    let place = filled(suite);
    let before = plain(&place, 0);
    damage(&place);
    check(&place).expect(4);
    let stored = stored_contents(&place);
    let document = repair(&place).expect(8).document();
    assert_eq!(actions(&document), expected, "{document:#}");
    assert_eq!(document["repair"]["remaining"], serde_json::json!([]));
    check(&place).expect(0);
    let moved = expected.iter().filter(|action| ["lost-found", "bind"].contains(action)).count();
    let after = stored_contents(&place);
    let gone = stored.iter().filter(|file| !after.contains(file)).count();
    assert!(gone <= moved, "{gone} stored files changed, and {moved} were bound anew");
    // A second repair finds nothing to do.
    let tree = place.tree("v");
    let again = repair(&place).expect(0).document();
    assert_eq!(again["repair"], Value::Null);
    assert_eq!(place.tree("v"), tree);
    let after = plain(&place, 0);
    (place, before, after)
}

/// Contents of stored files but the vault's own, in no order.
fn stored_contents(place: &Place) -> Vec<Vec<u8>> {
    let tree = place.tree("v").into_iter().filter(|(name, _)| !name.starts_with(".strongroom"));
    let mut contents: Vec<Vec<u8>> = tree
        .filter_map(|(_, node)| match node {
            Node::File(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    contents.sort();
    contents
}

/// The one entry of `lost+found`.
#[track_caller]
fn only_lost(after: &BTreeMap<String, Node>) -> (&str, &Node) {
    let mut lost = after.iter().filter_map(|(name, node)| Some((name.strip_prefix("lost+found/")?, node)));
    let found = lost.next().expect("something is there");
    assert_eq!(lost.next(), None);
    found
}

/// The one file in a directory's record.
fn record_of(place: &Place, directory: &str) -> PathBuf {
    let mut names = fs::read_dir(place.stored(directory).join(".id")).expect("a record").flatten();
    let record = names.next().expect("a name").path();
    assert!(names.next().is_none(), "one home");
    record
}

fn side_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".n{}", path.file_name().expect("a name").to_string_lossy()))
}

#[test]
fn a_sound_vault_is_not_changed_by_a_byte() {
    for suite in SUITES {
        let place = filled(suite);
        let before = place.tree("v");
        let document = repair(&place).expect(0).document();
        assert_eq!(document["repair"], Value::Null);
        assert_eq!(place.tree("v"), before);
    }
}

#[test]
fn a_header_copy_is_written_again() {
    for suite in SUITES {
        for copy in ["header.0", "header.1"] {
            let path = format!("v/.strongroom/{copy}");
            repaired(suite, |place| fs::remove_file(place.path(&path)).expect("removed"), &["header"]);
            repaired(suite, |place| flip(&place.path(&path), 3000), &["header"]);
        }
    }
}

#[test]
fn a_directory_record_is_written_again_by_what_its_files_say() {
    for suite in SUITES {
        for forged in [false, true] {
            let damage = |place: &Place| {
                let record = record_of(place, "docs");
                fs::remove_file(&record).expect("removed");
                if forged {
                    let other = record_of(place, "above");
                    let mut other = other.file_name().expect("a name").to_string_lossy().into_owned();
                    let first = other.remove(0);
                    other.insert(0, if first == 'A' { 'B' } else { 'A' });
                    fs::write(record.with_file_name(other), "").expect("written");
                }
            };
            let (_, before, after) = repaired(suite, damage, &["record"]);
            assert_eq!(after, before);
        }
    }
}

#[test]
fn an_empty_directory_gets_a_new_record() {
    for suite in SUITES {
        let damage = |place: &Place| fs::remove_dir_all(place.stored("empty").join(".id")).expect("removed");
        let (_, before, after) = repaired(suite, damage, &["new-record"]);
        assert_eq!(after, before);
    }
}

#[test]
fn entries_of_a_directory_whose_id_is_lost_go_to_lost_found() {
    for suite in SUITES {
        let damage = |place: &Place| fs::remove_dir_all(place.stored("bare").join(".id")).expect("removed");
        let (_, mut before, mut after) = repaired(suite, damage, &["lost-found", "new-record"]);
        let lost: Vec<String> =
            after.keys().filter(|name| name.starts_with("lost+found/#")).cloned().collect();
        assert_eq!(lost.len(), 2, "a directory with its file: {lost:?}");
        let file = lost.iter().find(|name| name.ends_with("/e")).expect("the file keeps its name");
        assert_eq!(after[file], Node::File(content(4000)));
        after.retain(|name, _| !name.starts_with("lost+found"));
        before.retain(|name, _| !name.starts_with("bare/"));
        assert_eq!(after, before, "all else is as it was");
    }
}

#[test]
fn a_long_name_is_written_again_from_where_its_side_file_went() {
    for suite in SUITES {
        let damage = |place: &Place| {
            let side = side_of(&place.stored(&format!("docs/{}", long("n"))));
            let elsewhere = place.stored("above").join(side.file_name().expect("a name"));
            fs::rename(side, elsewhere).expect("moved");
        };
        let (_, before, after) = repaired(suite, damage, &["long-name"]);
        assert_eq!(after, before);
    }
}

#[test]
fn an_entry_that_has_lost_its_long_name_goes_to_lost_found() {
    for suite in SUITES {
        let damage = |place: &Place| {
            fs::remove_file(side_of(&place.stored(&format!("docs/{}", long("n"))))).expect("removed");
        };
        let (_, mut before, after) = repaired(suite, damage, &["lost-found"]);
        let (name, node) = only_lost(&after);
        assert!(name.starts_with('#') && name.len() == 33, "{name}");
        assert_eq!(*node, Node::File(content(6000)));
        before.remove(&format!("docs/{}", long("n")));
        assert!(before.iter().all(|(name, node)| after.get(name) == Some(node)), "all else is as it was");
    }
}

/// Spelled as stored names are, and sealed in no directory.
#[test]
fn an_entry_whose_name_opens_nowhere_goes_to_lost_found() {
    for suite in SUITES {
        for path in ["docs/a", "docs/link", "docs/inner"] {
            let damage = |place: &Place| {
                let from = place.stored(path);
                let mut name = from.file_name().expect("a name").to_string_lossy().into_owned();
                let first = name.remove(0);
                name.insert(0, if first == 'A' { 'B' } else { 'A' });
                fs::rename(&from, from.with_file_name(name)).expect("renamed");
                // What is not sealed in any directory stands under a placeholder.
                let salvaged = plain(place, 4);
                let lost = salvaged.keys().filter(|name| name.starts_with("docs/#") && !name.contains("/c"));
                assert_eq!(lost.count(), 1, "{:?}", salvaged.keys());
                assert!(!salvaged.contains_key(path));
            };
            let (_, before, after) = repaired(suite, damage, &["lost-found"]);
            let placed = |name: &str| match name.strip_prefix(path) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(rest.to_owned()),
                _ => None,
            };
            let lost: Vec<_> = after.keys().filter(|name| name.starts_with("lost+found/#")).collect();
            let root = lost.iter().find(|name| name.matches('/').count() == 1).expect("it is there");
            for (name, node) in &before {
                let now = match placed(name) {
                    Some(rest) => format!("{root}{rest}"),
                    None => name.clone(),
                };
                assert_eq!(after.get(&now), Some(node), "{name} is {now} now");
            }
            assert_eq!(after.len(), before.len() + 1, "and nothing else but lost+found");
        }
    }
}

#[test]
fn moved_entries_go_back_to_their_directories() {
    for suite in SUITES {
        for path in ["docs/b", "docs/inner", "docs/link", "above/below"] {
            let damage = |place: &Place| {
                let from = place.stored(path);
                let to = place.stored("empty").join(from.file_name().expect("a name"));
                fs::rename(from, to).expect("moved");
            };
            let (_, before, after) = repaired(suite, damage, &["move-back"]);
            assert_eq!(after, before, "{path}");
        }
    }
}

#[test]
fn exchanged_files_are_exchanged_again() {
    for suite in SUITES {
        let damage = |place: &Place| {
            let (a, b) = (place.stored("docs/a"), place.stored("top"));
            let aside = place.path("aside");
            fs::rename(&a, &aside).expect("moved");
            fs::rename(&b, &a).expect("moved");
            fs::rename(&aside, &b).expect("moved");
        };
        let (_, before, after) = repaired(suite, damage, &["exchange"]);
        assert_eq!(after, before);
    }
}

#[test]
fn a_file_under_the_name_of_another_goes_to_lost_found() {
    for suite in SUITES {
        let damage = |place: &Place| {
            fs::rename(place.stored("docs/a"), place.stored("docs/b")).expect("moved");
        };
        let (place, _, after) = repaired(suite, damage, &["lost-found"]);
        assert_eq!(*only_lost(&after).1, Node::File(content(5000)));
        assert!(!after.contains_key("docs/a") && !after.contains_key("docs/b"));
        // Whatever has this name already stays.
        place.open().directory("docs/again").file("docs/again/a", 100).close();
        let from = place.stored("docs/again/a");
        fs::rename(place.stored("top"), &from).expect("moved");
        repair(&place).expect(8);
        check(&place).expect(0);
    }
}

/// A repair that was cut after a file was moved, and before it was bound.
#[test]
fn a_repair_that_was_cut_is_taken_up() {
    for suite in SUITES {
        let place = filled(suite);
        let copy = |from: &str, to: &str| {
            let copied =
                std::process::Command::new("cp").arg("-a").args([place.path(from), place.path(to)]).status();
            assert!(copied.expect("cp").success());
        };
        copy("v", "sound");
        fs::rename(place.stored("docs/a"), place.stored("docs/b")).expect("moved");
        let document = repair(&place).expect(8).document();
        let name = document["repair"]["steps"][0]["to"].as_str().expect("a path").to_owned();
        fs::remove_dir_all(place.path("v")).expect("removed");
        copy("sound", "v");
        place.open().directory("lost+found").file(&name, 10).close();
        fs::rename(place.stored("docs/a"), place.stored(&name)).expect("moved");
        check(&place).expect(4);
        let document = repair(&place).expect(8).document();
        assert_eq!(actions(&document), ["bind"]);
        check(&place).expect(0);
        assert_eq!(plain(&place, 0)[&name], Node::File(content(5000)));
    }
}

/// What a name in `lost+found` shows is what that name was given to, there too.
#[test]
fn a_file_under_the_name_of_another_in_lost_found_is_not_bound_to_it() {
    for suite in SUITES {
        for path in ["docs/a", "docs/link", "lost+found/secret"] {
            let place = filled(suite);
            let filling = place.open();
            filling
                .directory("lost+found")
                .file("lost+found/letter", 10)
                .file("lost+found/secret", 3000)
                .close();
            fs::rename(place.stored(path), place.stored("lost+found/letter")).expect("moved");
            let document = repair(&place).expect(8).document();
            assert_eq!(actions(&document), ["lost-found"], "{path}");
            check(&place).expect(0);
            let after = plain(&place, 0);
            assert!(!after.contains_key("lost+found/letter"), "{path}: {:?}", after.keys());
            let to = document["repair"]["steps"][0]["to"].as_str().expect("a path");
            assert!(to.contains('#') && after.contains_key(to), "{to}");
        }
    }
}

#[test]
fn damaged_contents_are_left_and_told() {
    for suite in SUITES {
        let place = filled(suite);
        flip(&place.stored("docs/b"), 4096 * 3);
        fs::write(place.stored("top"), "").expect("cut");
        let before = place.tree("v");
        let document = repair(&place).expect(9).document();
        assert_eq!(actions(&document), [""; 0]);
        let remaining = document["repair"]["remaining"].as_array().expect("a list");
        let mut paths: Vec<_> =
            remaining.iter().map(|found| found["path"].as_str().expect("a path")).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["docs/b", "top"]);
        assert_eq!(place.tree("v"), before);

        // Beside something that can be repaired, too.
        fs::remove_file(place.path("v/.strongroom/header.1")).expect("removed");
        let document = repair(&place).expect(9).document();
        assert_eq!(actions(&document), ["header"]);
        assert_eq!(document["repair"]["remaining"].as_array().map(Vec::len), Some(2));
    }
}

/// Damage that a repair leaves: not a byte changes.
#[track_caller]
fn left(place: &Place) -> Vec<Value> {
    let before = place.tree("v");
    let document = repair(place).expect(9).document();
    assert_eq!(actions(&document), [""; 0]);
    assert_eq!(place.tree("v"), before);
    document["repair"]["remaining"].as_array().expect("a list").clone()
}

/// In a file of more than one group.
#[test]
fn a_damaged_map_page_costs_no_group() {
    let group = 4096 + 128 * 4096;
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        let (hole, len) = (70 * 128 * 4096, 300_000);
        place.open().sparse("sparse", hole, len).overwrite("sparse", 9000).close();
        let right = plain(&place, 0);
        let Node::File(bytes) = &right["sparse"] else { panic!("a file") };
        assert_eq!((&bytes[..9000], bytes.len() as u64), (&content(9000)[..], hole + len as u64));
        let stored = place.stored("sparse");
        let sound = fs::read(&stored).expect("a file");
        {
            let (page, what) = (group, "map");
            flip(&stored, page + 100);
            let document = check(&place).expect(4).document();
            let found = document["damage"].as_array().expect("a list");
            assert!(found.iter().all(|found| found["path"] == "sparse"), "{what}: {document:#}");
            assert!(found.iter().any(|found| found["kind"] == "page"), "{what}: {document:#}");
            assert!(!left(&place).is_empty());
            assert!(plain(&place, 4) == right, "{what}: every group is there");
            fs::write(&stored, &sound).expect("written");
        }
        check(&place).expect(0);
    }
}

#[test]
fn an_entry_that_is_no_stored_name_is_moved_aside() {
    for suite in SUITES {
        let place = filled(suite);
        let right = plain(&place, 0);
        let docs = place.stored("docs");
        fs::write(docs.join("note (conflicted copy).txt"), "of a synchronisation").expect("a file");
        fs::create_dir(place.path("v/not ours")).expect("a directory");
        fs::write(place.path("v/not ours/inside"), "and more").expect("a file");
        let document = check(&place).expect(4).document();
        let damage = document["damage"].as_array().expect("a list");
        let mut found: Vec<_> = damage
            .iter()
            .map(|found| (found["path"].as_str().expect("a path"), found["kind"].as_str().expect("a kind")))
            .collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [("", "name"), ("docs", "name")], "{document:#}");
        let stored = |name: &str| {
            damage.iter().any(|found| found["stored"].as_str().is_some_and(|stored| stored.ends_with(name)))
        };
        assert!(stored("/note (conflicted copy).txt") && stored("not ours"), "{document:#}");
        assert_eq!(plain(&place, 4), right, "salvage copies everything but them");
        let document = repair(&place).expect(8).document();
        assert_eq!(actions(&document), ["foreign", "foreign"]);
        let aside = place.path("v/.strongroom/aside");
        assert!(aside.join("foreign.note (conflicted copy).txt").is_file());
        assert!(aside.join("foreign.not ours/inside").is_file());
    }
}

#[test]
fn files_that_share_an_inode_with_a_sound_one_and_copies_are_left() {
    let place = filled(SUITES[0]);
    let sound = place.stored("docs/a");
    fs::hard_link(&sound, place.stored("empty").join(sound.file_name().expect("a name"))).expect("a link");
    let other = place.stored("top");
    fs::copy(&other, place.stored("empty").join(other.file_name().expect("a name"))).expect("a copy");
    let before = place.tree("v");
    let document = repair(&place).expect(9).document();
    assert_eq!(actions(&document), [""; 0]);
    assert_eq!(place.tree("v"), before);
}

#[test]
fn nothing_is_changed_without_an_answer_or_beside_a_mount() {
    let place = filled(SUITES[0]);
    fs::remove_dir_all(place.stored("docs").join(".id")).expect("removed");
    let before = place.tree("v");
    let run = place.line("check v --password-file password --repair").expect(2);
    assert!(run.stderr.contains("docs: write the directory's record again"), "{}", run.stderr);
    assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    assert_eq!(place.tree("v"), before);

    let lock = fs::File::open(place.path("v/.strongroom/lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    repair(&place).expect(5);
    place.line("check v --password-file password --repair --yes --force").expect(2);
    drop(lock);
    assert_eq!(place.tree("v"), before);
    place.line("check v --yes").expect(2);
}

#[test]
fn a_directory_that_was_moved_is_bound_where_it_stands() {
    for suite in SUITES {
        let damage = |place: &Place| {
            let (docs, above, aside) = (place.stored("docs"), place.stored("above"), place.path("aside"));
            for (from, to) in [(&docs, &aside), (&above, &docs), (&aside, &above)] {
                fs::rename(from, to).expect("renamed");
            }
        };
        let (_, before, after) = repaired(suite, damage, &["record", "record"]);
        assert_eq!(after["above/a"], before["docs/a"]);
        assert_eq!(after["docs/below/d"], before["above/below/d"]);
    }
}

#[test]
fn stored_inodes_of_other_kinds_are_moved_aside() {
    for suite in SUITES {
        let damage = |place: &Place| {
            let stored = place.stored("docs/link");
            fs::remove_file(&stored).expect("removed");
            std::os::unix::fs::symlink("/etc/passwd", stored).expect("a symlink");
        };
        let (place, mut before, after) = repaired(suite, damage, &["foreign"]);
        before.remove("docs/link");
        assert_eq!(after, before);
        let aside = fs::read_dir(place.path("v/.strongroom/aside")).expect("it is there").flatten();
        assert_eq!(aside.filter(|entry| entry.path().is_symlink()).count(), 1);
    }
}

#[test]
fn two_directories_in_one_become_one() {
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        place.open().directory("shared").file("shared/ours", 5000).close();
        let (stored, aside) = (place.stored("shared"), place.path("aside"));
        fs::rename(&stored, &aside).expect("aside");
        place
            .open()
            .directory("shared")
            .file("shared/theirs", 6000)
            .symlink("shared/link", b"theirs")
            .close();
        // What a synchronisation program makes of both.
        for from in [aside.join(".id"), aside] {
            for entry in fs::read_dir(&from).expect("a directory").flatten() {
                if entry.file_name() != ".id" {
                    let to = if from.ends_with(".id") { stored.join(".id") } else { stored.clone() };
                    fs::rename(entry.path(), to.join(entry.file_name())).expect("moved");
                }
            }
        }
        let before = plain(&place, 0);
        assert_eq!(before["shared/ours"], Node::File(content(5000)));
        assert_eq!(before["shared/theirs"], Node::File(content(6000)));
        let document = repair(&place).expect(8).document();
        let mut done = actions(&document);
        done.dedup();
        assert_eq!(done, ["record", "adopt"], "{document:#}");
        check(&place).expect(0);
        assert_eq!(plain(&place, 0), before);
    }
}
