//! The units of systemd that the package has and that the documents show, as systemd reads them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::tally::Tally;

const LIMIT: Duration = Duration::from_secs(120);

/// What units name, which is where a package puts it.
const INSTALLED: &str = "/usr/bin/strongroom";

/// Has every unit verified, where there is systemd.
pub(super) fn run(root: &Path, scratch: &Path, program: &Path, tally: &mut Tally) -> Result {
    let units = found(root)?;
    let Some(analyze) = packages::find("systemd-analyze") else {
        println!("  not verified: {} units (there is no systemd-analyze)", units.len());
        tally.skipped += units.len() as u64;
        return Ok(());
    };
    for (at, (name, text)) in units.iter().enumerate() {
        let directory = scratch.join(format!("unit-{at}"));
        fs::create_dir(&directory)?;
        let unit = directory.join(name);
        fs::write(&unit, text.replace(INSTALLED, &program.display().to_string()))?;
        let outcome = verify(&analyze, &unit, text.contains("%h"));
        tally.count(&format!("the unit {name} as systemd reads it"), outcome);
    }
    Ok(())
}

fn verify(analyze: &Path, unit: &Path, is_users: bool) -> Result {
    let mut command = Command::new(analyze);
    command.args(is_users.then_some("--user")).args(["--man=no", "verify"]).arg(unit);
    // A user's units are looked for at a place that is named so.
    command.env("XDG_RUNTIME_DIR", unit.parent().unwrap_or(Path::new("/")));
    let finished = command::finish(&mut command, LIMIT)?;
    let name = unit.file_name().unwrap_or_default().to_string_lossy();
    // What it says of the machine's own units is not ours.
    let output = finished.output();
    let said: Vec<&str> = output.lines().filter(|line| line.contains(&*name)).collect();
    ensure!(finished.status.success() && said.is_empty(), "{}:\n{output}", finished.status);
    Ok(())
}

/// Units by name: files of the package, and blocks of the documents.
fn found(root: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut paths: Vec<_> = Vec::new();
    for directory in ["packaging", "docs"] {
        let entries = fs::read_dir(root.join(directory)).context(directory)?;
        paths.extend(entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?);
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("service" | "timer" | "socket" | "mount") => found.push((name, fs::read_to_string(&path)?)),
            Some("md") => {
                let stem = name.trim_end_matches(".md");
                let units = blocks(&fs::read_to_string(&path)?);
                let named = |(at, unit)| (format!("{stem}-{at}.service"), unit);
                found.extend(units.into_iter().enumerate().map(named));
            }
            _ => {}
        }
    }
    ensure!(found.len() > 1, "there are {} units", found.len());
    Ok(found)
}

/// The blocks of a document that are units of a service.
fn blocks(document: &str) -> Vec<String> {
    let inside = document.split("\n```").skip(1).step_by(2);
    let texts = inside.filter_map(|block| block.split_once('\n')).map(|(_, text)| format!("{text}\n"));
    texts.filter(|text| text.contains("[Service]")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_in_documents() {
        let document = "a\n```ini\n[Unit]\n[Service]\nType=forking\n```\nb\n```\n$ x\n```\n";
        assert_eq!(blocks(document), ["[Unit]\n[Service]\nType=forking\n"]);
    }

    #[test]
    fn there_are_units() {
        let found = found(&strongroom_harness::workspace::root()).unwrap();
        assert!(found.iter().any(|(name, _)| name == "strongroom@.service"));
        assert!(found.iter().any(|(name, text)| name.starts_with("howto") && text.contains("%h")));
    }
}
