//! A vault opened for a look at all that is stored.

use std::path::Path;
use std::sync::Arc;

use strongroom_format::vault::header::Header;
use strongroom_format::vault::names::VAULT_DIRECTORY;
use strongroom_keys::RootKey;
use strongroom_store::{Kind, NodeRef, Store};
use strongroom_vault::namespace::survey::DEPTH_MAX;
use strongroom_vault::{Guards, OpenOptions, Trust, Vault};

use crate::failure::Result;
use crate::freshness;
use crate::progress::Progress;
use crate::report;

/// Options for opening a vault without a mount.
pub(crate) fn options(writable: bool) -> OpenOptions {
    OpenOptions { writable, ..OpenOptions::new(report::now()) }
}

/// Opens a vault for reading, whatever damage its journals have.
///
/// # Errors
/// An engine that lacks the suite, or what the store reports.
pub(crate) fn open_read_only(store: Arc<dyn Store>, header: &Header, root: RootKey) -> Result<Vault> {
    let engine = crate::compose::compose(None)?;
    let options = OpenOptions { damaged_journals: true, ..options(false) };
    Ok(Vault::open(store, engine, header.clone(), root, &options)?)
}

/// The same with the freshness file at `file`, if there is one, compared.
///
/// # Errors
/// As [`open_read_only`]; what the freshness file says against the vault.
pub(crate) fn open_recorded(
    store: Arc<dyn Store>,
    header: &Header,
    root: RootKey,
    vault: &Path,
    file: Option<&Path>,
) -> Result<Vault> {
    let engine = crate::compose::compose(None)?;
    let trusted = file.map(|file| freshness::trusted(file, vault, Trust::Record, false)).transpose()?;
    let guards = Guards { trusted, ..Guards::default() };
    let options = OpenOptions { damaged_journals: true, guards, ..options(false) };
    Vault::open(store, engine, header.clone(), root, &options)
        .map_err(|error| freshness::explain(error, vault, file))
}

/// Raises the limit of open files. Without it work is done on fewer files at
/// a time.
pub(crate) fn at_least_open_files() {
    let _ = strongroom_store::local::raise_file_limit();
}

/// About how many bytes there are to read below a directory. What cannot be
/// looked at now is reported later, and so is what is too deep.
pub(crate) fn stored_bytes(node: &NodeRef, progress: &Progress) -> u64 {
    let names = |node: &NodeRef| {
        let entries = node.entries().unwrap_or_default().into_iter().map(|entry| entry.name);
        entries.filter(|name| name != VAULT_DIRECTORY.as_bytes()).collect::<Vec<_>>().into_iter()
    };
    let len = |node: &NodeRef| {
        progress.found();
        node.attributes().map_or(0, |attributes| attributes.len.min(attributes.blocks.saturating_mul(512)))
    };
    let mut levels = match node.kind() {
        Kind::Directory => vec![(Arc::clone(node), names(node))],
        Kind::File => return len(node),
        _ => return 0,
    };
    let mut total = 0_u64;
    while let Some((directory, rest)) = levels.last_mut() {
        let Some(name) = rest.next() else {
            levels.pop();
            continue;
        };
        let Ok(node) = directory.lookup(&name) else { continue };
        match node.kind() {
            Kind::Directory if levels.len() < DEPTH_MAX => {
                let below = names(&node);
                levels.push((node, below));
            }
            Kind::File => total = total.saturating_add(len(&node)),
            _ => {}
        }
    }
    total
}
