//! What a vault is after a tool has carried it there and back
//! (`docs/sync.md`): each of the tools that this machine has.

use std::process::Command;

use crate::support::{Node, Place};

/// There and back: from `v` by way of `b` to `w`.
const TOOLS: [(&str, &str); 10] = [
    ("cp", "cp -r v b && cp -a b w"),
    ("tar", "mkdir b w && tar -C v -cf b/t . && tar -C w -xf b/t"),
    // What keeps nothing but regular files and directories.
    (
        "tar",
        "mkdir w && (cd v && find . -type f -o -type d) | tar -C v -cf - --no-recursion -T - | tar -C w -xf -",
    ),
    ("rsync", "rsync -rt v/ b/ && rsync -rt b/ w/"),
    ("rsync", "rsync -aHAX v/ b/ && rsync -aHAX b/ w/"),
    ("rclone", "rclone --config /dev/null sync v b && rclone --config /dev/null sync b w"),
    ("rclone", "rclone --config /dev/null copy -M v b && rclone --config /dev/null copy -M b w"),
    (
        "restic",
        "export RESTIC_PASSWORD=a && restic -q init -r b && (cd v && restic -q -r ../b backup .) && restic -q -r b restore latest --target w",
    ),
    (
        "borg",
        "export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes && borg init -e none b && (cd v && borg create ../b::a .) && mkdir w && cd w && borg extract ../b::a",
    ),
    ("unison", "export UNISON=$PWD/.unison && mkdir w && unison -batch -silent $PWD/v $PWD/w"),
];

fn filled() -> Place {
    let place = Place::new().vault();
    let filling = place.open();
    filling.directory("docs").directory("docs/inner").directory("empty").directory(&"d".repeat(240));
    filling.file("docs/a", 5000).file("docs/inner/b", 600_000);
    filling.file(&"n".repeat(240), 3000).link("docs/a", "linked");
    filling.symlink("docs/link", b"a").symlink("long link", &[b'x'; 4000]);
    filling.fifo("docs/fifo");
    filling.close();
    place
}

fn plain(place: &Place) -> std::collections::BTreeMap<String, Node> {
    place.line("salvage v out --password-file password").expect(0);
    let mut tree = place.tree("out");
    tree.retain(|name, _| !name.starts_with("salvage-report"));
    std::fs::remove_dir_all(place.path("out")).expect("removed");
    tree
}

#[test]
fn a_vault_is_whole_after_any_tool_has_carried_it() {
    let place = filled();
    let before = plain(&place);
    assert_eq!(before["long link"], Node::Symlink("x".repeat(4000).into()));
    assert_eq!(before["docs/fifo"], Node::Other);
    let mut tried = 0;
    for (tool, line) in TOOLS {
        if !Command::new("which").arg(tool).output().is_ok_and(|found| found.status.success()) {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(place.path("")).env("HOME", place.path(""));
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(place.path("v"), place.path("kept")).expect("renamed");
        std::fs::rename(place.path("w"), place.path("v")).expect("renamed");
        assert_eq!(plain(&place), before, "{line}");
        // A file that had two names may have become two.
        let document = place.line("check v --password-file password --json").document();
        let damage = document["damage"].as_array().expect("a list");
        assert!(damage.iter().all(|finding| finding["kind"] == "duplicate"), "{line}: {document:#}");
        std::fs::remove_dir_all(place.path("v")).expect("removed");
        std::fs::remove_dir_all(place.path("b")).ok();
        std::fs::rename(place.path("kept"), place.path("v")).expect("renamed");
        tried += 1;
    }
    assert!(tried >= 3, "cp and tar are everywhere");
}
