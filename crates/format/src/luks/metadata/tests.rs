//! Documents as the specification spells them, and broken ones.

use super::*;
use serde_json::json;

const HEADER: u64 = 0x4000;

fn segment() -> Segment {
    Segment {
        offset: 16 << 20,
        size: None,
        iv_tweak: 0,
        encryption: CipherSpec::parse("aes-xts-plain64").expect("well spelled"),
        sector_size: 4096,
    }
}

fn keyslot(offset: u64) -> Keyslot {
    Keyslot {
        key_size: 64,
        af_hash: Hash::Sha256,
        area: Area {
            offset,
            size: 258_048,
            encryption: CipherSpec::parse("aes-xts-plain64").expect("well spelled"),
            key_size: 64,
        },
        kdf: Kdf::pbkdf2(Hash::Sha256, 1000).expect("in bounds"),
        salt: vec![1; 32],
        priority: 1,
    }
}

fn sample() -> Metadata {
    let config = Config { json_size: 12_288, keyslots_size: 16_744_448 };
    let mut metadata = Metadata::new(config, &segment());
    let digest = Digest {
        keyslots: Vec::new(),
        segments: vec![0],
        hash: Hash::Sha256,
        iterations: 1000,
        salt: vec![2; 32],
        digest: vec![3; 32],
    };
    metadata.set_digest(0, &digest);
    metadata.set_keyslot(0, &keyslot(32_768), 0);
    metadata
}

/// A sample as text, changed.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Metadata, FormatError> {
    let mut value = Value::Object(sample().document);
    change(&mut value);
    let mut bytes = serde_json::to_vec(&value).expect("JSON");
    bytes.resize(12_288, 0);
    Metadata::decode(&bytes, HEADER)
}

fn unsupported(outcome: Result<Metadata, FormatError>, name: &str) -> bool {
    outcome.is_err_and(|error| error.is_unsupported() && error.to_string().contains(name))
}

#[test]
fn documents_come_back() {
    let metadata = sample();
    let bytes = metadata.encode().expect("it fits");
    assert_eq!(bytes.len(), 12_288);
    assert_eq!(Metadata::decode(&bytes, HEADER), Ok(metadata));
}

#[test]
fn what_is_not_known_is_kept() {
    let token = json!({"type": "systemd-tpm2", "keyslots": ["0"], "blob": [1, {"a": [null, 1.5]}]});
    let mut metadata = changed(|value| {
        value["tokens"]["7"] = token.clone();
        value["keyslots"]["0"]["later"] = json!({"x": "y"});
        value["config"]["flags"] = json!(["allow-discards"]);
        value["digests"]["5"] = json!({"type": "new", "keyslots": [], "segments": [], "z": 1});
    })
    .expect("sound");
    assert_eq!(metadata.tokens(), [(7, "systemd-tpm2".to_owned())]);
    metadata.set_keyslot(3, &keyslot(32_768 + 258_048), 0);
    let again = Metadata::decode(&metadata.encode().expect("it fits"), HEADER).expect("sound");
    assert_eq!(again.document["tokens"]["7"], token);
    assert_eq!(again.document["keyslots"]["0"]["later"]["x"], "y");
    assert_eq!(again.document["config"]["flags"][0], "allow-discards");
    assert_eq!(again.document["digests"]["5"]["z"], 1);
    assert_eq!(again.digests()[&0].keyslots, [0, 3]);
    metadata.remove_keyslot(0);
    assert_eq!(metadata.document["tokens"]["7"]["keyslots"], json!([]));
    assert_eq!(metadata.document["tokens"]["7"]["blob"], token["blob"]);
    assert_eq!(metadata.digests()[&0].keyslots, [3]);
}

#[test]
fn a_slot_of_an_unknown_type_keeps_its_area() {
    let metadata = changed(|value| {
        value["keyslots"]["1"] =
            json!({"type": "vendor", "area": {"type": "x", "offset": "290816", "size": "4096"}});
    })
    .expect("sound");
    assert!(metadata.has_keyslot(1) && !metadata.keyslots().contains_key(&1));
    assert_eq!(metadata.free_keyslot(), Some(2));
    assert_eq!(metadata.free_area(HEADER, 258_048), Some(294_912));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for name in ["online-reencrypt-v2", "opal", "inline-hw-tags", "something-new"] {
        let refused = changed(|value| value["config"]["requirements"] = json!({"mandatory": [name]}));
        assert!(unsupported(refused, name), "{name}");
    }
    assert!(changed(|value| value["config"]["requirements"] = json!({"mandatory": []})).is_ok());
    let refused = changed(|value| value["segments"]["0"]["integrity"] = json!({"type": "hmac(sha256)"}));
    assert!(unsupported(refused, "dm-integrity"));
    let refused = changed(|value| value["segments"]["0"]["type"] = json!("hw-opal"));
    assert!(unsupported(refused, "hw-opal"));
    let refused = changed(|value| value["segments"]["0"]["type"] = json!("linear"));
    assert!(unsupported(refused, "reencryption"));
    let refused = changed(|value| value["segments"]["0"]["flags"] = json!(["in-reencryption"]));
    assert!(unsupported(refused, "in-reencryption"));
    let refused = changed(|value| value["keyslots"]["1"] = json!({"type": "reencrypt"}));
    assert!(unsupported(refused, "reencrypt"));
    let refused = changed(|value| value["keyslots"]["0"]["kdf"]["type"] = json!("scrypt"));
    assert!(unsupported(refused, "scrypt"));
}

