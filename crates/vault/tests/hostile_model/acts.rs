//! What a user does with what is not what it was: a file that is an error
//! under its name is renamed, or given another name. It stays an error.

use strongroom_store::{Kind, RenameMode};
use strongroom_vault::namespace::{Namespace, Opening, ROOT};
use strongroom_vault::{Error, Vault};

/// Entries of the top directory that are tried.
const TRIED: usize = 4;

/// Renames and links what is an error in the top directory.
///
/// # Errors
/// What opens under a name that it was given, and did not under its own.
pub(crate) fn on_errors(vault: &Vault) -> Result<(), String> {
    let names = vault.namespace();
    let mut listed = Vec::new();
    let listing = names.open_directory(ROOT).and_then(|directory| {
        names.read_directory(&directory, 2, &mut |item| {
            listed.push(item.name.to_vec());
            true
        })
    });
    listing.map_err(|error| format!("the top directory: {error}"))?;
    listed.sort_unstable();
    listed.retain(|name| is_error(&state_of(names, name)));
    for (number, name) in listed.iter().take(TRIED).enumerate() {
        let given = format!("given {number}").into_bytes();
        // Refused or done: neither may make it a file that opens.
        match number % 2 {
            0 => {
                let _ = names.rename(ROOT, name, ROOT, &given, RenameMode::NoReplace);
            }
            _ => link(names, name, &given),
        }
        if let Some(name) = [name, &given].into_iter().find(|name| state_of(names, name).is_ok()) {
            let name = String::from_utf8_lossy(name);
            return Err(format!("it was an error, and opens as `{name}` since it was given a name"));
        }
    }
    Ok(())
}

fn link(names: &Namespace, name: &[u8], given: &[u8]) {
    let Ok(entry) = names.lookup(ROOT, name) else { return };
    if let Ok(linked) = names.link(entry.number, ROOT, given) {
        names.forget(linked.number, 1);
    }
    names.forget(entry.number, 1);
}

fn is_error(state: &Result<(), Error>) -> bool {
    matches!(state, Err(Error::Damaged(_)))
}

/// Whether an entry is something: a file that opens, a directory that can be
/// entered, a special file.
fn state_of(names: &Namespace, name: &[u8]) -> Result<(), Error> {
    let entry = names.lookup(ROOT, name)?;
    let opened = match entry.attributes.kind {
        Kind::File => names.open(entry.number, Opening::default()).map(|_| names.release(entry.number)),
        Kind::Directory => names
            .open_directory(entry.number)
            .and_then(|directory| names.read_directory(&directory, 2, &mut |_| true)),
        _ => Ok(()),
    };
    names.forget(entry.number, 1);
    opened
}
