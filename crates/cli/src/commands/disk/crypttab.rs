//! Options of crypttab(5) after `-o`.

use std::path::PathBuf;

use strongroom_format::luks::CipherSpec;

use super::open::Plan;
use crate::args::values::size;
use crate::failure::{Exit, Failure, Result};

/// Words that tune dm-crypt or say when to open a disk: nothing here goes by
/// them, and nothing is lost by that.
const IGNORED: &[&str] = &[
    "luks",
    "_netdev",
    "auto",
    "noauto",
    "nofail",
    "same-cpu-crypt",
    "submit-from-crypt-cpus",
    "no-read-workqueue",
    "no-write-workqueue",
    "initramfs",
    "loud",
    "quiet",
    "x-initrd.attach",
    "verify",
    "headless",
    "noearly",
    "discard-unused",
];
/// The same with a value.
const IGNORED_VALUES: &[&str] = &[
    "timeout",
    "tries",
    "keyfile-timeout",
    "check",
    "checkargs",
    "precheck",
    "hash",
    "password-echo",
    "token-timeout",
    "keyfile-erase",
    "try-empty-password",
    "name",
];
/// Words that ask for what is not there.
const UNSUPPORTED: &[&str] = &[
    "plain",
    "bitlk",
    "tcrypt",
    "tcrypt-hidden",
    "tcrypt-system",
    "tcrypt-veracrypt",
    "tcrypt-keyfile",
    "veracrypt-pim",
    "veracrypt-query-pim",
    "pkcs11-uri",
    "fido2-device",
    "fido2-cid",
    "fido2-rp",
    "tpm2-device",
    "tpm2-pcrs",
    "tpm2-pin",
    "tpm2-signature",
    "tpm2-measure-pcr",
    "tpm2-measure-bank",
    "integrity",
    "offset",
    "skip",
    "keyscript",
    "link-volume-key",
];

/// Applies options to a plan.
///
/// # Errors
/// Usage for what crypttab does not know or takes another value; unsupported
/// for what it knows and this program does not have.
pub(super) fn apply(plan: &mut Plan, words: &[String]) -> Result<()> {
    words.iter().filter(|word| !word.is_empty()).try_for_each(|word| one(plan, word))
}

fn one(plan: &mut Plan, word: &str) -> Result<()> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    match (name, value) {
        ("discard", None) => plan.discard = true,
        ("readonly" | "read-only", None) => plan.read_only = true,
        ("swap", None) | ("tmp", _) => plan.ephemeral = true,
        ("key-slot", Some(value)) => plan.key_slot = Some(number(word, value)?),
        ("keyfile-offset", Some(value)) => plan.range.offset = bytes(word, value)?,
        ("keyfile-size", Some(value)) => plan.range.len = Some(bytes(word, value)?),
        ("header", Some(value)) => plan.header = Some(PathBuf::from(value)),
        ("cipher", Some(value)) => {
            plan.cipher = CipherSpec::parse(value).map_err(|error| wrong(word, &error.to_string()))?;
        }
        ("size", Some(value)) => plan.key_bits = Some(number(word, value)?),
        ("sector-size", Some(value)) => plan.sector_size = Some(number(word, value)?),
        (name, _) if IGNORED.contains(&name) || IGNORED_VALUES.contains(&name) || name.starts_with("x-") => {}
        (name, _) if UNSUPPORTED.contains(&name) => {
            return Err(Failure::new(Exit::Unsupported, format!("-o {word}: this is not supported"))
                .hint("LUKS disks with passphrases and key files are."));
        }
        _ => return Err(wrong(word, "crypttab knows no such option, or it takes another value")),
    }
    Ok(())
}

fn wrong(word: &str, why: &str) -> Failure {
    Failure::usage(format!("-o {word}: {why}"))
}

fn number(word: &str, value: &str) -> Result<u32> {
    value.parse().map_err(|_| wrong(word, "a number is expected"))
}

fn bytes(word: &str, value: &str) -> Result<u64> {
    size(value).map_err(|why| wrong(word, &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(words: &str) -> std::result::Result<Plan, Exit> {
        let mut plan = Plan::sample();
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        apply(&mut plan, &words).map(|()| plan).map_err(|failure| failure.exit())
    }

    #[test]
    fn what_crypttab_knows_is_understood_ignored_or_refused() {
        let plan =
            applied("luks,discard,readonly,key-slot=3,keyfile-offset=512,keyfile-size=64,nofail,x-a.b=c");
        let plan = plan.expect("understood");
        assert!(plan.discard && plan.read_only && !plan.ephemeral);
        assert_eq!((plan.key_slot, plan.range.offset, plan.range.len), (Some(3), 512, Some(64)));
        let plan =
            applied("swap,cipher=aes-cbc-essiv:sha256,size=256,sector-size=4096,hash=plain").expect("swap");
        assert!(plan.ephemeral && plan.cipher.to_string() == "aes-cbc-essiv:sha256");
        assert_eq!((plan.key_bits, plan.sector_size), (Some(256), Some(4096)));
        assert_eq!(applied("header=/h").expect("understood").header, Some(PathBuf::from("/h")));
        for word in ["plain", "tpm2-device=auto", "tcrypt", "fido2-device=auto", "offset=8"] {
            assert_eq!(applied(word).err(), Some(Exit::Unsupported), "{word}");
        }
        for word in ["discards", "key-slot=x", "discard=1", "cipher=", "size=big"] {
            assert_eq!(applied(word).err(), Some(Exit::Usage), "{word}");
        }
    }
}
