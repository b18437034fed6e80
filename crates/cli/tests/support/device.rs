//! A vault whose mount a device computes, sound or not.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Place, assert_success, noise, program};

/// A device that has not failed by then does not fail.
const LIMIT: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Served {
    place: Place,
    engine: String,
    contents: Vec<Vec<u8>>,
}

impl Served {
    /// Mounts a new vault on a device alone, as long as that is trusted. `with` sees the command before it runs.
    pub(crate) fn mount(engine: &str, with: impl FnOnce(&mut Command)) -> Served {
        let place = Place::new();
        let mut mounting = place.mounting(&["--engine", engine]);
        with(&mut mounting);
        assert_success(&mounting.output().expect("the program runs"));
        let served = Served { place, engine: engine.to_owned(), contents: Vec::new() };
        let (at, _) = served.told();
        let mut set = program();
        set.arg("set").arg(served.place.mount_point()).args(["policy=fixed", &format!("use={at}")]);
        assert_success(&set.output().expect("the program runs"));
        served
    }

    /// Where the device stands in `status`, and what that says of it.
    fn told(&self) -> (usize, Value) {
        let engines = self.place.status()["engines"].clone();
        let engines = engines.as_array().expect("a list");
        let at = engines.iter().position(|engine| engine["name"] == self.engine.as_str());
        let at = at.unwrap_or_else(|| panic!("it is named: {engines:?}"));
        (at, engines[at].clone())
    }

    /// Writes one more file and reads it again around the page cache.
    fn work(&mut self) {
        let number = self.contents.len();
        let content = noise(40_000 + 977 * number, number as u64);
        let path = self.place.at(&format!("file {number}"));
        let mut file = File::create_new(&path).expect("a file");
        file.write_all(&content).expect("written");
        file.sync_all().expect("synced");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
        assert!(fs::read(&path).expect("read") == content, "file {number}");
        self.contents.push(content);
    }

    /// Everything once more, by an engine that had no part in it.
    fn is_whole(&self) {
        self.place.umount();
        self.place.mount(&["--engine", "reference"]);
        for (number, content) in self.contents.iter().enumerate() {
            let read = fs::read(self.place.at(&format!("file {number}"))).expect("read");
            assert!(read == *content, "file {number}");
        }
        self.place.umount();
    }

    /// The device computes all that is written and read, and is believed.
    pub(crate) fn serves_all(mut self) {
        (0..20).for_each(|_| self.work());
        let (_, told) = self.told();
        let bytes: u64 = self.contents.iter().map(|content| content.len() as u64).sum();
        assert!(told["bytes"].as_u64() >= Some(bytes), "{told}");
        assert_eq!(
            (&told["mismatches"], &told["lost"], &told["quarantined"]),
            (&0.into(), &0.into(), &false.into())
        );
        assert!(told["checked"].as_u64() > Some(0), "{told}");
        self.is_whole();
    }

    /// Works until `counter` says that the device has failed, and for a while after that: nothing is lost.
    pub(crate) fn survives(mut self, counter: &str) {
        let began = Instant::now();
        while self.told().1[counter] == 0 {
            assert!(began.elapsed() < LIMIT, "{}", self.told().1);
            self.work();
        }
        let (_, told) = self.told();
        assert_eq!(told["quarantined"], true, "{told}");
        (0..5).for_each(|_| self.work());
        self.is_whole();
    }
}
