//! `ssh-rsa` keys as OpenSSH writes them and once wrote them, with a passphrase
//! and without.

mod support;

use std::io::Cursor;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::identities::Identities;
use strongroom_file::recipients::Recipients;
use strongroom_file::{Callbacks, Error, Input, Job, Output, SecretString, decrypt, encrypt};
use support::Kept;

/// A user who types this, or nothing.
#[derive(Clone)]
struct Types(Option<&'static str>);

impl Callbacks for Types {
    fn display_message(&self, _: &str) {}
    fn confirm(&self, _: &str, _: &str, _: Option<&str>) -> Option<bool> {
        None
    }
    fn request_public_string(&self, _: &str) -> Option<String> {
        None
    }
    fn request_passphrase(&self, question: &str) -> Option<SecretString> {
        assert!(question.contains("the key"), "{question}");
        self.0.map(SecretString::from)
    }
}

fn job() -> Job<'static> {
    let engine: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    Job { engine, threads: 1, progress: &|_| () }
}

/// The texts of a new key, secret and public; none without `ssh-keygen`.
fn key(directory: &Path, options: &[&str]) -> Option<(String, String)> {
    let path = directory.join("key");
    let _ = std::fs::remove_file(&path);
    let mut command = Command::new("ssh-keygen");
    let made = command.args(["-q", "-t", "rsa"]).args(options).arg("-f").arg(&path).status().ok()?;
    assert!(made.success());
    let read = |path: &Path| std::fs::read_to_string(path).expect("text");
    Some((read(&path), read(&path.with_extension("pub"))))
}

fn sealed(public: &str) -> Vec<u8> {
    let mut recipients = Recipients::new();
    recipients.push_text(public).expect("a recipient");
    let kept = Kept::default();
    let input = Input::Stream(Box::new(Cursor::new(b"plain".to_vec())));
    encrypt(&job(), &recipients, input, Output::Stream(Box::new(kept.clone()))).expect("encrypted");
    kept.bytes()
}

fn opened(secret: &str, user: Types, sealed: &[u8]) -> Result<Vec<u8>, Error> {
    let mut identities = Identities::new();
    identities.push_file(secret, "the key", user)?;
    let kept = Kept::default();
    let input = Input::Stream(Box::new(Cursor::new(sealed.to_vec())));
    decrypt(&job(), &identities, input, Output::Stream(Box::new(kept.clone())))?;
    Ok(kept.bytes())
}

#[test]
fn keys_of_every_form_open_what_was_sealed_for_them() {
    let place = tempfile::tempdir().expect("a directory");
    let forms: [(&[&str], Option<&'static str>); 4] = [
        (&["-b", "2048", "-N", ""], None),
        (&["-b", "3072", "-N", "", "-m", "PEM"], None),
        (&["-b", "2048", "-N", "horse"], Some("horse")),
        (&["-b", "2048", "-N", "horse", "-Z", "aes256-gcm@openssh.com"], Some("horse")),
    ];
    for (options, passphrase) in forms {
        let Some((secret, public)) = key(place.path(), options) else {
            return eprintln!("skipped: there is no ssh-keygen here");
        };
        let file = sealed(&public);
        assert_eq!(opened(&secret, Types(passphrase), &file).expect("opened"), b"plain", "{options:?}");
        if passphrase.is_some() {
            assert!(matches!(opened(&secret, Types(Some("no horse")), &file), Err(Error::WrongKey)));
            assert!(matches!(opened(&secret, Types(None), &file), Err(Error::Unanswered(_))));
        }
    }
}

#[test]
fn what_is_for_another_key_or_changed_does_not_open() {
    let place = tempfile::tempdir().expect("a directory");
    let options = ["-b", "2048", "-N", ""];
    let Some((_, other)) = key(place.path(), &options) else {
        return eprintln!("skipped: there is no ssh-keygen here");
    };
    let (secret, public) = key(place.path(), &options).expect("as before");
    assert!(matches!(opened(&secret, Types(None), &sealed(&other)), Err(Error::WrongKey)));
    let file = sealed(&public);
    // A character of the body, which is OAEP's.
    let mut changed = file.clone();
    let at = file.iter().position(|&byte| byte == b'>').expect("a stanza") + 60;
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    assert!(matches!(opened(&secret, Types(None), &changed), Err(Error::WrongKey)));
    // The tag of the key has four bytes, and nothing follows it.
    let text = String::from_utf8_lossy(&file[..60]).into_owned();
    let tag = text.split(' ').nth(2).expect("a tag").split('\n').next().expect("a line").to_owned();
    for wrong in [format!("{tag} more"), "AAAA".to_owned()] {
        let at = file.windows(tag.len()).position(|window| window == tag.as_bytes()).expect("it is there");
        let mut changed = file.clone();
        changed.splice(at..at + tag.len(), wrong.bytes());
        assert!(matches!(opened(&secret, Types(None), &changed), Err(Error::Header(_))), "{wrong}");
    }
    let short = key(place.path(), &["-b", "1024", "-N", ""]).expect("as before").0;
    assert!(matches!(opened(&short, Types(None), &file), Err(Error::Usage(_))), "too short a key");
}
