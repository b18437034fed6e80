//! `file` and questions: of plugins, of encrypted keys and files. They are put
//! to the terminal and never to standard input, stand there undisturbed, and
//! without a terminal are refused by name.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::file::{content, place, plugin, with_path};
use crate::support::{Place, Run, finish};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/programs");

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: there is no python3 here");
    }
    found
}

/// A directory with the plugin that asks.
fn asking(place: &Place) -> std::path::PathBuf {
    let path = plugin(place, "asks", "");
    let script = std::fs::read(Path::new(PROGRAMS).join("age-plugin-asks")).expect("there");
    std::fs::write(path.join("age-plugin-asks"), script).expect("written");
    path
}

/// Runs the program at a terminal, with `input` as standard input, and types
/// the answers. What it showed is in the run's standard output.
fn at_terminal(place: &Place, asks: &str, input: &str, answers: &[&str], line: &str) -> Run {
    // As a shell starts it, whatever whoever runs the tests ignores.
    let mut command = Command::new("env");
    command
        .args(["--default-signal", "python3"])
        .arg(Path::new(PROGRAMS).join("terminal.py"))
        .arg(input)
        .args(answers)
        .arg("--");
    command.arg(env!("CARGO_BIN_EXE_strongroom")).args(line.split(' ')).current_dir(place.path("."));
    let path = format!("{}:{}", place.path("plugins").display(), std::env::var("PATH").expect("a PATH"));
    command.env("PATH", path).env("ASKS", asks).env("LC_ALL", "C").env("TERM", "xterm");
    finish(command.stdin(Stdio::null()).output().expect("it runs"))
}

