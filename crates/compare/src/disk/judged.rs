//! The exports against qemu-nbd, nbdkit and unencrypted FUSE: each row in interleaved pairs, its ratio the median
//! of the pairs'.

use std::fs::{self, File};
use std::path::Path;

use super::Plan;
use super::server::{Programs, Server};
use super::work::{Access, Job, Sample, fill};
use crate::result::{Document, Table};
use crate::statistics::median;
use strongroom_harness::failure::Result;
use strongroom_harness::random::Random;

const MIB: u32 = 1 << 20;

const fn job(key: &'static str, access: Access, pattern: &'static str, block: u32, depth: u32) -> Job {
    Job { key, access, pattern, block, depth }
}

const NBD: [Job; 6] = [
    job("read, 1 MiB", Access::Nbd, "read", MIB, 1),
    job("write, 1 MiB", Access::Nbd, "write", MIB, 1),
    job("read, 1 MiB, depth 4", Access::Nbd, "read", MIB, 4),
    job("write, 1 MiB, depth 4", Access::Nbd, "write", MIB, 4),
    job("random read, 4 KiB, depth 32", Access::Nbd, "randread", 4096, 32),
    job("random write, 4 KiB, depth 32", Access::Nbd, "randwrite", 4096, 32),
];

const RAW: [Job; 6] = [
    job("read, 1 MiB", Access::File, "read", MIB, 1),
    job("write, 1 MiB", Access::File, "write", MIB, 1),
    job("direct read, 1 MiB, depth 4", Access::Direct, "read", MIB, 4),
    job("direct write, 1 MiB, depth 4", Access::Direct, "write", MIB, 4),
    job("direct random read, 4 KiB, depth 32", Access::Direct, "randread", 4096, 32),
    job("direct random write, 4 KiB, depth 32", Access::Direct, "randwrite", 4096, 32),
];

/// A row against one peer.
pub(super) struct Judged {
    cipher: &'static str,
    work: &'static str,
    peer: &'static str,
    floor: f64,
    ours: Vec<Sample>,
    theirs: Vec<Sample>,
}

impl Judged {
    pub(super) fn name(&self) -> String {
        format!("{} {} against {}", self.cipher, self.work, self.peer)
    }

    fn ratios(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours.rate() / theirs.rate()).collect()
    }

    fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    pub(super) fn is_met(&self) -> bool {
        self.ratio() >= self.floor
    }
}

/// A peer, and what is asked of our side for sequential and for random work.
struct Peer {
    name: &'static str,
    server: Server,
    floors: (f64, f64),
}

/// Judges the NBD server against other programs', cipher by cipher.
///
/// # Errors
/// A program that is missing or fails.
pub(super) fn nbd(programs: &Programs, plan: &Plan, directory: &Path) -> Result<Vec<Judged>> {
    let data = directory.join("data");
    let mut bytes = vec![0; plan.bytes as usize];
    Random::new(6).fill(&mut bytes);
    fs::write(&data, bytes)?;
    let mut rows = Vec::new();
    for (cipher, qemu) in [
        ("aes-xts-plain64", (1.5, 1.5)),
        ("serpent-xts-plain64", (4.0, 4.0)),
        ("twofish-xts-plain64", (1.5, 1.5)),
    ] {
        if cipher.contains(&plan.cipher) {
            of_cipher(programs, plan, directory, cipher, qemu, &mut rows)?;
        }
    }
    fs::remove_file(&data)?;
    Ok(rows)
}

fn of_cipher(
    programs: &Programs,
    plan: &Plan,
    directory: &Path,
    cipher: &'static str,
    qemu: (f64, f64),
    rows: &mut Vec<Judged>,
) -> Result {
    println!("judging {cipher} through NBD");
    let images = ["ours", "qemu", "nbdkit"].map(|name| directory.join(name));
    programs.luks1(directory, "ours", cipher, plan.bytes)?;
    fs::copy(&images[0], &images[1])?;
    let socket = |name: &str| directory.join(format!("{name}.socket"));
    let ours = Server::of_luks(programs, &images[0], ("nbd", &socket("ours")))?;
    let mut peers =
        vec![Peer { name: "qemu-nbd", server: Server::qemu(&images[1], &socket("qemu"))?, floors: qemu }];
    if cipher.starts_with("aes") {
        // Its filter has AES alone.
        fs::copy(&images[1], &images[2])?;
        let server = Server::nbdkit(&images[2], &socket("nbdkit"))?;
        peers.push(Peer { name: "nbdkit", server, floors: (2.0, 1.5) });
    }
    for server in std::iter::once(&ours).chain(peers.iter().map(|peer| &peer.server)) {
        fill(server, &directory.join("data"))?;
    }
    judge(cipher, &NBD, plan, &ours, &peers, rows)?;
    for server in peers.into_iter().map(|peer| peer.server).chain([ours]) {
        server.stop()?;
    }
    images.iter().for_each(|image| drop(fs::remove_file(image)));
    Ok(())
}

