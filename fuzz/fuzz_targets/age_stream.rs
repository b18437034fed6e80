//! Files of age that are changed: what comes out is always a beginning of what
//! went in, and all of it only where no error is told.
#![no_main]

use std::io::{Cursor, Write};
use std::sync::{Arc, LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::identities::{Identities, generate, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{ExposeSecret, Input, Job, NoCallbacks, Output, decrypt, encrypt};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("sound").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

static KEY: LazyLock<String> =
    LazyLock::new(|| generate(false).expect("entropy").0.expose_secret().to_owned());
static ENGINE: LazyLock<Arc<dyn Engine>> = LazyLock::new(|| Arc::new(CpuEngine::new()));

fn job() -> Job<'static> {
    Job { engine: Arc::clone(&ENGINE), threads: 1, progress: &|_| () }
}

/// The first bytes say how long the file is and where it is changed, the rest
/// what it is changed to.
fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_at_checked(6) else { return };
    let word = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let len = word(0) * 5;
    let plain: Vec<u8> = (0..len).map(|at| (at * 31 >> 3) as u8).collect();
    let mut recipients = Recipients::new();
    recipients_of(&KEY, &mut recipients).expect("a key");
    let sealed = Kept::default();
    let output = Output::Stream(Box::new(sealed.clone()));
    let whole = encrypt(&job(), &recipients, Input::Stream(Box::new(Cursor::new(plain.clone()))), output);
    assert_eq!(whole.expect("encrypted"), len as u64);
    let mut changed = sealed.0.lock().expect("sound").clone();
    let original = changed.clone();
    // Bytes from one place on are replaced by others, or taken away.
    let at = word(2) * 6 % (changed.len() + 1);
    let taken = word(4) * 6 % (changed.len() - at + 1);
    changed.splice(at..at + taken, rest.iter().copied());
    let mut identities = Identities::new();
    identities.push_file(&KEY, "key", NoCallbacks).expect("a key");
    let opened = Kept::default();
    let is_same = changed == original;
    let output = Output::Stream(Box::new(opened.clone()));
    let result = decrypt(&job(), &identities, Input::Stream(Box::new(Cursor::new(changed))), output);
    let opened = opened.0.lock().expect("sound");
    assert!(plain.starts_with(&opened), "nothing else comes out");
    match result {
        Ok(len) => assert!(opened.len() as u64 == len && *opened == plain),
        Err(error) => assert!(!is_same, "{error}"),
    }
});
