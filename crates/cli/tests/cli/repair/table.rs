//! The table of damages in `docs/repair.md` beside the tests and the report's schema.

use std::collections::BTreeSet;

use serde_json::Value;

/// The body of a test in a source file.
fn body<'a>(source: &'a str, test: &str) -> Option<&'a str> {
    let (_, rest) = source.split_once(&format!("#[test]\nfn {test}()"))?;
    Some(rest.split("#[test]").next().unwrap_or(rest))
}

/// Each step that a report can name stands in the table, each that stands
/// there can be named, and where a row names a step and a test of a repair,
/// that test expects the step.
#[test]
fn the_table_of_damages_is_what_the_code_does() {
    let document = include_str!("../../../../../docs/repair.md");
    let sources = [
        ("repair", include_str!("../repair.rs")),
        ("attributes", include_str!("attributes.rs")),
        ("conflicts", include_str!("conflicts.rs")),
        ("crashes", include_str!("crashes.rs")),
        ("check", include_str!("../check.rs")),
        ("salvage", include_str!("../salvage.rs")),
        ("header", include_str!("../header.rs")),
        ("hostile", include_str!("../hostile.rs")),
        ("attacks", include_str!("../../../../vault/tests/attacks.rs")),
    ];
    let codes = |cell: &str| -> Vec<String> {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect()
    };
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../docs/json/check.schema.json")).expect("JSON");
    let mut known = Vec::new();
    collect_actions(&schema, &mut known);
    let mut named = BTreeSet::new();
    let (_, table) = document.split_once("| damage |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [damage, _, _, _, steps, tests] = cells[..] else { panic!("six cells: {row}") };
        let (steps, tests) = (codes(steps), codes(tests));
        for test in &tests {
            let (file, name) = test.split_once("::").expect("a file and a name");
            let source = sources.iter().find(|(known, _)| *known == file).expect("a file of tests").1;
            let body = body(source, name).unwrap_or_else(|| panic!("{damage}: there is no {test}"));
            if ["repair", "attributes", "conflicts", "crashes"].contains(&file) {
                for step in &steps {
                    assert!(body.contains(&format!("\"{step}\"")), "{test} does not expect {step}");
                }
            }
        }
        named.extend(steps);
    }
    assert!(count > 20, "{count} rows");
    assert_eq!(named.into_iter().collect::<Vec<_>>(), known, "steps of the table and of the report");
}

/// The values that a schema allows for `action`.
fn collect_actions(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "action"
                    && let Some(values) = value["enum"].as_array()
                {
                    found.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    found.sort();
                    found.dedup();
                }
                collect_actions(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_actions(value, found)),
        _ => {}
    }
}
