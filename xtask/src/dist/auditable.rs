//! The list of crates that a program carries with it, by which scanners find known weaknesses in a program of which
//! nothing else is left: the section `.dep-v0`, as cargo-auditable makes it (its `PARSING.md`). It is made of the same
//! list as everything else in a release, and put in after the linker, so that nobody has to install a tool for it.

use std::collections::BTreeMap;

use auditable_serde::{DependencyKind, Package, Source, VersionInfo};

use strongroom_harness::failure::{Context, Result};

use crate::shipped::{Crate, Key};

/// The section's name.
pub(super) const SECTION: &str = ".dep-v0";
/// As cargo-auditable compresses.
const LEVEL: u8 = 7;

/// What stands in the section: JSON, compressed by zlib.
///
/// # Errors
/// A version is none.
pub(super) fn section(crates: &BTreeMap<Key, Crate>) -> Result<Vec<u8>> {
    let places: BTreeMap<&Key, usize> = crates.keys().enumerate().map(|(place, key)| (key, place)).collect();
    let package = |(key, part): (&Key, &Crate)| -> Result<Package> {
        Ok(Package {
            name: key.name.clone(),
            version: key.version.parse().context(&key.version)?,
            source: if part.checksum.is_some() { Source::CratesIo } else { Source::Local },
            kind: DependencyKind::Runtime,
            dependencies: part.needs.iter().filter_map(|needed| places.get(needed).copied()).collect(),
            root: key.name == "strongroom",
        })
    };
    let packages = crates.iter().map(package).collect::<Result<Vec<_>>>()?;
    let list = VersionInfo { packages, format: 0 };
    Ok(miniz_oxide::deflate::compress_to_vec_zlib(serde_json::to_string(&list)?.as_bytes(), LEVEL))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_scanner_reads_what_it_consists_of() -> Result {
        let crates = crate::shipped::sample("1.2.3");
        let text = miniz_oxide::inflate::decompress_to_vec_zlib(&section(&crates)?).expect("zlib");
        let list: Value = serde_json::from_slice(&text)?;
        let expected = json!({ "packages": [
            { "name": "a", "version": "1.2.3", "source": "crates.io" },
            { "name": "strongroom", "version": "1.2.3", "source": "local", "dependencies": [0], "root": true },
        ] });
        assert_eq!(list, expected);
        Ok(())
    }
}
