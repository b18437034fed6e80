//! Memory of `file` does not grow with what it works on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::file::place;
use crate::support::Place;

const MOST: u64 = 64 << 20;
/// What the allocator and the moment of looking may make of the same work.
const SLACK: u64 = 6 << 20;
const SIZES: [u64; 2] = [32 << 20, 512 << 20];

/// The most memory that this command had resident (`proc_pid_status(5)`).
fn peak(place: &Place, line: &str) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
    command.args(line.split(' ')).current_dir(place.path(".")).stdin(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().expect("ours") {
            assert!(status.success(), "{line:?}");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn memory_is_bounded_whatever_the_size() {
    let (place, recipient) = place();
    std::fs::create_dir(place.path("d")).expect("made");
    let mut peaks = Vec::new();
    for len in SIZES {
        for name in ["f", "d/f"] {
            let file = File::create(place.path(name)).expect("made");
            file.set_len(len).and_then(|()| file.write_all_at(b"x", len - 1)).expect("made");
        }
        // With two threads, whatever the machine has.
        let of = |words: &str| peak(&place, &format!("file {words}"));
        let encrypt = of(&format!("encrypt --threads 2 --force -r {recipient} f"));
        let decrypt = of("decrypt --threads 2 -i key -o /dev/null f.age");
        let stream = of(&format!("encrypt --threads 2 -r {recipient} -o /dev/null f"));
        let pack = of(&format!("encrypt --threads 2 --force -r {recipient} d"));
        let unpack = of("decrypt --threads 2 --force -i key --extract out d.tar.age");
        peaks.push([encrypt, decrypt, stream, pack, unpack]);
    }
    for (small, large) in peaks[0].iter().zip(&peaks[1]) {
        assert!(*large < MOST && *large < small + SLACK, "{peaks:?}");
    }
}