/// Judges the raw file against the same layer without encryption.
///
/// # Errors
/// A program that is missing or fails.
pub(super) fn raw(programs: &Programs, plan: &Plan, directory: &Path) -> Result<Vec<Judged>> {
    let mut rows = Vec::new();
    println!("judging aes-xts-plain64 through the raw file");
    let points = [directory.join("point"), directory.join("clear")];
    for point in &points {
        fs::create_dir(point)?;
    }
    let images = [directory.join("image"), directory.join("plain")];
    programs.luks1(directory, "image", "aes-xts-plain64", plan.bytes)?;
    File::create(&images[1])?.set_len(plan.bytes)?;
    let ours = Server::of_luks(programs, &images[0], ("raw", &points[0]))?;
    let clear = Server::clear(programs, &images[1], &points[1])?;
    let peers = [Peer { name: "unencrypted FUSE", server: clear, floors: (0.9, 0.9) }];
    for server in [&ours, &peers[0].server] {
        // Every block is there before it is timed.
        RAW[1].run(server, &server.place, plan.bytes, plan.cell)?;
    }
    judge("aes-xts-plain64", &RAW, plan, &ours, &peers, &mut rows)?;
    for server in peers.into_iter().map(|peer| peer.server).chain([ours]) {
        server.stop()?;
    }
    images.iter().for_each(|image| drop(fs::remove_file(image)));
    Ok(rows)
}

/// Runs every job on ours and on each peer in turn; every second time in the other order.
fn judge(
    cipher: &'static str,
    jobs: &[Job],
    plan: &Plan,
    ours: &Server,
    peers: &[Peer],
    rows: &mut Vec<Judged>,
) -> Result {
    for job in jobs {
        let floor = |peer: &Peer| if job.block < MIB { peer.floors.1 } else { peer.floors.0 };
        let mut of_job: Vec<Judged> = peers
            .iter()
            .map(|peer| Judged {
                cipher,
                work: job.key,
                peer: peer.name,
                floor: floor(peer),
                ours: Vec::new(),
                theirs: Vec::new(),
            })
            .collect();
        let sample = |server: &Server| job.run(server, &server.place, plan.bytes, plan.cell);
        for pair in 0..plan.pairs {
            for (peer, row) in peers.iter().zip(&mut of_job) {
                if pair % 2 == 0 {
                    row.ours.push(sample(ours)?);
                    row.theirs.push(sample(&peer.server)?);
                } else {
                    row.theirs.push(sample(&peer.server)?);
                    row.ours.push(sample(ours)?);
                }
            }
        }
        for row in &of_job {
            println!(
                "  {}: {:.2} ({})",
                row.name(),
                row.ratio(),
                if row.is_met() { "met" } else { "missed" }
            );
        }
        rows.append(&mut of_job);
    }
    Ok(())
}

/// Adds the table and the samples of all pairs.
pub(super) fn add(rows: &[Judged], plan: &Plan, document: &mut Document) {
    document.tables.push(table(rows, plan));
    for row in rows {
        let name = format!("{} | {} | {}", row.cipher, row.work, row.peer);
        for (side, samples) in [("strongroom", &row.ours), (row.peer, &row.theirs)] {
            let rates = samples.iter().map(|sample| sample.rate().round()).collect();
            document.sample(&name, side, "bytes_per_second", rates);
            let cpu = samples.iter().map(Sample::cpu_per_gib).collect();
            document.sample(&name, side, "cpu_seconds_per_gib", cpu);
        }
    }
}

/// A line for each row: medians, the ratio between its least and its most, and what was asked.
fn table(rows: &[Judged], plan: &Plan) -> Table {
    let title = format!(
        "Images of {} MiB, {} pairs: medians, and the least and most ratio of a pair",
        plan.bytes >> 20,
        plan.pairs
    );
    let columns = [
        "cipher",
        "work",
        "peer",
        "ours, MB/s (CPU s per GiB)",
        "peer, MB/s (CPU s per GiB)",
        "ratio, least to most",
        "asked",
    ];
    let mut table = Table::new("judged", title, &columns);
    for row in rows {
        let side = |samples: &[Sample]| {
            let rates: Vec<f64> = samples.iter().map(|sample| sample.rate() / 1e6).collect();
            let cpu: Vec<f64> = samples.iter().map(Sample::cpu_per_gib).collect();
            format!("{:.0} ({:.2})", median(&rates), median(&cpu))
        };
        let ratios = row.ratios();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let mark = if row.is_met() { "" } else { ", **missed**" };
        table.push([
            row.cipher.into(),
            row.work.into(),
            row.peer.into(),
            side(&row.ours),
            side(&row.theirs),
            format!("{:.2} ({least:.2} to {most:.2})", row.ratio()),
            format!("{}{mark}", row.floor),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_below_its_floor_is_missed() {
        let sample = |bytes| Sample { bytes, seconds: 1.0, cpu_seconds: 0.1 };
        let row = |floor| Judged {
            cipher: "c",
            work: "w",
            peer: "p",
            floor,
            ours: [30.0, 40.0, 10.0].map(sample).to_vec(),
            theirs: [10.0, 20.0, 10.0].map(sample).to_vec(),
        };
        assert!(row(2.0).is_met() && !row(2.1).is_met());
        let plan = Plan {
            quick: false,
            pairs: 3,
            bytes: 1 << 20,
            cell: Default::default(),
            cipher: String::new(),
            engines: Vec::new(),
        };
        let mut document = Document::new("disk", Vec::new());
        add(&[row(2.1), row(2.0)], &plan, &mut document);
        let asked = document.tables[0].rows.iter().map(|row| row[5..].join(" | ")).collect::<Vec<_>>();
        assert_eq!(asked, ["2.00 (1.00 to 3.00) | 2.1, **missed**", "2.00 (1.00 to 3.00) | 2"]);
        assert_eq!(document.samples.unwrap_or_default().len(), 8);
    }
}
