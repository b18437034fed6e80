//! Options of the commands for single files, spelled as age's are.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{LogTarget, duration};

/// What is done with single files.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum FileCommand {
    /// Encrypt files, directories or standard input, for recipients or with a passphrase
    #[command(short_flag = 'e', long_flag = "encrypt")]
    Encrypt(FileEncryptArgs),
    /// Decrypt files, or standard input
    #[command(short_flag = 'd', long_flag = "decrypt")]
    Decrypt(FileDecryptArgs),
    /// Show a file in plain in a directory, read only, without decrypting it first
    Mount(FileMountArgs),
    /// Tell for whom a file was encrypted, and how long it is
    Inspect(FileInspectArgs),
    /// Make a secret key, or print the recipient of one
    Keygen(FileKeygenArgs),
}

/// Where results go, and what computes.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileOutputArgs {
    /// Write to FILE, `-` for standard output; into DIR when it is a directory
    #[arg(short, long, value_name = "FILE|DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Replace what is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) threads: Option<u16>,
    /// What computes: auto, cpu, or a name that `strongroom engines` lists
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
}

/// Plugins, `age-plugin-NAME` on the PATH.
#[derive(Args, Clone, Debug)]
pub(crate) struct FilePluginArgs {
    /// With the plugin's own recipient or key, which it knows itself
    #[arg(short = 'j', value_name = "PLUGIN")]
    pub(crate) plugin: Vec<String>,
    /// How long a plugin may say nothing before it is ended
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    pub(crate) plugin_timeout: Duration,
}

/// Where a passphrase comes from.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FilePassphraseArgs {
    /// Read the passphrase from FILE; one newline at its end is not part of it
    #[arg(long, value_name = "FILE", group = "passphrase_source")]
    pub(crate) password_file: Option<PathBuf>,
    /// Read the passphrase from file descriptor N until its end
    #[arg(long, value_name = "N", group = "passphrase_source", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) password_fd: Option<i32>,
    /// Run COMMAND in a shell and take its output as the passphrase
    #[arg(long, value_name = "COMMAND", group = "passphrase_source")]
    pub(crate) password_command: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FileEncryptArgs {
    /// For the owner of this public key: age1…, age1pq1…, age1NAME1… or an SSH key
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// For all public keys in FILE, one in each line
    #[arg(short = 'R', long, value_name = "FILE")]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// For the owners of the secret keys in FILE, which may be encrypted with a passphrase
    #[arg(short, long, value_name = "FILE")]
    pub(crate) identity: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) plugins: FilePluginArgs,
    /// With a passphrase, which is asked for
    #[arg(short, long, conflicts_with_all = ["recipient", "recipients_file", "identity", "plugin"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) source: FilePassphraseArgs,
    /// Armor the result, so that it is text
    #[arg(short, long)]
    pub(crate) armor: bool,
    #[command(flatten)]
    pub(crate) output: FileOutputArgs,
    /// What is encrypted; `-` or none is standard input. FILE becomes FILE.age, and a directory one archive, DIR.tar.age
    #[arg(value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

/// What opens a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileKeyArgs {
    /// With the secret keys in FILE, or the SSH key that it is; FILE may be encrypted with a passphrase
    #[arg(short, long, value_name = "FILE")]
    pub(crate) identity: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) plugins: FilePluginArgs,
    /// With a passphrase, which is asked for; so it is where no key is given
    #[arg(short, long)]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) source: FilePassphraseArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FileDecryptArgs {
    #[command(flatten)]
    pub(crate) keys: FileKeyArgs,
    /// Only these plain bytes: START..END, without the one at END; either may be left out
    #[arg(long, value_name = "START..END", value_parser = range)]
    pub(crate) range: Option<(u64, u64)>,
    /// Unpack the directory that was encrypted as the new directory DIR
    #[arg(short = 'x', long, value_name = "DIR", conflicts_with_all = ["range", "output"])]
    pub(crate) extract: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: FileOutputArgs,
    /// What is decrypted; `-` or none is standard input. FILE.age becomes FILE
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The plain file has the name of FILE without `.age`. Every chunk is verified as it is read, the last one first.
Unmount with `strongroom umount DIR`.")]
pub(crate) struct FileMountArgs {
    /// An encrypted file that is not armored
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where it shall be seen: an empty directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) keys: FileKeyArgs,
    /// Stay in the foreground until it is unmounted
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Let other users in (for others than root, /etc/fuse.conf must have user_allow_other)
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// What computes: auto, cpu, or a name that `strongroom engines` lists
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    /// Write messages to FILE, or to the system log with `syslog` [default: syslog, or standard error in the
    /// foreground]
    #[arg(long, value_name = "FILE|syslog")]
    pub(crate) log: Option<LogTarget>,
    /// Do not confine the daemon (for debugging)
    #[arg(long)]
    pub(crate) no_confinement: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FileInspectArgs {
    /// An encrypted file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FileKeygenArgs {
    /// Make a post-quantum hybrid key
    #[arg(long, visible_alias = "pq")]
    pub(crate) post_quantum: bool,
    /// Print the recipients of the keys in FILE instead
    #[arg(short = 'y', value_name = "FILE", conflicts_with = "post_quantum")]
    pub(crate) public_of: Option<PathBuf>,
    /// Write to FILE, which nobody else may read; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What to say of an option that age's users type where it has no meaning, after
/// the words of a command line that was refused.
pub(crate) fn tip(words: &[OsString], option: &str) -> Option<&'static str> {
    let mut words = words.iter().skip_while(|word| *word != "file").skip(1).filter_map(|word| word.to_str());
    let decrypts = words.any(|word| matches!(word, "decrypt" | "-d" | "--decrypt" | "mount"));
    Some(match option {
        "-r" | "-R" | "--recipient" | "--recipients-file" if decrypts => {
            "recipients are for encrypting: name a file of secret keys with -i"
        }
        "-a" | "--armor" if decrypts => "armor is for encrypting: it is recognized by itself",
        _ => return None,
    })
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |part: &str, otherwise| match part {
        "" => Ok(otherwise),
        part => part.parse().map_err(|_| format!("`{part}` is no number of bytes")),
    };
    let (start, end) = text.split_once("..").ok_or("write START..END")?;
    let (start, end) = (number(start, 0)?, number(end, u64::MAX)?);
    if start > end { Err("it ends before it begins".into()) } else { Ok((start, end)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_of_encrypting_are_told_as_such() {
        let tip =
            |line: &str, option| super::tip(&line.split(' ').map(Into::into).collect::<Vec<_>>(), option);
        assert!(tip("strongroom file decrypt -r x f", "-r").is_some_and(|tip| tip.contains("-i")));
        assert!(tip("strongroom file -d -a f", "-a").is_some_and(|tip| tip.contains("by itself")));
        assert_eq!(tip("strongroom file decrypt -z f", "-z"), None);
        assert_eq!(tip("strongroom mount -r f", "-r"), None);
    }

    #[test]
    fn ranges_are_read() {
        let read = super::range;
        assert_eq!(read("5..9"), Ok((5, 9)));
        assert_eq!((read("5.."), read("..9")), (Ok((5, u64::MAX)), Ok((0, 9))));
        assert!(read("9..5").is_err() && read("5").is_err() && read("a..b").is_err());
    }
}
