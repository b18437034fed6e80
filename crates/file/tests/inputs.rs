//! Files whose length is not what the system says.

mod support;

use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::identities::{Identities, generate, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Error, ExposeSecret, Input, Job, NoCallbacks, Output, decrypt, encrypt};
use support::Kept;

fn job() -> Job<'static> {
    let engine: Arc<dyn Engine> = Arc::new(CpuEngine::new());
    Job { engine, threads: 2, progress: &|_| () }
}

#[test]
fn files_that_the_kernel_makes_up_are_read_to_their_end() {
    let (secret, _) = generate(false).expect("entropy");
    let mut recipients = Recipients::new();
    recipients_of(secret.expose_secret(), &mut recipients).expect("a key");
    let mut identities = Identities::new();
    identities.push_file(secret.expose_secret(), "key", NoCallbacks).expect("a key");
    // One without a length, and one that is said to be longer than it is.
    for path in
        ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/online"]
    {
        let Ok(mut file) = File::open(path) else { continue };
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("read");
        assert!(!content.is_empty());
        let input = Input::of(File::open(path).expect("there")).expect("a file");
        let sealed = Kept::default();
        let plain = encrypt(&job(), &recipients, input, Output::Stream(Box::new(sealed.clone())));
        assert_eq!(plain.expect("encrypted"), content.len() as u64, "{path}");
        let opened = Kept::default();
        let input = Input::Stream(Box::new(Cursor::new(sealed.bytes())));
        decrypt(&job(), &identities, input, Output::Stream(Box::new(opened.clone()))).expect("opened");
        assert!(opened.bytes() == content, "{path}");
    }
}

#[test]
fn an_empty_file_that_is_written_to_while_it_is_read_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let opened = || Input::of(File::open(file.path()).expect("there")).expect("a file");
    let (secret, _) = generate(false).expect("entropy");
    let mut recipients = Recipients::new();
    recipients_of(secret.expose_secret(), &mut recipients).expect("a key");
    let sealed = |input| encrypt(&job(), &recipients, input, Output::Stream(Box::new(std::io::sink())));
    assert_eq!(sealed(opened()).expect("empty"), 0);
    let begun = opened();
    file.as_file().write_all(b"more").expect("written");
    assert!(matches!(sealed(begun), Err(Error::Changed)));
}
