//! How mounts end: what `umount` promises when it returns, what holds a mount,
//! and what waits for one that ends (`docs/lifecycle.md`). It needs
//! `/dev/fuse`, and root, who alone may make mount namespaces.

mod support;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;
use support::{PROGRAM, Place, assert_fails_with, assert_success, is_mounted, run, soon};

/// One at a time: a namespace that is copied has the mounts of every test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether nothing is left of a process but, where nobody waits for it, its
/// number.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// A process with a mount namespace of its own, copied from this one.
struct Sandbox(Child);

impl Sandbox {
    fn of(place: &Place) -> Sandbox {
        let child = Command::new("unshare").args(["-m", "--propagation", "private", "sleep", "600"]).spawn();
        let sandbox = Sandbox(child.expect("unshare runs"));
        let own = fs::read_link("/proc/self/ns/mnt").expect("a namespace");
        let (id, path) = (sandbox.0.id(), place.mount_point());
        soon("the namespace is copied", || {
            let space = fs::read_link(format!("/proc/{id}/ns/mnt")).ok();
            let table = fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap_or_default();
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            space.is_some_and(|space| space != own)
                && name.trim() == "sleep"
                && table.contains(path.to_str().expect("text"))
        });
        sandbox
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn when_umount_has_returned_the_daemon_is_gone() {
    let _alone = alone();
    let place = Place::new();
    for _ in 0..5 {
        place.mount(&[]);
        fs::write(place.at("file"), vec![0; 8 << 20]).expect("written");
        let pid = place.pid();
        place.umount();
        assert!(is_gone(pid), "it holds the store's file system");
    }
}

#[test]
fn a_copy_in_another_namespace_is_named_and_ended_by_force() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text")
        .and_then(|()| fs::File::open(place.at("file"))?.sync_all())
        .expect("synced");
    let pid = place.pid();
    let sandbox = Sandbox::of(&place);
    let held = place.ask(&["umount"]);
    assert_fails_with(&held, 5, "something still holds it");
    assert_fails_with(&held, 5, &format!("Process {} (sleep)", sandbox.0.id()));
    assert_fails_with(&held, 5, "umount --abort");
    assert!(!is_mounted(&place.mount_point()) && !is_gone(pid));
    assert_success(&place.ask(&["umount", "--force"]));
    assert!(is_gone(pid), "keys leave memory");
    assert_fails_with(&place.ask(&["umount", "--force"]), 2, "no vault is mounted here");
    place.mount(&[]);
    assert_eq!(fs::read_to_string(place.at("file")).expect("recovered"), "text");
    place.umount();
}

#[test]
fn a_second_signal_ends_by_force_what_is_held() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let place = Place::new();
    // A confined daemon may not look into processes that have more capabilities than it.
    place.mount(&["--no-confinement"]);
    let pid = place.pid();
    let sandbox = Sandbox::of(&place);
    let terminate = || rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    terminate();
    let log = || fs::read_to_string(place.log()).expect("a log");
    soon("the log names what holds it", || log().contains(&format!("Process {} (sleep)", sandbox.0.id())));
    assert!(!is_mounted(&place.mount_point()) && !is_gone(pid));
    terminate();
    soon("the daemon ends", || is_gone(pid));
    place.mount(&[]);
    place.umount();
}

#[test]
fn a_copy_that_goes_ends_the_mount_and_whoever_waits_gets_the_vault() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.mount(&[]);
    let sandbox = Sandbox::of(&place);
    assert_fails_with(&place.ask(&["umount"]), 5, "something still holds it");
    let (mut told, tells) = std::io::pipe().expect("a pipe");
    let mut mounting = place.mounting(&[]).stderr(tells).spawn().expect("the program runs");
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("waiting: mount by process") {
        let mut bytes = [0; 256];
        let len = told.read(&mut bytes).expect("readable");
        assert!(len > 0, "it did not wait: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..len]);
    }
    drop(sandbox);
    assert!(mounting.wait().expect("ours").success());
    place.umount();
}

#[test]
fn a_mount_right_after_the_systems_own_umount_waits() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let place = Place::new();
    for round in 0..5 {
        place.mount(&[]);
        fs::write(place.at("file"), vec![round; 8 << 20]).expect("written");
        soon("nothing is open", || {
            rustix::mount::unmount(place.mount_point(), rustix::mount::UnmountFlags::empty()).is_ok()
        });
        place.mount(&[]);
        assert_eq!(fs::read(place.at("file")).expect("stored")[0], round);
        place.umount();
    }
}

#[test]
fn umount_calls_it_by_its_helpers_names() {
    let _alone = alone();
    let place = Place::new();
    for name in ["umount.strongroom", "umount.fuse.strongroom"] {
        let helper = place.directory.path().join(name);
        symlink(PROGRAM, &helper).expect("linked");
        place.mount(&[]);
        let pid = place.pid();
        let ended =
            Command::new(&helper).arg(place.mount_point()).args(["-n", "-t", "fuse.strongroom"]).output();
        assert_success(&ended.expect("it runs"));
        assert!(!is_mounted(&place.mount_point()) && is_gone(pid));
    }
}

#[test]
fn a_copy_made_while_the_vault_is_mounted_is_a_vault_of_its_own() {
    let _alone = alone();
    let place = Place::new();
    let (copy, other) = (place.directory.path().join("copy"), place.directory.path().join("other"));
    fs::create_dir(&other).expect("made");
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    assert_success(&place.ask(&["sync"]));
    let copied = Command::new("cp").arg("-a").arg(place.vault()).arg(&copy).status();
    assert!(copied.expect("cp runs").success());
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let mounted = run(&[
        "mount",
        "--password-file",
        &text(&place.password()),
        "--log",
        &text(&place.log()),
        &text(&copy),
        &text(&other),
    ]);
    assert_success(&mounted);
    assert_eq!(fs::read_to_string(other.join("file")).expect("recovered"), "text");
    assert_success(&run(&["umount", &text(&other)]));
    // The original is in use as before.
    assert_fails_with(&place.try_mount_at(&other, &[]), 5, "in use");
    place.umount();
}
