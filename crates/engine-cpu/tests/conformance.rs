//! Every engine of this crate passes the conformance suite, directly and
//! behind an engine that is late, busy and loses work.

use std::sync::Arc;

use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{
    Algorithm, BlockCipher, Engine, Operation, SectorCipher, SectorIv, SectorMode, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};

/// The tier's engine where the CPU has it.
fn conforms(tier: Tier) {
    match CpuEngine::of_tier(tier) {
        Some(engine) => {
            assert_eq!(engine.refused(), []);
            conformance::run(&engine, &ReferenceEngine);
        }
        None => println!("{}: this CPU lacks {}", tier.engine_name(), tier.requirement()),
    }
}

#[test]
fn vector_aes() {
    conforms(Tier::VectorAes);
}

#[test]
fn aes() {
    conforms(Tier::Aes);
}

#[test]
fn portable() {
    conforms(Tier::Portable);
}

/// What makes a tier a real alternative.
#[test]
fn every_tier_has_the_suite_of_vaults_and_the_modes_of_disks() {
    for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        let aeads = [
            "xaes-256-gcm",
            "xchacha20-poly1305",
            "aes-256-gcm",
            "chacha20-poly1305",
            "serpent-256-poly1305",
            "cascade",
        ];
        for aead in aeads {
            let algorithm: Algorithm = aead.parse().expect("a known name");
            assert!(engine.capability(algorithm, Operation::Seal).is_some(), "{} {aead}", engine.name());
        }
        for sector in SectorCipher::all() {
            let algorithm = Algorithm::Sector(sector);
            assert!(engine.capability(algorithm, Operation::EncryptSectors).is_some(), "{sector}");
        }
        let ctr = SectorCipher::new(BlockCipher::Aes, SectorMode::Ctr, SectorIv::Plain64);
        assert!(engine.session(Algorithm::Sector(ctr), &[1; 32]).is_ok());
    }
}

#[test]
fn reference() {
    conformance::run(&ReferenceEngine, &CpuEngine::new());
}

#[test]
fn unruly_over_cpu() {
    let engine = UnrulyEngine::new(Arc::new(CpuEngine::new()), 1, Faults::harmless());
    conformance::run(&engine, &ReferenceEngine);
}

#[test]
fn lossy_over_cpu() {
    let engine = UnrulyEngine::new(Arc::new(CpuEngine::new()), 2, Faults::lossy());
    conformance::run_tolerating_loss(&engine, &ReferenceEngine);
}
