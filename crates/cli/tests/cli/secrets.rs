//! Where secrets come from.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{CHEAP, Place, finish};

#[test]
fn every_source_of_a_password_opens_the_vault() {
    let place = Place::new().vault();
    place.write("bare", "correct horse");
    place.line("info v --password-file password").expect(0);
    place.line("info v --password-file bare").expect(0);
    place.run(["info", "v", "--password-command", "printf 'correct horse\\n'"]).expect(0);
    let mut stdin = place.command(["info", "v", "--password-fd", "0"]);
    stdin.stdin(File::open(place.path("password")).expect("a file"));
    finish(stdin.output().expect("run")).expect(0);
    let script = format!("exec {} info v --password-fd 7 7<password", env!("CARGO_BIN_EXE_strongroom"));
    let mut third = Command::new("bash");
    third.env("XDG_STATE_HOME", place.path(".state"));
    third.arg("-c").arg(script).current_dir(place.path("")).stdin(Stdio::null());
    finish(third.output().expect("bash")).expect(0);
}

#[test]
fn a_wrong_secret_is_code_3_and_says_nothing_of_it() {
    let place = Place::new().vault();
    place.write("wrong", "battery staple\n");
    place.write("two newlines", "correct horse\n\n");
    for file in ["wrong", "two newlines"] {
        let run = place.run(["info", "v", "--password-file", file, "--json"]).expect(3);
        let error = run.error();
        assert_eq!(error["kind"], "wrong-secret");
        assert!(!run.stderr.contains("battery"));
    }
    place.write("key", [7; 64]);
    let error = place.line("info v --key-file key --json").expect(3).error();
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("a password")), "{error}");
}

#[test]
fn impossible_secrets_are_refused_by_name() {
    let place = Place::new().vault();
    place.write("empty", "");
    place.write("newline", "\n");
    place.write("long", vec![b'x'; 5000]);
    for line in [
        "info v --password-file empty",
        "info v --password-file newline",
        "info v --password-file long",
        "info v --password-file missing",
        "info v --password-command true",
        "info v --password-fd 55",
        "key add v --password-file password --new-key-file empty",
        "key add v --password-file password --new-key-file /dev/zero",
        "info v --password-fd x",
        "info v --recovery-file password --key-file long",
    ] {
        place.line(&format!("{line} --json")).expect(2).error();
    }
    place.line("info v --password-command false --json").expect(1).error();
    place.write("mistyped", "0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-Y06Q");
    place.line("info v --recovery-file mistyped --json").expect(3).error();
}

#[test]
fn an_empty_password_makes_no_vault() {
    let place = Place::new();
    place.write("empty", "\n");
    let words = ["init", "v", "--password-file", "empty", "--recovery-out", "none"];
    place.run(words.iter().chain(&CHEAP)).expect(2);
    assert!(!place.exists("v"));
}

#[test]
fn without_a_terminal_the_options_are_named() {
    let place = Place::new().vault();
    let init = ["init", "w", "--recovery-out", "none", "--json"];
    let lines: [&[&str]; 4] = [
        &init,
        &["key", "add", "v", "--json"],
        &["check", "v", "--json"],
        &["key", "remove", "v", "0", "--json"],
    ];
    for words in lines {
        let error = place.run(words).expect(2).error();
        let hint = error["hint"].as_str().expect("a hint");
        for option in
            ["--password-file", "--password-fd", "--password-command", "--key-file", "--recovery-file"]
        {
            assert!(hint.contains(option), "{hint}");
        }
    }
    assert!(!place.exists("w"));
}

/// What a terminal has shown, as it comes.
struct Shown {
    text: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Shown {
    fn of(mut terminal: std::process::ChildStdout) -> Shown {
        let text = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = std::io::Read::read(&mut terminal, &mut bytes) {
                shown.lock().expect("nobody panics with it").extend_from_slice(&bytes[..len]);
            }
        });
        Shown { text, reader }
    }

    /// A prompt ends with a colon and a space, and nothing else here does.
    fn wait_for_prompts(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.text.lock().expect("nobody panics with it").windows(2).filter(|two| two == b": ").count()
            < count
        {
            assert!(Instant::now() < until, "it asks for no line {count}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All of it, once nobody has the terminal open.
    fn until_the_end(self) -> Vec<u8> {
        self.reader.join().expect("it reads");
        std::mem::take(&mut self.text.lock().expect("nobody panics with it"))
    }
}

#[test]
fn a_terminal_is_asked_twice_for_a_new_password_and_once_for_an_old_one() {
    let place = Place::new();
    let typed = |words: &str, lines: &str| {
        let mut command = Command::new("script");
        let line = format!("{} {words}", env!("CARGO_BIN_EXE_strongroom"));
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(place.path(""));
        command.env("XDG_STATE_HOME", place.path(".state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("script, of the package bsdutils");
        let shown = Shown::of(child.stdout.take().expect("piped"));
        let mut stdin = child.stdin.take().expect("piped");
        for (index, line) in lines.split_inclusive('\n').enumerate() {
            shown.wait_for_prompts(index + 1);
            std::io::Write::write_all(&mut stdin, line.as_bytes()).expect("typed");
        }
        let stdout = shown.until_the_end();
        drop(stdin);
        finish(std::process::Output { stdout, ..child.wait_with_output().expect("ended") })
    };
    let cheap = CHEAP.join(" ");
    let run = typed(&format!("init v --recovery-out none {cheap}"), "one\nother\nsecret\nsecret\n").expect(0);
    assert!(run.stdout.contains("once more") && run.stdout.contains("differ"), "{}", run.stdout);
    assert!(!run.stdout.contains("secret"), "the password is not shown");
    let run = typed("check v", "secret\n").expect(0);
    assert!(!run.stdout.contains("once more"));
    typed("check v", "one\n").expect(3);
    let run = typed(&format!("init w {cheap}"), "secret\nsecret\n");
    let run = run.expect(0);
    assert!(run.stdout.contains("recovery key, shown this once"), "{}", run.stdout);
}
