//! `file` and what is wrong: damage, wrong keys, plugins, full disks, kills.
//! Whatever happens, nothing half-written has a final name, and no plaintext
//! leaves of a chunk that did not verify.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::file::{content, place, plugin, with_path};
use crate::support::{Place, Run, finish, flip};

const CHUNK: usize = 65_536;
const SEALED: usize = CHUNK + 16;
const PLAIN: usize = 3 * CHUNK + 1000;

/// A place with `f`, encrypted as `f.age`, and the bytes of that before its
/// first chunk.
fn encrypted() -> (Place, String, usize) {
    let (place, recipient) = place();
    place.write("f", content(PLAIN));
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    let start = place.read("f.age").len() - (PLAIN + 4 * 16);
    (place, recipient, start)
}

/// Decrypting `bytes` fails with this code, leaves no file, and gives to a
/// stream only what is verified: `plain` bytes.
#[track_caller]
fn refused(place: &Place, bytes: &[u8], code: i32, plain: usize) {
    place.write("bad.age", bytes);
    place.line("file decrypt -i key bad.age").expect(code);
    assert!(!place.exists("bad"));
    let run = finish(place.command("file decrypt -i key -o - bad.age".split(' ')).output().expect("it runs"));
    let run = run.expect(code);
    assert!(
        run.stdout.as_bytes() == &content(PLAIN)[..plain],
        "{} bytes instead of {plain}",
        run.stdout.len()
    );
}

#[test]
fn a_file_that_is_cut_is_damage_wherever_it_is_cut() {
    let (place, _, start) = encrypted();
    let whole = place.read("f.age");
    for at in [1, 20, start - 17, start - 16, start - 1] {
        refused(&place, &whole[..at], 4, 0);
    }
    refused(&place, b"", 4, 0);
    for (at, plain) in [
        (start, 0),
        (start + 1, 0),
        (start + 16, 0),
        (start + SEALED - 1, 0),
        // At a chunk's end: the chunk verifies, as one that others follow.
        (start + SEALED, CHUNK),
        (start + SEALED + 1, CHUNK),
        (start + SEALED + 16, CHUNK),
        (start + 3 * SEALED, 3 * CHUNK),
        (whole.len() - 1, 3 * CHUNK),
    ] {
        refused(&place, &whole[..at], 4, plain);
    }
}

#[test]
fn chunks_that_are_changed_swapped_or_added_are_damage() {
    let (place, _, start) = encrypted();
    let whole = place.read("f.age");
    let chunk =
        |number: usize| &whole[start + number * SEALED..(start + (number + 1) * SEALED).min(whole.len())];
    let of = |chunks: &[&[u8]]| [&[&whole[..start]], chunks].concat().concat();
    assert!(of(&[chunk(0), chunk(1), chunk(2), chunk(3)]) == whole);
    refused(&place, &of(&[chunk(1), chunk(0), chunk(2), chunk(3)]), 4, 0);
    refused(&place, &of(&[chunk(0), chunk(2), chunk(1), chunk(3)]), 4, CHUNK);
    refused(&place, &of(&[chunk(0), chunk(1), chunk(3)]), 4, 2 * CHUNK);
    refused(&place, &of(&[chunk(0), chunk(1), chunk(2), chunk(3), chunk(3)]), 4, 3 * CHUNK);
    refused(&place, &of(&[chunk(0), chunk(1), chunk(2), chunk(3), b"x"]), 4, 3 * CHUNK);
    for (at, plain) in
        [(start + 5, 0), (start + SEALED - 1, 0), (start + SEALED, CHUNK), (whole.len() - 1, 3 * CHUNK)]
    {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        refused(&place, &changed, 4, plain);
    }
}

#[test]
fn an_empty_last_chunk_is_damage() {
    let (place, recipient) = place();
    place.write("e", b"");
    place.line(&format!("file encrypt -r {recipient} e")).expect(0);
    assert_eq!(place.line("file decrypt -i key -o - e.age").expect(0).stdout, "");
    let (place, _, start) = encrypted();
    let whole = place.read("f.age");
    // The length of three chunks and an empty one: what it holds cannot be right.
    refused(&place, &whole[..start + 3 * SEALED + 16], 4, 3 * CHUNK);
}

#[test]
fn headers_that_are_changed_are_damage_and_those_of_others_a_wrong_key() {
    let (place, recipient, start) = encrypted();
    let whole = place.read("f.age");
    // The MAC's line.
    let mut changed = whole.clone();
    let at = start - 16 - 10;
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    refused(&place, &changed, 4, 0);
    let text = |text: &str| [text.as_bytes(), &whole[start - 16..]].concat();
    refused(&place, &text("age-encryption.org/v2\n"), 4, 0);
    refused(&place, b"something else entirely\n", 4, 0);
    let mac = format!("--- {}\n", "A".repeat(43));
    refused(
        &place,
        &text(&format!("age-encryption.org/v1\n-> unknown abc\n{}\n{mac}", "A".repeat(43))),
        3,
        0,
    );
    place.line("file keygen -o other").expect(0);
    let run = place.line("file decrypt -i other f.age --force").expect(3);
    run.error_text("none of the identities opens it");
    place.line("file decrypt --password-file password --force f.age").expect(3);
    assert!(place.read("f") == content(PLAIN), "what was there stays");
    place.line(&format!("file encrypt -r {recipient} -p --password-file password -o x f")).expect(2);
}

