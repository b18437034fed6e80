//! `check --repair`: an image of damage for each row of the table in
//! `docs/repair.md` that a repair does something about, and for some that it
//! leaves; what is sound is never touched.

mod conflicts;

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

/// The body of a test in a source file.
fn body<'a>(source: &'a str, test: &str) -> Option<&'a str> {
    let (_, rest) = source.split_once(&format!("#[test]\nfn {test}()"))?;
    Some(rest.split("#[test]").next().unwrap_or(rest))
}

/// Each step that a report can name stands in the table, each that stands
/// there can be named, and where a row names a step and a test of a repair,
/// that test expects the step.
#[test]
fn the_table_of_damages_is_what_the_code_does() {
    let document = include_str!("../../../../docs/repair.md");
    let sources = [
        ("repair", include_str!("repair.rs")),
        ("conflicts", include_str!("repair/conflicts.rs")),
        ("check", include_str!("check.rs")),
        ("salvage", include_str!("salvage.rs")),
        ("header", include_str!("header.rs")),
        ("attacks", include_str!("../../../vault/tests/attacks.rs")),
    ];
    let codes = |cell: &str| -> Vec<String> {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect()
    };
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/json/check.schema.json")).expect("JSON");
    let mut known = Vec::new();
    collect_actions(&schema, &mut known);
    let mut named = std::collections::BTreeSet::new();
    let (_, table) = document.split_once("| damage |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [damage, _, _, _, steps, tests] = cells[..] else { panic!("six cells: {row}") };
        let (steps, tests) = (codes(steps), codes(tests));
        for test in &tests {
            let (file, name) = test.split_once("::").expect("a file and a name");
            let source = sources.iter().find(|(known, _)| *known == file).expect("a file of tests").1;
            let body = body(source, name).unwrap_or_else(|| panic!("{damage}: there is no {test}"));
            if ["repair", "conflicts"].contains(&file) {
                for step in &steps {
                    assert!(body.contains(&format!("\"{step}\"")), "{test} does not expect {step}");
                }
            }
        }
        named.extend(steps);
    }
    assert!(count > 20, "{count} rows");
    assert_eq!(named.into_iter().collect::<Vec<_>>(), known, "steps of the table and of the report");
}

/// The values that a schema allows for `action`.
fn collect_actions(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "action"
                    && let Some(values) = value["enum"].as_array()
                {
                    found.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    found.sort();
                    found.dedup();
                }
                collect_actions(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_actions(value, found)),
        _ => {}
    }
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

/// A list as the kernel hands it over: version 2, and the entries of a mode and a named user's.
fn access_list() -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, id) in [(1u16, u32::MAX), (2, 1000), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)] {
        list.extend([&tag.to_le_bytes()[..], &4u16.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    list
}

/// The stored extended attributes of an inode, which are ours.
fn stored_attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = Vec::with_capacity(4096);
    rustix::fs::listxattr(path, rustix::buffer::spare_capacity(&mut names)).expect("listed");
    let names = String::from_utf8(names).expect("UTF-8");
    let ours = names.split('\0').filter(|name| name.starts_with("user.strongroom."));
    ours.map(|name| {
        let mut value = Vec::with_capacity(4096);
        rustix::fs::getxattr(path, name, rustix::buffer::spare_capacity(&mut value)).expect("a value");
        (name.to_owned(), value)
    })
    .collect()
}

/// Flips a bit of every stored attribute of an inode.
fn spoil_attributes(path: &Path) {
    let stored = stored_attributes(path);
    assert!(!stored.is_empty(), "{}", path.display());
    for (name, mut value) in stored {
        value[20] ^= 1;
        rustix::fs::setxattr(path, &*name, &value, rustix::fs::XattrFlags::REPLACE).expect("written");
    }
}

#[test]
fn a_damaged_attribute_is_named_and_costs_nothing_else() {
    const LIST: &str = "system.posix_acl_access";
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        let filling = place.open();
        filling.directory("d").file("d/f", 5000).file("listed", 6000).file("sound", 100);
        filling.attribute("d", "user.of", b"a directory").attribute("d/f", "user.of", b"a file");
        filling.attribute("listed", LIST, &access_list()).attribute("sound", "user.of", b"this one");
        filling.close();
        check(&place).expect(0);
        let right = plain(&place, 0);
        for path in ["d", "d/f", "listed"] {
            spoil_attributes(&place.stored(path));
        }
        let document = check(&place).expect(4).document();
        let mut found: Vec<_> =
            document["damage"].as_array().expect("a list").iter().map(|found| &found["path"]).collect();
        found.sort_by_key(|path| path.as_str().map(str::to_owned));
        assert_eq!(found, ["d", "d/f", "listed"], "{document:#}");
        assert_eq!(left(&place).len(), 3);
        assert_eq!(plain(&place, 4), right, "contents and names");
        let mut kept = [0; 64];
        let len = rustix::fs::getxattr(place.path("out/sound"), "user.of", &mut kept[..]).expect("copied");
        assert_eq!(&kept[..len], b"this one");
        let gone = rustix::fs::getxattr(place.path("out/d/f"), "user.of", &mut kept[..]);
        assert_eq!(gone, Err(rustix::io::Errno::NODATA));
    }
}

