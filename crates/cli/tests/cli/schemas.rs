//! What the program prints against the schemas in `docs/json`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::Place;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/json")
}

fn schema(name: &str) -> Value {
    let path = directory().join(format!("{name}.schema.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn faults(document: &Value) -> Vec<String> {
    let id = document["schema"].as_str().expect("a document names its schema");
    let name =
        id.strip_prefix("strongroom.").and_then(|rest| rest.strip_suffix("/1")).expect("a known schema");
    let validator = jsonschema::draft202012::new(&schema(name)).expect("a valid schema");
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Panics unless the document is valid under the schema that it names.
#[track_caller]
pub(crate) fn validate(document: &Value) {
    let faults = faults(document);
    assert!(faults.is_empty(), "{faults:#?}\n{document:#}");
}

#[test]
fn every_schema_is_one_and_is_listed() {
    let list = std::fs::read_to_string(directory().join("README.md")).expect("a list");
    for entry in std::fs::read_dir(directory()).expect("a directory").flatten() {
        let file = entry.file_name().into_string().expect("UTF-8");
        let Some(name) = file.strip_suffix(".schema.json") else { continue };
        jsonschema::draft202012::meta::validate(&schema(name)).expect("a valid schema");
        assert_eq!(schema(name)["properties"]["schema"]["const"], format!("strongroom.{name}/1"));
        assert!(list.contains(&format!("strongroom.{name}/1")) && list.contains(&file), "{file}");
    }
    let listed = list.lines().filter(|line| line.starts_with("| `strongroom.")).count();
    let files = std::fs::read_dir(directory()).expect("a directory").flatten();
    let schemas = files.filter(|entry| entry.file_name().to_string_lossy().ends_with(".schema.json"));
    assert_eq!(listed, schemas.count());
}

/// A schema that lets everything pass would prove nothing.
#[test]
fn a_document_with_a_field_too_few_or_too_many_or_of_another_type_is_not_valid() {
    let place = Place::new().vault();
    for line in [
        "info v --json",
        "key list v --json",
        "doctor --json",
        "doctor . --json",
        "check v --password-file password --json",
    ] {
        let document = place.line(line).expect(0).document();
        for name in document.as_object().expect("an object").keys().filter(|name| *name != "schema") {
            let mut changed = document.clone();
            changed.as_object_mut().expect("an object").remove(name);
            assert_ne!(faults(&changed), Vec::<String>::new(), "{line}: without {name}");
            let mut changed = document.clone();
            changed[name] = json!({"other": 1.5});
            assert_ne!(faults(&changed), Vec::<String>::new(), "{line}: other {name}");
        }
        let mut changed = document;
        changed["surplus"] = json!(1);
        assert_ne!(faults(&changed), Vec::<String>::new(), "{line}: surplus");
    }
}
