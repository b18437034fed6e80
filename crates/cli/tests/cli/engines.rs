//! `engines`, `bench crypto` and `tune`, and what a mount makes of a profile.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::schemas;
use crate::support::{Place, Run, finish};

/// Runs the program with a state directory of this place.
fn run(place: &Place, line: &str) -> Run {
    let mut command = place.command(line.split_whitespace());
    command.env("XDG_STATE_HOME", place.path("state")).env("HOME", place.path("home"));
    finish(command.output().expect("setsid"))
}

#[test]
fn engines_are_listed_with_their_self_tests() {
    let place = Place::new();
    let document = run(&place, "engines --json").expect(0).document();
    let engines = document["engines"].as_array().expect("a list");
    let names: Vec<_> = engines.iter().filter_map(|engine| engine["name"].as_str()).collect();
    assert_eq!(names[..4], ["cpu-vaes", "cpu-aes", "cpu-portable", "reference"]);
    // Devices, or that there is none and what would give one.
    assert!(names[4..].iter().any(|name| name.starts_with("gpu")), "{names:?}");
    let best = engines.iter().find(|engine| engine["state"] == "used").expect("one computes");
    let algorithms = best["algorithms"].as_array().expect("a list");
    assert_eq!(algorithms.len(), 56);
    assert!(algorithms.iter().all(|algorithm| algorithm["self_test"] == "passed"), "{best}");
    let text = run(&place, "engines").expect(0).stdout;
    assert!(text.contains("self-tests passed") && text.contains("strongroom tune"), "{text}");
    let all = run(&place, "engines --all").expect(0).stdout;
    assert!(all.contains("camellia-cbc-essiv:sha256") && !text.contains("essiv"), "{all}");
}

#[test]
fn an_engine_that_there_is_not_is_refused() {
    let place = Place::new();
    for name in ["nosuch", "nosuch+qat:0"] {
        let refused = run(&place, &format!("engines --engine {name}")).expect(2);
        assert!(
            refused.stderr.contains(name) && refused.stderr.contains("cpu-portable"),
            "{}",
            refused.stderr
        );
    }
    run(&place, "engines --engine cpu-portable").expect(0);
}

#[test]
fn crypto_is_measured_in_three_forms() {
    let place = Place::new();
    let line = "bench crypto aes-xts --engine cpu --quick --key-size 512";
    let document = run(&place, &format!("{line} --size 512,4k --threads 1,2 --json")).expect(0).document();
    let results = document["results"].as_array().expect("a list");
    assert_eq!(results.len(), 4);
    assert!(
        results.iter().all(|row| row["encrypt"]["bytes_per_second"].as_f64() > Some(1e5)),
        "{document:#}"
    );
    let text = run(&place, line).expect(0).stdout;
    assert!(text.contains("aes-xts-plain64 | 512b |  64 KiB | cpu-"), "{text}");
    let csv = run(&place, &format!("{line} --csv")).expect(0).stdout;
    assert_eq!(csv.lines().count(), 2, "{csv}");
    for wrong in ["rot13", "--threads 0", "aes-xts --size 1000", "aes-xts --key-size 8", "--engine steam"] {
        run(&place, &format!("bench crypto {wrong} --json")).expect(2).error();
    }
}

#[test]
fn a_profile_is_kept_used_and_ignored_when_it_is_of_another_version() {
    let place = Place::new().vault();
    let dry = run(&place, "tune chacha20 --engine cpu-portable --seconds 1 --dry-run").expect(0).stdout;
    assert!(dry.contains("Nothing was kept") && dry.contains("cpu-portable alone"), "{dry}");
    assert!(!place.exists("state"));
    run(&place, "tune --engine steam").expect(2);
    run(&place, "tune aes-xts-essiv:sha256 --dry-run").expect(2);

    let document = run(&place, "tune xaes-256 --engine sim --seconds 1 --json").expect(0).document();
    schemas::validate(&document["profile"]);
    let profile = &document["profile"];
    assert_eq!(profile["break_even"].as_array().map(Vec::len), Some(2), "both directions");
    assert_eq!(profile["worthwhile"], profile["hardware"]["engines"]);
    let saved = PathBuf::from(document["saved"].as_str().expect("it is kept"));
    assert!(saved.starts_with(place.path("state")), "{saved:?}");

    let status = mounted_status(&place);
    assert_eq!(status["scheduler"]["profile_measured"], profile["measured"]);
    let of_suite = |found: &&Value| found["algorithm"] == "xaes-256-gcm";
    let expected: Vec<_> =
        profile["break_even"].as_array().expect("a list").iter().filter(of_suite).collect();
    assert_eq!(json!(expected), status["scheduler"]["break_even"]);
    let seal = expected.iter().find(|found| found["operation"] == "seal").expect("measured");
    assert_eq!(status["scheduler"]["alpha"], seal["alpha"].as_u64().unwrap_or(65535));

    let text = std::fs::read_to_string(&saved).expect("a file");
    std::fs::write(&saved, text.replace("strongroom.profile/1", "strongroom.profile/9")).expect("written");
    let status = mounted_status(&place);
    assert_eq!(status["scheduler"]["profile_measured"], Value::Null);
    assert_eq!(status["scheduler"]["alpha"], 12);
    let log = String::from_utf8(place.read("mount.log")).expect("UTF-8");
    assert!(log.contains("does not know `strongroom.profile/9`"), "{log}");
}

/// The status of the vault `v` while it is mounted with a simulated device.
fn mounted_status(place: &Place) -> Value {
    if !place.exists("m") {
        std::fs::create_dir(place.path("m")).expect("a directory");
    }
    run(place, "mount v m --engine sim --password-file password --log mount.log").expect(0);
    let asked = run(place, "status m --json");
    run(place, "umount m").expect(0);
    asked.expect(0).document()["mounts"][0].clone()
}
