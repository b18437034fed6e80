//! `strongroom file keygen`.

use std::io::{IsTerminal, Write};
use std::path::Path;

use rustix::fs::FileType;
use serde::Serialize;
use strongroom_file::{ExposeSecret, identities};
use zeroize::Zeroizing;

use super::descriptors::{descriptor_to_write, is_standard};
use super::target::{Target, called};
use super::{asking, failure};
use crate::args::file::FileKeygenArgs;
use crate::args::vault::KeyRecipientArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, now, rfc3339};

pub(super) fn generate(args: &FileKeygenArgs, output: Output) -> Result<Exit> {
    let standard = Path::new("standard output");
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    if let Some(of) = &args.public_of {
        return written(path, &(public(of, output)?.join("\n") + "\n"));
    }
    if is_standard(path) {
        tell_of_readers(output);
    }
    let (secret, public) =
        identities::generate(args.post_quantum).map_err(|error| failure(standard, standard, error))?;
    let text = Zeroizing::new(format!(
        "# created: {}\n# public key: {public}\n{}\n",
        rfc3339(now()),
        secret.expose_secret()
    ));
    let exit = written(path, &text)?;
    if !is_standard(path) || !std::io::stdout().is_terminal() {
        eprintln!("Public key: {public}");
    }
    Ok(exit)
}

/// Of a file that the shell has made of standard output.
fn tell_of_readers(output: Output) {
    let stat = rustix::fs::fstat(rustix::stdio::stdout()).ok();
    let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
    if stat.is_some_and(|stat| is_file(stat.st_mode) && stat.st_mode & 0o044 != 0) {
        output.warn("others can read the file that standard output is: chmod 600, or use -o");
    }
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
    let document =
        Document { schema: "strongroom.key-recipient/1", recipients: public(&args.identity, output)? };
    output.print(&document, |document| document.recipients.join("\n") + "\n")?;
    Ok(Exit::Done)
}

fn public(path: &Path, output: Output) -> Result<Vec<String>> {
    let text = asking::identity_text(path, output)?;
    identities::public_texts(&text).map_err(|error| failure(path, path, error))
}

fn written(path: &Path, text: &str) -> Result<Exit> {
    let is_taken = match std::fs::metadata(path) {
        Ok(there) => descriptor_to_write(path).is_none() && (there.is_file() || there.is_dir()),
        // A symlink to nothing is something.
        Err(_) => path.symlink_metadata().is_ok(),
    };
    if is_taken && !is_standard(path) {
        return Err(Failure::usage("it exists").at(path).hint("Name a file that is not there yet."));
    }
    let target = Target::secret(path)?;
    let mut writer = target.writer()?;
    writer
        .write_all(text.as_bytes())
        .and_then(|()| writer.flush())
        .map_err(|error| Failure::system(called(target.path()), &error))?;
    drop(writer);
    target.keep()?;
    Ok(Exit::Done)
}
