//! The vectors of the suites that are ours, `docs/format/suites.json`: every
//! engine computes them, and so does the program beside them, which knows the
//! document alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::HEXLOWER;
use serde_json::Value;
use strongroom_engine::{
    Algorithm, AssociatedData, Batch, Buffer, Engine, FreshNonce, Operation, Segment, StoredNonce, Tag,
    Verdict,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};

struct Vector {
    algorithm: Algorithm,
    key: Vec<u8>,
    nonce: [u8; 24],
    ad: Vec<u8>,
    plaintext: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Tag,
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format").join(name)
}

fn vectors() -> Vec<Vector> {
    let text = std::fs::read(beside("suites.json")).expect("the vectors are there");
    let listed: Vec<Value> = serde_json::from_slice(&text).expect("a list");
    let vectors = listed.iter().map(|vector| {
        let bytes = |name: &str| {
            let digits = vector[name].as_str().unwrap_or_else(|| panic!("{name} in {vector}"));
            HEXLOWER.decode(digits.as_bytes()).expect("hexadecimal digits")
        };
        Vector {
            algorithm: vector["suite"].as_str().and_then(|name| name.parse().ok()).expect("a suite"),
            key: bytes("key"),
            nonce: bytes("nonce").try_into().expect("24 bytes"),
            ad: bytes("ad"),
            plaintext: bytes("plaintext"),
            ciphertext: bytes("ciphertext"),
            tag: bytes("tag").try_into().expect("16 bytes"),
        }
    });
    vectors.collect()
}

/// The batch's buffer, and its one segment.
fn run(engine: &dyn Engine, vector: &Vector, operation: Operation, data: &[u8]) -> (Vec<u8>, Segment) {
    let session = engine.session(vector.algorithm, &vector.key).expect("every engine has it");
    let ad = AssociatedData::new(&vector.ad);
    let segment = match operation {
        Operation::Seal => Segment::seal(0, data.len(), FreshNonce::published(vector.nonce), ad),
        _ => Segment::open(0, data.len(), StoredNonce::new(vector.nonce), ad, vector.tag),
    };
    let batch = Batch::new(operation, Buffer::copy_of(data), vec![segment]);
    let ticket = engine.submit(&session, batch).map_err(|refused| refused.refusal).expect("a sound batch");
    let mut batch = ticket.wait().expect("an inline engine answers").batch;
    let segment = batch.segments.pop().expect("one");
    (batch.buffer.to_vec(), segment)
}

#[test]
fn every_engine_computes_the_vectors_of_our_suites() {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(ReferenceEngine)];
    for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        engines.push(Box::new(engine));
    }
    let vectors = vectors();
    for suite in ["serpent-256-poly1305", "cascade"] {
        let of_suite = vectors.iter().filter(|vector| vector.algorithm.to_string() == suite);
        assert!(of_suite.count() >= 6, "{suite}");
    }
    for engine in engines {
        for (number, vector) in vectors.iter().enumerate() {
            let what = format!("{}, vector {number}, {}", engine.name(), vector.algorithm);
            let (sealed, segment) = run(&*engine, vector, Operation::Seal, &vector.plaintext);
            assert_eq!((sealed, *segment.tag()), (vector.ciphertext.clone(), vector.tag), "{what}");
            let (opened, segment) = run(&*engine, vector, Operation::Open, &vector.ciphertext);
            assert_eq!((opened, segment.verdict()), (vector.plaintext.clone(), Verdict::Done), "{what}");
        }
    }
}

/// Where there is no Python, nothing is said: the vectors are checked above.
#[test]
fn the_program_beside_the_vectors_computes_them() {
    let Ok(output) = Command::new("python3").arg("-B").arg(beside("suites.py")).output() else {
        println!("there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
