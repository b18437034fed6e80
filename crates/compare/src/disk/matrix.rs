//! Every cipher through every export, with the machine idle and with one CPU busy.
//!
//! Images are opened with keys of their own time (`disk open --ephemeral`), so that no key slot takes time.
//! ext4 lies on a loop device with direct transfers over the raw file; what its cache holds is dropped before
//! it is read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Plan;
use super::load::Busy;
use super::server::{Programs, Server};
use super::work::{Access, Job, Sample, copy, dd};
use crate::result::{Document, Table};
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::packages::is_root;
use strongroom_harness::random::Random;

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u32 = 1 << 20;

/// Ciphers with the bits of their keys.
const ALL: [(&str, &[u32]); 20] = [
    ("aes-xts-plain64", &[256, 512]),
    ("aes-xts-plain", &[256, 512]),
    ("aes-cbc-plain", &[128, 256]),
    ("aes-cbc-plain64", &[128, 256]),
    ("aes-cbc-essiv:sha256", &[128, 256]),
    ("serpent-xts-plain64", &[256, 512]),
    ("serpent-xts-plain", &[256, 512]),
    ("serpent-cbc-plain", &[128, 256]),
    ("serpent-cbc-plain64", &[128, 256]),
    ("serpent-cbc-essiv:sha256", &[128, 256]),
    ("twofish-xts-plain64", &[256, 512]),
    ("twofish-xts-plain", &[256, 512]),
    ("twofish-cbc-plain", &[128, 256]),
    ("twofish-cbc-plain64", &[128, 256]),
    ("twofish-cbc-essiv:sha256", &[128, 256]),
    ("camellia-xts-plain64", &[256, 512]),
    ("camellia-xts-plain", &[256, 512]),
    ("camellia-cbc-plain", &[128, 256]),
    ("camellia-cbc-plain64", &[128, 256]),
    ("camellia-cbc-essiv:sha256", &[128, 256]),
];

/// Those of `--quick`.
const QUICK: [(&str, &[u32]); 5] = [
    ("aes-xts-plain64", &[512]),
    ("aes-cbc-essiv:sha256", &[256]),
    ("serpent-xts-plain64", &[512]),
    ("twofish-xts-plain64", &[512]),
    ("camellia-xts-plain64", &[512]),
];

/// One figure.
pub(super) struct Cell {
    cipher: &'static str,
    key_bits: u32,
    engine: String,
    export: &'static str,
    work: &'static str,
    busy: bool,
    sample: Sample,
}

impl Cell {
    fn load(&self) -> &'static str {
        if self.busy { "one CPU" } else { "none" }
    }

    /// What its line of a table begins with.
    fn line(&self) -> [String; 4] {
        [self.engine.clone(), self.cipher.into(), self.key_bits.to_string(), self.load().into()]
    }
}

/// What is the same for all cells of one open image.
struct Bench<'a> {
    programs: &'a Programs,
    plan: &'a Plan,
    directory: &'a Path,
    cipher: &'static str,
    key_bits: u32,
    engine: &'a str,
    busy: bool,
    cells: &'a mut Vec<Cell>,
}

