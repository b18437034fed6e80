//! The layer rule: which crate may depend on which, that modules make no circles, and where unsafe code
//! may stand.
//!
//! `cargo xtask layers` runs it, and so does the test below. The tables are the rule; a new edge is a
//! decision and is made here.

mod circles;
mod lexer;
mod unsafety;

use std::collections::BTreeSet;

use serde_json::Value;

use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::workspace;

/// What one crate may use of this workspace, names without the `strongroom-` prefix.
struct Layer {
    name: &'static str,
    /// In the shipped code.
    uses: &'static [&'static str],
    /// In tests besides.
    tests_use: &'static [&'static str],
}

const fn layer(
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Layer {
    Layer { name, uses, tests_use }
}

/// Concrete engines and the scheduler may be named by the composition root alone; the others get an
/// engine handed in. Their tests may compose one.
const LAYERS: &[Layer] = &[
    layer("units", &[], &[]),
    layer("format", &["units"], &[]),
    layer("memory", &[], &[]),
    layer("keys", &["units", "format", "memory"], &[]),
    layer("model", &[], &[]),
    layer("engine", &["units"], &["model"]),
    layer("store", &["units"], &[]),
    layer("engine-cpu", &["units", "engine", "memory"], &[]),
    layer("engine-gpu", &["engine", "memory"], &["engine-cpu", "sched"]),
    layer("engine-kernel", &["engine"], &["engine-cpu"]),
    layer("engine-qat", &["engine", "memory"], &["engine-cpu"]),
    layer("mock-qat", &["engine-cpu", "engine-qat"], &["engine", "sched"]),
    layer("engine-sim", &["units", "engine"], &["engine-cpu"]),
    layer("engine-virtio", &["engine", "memory"], &[]),
    layer("device-vfio-user", &["engine-cpu", "engine-virtio"], &["engine", "engine-kernel", "sched"]),
    layer("provider", &["engine-cpu"], &[]),
    layer("sched", &["units", "engine"], &["engine-cpu", "engine-sim"]),
    layer("sim", &["engine", "sched"], &[]),
    layer("papers", &["sched", "sim"], &[]),
    layer("bench", &["engine"], &["engine-cpu", "engine-sim", "format", "keys", "units"]),
    layer(
        "vault",
        &["units", "format", "keys", "engine", "store"],
        &["engine-cpu", "engine-sim", "sched", "model"],
    ),
    layer("disk", &["format", "keys", "engine", "store", "memory"], &["bench", "engine-cpu", "sched"]),
    layer("file", &["format", "engine"], &["engine-cpu"]),
    layer("archive", &[], &[]),
    layer("trace", &[], &[]),
    layer("fuse", &["units", "engine", "store", "vault", "disk"], &["format", "keys", "engine-cpu", "sched"]),
    layer("ublk", &["engine", "disk"], &[]),
    layer(
        "strongroom",
        &[
            "units",
            "format",
            "keys",
            "memory",
            "engine",
            "engine-cpu",
            "engine-gpu",
            "engine-kernel",
            "engine-qat",
            "engine-sim",
            "engine-virtio",
            "sched",
            "sim",
            "papers",
            "bench",
            "store",
            "vault",
            "disk",
            "archive",
            "file",
            "fuse",
            "trace",
            "ublk",
        ],
        &["device-vfio-user", "mock-qat"],
    ),
    layer("forgetful", &["engine", "store", "fuse"], &[]),
    // What tests the program as its users see it links in nothing of it.
    layer("harness", &[], &[]),
    layer("ledger", &["harness"], &[]),
    layer("suites", &["harness", "ledger"], &[]),
    layer("compare", &["harness", "suites"], &[]),
    layer("xtask", &["harness", "ledger", "suites", "compare"], &[]),
];

/// Outside libraries that only some crates may use: cryptography stays where it is reviewed.
const CONFINED: &[(&str, &[&str])] = &[
    ("aws-lc-rs", &["engine-cpu", "file"]),
    ("aws-lc-sys", &["engine-cpu"]),
    ("aegis", &["engine-cpu"]),
    ("age", &["file"]),
    ("rsa", &["file"]),
    ("ssh-key", &["file"]),
    ("ml-kem", &["file"]),
    ("x25519-dalek", &["file"]),
    ("argon2", &["keys"]),
    ("aes-siv", &["keys"]),
    ("hkdf", &["keys", "file", "engine-gpu"]),
    ("hmac", &["keys", "file"]),
    ("pbkdf2", &["keys"]),
    ("sha1", &["keys"]),
    ("ripemd", &["keys"]),
    ("whirlpool", &["keys"]),
];

/// Checks the workspace and prints what it found.
pub(crate) fn run() -> Result {
    let metadata = workspace::metadata()?;
    let mut faults = dependency_faults(&metadata)?;
    faults.extend(unsafety::faults(&workspace::root())?);
    faults.extend(circles::faults(&workspace::root())?);
    for fault in &faults {
        println!("{fault}");
    }
    ensure!(faults.is_empty(), "{} faults against the layer rule", faults.len());
    println!("layers: {} crates keep the rule", LAYERS.len());
    Ok(())
}

fn short(name: &str) -> &str {
    name.strip_prefix("strongroom-").unwrap_or(name)
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().ok_or_else(|| Failure::new(format!("cargo metadata lacks `{key}`")))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    value[key]
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Failure::new(format!("cargo metadata lacks `{key}`")))
}

