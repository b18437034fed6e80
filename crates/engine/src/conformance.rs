//! The conformance suite that every engine passes, inline or not.
//!
//! For every algorithm that the engine claims it checks published vectors
//! (C2SP, IRTF drafts, RFCs, NIST, NESSIE, Wycheproof, IEEE), and, where the
//! reference engine has the algorithm too, equality with it
//! over lengths, alignments and associated data, that a batch equals its
//! segments one by one, that tampering with any byte is noticed and harms no
//! neighbour, and that the contract is kept: refusals leave data untouched,
//! threads and keys do not mix, bytes between segments stay as they are, batches
//! submitted together all come back, and the engine's buffers are like others.
//!
//! A failed check panics with the engine, algorithm and case. What the suite
//! does not do: measure speed, or test an engine's own life cycle.

mod contract;
mod equality;
mod exercise;
mod sector_vectors;
mod sectors;
mod tampering;
mod vectors;

use exercise::Exerciser;

use crate::{Aead, Algorithm, Engine, Operation, SectorCipher};

/// Runs the whole suite. A lost device is a failure.
///
/// # Panics
/// When the engine does not conform.
pub fn run(engine: &dyn Engine, reference: &dyn Engine) {
    run_all(
        Exerciser { engine, tolerate_loss: false },
        Exerciser { engine: reference, tolerate_loss: false },
    );
}

/// Runs the whole suite on an engine that loses batches: a lost or vanished
/// batch is submitted again from a copy.
///
/// # Panics
/// When the engine does not conform.
pub fn run_tolerating_loss(engine: &dyn Engine, reference: &dyn Engine) {
    run_all(Exerciser { engine, tolerate_loss: true }, Exerciser { engine: reference, tolerate_loss: false });
}

fn run_all(engine: Exerciser<'_>, reference: Exerciser<'_>) {
    let mut claimed = 0;
    for aead in Aead::ALL {
        let algorithm = Algorithm::Aead(aead);
        if !engine.claims_pair(algorithm, Operation::Seal, Operation::Open) {
            continue;
        }
        claimed += 1;
        vectors::published(engine, aead);
        vectors::wycheproof(engine, aead);
        tampering::every_byte(engine, algorithm);
        tampering::lengths_and_places(engine, algorithm);
        contract::keys(engine, algorithm);
        contract::buffers(engine, algorithm);
        if !reference.claims(algorithm, Operation::Seal) {
            continue;
        }
        equality::lengths_and_alignments(engine, reference, algorithm);
        equality::batch_equals_singles(engine, reference, algorithm);
        equality::many_prefixes(engine, reference, algorithm);
        equality::large(engine, reference, algorithm);
        if engine.claims(algorithm, Operation::Keystream) {
            equality::keystream(engine, reference, algorithm);
        }
        contract::refusals(engine, reference, algorithm);
        contract::together(engine, reference, algorithm);
        contract::threads(engine, reference, algorithm);
    }
    for sector in SectorCipher::all() {
        let algorithm = Algorithm::Sector(sector);
        if engine.claims_pair(algorithm, Operation::EncryptSectors, Operation::DecryptSectors) {
            claimed += 1;
            sectors::all(engine, reference, sector);
        }
    }
    assert!(claimed > 0, "{}: claims no algorithm", engine.engine.name());
}
