//! `file`: what age's users type, directories, identities of all kinds.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, Run, finish};

/// The text of a file of this length, of which no chunk is like another.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 89) as u8 + b' ').collect()
}

/// A place with the secret key `key`, and its recipient.
pub(crate) fn place() -> (Place, String) {
    let place = Place::new();
    place.line("file keygen -o key").expect(0);
    let recipient = place.line("key recipient key").expect(0).stdout.trim().to_owned();
    assert!(recipient.starts_with("age1"), "{recipient}");
    (place, recipient)
}

/// A directory with a program of this name, which is the text for a shell.
pub(crate) fn plugin(place: &Place, name: &str, script: &str) -> PathBuf {
    let directory = place.path("plugins");
    std::fs::create_dir_all(&directory).expect("made");
    let path = directory.join(format!("age-plugin-{name}"));
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    directory
}

pub(crate) fn with_path(place: &Place, directory: &Path, line: &str) -> Run {
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").expect("a PATH"));
    finish(place.command(line.split_whitespace()).env("PATH", path).output().expect("it runs"))
}

#[test]
fn the_short_forms_are_those_of_age() {
    let (place, recipient) = place();
    place.write("f", content(200_000));
    place.line(&format!("file -e -r {recipient} -a -o f.txt f")).expect(0);
    assert!(place.read("f.txt").starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----\n"));
    place.line("file -d -i key -o g f.txt").expect(0);
    assert!(place.read("g") == content(200_000));
    place.write("readers", format!("# one\n{recipient}\n"));
    place.line("file -e -R readers -o h f").expect(0);
    assert!(place.line("file -d -i key -o - h").expect(0).stdout.into_bytes() == content(200_000));
    place.line("file -e -p --password-file password -o s f").expect(0);
    place.line("file -d --password-file password --force -o g s").expect(0);
    assert!(place.read("g") == content(200_000));
    let run = place.line("--json file -d -i key --force f.txt h").expect(2);
    run.error_text("does not end in .age");
}

#[test]
fn standard_output_that_the_shell_has_made_is_what_is_meant() {
    let (place, recipient) = place();
    place.write("f", content(100_000));
    let into = |line: &str, name: &str| {
        let made = std::fs::File::create(place.path(name)).expect("made");
        finish(place.command(line.split_whitespace()).stdout(made).output().expect("it runs"))
    };
    into(&format!("file -e -r {recipient} f"), "f.age").expect(0);
    std::fs::remove_file(place.path("f")).expect("removed");
    into("file -d -i key f.age", "f").expect(0);
    assert!(place.read("f") == content(100_000));
    // Another file stays empty, which is told, and what is there stays.
    into("file -d -i key f.age", "other").expect(2).error_text("not on standard output");
    into("file -d -i key -o - f.age", "other").expect(0);
    assert!(place.read("other") == content(100_000));
}

#[test]
fn what_is_replaced_hands_on_its_mode_and_symlinks_stay() {
    let (place, recipient) = place();
    place.write("f", content(1000));
    place.write("there", b"old");
    std::fs::set_permissions(place.path("there"), std::fs::Permissions::from_mode(0o604)).expect("set");
    symlink("there", place.path("link")).expect("a symlink");
    place.line(&format!("file encrypt -r {recipient} -o link f")).expect(2).error_text("it exists");
    place.line(&format!("file encrypt -r {recipient} --force -o link f")).expect(0);
    assert!(place.path("link").symlink_metadata().expect("there").is_symlink());
    assert_eq!(place.path("there").metadata().expect("there").mode() & 0o777, 0o604);
    assert!(place.line("file decrypt -i key -o - there").expect(0).stdout.into_bytes() == content(1000));
    // A name as long as names may be.
    let long = "n".repeat(251);
    place.write(&long, b"plain");
    place.line(&format!("file encrypt -r {recipient} {long}")).expect(0);
    assert!(place.exists(&format!("{long}.age")));
}

#[test]
fn ssh_keys_of_other_kinds_in_a_list_are_passed_over() {
    let place = Place::new();
    place.write("f", b"plain");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ecdsa", "-N", "", "-f", "other"]).current_dir(place.path("."));
    let Ok(made) = keygen.status() else { return eprintln!("skipped: there is no ssh-keygen here") };
    assert!(made.success());
    place.line("file keygen -o key").expect(0);
    let recipient = place.line("key recipient key").expect(0).stdout;
    let other = String::from_utf8(place.read("other.pub")).expect("text");
    place.write("list", format!("{other}{recipient}"));
    let run = place.line("file encrypt -R list f").expect(0);
    run.error_text("line 1: an SSH key of the kind ecdsa-sha2-nistp256 cannot be used");
    assert_eq!(place.line("file decrypt -i key -o - f.age").expect(0).stdout, "plain");
    place.write("list", other);
    place.line("file encrypt --force -R list f").expect(2).error_text("nobody is named");
    place.write("list", "ecdsa-sha2-nistp256 AAAA\n");
    place.line("file encrypt --force -R list f").expect(2).error_text("is no recipient");
}

#[test]
fn several_files_are_encrypted_in_one_call() {
    let (place, recipient) = place();
    for name in ["one", "two", "three"] {
        place.write(name, name.repeat(1000));
    }
    let run = place.line(&format!("--json file encrypt -r {recipient} one two three")).expect(0);
    assert_eq!(run.document()["files"].as_array().map(Vec::len), Some(3));
    std::fs::create_dir(place.path("out")).expect("made");
    place.line("file decrypt -i key -o out one.age two.age three.age").expect(0);
    assert_eq!(place.read("out/two"), "two".repeat(1000).into_bytes());
    place.line(&format!("file encrypt -r {recipient} one two")).expect(2).error_text("it exists");
}

#[test]
fn a_directory_is_one_archive_and_comes_back() {
    let (place, recipient) = place();
    std::fs::create_dir_all(place.path("d/sub")).expect("made");
    place.write("d/a", content(100_000));
    place.write("d/sub/b", b"small");
    std::fs::hard_link(place.path("d/a"), place.path("d/sub/linked")).expect("linked");
    symlink("../a", place.path("d/sub/near")).expect("a symlink");
    let _socket = std::os::unix::net::UnixListener::bind(place.path("d/socket")).expect("a socket");
    let run = place.line(&format!("file encrypt -r {recipient} d")).expect(0);
    run.error_text("a socket was left out");
    std::fs::remove_file(place.path("d/socket")).expect("removed");
    place.line("file decrypt -i key --extract back d.tar.age").expect(0);
    assert_eq!(place.tree("back/d"), place.tree("d"));
    let facts = std::fs::metadata(place.path("back/d/sub/linked")).expect("there");
    assert_eq!(facts.nlink(), 2);
    // What is there stays, unless it is empty or may be replaced.
    place.line("file decrypt -i key --extract back d.tar.age").expect(2).error_text("it exists");
    std::fs::create_dir(place.path("empty")).expect("made");
    place.line("file decrypt -i key --extract empty d.tar.age").expect(0);
    place.write("back/more", b"goes");
    place.line("file decrypt -i key --force --extract back d.tar.age").expect(0);
    assert!(!place.exists("back/more") && place.exists("back/d/a"));
    // Any age program and tar read it.
    place.line("file decrypt -i key d.tar.age").expect(0);
    let listed = Command::new("tar").arg("-tf").arg(place.path("d.tar")).output().expect("tar runs");
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 6);
    // A file that is no archive.
    place.write("f", content(5000));
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    place.line("file decrypt -i key --extract no f.age").expect(1).error_text("no whole tar archive");
    assert!(!place.exists("no"));
    let left = std::fs::read_dir(place.path(".")).expect("listed").flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().contains(".part")));
}

