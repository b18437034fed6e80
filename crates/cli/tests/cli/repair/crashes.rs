//! What a session has left that did not end cleanly: its journal, and files that were never durable.

use std::fs;

use super::{SUITES, actions, check, plain, record_of, repair};
use crate::support::{Node, Place, content, flip};

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