/// The id that they were sealed with went with the header page: whether they
/// are sound cannot be told, and they are of a file that never was.
#[test]
fn attributes_of_a_file_that_was_never_durable_are_no_damage() {
    for spoils in [false, true] {
        let place = Place::new().vault();
        place.open().file("kept", 5000).attribute("kept", "user.of", b"one").close();
        let filling = place.open();
        filling.file("lost", 5000).attribute("lost", "user.of", b"two");
        filling.attribute("lost", "system.posix_acl_access", &access_list()).crash_unsynced();
        let stored = place.stored("lost");
        assert_eq!(stored_attributes(&stored).len(), 2);
        // As a power cut leaves it: its length, and no byte of it.
        let len = stored.metadata().expect("it is there").len();
        fs::write(&stored, vec![0; len as usize]).expect("written");
        if spoils {
            spoil_attributes(&stored);
        }
        let document = check(&place).expect(0).document();
        assert_eq!(document["damage"], serde_json::json!([]));
        let tree = plain(&place, 0);
        assert!(!tree.contains_key("lost"), "what was never synced is not there");
        // Those of a file that was made durable are damage in the same vault.
        let kept = place.stored("kept");
        spoil_attributes(&kept);
        assert_eq!(check(&place).expect(4).document()["damage"][0]["path"], "kept");
        let document = repair(&place).expect(9).document();
        assert_eq!(document["repair"]["remaining"].as_array().map(Vec::len), Some(1));
        assert!(!stored.exists(), "settled");
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
fn a_crashed_session_is_recovered_first() {
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        let filling = place.open();
        filling.directory("docs").file("docs/a", 5000).file("docs/b", 100_000);
        filling.crash();
        fs::remove_file(record_of(&place, "docs")).expect("removed");
        let document = repair(&place).expect(8).document();
        assert_eq!(actions(&document), ["record"]);
        check(&place).expect(0);
        assert_eq!(plain(&place, 0)["docs/b"], Node::File(content(100_000)));
    }
}

/// What a damaged journal said is lost, and the rest of the vault is not.
#[test]
fn a_damaged_journal_is_given_up_and_kept_aside() {
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        let filling = place.open();
        filling.file("a", 5000).file("b", 9000).sync().overwrite("a", 100).overwrite("b", 100).crash();
        let journal = place
            .tree("v/.strongroom")
            .into_iter()
            .find_map(|(name, node)| match node {
                Node::File(bytes) if name.starts_with("journal.") => {
                    let slot = bytes.chunks(4096).position(|slot| slot.starts_with(b"SRjr"))?;
                    Some((name, slot))
                }
                _ => None,
            })
            .expect("a record");
        flip(&place.path("v/.strongroom").join(&journal.0), journal.1 as u64 * 4096 + 80);
        let document = check(&place).expect(4).document();
        assert_eq!(document["damage"][0]["kind"], "journal");
        assert_eq!(plain(&place, 4)["b"], Node::File(content(9000)));
        place.line("check v --password-file password --repair").expect(2);
        let document = repair(&place).expect(9).document();
        assert_eq!(actions(&document), ["recover"]);
        assert_eq!(document["repair"]["remaining"][0]["kind"], "journal");
        let document = check(&place).expect(0).document();
        let leftovers = document["leftovers"].as_array().expect("a list");
        assert_eq!(leftovers.len(), 2, "both segments: {document:#}");
        assert!(leftovers.iter().all(|left| {
            left["stored"].as_str().is_some_and(|stored| stored.starts_with(".strongroom/aside/journal."))
        }));
        assert_eq!(plain(&place, 0)["a"], Node::File(content(5000)));
    }
}

/// Something else in place of a journal is damage, and nothing that the store
/// failed at.
#[test]
fn a_journal_that_is_no_file_is_damage() {
    for kind in ["FIFO", "symlink", "directory"] {
        let place = Place::new().vault();
        place.open().file("a", 5000).sync().overwrite("a", 100).crash();
        let mut names: Vec<_> = place.tree("v/.strongroom").into_keys().collect();
        names.retain(|name| name.starts_with("journal."));
        let journal = place.path("v/.strongroom").join(&names[0]);
        fs::remove_file(&journal).expect("removed");
        match kind {
            "FIFO" => {
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, &journal, rustix::fs::FileType::Fifo, mode, 0)
                    .expect("made");
            }
            "symlink" => std::os::unix::fs::symlink("/dev/zero", &journal).expect("made"),
            _ => fs::create_dir(&journal).expect("made"),
        }
        let document = check(&place).expect(4).document();
        assert_eq!(document["damage"][0]["kind"], "journal", "{kind}: {document:#}");
        let message = document["damage"][0]["message"].as_str().expect("a text");
        assert!(message.contains(".strongroom"), "{kind}: {message}");
        let document = repair(&place).expect(9).document();
        assert_eq!(actions(&document), ["recover"], "{kind}");
        check(&place).expect(0);
    }
}

/// What settling has cut is told, and salvaged as far as it opens.
#[test]
fn what_settling_cut_is_listed_and_salvaged() {
    for suite in SUITES {
        let place = Place::new().vault_of(suite);
        place.open().file("large", 200 * 4096).crash();
        let stored = place.stored("large");
        let file = fs::File::options().write(true).open(&stored).expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 0).expect("written");
        // The crash explains it: nothing is damaged, but nothing is thrown away.
        repair(&place).expect(0);
        let document = check(&place).expect(0).document();
        let left = document["leftovers"][0]["stored"].as_str().expect("one").to_owned();
        let name = left.strip_prefix(".strongroom/aside/").expect("kept aside");
        let tree = plain(&place, 4);
        assert!(!tree.contains_key("large"), "what was never synced is not there");
        let mut right = content(200 * 4096);
        right[..128 * 4096].fill(0);
        assert!(tree[&format!("#aside/{name}")] == Node::File(right), "the second group is there");
    }
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
