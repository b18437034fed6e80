//! Recipients and identities from the command line, and the questions that they
//! bring. All questions are put to the terminal, and never to standard input,
//! which may be the data.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use strongroom_engine::Engine;
use strongroom_file::identities::{Identities, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Callbacks, Error, SecretString};
use strongroom_keys::Credential;
use zeroize::Zeroizing;

use super::descriptors::is_standard;
use super::failure;
use crate::args::file::{FileEncryptArgs, FileKeyArgs, FilePassphraseArgs};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::report::{Output, shown, tell};
use crate::secrets::{self, Source};

/// Longest file of keys.
const LEN_MAX: u64 = 16 << 20;

/// What to do where there is none.
const NO_TERMINAL: &str = "Use --password-file FILE, --password-fd N or --password-command COMMAND.";

/// Asks on the terminal for what files, SSH keys and plugins want, above the
/// bar that may be shown there.
#[derive(Clone, Default)]
pub(super) struct Terminal(Arc<Shared>);

#[derive(Default)]
struct Shared {
    progress: OnceLock<Arc<Progress>>,
    /// Why a question could not be put.
    refusal: Mutex<Option<Failure>>,
}

impl Terminal {
    /// Progress is shown there from now on.
    pub(super) fn share(&self, progress: &Arc<Progress>) {
        let _ = self.0.progress.set(Arc::clone(progress));
    }

    fn above<T>(&self, ask: impl FnOnce() -> T) -> T {
        match self.0.progress.get() {
            Some(progress) => progress.above(ask),
            None => ask(),
        }
    }

    /// Asks, and keeps why that was not possible.
    fn asked<T>(&self, ask: impl FnOnce() -> Result<T>) -> Option<T> {
        let refusal = match self.above(ask) {
            Ok(answer) => return Some(answer),
            Err(failure) => failure,
        };
        self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(refusal);
        None
    }

    /// What went wrong with `input`, or on the way to `output`. A question that
    /// had no answer is told with the reason.
    pub(super) fn explain(&self, input: &Path, output: &Path, error: Error) -> Failure {
        let refusal = self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (&error, refusal) {
            (Error::Unanswered(_), Some(refusal)) => refusal.at(input),
            (Error::Plugin(_), Some(refusal)) => failure(input, output, error).further(refusal.message()),
            _ => failure(input, output, error),
        }
    }
}

fn no_terminal() -> Failure {
    Failure::usage("there is no terminal to ask on")
}

/// A line that is shown as it is typed.
fn line(question: &str) -> Result<String> {
    let failed = |_| no_terminal();
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(failed)?;
    terminal.write_all(question.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    match BufReader::new(terminal).read_line(&mut line) {
        Ok(read) if read > 0 => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        _ => Err(Failure::usage("nothing was answered")),
    }
}

impl Callbacks for Terminal {
    fn display_message(&self, message: &str) {
        // Each line by itself, for it is written to be read.
        let lines = message.lines().map(|line| format!("strongroom: {}", shown(line.as_bytes())));
        self.above(|| lines.for_each(|line| tell(&line)));
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let no = no.unwrap_or("no");
        let question = shown(format!("{message} (y: {yes}, n: {no})").as_bytes());
        self.asked(|| secrets::confirm(&question, ""))
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        self.asked(|| line(&format!("{}: ", shown(description.as_bytes()))))
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        let question = shown(description.as_bytes());
        self.asked(|| {
            if !secrets::has_terminal() {
                let text = format!("`{question}` is asked for, and there is no terminal to ask on");
                return Err(Failure::usage(text).hint(NO_TERMINAL));
            }
            let typed = secrets::prompt(&format!("{question}: "))?;
            let text = std::str::from_utf8(typed.expose());
            text.map(SecretString::from).map_err(|_| Failure::usage("the passphrase is not UTF-8"))
        })
    }
}

/// The source of passphrases that the command line names. It may be one that can
/// be read once, and serves all that is encrypted with it.
struct Passphrases {
    source: Source,
    given: OnceCell<SecretString>,
}

impl Passphrases {
    fn of(args: &FilePassphraseArgs) -> Passphrases {
        let source = match args {
            FilePassphraseArgs { password_file: Some(path), .. } => Source::PasswordFile(path.clone()),
            FilePassphraseArgs { password_fd: Some(fd), .. } => Source::PasswordFd(*fd),
            FilePassphraseArgs { password_command: Some(command), .. } => {
                Source::PasswordCommand(command.clone())
            }
            _ => Source::Prompt,
        };
        Passphrases { source, given: OnceCell::new() }
    }

    /// Whether the command line names one.
    fn is_given(&self) -> bool {
        self.source != Source::Prompt
    }

    /// One that is named was taken.
    fn is_used(&self) -> bool {
        self.given.get().is_some()
    }

    /// Gets it by `ask`, or what was got before.
    fn by(&self, what: &str, ask: impl FnOnce(&Source) -> Result<Credential>) -> Result<SecretString> {
        if let Some(given) = self.given.get() {
            return Ok(given.clone());
        }
        if !self.is_given() && !secrets::has_terminal() {
            let text = format!("`{what}` is asked for, and there is no terminal to ask on");
            return Err(Failure::usage(text).hint(NO_TERMINAL));
        }
        let read = text_of(ask(&self.source)?)?;
        // What is typed is for what it was asked for alone.
        Ok(if self.is_given() { self.given.get_or_init(|| read).clone() } else { read })
    }

    fn read(&self, what: &str) -> Result<SecretString> {
        self.by(what, |source| source.read(what))
    }

    fn read_new(&self, what: &str) -> Result<SecretString> {
        self.by(what, |source| source.read_new(what))
    }
}

fn at(path: &Path) -> impl Fn(Error) -> Failure + '_ {
    move |error| failure(path, path, error)
}

