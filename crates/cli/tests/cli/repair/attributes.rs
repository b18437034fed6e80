//! Attributes and access control lists that do not open: named, and left.

use std::fs;
use std::path::Path;

use super::{SUITES, check, left, plain, repair};
use crate::support::Place;

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
