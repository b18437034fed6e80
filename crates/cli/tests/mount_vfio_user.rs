//! Mounts and disks whose cryptography a virtio-crypto device in another process computes: sound, and one
//! that stalls, lies, or goes away under them. They need `/dev/fuse`, and root or `fusermount3`.

mod support;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use strongroom_device_vfio_user::{Faults, Model, serve};
use support::device::Served;
use support::{Place, assert_fails_with, assert_success, noise, run, soon};
use tempfile::TempDir;

/// Names the socket and the fault to the process that is the device.
const SOCKET: &str = "STRONGROOM_TEST_DEVICE_SOCKET";
const FAULT: &str = "STRONGROOM_TEST_DEVICE_FAULT";
/// Requests with which nothing goes wrong: the driver's own tests, and the beginning of a mount.
const SOUND: u64 = 200;

/// A device in a process of its own: this program again, with [`the_device_itself`] alone.
struct Device {
    process: Child,
    directory: TempDir,
}

impl Device {
    fn start(fault: &str) -> Device {
        let directory = TempDir::new().expect("a directory");
        let socket = directory.path().join("socket");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "the_device_itself", "--ignored", "--nocapture"]);
        command.env(SOCKET, &socket).env(FAULT, fault);
        let process = command.stdout(std::process::Stdio::null()).spawn().expect("it starts");
        let device = Device { process, directory };
        soon("the device makes its socket", || device.socket().exists());
        device
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn engine(&self) -> String {
        format!("vfio-user:{}", self.socket().display())
    }

    fn is_gone(&mut self) -> bool {
        self.process.try_wait().expect("it is ours").is_some()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until it is killed.
#[test]
#[ignore = "it is the device of the other tests, which start it"]
fn the_device_itself() {
    let (Some(socket), Ok(fault)) = (std::env::var_os(SOCKET), std::env::var(FAULT)) else { return };
    let sound = Faults { sound: SOUND, seed: 1, ..Faults::default() };
    let faults = match fault.as_str() {
        "none" => Faults::default(),
        "wrong" => Faults { wrong_ppm: 20_000, ..sound },
        "stalls" => Faults { late_ppm: 20_000, late: Duration::from_secs(5), ..sound },
        "gone" => Faults { unplug_after: Some(2 * SOUND), ..sound },
        other => panic!("no fault `{other}`"),
    };
    serve(Path::new(&socket), &Model { faults, ..Model::default() }).expect("it serves");
}

/// A vault that is mounted on the device alone, as long as that is trusted.
fn mounted(device: &Device) -> Served {
    Served::mount(&device.engine(), |_| {})
}

#[test]
fn a_folder_is_served_by_a_device() {
    let device = Device::start("none");
    mounted(&device).serves_all();
}

fn survives(fault: &str, counter: &str) {
    let device = Device::start(fault);
    mounted(&device).survives(counter);
}

#[test]
fn a_device_that_lies_under_a_mount_is_quarantined_and_harms_no_byte() {
    survives("wrong", "mismatches");
}

#[test]
fn a_device_that_stalls_under_a_mount_is_quarantined_and_harms_no_byte() {
    survives("stalls", "lost");
}

#[test]
fn a_device_that_goes_away_under_a_mount_is_quarantined_and_harms_no_byte() {
    survives("gone", "lost");
}

/// A disk in AES-XTS, read and written as one file; then what is stored, by the CPU alone.
fn serves_a_disk(fault: &str) {
    let mut device = Device::start(fault);
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    fs::write(at("password"), "correct horse\n").expect("written");
    fs::create_dir(at("plain")).expect("a directory");
    let file = at("password");
    let password = ["--password-file", &file];
    let format = ["disk", "format", "--size", "24MiB", "--yes", "--kdf", "pbkdf2", "--kdf-time", "1000"];
    assert_success(&run(&[&format[..], &password, &[&at("image")]].concat()));
    let open = |engine: &[&str]| {
        let mut daemon = support::program();
        daemon.args(["disk", "open", "--foreground", "--raw", &at("plain")]).args(password).args(engine);
        let daemon = daemon.arg(at("image")).spawn().expect("the program runs");
        let volume = Path::new(&at("plain")).join("volume");
        soon("it is open", || volume.exists());
        (daemon, File::options().read(true).write(true).open(&volume).expect("opened"))
    };
    let close = |mut daemon: Child, file: File| {
        drop(file);
        let closed = run(&["disk", "close", &at("plain")]);
        assert!(daemon.wait().expect("it ends").success());
        assert_success(&closed);
    };
    // Behind the tiers of the CPU, of which there may be several.
    let listed = run(&["engines", "--json", "--engine", &device.engine()]);
    assert_success(&listed);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let engines = listed["engines"].as_array().expect("a list");
    let function = engines.iter().find(|engine| engine["name"] == device.engine().as_str()).expect("listed");
    let has = |name: &str| {
        let algorithms = function["algorithms"].as_array().expect("a list");
        algorithms.iter().any(|algorithm| algorithm["name"] == name)
    };
    assert!(has("aes-xts-plain64") && has("xaes-256-gcm") && !has("serpent-xts-plain64"), "{function}");
    let tiers = engines.iter().filter(|engine| engine["state"] != "refused");
    let tiers = tiers.filter(|engine| engine["name"].as_str().is_some_and(|name| name.starts_with("cpu-")));
    let place = format!("policy=fixed,use={}", tiers.count());
    let content = noise(4 << 20, 3);
    let (daemon, mut file) = open(&["--engine", &device.engine(), "--set", &place]);
    file.write_all_at(&content, 0).expect("written");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    let mut found = vec![0; content.len()];
    file.read_exact(&mut found).expect("read");
    assert!(found == content);
    close(daemon, file);
    if fault == "gone" {
        assert!(device.is_gone(), "the disk was computed there");
    }
    let (daemon, mut file) = open(&["--engine", "cpu"]);
    file.read_exact(&mut found).expect("read");
    assert!(found == content);
    close(daemon, file);
}

#[test]
fn a_disk_is_served_by_a_device() {
    serves_a_disk("none");
}

#[test]
fn a_disk_goes_on_when_its_device_goes_away() {
    serves_a_disk("gone");
}

#[test]
fn a_socket_that_nobody_serves_is_said_to_be_none() {
    let place = Place::new();
    assert_fails_with(&place.try_mount(&["--engine", "vfio-user:nowhere"]), 6, "no device at ");
}