/// The text of a file, or of standard input. With whether others may read it.
fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, bool)> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let mut bytes = Zeroizing::new(Vec::new());
    let is_open = match is_standard(path) {
        true => std::io::stdin().take(LEN_MAX + 1).read_to_end(&mut bytes).map(|_| false),
        false => crate::opening::to_read(path).and_then(|file| {
            let facts = file.metadata()?;
            // What grows leaves copies behind.
            bytes.reserve_exact(facts.len().min(LEN_MAX) as usize + 1);
            file.take(LEN_MAX + 1).read_to_end(&mut bytes)?;
            Ok(facts.is_file() && facts.mode() & 0o044 != 0)
        }),
    };
    let is_open = is_open.map_err(failed)?;
    match bytes.len() as u64 > LEN_MAX {
        true => Err(Failure::usage("it is too long for a file of keys").at(path)),
        false => Ok((bytes, is_open)),
    }
}

/// Lines end as they do here, and no mark of the byte order stands before them.
fn text(bytes: &[u8], path: &Path) -> Result<Zeroizing<String>> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        let refused = Failure::usage("it is no text").at(path);
        match bytes.first_chunk() {
            Some([0xff, 0xfe] | [0xfe, 0xff]) => refused.hint("It is UTF-16: save it as UTF-8."),
            _ => refused,
        }
    })?;
    Ok(Zeroizing::new(text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")))
}

/// The secret keys in a file, whose passphrase is typed where it has one.
pub(super) fn identity_text(path: &Path, output: Output) -> Result<Zeroizing<String>> {
    secret_text(path, &Passphrases::of(&FilePassphraseArgs::default()), output)
}

fn secret_text(path: &Path, passphrases: &Passphrases, output: Output) -> Result<Zeroizing<String>> {
    let (mut bytes, is_open) = read(path)?;
    let name = shown(path.as_os_str().as_bytes());
    if !strongroom_file::is_encrypted(&bytes) {
        if is_open {
            output.warn(&format!("{name}: others can read this secret key: chmod 600"));
        }
        return text(&bytes, path);
    }
    let passphrase = passphrases.read(&format!("Passphrase of {name}"))?;
    let engine: Arc<dyn Engine> = crate::compose::compose(Some("cpu"))?;
    let opened = strongroom_file::open_with_passphrase(std::mem::take(&mut *bytes), passphrase, &engine);
    text(&opened.map_err(at(path))?, path)
}

pub(super) fn recipients(args: &FileEncryptArgs, terminal: &Terminal, output: Output) -> Result<Recipients> {
    let mut recipients = Recipients::new();
    let given = Path::new("recipients");
    let passphrases = Passphrases::of(&args.source);
    for text in &args.recipient {
        recipients.push_text(text).map_err(|error| Failure::usage(error.to_string()))?;
    }
    for path in &args.recipients_file {
        recipients.push_lines(&text(&read(path)?.0, path)?).map_err(at(path))?;
        for what in recipients.passed_over() {
            output.warn(&format!("{}: {what}", shown(path.as_os_str().as_bytes())));
        }
    }
    for path in &args.identity {
        recipients_of(&secret_text(path, &passphrases, output)?, &mut recipients).map_err(at(path))?;
    }
    for name in &args.plugins.plugin {
        recipients.push_plugin(name).map_err(at(given))?;
    }
    if args.passphrase || passphrases.is_given() && !passphrases.is_used() {
        recipients.push_passphrase(passphrases.read_new("Passphrase")?);
    }
    if recipients.is_empty() {
        return Err(Failure::usage("nobody is named who may read it")
            .hint("Name a recipient with -r or -R, or take a passphrase with -p."));
    }
    recipients.resolve(terminal.clone(), args.plugins.plugin_timeout).map_err(at(given))?;
    Ok(recipients)
}

/// What opens a file. A passphrase that is to be typed is asked for when a file
/// needs it.
pub(super) fn identities(args: &FileKeyArgs, terminal: &Terminal, output: Output) -> Result<Identities> {
    let mut identities = Identities::new();
    let passphrases = Passphrases::of(&args.source);
    for path in &args.identity {
        let text = secret_text(path, &passphrases, output)?;
        let name = path.display().to_string();
        identities.push_file(&text, &name, terminal.clone()).map_err(at(path))?;
    }
    for name in &args.plugins.plugin {
        identities.push_plugin(name).map_err(at(Path::new("-j")))?;
    }
    let nothing = args.identity.is_empty() && args.plugins.plugin.is_empty();
    if passphrases.is_given() && (args.passphrase || !passphrases.is_used()) {
        identities.push_passphrase(passphrases.read("Passphrase")?);
    } else if args.passphrase || nothing {
        identities.push_passphrase_asked(terminal.clone());
    }
    let resolved = identities.resolve(terminal.clone(), args.plugins.plugin_timeout);
    resolved.map_err(at(Path::new("identities")))?;
    Ok(identities)
}

fn text_of(credential: Credential) -> Result<SecretString> {
    let Credential::Password(password) = credential else {
        return Err(Failure::usage("a passphrase is wanted"));
    };
    let text = std::str::from_utf8(password.expose());
    text.map(|text| SecretString::from(text.to_owned()))
        .map_err(|_| Failure::usage("the passphrase is not UTF-8"))
}
