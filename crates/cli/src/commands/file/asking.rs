//! Recipients and identities from the command line.

use std::path::Path;

use strongroom_file::identities::{Identities, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Callbacks, Error, SecretString};
use strongroom_keys::Credential;

use super::failure;
use crate::args::file::{FileEncryptArgs, FileKeyArgs, FilePassphraseArgs};
use crate::failure::{Failure, Result};
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

fn read(path: &Path) -> Result<zeroize::Zeroizing<String>> {
    let text = match path == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    text.map(zeroize::Zeroizing::new).map_err(|error| Failure::system(path, &error))
}

pub(super) fn recipients(args: &FileEncryptArgs) -> Result<Recipients> {
    let mut recipients = Recipients::new();
    let given = Path::new("recipients");
    for text in &args.recipient {
        recipients.push_text(text).map_err(|error| Failure::usage(error.to_string()))?;
    }
    for path in &args.recipients_file {
        recipients.push_lines(&read(path)?).map_err(at(path))?;
    }
    for path in &args.identity {
        recipients_of(&read(path)?, &mut recipients).map_err(at(path))?;
    }
    for name in &args.plugin {
        recipients.push_plugin(name).map_err(at(given))?;
    }
    let source = source_of(&args.source);
    if args.passphrase || source != Source::Prompt {
        recipients.push_passphrase(text_of(source.read_new("Passphrase")?)?);
    }
    if recipients.is_empty() {
        return Err(Failure::usage("nobody is named who may read it")
            .hint("Name a recipient with -r or -R, or take a passphrase with -p."));
    }
    recipients.resolve(Terminal).map_err(at(given))?;
    Ok(recipients)
}

pub(super) fn identities(args: &FileKeyArgs) -> Result<Identities> {
    let mut identities = Identities::new();
    for path in &args.identity {
        identities.push_file(&read(path)?, &path.display().to_string(), Terminal).map_err(at(path))?;
    }
    for name in &args.plugin {
        identities.push_plugin(name).map_err(at(Path::new(name)))?;
    }
    let source = source_of(&args.source);
    let nothing = args.identity.is_empty() && args.plugin.is_empty();
    if args.passphrase || source != Source::Prompt || nothing {
        identities.push_passphrase(text_of(source.read("Passphrase")?)?);
    }
    identities.resolve(Terminal).map_err(at(Path::new("identities")))?;
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
