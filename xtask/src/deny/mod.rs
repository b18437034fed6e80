//! What the project takes from others: under which licences, from where, what it never takes, and what it
//! takes in two versions.
//!
//! `cargo xtask deny` runs it, and so does the test below. The tables are the rule; each exception has its
//! reason, and one that nothing needs any more is a fault too. Known vulnerabilities are not looked for: that
//! needs a list from the network.

mod licence;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::workspace;

use crate::shipped::{self, Key};

/// Most of it is waiting for other cargos.
const LIMIT: Duration = Duration::from_secs(600);
/// As cargo writes it down.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// What the program is built for.
const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "x86_64-unknown-linux-gnu"];

/// Licences that any crate may have.
const LICENCES: [&str; 5] = ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC"];

/// Licences that these crates alone may have.
const EXCEPTIONS: &[(&str, &[&str])] = &[
    // Tables of Unicode: of the parser of Rust when compiling, and of the texts in `age`.
    ("Unicode-3.0", &["unicode-ident", "tinystr", "zerofrom", "zerovec"]),
    // As free as MIT, and without its duty to name the author. Only tests and tools have them.
    ("Zlib", &["foldhash", "zlib-rs"]),
    ("MIT-0", &["borrow-or-share"]),
];

/// What must not come in through any library, and why.
const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "a second library of cryptography in C, that the system updates or does not"),
    ("ring", "what it does AWS-LC does"),
    ("native-tls", "nothing here speaks to a network"),
    ("rustls", "nothing here speaks to a network"),
    ("reqwest", "nothing here speaks to a network"),
    ("hyper", "nothing here speaks to a network"),
    ("tokio", "threads and io_uring are enough, and a runtime would hide which thread has a secret"),
    ("inferno", "it is under the CDDL"),
];

/// Crates that the program contains in two versions, and whose the older one is.
const TWICE: &[(&str, &[&str])] = &[
    (
        "age, hpke and ssh-key are on the RustCrypto crates of 2021 to 2024",
        &[
            "aead",
            "aes",
            "block-buffer",
            "chacha20",
            "chacha20poly1305",
            "cipher",
            "const-oid",
            "cpufeatures",
            "crypto-common",
            "ctr",
            "digest",
            "getrandom",
            "hkdf",
            "hmac",
            "inout",
            "pbkdf2",
            "poly1305",
            "rand_core",
            "sha2",
            "universal-hash",
        ],
    ),
    ("ml-kem 0.2 is on an older one", &["hybrid-array"]),
    ("crossterm 0.29 is on an older one", &["signal-hook"]),
    ("the translations of age are on an older one", &["thiserror"]),
];

/// Checks all libraries and prints what it found.
pub(crate) fn run() -> Result {
    let faults = faults(&workspace::root())?;
    for fault in &faults {
        println!("{fault}");
    }
    ensure!(faults.is_empty(), "{} faults in what is taken from others", faults.len());
    println!("deny: licences, sources and versions of all libraries are as they should be");
    Ok(())
}

fn faults(root: &Path) -> Result<Vec<String>> {
    let mut ask = workspace::cargo();
    ask.current_dir(root).args(["metadata", "--locked", "--format-version", "1"]);
    for triple in TARGETS {
        ask.args(["--filter-platform", triple]);
    }
    let metadata: Value = serde_json::from_str(&command::output(&mut ask, LIMIT)?)?;
    let packages: Vec<Package> =
        metadata["packages"].as_array().into_iter().flatten().map(Package::of).collect();
    ensure!(!packages.is_empty(), "cargo metadata has no packages");
    let mut faults = package_faults(&packages);
    let mut shipped = BTreeSet::new();
    for triple in TARGETS {
        shipped.extend(shipped::crates(root, triple)?.into_keys());
    }
    faults.extend(version_faults(&shipped));
    Ok(faults)
}

/// What is asked of a package.
struct Package {
    name: String,
    licence: String,
    /// Those of the repository itself have none.
    source: Option<String>,
}

impl Package {
    fn of(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        Self {
            name: text("name").unwrap_or_default(),
            licence: text("license").unwrap_or_default(),
            source: text("source"),
        }
    }
}

