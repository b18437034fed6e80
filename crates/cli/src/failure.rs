//! Exit codes, and errors as the user gets them: what happened, what to do,
//! and with which code the command ends.
//!
//! `docs/exit-codes.md` lists the codes; a test holds it against [`Exit`].

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use strongroom_keys::random::EntropyError;
use strongroom_keys::slots::SlotError;
use strongroom_store as store;
use strongroom_vault as vault;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done = 0,
    /// Anything that has no code of its own.
    Other = 1,
    /// The command line cannot be carried out as it stands.
    Usage = 2,
    /// The secret opens nothing.
    WrongSecret = 3,
    /// Something stored is damaged or forged.
    Damage = 4,
    /// Somebody else uses it.
    InUse = 5,
    /// This program, kernel or machine cannot do it.
    Unsupported = 6,
    /// The store failed or is full.
    Store = 7,
    /// Damage was found, and repaired.
    Repaired = 8,
    /// Damage was found, and could not all be repaired.
    RepairIncomplete = 9,
}

impl Exit {
    /// Every code, in order.
    #[cfg(test)]
    pub(crate) const ALL: [Exit; 10] = [
        Exit::Done,
        Exit::Other,
        Exit::Usage,
        Exit::WrongSecret,
        Exit::Damage,
        Exit::InUse,
        Exit::Unsupported,
        Exit::Store,
        Exit::Repaired,
        Exit::RepairIncomplete,
    ];

    /// The code.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// A stable name for programs.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Other => "other",
            Exit::Usage => "usage",
            Exit::WrongSecret => "wrong-secret",
            Exit::Damage => "damage",
            Exit::InUse => "in-use",
            Exit::Unsupported => "unsupported",
            Exit::Store => "store",
            Exit::Repaired => "repaired",
            Exit::RepairIncomplete => "repair-incomplete",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

/// A result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    code: u8,
    kind: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
}

impl Failure {
    /// A failure that ends the command with `exit`. The message is a phrase
    /// without a full stop.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// Adds one thing more to do or to know.
    #[must_use]
    pub(crate) fn further(self, hint: &str) -> Failure {
        let hint = self.hint.iter().map(String::as_str).chain([hint]).collect::<Vec<_>>().join("\n");
        Failure { hint: Some(hint), ..self }
    }

    /// Says what it happened to, before the message.
    #[must_use]
    pub(crate) fn at(self, path: &Path) -> Failure {
        Failure { message: format!("{}: {}", name(path), self.message), ..self }
    }

    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// What the system said about `path`. Faults of devices are the store's,
    /// the others the caller's.
    pub(crate) fn system(path: &Path, error: &std::io::Error) -> Failure {
        let text = error.to_string();
        // The number says nothing that the words before it do not.
        let words = text.split(" (os error").next().unwrap_or_default();
        let message = format!("{}: {words}", name(path));
        match error.raw_os_error().map(exit_of) {
            Some(exit) => Failure::new(exit, message),
            None => Failure::new(Exit::Other, message),
        }
    }

