//! Passphrases that are asked for: when a file needs one and not before, once
//! for all files, and never for what would be refused anyway.

mod support;

use std::io::Cursor;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::identities::{Identities, generate, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Callbacks, Error, ExposeSecret, Input, Job, Output, SecretString, decrypt, encrypt};
use support::Kept;

static ENGINE: LazyLock<Arc<dyn Engine>> = LazyLock::new(|| Arc::new(CpuEngine::new()));

/// Types this, or nothing, and counts how often.
#[derive(Clone)]
struct Asked(Option<&'static str>, Arc<AtomicUsize>);

impl Asked {
    fn typing(text: Option<&'static str>) -> Asked {
        Asked(text, Arc::default())
    }

    fn times(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Callbacks for Asked {
    fn display_message(&self, _: &str) {}
    fn confirm(&self, _: &str, _: &str, _: Option<&str>) -> Option<bool> {
        None
    }
    fn request_public_string(&self, _: &str) -> Option<String> {
        None
    }
    fn request_passphrase(&self, _: &str) -> Option<SecretString> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.map(SecretString::from)
    }
}

fn job() -> Job<'static> {
    Job { engine: Arc::clone(&ENGINE), threads: 1, progress: &|_| () }
}

fn sealed(recipients: &Recipients) -> Vec<u8> {
    let kept = Kept::default();
    let input = Input::Stream(Box::new(Cursor::new(b"plain".to_vec())));
    encrypt(&job(), recipients, input, Output::Stream(Box::new(kept.clone()))).expect("encrypted");
    kept.bytes()
}

fn opened(bytes: &[u8], identities: &Identities) -> Result<Vec<u8>, Error> {
    let kept = Kept::default();
    let input = Input::Stream(Box::new(Cursor::new(bytes.to_vec())));
    decrypt(&job(), identities, input, Output::Stream(Box::new(kept.clone()))).map(|_| kept.bytes())
}

/// For somebody else's key.
fn theirs() -> Vec<u8> {
    let (secret, _) = generate(false).expect("entropy");
    let mut recipients = Recipients::new();
    recipients_of(secret.expose_secret(), &mut recipients).expect("a key");
    sealed(&recipients)
}

#[test]
fn the_passphrase_of_files_is_asked_for_once_and_when_one_needs_it() {
    let mut recipients = Recipients::new();
    recipients.push_passphrase(SecretString::from("horse"));
    let files = [sealed(&recipients), sealed(&recipients)];
    let asked = Asked::typing(Some("horse"));
    let mut identities = Identities::new();
    identities.push_passphrase_asked(asked.clone());
    assert!(matches!(opened(&theirs(), &identities), Err(Error::NoKey)));
    let costly = |factor: &str| {
        let stanza =
            format!("-> scrypt {} {factor}\n{}\n--- {}\n", "A".repeat(22), "A".repeat(43), "A".repeat(43));
        format!("age-encryption.org/v1\n{stanza}{}", "x".repeat(100)).into_bytes()
    };
    assert!(matches!(opened(&costly("30"), &identities), Err(Error::Unsupported(_))));
    assert!(matches!(opened(&costly("+1"), &identities), Err(Error::Header(_))));
    assert_eq!(asked.times(), 0);
    for file in &files {
        assert_eq!(opened(file, &identities).expect("opened"), b"plain");
        assert_eq!(asked.times(), 1);
    }
    let (secret, _) = generate(false).expect("entropy");
    let mut identities = Identities::new();
    identities.push_file(secret.expose_secret(), "key", asked).expect("a key");
    assert!(matches!(opened(&files[0], &identities), Err(Error::NoPassphrase)));
    let mut identities = Identities::new();
    identities.push_passphrase_asked(Asked::typing(None));
    assert!(matches!(opened(&files[0], &identities), Err(Error::Unanswered(_))));
}

/// Makes a key that a passphrase protects, where there is OpenSSH.
fn locked(directory: &Path, name: &str, words: &[&str]) -> Option<(String, String)> {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-N", "horse", "-a", "4", "-f", name]).args(words).current_dir(directory);
    if !keygen.status().ok()?.success() {
        return None;
    }
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).expect("made");
    Some((text(name), text(&format!("{name}.pub"))))
}

#[test]
fn the_passphrase_of_a_key_is_asked_for_once_and_when_a_stanza_names_it() {
    let place = tempfile::tempdir().expect("a directory");
    for (name, words) in [("ed25519", &["-t", "ed25519"][..]), ("rsa", &["-t", "rsa", "-b", "2048"])] {
        let Some((secret, public)) = locked(place.path(), name, words) else {
            return eprintln!("skipped: there is no ssh-keygen here");
        };
        let mut recipients = Recipients::new();
        recipients.push_lines(&public).expect("a key");
        let files = [sealed(&recipients), sealed(&recipients)];
        let with = |typed| {
            let asked = Asked::typing(typed);
            let mut identities = Identities::new();
            identities.push_file(&secret, "the key", asked.clone()).expect("a key");
            (asked, identities)
        };
        let (asked, identities) = with(Some("horse"));
        assert!(matches!(opened(&theirs(), &identities), Err(Error::WrongKey)));
        assert_eq!(asked.times(), 0, "{name}");
        for file in &files {
            assert_eq!(opened(file, &identities).expect("opened"), b"plain");
            assert_eq!(asked.times(), 1, "{name}");
        }
        assert!(matches!(opened(&files[0], &with(Some("cow")).1), Err(Error::WrongKey)));
        assert!(matches!(opened(&files[0], &with(None).1), Err(Error::Unanswered(_))));
    }
}
