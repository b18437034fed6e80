//! `trace` and `whatif`: what a mount records, what that holds and what not, and
//! what is made of it.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Instant;

use serde_json::Value;

use crate::support::{Place, Run, finish};

/// Runs the program with a state directory of this place.
fn run(place: &Place, line: &str) -> Run {
    let mut command = place.command(line.split_whitespace());
    command.env("XDG_STATE_HOME", place.path("state")).env("HOME", place.path("home"));
    finish(command.output().expect("setsid"))
}

/// The vault `v` of a suite, at `m`, unmounted when it goes.
struct Mounted<'p>(&'p Place);

impl Mounted<'_> {
    fn new<'p>(place: &'p Place, engine: &str) -> Mounted<'p> {
        if !place.exists("m") {
            std::fs::create_dir(place.path("m")).expect("a directory");
        }
        run(place, &format!("mount v m --engine {engine} --password-file password --log mount.log"))
            .expect(0);
        Mounted(place)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if run(self.0, "umount m").code != 0 {
            run(self.0, "umount m --abort");
        }
    }
}

/// Writes a file around the page cache and reads it again, in pieces of 64
/// KiB; how long that took in seconds.
fn work(place: &Place, pieces: u64) -> f64 {
    let mut options = std::fs::File::options();
    options.read(true).write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::DIRECT.bits() as i32);
    let file = options.open(place.path("m/confidential-name")).expect("a file");
    let mut piece = vec![0x61; 65536];
    let began = Instant::now();
    for at in 0..pieces {
        file.write_all_at(&piece, at * 65536).expect("written");
    }
    for at in 0..pieces {
        file.read_exact_at(&mut piece, at * 65536).expect("read");
    }
    began.elapsed().as_secs_f64()
}

#[test]
fn a_mount_records_what_was_asked_and_no_name_or_content() {
    let place = Place::new().vault();
    let _mounted = Mounted::new(&place, "cpu");
    run(&place, "trace stop m --json").expect(2).error();
    assert!(!place.exists("strongroom.trace"), "what was not recorded leaves no file");
    run(&place, "trace start m").expect(0);
    run(&place, "trace start m --json").expect(5).error();
    work(&place, 32);
    let header = run(&place, "trace stop m --json").expect(0).document();
    assert_eq!((header["of"].as_str(), header["algorithm"].as_str()), (Some("mount"), Some("xaes-256-gcm")));
    assert!(
        header["daemon_cpu_ns"].as_u64() > Some(0) && header["machine_cpu_ns"].as_u64() > Some(0),
        "{header}"
    );
    assert!(header["records"].as_u64() >= Some(64), "{header}");
    let bytes = place.read("strongroom.trace");
    let mode = std::fs::metadata(place.path("strongroom.trace")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for kept_out in
        [&b"confidential"[..], b"aaaaaaaa", b"correct horse", place.path("m").as_os_str().as_encoded_bytes()]
    {
        assert!(!bytes.windows(kept_out.len()).any(|window| window == kept_out));
    }
    // It is written in place of nothing.
    run(&place, "trace start m").expect(0);
    run(&place, "trace stop m --json").expect(2).error();
    run(&place, "trace stop m -o other.trace").expect(0);
    let damaged = &bytes[..bytes.len() - 7];
    place.write("damaged.trace", damaged);
    run(&place, "tune xaes --engine cpu --seconds 1").expect(0);
    run(&place, "whatif damaged.trace --engine cpu --json").expect(2).error();
    run(&place, "whatif strongroom.trace --engine cpu --add fpga --json").expect(2).error();
    run(&place, "whatif nowhere.trace --engine cpu --json").expect(2).error();
}

/// An open disk, closed when it goes.
struct Opened<'p>(&'p Place);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        run(self.0, "disk close d --force");
    }
}

