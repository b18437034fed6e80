//! `disk` without a mount: formats, keys, headers, refusals.

use crate::support::{Place, Run};

const CHEAP: &str = "--kdf-memory 64KiB --kdf-time 4";

fn disk(place: &Place, line: &str) -> Run {
    place.line(&format!("disk {line}"))
}

fn made() -> Place {
    let place = Place::new();
    let line = format!("format d --size 17MiB --password-file password --label mine --yes {CHEAP} --json");
    disk(&place, &line).expect(0).document();
    place
}

#[test]
fn a_disk_tells_what_it_is_made_with() {
    let place = made();
    let info = disk(&place, "info d --json").expect(0).document();
    assert_eq!((&info["luks_version"], &info["label"]), (&2.into(), &"mine".into()));
    assert_eq!((&info["cipher"], &info["key_bits"]), (&"aes-xts-plain64".into(), &512.into()));
    assert_eq!((&info["sector_size"], &info["data_bytes"]), (&4096.into(), &(1 << 20).into()));
    assert_eq!(info["header_copies"], serde_json::json!(["current", "current"]));
    assert_eq!(info["slots"][0]["kdf"]["name"], "argon2id");
    let text = disk(&place, "info d").expect(0).stdout;
    assert!(text.contains("LUKS2") && text.contains("argon2id, 64 KiB, 4 passes"), "{text}");
    disk(&place, "is-luks d").expect(0);
    disk(&place, "is-luks password").expect(1);
    let error = disk(&place, "info password --json").expect(2).error();
    assert!(error["message"].as_str().is_some_and(|text| text.contains("no LUKS header")));
}

#[test]
fn keys_are_added_changed_and_removed() {
    let place = made();
    place.write("second", "two\n");
    place.write("key", [7; 100]);
    let add = format!("key add d --password-file password --new-password-file second {CHEAP} --json");
    assert_eq!(disk(&place, &add).expect(0).document()["slot"], 1);
    let change = format!("key change d --password-file second --new-key-file key {CHEAP} --json");
    assert_eq!(disk(&place, &change).expect(0).document()["slot"], 1);
    disk(&place, &change).expect(3).error_text("wrong passphrase");
    let part = format!("key add d --key-file key --new-password-file second --new-key-slot 5 {CHEAP} --json");
    assert_eq!(disk(&place, &part).expect(0).document()["slot"], 5);
    disk(&place, "key remove d 0 --key-file key --keyfile-size 99").expect(3);
    disk(&place, "key remove d 0 --key-file key --json").expect(0).document();
    disk(&place, "key remove d 0 --key-file key").expect(2);
    disk(&place, "key remove d 5 --key-file key").expect(0);
    disk(&place, "key remove d 1 --key-file key").expect(2);
    let list = disk(&place, "key list d --json").expect(0).document();
    assert_eq!(list["slots"].as_array().map(Vec::len), Some(1));
    disk(&place, "erase d").expect(2).error_text("--yes");
    assert_eq!(disk(&place, "erase d --yes --json").expect(0).document()["slots"], serde_json::json!([]));
    disk(&place, "key remove d 1 --key-file key").expect(3);
}

#[test]
fn a_header_is_backed_up_and_put_back() {
    let place = made();
    let backup = disk(&place, "header backup d b --json").expect(0).document();
    assert_eq!(backup["bytes"], 16 << 20);
    disk(&place, "header backup d b").expect(2);
    place.write("second", "two");
    let change = format!("key change d --password-file password --new-password-file second {CHEAP}");
    disk(&place, &change).expect(0);
    let whole = place.read("d");
    let mut cut = whole.clone();
    cut[..32 << 10].fill(0);
    place.write("d", &cut);
    disk(&place, "info d").expect(2);
    disk(&place, "header restore d b").expect(2).error_text("--yes");
    disk(&place, "header restore d b --yes --json").expect(0).document();
    disk(&place, &change).expect(0);
    // One copy is enough, and the damage is told.
    let mut one = whole;
    one[5000] ^= 1;
    place.write("d", &one);
    let info = disk(&place, "info d --json");
    assert_eq!((info.code, &info.document()["header_copies"][0]), (4, &"damaged".into()));
    place.write("small", [0; 4096]);
    disk(&place, "header restore small b --yes").expect(2);
    disk(&place, "header restore d password --yes").expect(2);
}

