//! Prints what each engine does with each sector cipher in memory, as `cryptsetup benchmark` does: one line
//! for each, with blanks between engine, cipher, bits of the key, `encrypt` or `decrypt`, and bytes in a second.
//!
//! ```text
//! cargo run --release -p strongroom-disk --example memory -- [MILLISECONDS [ENGINE [CIPHER]]]
//! ```
//!
//! One thread, batches of 64 KiB in sectors of 512 bytes that stay in cache; the median of many short samples,
//! so that other work on the machine disturbs little. Names may be parts of names.

use std::sync::Arc;
use std::time::Duration;

use strongroom_bench::{Case, Effort, measure, operations};
use strongroom_engine::{Algorithm, Engine, SectorCipher, SectorMode};
use strongroom_engine_cpu::{CpuEngine, Tier};

const BATCH_LEN: usize = 64 << 10;
/// Time of a sample: far below the system's time slices, so that other work falls into few of them.
const SAMPLE: Duration = Duration::from_micros(500);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let time = Duration::from_millis(arguments.next().and_then(|text| text.parse().ok()).unwrap_or(50));
    let (name, cipher) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let samples = time.as_micros().div_ceil(SAMPLE.as_micros()) as usize;
    let effort = Effort { sample: SAMPLE, samples, limit: 4 * time };
    for tier in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        let engine: Arc<dyn Engine> = Arc::new(tier);
        if !engine.name().contains(&name) {
            continue;
        }
        for known in ciphers().filter(|known| known.to_string().contains(&cipher)) {
            let algorithm = Algorithm::Sector(known);
            // Keys of a length in between are as fast as those around them.
            let lens = algorithm.key_lens();
            for key_len in [lens[0], lens[lens.len() - 1]] {
                for (operation, direction) in operations(algorithm).into_iter().zip(["encrypt", "decrypt"]) {
                    let case = Case {
                        algorithm,
                        key_len,
                        operation,
                        bytes: BATCH_LEN,
                        segment_bytes: BATCH_LEN,
                        sector_bytes: 512,
                        threads: 1,
                        in_flight: 1,
                    };
                    let figure = measure(&engine, case, effort).expect("an engine has every sector cipher");
                    let rate = figure.bytes_per_second.median;
                    println!("{} {known} {} {direction} {rate:.0}", engine.name(), key_len * 8);
                }
            }
        }
    }
}

/// Those that a LUKS header can name.
fn ciphers() -> impl Iterator<Item = SectorCipher> {
    SectorCipher::all().filter(|cipher| {
        let name = cipher.to_string();
        let spec = strongroom_format::luks::CipherSpec::parse(&name);
        let is_pair = cipher.mode == SectorMode::Cbc || !name.contains("essiv");
        is_pair && spec.is_ok_and(|spec| strongroom_disk::cipher::algorithm(&spec).is_some())
    })
}
