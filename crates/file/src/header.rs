//! Headers: read from a stream, made for recipients, opened by identities.

use std::collections::HashSet;
use std::io::{BufRead, Read};

use age_core::format::{FileKey, Stanza};
use age_core::secrecy::zeroize::Zeroize;
use strongroom_format::FormatError;
use strongroom_format::age::{self, HEADER_LEN_MAX, Header};

use crate::identities::Identities;
use crate::passphrase::Unanswered;
use crate::recipients::Recipients;
use crate::{Error, keys};

/// Reads a header, and leaves the input where the payload begins.
///
/// # Errors
/// [`Error::Input`]; [`Error::Header`] for what is no header, or longer than
/// [`HEADER_LEN_MAX`].
pub fn read_header(input: &mut impl BufRead) -> Result<Header, Error> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let room = (HEADER_LEN_MAX - before) as u64;
        input.take(room).read_until(b'\n', &mut bytes).map_err(Error::of_reading)?;
        let line = &bytes[before..];
        let over = line.last() != Some(&b'\n') || Header::ends_with(line);
        // What does not begin as age does is not read to its end.
        if over || before == 0 && line != age::INTRO.as_bytes() {
            break;
        }
    }
    if bytes.len() == HEADER_LEN_MAX {
        return Err(Error::Unsupported("its header is longer than 8 MiB".into()));
    }
    Ok(Header::decode(&bytes)?)
}

/// A fresh file key, and the header that wraps it for all of `recipients`.
pub(crate) fn make(recipients: &Recipients) -> Result<(Vec<u8>, FileKey), Error> {
    let mut drawn = keys::random::<16>()?;
    let file_key = FileKey::init_with_mut(|bytes| bytes.copy_from_slice(&drawn));
    drawn.zeroize();
    let stanzas = wrap(&file_key, recipients)?;
    let mac = keys::mac(&file_key, &Header::authenticated(&stanzas));
    Ok((Header { stanzas, mac }.encode(), file_key))
}

/// Wraps a key of 16 bytes for each of `recipients`: what [`unwrap`] opens.
/// Nothing binds the stanzas together but a MAC that the caller makes.
///
/// # Errors
/// [`Error::Usage`] for recipients that cannot be used together, or none;
/// [`Error::Plugin`].
pub fn wrap(key: &FileKey, recipients: &Recipients) -> Result<Vec<age::Stanza>, Error> {
    let mut stanzas = Vec::new();
    let mut labels: Option<HashSet<String>> = None;
    for recipient in recipients.iter() {
        let (made, its_labels) = recipient.wrap_file_key(key).map_err(|error| wrapping(&error))?;
        if *labels.get_or_insert_with(|| its_labels.clone()) != its_labels {
            return Err(Error::Usage(
                "these recipients cannot be used together: post-quantum ones, and a passphrase, stand alone"
                    .into(),
            ));
        }
        if made.is_empty() {
            return Err(Error::Plugin("a plugin wrapped the key for nobody".into()));
        }
        stanzas.extend(made.into_iter().map(|stanza| age::Stanza {
            kind: stanza.tag,
            arguments: stanza.args,
            body: stanza.body,
        }));
    }
    if stanzas.is_empty() {
        return Err(Error::Usage("there is no recipient".into()));
    }
    Ok(stanzas)
}

fn wrapping(error: &::age::EncryptError) -> Error {
    let text = error.to_string();
    match error {
        ::age::EncryptError::Plugin(_) | ::age::EncryptError::PluginResolve(_) => Error::Plugin(text),
        ::age::EncryptError::Io(_) => Error::Plugin(text),
        _ => Error::Usage(text),
    }
}

/// The file key of a header, if one of the identities opens it.
///
/// # Errors
/// [`Error::WrongKey`], [`Error::NoKey`] or [`Error::NoPassphrase`] when none
/// does; [`Error::HeaderForged`] when one does
/// and the header is another; [`Error::Header`] for stanzas that are not as
/// their kind has to be; what a plugin or the work factor of a passphrase
/// says.
pub fn unlock(header: &Header, identities: &Identities) -> Result<FileKey, Error> {
    if header.stanzas.len() > 1 && header.stanzas.iter().any(|stanza| stanza.kind == "scrypt") {
        return Err(Error::Header(FormatError::Inconsistent { what: "a passphrase beside another stanza" }));
    }
    let (file_key, plugin) = unwrapped(&header.stanzas, identities)?;
    match keys::is_mac(&file_key, &Header::authenticated(&header.stanzas), &header.mac) {
        true => Ok(file_key),
        // It may have made the key up.
        false => Err(plugin.map_or(Error::HeaderForged, |name| {
            Error::Plugin(format!("age-plugin-{name}: its key is not this file's, or the header was changed"))
        })),
    }
}

/// The key that [`wrap`] wrapped, if one of the identities opens a stanza. It
/// is the right one only when a MAC with it says so.
///
/// # Errors
/// As [`unlock`], but for what is wrong with the MAC.
pub fn unwrap(stanzas: &[age::Stanza], identities: &Identities) -> Result<FileKey, Error> {
    unwrapped(stanzas, identities).map(|(key, _)| key)
}

/// The key, and the name of the plugin that gave it.
fn unwrapped<'a>(
    stanzas: &[age::Stanza],
    identities: &'a Identities,
) -> Result<(FileKey, Option<&'a str>), Error> {
    let stanzas: Vec<Stanza> = stanzas
        .iter()
        .map(|stanza| Stanza {
            tag: stanza.kind.clone(),
            args: stanza.arguments.clone(),
            body: stanza.body.clone(),
        })
        .collect();
    let mut failure = None;
    for (plugin, identity) in identities.iter() {
        match identity.unwrap_stanzas(&stanzas) {
            None => {}
            Some(Ok(file_key)) => return Ok((file_key, plugin)),
            Some(Err(error)) => match unwrapping(&error) {
                Error::WrongKey => {}
                // Another identity may still do.
                error @ (Error::Plugin(_) | Error::Unanswered(_)) => {
                    failure.get_or_insert(error);
                }
                other => return Err(other),
            },
        }
    }
    let with_passphrase = stanzas.iter().any(|stanza| stanza.tag == "scrypt");
    Err(failure.unwrap_or_else(|| identities.wrong(with_passphrase)))
}

fn unwrapping(error: &::age::DecryptError) -> Error {
    use ::age::DecryptError;
    if let DecryptError::Io(inner) = error
        && let Some(unanswered) = inner.get_ref().and_then(|inner| inner.downcast_ref::<Unanswered>())
    {
        return Error::Unanswered(unanswered.to_string());
    }
    let text = error.to_string();
    match error {
        DecryptError::DecryptionFailed | DecryptError::NoMatchingKeys | DecryptError::KeyDecryptionFailed => {
            Error::WrongKey
        }
        DecryptError::ExcessiveWork { required, .. } => Error::Unsupported(format!(
            "its passphrase has the work factor {required}, and no more than {} is spent on one",
            crate::passphrase::WORK_FACTOR_MAX,
        )),
        DecryptError::InvalidMac => Error::HeaderForged,
        DecryptError::Io(_) | DecryptError::Plugin(_) | DecryptError::PluginResolve(_) => Error::Plugin(text),
        _ => Error::Header(FormatError::Inconsistent { what: "a stanza is not as its kind has to be" }),
    }
}
