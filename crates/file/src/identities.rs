//! Those who read: secret keys as text, SSH keys, passphrases, plugins.

use std::time::Duration;

use age::{Callbacks, Identity};
use age_core::secrecy::{ExposeSecret, SecretString};

use crate::error::missing;
use crate::recipients::{self, Recipients};
use crate::ssh_rsa::{Refused, RsaIdentity};
use crate::{Error, HybridIdentity, passphrase, plugin};

/// Secret keys that a file is tried with, in their order.
#[derive(Default)]
pub struct Identities {
    /// With the name of the plugin that it is.
    all: Vec<(Option<String>, Box<dyn Identity>)>,
    plugins: Vec<age::plugin::Identity>,
    has_passphrase: bool,
    has_key: bool,
}

impl Identities {
    /// None yet.
    #[must_use]
    pub fn new() -> Identities {
        Identities::default()
    }

    /// Adds one that opens stanzas itself.
    pub fn push(&mut self, identity: Box<dyn Identity>) {
        self.has_key = true;
        self.all.push((None, identity));
    }

    /// Adds a passphrase.
    pub fn push_passphrase(&mut self, passphrase: SecretString) {
        self.push_some_passphrase(Box::new(passphrase::identity(passphrase)));
    }

    /// Adds a passphrase that is asked for when a file needs it, once.
    pub fn push_passphrase_asked(&mut self, callbacks: impl Callbacks) {
        self.push_some_passphrase(Box::new(passphrase::OfFiles::new(callbacks)));
    }

    fn push_some_passphrase(&mut self, identity: Box<dyn Identity>) {
        self.has_passphrase = true;
        self.all.push((None, identity));
    }

    /// What is wrong when none opens a file that was made with a passphrase, or
    /// was not.
    pub(crate) fn wrong(&self, with_passphrase: bool) -> Error {
        match with_passphrase {
            true if !self.has_passphrase && self.has_key => Error::NoPassphrase,
            false if !self.has_key && self.has_passphrase => Error::NoKey,
            _ => Error::WrongKey,
        }
    }

    /// Adds those of a file: lines of `AGE-SECRET-KEY-1…`,
    /// `AGE-SECRET-KEY-PQ-1…` or `AGE-PLUGIN-NAME-1…` with comments, or one SSH
    /// key, whose passphrase is asked for when it is needed. `name` is how it
    /// is asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn push_file(&mut self, text: &str, name: &str, callbacks: impl Callbacks) -> Result<(), Error> {
        if is_ssh_key(text) {
            let rsa = RsaIdentity::of(text, name, callbacks.clone()).map_err(|Refused| {
                Error::Usage("this RSA key cannot be used: take one of 2048 to 8192 bits".into())
            })?;
            if let Some(rsa) = rsa {
                self.push(Box::new(rsa));
                return Ok(());
            }
            let key = age::ssh::Identity::from_buffer(text.as_bytes(), Some(name.to_owned()));
            return match key.map_err(Error::Input)? {
                age::ssh::Identity::Unsupported(_) => Err(unusable()),
                age::ssh::Identity::Encrypted(key) => {
                    let key = passphrase::OfKey::new(key, text, name, callbacks).ok_or_else(unusable)?;
                    self.push(Box::new(key));
                    Ok(())
                }
                key => {
                    self.push(Box::new(key));
                    Ok(())
                }
            };
        }
        let before = self.all.len() + self.plugins.len();
        for (number, line) in keys_of(text) {
            match Key::of(line) {
                Some(Key::Hybrid(identity)) => self.push(identity),
                Some(Key::X25519(identity)) => self.push(Box::new(identity)),
                Some(Key::Plugin(identity)) => self.plugins.push(identity),
                None => return Err(no_key(number, line)),
            }
        }
        if self.all.len() + self.plugins.len() == before {
            return Err(Error::Usage("there is no secret key in it".into()));
        }
        Ok(())
    }

    /// Adds the one that a plugin knows by itself, as age's `-j` does.
    ///
    /// # Errors
    /// [`Error::Plugin`] when it is not on the PATH.
    pub fn push_plugin(&mut self, name: &str) -> Result<(), Error> {
        let identity = age::plugin::Identity::default_for_plugin(name).map_err(|_| missing(name))?;
        self.plugins.push(identity);
        Ok(())
    }

    /// Finds the programs of plugins, of which none may say nothing for longer
    /// than `limit`. To be called once, when all were added.
    ///
    /// # Errors
    /// [`Error::Plugin`] when a plugin is not on the PATH.
    pub fn resolve(&mut self, callbacks: impl Callbacks, limit: Duration) -> Result<(), Error> {
        let plugins = std::mem::take(&mut self.plugins);
        let mut names: Vec<String> = plugins.iter().map(|plugin| plugin.plugin().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let identity = plugin::identity(&name, &plugins, callbacks.clone(), limit)?;
            self.has_key = true;
            self.all.push((Some(name), identity));
        }
        Ok(())
    }

    /// Each with the name of its plugin, if it is one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<&str>, &dyn Identity)> {
        self.all.iter().map(|(plugin, identity)| (plugin.as_deref(), &**identity))
    }
}

