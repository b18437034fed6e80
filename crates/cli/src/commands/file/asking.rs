//! Recipients and identities from the command line.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_file::identities::{Identities, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Callbacks, Error, SecretString};
use strongroom_keys::Credential;
use zeroize::Zeroizing;

use super::failure;
use crate::args::file::{FileEncryptArgs, FileKeyArgs, FilePassphraseArgs};
use crate::failure::{Failure, Result};
use crate::report::Output;
use crate::secrets::Source;

/// Asks on the terminal for what SSH keys and plugins want.
#[derive(Clone)]
pub(super) struct Terminal;

impl Callbacks for Terminal {
    fn display_message(&self, message: &str) {
        eprintln!("strongroom: {}", crate::report::shown(message.as_bytes()));
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let no = no.unwrap_or("no");
        let question = crate::report::shown(format!("{message} (y: {yes}, n: {no})").as_bytes());
        crate::secrets::confirm(&question, "").ok()
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        eprint!("{}: ", crate::report::shown(description.as_bytes()));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        let text = format!("{}: ", crate::report::shown(description.as_bytes()));
        let typed = crate::secrets::prompt(&text).ok()?;
        std::str::from_utf8(typed.expose()).ok().map(SecretString::from)
    }
}

fn at(path: &Path) -> impl Fn(Error) -> Failure + '_ {
    move |error| failure(path, path, error)
}

/// The text of a file, or of standard input.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read = match path == Path::new("-") {
        true => std::io::stdin().read_to_end(&mut bytes),
        false => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map(|_| bytes).map_err(|error| Failure::system(path, &error))
}

fn text(bytes: &[u8], path: &Path) -> Result<Zeroizing<String>> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::usage("it is no text").at(path))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// The secret keys in a file, and whether a passphrase from `source` was
/// needed.
pub(super) fn identity_text(path: &Path, source: &Source) -> Result<(Zeroizing<String>, bool)> {
    let mut bytes = read(path)?;
    if !strongroom_file::is_encrypted(&bytes) {
        return Ok((text(&bytes, path)?, false));
    }
    let name = crate::report::shown(path.as_os_str().as_encoded_bytes());
    let passphrase = text_of(source.read(&format!("Passphrase of {name}"))?)?;
    let engine: Arc<dyn Engine> = crate::compose::compose(Some("cpu"))?;
    let opened = strongroom_file::open_with_passphrase(std::mem::take(&mut *bytes), passphrase, &engine);
    Ok((text(&opened.map_err(at(path))?, path)?, true))
}

pub(super) fn recipients(args: &FileEncryptArgs, output: Output) -> Result<Recipients> {
    let mut recipients = Recipients::new();
    let given = Path::new("recipients");
    let source = source_of(&args.source);
    let mut source_used = false;
    for text in &args.recipient {
        recipients.push_text(text).map_err(|error| Failure::usage(error.to_string()))?;
    }
    for path in &args.recipients_file {
        recipients.push_lines(&text(&read(path)?, path)?).map_err(at(path))?;
        for what in recipients.passed_over() {
            output.warn(&format!("{}: {what}", path.display()));
        }
    }
    for path in &args.identity {
        let (text, used) = identity_text(path, &source)?;
        source_used |= used;
        recipients_of(&text, &mut recipients).map_err(at(path))?;
    }
    for name in &args.plugins.plugin {
        recipients.push_plugin(name).map_err(at(given))?;
    }
    if args.passphrase || source != Source::Prompt && !source_used {
        recipients.push_passphrase(text_of(source.read_new("Passphrase")?)?);
    }
    if recipients.is_empty() {
        return Err(Failure::usage("nobody is named who may read it")
            .hint("Name a recipient with -r or -R, or take a passphrase with -p."));
    }
    recipients.resolve(Terminal, args.plugins.plugin_timeout).map_err(at(given))?;
    Ok(recipients)
}

pub(super) fn identities(args: &FileKeyArgs) -> Result<Identities> {
    let mut identities = Identities::new();
    let source = source_of(&args.source);
    let mut source_used = false;
    for path in &args.identity {
        let (text, used) = identity_text(path, &source)?;
        source_used |= used;
        identities.push_file(&text, &path.display().to_string(), Terminal).map_err(at(path))?;
    }
    for name in &args.plugins.plugin {
        identities.push_plugin(name).map_err(at(Path::new(name)))?;
    }
    let nothing = args.identity.is_empty() && args.plugins.plugin.is_empty();
    if args.passphrase || source != Source::Prompt && !source_used || nothing {
        identities.push_passphrase(text_of(source.read("Passphrase")?)?);
    }
    identities.resolve(Terminal, args.plugins.plugin_timeout).map_err(at(Path::new("identities")))?;
    Ok(identities)
}

fn source_of(args: &FilePassphraseArgs) -> Source {
    match args {
        FilePassphraseArgs { password_file: Some(path), .. } => Source::PasswordFile(path.clone()),
        FilePassphraseArgs { password_fd: Some(fd), .. } => Source::PasswordFd(*fd),
        FilePassphraseArgs { password_command: Some(command), .. } => {
            Source::PasswordCommand(command.clone())
        }
        _ => Source::Prompt,
    }
}

fn text_of(credential: Credential) -> Result<SecretString> {
    let Credential::Password(password) = credential else {
        return Err(Failure::usage("a passphrase is wanted"));
    };
    let text = std::str::from_utf8(password.expose());
    text.map(|text| SecretString::from(text.to_owned()))
        .map_err(|_| Failure::usage("the passphrase is not UTF-8"))
}