fn package_faults(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut needed = BTreeSet::new();
    for package in packages {
        let Package { name, licence, source } = package;
        let is_usual = |licence: &str| LICENCES.contains(&licence);
        let is_excepted = |licence: &str| {
            EXCEPTIONS.iter().any(|(other, names)| *other == licence && names.contains(&name.as_str()))
        };
        if !licence::is_allowed(licence, &is_usual) {
            if licence::is_allowed(licence, &|licence| is_usual(licence) || is_excepted(licence)) {
                needed.insert(name.as_str());
            } else {
                faults.push(format!("{name} is under `{licence}`, which is not allowed"));
            }
        }
        if source.as_deref().is_some_and(|source| source != REGISTRY) {
            faults.push(format!("{name} is not from crates.io: {}", source.as_deref().unwrap_or_default()));
        }
        if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| banned == name) {
            faults.push(format!("{name} is banned: {reason}"));
        }
    }
    let excepted = EXCEPTIONS.iter().flat_map(|(_, names)| names.iter());
    let idle = excepted.filter(|name| !needed.contains(*name));
    faults.extend(idle.map(|name| format!("{name} needs no exception for its licence any more")));
    faults
}

fn version_faults(shipped: &BTreeSet<Key>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in shipped {
        versions.entry(&key.name).or_default().push(&key.version);
    }
    let known: BTreeSet<&str> = TWICE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let mut faults = Vec::new();
    for (name, versions) in &versions {
        let most = if known.contains(name) { 2 } else { 1 };
        if versions.len() > most {
            faults.push(format!("the program contains {name} {}", versions.join(" and ")));
        }
    }
    let once = |name: &&&str| versions.get(**name).is_none_or(|versions| versions.len() < 2);
    faults.extend(known.iter().filter(once).map(|name| format!("{name} is not there twice any more")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_from_others_is_as_it_should_be() -> Result {
        assert_eq!(faults(&workspace::root())?, Vec::<String>::new());
        Ok(())
    }

    fn package(name: &str, licence: &str, source: Option<&str>) -> Package {
        Package { name: name.to_owned(), licence: licence.to_owned(), source: source.map(str::to_owned) }
    }

    fn without_idle(packages: &[Package]) -> Vec<String> {
        package_faults(packages).into_iter().filter(|fault| !fault.contains("needs no exception")).collect()
    }

    #[test]
    fn a_licence_a_source_and_a_name_can_be_wrong() {
        assert!(without_idle(&[package("good", "MIT OR Apache-2.0", Some(REGISTRY))]).is_empty());
        assert!(without_idle(&[package("unicode-ident", "MIT AND Unicode-3.0", Some(REGISTRY))]).is_empty());
        for (name, licence, source, said) in [
            ("copyleft", "GPL-3.0-only", Some(REGISTRY), "under `GPL-3.0-only`"),
            ("silent", "", Some(REGISTRY), "under ``"),
            ("other", "Unicode-3.0", Some(REGISTRY), "under `Unicode-3.0`"),
            ("elsewhere", "MIT", Some("git+https://example.invalid/x#1"), "not from crates.io"),
            ("tokio", "MIT", Some(REGISTRY), "is banned"),
        ] {
            let faults = without_idle(&[package(name, licence, source)]);
            assert!(faults.len() == 1 && faults[0].contains(said), "{name}: {faults:?}");
        }
    }

    #[test]
    fn a_version_too_many_is_a_fault_and_so_is_an_exception_too_many() {
        let key = |name: &str, version: &str| Key { name: name.to_owned(), version: version.to_owned() };
        let mut shipped: BTreeSet<Key> = TWICE
            .iter()
            .flat_map(|(_, names)| names.iter())
            .flat_map(|name| [key(name, "1.0.0"), key(name, "2.0.0")])
            .collect();
        assert_eq!(version_faults(&shipped), Vec::<String>::new());
        shipped.extend([key("fresh", "1.0.0"), key("fresh", "2.0.0"), key("sha2", "3.0.0")]);
        shipped.remove(&key("hmac", "1.0.0"));
        assert_eq!(
            version_faults(&shipped),
            [
                "the program contains fresh 1.0.0 and 2.0.0",
                "the program contains sha2 1.0.0 and 2.0.0 and 3.0.0",
                "hmac is not there twice any more"
            ]
        );
    }
}