#[test]
fn what_is_there_is_not_destroyed_unasked() {
    let place = made();
    let before = place.read("d");
    let again = format!("format d --password-file password {CHEAP}");
    disk(&place, &again).expect(2).error_text("--yes");
    disk(&place, &format!("{again} --yes --size 20MiB")).expect(2);
    disk(&place, "open d --ephemeral --nbd s").expect(2).error_text("--yes");
    if !std::path::Path::new("/dev/ublk-control").exists() {
        disk(&place, "open d --ephemeral --yes --ublk").expect(6).error_text("modprobe ublk_drv");
    }
    disk(&place, "resize d 16MiB --yes").expect(2);
    disk(&place, "resize d 17000000").expect(2);
    assert_eq!(place.read("d"), before);
    disk(&place, "resize d 18MiB --json").expect(0).document();
    disk(&place, "resize d 17MiB").expect(2).error_text("--yes");
    disk(&place, "resize d 17MiB --yes").expect(0);
    assert_eq!(place.read("d"), before);
}

#[test]
fn what_cannot_be_made_is_refused_and_nothing_is_left() {
    let place = Place::new();
    let refused = |words: &str, code: i32| {
        let line = format!("format n --size 17MiB --password-file password --yes {words}");
        disk(&place, &line).expect(code);
        assert!(!place.exists("n"), "{words}");
    };
    refused("--cipher aes-adiantum-plain64", 6);
    refused("--key-size 500", 2);
    refused("--key-size 128", 6);
    refused("--type luks1 --sector-size 4096", 2);
    refused("--type luks1 --kdf argon2id", 2);
    refused("--sector-size 1000", 2);
    refused("--uuid x", 2);
    refused("--kdf-memory 8GiB", 2);
    disk(&place, "format n --password-file password --yes").expect(2);
    disk(&place, "open n --raw .").expect(2);
    disk(&place, "close n").expect(2);
}

#[test]
fn luks1_and_detached_headers_are_made() {
    let place = Place::new();
    let line = "format one --size 3MiB --type luks1 --cipher twofish-cbc-essiv:sha256 --kdf-time 1000 \
                --password-file password --yes --json";
    let one = disk(&place, line).expect(0).document();
    assert_eq!((&one["luks_version"], &one["key_bits"]), (&1.into(), &256.into()));
    place.write("data", [0; 1 << 16]);
    let line = format!("format data --header h --password-file password --yes {CHEAP} --json");
    let detached = disk(&place, &line).expect(0).document();
    assert_eq!((&detached["data_offset"], &detached["data_bytes"]), (&0.into(), &serde_json::Value::Null));
    disk(&place, "is-luks data").expect(1);
    disk(&place, "is-luks h").expect(0);
    assert_eq!(place.read("data"), [0; 1 << 16]);
}

/// Ends a daemon that a failing test leaves behind.
struct Closing<'a>(&'a Place);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let _ = self.0.line("disk close d --force");
    }
}

