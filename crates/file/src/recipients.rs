//! Those who may read: their public keys as text, and passphrases.

use std::time::Duration;

use age::{Callbacks, Recipient};
use age_core::secrecy::SecretString;
use strongroom_format::age::decode_base64;

use crate::error::missing;
use crate::{Error, HybridRecipient, plugin};

/// The work factor of a passphrase, as age has it: 2^18 rounds of scrypt, 256
/// MiB, about a second.
const WORK_FACTOR: u8 = 18;

/// Recipients of one file.
#[derive(Default)]
pub struct Recipients {
    all: Vec<Box<dyn Recipient + Send>>,
    plugins: Vec<age::plugin::Recipient>,
    plugin_identities: Vec<age::plugin::Identity>,
    passed_over: Vec<String>,
}

impl Recipients {
    /// None yet.
    #[must_use]
    pub fn new() -> Recipients {
        Recipients::default()
    }

    /// Adds one that makes stanzas itself.
    pub fn push(&mut self, recipient: Box<dyn Recipient + Send>) {
        self.all.push(recipient);
    }

    /// Adds a passphrase, which has to stand alone.
    pub fn push_passphrase(&mut self, passphrase: SecretString) {
        let mut recipient = age::scrypt::Recipient::new(passphrase);
        recipient.set_work_factor(WORK_FACTOR);
        self.push(Box::new(recipient));
    }

    /// Adds the one of a text: `age1…`, `age1pq1…`, `age1NAME1…` of a plugin,
    /// `ssh-ed25519 …` or `ssh-rsa …`.
    ///
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn push_text(&mut self, text: &str) -> Result<(), Error> {
        let text = text.trim();
        if let Ok(recipient) = text.parse::<HybridRecipient>() {
            self.push(Box::new(recipient));
        } else if let Ok(recipient) = text.parse::<age::x25519::Recipient>() {
            self.push(Box::new(recipient));
        } else if text.starts_with("ssh-") {
            let recipient = text.parse::<age::ssh::Recipient>().map_err(|error| ssh(&error))?;
            self.push(Box::new(recipient));
        } else if let Ok(recipient) = text.parse::<age::plugin::Recipient>() {
            self.plugins.push(recipient);
        } else {
            return Err(Error::Usage(match text.starts_with("AGE-SECRET-KEY-") {
                true => "this is a secret key: a recipient begins with age1 (keygen -y makes it of the key)"
                    .into(),
                false => format!("`{}` is no recipient", text.escape_debug()),
            }));
        }
        Ok(())
    }

    /// Adds those of a file, one in each line; `#` begins a comment. SSH keys of
    /// other kinds, as a user's list of keys may have, are passed over.
    ///
    /// # Errors
    /// [`Error::Usage`], with the line.
    pub fn push_lines(&mut self, text: &str) -> Result<(), Error> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(kind) = other_ssh_key(line) {
                self.passed_over.push(format!("line {number}: an SSH key of the kind {kind} cannot be used"));
                continue;
            }
            self.push_text(line).map_err(|error| Error::Usage(format!("line {number}: {error}")))?;
        }
        Ok(())
    }

    /// What [`Recipients::push_lines`] has passed over, in words.
    pub fn passed_over(&mut self) -> Vec<String> {
        std::mem::take(&mut self.passed_over)
    }

    /// Adds the one that a plugin knows by itself, as age's `-j` does.
    ///
    /// # Errors
    /// [`Error::Plugin`] when it is not on the PATH.
    pub fn push_plugin(&mut self, name: &str) -> Result<(), Error> {
        let identity = age::plugin::Identity::default_for_plugin(name).map_err(|_| missing(name))?;
        self.plugin_identities.push(identity);
        Ok(())
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.plugins.is_empty() && self.plugin_identities.is_empty()
    }

    pub(crate) fn push_plugin_identity(&mut self, identity: age::plugin::Identity) {
        self.plugin_identities.push(identity);
    }

    /// Finds the programs of plugins, of which none may say nothing for longer
    /// than `limit`. To be called once, when all were added.
    ///
    /// # Errors
    /// [`Error::Plugin`] when a plugin is not on the PATH.
    pub fn resolve(&mut self, callbacks: impl Callbacks, limit: Duration) -> Result<(), Error> {
        let (plugins, identities) =
            (std::mem::take(&mut self.plugins), std::mem::take(&mut self.plugin_identities));
        let names = plugins.iter().map(age::plugin::Recipient::plugin);
        let mut names: Vec<String> =
            names.chain(identities.iter().map(age::plugin::Identity::plugin)).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.push(plugin::recipient(&name, &plugins, &identities, callbacks.clone(), limit)?);
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Recipient> {
        self.all.iter().map(|recipient| &**recipient as &dyn Recipient)
    }
}

/// The kind of an SSH key that is none of those which can be used.
fn other_ssh_key(line: &str) -> Option<&str> {
    let (kind, rest) = line.split_once(' ')?;
    let text = rest.split_whitespace().next()?;
    let key = decode_base64(text.trim_end_matches('=').as_bytes()).ok()?;
    let (len, key) = key.split_first_chunk()?;
    let is_one = u32::from_be_bytes(*len) as usize == kind.len() && key.starts_with(kind.as_bytes());
    (is_one && kind != "ssh-ed25519" && kind != "ssh-rsa").then_some(kind)
}

/// The recipient of a secret SSH key, in the format of OpenSSH or, for RSA, PEM.
pub(crate) fn of_ssh_key(text: &str) -> Result<age::ssh::Recipient, Error> {
    let key = age::ssh::Identity::from_buffer(text.as_bytes(), None).map_err(Error::Input)?;
    age::ssh::Recipient::try_from(key).map_err(|error| ssh(&error))
}

fn ssh(error: &age::ssh::ParseRecipientKeyError) -> Error {
    Error::Usage(match error {
        age::ssh::ParseRecipientKeyError::Unsupported(kind) => {
            format!("keys of the kind `{}` cannot be used: take ssh-ed25519 or ssh-rsa", kind.escape_debug())
        }
        _ => "this SSH key cannot be used: take ssh-ed25519, or ssh-rsa of 2048 bits at least".into(),
    })
}
