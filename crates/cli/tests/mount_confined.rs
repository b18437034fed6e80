//! What is forbidden to the daemon, as the kernel and as `status` tell it.

use std::fs;
use std::process::Command;

use serde_json::json;
use support::{PROGRAM, Place, assert_success, run};

mod support;

/// A field of every thread of a process.
fn threads(process: u32, field: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let values: Vec<String> = tasks
        .filter_map(|task| fs::read_to_string(task.expect("a thread").path().join("status")).ok())
        .map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.expect(field).trim_start_matches(':').trim().to_owned()
        })
        .collect();
    assert!(!values.is_empty());
    values
}

/// CAP_SYS_MODULE and CAP_SYS_PTRACE, which no daemon needs.
const NEVER: u64 = 1 << 16 | 1 << 19;

fn has_dangerous_capabilities(process: u32) -> bool {
    let sets = threads(process, "CapPrm");
    sets.iter().any(|set| u64::from_str_radix(set, 16).expect("hexadecimal") & NEVER != 0)
}

#[test]
fn every_thread_of_a_mount_by_root_is_confined() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: mounts of others need fusermount3");
    }
    let place = Place::new();
    for transport in ["dev", "auto"] {
        place.mount(&["--transport", transport]);
        fs::write(place.at("file"), "text").expect("written");
        let process = place.pid().as_raw_nonzero().get().cast_unsigned();
        assert!(threads(process, "Seccomp").iter().all(|mode| mode == "2"), "a filter");
        assert!(threads(process, "NoNewPrivs").iter().all(|set| set == "1"));
        assert!(!has_dangerous_capabilities(process));
        let told = json!({"system_calls": true, "capabilities": true, "files": false, "reason": null});
        assert_eq!(place.status()["confinement"], told);
        place.umount();
    }
}

#[test]
fn it_can_be_switched_off() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: mounts of others need fusermount3");
    }
    let place = Place::new();
    place.mount(&["--no-confinement"]);
    let process = place.pid().as_raw_nonzero().get().cast_unsigned();
    assert!(threads(process, "Seccomp").iter().all(|mode| mode == "0"));
    let told = &place.status()["confinement"];
    assert_eq!(told["system_calls"], false);
    assert!(told["reason"].as_str().expect("a reason").contains("--no-confinement"));
    place.umount();
}

#[test]
fn disks_are_confined_and_can_be_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    fs::write(at("password"), "correct horse").expect("written");
    let secret = ["--kdf", "pbkdf2", "--kdf-time", "1000", "--password-file", &at("password")];
    assert_success(&run(
        &[&["disk", "format", "--size", "20MiB", "--yes"][..], &secret, &[&at("image")]].concat()
    ));
    let open = ["disk", "open", "--foreground", "--nbd", &at("socket"), "--password-file", &at("password")];
    let mut daemon = Command::new(PROGRAM);
    daemon.args(open).args(["--log", &at("log")]).arg(at("image"));
    let mut daemon = daemon.spawn().expect("the program runs");
    support::soon("it is open", || fs::exists(at("socket")).is_ok_and(|exists| exists));
    support::soon("it is confined", || threads(daemon.id(), "Seccomp").iter().all(|mode| mode == "2"));
    assert!(!has_dangerous_capabilities(daemon.id()));
    let told = || {
        let log = fs::read_to_string(at("log")).unwrap_or_default();
        log.lines().find_map(|line| line.split_once("confined: ").map(|(_, told)| told.to_owned()))
    };
    support::soon("it tells what holds", || told().is_some());
    match told().expect("told").as_str() {
        "system calls, capabilities and files" => {}
        older if older.contains("Landlock") => println!("not tested: {older}"),
        other => panic!("{other}"),
    }
    assert_success(&run(&["disk", "close", &at("socket")]));
    assert!(!fs::exists(at("socket")).expect("told"), "its socket is removed");
    assert!(daemon.wait().expect("it ends").success());
}
