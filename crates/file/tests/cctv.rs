//! The test vectors of C2SP (CCTV, `c2sp.org/CCTV/age`), read from the directory
//! that `STRONGROOM_CCTV_AGE` names, or else from the sources of the `age`
//! crate, which has those of its time and is there where this compiles.
//!
//! `cargo xtask age` runs this on both sources: the Go module has the newest.

mod support;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::identities::Identities;
use strongroom_file::{Error, Input, Job, NoCallbacks, Output, decrypt};
use support::Kept;

fn directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("STRONGROOM_CCTV_AGE") {
        return Some(PathBuf::from(named));
    }
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates =
        registries.filter_map(|registry| std::fs::read_dir(registry.path()).ok()).flatten().flatten();
    let of_age = crates.map(|found| found.path().join("tests/testdata/testkit"));
    let mut found: Vec<_> = of_age.filter(|path| path.is_dir()).collect();
    found.sort();
    found.pop()
}

struct Vector {
    expect: String,
    payload: Option<String>,
    identities: Identities,
    file: Vec<u8>,
}

fn parse(bytes: &[u8]) -> Vector {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").expect("an empty line");
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    let mut vector = Vector {
        expect: String::new(),
        payload: None,
        identities: Identities::new(),
        file: bytes[end + 2..].to_vec(),
    };
    for line in head.lines() {
        let (key, value) = line.split_once(": ").expect("key and value");
        match key {
            "expect" => vector.expect = value.to_owned(),
            "payload" => vector.payload = Some(value.to_owned()),
            "identity" => vector.identities.push_file(value, "identity", NoCallbacks).expect("an identity"),
            "passphrase" => vector.identities.push_passphrase(value.to_owned().into()),
            "compressed" => {
                let mut plain = Vec::new();
                flate2::read::ZlibDecoder::new(&vector.file[..]).read_to_end(&mut plain).expect("zlib");
                vector.file = plain;
            }
            "armored" | "file key" | "comment" => {}
            other => panic!("unknown key {other}"),
        }
    }
    vector
}

fn kind_of(result: &Result<u64, Error>) -> &'static str {
    match result {
        Ok(_) => "success",
        Err(Error::WrongKey | Error::NoKey | Error::NoPassphrase) => "no match",
        Err(Error::HeaderForged) => "HMAC failure",
        Err(Error::Header(_) | Error::Unsupported(_)) => "header failure",
        Err(Error::Armor(_)) => "armor failure",
        Err(Error::Payload { .. }) => "payload failure",
        Err(_) => "another failure",
    }
}

fn run(vector: &Vector, input: Input) -> (Result<u64, Error>, String) {
    let released = Kept::default();
    let job = Job { engine: Arc::new(CpuEngine::new()), threads: 3, progress: &|_| {} };
    let result = decrypt(&job, &vector.identities, input, Output::Stream(Box::new(released.clone())));
    let hash = Sha256::digest(released.bytes());
    (result, data_encoding::HEXLOWER.encode(&hash))
}

#[test]
fn every_vector_ends_as_it_says() {
    let directory = directory().expect("the sources of the age crate, or STRONGROOM_CCTV_AGE");
    let mut faults = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&directory).expect("a directory").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let vector = parse(&std::fs::read(entry.path()).expect("readable"));
        let mut file: File = tempfile::tempfile().expect("a file");
        file.write_all(&vector.file).and_then(|()| file.rewind()).expect("written");
        let stream = Input::Stream(Box::new(std::io::Cursor::new(vector.file.clone())));
        for (how, input) in [("stream", stream), ("file", Input::File(file))] {
            let (result, hash) = run(&vector, input);
            let kind = kind_of(&result);
            if kind != vector.expect || vector.payload.as_ref().is_some_and(|expected| *expected != hash) {
                faults
                    .push(format!("{name} ({how}): {kind} instead of {}: {result:?}, {hash}", vector.expect));
            }
        }
        count += 1;
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count >= 123, "only {count} vectors");
    println!("{count} vectors");
}
