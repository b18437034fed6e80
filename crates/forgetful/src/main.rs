//! A mounted store that forgets what was not synced.
//!
//! `forgetful DIRECTORY [ABILITY=ERRNO...]` mounts a store in memory that records every write and
//! every barrier (`strongroom_store::faulty`). Told `cut SEED` on standard
//! input, it behaves as a disk does when the power fails: it unmounts, drops
//! to a state that a power cut could have left, chosen by the seed, and mounts
//! that. Told `lose`, it loses at once what is not durable of each file that is
//! open to be written, and fails what changes or syncs that file until nobody
//! has it open to be written any more. Told `lose once`, it says so to whoever
//! syncs or closes what was open, once, and goes on. `ready` on standard output
//! says that it has done so, or is mounted, with the length of the log. At the end
//! of its input it unmounts and ends.
//!
//! An ability that is named is not there, and asking for it gives the errno:
//! `links`, `xattrs`, `unnamed` (files without names), `exchange`.
//!
//! What it is for: a vault on it, served by the real daemon, of which the
//! tests cut the power. What a cut may leave stands in the documentation of
//! `strongroom_store::faulty`. Its own mount collects nothing in the kernel:
//! what a program has written has been recorded when the call returns.
#![forbid(unsafe_code)]

mod handles;
mod served;
mod words;

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use served::Forgetful;
use strongroom_fuse::{
    Ended, Mount, MountOptions, Session, SessionError, SessionHandle, SessionOptions, UnmountMode,
};
use strongroom_store::faulty::{Call, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;

/// Threads that answer.
const WORKERS: usize = 4;

fn main() -> ExitCode {
    let directory = std::env::args_os().nth(1);
    let plans = std::env::args_os().skip(2).map(|word| lacking(word.to_str()?));
    let lacking = plans.collect::<Option<Vec<_>>>().map(|plans| plans.concat());
    let (Some(directory), Some(lacking)) = (directory, lacking) else {
        eprintln!("usage: forgetful DIRECTORY [links=ERRNO] [xattrs=ERRNO] [unnamed=ERRNO] [exchange=ERRNO]");
        return ExitCode::from(2);
    };
    match serve(Path::new(&directory), &lacking) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forgetful: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The calls that fail for good, as a word of the command line says.
fn lacking(word: &str) -> Option<Vec<Plan>> {
    let (ability, errno) = word.split_once('=')?;
    let calls: &[Call] = match ability {
        "links" => &[Call::Link],
        "xattrs" => &[Call::Xattr, Call::SetXattr, Call::XattrNames, Call::RemoveXattr],
        "unnamed" => &[Call::CreateUnnamed],
        "exchange" => &[Call::Exchange],
        _ => return None,
    };
    let errno = errno.parse().ok()?;
    Some(calls.iter().map(|call| Plan::from(0, errno).of(*call)).collect())
}

/// Serves until the input ends.
fn serve(directory: &Path, lacking: &[Plan]) -> Result<(), Box<dyn Error>> {
    let mut served = Served::mount(directory, MemoryStore::new(), lacking)?;
    say(0)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line == "lose" || line == "lose once" {
            served.filesystem.lose(line == "lose");
            say(served.store.position())?;
            continue;
        }
        let seed = line.strip_prefix("cut ").and_then(|seed| seed.parse().ok());
        let Some(seed) = seed else { return Err(format!("not understood: {line}").into()) };
        let store = served.unmount()?;
        let position = store.position();
        let image = store.image(position, seed);
        drop(store);
        served = Served::mount(directory, image, lacking)?;
        say(position)?;
    }
    served.unmount()?;
    Ok(())
}

fn say(position: usize) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready {position}")?;
    output.flush()
}

/// A mounted store.
struct Served {
    store: FaultyStore,
    filesystem: Arc<Forgetful>,
    handle: SessionHandle,
    session: JoinHandle<Result<Ended, SessionError>>,
}

impl Served {
    fn mount(directory: &Path, memory: MemoryStore, lacking: &[Plan]) -> Result<Served, Box<dyn Error>> {
        let store = FaultyStore::new(memory);
        lacking.iter().for_each(|plan| store.fail(*plan));
        let options = MountOptions { source: "forgetful".to_owned(), ..MountOptions::default() };
        let mount = Mount::new(directory, &options)?;
        let filesystem = Arc::new(Forgetful::new(store.clone()));
        let options =
            SessionOptions { workers: WORKERS, writeback_cache: false, ..SessionOptions::default() };
        let session = Session::new(mount, Arc::clone(&filesystem), options);
        let handle = session.handle();
        let session = std::thread::spawn(move || session.run());
        Ok(Served { store, filesystem, handle, session })
    }

    /// Takes the mount away, in use or not; gives what was recorded.
    fn unmount(self) -> Result<FaultyStore, Box<dyn Error>> {
        self.handle.unmount(UnmountMode::Lazy)?;
        self.session.join().map_err(|_| "the session panicked")??;
        Ok(self.store)
    }
}
