//! `simulate`.

use crate::support::Place;

#[test]
fn a_run_is_told_in_both_forms_and_drawn() {
    let place = Place::new();
    let line = "simulate two-devices --workload mixed-sizes-8 --duration 100ms --plot run.svg";
    let document = place.line(&format!("{line} --json")).expect(0).document();
    assert!(document["bytes_per_second"].as_u64() > Some(0) && document["requests"].as_u64() > Some(0));
    let engines = document["engines"].as_array().expect("a list");
    let names: Vec<_> = engines.iter().map(|engine| engine["engine"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["cpu", "near", "far"]);
    let text = place.line(line).expect(0).stdout;
    assert!(text.contains("throughput") && text.contains("idle CPU") && text.contains("near"), "{text}");
    let picture = String::from_utf8(place.read("run.svg")).expect("UTF-8");
    assert!(picture.starts_with("<svg") && picture.contains("polyline") && picture.contains("far"));
    // The same words give the same run.
    assert_eq!(place.line(&format!("{line} --json")).expect(0).document(), document);
}

#[test]
fn the_papers_host_comes_with_what_its_model_is_worth() {
    let place = Place::new();
    let line = "simulate aca-sds --duration 20ms --policy aca -o alpha=4 -o beta=1KiB -o idle-cpu=50";
    let document = place.line(&format!("{line} --json")).expect(0).document();
    let predicted = document["predicted"].as_array().expect("a list");
    assert!(predicted.len() == 14 && predicted.iter().all(|row| row["clients"] == 32));
    assert!(place.line(line).expect(0).stdout.starts_with("The model against the paper"));
}

#[test]
fn documents_are_replayed_beside_their_figures() {
    let place = Place::new();
    let document = place.line("simulate paper-004 --json").expect(0).document();
    assert_eq!(document["tables"][0]["cells"].as_array().map(Vec::len), Some(38 * 9));
    assert!(document["errors"][0]["median"].as_f64().is_some_and(|median| median < 0.04));
    let text = place.line("simulate paper-004").expect(0).stdout;
    assert!(text.contains("aes-cbc-plain, 128 bits, CESA") && text.contains("331 predicted"), "{text}");
    place.line("simulate paper-004 --plot run.svg").expect(2);
    place.line("simulate paper-005").expect(2);
}

#[test]
fn names_are_listed_and_others_refused() {
    let place = Place::new();
    let list = place.line("simulate --list --json").expect(0).document();
    assert!(list["hosts"].as_array().is_some_and(|hosts| hosts.len() >= 7));
    let text = place.line("simulate --list").expect(0).stdout;
    for name in list["workloads"].as_array().expect("a list") {
        assert!(text.contains(name.as_str().expect("a name")), "{name}");
    }
    for line in [
        "simulate",
        "simulate nowhere",
        "simulate aca-sds --workload none",
        "simulate aca-sds --policy best",
        "simulate aca-sds -o use=2",
        "simulate aca-sds -o speed=9",
        "simulate aca-sds --duration 2h",
    ] {
        let error = place.line(&format!("{line} --json")).expect(2).error();
        assert_eq!(error["kind"], "usage", "{line}");
    }
    place.line("simulate fast-device --duration 1ms --plot missing/run.svg").expect(2);
}