#[test]
fn an_archive_that_leaves_its_directory_is_damage() {
    let (place, recipient) = place();
    place.write("evil", b"x");
    let words = ["-cPf", "evil.tar", "--transform=s,^,../,", "evil"];
    let made = Command::new("tar").args(words).current_dir(place.path(".")).status().expect("tar runs");
    assert!(made.success());
    place.line(&format!("file encrypt -r {recipient} evil.tar")).expect(0);
    std::fs::remove_file(place.path("evil")).expect("removed");
    place
        .line("file decrypt -i key --extract to evil.tar.age")
        .expect(4)
        .error_text("outside of the directory");
    assert!(!place.exists("evil") && !place.exists("to"));
}

#[test]
fn an_identity_may_be_encrypted_with_a_passphrase() {
    let (place, recipient) = place();
    place.write("f", b"plain");
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    for (name, armor) in [("key.age", ""), ("key.txt", "-a")] {
        place.line(&format!("file encrypt -p --password-file password {armor} -o {name} key")).expect(0);
        let line = format!("file decrypt -i {name} --password-file password -o - f.age");
        assert_eq!(place.line(&line).expect(0).stdout, "plain");
    }
    place.line("file encrypt -i key.age --password-file password -o g f").expect(0);
    assert_eq!(place.line("file decrypt -i key -o - g").expect(0).stdout, "plain");
    place.write("wrong", "no horse\n");
    place.line("file decrypt -i key.age --password-file wrong -o - f.age").expect(3);
    place.line("file decrypt -i key.age -o - f.age").expect(2);
}

