//! `file` and what is decided before anything is read or written: results that
//! would take each other's place or an input's, standard input for two
//! purposes, names, devices.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Stdio;

use crate::file::{content, place};
use crate::support::{Place, Run, finish};

fn names(place: &Place, directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(directory)).expect("listed").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn from(place: &Place, input: &str, line: &str) -> Run {
    let input = File::open(place.path(input)).expect("there");
    finish(place.command(line.split(' ')).stdin(input).output().expect("it runs"))
}

fn into(place: &Place, output: &str, line: &str) -> Run {
    let output = File::options().append(true).create(true).open(place.path(output)).expect("made");
    finish(place.command(line.split(' ')).stdout(output).output().expect("it runs"))
}

#[test]
fn results_that_would_replace_each_other_are_refused_before_the_first() {
    let (place, recipient) = place();
    for directory in ["a", "b", "out"] {
        std::fs::create_dir(place.path(directory)).expect("made");
    }
    place.write("a/x", b"one");
    place.write("b/x", b"two");
    place.write("c", b"three");
    symlink("out", place.path("way")).expect("a symlink");
    let encrypt = format!("file encrypt --force -r {recipient}");
    place
        .line(&format!("{encrypt} -o out c a/x b/x"))
        .expect(2)
        .error_text("a/x and b/x would both become this");
    place.line(&format!("{encrypt} -o way a/x a/x")).expect(2).error_text("would both become this");
    place.line(&format!("{encrypt} c ./c")).expect(2).error_text("c and ./c would both become this");
    assert_eq!(names(&place, "out"), Vec::<String>::new());
    // One that is there keeps all from being written, and so does one that is
    // no file.
    place.write("out/c.age", b"there");
    let plain = format!("file encrypt -r {recipient} -o out");
    place.line(&format!("{plain} a/x c")).expect(2).error_text("it exists");
    place.line(&format!("{plain} a/x missing")).expect(2).error_text("missing: No such file");
    std::fs::create_dir(place.path("out/x.age")).expect("made");
    place.line(&format!("{encrypt} -o out c a/x")).expect(2).error_text("it is a directory");
    assert_eq!(place.read("out/c.age"), b"there");
    assert_eq!(names(&place, "out"), ["c.age", "x.age"]);
}

#[test]
fn what_is_read_is_not_replaced() {
    let (place, recipient) = place();
    place.write("f", content(1000));
    std::fs::hard_link(place.path("f"), place.path("hard")).expect("linked");
    symlink("f", place.path("soft")).expect("a symlink");
    let encrypt = format!("file encrypt --force -r {recipient}");
    for name in ["f", "hard", "soft"] {
        place.line(&format!("{encrypt} -o {name} f")).expect(2).error_text("would replace f, which is read");
    }
    from(&place, "f", &format!("{encrypt} -o f")).expect(2).error_text("would replace -, which is read");
    into(&place, "f", &format!("{encrypt} -o - f")).expect(2).error_text("standard output is f");
    place.line("file encrypt --force -i key -o key f").expect(2).error_text("would replace -i key");
    place.line(&format!("{encrypt} f")).expect(0);
    place.line("file decrypt --force -i key -o key f.age").expect(2).error_text("would replace -i key");
    place.write("readers", &recipient);
    place
        .line("file encrypt --force -R readers -o readers f")
        .expect(2)
        .error_text("would replace -R readers");
    assert!(place.read("f") == content(1000) && place.read("readers") == recipient.as_bytes());
    place.line("key recipient key").expect(0);
}

