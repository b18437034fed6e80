//! `file` and kills: at whatever moment one comes, the final name has the old
//! content or the new one, whole, and what else is left has the name that
//! docs/file.md tells.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::file::{content, place};
use crate::support::Place;

/// Kills of each command, with something under the final name and without.
const ROUNDS: u32 = 16;

/// Numbers between 0 and 1 that are the same in every run (splitmix64).
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn started(place: &Place, line: &str) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
    command.args(line.split(' ')).current_dir(place.path(".")).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it runs")
}

/// Whether `.target.XXXXXXXX.part` is the name.
fn is_part(name: &str) -> bool {
    let middle = name.strip_prefix(".target.").and_then(|rest| rest.strip_suffix(".part"));
    middle.is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What a command leaves under its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Old,
    New,
}

/// Kills `line` at moments of its run, with what `prepare` puts there and
/// without, and has `look` say what stands there.
fn killed(place: &Place, line: &str, prepare: impl Fn(bool), look: impl Fn() -> Left) {
    prepare(true);
    let began = Instant::now();
    assert!(started(place, line).wait().expect("it ends").success());
    let mut whole = began.elapsed();
    assert_eq!(look(), Left::New);
    let names = listed(place);
    let mut moments = Moments(34);
    let mut unfinished = 0;
    for round in 0..2 * ROUNDS {
        let is_there = round % 2 == 0;
        prepare(is_there);
        let mut child = started(place, line);
        // The end is where most can go wrong.
        let share = if round % 4 < 2 { moments.next() } else { 0.8 + 0.3 * moments.next() };
        std::thread::sleep(whole.mul_f64(share));
        // A machine that was busy at first makes all of them too late.
        if share < 1.0 && child.try_wait().expect("ours").is_some() {
            whole = whole.mul_f64(0.8);
        }
        child.kill().expect("ours");
        child.wait().expect("it ends");
        let found = look();
        let before = if is_there { Left::Old } else { Left::Nothing };
        assert!(found == before || found == Left::New, "round {round}: {found:?}");
        unfinished += u32::from(found == before);
        let mut more = listed(place);
        more.retain(|name| name != "target" && !names.contains(name));
        assert!(more.len() <= 1 && more.iter().all(|name| is_part(name)), "round {round} left {more:?}");
        for name in more {
            let path = place.path(&name);
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            removed.expect("removed");
        }
    }
    assert!(unfinished > 0, "some were killed before their end");
}

fn listed(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(".")).expect("listed").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

const OLD: usize = 300_000;
const NEW: usize = 24 << 20;

/// Puts the old file there, or nothing.
fn with_file(place: &Place, old: &[u8], is_there: bool) {
    let _ = std::fs::remove_file(place.path("target"));
    if is_there {
        place.write("target", old);
    }
}

fn left(place: &Place, old: &[u8], is_new: impl Fn(&[u8]) -> bool) -> Left {
    if !place.exists("target") {
        return Left::Nothing;
    }
    let found = place.read("target");
    if found == old {
        return Left::Old;
    }
    assert!(is_new(&found), "{} bytes that are neither", found.len());
    Left::New
}

#[test]
fn a_kill_of_decrypt_leaves_the_old_file_or_the_new_one() {
    let (place, recipient) = place();
    let (old, new) = (content(OLD), content(NEW));
    place.write("plain", &new);
    place.line(&format!("file encrypt -r {recipient} plain")).expect(0);
    let is_new = |found: &[u8]| found == new;
    let line = "file decrypt --force -i key -o target plain.age";
    killed(&place, line, |there| with_file(&place, &old, there), || left(&place, &old, is_new));
}

#[test]
fn a_kill_of_encrypt_leaves_the_old_file_or_the_new_one() {
    let (place, recipient) = place();
    let (old, new) = (content(OLD), content(NEW));
    place.write("plain", &new);
    let is_new = |_: &[u8]| place.line("file decrypt -i key -o - target").stdout.as_bytes() == new;
    let line = format!("file encrypt --force -r {recipient} -o target plain");
    killed(&place, &line, |there| with_file(&place, &old, there), || left(&place, &old, is_new));
}

#[test]
fn a_kill_of_extract_leaves_the_old_directory_or_the_new_one() {
    let (place, recipient) = place();
    for number in 0..400 {
        let directory = place.path(&format!("tree/{}", number / 20));
        std::fs::create_dir_all(directory).expect("made");
        place.write(&format!("tree/{}/{number}", number / 20), content(2000 + number));
    }
    place.line(&format!("file encrypt -r {recipient} tree")).expect(0);
    let new = place.tree("tree");
    let prepare = |is_there: bool| {
        let _ = std::fs::remove_dir_all(place.path("target"));
        if is_there {
            std::fs::create_dir_all(place.path("target/old")).expect("made");
            place.write("target/old/f", b"old");
        }
    };
    let look = || {
        if !place.exists("target") {
            return Left::Nothing;
        }
        if place.exists("target/old") {
            assert!(place.read("target/old/f") == b"old" && !place.exists("target/tree"));
            return Left::Old;
        }
        assert!(place.tree("target/tree") == new, "the whole new tree");
        Left::New
    };
    killed(&place, "file decrypt --force -i key --extract target tree.tar.age", prepare, look);
}
