//! Secrets and key files from wherever a shell has them: every command takes them alike, those that leave a
//! daemon behind included. Without /dev/fuse, or without the right to mount, there is nothing to test.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{PROGRAM, Place, STATE, assert_fails_with, assert_success, soon};

/// Runs a line in a shell, in which `$sr` is the program.
fn shell(place: &Place, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(place.directory.path());
    command.env("sr", PROGRAM).env("XDG_STATE_HOME", STATE);
    command.output().expect("bash")
}

/// A vault that opens with the files `password`, `key` and `recovery`, and with `second` and `key` together.
fn place() -> Place {
    let place = Place::new();
    let write = |name: &str, content: &[u8]| {
        std::fs::write(place.directory.path().join(name), content).expect("written");
    };
    write("second", b"battery staple\n");
    write("key", &support::noise(300, 7));
    let add = "$sr key add vault --password-file password --kdf-memory 8MiB --kdf-time 1";
    // What a vault opens with from now on comes from pipes, too.
    for new in [
        "--new-key-file <(cat key)",
        "--new-recovery-out recovery",
        "--new-key-file key --new-password-file <(cat second)",
    ] {
        assert_success(&shell(&place, &format!("{add} {new}")));
    }
    place
}

/// What opens the vault, and what is to be done beside it in the shell.
const OPENS: [&str; 15] = [
    "--password-file <(cat password)",
    "--password-file /dev/stdin <password",
    "--password-file - <password",
    "--password-file - < <(cat password)",
    "--password-file /dev/fd/9 9<password",
    "--password-file /dev/fd/9 9< <(sleep 0.2; cat password)",
    "--password-fd 9 9<password",
    "--password-fd 0 < <(cat password)",
    "--password-command 'cat password'",
    "--key-file <(cat key)",
    "--key-file - <key",
    "--key-file /dev/stdin < <(head -c 100 key; sleep 0.2; tail -c 200 key)",
    "--recovery-file <(cat recovery)",
    "--recovery-file - <recovery",
    "--key-file <(cat key) --password-file <(cat second)",
];

#[test]
fn every_command_takes_secrets_from_pipes_and_descriptors() {
    if !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = place();
    for opens in OPENS {
        assert_success(&shell(&place, &format!("$sr info vault {opens}")));
        let mounted = shell(&place, &format!("$sr mount vault plain --log log {opens}"));
        assert_success(&mounted);
        place.umount();
    }
    assert_success(&shell(&place, "$sr mount vault plain --log log -o password_fd=0 < <(cat password)"));
    place.umount();
    // Descriptors are no files that could be opened by their names: a socket, as programs hand them on.
    let socket = "import os, socket, subprocess, sys\n\
                  ours, theirs = socket.socketpair()\n\
                  ours.sendall(open('password', 'rb').read()); ours.close()\n\
                  line = [os.environ['sr'], 'mount', 'vault', 'plain', '--log', 'log', '--password-file', '/dev/stdin']\n\
                  sys.exit(subprocess.run(line, stdin=theirs).returncode)";
    assert_success(&shell(&place, &format!("python3 -c \"{socket}\"")));
    place.umount();
    assert_fails_with(&shell(&place, "$sr mount vault plain --password-file - <&-"), 2, "is empty");
    assert_fails_with(&shell(&place, "$sr mount vault plain --key-file /dev/fd/9"), 2, "is not open");
    assert_fails_with(&shell(&place, "$sr mount vault plain --key-file <(cat password)"), 3, "");
}

#[test]
fn a_slow_writer_is_waited_for() {
    if !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = Place::new();
    let line =
        "mkfifo f; (exec 8>f; sleep 6; cat password >&8) & $sr mount vault plain --log log --password-file f";
    assert_success(&shell(&place, line));
    place.umount();
}

/// What a process has open.
fn open_files(pid: rustix::process::Pid) -> Vec<PathBuf> {
    let directory = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let entries = std::fs::read_dir(directory).expect("it runs").flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

#[test]
fn a_daemon_keeps_nothing_of_its_callers_open() {
    if !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = Place::new();
    let line = "exec 9>lock; flock 9; $sr mount vault plain --log log --password-file password";
    assert_success(&shell(&place, line));
    let open = open_files(place.pid());
    let lock = place.directory.path().join("lock");
    assert!(!open.contains(&lock), "{open:?}");
    assert_success(&shell(&place, "flock --nonblock lock true"));
    place.umount();
}

/// Closes the disk, however the test ends.
struct Closing<'p>(&'p Place);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let _ = shell(self.0, "$sr disk close disk --force");
    }
}

#[test]
fn disks_take_them_too_and_parts_of_key_files() {
    let place = place();
    let cheap = "--kdf-memory 64KiB --kdf-time 4";
    let format = format!("$sr disk format disk --size 17MiB --yes {cheap} --password-file <(cat password)");
    assert_success(&shell(&place, &format));
    let add = format!("$sr disk key add disk {cheap} --password-file - --new-key-file <(cat key) <password");
    assert_success(&shell(&place, &add));
    let part = "<(head -c 17 /dev/zero; cat key key) --keyfile-offset 17 --keyfile-size 300";
    let _closing = Closing(&place);
    for opens in [
        "--password-file <(cat password)",
        "--password-file - <password",
        "--password-fd 9 9<password",
        "--key-file <(sleep 0.2; cat key)",
        "--key-file - <key",
        "--key-file /dev/stdin < <(cat key)",
        &format!("--key-file {part}"),
    ] {
        let opened = shell(&place, &format!("$sr disk open disk --nbd socket {opens}"));
        assert_success(&opened);
        soon("it is closed", || shell(&place, "$sr disk close disk").status.success());
        assert_success(&shell(
            &place,
            &format!("$sr disk key list disk && $sr disk open disk --nbd s2 {opens}"),
        ));
        soon("it is closed", || shell(&place, "$sr disk close disk").status.success());
    }
    assert_fails_with(&shell(&place, "$sr disk open disk --nbd socket --key-file <(cat password)"), 3, "");
    let short = "$sr disk open disk --nbd socket --key-file <(cat key) --keyfile-size 301";
    assert_fails_with(&shell(&place, short), 2, "not so long");
}
