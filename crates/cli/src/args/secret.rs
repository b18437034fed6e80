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
    /// Read the password from FILE, or from standard input with -; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "secret")]
    password_file: Option<PathBuf>,
    /// Read the password from file descriptor N until its end, as `--password-fd 0 <<<"$password"`
    #[arg(long, value_name = "N", group = "secret", value_parser = clap::value_parser!(i32).range(0..))]
    password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the password, as "pass show vault"
    #[arg(long, value_name = "COMMAND", group = "secret")]
    password_command: Option<String>,
    /// Use a key file (- for standard input), best 32 random bytes, as `head -c 32 /dev/urandom` gives them; with a
    /// password option besides it, both are needed
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Ask for the password that is needed besides --key-file
    #[arg(long, group = "secret", requires = "key_file")]
    password_prompt: bool,
    /// Read the recovery key from FILE, or from standard input with -
    #[arg(long, value_name = "FILE", group = "secret", conflicts_with = "key_file")]
    recovery_file: Option<PathBuf>,
}

impl SecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        let password = password(&self.password_file, self.password_fd, &self.password_command);
        source(password, self.password_prompt, &self.key_file, &self.recovery_file)
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
    /// Read the password from FILE, or from standard input with -; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "secret")]
    password_file: Option<PathBuf>,
    /// Read the password from file descriptor N until its end
    #[arg(long, value_name = "N", group = "secret", value_parser = clap::value_parser!(i32).range(0..))]
    password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the password
    #[arg(long, value_name = "COMMAND", group = "secret")]
    password_command: Option<String>,
    /// Use a key file (- for standard input), best 32 random bytes, as `head -c 32 /dev/urandom` gives them; with a
    /// password option besides it, both will be needed
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Ask for a password, twice, that will be needed besides --key-file
    #[arg(long, group = "secret", requires = "key_file")]
    password_prompt: bool,
}

impl FirstSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        let password = password(&self.password_file, self.password_fd, &self.password_command);
        source(password, self.password_prompt, &self.key_file, &None)
    }
}

/// What shall open the vault from now on. Without any, a password is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What shall open it (else a new password is asked for, twice)")]
pub(crate) struct NewSecretArgs {
    /// Read the new password from FILE, or from standard input with -; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "new_secret")]
    new_password_file: Option<PathBuf>,
    /// Read the new password from file descriptor N until its end
    #[arg(long, value_name = "N", group = "new_secret", value_parser = clap::value_parser!(i32).range(0..))]
    new_password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the new password
    #[arg(long, value_name = "COMMAND", group = "new_secret")]
    new_password_command: Option<String>,
    /// Use a key file (- for standard input), best 32 random bytes; with a new password besides it, both will be needed
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,
    /// Ask for a new password, twice, that will be needed besides --new-key-file
    #[arg(long, group = "new_secret", requires = "new_key_file")]
    new_password_prompt: bool,
    /// Read the recovery key from FILE, or from standard input with -
    #[arg(long, value_name = "FILE", group = "new_secret", conflicts_with = "new_key_file")]
    new_recovery_file: Option<PathBuf>,
    /// Make a new recovery key, and write it to FILE (which must not exist), or to the terminal with -
    #[arg(long, value_name = "FILE", group = "new_secret", conflicts_with = "new_key_file")]
    new_recovery_out: Option<RecoveryOut>,
}

impl NewSecretArgs {
    /// Where the secret is to be had.
    pub(crate) fn source(&self) -> Source {
        let password = password(&self.new_password_file, self.new_password_fd, &self.new_password_command);
        source(password, self.new_password_prompt, &self.new_key_file, &self.new_recovery_file)
    }

    /// Where a new recovery key is to be written, when one is to be made.
    pub(crate) fn recovery_out(&self) -> Option<&RecoveryOut> {
        self.new_recovery_out.as_ref()
    }
}

/// The password that an option says where to have, if one does.
pub(super) fn password(file: &Option<PathBuf>, fd: Option<i32>, command: &Option<String>) -> Option<Source> {
    let file = file.clone().map(Source::PasswordFile);
    file.or(fd.map(Source::PasswordFd)).or_else(|| command.clone().map(Source::PasswordCommand))
}

/// Where a secret is to be had, of which the options say so much.
pub(super) fn source(
    password: Option<Source>,
    prompt: bool,
    key_file: &Option<PathBuf>,
    recovery_file: &Option<PathBuf>,
) -> Source {
    let password = password.or(prompt.then_some(Source::Prompt));
    match (password, key_file, recovery_file) {
        (Some(password), Some(key_file), _) => Source::both(password, key_file.clone()),
        (None, Some(key_file), _) => Source::KeyFile(key_file.clone()),
        (Some(password), None, _) => password,
        (None, None, Some(recovery_file)) => Source::RecoveryFile(recovery_file.clone()),
        (None, None, None) => Source::Prompt,
    }
}
