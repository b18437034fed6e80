//! Manual pages and completions.

use crate::support::Place;

#[test]
fn every_command_has_a_page_and_no_hidden_one_has() {
    let place = Place::new();
    std::fs::create_dir(place.path("man")).expect("a directory");
    place.line("generate-man man").expect(0);
    for name in [
        "",
        "-init",
        "-mount",
        "-umount",
        "-sync",
        "-status",
        "-info",
        "-key",
        "-key-add",
        "-header",
        "-check",
        "-simulate",
        "-engines",
        "-tune",
        "-report",
        "-trace-stop",
        "-whatif",
        "-bench-crypto",
    ] {
        let page = String::from_utf8(place.read(&format!("man/strongroom{name}.1"))).expect("UTF-8");
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(!place.exists("man/strongroom-generate-man.1") && !place.exists("man/strongroom-mount-helper.1"));
    place.line("generate-man missing").expect(2);
}

#[test]
fn completions_are_written_for_three_shells() {
    let place = Place::new();
    std::fs::create_dir(place.path("c")).expect("a directory");
    place.line("generate-completions c").expect(0);
    for name in ["strongroom.bash", "_strongroom", "strongroom.fish"] {
        let text = String::from_utf8(place.read(&format!("c/{name}"))).expect("UTF-8");
        assert!(text.contains("password-file") && !text.contains("mount-helper\n"), "{name}");
        for value in
            ["xchacha20-poly1305", "camellia-cbc-plain", "cpu-portable", "whirlpool", "policy=adaptive"]
        {
            assert!(text.contains(value), "{name}: {value}");
        }
    }
}