#[test]
fn broken_documents_are_refused() {
    type Case = (&'static str, fn(&mut Value));
    let cases: [Case; 16] = [
        ("slot number", |v| v["keyslots"]["32"] = v["keyslots"]["0"].clone()),
        ("slot name", |v| v["keyslots"]["01"] = v["keyslots"]["0"].clone()),
        ("no config", |v| drop(v.as_object_mut().unwrap().remove("config"))),
        ("no tokens", |v| drop(v.as_object_mut().unwrap().remove("tokens"))),
        ("json size", |v| v["config"]["json_size"] = json!("12289")),
        ("slots size", |v| v["config"]["keyslots_size"] = json!("99999999999")),
        ("sign", |v| v["config"]["keyslots_size"] = json!("+16744448")),
        ("area in header", |v| v["keyslots"]["0"]["area"]["offset"] = json!("28672")),
        ("area far out", |v| v["keyslots"]["0"]["area"]["offset"] = json!("18446744073709547520")),
        ("area small", |v| v["keyslots"]["0"]["area"]["size"] = json!("4096")),
        ("overlap", |v| v["keyslots"]["1"] = v["keyslots"]["0"].clone()),
        ("memory", |v| {
            v["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2id", "time": 4, "memory": 99_999_999, "cpus": 1, "salt": "AAAA"});
        }),
        ("iterations", |v| v["keyslots"]["0"]["kdf"]["iterations"] = json!(4_000_000_000u64)),
        ("salt", |v| v["keyslots"]["0"]["kdf"]["salt"] = json!("*")),
        ("sector size", |v| v["segments"]["0"]["sector_size"] = json!(1536)),
        ("segment link", |v| v["digests"]["0"]["segments"] = json!(["4"])),
    ];
    for (what, change) in cases {
        assert!(changed(change).is_err(), "{what}");
    }
}

#[test]
fn a_salt_too_short_for_argon2_is_named() {
    let with_salt = |salt: &str| {
        changed(|value| {
            value["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2id", "time": 4, "memory": 64, "cpus": 1, "salt": salt});
        })
    };
    assert!(with_salt("AAAAAAAAAAA=").is_ok(), "8 bytes");
    let error = with_salt("AAAAAAAAAA==").expect_err("7 bytes");
    assert!(error.to_string().contains("salt of Argon2"), "{error}");
}

#[test]
fn size_and_depth_have_bounds() {
    let parse = |text: &[u8]| {
        let mut bytes = text.to_vec();
        bytes.resize(12_288, 0);
        Metadata::decode(&bytes, HEADER)
    };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(6000), "]".repeat(6000));
    assert_eq!(
        parse(deep.as_bytes()),
        Err(FormatError::Inconsistent { what: "the JSON area is nested too deeply" })
    );
    assert!(parse(b"[[[").is_err() && parse(b"").is_err() && parse(b"null").is_err());
    assert!(Metadata::decode(&[b' '; 12_288], HEADER).is_err(), "no end");
    let mut bytes = sample().encode().expect("it fits");
    bytes[12_287] = 1;
    assert!(Metadata::decode(&bytes, HEADER).is_err(), "bytes behind the end");
    let full = changed(|value| value["tokens"]["0"] = json!({"type": "x", "text": "y".repeat(12_000)}));
    assert!(full.is_err(), "longer than the area");
}

#[test]
fn free_areas_are_found() {
    let mut metadata = sample();
    assert_eq!(metadata.free_area(HEADER, 258_048), Some(290_816));
    assert_eq!(metadata.free_area(HEADER, 1 << 30), None);
    metadata.remove_keyslot(0);
    assert_eq!(metadata.free_area(HEADER, 258_048), Some(32_768));
}
