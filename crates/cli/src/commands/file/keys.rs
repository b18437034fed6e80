//! `strongroom file keygen`.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use strongroom_file::{ExposeSecret, identities};
use zeroize::Zeroizing;

use super::{asking, failure};
use crate::args::file::FileKeygenArgs;
use crate::args::vault::KeyRecipientArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, now, rfc3339};
use crate::secrets::Source;

pub(super) fn generate(args: &FileKeygenArgs, _output: Output) -> Result<Exit> {
    let standard = Path::new("standard output");
    if let Some(path) = &args.public_of {
        return written(args.output.as_deref(), &(public(path)?.join("\n") + "\n"));
    }
    let (secret, public) =
        identities::generate(args.post_quantum).map_err(|error| failure(standard, standard, error))?;
    let text = Zeroizing::new(format!(
        "# created: {}\n# public key: {public}\n{}\n",
        rfc3339(now()),
        secret.expose_secret()
    ));
    if args.output.is_some() || !std::io::stdout().is_terminal() {
        eprintln!("Public key: {public}");
    }
    written(args.output.as_deref(), &text)
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recipients: Vec<String>,
}

/// `strongroom key recipient`: the recipients of secret keys.
///
/// # Errors
/// Usage for what is no secret key; a wrong passphrase of an encrypted one.
pub(crate) fn recipient(args: &KeyRecipientArgs, output: Output) -> Result<Exit> {
    let document = Document { schema: "strongroom.key-recipient/1", recipients: public(&args.identity)? };
    output.print(&document, |document| document.recipients.join("\n") + "\n")?;
    Ok(Exit::Done)
}

fn public(path: &Path) -> Result<Vec<String>> {
    let (text, _) = asking::identity_text(path, &Source::Prompt)?;
    identities::public_texts(&text).map_err(|error| failure(path, path, error))
}

fn written(path: Option<&Path>, text: &str) -> Result<Exit> {
    let (path, written) = match path {
        None => (Path::new("standard output"), std::io::stdout().write_all(text.as_bytes())),
        Some(path) => {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            (path, file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all())))
        }
    };
    written.map(|()| Exit::Done).map_err(|error| Failure::system(path, &error))
}
