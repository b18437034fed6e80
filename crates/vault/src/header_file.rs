//! The vault header as two stored files.

use strongroom_format::vault::header::{Header, LEN};
use strongroom_keys::RootKey;
use strongroom_store::{Access, NodeRef, Store};

use crate::error::Result;
use crate::reading::read_at;

/// The vault's own directory.
pub(crate) const PRIVATE: &[u8] = b".strongroom";

const COPIES: [&str; 2] = ["header.0", "header.1"];

/// The bytes of both copies, as far as they are there.
///
/// # Errors
/// What the store reports; a missing copy is no error, a missing vault is.
pub fn read_header_copies(store: &dyn Store) -> Result<[Option<Vec<u8>>; 2]> {
    let private = store.root().lookup(PRIVATE)?;
    let read = |name: &str| -> Result<Option<Vec<u8>>> {
        let node = match private.lookup(name.as_bytes()) {
            Ok(node) => node,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let file = node.open(Access::Read)?;
        let mut bytes = vec![0; LEN + 1];
        let read = read_at(&*file, &mut bytes, 0)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    };
    Ok([read(COPIES[0])?, read(COPIES[1])?])
}

/// Writes both copies, the first durably before the second. The header's
/// sequence number and MAC are brought up to date.
///
/// # Errors
/// What the store reports. One whole copy is there at any time.
pub fn write_header(store: &dyn Store, header: &mut Header, root: &RootKey) -> Result<()> {
    strongroom_keys::slots::seal_header(header, root);
    let private = store.root().lookup(PRIVATE)?;
    let bytes = header.encode();
    for name in COPIES {
        write_copy(&private, name, &bytes[..])?;
    }
    Ok(())
}

fn write_copy(private: &NodeRef, name: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{name}.new").into_bytes();
    match private.remove(&temporary) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let (_, file) = private.create(&temporary, 0o600)?;
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    let mode = strongroom_store::RenameMode::Replace;
    private.rename(&temporary, &**private, name.as_bytes(), mode)?;
    private.sync()?;
    Ok(())
}
