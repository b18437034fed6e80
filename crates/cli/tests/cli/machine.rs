//! `doctor`, `status`, and how the command line itself is refused.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Place, Run, finish};

#[test]
fn doctor_reports_in_both_forms() {
    let place = Place::new();
    let document = place.line("doctor --json").document();
    let suites = document["suites"].as_array().expect("a list");
    assert!(suites.iter().any(|suite| suite["recommended"] == true && suite["available"] == true));
    let run = place.line("doctor");
    assert!(run.stdout.contains("fuse-device") && run.stdout.contains("xaes-256-gcm"), "{}", run.stdout);
    let missing =
        document["items"].as_array().expect("a list").iter().any(|item| item["verdict"] == "missing");
    assert_eq!(run.code, if missing { 6 } else { 0 });
}

#[test]
fn doctor_tries_a_store_and_leaves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("store")).expect("a directory");
    let document = place.line("doctor store --json").expect(0).document();
    assert_eq!((&document["suitable"], &document["left"]), (&true.into(), &Value::Null));
    let items = document["items"].as_array().expect("a list");
    let kept = |name: &str| items.iter().any(|item| item["name"] == name && item["kept"] == true);
    assert!(kept("locks") && kept("barriers"), "{document:#}");
    assert!(items.iter().all(|item| item["kept"] == item["consequence"].is_null()), "{document:#}");
    let text = place.line("doctor store").expect(0).stdout;
    assert!(text.contains("moving-directories") && text.contains("A vault can live here"), "{text}");
    assert_eq!(std::fs::read_dir(place.path("store")).expect("there").count(), 0);
}

#[test]
fn doctor_says_what_cannot_be_tried_and_locks_for_others() {
    let place = Place::new();
    place.write("file", "");
    for store in ["file", "absent"] {
        let error = place.line(&format!("doctor {store} --json"));
        assert_ne!(error.code, 0);
        error.error();
    }
    place.line("doctor --try-lock file").expect(0);
    let held = std::fs::File::open(place.path("file")).expect("there");
    held.lock().expect("locked");
    place.line("doctor --try-lock file").expect(5);
}

/// The signal has to come between two trials: the program is stopped once its
/// directory is there, and tried again when it was done by then.
#[test]
fn a_doctor_that_is_interrupted_leaves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("store")).expect("a directory");
    let entries = || std::fs::read_dir(place.path("store")).expect("there").count();
    let signal = |name: &str, pid: u32| {
        Command::new("kill").args([name, &pid.to_string()]).status().expect("kill");
    };
    for attempt in 0..40 {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_strongroom"));
        doctor.args(["doctor", "store", "--json"]).current_dir(place.path(""));
        doctor.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = doctor.spawn().expect("started");
        while entries() == 0 && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        for name in ["-STOP", if attempt % 2 == 0 { "-INT" } else { "-TERM" }, "-CONT"] {
            signal(name, child.id());
        }
        let run = finish(child.wait_with_output().expect("it ends by itself"));
        assert_eq!(entries(), 0, "nothing is left");
        if run.code != 0 {
            run.expect(1).error_text("interrupted");
            return;
        }
    }
    panic!("it was never asked between two trials");
}

#[test]
fn a_full_store_is_called_full_by_doctor() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts a small file system");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("store")).expect("a directory");
    let program = place.command(["doctor", "store", "--json"]);
    let mut small = Command::new("unshare");
    small.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=64k none store && exec \"$@\"", "sh"]);
    small.arg(program.get_program()).args(program.get_args());
    small.current_dir(place.path("")).stdin(Stdio::null()).env("LC_ALL", "C");
    let error = finish(small.output().expect("unshare")).expect(7).error();
    assert_eq!(error["kind"], "store");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("the store is full")), "{error}");
}

/// As in a container or `chroot` where nobody has mounted it.
#[test]
fn where_proc_is_not_mounted_that_is_said() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root hides /proc");
        return;
    }
    let place = Place::new().vault();
    std::fs::create_dir(place.path("empty")).expect("a directory");
    let lines = [
        "check v --password-file password",
        "info v",
        "init w --password-file password --recovery-out none",
        "mount v empty --password-file password",
        "umount empty",
        "status",
        "doctor empty",
    ];
    for line in lines {
        let program = place.command(line.split_whitespace());
        let mut hidden = Command::new("unshare");
        hidden.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]);
        hidden.arg(program.get_program()).args(program.get_args());
        hidden.current_dir(place.path("")).stdin(Stdio::null()).env("LC_ALL", "C");
        let run = finish(hidden.output().expect("unshare")).expect(6);
        run.error_text("/proc is not mounted");
        run.error_text("mount -t proc proc /proc");
    }
    assert!(!place.exists("w"), "nothing is begun");
}

#[test]
fn wrong_usage_is_code_2_in_both_forms() {
    let place = Place::new();
    for line in ["", "surplus", "init", "info", "key", "key remove v x", "check v --threads 0", "mount v"] {
        let run = place.line(line).expect(2);
        assert!(!run.stderr.is_empty() && run.stdout.is_empty(), "{line}");
        if !line.is_empty() && line != "key" {
            let error = place.line(&format!("{line} --json")).expect(2).error();
            assert_eq!(error["kind"], "usage", "{line}");
        }
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let place = Place::new();
    for line in ["--help", "init --help", "key add --help", "--version"] {
        let run = place.line(line).expect(0);
        assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{line}");
    }
    assert!(place.line("init --help").stdout.contains("Examples:"));
}

/// A mount of the vault `v` at `m`, which goes with the test.
struct Mounted<'a>(&'a Place);

impl Mounted<'_> {
    fn new(place: &Place) -> Mounted<'_> {
        std::fs::create_dir(place.path("m")).expect("a directory");
        place.line("mount v m --password-file password --log mount.log").expect(0);
        Mounted(place)
    }

    fn end(&self) -> Run {
        self.0.line("umount m")
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.end().code != 0 {
            self.0.line("umount m --abort");
        }
    }
}

#[test]
fn the_status_of_a_mount_is_valid_and_its_vault_in_use() {
    let place = Place::new().vault();
    let mounted = Mounted::new(&place);
    place.write("m/file", [1; 10_000]);
    let document = place.line("status m --json").expect(0).document();
    assert_eq!(document["mounts"].as_array().map(Vec::len), Some(1));
    let metrics = place.line("status m --prometheus").expect(0).stdout;
    assert!(metrics.contains("# TYPE strongroom_written_bytes_total counter"), "{metrics}");
    assert!(metrics.contains("m\"} 10000\n"), "{metrics}");
    place.line("status m --watch").expect(2).error_text("--watch needs a terminal");
    place.line("status m --watch --json").expect(2);
    let info = place.line("info v --json").expect(0).document();
    assert_eq!(info["in_use"]["pid"], document["mounts"][0]["pid"]);
    assert_eq!(info["sessions"][0]["state"], "open");
    for line in ["check v --password-file password", "key remove v 0 --password-file password"] {
        place.line(&format!("{line} --json")).expect(5).error();
    }
    place.line("mount v m --password-file password --json").expect(5).error();
    mounted.end().expect(0);
    let checked = place.line("check v --password-file password --json").expect(0).document();
    assert_eq!(checked["files"], 1);
}