    /// How the command ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What happened.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tells the user, on standard error.
    pub(crate) fn report(&self, json: bool) {
        if json {
            let Failure { exit, message, hint } = self;
            let document = Document {
                schema: "strongroom.error/1",
                code: exit.code(),
                kind: exit.kind(),
                message,
                hint: hint.as_deref(),
            };
            eprintln!("{}", serde_json::to_string(&document).expect("strings and numbers"));
        } else {
            crate::report::tell(&format!("strongroom: {self}"));
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

/// A path as it can be shown: whoever made the name chose its characters.
fn name(path: &Path) -> String {
    crate::report::shown(path.as_os_str().as_encoded_bytes())
}

/// The code for an error number of the system.
pub(crate) fn exit_of(errno: i32) -> Exit {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(errno) {
        Errno::IO
        | Errno::NOSPC
        | Errno::DQUOT
        | Errno::ROFS
        | Errno::FBIG
        | Errno::NODEV
        | Errno::NXIO
        | Errno::STALE
        | Errno::NOTCONN
        | Errno::REMOTEIO
        | Errno::TIMEDOUT
        | Errno::UCLEAN
        | Errno::NOMEDIUM => Exit::Store,
        Errno::BUSY | Errno::TXTBSY | Errno::AGAIN => Exit::InUse,
        Errno::OPNOTSUPP | Errno::NOSYS => Exit::Unsupported,
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => Exit::Usage,
        _ => Exit::Other,
    }
}

/// What may help with an error number of the store.
pub(crate) fn hint_of(errno: i32) -> Option<&'static str> {
    use rustix::io::Errno;
    Some(match Errno::from_raw_os_error(errno) {
        Errno::NOSPC | Errno::DQUOT => {
            "Free some space there, and try again; what is in the vault is unharmed."
        }
        Errno::ROFS => "It cannot be written to: remount its file system, or use --read-only.",
        Errno::ACCESS | Errno::PERM => "Check the owner and mode of the vault's directory.",
        Errno::IO | Errno::NODEV | Errno::NXIO | Errno::STALE | Errno::NOTCONN => {
            "The disk or network under the vault failed: see the kernel's log (dmesg)."
        }
        Errno::MFILE | Errno::NFILE => "Raise the limit of open files (ulimit -n).",
        _ => return None,
    })
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let exit = match exit_of(error.errno()) {
            // The command line was right; the store is not as it should be.
            Exit::Usage => Exit::Store,
            exit => exit,
        };
        let failure = Failure::new(exit, format!("the store failed: {error}"));
        match hint_of(error.errno()) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<vault::Error> for Failure {
    fn from(error: vault::Error) -> Failure {
        match error {
            vault::Error::Store(error) => error.into(),
            vault::Error::TakenOver => Failure::new(Exit::InUse, error.to_string())
                .hint("What was synced before is safe. Unmount, and mount again where it is to be used."),
            vault::Error::Freshness(error) => {
                Failure { message: format!("the freshness file: {error}"), ..error.into() }
            }
            vault::Error::Damaged(_) => Failure::new(Exit::Damage, error.to_string())
                .hint("`strongroom check` names everything that is damaged."),
            vault::Error::Entropy => EntropyError.into(),
            vault::Error::Engine(_) => Failure::new(Exit::Unsupported, error.to_string())
                .hint("`strongroom doctor` lists what the engines of this machine can do."),
            vault::Error::Refused(errno) => store::Error::new(errno, "the vault").into(),
        }
    }
}

impl From<EntropyError> for Failure {
    fn from(_: EntropyError) -> Failure {
        Failure::new(Exit::Other, "the kernel's random generator failed")
    }
}

impl From<SlotError> for Failure {
    fn from(error: SlotError) -> Failure {
        let message = error.to_string();
        match error {
            SlotError::Full => Failure::usage(message).hint("Remove one with `strongroom key remove` first."),
            SlotError::Empty { .. } => Failure::usage(message).hint("`strongroom key list` shows them."),
            SlotError::Last => Failure::usage(message).hint("Add another with `strongroom key add` first."),
            SlotError::Cost(_) => Failure::new(Exit::Unsupported, message)
                .hint("Choose a lower cost with --kdf-memory, or use a machine with more memory."),
            SlotError::Entropy(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_every_code_and_no_other() {
        let document = include_str!("../../../docs/exit-codes.md");
        let mut rows = Vec::new();
        for line in document.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            if let [code, kind, ..] = cells[..]
                && let Ok(code) = code.parse::<u8>()
            {
                rows.push((code, kind.trim_matches('`').to_owned()));
            }
        }
        let expected: Vec<_> = Exit::ALL.iter().map(|exit| (exit.code(), exit.kind().to_owned())).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn codes_are_dense_and_in_order() {
        for (index, exit) in Exit::ALL.iter().enumerate() {
            assert_eq!(usize::from(exit.code()), index);
        }
    }

    #[test]
    fn error_numbers_have_their_codes() {
        let store = |errno| Failure::from(store::Error::new(errno, "pwrite")).exit();
        assert_eq!(store(28), Exit::Store, "ENOSPC");
        assert_eq!(store(5), Exit::Store, "EIO");
        assert_eq!(store(30), Exit::Store, "EROFS");
        assert_eq!(store(2), Exit::Store, "ENOENT inside a store is the store's");
        assert_eq!(exit_of(2), Exit::Usage, "ENOENT of an argument is the caller's");
        assert_eq!(exit_of(16), Exit::InUse, "EBUSY");
        assert_eq!(store(13), Exit::Other, "EACCES");
        let damaged = vault::Error::Damaged(vault::Damage::Home);
        assert_eq!(Failure::from(damaged).exit(), Exit::Damage);
    }

    #[test]
    fn what_to_do_stands_below_what_happened() {
        let failure = Failure::usage("it is not there").at(Path::new("/v")).hint("Make it.");
        assert_eq!(failure.to_string(), "/v: it is not there\nMake it.");
        assert_eq!(failure.message(), "/v: it is not there");
    }
}
