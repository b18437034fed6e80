//! The list of what a program consists of, in CycloneDX 1.5 as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use strongroom_harness::failure::Result;

use crate::shipped::{Crate, Key};

use super::tree::Tree;

/// Makes the list. `sum` is the SHA-256 of the program, in hexadecimal, by which the list knows it; `compilers` are
/// what whoever wants to make the same program has to take.
pub(super) fn make(
    tree: &Tree,
    crates: &BTreeMap<Key, Crate>,
    sum: &str,
    compilers: &BTreeSet<String>,
) -> Result<String> {
    let own = |key: &Key| key.name == "strongroom";
    let (program, others): (Vec<_>, Vec<_>) = crates.iter().partition(|(key, _)| own(key));
    let mut subject = program.first().map(|(key, part)| component(key, part)).unwrap_or_default();
    subject["type"] = "application".into();
    subject["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    let components: Vec<Value> = others.iter().map(|(key, part)| component(key, part)).collect();
    let mut dependencies = Vec::new();
    for (key, part) in crates {
        let needs: Vec<String> = part.needs.iter().map(reference).collect();
        dependencies.push(json!({ "ref": reference(key), "dependsOn": needs }));
    }
    let properties: Vec<Value> = compilers
        .iter()
        .map(|compiler| json!({ "name": "strongroom:compiler", "value": compiler }))
        .collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial(sum),
        "version": 1,
        "metadata": {
            "timestamp": tree.date("+%Y-%m-%dT%H:%M:%SZ")?,
            "component": subject,
            "properties": properties,
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&list)?))
}

fn component(key: &Key, part: &Crate) -> Value {
    let mut value = json!({
        "type": "library",
        "bom-ref": reference(key),
        "name": key.name,
        "version": key.version,
        "licenses": [{ "expression": part.licence }],
    });
    if let Some(checksum) = &part.checksum {
        value["purl"] = reference(key).into();
        value["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    value
}

fn reference(key: &Key) -> String {
    format!("pkg:cargo/{}@{}", key.name, key.version.replace('+', "%2B"))
}

/// The same program has the same number: it is made of the program's sum (RFC 9562, version 8).
fn serial(sum: &str) -> String {
    let digit = |at: usize| sum.get(at..=at).unwrap_or("0");
    let digits = |from: usize, to: usize| (from..to).map(digit).collect::<String>();
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        digits(0, 8),
        digits(8, 12),
        digits(13, 16),
        digits(17, 20),
        digits(20, 32)
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_list_names_the_program_and_its_crates() -> Result {
        let crates = crate::shipped::sample("1.0.0+x");
        let tree = Tree { root: PathBuf::new(), version: "1.0.0".to_owned(), epoch: 0 };
        let sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let compilers = ["rustc version 1.95.0".to_owned()].into();
        let list: Value = serde_json::from_str(&make(&tree, &crates, sum, &compilers)?)?;
        let compiler = json!({ "name": "strongroom:compiler", "value": "rustc version 1.95.0" });
        assert_eq!(list["metadata"]["properties"], json!([compiler]));
        assert_eq!(list["serialNumber"], "urn:uuid:01234567-89ab-8def-8123-456789abcdef");
        assert_eq!(list["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(list["metadata"]["component"]["hashes"][0]["content"], sum);
        let names: Vec<_> = list["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(list["components"][0]["purl"], "pkg:cargo/a@1.0.0%2Bx");
        let own = list["dependencies"].as_array().unwrap().iter();
        let own = own.clone().find(|entry| entry["ref"] == "pkg:cargo/strongroom@1.0.0%2Bx").unwrap();
        assert_eq!(own["dependsOn"], json!(["pkg:cargo/a@1.0.0%2Bx"]));
        Ok(())
    }
}
