//! `strongroom file keygen`.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use strongroom_file::{ExposeSecret, identities};
use zeroize::Zeroizing;

use super::failure;
use crate::args::file::FileKeygenArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, now, rfc3339};

pub(super) fn generate(args: &FileKeygenArgs, _output: Output) -> Result<Exit> {
    let standard = Path::new("standard output");
    if let Some(path) = &args.public_of {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::system(path, &error))?;
        let text = Zeroizing::new(text);
        let public = identities::public_texts(&text).map_err(|error| failure(path, path, error))?;
        return written(args.output.as_deref(), &(public.join("\n") + "\n"));
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