#[test]
fn an_archive_does_not_stand_in_what_it_is_of_nor_is_it_removed_by_what_it_has() {
    let (place, recipient) = place();
    std::fs::create_dir_all(place.path("d/sub")).expect("made");
    place.write("d/f", b"plain");
    symlink("d/sub", place.path("way")).expect("a symlink");
    let encrypt = format!("file encrypt -r {recipient}");
    for name in ["d/x.age", "d/sub/x.age", "way/x.age", "d/sub", "way"] {
        place.line(&format!("{encrypt} -o {name} d")).expect(2).error_text("of which it is the archive");
    }
    into(&place, "d/x.age", &format!("{encrypt} -o - d")).expect(2).error_text("of which it is the archive");
    std::fs::remove_file(place.path("d/x.age")).expect("removed");
    place.line(&format!("{encrypt} d")).expect(0);
    std::fs::create_dir(place.path("in")).expect("made");
    std::fs::rename(place.path("d.tar.age"), place.path("in/d.tar.age")).expect("moved");
    let extract = "file decrypt -i key --force --extract in in/d.tar.age";
    place.line(extract).expect(2).error_text("in/d.tar.age stands in it, and would be removed");
    std::fs::rename(place.path("in/d.tar.age"), place.path("d.tar.age")).expect("moved");
    std::fs::copy(place.path("key"), place.path("in/key")).expect("copied");
    let extract = "file decrypt -i in/key --force --extract in d.tar.age";
    place.line(extract).expect(2).error_text("in/key stands in it");
    assert_eq!(names(&place, "in"), ["key"]);
    // The name of a directory that is called by none.
    let run = place.command(["file", "encrypt", "-r", &recipient, "-o", "../in", "."]);
    let run = finish({ run }.current_dir(place.path("d")).output().expect("it runs")).expect(0);
    assert_eq!(names(&place, "in"), ["d.tar.age", "key"], "{}", run.stderr);
}

#[test]
fn standard_input_is_for_one_purpose() {
    let (place, recipient) = place();
    place.write("f", b"plain");
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    for (line, what) in [
        ("file encrypt -R -".to_owned(), "for -R and for the input"),
        ("file encrypt -R - -".to_owned(), "for -R and for the input"),
        ("file encrypt -R - -R - f".to_owned(), "named twice, for -R"),
        (format!("file encrypt -r {recipient} - -"), "named twice, for the input"),
        (format!("file encrypt -r {recipient} - /dev/stdin"), "named twice, for the input"),
        ("file decrypt -i -".to_owned(), "for -i and for the input"),
        ("file decrypt -i - --password-file - f.age".to_owned(), "for -i and for --password-file"),
        ("file decrypt --password-fd 0 -".to_owned(), "for --password-fd and for the input"),
        ("file decrypt -i - -x new -".to_owned(), "for -i and for the input"),
        ("file mount -i - --password-fd 0 f.age there".to_owned(), "for -i and for --password-fd"),
    ] {
        std::fs::create_dir_all(place.path("there")).expect("made");
        // What is refused has read nothing.
        let input = File::open(place.path("key")).expect("there");
        let copy = input.try_clone().expect("a copy");
        let run = finish(place.command(line.split(' ')).stdin(copy).output().expect("it runs"));
        run.expect(2).error_text(what);
        assert_eq!(std::io::Seek::stream_position(&mut { input }).expect("told"), 0, "{line}");
    }
    assert_eq!(from(&place, "key", "file decrypt -i - -o - f.age").expect(0).stdout, "plain");
    place.line(&format!("file encrypt --force -r {recipient} f -")).expect(2).error_text("has no name");
}

#[test]
fn the_first_that_fails_is_the_last_and_says_what_is_done() {
    let (place, recipient) = place();
    for name in ["a", "b", "c"] {
        place.write(name, name);
        place.line(&format!("file encrypt -r {recipient} {name}")).expect(0);
        std::fs::remove_file(place.path(name)).expect("removed");
    }
    crate::support::flip(&place.path("b.age"), 190);
    let run = place.line("file decrypt -i key a.age b.age c.age").expect(4);
    run.error_text("b.age: ");
    run.error_text("1 of 3 files are done");
    assert!(place.exists("a") && !place.exists("b") && !place.exists("c"));
}

