//! What is to be forgotten when much is known.

use strongroom_vault::namespace::directory::Item;
use strongroom_vault::namespace::{Entry, Opening, ROOT};

use crate::support::{Vault, on_both};

/// Numbers of the files `0` to `count - 1`, all of them new.
fn files(vault: &Vault, count: usize) -> Vec<u64> {
    (0..count).map(|index| vault.file(&index.to_string(), 0).number).collect()
}

fn candidates(vault: &Vault, count: usize) -> Vec<u64> {
    vault.namespace.candidates(count).into_iter().map(|candidate| candidate.number).collect()
}

#[test]
fn what_was_asked_for_longest_ago_comes_first() {
    on_both(|vault| {
        let numbers = files(&vault, 6);
        assert_eq!(candidates(&vault, 2), numbers[..2], "all were used once");
        vault.namespace.attributes(numbers[3]).unwrap();
        assert_eq!(candidates(&vault, 2), [numbers[2], numbers[4]], "one was used again");
        assert_eq!(candidates(&vault, 3), [numbers[5], numbers[0], numbers[1]], "round once more");
        assert_eq!(candidates(&vault, 1), [numbers[2]]);
        assert_eq!(candidates(&vault, 1), [numbers[3]], "its second chance has passed");
    });
}

#[test]
fn the_top_and_open_files_are_no_candidates() {
    on_both(|vault| {
        assert!(candidates(&vault, 5).is_empty());
        let numbers = files(&vault, 3);
        vault.namespace.open(numbers[1], Opening::default()).unwrap();
        let found = candidates(&vault, 3);
        assert!(!found.contains(&ROOT) && !found.contains(&numbers[1]) && !found.is_empty());
        vault.namespace.release(numbers[1]);
        assert!(candidates(&vault, 4).contains(&numbers[1]));
    });
}

#[test]
fn candidates_have_the_names_they_were_found_by() {
    on_both(|vault| {
        let directory = vault.directory("d").number;
        vault.file("d/f", 0);
        let mut found = vault.namespace.candidates(2);
        found.sort_by_key(|candidate| candidate.number);
        assert_eq!(found.iter().map(|one| one.is_directory).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[0].entry, Some((ROOT, b"d"[..].into())));
        assert_eq!(found[1].entry, Some((directory, b"f"[..].into())));
    });
}

#[test]
fn above_the_mark_the_watcher_is_woken_and_listings_look_nothing_up() {
    on_both(|vault| {
        let numbers = files(&vault, 4);
        let looked_up = || {
            let handle = vault.namespace.open_directory(ROOT).unwrap();
            let (mut listed, mut entries) = (0, 0);
            let mut sink = |_: Item<'_>, entry: Option<&Entry>| {
                listed += 1;
                entries += usize::from(entry.is_some());
                true
            };
            vault.namespace.read_directory_plus(&handle, 0, &mut sink).unwrap();
            (listed, entries)
        };
        assert_eq!(looked_up(), (6, 4));
        vault.namespace.watch(5, std::thread::current());
        assert_eq!(looked_up(), (6, 4), "five are known, and that many may be");
        vault.file("more", 0);
        // Returns because it was woken, or never.
        std::thread::park();
        assert_eq!(looked_up(), (7, 0));
        vault.namespace.forget(numbers[0], u64::MAX);
        let (listed, entries) = looked_up();
        assert!(listed == 7 && entries > 0, "there is room for one again");
    });
}