pub(super) fn run(programs: &Programs, plan: &Plan, directory: &Path) -> Result<Vec<Cell>> {
    let ciphers: &[(&'static str, &[u32])] = if plan.quick { &QUICK } else { &ALL };
    let mut bytes = vec![0; plan.bytes as usize / 4];
    Random::new(9).fill(&mut bytes);
    fs::write(directory.join("source"), bytes)?;
    for name in ["point", "ext4"] {
        fs::create_dir_all(directory.join(name))?;
    }
    let mut cells = Vec::new();
    for engine in &plan.engines {
        for &(cipher, keys) in ciphers.iter().filter(|(cipher, _)| cipher.contains(&plan.cipher)) {
            for &key_bits in keys {
                for busy in [false, true] {
                    println!(
                        "{cipher}, {key_bits} bits, {engine}{}",
                        if busy { ", one CPU busy" } else { "" }
                    );
                    let cells = &mut cells;
                    let mut bench =
                        Bench { programs, plan, directory, cipher, key_bits, engine, busy, cells };
                    bench.nbd()?;
                    bench.raw()?;
                }
            }
        }
    }
    ensure!(!cells.is_empty(), "no cipher has this name");
    Ok(cells)
}

impl Bench<'_> {
    fn open(&self, kind: &str, place: &Path) -> Result<Server> {
        let image = self.directory.join("scratch");
        File::create(&image)?.set_len(self.plan.bytes)?;
        let bits = self.key_bits.to_string();
        let options =
            ["--ephemeral", "--yes", "--cipher", self.cipher, "--key-size", &bits, "--engine", self.engine];
        Server::ours(self.programs, &image, (kind, place), &options)
    }

    /// The other load runs only while something is timed.
    fn timed(
        &mut self,
        export: &'static str,
        work: &'static str,
        run: impl FnOnce() -> Result<Sample>,
    ) -> Result {
        let load = if self.busy { Some(Busy::start()?) } else { None };
        let sample = run()?;
        drop(load);
        let (cipher, key_bits, busy) = (self.cipher, self.key_bits, self.busy);
        self.cells.push(Cell {
            cipher,
            key_bits,
            engine: self.engine.to_owned(),
            export,
            work,
            busy,
            sample,
        });
        Ok(())
    }

    fn jobs(&mut self, export: &'static str, server: &Server, place: &Path, jobs: [Access; 2]) -> Result {
        let [sequential, random] = jobs;
        let (bytes, cell) = (self.plan.bytes, self.plan.cell);
        // A file on ext4 leaves room for what ext4 has for itself.
        let bytes = if export == "ext4" { bytes / 2 } else { bytes };
        let depth = if sequential == Access::File { 1 } else { 4 };
        for (key, access, pattern, block, depth) in [
            ("write, 1 MiB", sequential, "write", MIB, depth),
            ("read, 1 MiB", sequential, "read", MIB, depth),
            ("mix 75/25, 4 KiB", random, "randrw", 4096, 32),
            ("mix 75/25, 64 KiB", random, "randrw", 64 << 10, 32),
        ] {
            let job = Job { key, access, pattern, block, depth };
            self.timed(export, key, || job.run(server, place, bytes, cell))?;
        }
        Ok(())
    }

    fn nbd(&mut self) -> Result {
        let server = self.open("nbd", &self.directory.join("scratch.socket"))?;
        self.jobs("nbd", &server, &server.place, [Access::Nbd, Access::Nbd])?;
        server.stop()
    }

    /// The raw file, and ext4 on it.
    fn raw(&mut self) -> Result {
        let server = self.open("raw", &self.directory.join("point"))?;
        self.jobs("raw", &server, &server.place, [Access::File, Access::Direct])?;
        let source = self.directory.join("source");
        for (key, sync) in [("dd, 64 KiB", false), ("dd, 64 KiB, synced", true)] {
            self.timed("raw", key, || dd(&server, &source, &server.place, sync))?;
        }
        if is_root() && Path::new("/dev/loop-control").exists() {
            let ext4 = Ext4::make(&server.place, &self.directory.join("ext4"))?;
            let file = ext4.point.join("file");
            self.jobs("ext4", &server, &file, [Access::File, Access::Direct])?;
            for (key, sync) in [("dd, 64 KiB", false), ("dd, 64 KiB, synced", true)] {
                self.timed("ext4", key, || dd(&server, &source, &file, sync))?;
            }
            self.timed("ext4", "copy with fsync", || copy(&server, &source, &ext4.point.join("copy")))?;
        }
        server.stop()
    }
}

/// ext4 on a loop device, until it is dropped.
struct Ext4 {
    device: String,
    point: PathBuf,
}

impl Ext4 {
    fn make(volume: &Path, point: &Path) -> Result<Self> {
        let run = |program: &str, arguments: &[&str], path: &Path| {
            let found = strongroom_harness::packages::find(program).unwrap_or_else(|| program.into());
            command::output(Command::new(found).args(arguments).arg(path), LIMIT)
        };
        let device = run("losetup", &["--find", "--show", "--direct-io=on"], volume)?.trim().to_owned();
        let ext4 = Self { device, point: point.to_path_buf() };
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], Path::new(&ext4.device))?;
        run("mount", &[&ext4.device], point)?;
        Ok(ext4)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = command::finish(Command::new("umount").arg(&self.point), LIMIT);
        let _ = command::finish(Command::new("losetup").args(["--detach", &self.device]), LIMIT);
        // The kernel lets go of the file a moment later.
        let name = self.device.trim_start_matches("/dev/").to_owned();
        let backing = PathBuf::from("/sys/block").join(name).join("loop");
        for _ in 0..500 {
            if !backing.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Adds a table for each export, and all figures.
pub(super) fn add(cells: &[Cell], document: &mut Document) {
    document.tables.extend(["nbd", "raw", "ext4"].into_iter().filter_map(|export| table(cells, export)));
    for cell in cells {
        let row = [cell.line().join(" | "), cell.work.to_owned()].join(" | ");
        document.sample(&row, cell.export, "bytes_per_second", vec![cell.sample.rate().round()]);
        document.sample(&row, cell.export, "cpu_seconds_per_gib", vec![cell.sample.cpu_per_gib()]);
    }
}

/// A line for each cipher, key and load, a column for each work; none of an export that was not measured.
fn table(cells: &[Cell], export: &str) -> Option<Table> {
    let here: Vec<&Cell> = cells.iter().filter(|cell| cell.export == export).collect();
    let (mut works, mut lines) = (Vec::new(), Vec::new());
    for cell in &here {
        if !works.contains(&cell.work) {
            works.push(cell.work);
        }
        if !lines.contains(&cell.line()) {
            lines.push(cell.line());
        }
    }
    let title = format!("Through {export}, MB/s (the server's CPU seconds per GiB)");
    let columns = [&["engine", "cipher", "key", "other load"], works.as_slice()].concat();
    let mut table = Table::new(export, title, &columns);
    for line in lines {
        let of = |work: &&str| {
            let found = here.iter().find(|cell| cell.work == *work && cell.line() == line);
            found.map_or_else(String::new, |Cell { sample, .. }| {
                format!("{:.0} ({:.2})", sample.rate() / 1e6, sample.cpu_per_gib())
            })
        };
        table.rows.push(line.iter().cloned().chain(works.iter().map(of)).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_for_each_export() {
        let cell = |export, work, busy| Cell {
            cipher: "c",
            key_bits: 256,
            engine: "cpu".into(),
            export,
            work,
            busy,
            sample: Sample { bytes: f64::from(1 << 30), seconds: 1.0, cpu_seconds: 0.5 },
        };
        let mut document = Document::new("disk", Vec::new());
        add(&[cell("nbd", "a", false), cell("nbd", "b", true), cell("raw", "a", false)], &mut document);
        let [nbd, raw] = document.tables.as_slice() else { panic!("{:?}", document.tables) };
        assert_eq!((nbd.name.as_str(), raw.name.as_str()), ("nbd", "raw"));
        assert_eq!(nbd.rows[0], ["cpu", "c", "256", "none", "1074 (0.50)", ""]);
        assert_eq!(nbd.rows[1], ["cpu", "c", "256", "one CPU", "", "1074 (0.50)"]);
        assert_eq!(document.samples.unwrap_or_default().len(), 6);
    }

    #[test]
    fn quick_is_a_part_of_all() {
        for (cipher, keys) in QUICK {
            assert!(
                ALL.iter().any(|(name, all)| *name == cipher && keys.iter().all(|key| all.contains(key)))
            );
        }
    }
}