#[test]
fn odd_names_are_taken_and_shown_without_their_control_characters() {
    let (place, recipient) = place();
    let encrypt = ["file", "encrypt", "-r", &recipient];
    for name in ["-f", "a b", "n\nl\u{1b}[2J"] {
        place.write(name, b"plain");
        place.run(encrypt.iter().chain(&["--", name])).expect(0);
        let sealed = format!("{name}.age");
        let run = place.run(encrypt.iter().chain(&["--", name])).expect(2);
        assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
        std::fs::remove_file(place.path(name)).expect("removed");
        place.run(["file", "decrypt", "-i", "key", "--", &sealed]).expect(0);
        assert_eq!(place.read(name), b"plain");
    }
    let bytes = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe");
    let name: &std::ffi::OsStr = bytes;
    std::fs::write(place.path(".").join(name), b"plain").expect("written");
    let words = encrypt.iter().map(std::ffi::OsStr::new).chain([name]);
    let run = place.run(std::iter::once("--json".as_ref()).chain(words)).expect(0);
    assert_eq!(run.document()["files"][0]["plain_bytes"], 5);
    for name in [".age", "..age", "...age"] {
        place.write(name, b"x");
        place
            .line(&format!("file decrypt -i key {name}"))
            .expect(2)
            .error_text("nothing is left of its name");
    }
}

#[test]
fn devices_and_descriptors_are_written_to_and_tell_their_errors() {
    let (place, recipient) = place();
    place.write("f", content(100_000));
    let encrypt = format!("file encrypt -r {recipient}");
    place.line(&format!("{encrypt} f")).expect(0);
    let decrypt = "file decrypt -i key";
    place.line(&format!("{encrypt} -o /dev/full f")).expect(7).error_text("/dev/full: No space left");
    place.line(&format!("{decrypt} -o /dev/full f.age")).expect(7);
    place.line("file keygen -o /dev/full").expect(7);
    let full = |line: &str| {
        let full = File::options().write(true).open("/dev/full").expect("a device");
        finish(place.command(line.split(' ')).stdout(full).output().expect("it runs"))
    };
    full(&format!("{encrypt} -o - f")).expect(7).error_text("standard output: No space left");
    full(&format!("{encrypt} -a -o - f")).expect(7).error_text("standard output: No space left");
    full(&format!("{decrypt} -o - f.age")).expect(7);
    full("file keygen").expect(7);
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let run = place.line(&format!("{decrypt} -o {name} f.age")).expect(0);
        assert!(run.stdout.as_bytes() == content(100_000), "{name}");
        into(&place, "there", &format!("{decrypt} -o {name} f.age")).expect(0);
        assert!(place.read("there") == content(100_000), "{name}");
        std::fs::remove_file(place.path("there")).expect("removed");
    }
    place.line(&format!("{decrypt} -o . f")).expect(2).error_text("does not end in .age");
}