#[test]
fn ten_thousand_stanzas_are_read() {
    let (place, recipient) = place();
    place.line("file keygen -o other").expect(0);
    let other = place.line("key recipient other").expect(0).stdout;
    place.write("readers", other.repeat(10_000) + &recipient);
    place.write("f", b"plain");
    place.line("file encrypt -R readers f").expect(0);
    let began = Instant::now();
    assert_eq!(place.line("file decrypt -i key -o - f.age").expect(0).stdout, "plain");
    assert!(began.elapsed() < Duration::from_secs(60));
    let run = place.line("--json file inspect f.age").expect(0);
    assert_eq!(run.document()["stanzas"]["X25519"], 10_001);
    // More than 8 MiB of header is refused before it is read.
    let stanza = format!("-> X25519 {}\n{}\n", "A".repeat(43), "A".repeat(43));
    place.write("long.age", "age-encryption.org/v1\n".to_owned() + &stanza.repeat(100_000));
    place.line("file decrypt -i key long.age").expect(6).error_text("longer than 8 MiB");
}

#[test]
fn a_passphrase_that_costs_too_much_is_not_tried() {
    let place = Place::new();
    let stanza = format!("-> scrypt {} 30\n{}\n--- {}\n", "A".repeat(22), "A".repeat(43), "A".repeat(43));
    place.write("f.age", "age-encryption.org/v1\n".to_owned() + &stanza + &"x".repeat(100));
    let began = Instant::now();
    let run = place.line("file decrypt --password-file password f.age").expect(6);
    run.error_text("work factor 30");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn armor_with_junk_is_damage() {
    let (place, recipient) = place();
    place.write("f", content(10_000));
    place.line(&format!("file encrypt -a -r {recipient} f")).expect(0);
    let text = String::from_utf8(place.read("f.age")).expect("text");
    std::fs::remove_file(place.path("f")).expect("removed");
    let lines: Vec<&str> = text.lines().collect();
    let middle = lines.len() / 2;
    let with = |line: &str| [&lines[..middle], &[line], &lines[middle..]].concat().join("\n") + "\n";
    for junk in [
        text.clone() + "junk\n",
        with("junk!"),
        with(""),
        with("AAAA"),
        text.replace("-----END", "-----ENDE"),
        text.replacen("-----BEGIN", "----BEGIN", 1),
        lines[..lines.len() - 1].join("\n"),
        lines[..3].join("\n"),
    ] {
        place.write("f.age", junk);
        place.line("file decrypt -i key f.age").expect(4);
        assert!(!place.exists("f"));
    }
}

#[test]
fn a_plugin_that_hangs_is_named_and_ended() {
    let (place, _) = place();
    place.write("f", b"plain");
    // What it starts holds its pipes.
    let path = plugin(&place, "hang", "echo $$ > \"$HANG_PID\"\nsleep 600 &\nwait");
    std::fs::create_dir_all(place.path("plugins")).expect("made");
    let pid_file = place.path("pid");
    let run = |line: &str| {
        let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
        let mut command = place.command(line.split_whitespace());
        finish(command.env("PATH", search).env("HANG_PID", &pid_file).output().expect("it runs"))
    };
    let began = Instant::now();
    for line in [
        "file encrypt -j hang --plugin-timeout 1s -o x f",
        "file decrypt -j hang --plugin-timeout 1s -o y f.age",
    ] {
        if line.contains("decrypt") {
            place.line("file encrypt -i key f").expect(0);
        }
        let run = run(line).expect(1);
        run.error_text("age-plugin-hang");
        run.error_text("said nothing for 1 seconds and was ended");
        let pid = String::from_utf8(place.read("pid")).expect("text");
        // Killed, it ends when it next has a CPU.
        let has_ended = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            state.is_err() || state.is_ok_and(|text| text.contains(") Z "))
        };
        let killed = Instant::now();
        while !has_ended() {
            assert!(killed.elapsed() < Duration::from_secs(10), "it goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(!place.exists("x") && !place.exists("y"));
}

#[test]
fn a_plugin_that_lies_is_an_error() {
    let (place, _) = place();
    place.write("f", b"plain");
    place.line("file encrypt -i key f").expect(0);
    std::fs::remove_file(place.path("f")).expect("removed");
    let answer = |lines: &str| format!("printf '{lines}'\ncat > /dev/null");
    let wrong_key = "-> file-key 0\\nAAAAAAAAAAAAAAAAAAAAAA\\n-> done\\n\\n";
    for script in [
        answer("nonsense\\n"),
        answer("-> ok\\n"),
        answer(wrong_key),
        "exit 1".to_owned(),
        "yes | head -c 100000".to_owned(),
    ] {
        let path = plugin(&place, "lies", &script);
        let run = with_path(&place, &path, "file decrypt -j lies --plugin-timeout 5s f.age");
        assert!([1, 3].contains(&run.code), "{script}: {} {}", run.code, run.stderr);
        assert!(!place.exists("f"), "{script}");
    }
    place.write("g", b"plain");
    for script in [answer("nonsense\\n"), answer("-> done\\n\\n"), "exit 0".to_owned()] {
        let path = plugin(&place, "lies", &script);
        let run = with_path(&place, &path, "file encrypt -j lies --plugin-timeout 5s g").expect(1);
        run.error_text("plugin");
        assert!(!place.exists("g.age"), "{script}");
    }
    place.line("file encrypt -j missing g").expect(1).error_text("age-plugin-missing");
}

/// Mounts a small tmpfs for as long as it lives.
struct Small<'a>(&'a Place);

impl<'a> Small<'a> {
    fn of(place: &'a Place, size: &str) -> Option<Small<'a>> {
        std::fs::create_dir(place.path("small")).expect("made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(place.path("small"));
        mount.status().is_ok_and(|status| status.success()).then_some(Small(place))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("small")).status();
    }
}

#[test]
fn a_full_disk_is_a_store_fault_and_leaves_nothing() {
    let (place, recipient) = place();
    let Some(_small) = Small::of(&place, "1M") else {
        return eprintln!("skipped: mounting needs root");
    };
    place.write("f", content(3 << 20));
    let entries = || std::fs::read_dir(place.path("small")).expect("listed").count();
    place.line(&format!("file encrypt -r {recipient} -o small/f.age f")).expect(7);
    assert_eq!(entries(), 0);
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    place.line("file decrypt -i key -o small/f f.age").expect(7);
    assert_eq!(entries(), 0);
    std::fs::create_dir(place.path("d")).expect("made");
    place.write("d/f", content(3 << 20));
    place.line(&format!("file encrypt -r {recipient} d")).expect(0);
    place.line("file decrypt -i key --extract small/d d.tar.age").expect(7);
    assert_eq!(entries(), 0);
}

#[test]
fn what_is_there_is_replaced_by_force_alone() {
    let (place, recipient, _) = encrypted();
    let before = place.read("f.age");
    place.line(&format!("file encrypt -r {recipient} f")).expect(2).error_text("it exists");
    assert!(place.read("f.age") == before);
    place.line("file decrypt -i key f.age").expect(2).error_text("it exists");
    place.line(&format!("file encrypt --force -r {recipient} f")).expect(0);
    assert!(place.read("f.age") != before);
    // Damage leaves what is there, by force too.
    flip(&place.path("f.age"), 100_000);
    place.line("file decrypt --force -i key f.age").expect(4);
    assert!(place.read("f") == content(PLAIN));
}

/// Runs the program on `f`, has `change` change that as soon as a megabyte of
/// the result is there, and gives how it ended.
fn changed_meanwhile(place: &Place, recipient: &str, change: impl FnOnce(&File)) -> Run {
    let input = File::options().write(true).create(true).truncate(true).open(place.path("f")).expect("made");
    input.set_len(1 << 30).expect("made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
    command.args(["file", "encrypt", "-r", recipient, "f"]).current_dir(place.path("."));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let until = Instant::now() + Duration::from_secs(20);
    // The result has no name yet.
    let begun = || {
        let opened = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        let mut results = opened.filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().ends_with(" (deleted)"))
        });
        results.any(|result| std::fs::metadata(result.path()).is_ok_and(|facts| facts.len() > 1 << 20))
    };
    while !begun() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    change(&input);
    finish(child.wait_with_output().expect("it ends"))
}

#[test]
fn an_input_that_changes_while_it_is_read_is_an_error() {
    let (place, recipient) = place();
    let written = |input: &File| input.write_all_at(b"changed", 0).expect("written");
    let longer = |input: &File| input.set_len((1 << 30) + 1).expect("longer");
    let shorter = |input: &File| input.set_len(1 << 29).expect("shorter");
    let changes: [&dyn Fn(&File); 3] = [&written, &longer, &shorter];
    for change in changes {
        let run = changed_meanwhile(&place, &recipient, change).expect(1);
        run.error_text("it changed while it was read");
        assert!(!place.exists("f.age"));
    }
}

#[test]
fn a_pipe_that_closes_is_told_and_a_device_is_written_to() {
    let (place, recipient, _) = encrypted();
    let line = "file decrypt -i key -o - f.age";
    let mut child =
        place.command(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    assert_ne!(child.wait_with_output().expect("it ends").status.code(), Some(0));
    let line = format!("file encrypt -r {recipient} -o -");
    let mut child =
        place.command(line.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    let mut input = child.stdin.take().expect("piped");
    std::thread::spawn(move || input.write_all(&content(200_000)));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    place.write("piped.age", output.stdout);
    place.line("file decrypt -i key piped.age").expect(0);
    assert!(place.read("piped") == content(200_000));
    place.line("file decrypt -i key -o /dev/null f.age").expect(0);
}
