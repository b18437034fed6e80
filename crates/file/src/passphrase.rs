//! Passphrases that are asked for when a file needs them, and once for all
//! files: the one of a file itself, and those of SSH keys.
//!
//! Nothing is asked of which the answer would be of no use: not for a file
//! that costs too much, nor for a key that no stanza names.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use age::ssh::EncryptedKey;
use age::{Callbacks, DecryptError, Identity};
use age_core::format::{FileKey, Stanza};
use age_core::secrecy::SecretString;
use ssh_key::PrivateKey;

use crate::ssh_tag::{is_tag, tag_of};

/// The highest work factor of a passphrase that is tried: 2^22 rounds of
/// scrypt, 4 GiB, about fifteen seconds. The same as age's.
pub(crate) const WORK_FACTOR_MAX: u8 = 22;

/// A question that nobody has answered.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered(pub(crate) String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was not answered", self.0)
    }
}

impl std::error::Error for Unanswered {}

/// Asks, and says what was not answered.
pub(crate) fn asked(callbacks: &impl Callbacks, question: &str) -> Result<SecretString, DecryptError> {
    let typed = callbacks.request_passphrase(question);
    typed.ok_or_else(|| DecryptError::Io(io::Error::other(Unanswered(question.to_owned()))))
}

/// The passphrase of files.
pub(crate) struct OfFiles<C> {
    callbacks: C,
    known: OnceLock<age::scrypt::Identity>,
}

impl<C: Callbacks> OfFiles<C> {
    pub(crate) fn new(callbacks: C) -> OfFiles<C> {
        OfFiles { callbacks, known: OnceLock::new() }
    }
}

/// Opens `scrypt` stanzas with this passphrase.
pub(crate) fn identity(passphrase: SecretString) -> age::scrypt::Identity {
    let mut identity = age::scrypt::Identity::new(passphrase);
    identity.set_max_work_factor(WORK_FACTOR_MAX);
    identity
}

impl<C: Callbacks> Identity for OfFiles<C> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        if stanza.tag != "scrypt" {
            return None;
        }
        if let Some(known) = self.known.get() {
            return known.unwrap_stanza(stanza);
        }
        // One that takes no work at all says what else is wrong with it.
        let mut unasked = age::scrypt::Identity::new(SecretString::from(String::new()));
        unasked.set_max_work_factor(0);
        match unasked.unwrap_stanza(stanza) {
            Some(Err(DecryptError::ExcessiveWork { required, .. })) if required <= WORK_FACTOR_MAX => {}
            refused => return refused,
        }
        match asked(&self.callbacks, "Passphrase") {
            Ok(typed) => self.known.get_or_init(|| identity(typed)).unwrap_stanza(stanza),
            Err(error) => Some(Err(error)),
        }
    }
}

/// An `ssh-ed25519` key that is encrypted. The `age` crate would ask for each
/// stanza of each file, and for stanzas of others.
pub(crate) struct OfKey<C> {
    tag: String,
    key: EncryptedKey,
    question: String,
    callbacks: C,
    opened: OnceLock<age::ssh::Identity>,
}

const ED25519: &str = "ssh-ed25519";

impl<C: Callbacks> OfKey<C> {
    /// `text` is the file that `key` was read from.
    pub(crate) fn new(key: EncryptedKey, text: &str, name: &str, callbacks: C) -> Option<OfKey<C>> {
        let public = PrivateKey::from_openssh(text.trim()).ok()?.public_key().to_bytes().ok()?;
        let question = question(name);
        Some(OfKey { tag: tag_of(&public), key, question, callbacks, opened: OnceLock::new() })
    }

    fn opened(&self) -> Result<&age::ssh::Identity, DecryptError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = self.key.decrypt(asked(&self.callbacks, &self.question)?)?;
        Ok(self.opened.get_or_init(|| opened.into()))
    }
}

/// How the passphrase of a key is asked for.
pub(crate) fn question(name: &str) -> String {
    format!("Passphrase of {name}")
}

impl<C: Callbacks> Identity for OfKey<C> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        if stanza.tag != ED25519 {
            return None;
        }
        match &stanza.args[..] {
            [tag, _] if *tag == self.tag => {}
            [tag, _] if is_tag(tag) => return None,
            _ => return Some(Err(DecryptError::InvalidHeader)),
        }
        match self.opened() {
            Ok(opened) => opened.unwrap_stanza(stanza),
            Err(error) => Some(Err(error)),
        }
    }
}
