//! `report`: what it says with and without a profile, a mount and a store.

use serde_json::Value;

use crate::support::{Place, Run, finish};

/// Runs the program with a state directory of this place.
fn run(place: &Place, line: &str) -> Run {
    let mut command = place.command(line.split_whitespace());
    command.env("XDG_STATE_HOME", place.path("state")).env("HOME", place.path("home"));
    finish(command.output().expect("setsid"))
}

fn conclusion<'d>(document: &'d Value, about: &str) -> &'d Value {
    let all = document["conclusions"].as_array().expect("a list");
    all.iter()
        .find(|conclusion| conclusion["about"] == about)
        .unwrap_or_else(|| panic!("{about}: {document:#}"))
}

fn text<'d>(conclusion: &'d Value, field: &str) -> &'d str {
    conclusion[field].as_str().expect("text")
}

/// What a browser would fetch or run.
const ACTIVE: [&str; 7] = ["<script", "<link", "<img", "src=", "url(", "http", "@import"];

/// A page that stands alone, below 1 MB, with every tag closed.
fn assert_is_a_page(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for word in ACTIVE {
        assert!(!page.contains(word), "{word}");
    }
    for tag in ["section", "article", "table", "tr", "figure", "svg", "ul", "li"] {
        let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn without_a_profile_it_says_what_to_run() {
    let place = Place::new();
    let document = run(&place, "report -o report.html --json").expect(0).document();
    assert_eq!(document["profile_measured"], Value::Null);
    assert!(text(conclusion(&document, "suite"), "because").contains("strongroom tune"));
    assert!(text(conclusion(&document, "engine"), "says").contains("strongroom tune"));
    // What the machine has mounted besides is told of too.
    let mounts = document["mounts"].as_array().expect("a list");
    if !mounts.iter().any(|mount| mount["fsyncs"].as_u64() > Some(0)) {
        assert_eq!(text(conclusion(&document, "durability"), "says"), "Not measured.");
    }
    let page = String::from_utf8(place.read("report.html")).expect("UTF-8");
    assert_is_a_page(&page);
    assert!(page.contains("<strong>Nothing was measured.</strong>") && !page.contains("<polyline"), "{page}");
    let shown = run(&place, "report").expect(0).stdout;
    assert!(shown.contains("RATES\n  not measured") && shown.contains("ENGINES"), "{shown}");
}

#[test]
fn with_a_profile_it_names_suite_engine_and_crossover_and_draws_them() {
    let place = Place::new();
    run(&place, "tune xaes-256 xchacha20 cascade --engine sim --seconds 2").expect(0);
    // A profile is for its engines: the usual ones have none.
    assert_eq!(run(&place, "report --json").expect(0).document()["profile_measured"], Value::Null);
    let line = "report --engine sim -o report.html --store .";
    let document = run(&place, &format!("{line} --json")).expect(0).document();
    let suite = conclusion(&document, "suite");
    assert!(text(suite, "says").starts_with("Take x") && text(suite, "because").contains("/s"), "{suite}");
    assert!(text(conclusion(&document, "engine"), "because").contains("is the fastest"));
    // What is measured here holds the prediction: more than nothing, and of every thread count.
    let predictions = document["predictions"].as_array().expect("a list");
    let loaded = |row: &&Value| text(row, "what").contains("busy thread");
    assert!(predictions.iter().any(|row| loaded(&row)), "{predictions:?}");
    for row in predictions {
        assert!(row["predicted"].as_f64() > Some(0.0) && row["measured"].as_f64() > Some(0.0), "{row}");
    }
    let durability = &document["durability"];
    assert!(durability["samples"].as_u64() > Some(0), "{durability}");
    let page = String::from_utf8(place.read("report.html")).expect("UTF-8");
    assert_is_a_page(&page);
    // Three suites, each on its fastest engine, and two engines for the one to take; others are in the table. What is
    // mounted on the machine meanwhile is drawn too.
    let (drawn, others) =
        (page.matches("<polyline").count(), document["mounts"].as_array().expect("a list").len());
    assert!(drawn == 5 || drawn > 5 && others > 0, "{drawn}: {page}");
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("@media print"));
    let said = run(&place, line).expect(0).stdout;
    assert!(said.contains("Suite: Take x") && said.ends_with("Written: report.html\n"), "{said}");
}

#[test]
fn a_mount_is_told_of_as_status_tells_of_it_and_no_file_is_named() {
    let place = Place::new().vault();
    std::fs::create_dir(place.path("m")).expect("a directory");
    place.line("tune xaes-256 xchacha20 --engine sim --seconds 2").expect(0);
    place.line("mount v m --password-file password --engine sim -o masks=off").expect(0);
    place.write("m/confidential-name", [7; 100_000]);
    let status = place.line("status m --json").expect(0).document();
    let document = place.line("report --engine sim -o report.html --json").expect(0).document();
    let page = String::from_utf8(place.read("report.html")).expect("UTF-8");
    place.line("umount m").expect(0);
    let own = status["mounts"][0]["mount_point"].as_str().expect("a path");
    let mounts = document["mounts"].as_array().expect("a list");
    let mount = mounts.iter().find(|mount| mount["mount_point"] == own).expect("it is listed");
    for field in ["suite", "block_size_bytes", "since", "vault", "masks"] {
        assert_eq!(mount[field], status["mounts"][0][field], "{field}");
    }
    let is_told = |found: &Value| match found["about"].as_str() {
        Some("slow") => text(found, "says").contains(own),
        Some("idle") => text(found, "because").contains(own),
        _ => false,
    };
    assert!(document["conclusions"].as_array().expect("a list").iter().any(is_told), "{document:#}");
    // Of those that the profile knows.
    let others = mount["other_suites"].as_array().expect("a list");
    assert!(others.len() == 1 && others[0]["suite"] == "xchacha20-poly1305", "{others:?}");
    assert!(others[0]["speed"].as_f64() > Some(0.0), "{others:?}");
    assert!(page.contains(own), "{page}");
    let masks = mount["masks"]["reason"].as_str().expect("an engine that could make them");
    assert!(page.contains(&format!("Masks off: {masks}")), "{page}");
    let whole = format!("{document}{page}");
    assert!(!whole.contains("confidential-name") && !whole.contains("correct horse"));
    assert_is_a_page(&page);
}

#[test]
fn what_cannot_be_is_refused_and_leaves_no_page() {
    let place = Place::new();
    assert_eq!(run(&place, "report --engine steam --json").expect(2).error()["kind"], "usage");
    run(&place, "report --store nowhere -o report.html --json").expect(2).error();
    assert!(!place.exists("report.html"));
    run(&place, "report -o nowhere/report.html --json").expect(2).error();
}
