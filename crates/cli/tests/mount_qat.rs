//! Mounts whose cryptography an instance of QATlib computes, which a library of ours plays: sound, and one that
//! lies, stalls, or restarts under them. No hardware is in it. They need `/dev/fuse`, and root or `fusermount3`.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use strongroom_mock_qat::{DIALS, Dials};
use support::device::Served;
use support::{Place, assert_fails_with, assert_success, program};
use tempfile::TempDir;

/// Requests with which nothing goes wrong: the engine's own tests, and the beginning of a mount.
const SOUND: u64 = 200;

/// The library under the names of QATlib, in a directory of its own.
fn library(dials: &Dials) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    // What cargo has built beside this test.
    let built = std::env::current_exe().expect("this program").with_file_name("libstrongroom_mock_qat.so");
    fs::copy(&built, at("libqat.so.4")).unwrap_or_else(|_| panic!("{} is built", built.display()));
    symlink("libqat.so.4", at("libusdm.so.0")).expect("a second name");
    fs::write(at(DIALS), dials.text()).expect("written");
    directory
}

fn with<'a>(library: &TempDir, command: &'a mut Command) -> &'a mut Command {
    command.env("LD_LIBRARY_PATH", library.path())
}

/// A vault that is mounted on an instance.
fn mounted(library: &TempDir) -> Served {
    Served::mount("qat:0", |mounting| {
        with(library, mounting);
    })
}

#[test]
fn a_folder_is_served_by_an_instance() {
    mounted(&library(&Dials::default())).serves_all();
}

#[test]
fn an_instance_that_lies_under_a_mount_is_quarantined_and_harms_no_byte() {
    let library = library(&Dials { sound: SOUND, wrong_ppm: 20_000, ..Dials::default() });
    mounted(&library).survives("mismatches");
}

#[test]
fn an_instance_that_stalls_under_a_mount_is_quarantined_and_harms_no_byte() {
    let library = library(&Dials { sound: SOUND, lost_ppm: 20_000, ..Dials::default() });
    mounted(&library).survives("lost");
}

#[test]
fn an_instance_that_restarts_under_a_mount_is_quarantined_and_harms_no_byte() {
    let library = library(&Dials { restart_after: SOUND, restart_ms: 500, ..Dials::default() });
    mounted(&library).survives("lost");
}

#[test]
fn the_listing_tells_what_an_instance_has_and_that_it_was_never_tried() {
    let library = library(&Dials { lacks: 1 << 16, ..Dials::default() });
    let mut listing = program();
    listing.args(["engines", "--json", "--engine", "qat:0:1"]);
    let listed = with(&library, &mut listing).output().expect("the program runs");
    assert_success(&listed);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let engines = listed["engines"].as_array().expect("a list");
    for name in ["qat:0", "qat:1"] {
        let engine = engines.iter().find(|engine| engine["name"] == name).expect("listed");
        let has = |name: &str| {
            engine["algorithms"].as_array().expect("a list").iter().any(|algorithm| algorithm["name"] == name)
        };
        assert!(has("aes-cbc-plain64") && has("xaes-256-gcm") && !has("aes-xts-plain64"), "{engine}");
        assert!(engine["reason"].as_str().expect("text").contains("never run on hardware"), "{engine}");
    }
}

#[test]
fn a_library_without_a_device_is_told() {
    let library = library(&Dials { instances: 0, ..Dials::default() });
    let mut listing = program();
    let listed = with(&library, listing.arg("engines")).output().expect("the program runs");
    assert_success(&listed);
    let text = String::from_utf8(listed.stdout).expect("text");
    let told = "QATlib finds no device that it may use. This engine has never run on hardware";
    // The terminal's width may part words.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("qat:NUMBER NOT HERE: {told}")), "{text}");
    let place = Place::new();
    let mut mounting = place.mounting(&["--engine", "qat:0"]);
    let mounted = with(&library, &mut mounting).output().expect("the program runs");
    assert_fails_with(&mounted, 6, "icp_sal_userStart failed: CPA_STATUS_FAIL");
}