#[test]
fn files_without_a_length_are_read_to_their_end() {
    let (place, recipient) = place();
    let version = std::fs::read("/proc/version").expect("there");
    place.line(&format!("file encrypt -r {recipient} -o v.age /proc/version")).expect(0);
    assert!(place.line("file decrypt -i key -o - v.age").expect(0).stdout.as_bytes() == version);
    // So are FIFOs.
    let fifo = place.path("fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
    let line = format!("file encrypt -r {recipient} -o p.age fifo");
    let child = place.command(line.split(' ')).stderr(Stdio::piped()).spawn().expect("it runs");
    std::fs::write(&fifo, content(300_000)).expect("read");
    finish(child.wait_with_output().expect("it ends")).expect(0);
    assert!(place.line("file decrypt -i key -o - p.age").expect(0).stdout.as_bytes() == content(300_000));
    place.line("file decrypt -i key --range 0..5 fifo -o -").expect(2).error_text("of a regular file alone");
}

#[test]
fn a_part_of_a_file_has_bounds() {
    let (place, recipient) = place();
    place.write("f", content(100_000));
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    let part = |range: &str| place.line(&format!("file decrypt -i key --range {range} -o - f.age"));
    for (range, plain) in [
        ("5..9", 5..9),
        ("99999..", 99_999..100_000),
        ("99990..999999999", 99_990..100_000),
        ("100000..", 0..0),
        ("7..7", 0..0),
        ("..", 0..100_000),
    ] {
        assert!(part(range).expect(0).stdout.as_bytes() == &content(100_000)[plain], "{range}");
    }
    part("100001..").expect(2).error_text("it has 100000 plain bytes");
    for wrong in ["9..5", "-1..5", "1..18446744073709551616", "5"] {
        part(wrong).expect(2);
    }
    place.write("e", b"");
    place.line(&format!("file encrypt -r {recipient} e")).expect(0);
    assert_eq!(place.line("file decrypt -i key --range 0.. -o - e.age").expect(0).stdout, "");
}

#[test]
fn everything_can_be_inspected_and_is_no_age_file_or_is_one() {
    let (place, recipient) = place();
    place.write("f", content(70_000));
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    place.line(&format!("file encrypt -a -r {recipient} -o armored f")).expect(0);
    for run in [
        place.line("--json file inspect f.age").expect(0),
        from(&place, "f.age", "--json file inspect -").expect(0),
        place.line("--json file inspect armored").expect(0),
        from(&place, "armored", "--json file inspect /dev/stdin").expect(0),
    ] {
        assert_eq!(run.document()["plain_bytes"], 70_000);
    }
    place.write("empty", b"");
    let text = place.read("armored");
    place.write("cut", &text[..text.len() - 100]);
    for (name, code) in [("f", 4), ("empty", 4), ("cut", 4), ("/dev/null", 4), (".", 2), ("missing", 2)] {
        let run = place.line(&format!("--json file inspect {name}")).expect(code);
        run.error();
    }
}

#[test]
fn files_of_keys_may_come_from_other_systems_and_are_nobody_elses() {
    let (place, recipient) = place();
    place.write("f", b"plain");
    let crlf = |text: &str| format!("\u{feff}# a comment\r\n\r\n{}", text.replace('\n', "\r\n"));
    place.write("readers", crlf(&format!("{recipient}\n")));
    place.line("file encrypt -R readers f").expect(0);
    place.write("other", crlf(&String::from_utf8(place.read("key")).expect("text")));
    let set = |mode| {
        std::fs::set_permissions(place.path("other"), PermissionsExt::from_mode(mode)).expect("set");
    };
    set(0o600);
    let run = place.line("file decrypt -i other -o - f.age").expect(0);
    assert_eq!((&*run.stdout, &*run.stderr), ("plain", ""));
    set(0o640);
    place.line("file decrypt -i other -o - f.age").expect(0).error_text("others can read this secret key");
    // A mark before, junk, too long, the wrong half.
    place.write("wide", [0xff, 0xfe, b'a', 0]);
    place.line("file encrypt -R wide -o x f").expect(2).error_text("UTF-16");
    place.line("file decrypt -i /dev/zero -o x f.age").expect(2).error_text("too long for a file of keys");
    place.write("public", &recipient);
    place.line("file decrypt -i public -o x f.age").expect(2).error_text("a recipient, and no secret key");
    // Nobody else's from its first moment, and never written over.
    assert_eq!(place.path("key").metadata().expect("there").mode() & 0o777, 0o600);
    let before = place.read("key");
    place.line("file keygen -o key").expect(2).error_text("it exists");
    assert!(place.read("key") == before);
    let umask = into(&place, "shown", "file keygen").expect(0);
    umask.error_text("others can read");
}

#[test]
fn what_opens_a_file_is_said() {
    let (place, recipient) = place();
    place.write("f", b"plain");
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    place.line("file encrypt -p --password-file password -o p.age f").expect(0);
    place.line("file decrypt -i key -o - p.age").expect(3).error_text("with a passphrase, and keys alone");
    place.line("file decrypt -o - f.age").expect(3).error_text("no key was given");
    let run = place.line("file decrypt -o - p.age").expect(2);
    run.error_text("there is no terminal to ask on");
    run.error_text("Use --password-file");
    place.line("file decrypt -i key -r x f.age").expect(2).error_text("secret keys with -i");
    place.line("file decrypt -i key -a f.age").expect(2).error_text("recognized by itself");
    place.line(&format!("file encrypt -p -r {recipient} -o x f")).expect(2).error_text("cannot be used with");
    // A descriptor serves every key that is encrypted with what it has.
    for name in ["one", "two"] {
        place.line(&format!("file encrypt -p --password-file password -o {name} key")).expect(0);
    }
    let run = from(&place, "password", "file decrypt -i one -i two --password-fd 0 -o - f.age");
    assert_eq!(run.expect(0).stdout, "plain");
}
