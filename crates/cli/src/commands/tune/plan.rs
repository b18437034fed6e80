//! What `tune` measures: `docs/profile.md` has the same as a table.

use std::sync::Arc;

use strongroom_bench::{Case, operations};
use strongroom_engine::{Algorithm, Engine, Operation};

/// Sizes of a batch.
pub(super) const SIZES: [usize; 7] = [512, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Those that stand for all where only the order of magnitude matters.
pub(super) const TYPICAL: [usize; 2] = [4 << 10, 64 << 10];
/// Batches in flight on a device, besides one.
pub(super) const DEPTHS: [usize; 3] = [4, 16, 64];
/// Blocks, as vaults have them by default.
const BLOCK: usize = 4 << 10;

/// One measurement.
pub(super) struct Item {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) case: Case,
    pub(super) loaded: bool,
}

/// Whether the engine computes on the caller's thread.
pub(super) fn is_inline(engine: &Arc<dyn Engine>, algorithm: Algorithm) -> bool {
    let capability = engine.capability(algorithm, operations(algorithm)[0]);
    capability.is_none_or(|capability| capability.inline)
}

/// Everything, what needs a loaded machine at the end.
pub(super) fn items(engines: &[Arc<dyn Engine>], algorithms: &[Algorithm], cpus: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for engine in engines {
        for &algorithm in algorithms {
            for operation in operations(algorithm) {
                if engine.capability(algorithm, operation).is_some() {
                    items.extend(of_operation(engine, algorithm, operation, cpus));
                }
            }
        }
    }
    // Stable: engines and algorithms stay in their order.
    items.sort_by_key(|item| item.loaded);
    items
}

fn of_operation(
    engine: &Arc<dyn Engine>,
    algorithm: Algorithm,
    operation: Operation,
    cpus: usize,
) -> impl Iterator<Item = Item> {
    let key_len = algorithm.key_lens().last().copied().expect("every algorithm has a key");
    let inline = is_inline(engine, algorithm);
    // A disk's request is one segment, whose sectors an engine may compute side by side.
    let is_sectors = matches!(algorithm, Algorithm::Sector(_));
    let item = {
        let engine = Arc::clone(engine);
        move |bytes: usize, threads: usize, in_flight: usize, loaded: bool| Item {
            engine: Arc::clone(&engine),
            case: Case {
                algorithm,
                key_len,
                operation,
                bytes,
                segment_bytes: if is_sectors { bytes } else { BLOCK },
                sector_bytes: 4096,
                threads,
                in_flight,
            },
            loaded,
        }
    };
    let mut items: Vec<Item> = SIZES.iter().map(|bytes| item(*bytes, 1, 1, false)).collect();
    if inline {
        let together = TYPICAL.iter().filter(|_| cpus > 1);
        items.extend(together.map(|bytes| item(*bytes, cpus, 1, false)));
    } else {
        for depth in DEPTHS {
            items.extend(SIZES.iter().map(|bytes| item(*bytes, 1, depth, false)));
        }
    }
    items.extend(TYPICAL.iter().map(|bytes| item(*bytes, 1, 1, true)));
    items.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_those_of_the_document() {
        let row: Vec<String> = SIZES.iter().map(|size| crate::report::bytes(*size as u64)).collect();
        let document = crate::profile::tests::document();
        assert!(document.contains(&format!("| sizes of a batch | {}, in blocks of", row.join(", "))));
        let depths: Vec<String> = DEPTHS.iter().map(ToString::to_string).collect();
        let (last, first) = depths.split_last().expect("some");
        assert!(document.contains(&format!("with {} and {last} batches in flight", first.join(", "))));
    }

    #[test]
    fn batches_are_those_of_disks_and_vaults() {
        let engines = crate::compose::engines(Some("cpu")).expect("known");
        for (name, segments) in [("aes-cbc-plain64", 1), ("aes-256-gcm", 16)] {
            let items = items(&engines, &[name.parse().expect("known")], 1);
            let large = items.iter().find(|item| item.case.bytes == 64 << 10).expect("measured");
            assert_eq!(large.case.bytes / large.case.segment_bytes, segments, "{name}");
        }
    }

    #[test]
    fn the_plan_is_that_of_the_document() {
        let engines = crate::compose::engines(Some("sim")).expect("known");
        let items = items(&engines, &["aes-256-gcm".parse().expect("known")], 2);
        let of = |name: &str| {
            let algorithm: Algorithm = "aes-256-gcm".parse().expect("known");
            let found = items.iter().filter(|item| {
                item.engine.name().starts_with(name)
                    && item.case.algorithm == algorithm
                    && item.case.operation == Operation::Seal
            });
            found.map(|item| (item.case.threads, item.case.in_flight, item.loaded)).collect::<Vec<_>>()
        };
        assert_eq!(of("cpu").len(), 7 + 2 + 2);
        assert_eq!(of("sim").len(), 7 + 3 * 7 + 2);
        assert!(of("sim").contains(&(1, 64, false)) && of("cpu").contains(&(2, 1, false)));
        let first_loaded = items.iter().position(|item| item.loaded).expect("some are");
        assert!(items[first_loaded..].iter().all(|item| item.loaded));
    }
}