#[test]
fn recipients_of_identities_are_printed() {
    let place = Place::new();
    place.line("file keygen --pq -o key").expect(0);
    let run = place.line("--json key recipient key").expect(0);
    let document = run.document();
    let recipient = document["recipients"][0].as_str().expect("text");
    assert!(recipient.starts_with("age1pq1"));
    assert_eq!(place.line("file keygen -y key").expect(0).stdout.trim(), recipient);
    place.write("f", b"plain");
    place.line(&format!("file encrypt -r {recipient} f")).expect(0);
    assert_eq!(place.line("file decrypt -i key -o - f.age").expect(0).stdout, "plain");
    // As age-keygen has it.
    place.line("file keygen -pq -o other").expect(0);
    let other = place.line("file keygen -y other").expect(0).stdout;
    assert!(other.starts_with("age1pq1"), "{other}");
    place.line("key recipient password").expect(2).error_text("line 1 is no secret key");
}

#[test]
fn ssh_keys_open_files() {
    let place = Place::new();
    place.write("f", b"plain");
    for (kind, words) in [("ed25519", &["-t", "ed25519"][..]), ("rsa", &["-t", "rsa", "-b", "2048"])] {
        let name = format!("id_{kind}");
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(words).args(["-q", "-N", "", "-f", &name]).current_dir(place.path("."));
        let Ok(made) = keygen.status() else { return eprintln!("skipped: there is no ssh-keygen here") };
        assert!(made.success());
        place.line(&format!("file encrypt -R {name}.pub -o {name}.age f")).expect(0);
        assert_eq!(place.line(&format!("file decrypt -i {name} -o - {name}.age")).expect(0).stdout, "plain");
        // For the owner of the secret key, as age's -e -i takes it.
        place.line(&format!("file -e -i {name} -o {name}.own f")).expect(0);
        assert_eq!(place.line(&format!("file -d -i {name} -o - {name}.own")).expect(0).stdout, "plain");
        let public = std::fs::read_to_string(place.path(&format!("{name}.pub"))).expect("a file");
        let printed = place.line(&format!("file keygen -y {name}")).expect(0).stdout;
        assert!(public.starts_with(printed.trim()), "{printed}");
    }
    for (kind, words) in [("ed25519", &["-t", "ed25519"][..]), ("rsa", &["-t", "rsa", "-b", "2048"])] {
        let name = format!("locked_{kind}");
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(words).args(["-q", "-N", "horse", "-f", &name]).current_dir(place.path("."));
        assert!(keygen.status().expect("it ran before").success());
        // The public half stands in the clear: no passphrase is asked for.
        place.line(&format!("file -e -i {name} -o {name}.age f")).expect(0);
    }
    place.line("file decrypt -i id_rsa -o - id_ed25519.age").expect(3);
}