fn dependency_faults(metadata: &Value) -> Result<Vec<String>> {
    let packages = list(metadata, "packages")?;
    let members =
        packages.iter().map(|package| text(package, "name").map(short)).collect::<Result<BTreeSet<_>>>()?;
    let mut faults = Vec::new();
    for package in packages {
        let name = short(text(package, "name")?);
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            faults.push(format!("{name}: not in the table of layers"));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let used = short(text(dependency, "name")?);
            let in_tests = dependency["kind"] == "dev";
            if members.contains(used) {
                // A crate's tests may turn on its own test features.
                let allowed_in_tests = layer.tests_use.contains(&used) || used == name;
                let allowed = layer.uses.contains(&used) || in_tests && allowed_in_tests;
                if !allowed {
                    let kind = if in_tests { "tests use" } else { "uses" };
                    faults.push(format!("{name} {kind} {used}"));
                }
            } else if let Some((_, homes)) = CONFINED.iter().find(|(library, _)| *library == used)
                && !in_tests
                && !homes.contains(&name)
            {
                faults.push(format!("{name} uses {used}, which belongs to {}", homes.join(", ")));
            }
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_workspace_keeps_the_layer_rule() {
        run().expect("the layer rule holds");
    }

    fn workspace(name: &str, dependencies: &Value) -> Value {
        json!({"packages": [
            {"name": name, "dependencies": dependencies},
            {"name": "strongroom-units", "dependencies": []},
            {"name": "strongroom-engine-cpu", "dependencies": []},
        ]})
    }

    #[test]
    fn a_consumer_that_names_an_engine_is_found() {
        let found = workspace("strongroom-vault", &json!([{"name": "strongroom-engine-cpu", "kind": null}]));
        assert_eq!(dependency_faults(&found).expect("readable"), ["vault uses engine-cpu"]);
        let in_tests =
            workspace("strongroom-vault", &json!([{"name": "strongroom-engine-cpu", "kind": "dev"}]));
        assert!(dependency_faults(&in_tests).expect("readable").is_empty());
    }

    #[test]
    fn cryptography_outside_its_home_is_found() {
        let found = workspace("strongroom-format", &json!([{"name": "argon2", "kind": null}]));
        assert_eq!(
            dependency_faults(&found).expect("readable"),
            ["format uses argon2, which belongs to keys"]
        );
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let found = workspace("strongroom-new", &json!([]));
        assert_eq!(dependency_faults(&found).expect("readable"), ["new: not in the table of layers"]);
    }
}
