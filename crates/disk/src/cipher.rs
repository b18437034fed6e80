//! From names in headers to what engines compute.

use std::sync::Arc;

use strongroom_engine::client::Client;
use strongroom_engine::{Algorithm, Engine, Operation, SectorCipher, SectorIv, SectorMode};
use strongroom_format::luks::CipherSpec;

use crate::error::{Error, Result};

/// What to ask an engine for, or none where no engine could have it.
#[must_use]
pub fn algorithm(spec: &CipherSpec) -> Option<Algorithm> {
    let cipher: SectorCipher = spec.to_string().parse().ok()?;
    // Engines have more than dm-crypt does, or than is safe for a disk.
    let is_known = cipher.mode != SectorMode::Ctr && cipher.iv != SectorIv::Plain128;
    is_known.then_some(Algorithm::Sector(cipher))
}

/// A client of `engine` for the cipher that a header names.
///
/// # Errors
/// [`Error::Cipher`] when the engine does not have it with keys of this
/// length.
pub(crate) fn client(engine: &Arc<dyn Engine>, spec: &CipherSpec, key: &[u8]) -> Result<Client> {
    let lacking = || Error::Cipher { name: spec.to_string(), key_bits: key.len() as u32 * 8 };
    let algorithm = algorithm(spec).ok_or_else(lacking)?;
    Client::open(engine, algorithm, key).map_err(|_| lacking())
}

/// Whether `engine` has the cipher that a header names, with keys of
/// `key_len` bytes.
#[must_use]
pub fn is_available(engine: &Arc<dyn Engine>, spec: &CipherSpec, key_len: usize) -> bool {
    // A key of different halves, which XTS demands.
    let key: Vec<u8> = (0..key_len).map(|at| at as u8).collect();
    client(engine, spec, &key).is_ok_and(|client| {
        let algorithm = client.session().algorithm();
        [Operation::EncryptSectors, Operation::DecryptSectors]
            .iter()
            .all(|operation| engine.capability(algorithm, *operation).is_some())
    })
}
