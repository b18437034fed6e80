//! Short files that are opened in memory: identities that a passphrase
//! protects.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, PoisonError};

use age_core::secrecy::SecretString;
use strongroom_engine::Engine;
use strongroom_format::age::{ARMOR_BEGIN, INTRO};
use zeroize::Zeroizing;

use crate::identities::Identities;
use crate::{Error, Input, Job, Output, decrypt};

/// Longest file that is taken for one of identities.
const LEN_MAX: usize = 16 << 20;

/// Whether this is an encrypted file, and no text of keys.
#[must_use]
pub fn is_encrypted(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    bytes.starts_with(INTRO.as_bytes()) || bytes.starts_with(ARMOR_BEGIN.as_bytes())
}

/// What stands in an encrypted file that a passphrase opens.
///
/// # Errors
/// As [`decrypt`](crate::decrypt); [`Error::Usage`] for a file of more than
/// 16 MiB.
pub fn open_with_passphrase(
    bytes: Vec<u8>,
    passphrase: SecretString,
    engine: &Arc<dyn Engine>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    if bytes.len() > LEN_MAX {
        return Err(Error::Usage("it is too long for a file of secret keys".into()));
    }
    let mut identities = Identities::new();
    identities.push_passphrase(passphrase);
    let job = Job { engine: Arc::clone(engine), threads: 1, progress: &|_| () };
    // As much as there can be: what grows leaves copies behind.
    let plain = Plain(Arc::new(Mutex::new(Zeroizing::new(Vec::with_capacity(bytes.len())))));
    let output = Output::Stream(Box::new(plain.clone()));
    decrypt(&job, &identities, Input::Stream(Box::new(Cursor::new(bytes))), output)?;
    let mut kept = plain.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *kept))
}

#[derive(Clone)]
struct Plain(Arc<Mutex<Zeroizing<Vec<u8>>>>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