#[test]
fn plugins_ask_on_the_terminal_and_not_out_of_the_data() {
    if !has_python() {
        return;
    }
    let (place, _) = place();
    asking(&place);
    // A line of the data would be an answer.
    place.write("f", [b"1234\nme\ny\n".to_vec(), content(100_000)].concat());
    let asks = "message,secret,public,confirm";
    let answers = ["PIN\\u{1b}[2J: ", "1234", "Name: ", "me", "Touch it?", "y"];
    let run = at_terminal(&place, asks, "f", &answers, "file encrypt -j asks -o f.age").expect(0);
    for text in ["strongroom: one", "strongroom: two\\u{1b}[2J"] {
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
    assert!(!run.stdout.contains("1234"), "a secret is not shown: {}", run.stdout);
    let line = "file decrypt -j asks -o -";
    at_terminal(&place, asks, "f.age", &answers, line).expect(0);
    assert!(place.read("out") == place.read("f"));
    at_terminal(&place, "secret", "f.age", &["PIN\\u{1b}[2J: ", "4321"], line).expect(1);
}

#[test]
fn without_a_terminal_a_plugins_question_is_refused_by_name() {
    if !has_python() {
        return;
    }
    let (place, _) = place();
    let path = asking(&place);
    place.write("f", b"1234\nme\ny\n");
    place.write("key", b"");
    for (asks, question) in [("secret", "PIN\\u{1b}[2J"), ("public", "Name"), ("confirm", "Touch it?")] {
        let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
        let mut command = place.command("file encrypt -j asks -o f.age -".split(' '));
        command.env("PATH", search).env("ASKS", asks);
        let input = std::fs::File::open(place.path("f")).expect("there");
        let run = finish(command.stdin(input).output().expect("it runs")).expect(1);
        run.error_text(&format!("it asked `{question}`, and had no answer"));
        run.error_text("there is no terminal to ask on");
        assert!(!place.exists("f.age") && !run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
    }
}

#[test]
fn what_plugins_say_is_shown_without_its_control_characters() {
    if !has_python() {
        return;
    }
    let (place, _) = place();
    let path = asking(&place);
    place.write("f", b"plain");
    let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = place.command("file encrypt -j asks f".split(' '));
    let output = command.env("PATH", search).env("ASKS", "message,error").output().expect("it runs");
    let run = finish(output).expect(1);
    run.error_text("it is\\u{1b}[2J broken badly");
    assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
}

#[test]
fn a_passphrase_is_asked_for_once_and_nothing_is_drawn_over_it() {
    if !has_python() {
        return;
    }
    let (place, _) = place();
    for name in ["one", "two"] {
        place.write(name, content(1 << 20));
    }
    // What is asked for twice stands as it was typed first.
    let typed = |second| ["Passphrase: ", "horse", "Passphrase, once more: ", second];
    let answers = [typed("cow"), typed("horse")].concat();
    at_terminal(&place, "", "-", &answers, "file encrypt -p one two").expect(0);
    for name in ["one", "two"] {
        std::fs::remove_file(place.path(name)).expect("removed");
    }
    let run =
        at_terminal(&place, "", "-", &["Passphrase: ", "horse"], "file decrypt one.age two.age").expect(0);
    assert_eq!(run.stdout.matches("Passphrase").count(), 1, "{}", run.stdout);
    assert!(place.read("two") == content(1 << 20));
    // Where standard input is the data, too.
    at_terminal(&place, "", "one.age", &["Passphrase: ", "horse"], "file decrypt -o -").expect(0);
    assert!(place.read("out") == content(1 << 20));
    at_terminal(&place, "", "one.age", &["Passphrase: ", ""], "file decrypt -o -").expect(2);
}

#[test]
fn the_echo_comes_back_when_a_question_is_ended() {
    if !has_python() {
        return;
    }
    let (place, _) = place();
    place.write("f", b"plain");
    let run = at_terminal(&place, "", "-", &["Passphrase: ", "^C"], "file encrypt -p f").expect(130);
    assert!(!run.stdout.contains("no echo"), "{}", run.stdout);
    assert!(!place.exists("f.age"));
}

#[test]
fn what_a_plugin_leaves_does_not_hold_up_what_is_done() {
    let (place, _) = place();
    place.write("f", b"plain");
    place.line("file encrypt -i key f").expect(0);
    // It opens nothing, says so, and leaves a child that holds its pipe.
    let script = "sed '/^-> done/q' >/dev/null\nprintf -- '-> done\\n\\n'\nsleep 600 &\nexit 0";
    let path = plugin(&place, "leaves", script);
    let line = "file decrypt -j leaves -i key -o - f.age";
    assert_eq!(with_path(&place, &path, line).expect(0).stdout, "plain");
    // One that cannot be run is named, and is no wrong key.
    std::fs::write(path.join("age-plugin-broken"), "#!/nowhere/at/all\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path.join("age-plugin-broken"), mode).expect("set");
    let run = with_path(&place, &path, "file decrypt -j broken -o - f.age").expect(1);
    run.error_text("age-plugin-broken: its program could not be run");
    let run = place.line("file decrypt -j nowhere -o - f.age").expect(1);
    run.error_text("there is no `age-plugin-nowhere` on the PATH");
    place.line("file decrypt -j ../x -o - f.age").expect(1).error_text("is no plugin's name");
}

/// As in a container: the leader of the session is outside, and its number 0.
#[test]
fn a_plugin_is_settled_where_the_session_has_no_number() {
    let (place, _) = place();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes a namespace of processes");
        return;
    }
    place.write("f", b"plain");
    place.line("file encrypt -i key f").expect(0);
    let path = plugin(&place, "done", "sed '/^-> done/q' >/dev/null\nprintf -- '-> done\\n\\n'");
    let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
    let program = place.command(["file", "decrypt", "-j", "done", "-i", "key", "-o", "-", "f.age"]);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).args(program.get_args().skip(1));
    command.current_dir(place.path("")).env("PATH", search).stdin(Stdio::null());
    assert_eq!(finish(command.output().expect("it runs")).expect(0).stdout, "plain");
}

#[test]
fn a_plugin_whose_child_holds_the_pipe_is_ended_in_time() {
    let (place, _) = place();
    place.write("f", b"plain");
    // It ends when the child is there, and not before.
    let script = "setsid sh -c 'echo $$ > \"$PIDS\"; exec sleep 600' &
        while [ ! -s \"$PIDS\" ]; do sleep 0.01; done
        exit 0";
    let path = plugin(&place, "gone", script);
    let search = format!("{}:{}", path.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = place.command("file encrypt -j gone --plugin-timeout 2s f".split(' '));
    command.env("PATH", search).env("PIDS", place.path("pid"));
    let run = finish(command.output().expect("it runs")).expect(1);
    run.error_text("age-plugin-gone");
    let pid = String::from_utf8(place.read("pid")).expect("text");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    assert!(!stat.is_ok_and(|stat| !stat.contains(") Z ")), "it goes on");
}
