//! Options that say where a secret is to be had. None takes a secret itself:
//! what stands on the command line can be read by every process.

use std::path::PathBuf;

use clap::Args;

use super::values::RecoveryOut;
use crate::secrets::Source;

/// What opens the vault. Without any, the password is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What opens the vault (else the password is asked for)")]
pub(crate) struct SecretArgs {
    /// Read the password from FILE; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "secret")]
    password_file: Option<PathBuf>,
    /// Read the password from file descriptor N until its end, as `--password-fd 0 <<<"$password"`
    #[arg(long, value_name = "N", group = "secret", value_parser = clap::value_parser!(i32).range(0..))]
    password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the password, as "pass show vault"
    #[arg(long, value_name = "COMMAND", group = "secret")]
    password_command: Option<String>,
    /// Use a key file: at least 32 random bytes, as `head -c 64 /dev/urandom` gives them
    #[arg(long, value_name = "FILE", group = "secret")]
    key_file: Option<PathBuf>,
    /// Read the recovery key from FILE, or from standard input with -
    #[arg(long, value_name = "FILE", group = "secret")]
    recovery_file: Option<PathBuf>,
}

impl SecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        source(
            self.password_file.as_ref(),
            self.password_fd,
            self.password_command.as_ref(),
            self.key_file.as_ref(),
            self.recovery_file.as_ref(),
        )
    }

    /// Whether one of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self.source(), Source::Prompt)
    }
}

/// What shall open a new vault.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What shall open the vault (else a password is asked for, twice)")]
pub(crate) struct FirstSecretArgs {
    /// Read the password from FILE; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "secret")]
    password_file: Option<PathBuf>,
    /// Read the password from file descriptor N until its end
    #[arg(long, value_name = "N", group = "secret", value_parser = clap::value_parser!(i32).range(0..))]
    password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the password
    #[arg(long, value_name = "COMMAND", group = "secret")]
    password_command: Option<String>,
    /// Use a key file: at least 32 random bytes, as `head -c 64 /dev/urandom` gives them
    #[arg(long, value_name = "FILE", group = "secret")]
    key_file: Option<PathBuf>,
}

impl FirstSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        source(
            self.password_file.as_ref(),
            self.password_fd,
            self.password_command.as_ref(),
            self.key_file.as_ref(),
            None,
        )
    }
}

/// What shall open the vault from now on. Without any, a password is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What shall open it (else a new password is asked for, twice)")]
pub(crate) struct NewSecretArgs {
    /// Read the new password from FILE; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_password_file: Option<PathBuf>,
    /// Read the new password from file descriptor N until its end
    #[arg(long, value_name = "N", group = "new_secret", value_parser = clap::value_parser!(i32).range(0..))]
    new_password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the new password
    #[arg(long, value_name = "COMMAND", group = "new_secret")]
    new_password_command: Option<String>,
    /// Use a key file: at least 32 random bytes
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_key_file: Option<PathBuf>,
    /// Read the recovery key from FILE, or from standard input with -
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_recovery_file: Option<PathBuf>,
    /// Make a new recovery key, and write it to FILE (which must not exist), or to the terminal with -
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_recovery_out: Option<RecoveryOut>,
}

impl NewSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        source(
            self.new_password_file.as_ref(),
            self.new_password_fd,
            self.new_password_command.as_ref(),
            self.new_key_file.as_ref(),
            self.new_recovery_file.as_ref(),
        )
    }

    /// Where a new recovery key is to be written, when one is to be made.
    pub(crate) fn recovery_out(&self) -> Option<&RecoveryOut> {
        self.new_recovery_out.as_ref()
    }
}

fn source(
    password_file: Option<&PathBuf>,
    password_fd: Option<i32>,
    password_command: Option<&String>,
    key_file: Option<&PathBuf>,
    recovery_file: Option<&PathBuf>,
) -> Source {
    if let Some(path) = password_file {
        Source::PasswordFile(path.clone())
    } else if let Some(fd) = password_fd {
        Source::PasswordFd(fd)
    } else if let Some(command) = password_command {
        Source::PasswordCommand(command.clone())
    } else if let Some(path) = key_file {
        Source::KeyFile(path.clone())
    } else if let Some(path) = recovery_file {
        Source::RecoveryFile(path.clone())
    } else {
        Source::Prompt
    }
}