fn unusable() -> Error {
    Error::Usage("this SSH key cannot be used: take ssh-ed25519 or ssh-rsa, in the format of OpenSSH".into())
}

/// A secret key as a line says it.
enum Key {
    Hybrid(Box<HybridIdentity>),
    X25519(age::x25519::Identity),
    Plugin(age::plugin::Identity),
}

impl Key {
    fn of(line: &str) -> Option<Key> {
        let hybrid = || line.parse().ok().map(|identity| Key::Hybrid(Box::new(identity)));
        let x25519 = || line.parse().ok().map(Key::X25519);
        let plugin = || line.parse().ok().map(Key::Plugin);
        hybrid().or_else(x25519).or_else(plugin)
    }
}

fn keys_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn no_key(number: usize, line: &str) -> Error {
    let is_public = line.starts_with("age1") || line.starts_with("ssh-");
    let what = if is_public { "a recipient, and no secret key" } else { "no secret key" };
    Error::Usage(format!("line {number} is {what}"))
}

/// Whether a file of identities is one SSH key.
fn is_ssh_key(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN")
}

/// The recipients of the keys in a file of identities: lines of secret keys, or
/// one SSH key, whose public half is not encrypted in the format of OpenSSH.
///
/// # Errors
/// [`Error::Usage`] for what is no key.
pub fn recipients_of(text: &str, recipients: &mut Recipients) -> Result<(), Error> {
    if is_ssh_key(text) {
        recipients.push(Box::new(recipients::of_ssh_key(text)?));
        return Ok(());
    }
    for (number, line) in keys_of(text) {
        match Key::of(line).ok_or_else(|| no_key(number, line))? {
            Key::Hybrid(identity) => recipients.push(Box::new(identity.recipient().clone())),
            Key::X25519(identity) => recipients.push(Box::new(identity.to_public())),
            Key::Plugin(identity) => recipients.push_plugin_identity(identity),
        }
    }
    Ok(())
}

/// The texts of the recipients of the keys in a file of identities.
///
/// # Errors
/// [`Error::Usage`] for what is no key, and for a plugin's, which alone knows.
pub fn public_texts(text: &str) -> Result<Vec<String>, Error> {
    if is_ssh_key(text) {
        return Ok(vec![recipients::of_ssh_key(text)?.to_string()]);
    }
    keys_of(text)
        .map(|(number, line)| match Key::of(line).ok_or_else(|| no_key(number, line))? {
            Key::Hybrid(identity) => Ok(identity.recipient().to_string()),
            Key::X25519(identity) => Ok(identity.to_public().to_string()),
            Key::Plugin(identity) => Err(Error::Usage(format!(
                "line {number} is a key of the plugin `{}`, which alone knows its recipient",
                identity.plugin()
            ))),
        })
        .collect()
}

/// A new key, and the text of its recipient.
///
/// # Errors
/// [`Error::Entropy`].
pub fn generate(post_quantum: bool) -> Result<(SecretString, String), Error> {
    if post_quantum {
        let identity = HybridIdentity::generate()?;
        return Ok((identity.to_secret(), identity.recipient().to_string()));
    }
    let identity = age::x25519::Identity::generate();
    let text = SecretString::from(identity.to_string().expose_secret().to_owned());
    Ok((text, identity.to_public().to_string()))
}