#[test]
fn an_open_disk_records_too_and_is_replayed_with_ciphers_of_disks() {
    let place = Place::new();
    run(&place, "disk format d --size 24MiB --kdf pbkdf2 --kdf-time 1000 --yes --password-file password")
        .expect(0);
    run(&place, "tune xts-plain64 ctr-plain64 --engine cpu --seconds 2").expect(0);
    std::fs::create_dir(place.path("raw")).expect("a directory");
    run(&place, "disk open d --raw raw --engine cpu --password-file password").expect(0);
    let _opened = Opened(&place);
    // By the image, and by what it is served as.
    run(&place, "trace start d").expect(0);
    let file = std::fs::File::options().write(true).open(place.path("raw/volume")).expect("a file");
    file.write_all_at(&[0x61; 1 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let header = run(&place, "trace stop raw --json").expect(0).document();
    let of = |field: &str| header[field].as_str().expect("text");
    assert_eq!((of("of"), of("algorithm")), ("disk", "aes-xts-plain64"));
    assert!(!place.read("strongroom.trace").windows(8).any(|window| window == b"aaaaaaaa"));
    let document = run(&place, "whatif strongroom.trace --engine cpu --json").expect(0).document();
    assert!(document["trace"]["written_bytes"].as_u64() >= Some(1 << 20), "{document}");
    let rows = document["rows"].as_array().expect("a list");
    let has = |part: &str| rows.iter().any(|row| row["add"].as_str().is_some_and(|add| add.contains(part)));
    assert!(has("suite=serpent-xts-plain64") && has("qat"), "{rows:?}");
    assert!(!has("-ctr-"), "no disk has it: {rows:?}");
    assert!(has("suite=serpent") && !has("xaes"), "vaults have those: {rows:?}");
}

#[test]
fn without_a_profile_it_says_what_to_run() {
    let place = Place::new().vault();
    let _mounted = Mounted::new(&place, "cpu");
    run(&place, "trace start m").expect(0);
    work(&place, 1);
    run(&place, "trace stop m").expect(0);
    run(&place, "whatif strongroom.trace").expect(2).error_text("strongroom tune");
}

#[test]
fn one_suite_is_recorded_another_predicted_and_mounted() {
    const PIECES: u64 = 64;
    let (base, other) = (Place::new().vault(), Place::new().vault_of("cascade"));
    run(&base, "tune xaes cascade --engine cpu --seconds 4").expect(0);
    let _mounted = (Mounted::new(&base, "cpu"), Mounted::new(&other, "cpu"));
    work(&base, PIECES);
    run(&base, "trace start m").expect(0);
    work(&base, PIECES);
    run(&base, "trace stop m").expect(0);
    let document = run(&base, "whatif strongroom.trace --engine cpu --json").expect(0).document();
    let rows = document["rows"].as_array().expect("a list");
    let row =
        |add: &str| rows.iter().find(|row| row["add"] == add).unwrap_or_else(|| panic!("{add}: {rows:?}"));
    let speed = |row: &Value| row["speed"].as_f64().expect("a number");
    let predicted = speed(row("suite=cascade"));
    // In turn, and of each the shortest: other tests run beside this one.
    let took: Vec<[f64; 2]> = (0..6).map(|_| [work(&base, PIECES), work(&other, PIECES)]).collect();
    let shortest = |vault: usize| took.iter().map(|took| took[vault]).fold(f64::INFINITY, f64::min);
    let measured = shortest(0) / shortest(1);
    // Three ciphers take several times one's time, whatever else the machine does.
    assert!(predicted < 0.8 && measured < 1.0, "predicted {predicted}, measured {measured}");
    assert!((predicted / measured).ln().abs() < f64::ln(3.0), "predicted {predicted}, measured {measured}");
    let cpu = row("suite=cascade")["cpu"].as_f64().expect("a number");
    assert!(cpu > 1.2, "{cpu}");
    // One program that waits for each answer has no use for more CPUs.
    assert!((speed(row("cpus=4")) - 1.0).abs() < 0.2 || speed(row("cpus=4")) < 1.3, "{rows:?}");
    let text =
        run(&base, "whatif strongroom.trace --engine cpu --add suite=cascade --add qat").expect(0).stdout;
    assert!(text.contains("cascade on this CPU:") && text.contains("a QAT card:"), "{text}");
}