#[test]
fn an_open_disk_is_served_listed_and_closed() {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    let place = made();
    disk(&place, "open d --nbd s --password-fd 9").expect(2);
    place.write("wrong", "wrong");
    disk(&place, "open d --nbd s --password-file wrong").expect(3);
    assert!(!place.exists("s"));
    let _closing = Closing(&place);
    let opened = disk(&place, "open d --nbd s --password-file password --json").expect(0).document();
    let image = place.path("d").canonicalize().expect("it is there").display().to_string();
    assert_eq!((&opened["image"], &opened["export"]), (&image.as_str().into(), &"nbd".into()));
    let listed = |place: &Place| {
        let list = disk(place, "list --json").expect(0).document();
        let disks = list["disks"].as_array().expect("a list").clone();
        disks.into_iter().find(|disk| disk["image"] == image.as_str())
    };
    assert!(listed(&place).is_some_and(|disk| disk["kind"] == "nbd" && disk["ephemeral"] == false));
    let mut client = UnixStream::connect(place.path("s")).expect("served");
    let mut greeting = [0; 16];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT");
    disk(&place, "open d --nbd t --password-file password").expect(5);
    disk(&place, "key remove d 0 --password-file password").expect(5);
    disk(&place, "close d").expect(5).error_text("connected");
    drop(client);
    for _ in 0..100 {
        if disk(&place, "close s").code == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(listed(&place).is_none() && !place.exists("s"));
    disk(&place, "close d").expect(2);
    let before = place.read("d");
    disk(&place, "open d --nbd s --ephemeral --yes").expect(0);
    assert!(listed(&place).is_some_and(|disk| disk["ephemeral"] == true));
    disk(&place, "close d").expect(0);
    assert!(place.read("d") == before, "nothing was written");
}

#[test]
fn what_looks_like_another_thing_is_not_opened() {
    let place = Place::new();
    place.write("data", vec![0; 1 << 20]);
    disk(&place, &format!("format data --header h --password-file password --yes {CHEAP}")).expect(0);
    let before = place.read("h");
    disk(&place, "open h --nbd s --password-file password").expect(2).error_text("without a disk");
    disk(&place, "open h --header h --nbd s --password-file password").expect(2).error_text("without a disk");
    assert!(place.read("h") == before && !place.exists("s"));
    // A file system where the data should be, and a header that is its own disk.
    let mut other = vec![0; 1 << 20];
    other[..4].copy_from_slice(b"XFSB");
    place.write("data", &other);
    disk(&place, "open data --header h --nbd s --password-file password").expect(2).error_text("an XFS");
    let same = format!("format data --header data --password-file password --yes {CHEAP}");
    disk(&place, &same).expect(2).error_text("one file");
    assert!(place.read("data") == other);
    // The header of one disk is not put on another that has its data behind it.
    disk(&place, &format!("format d --size 17MiB --password-file password {CHEAP}")).expect(0);
    let whole = place.read("d");
    disk(&place, "header restore d h --yes").expect(2).error_text("without a disk");
    assert!(place.read("d") == whole);
}

#[test]
fn a_new_file_is_made_unasked_and_a_vault_is_told_from_a_disk() {
    let place = Place::new().vault();
    // There is no terminal to ask on.
    disk(&place, &format!("format d --size 17MiB --password-file password {CHEAP}")).expect(0);
    disk(&place, &format!("format d --password-file password {CHEAP}")).expect(2).error_text("--yes");
    disk(&place, "open v --nbd s --password-file password").expect(2).error_text("strongroom mount");
    std::fs::create_dir(place.path("m")).expect("made");
    place.line("mount d m --password-file password").expect(2).error_text("strongroom disk open");
    place.line("info d").expect(2).error_text("strongroom disk open");
}

/// The locks of cryptsetup, taken as it takes them.
#[test]
fn the_header_of_an_open_disk_can_be_looked_at_by_others() {
    use rustix::fs::{FlockOperation, flock};
    let place = made();
    let _closing = Closing(&place);
    disk(&place, "open d --nbd s --password-file password").expect(0);
    let other = std::fs::File::open(place.path("d")).expect("there");
    flock(&other, FlockOperation::NonBlockingLockShared).expect("it is open, and its header is free");
    disk(&place, "info d").expect(0);
    disk(&place, "open d --nbd t --password-file password").expect(5);
    std::fs::remove_file(place.path("s")).expect("a cleaner");
    disk(&place, "close d").expect(0);
    flock(&other, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
    disk(&place, "key remove d 0 --password-file password").expect(5).error_text("header");
}
