//! `file` and signals: nothing is left of what was not whole, what was there
//! stays, and the program dies of the signal.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::file::{content, place, plugin};
use crate::support::Place;

/// Longest wait for what should happen soon.
const SOON: Duration = Duration::from_secs(60);

#[track_caller]
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "not soon: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whoever runs the tests may ignore signals (`nohup`, a job in the background),
/// and what is started would inherit that.
fn started(place: &Place, line: &str) -> Child {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_strongroom")]);
    command.args(line.split(' ')).current_dir(place.path(".")).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("ours");
}

fn names(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(".")).expect("listed").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A place with an encrypted tree whose first directory forbids to be emptied.
fn with_tree() -> (Place, Vec<u8>) {
    let (place, recipient) = place();
    std::fs::create_dir_all(place.path("tree/a/b")).expect("made");
    place.write("tree/a/b/f", content(1000));
    place.write("tree/c", content(4 << 20));
    std::fs::set_permissions(place.path("tree/a/b"), std::os::unix::fs::PermissionsExt::from_mode(0o500))
        .expect("set");
    place.line(&format!("file encrypt -r {recipient} tree")).expect(0);
    let sealed = place.read("tree.tar.age");
    (place, sealed)
}

/// What is unpacked, under its temporary name.
fn part(place: &Place) -> Option<String> {
    names(place).into_iter().find(|name| name.starts_with(".new.") && name.ends_with(".part"))
}

#[test]
fn a_signal_removes_a_directory_that_is_unpacked_and_keeps_what_was_there() {
    let (place, sealed) = with_tree();
    for (signal, is_there) in
        [(Signal::INT, false), (Signal::TERM, true), (Signal::HUP, false), (Signal::QUIT, true)]
    {
        if is_there {
            std::fs::create_dir_all(place.path("new/old")).expect("made");
        }
        let before = names(&place);
        let mut child = started(&place, "file decrypt -i key --force --extract new -");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&sealed[..3 << 20]).expect("read");
        // It waits for the rest.
        let at = |name: &str| place.path(&part(&place).unwrap_or_default()).join(name).exists();
        soon("a part is unpacked", || at("tree/c"));
        send(&child, signal);
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert_eq!(names(&place), before, "{signal:?}");
        assert_eq!(place.exists("new/old"), is_there);
        let _ = std::fs::remove_dir_all(place.path("new"));
        drop(input);
    }
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored() {
    let (place, sealed) = with_tree();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" file decrypt -i key --extract new -"]);
    command.arg(env!("CARGO_BIN_EXE_strongroom")).current_dir(place.path("."));
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&sealed[..2 << 20]).expect("read");
    soon("a part is unpacked", || part(&place).is_some());
    send(&child, Signal::HUP);
    input.write_all(&sealed[2 << 20..]).expect("read");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(place.tree("new/tree"), place.tree("tree"));
}

#[test]
fn a_signal_ends_a_plugin_with_all_that_it_has_started() {
    let (place, _) = place();
    place.write("f", b"plain");
    // A child in a session of its own, whose parent is gone, and that holds the
    // pipes.
    let script = "setsid sh -c 'echo $$ > \"$PIDS/orphan\"; exec sleep 600' &\n\
                  echo $$ > \"$PIDS/plugin\"\nexec sleep 600";
    let path = plugin(&place, "stays", script);
    std::fs::create_dir(place.path("pids")).expect("made");
    let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
    command.args(["file", "encrypt", "-j", "stays", "f"]).current_dir(place.path("."));
    command.env("PATH", search).env("PIDS", place.path("pids"));
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let pid = |name: &str| {
        let text = std::fs::read_to_string(place.path("pids").join(name)).unwrap_or_default();
        text.trim().parse::<u32>().ok()
    };
    soon("they run", || pid("orphan").is_some() && pid("plugin").is_some());
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("it ends").signal(), Some(Signal::TERM.as_raw()));
    for name in ["orphan", "plugin"] {
        let stat = format!("/proc/{}/stat", pid(name).expect("told"));
        let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        soon("it is killed", || !runs());
    }
    assert!(!place.exists("f.age"));
}

#[test]
fn a_result_in_a_pipe_or_without_a_name_leaves_nothing() {
    let (place, recipient) = place();
    let before = names(&place);
    for line in [format!("file encrypt -r {recipient} -o x"), format!("file encrypt -a -r {recipient} -o -")]
    {
        let mut child = started(&place, &line);
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&content(2 << 20)).expect("read");
        send(&child, Signal::INT);
        assert_eq!(child.wait().expect("it ends").signal(), Some(Signal::INT.as_raw()));
        assert_eq!(names(&place), before);
    }
}

#[test]
fn a_tree_that_cannot_be_unpacked_leaves_nothing() {
    let (place, recipient) = place();
    // What it has is removed whatever its directories forbid.
    let directory = place.path("d/deep");
    std::fs::create_dir_all(&directory).expect("made");
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o500)).expect("set");
    let sealed = |name: &str, bytes: &[u8]| {
        place.write(name, bytes);
        place.line(&format!("file encrypt --force -r {recipient} {name}")).expect(0);
    };
    let tar = Command::new("tar").args(["-cf", "-", "d"]).current_dir(place.path(".")).output();
    let tar = tar.expect("tar runs").stdout;
    std::fs::remove_dir_all(place.path("d")).expect("removed");
    sealed("t", &tar[..tar.len() - 9000]);
    let before = names(&place);
    place.line("file decrypt -i key --extract new t.age").expect(1).error_text("no whole tar archive");
    assert_eq!(names(&place), before);
}
