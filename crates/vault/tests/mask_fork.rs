//! A process that forks while its mount holds masks: the child takes none of
//! them, and parent and child seal under no nonce in common. Without a test
//! harness: the child has the thread alone that forked.
//!
//! With the feature `planted-faults` the same again in a process that does not
//! ask for the session of a mask: it has to fail.

mod mask_model;
mod support;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fork::Fork;
use strongroom_engine::Engine;
use strongroom_engine_sim::Faults;
use strongroom_format::vault::Suite;
use strongroom_sched::{Policy, Settings};
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::Vault;
use strongroom_vault::content::Content;

use mask_model::{Spent, Watched, on};
use support::{create, create_file, open_with, options, write};

/// Bytes of a write.
const PIECE: usize = 64 << 10;
/// Writes of parent and child each, after the fork.
const WRITES: u64 = 16;

/// Writes until masks are used and more of them are there.
fn fill(vault: &Vault, content: &Content) {
    for at in 0..1000 {
        write(content, at % 16 * PIECE as u64, &[1; PIECE]).expect("a write");
        std::thread::sleep(Duration::from_millis(1));
        let report = vault.masks().expect("a device makes masks");
        if report.writes.hits >= 2 << 20 && report.held >= 1 << 20 {
            return;
        }
    }
    panic!("there are no masks: {:?}", vault.masks());
}

/// What is sealed by some more writes, behind all others.
fn go_on(content: &Content, spent: &Spent) -> HashSet<[u8; 24]> {
    let before = spent.sealed();
    for at in 0..WRITES {
        write(content, (16 + at) * PIECE as u64, &[2; PIECE]).expect("a write");
    }
    &spent.sealed() - &before
}

/// Seals in parent and child.
///
/// # Errors
/// What they have in common.
fn parent_and_child() -> Result<(), String> {
    let store = Arc::new(MemoryStore::new());
    create(&*store, Suite::Serpent256Poly1305, BlockSize::MIN);
    let spent = Arc::new(Spent::default());
    // The device's thread is not there in the child.
    let settings = Settings { policy: Policy::Fixed, engine: 0, ..on() };
    let engine = Watched::new(Faults::default(), settings, &spent);
    let store = store as Arc<dyn Store>;
    let vault = open_with(store, engine as Arc<dyn Engine>, &options()).map_err(|error| error.to_string())?;
    let content = create_file(vault.namespace(), "file").1;
    fill(&vault, &content);
    // The device's threads wait for work, and hold no lock.
    std::thread::sleep(Duration::from_millis(100));
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let child = match fork::fork().expect("a process") {
        Fork::Child => {
            drop(reader);
            let sealed: Vec<[u8; 24]> = go_on(&content, &spent).into_iter().collect();
            let written = writer.write_all(&sealed.concat());
            std::process::exit(i32::from(written.is_err()));
        }
        Fork::Parent(child) => child,
    };
    drop(writer);
    let hits = spent.masked()[0];
    let parents = go_on(&content, &spent);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("what the child sealed under");
    fork::waitpid(child).expect("the child ended");
    let childs: HashSet<[u8; 24]> = bytes.as_chunks().0.iter().copied().collect();
    let blocks = WRITES as usize * PIECE / 4096;
    assert!(spent.masked()[0] > hits, "the parent goes on with its masks");
    assert!(parents.len() >= blocks, "{} blocks of the parent", parents.len());
    println!("{} nonces of the parent, {} of the child", parents.len(), childs.len());
    let common = spent.sealed().intersection(&childs).count();
    if common > 0 || childs.len() < blocks {
        return Err(format!("{common} nonces in common, {} of the child", childs.len()));
    }
    spent.verdict()
}

fn main() -> ExitCode {
    if let Err(fault) = parent_and_child() {
        println!("{fault}");
        return ExitCode::FAILURE;
    }
    #[cfg(feature = "planted-faults")]
    if std::env::var_os(mask_model::LEAVE_OUT).is_none() {
        let program = std::env::current_exe().expect("this program");
        let mut command = std::process::Command::new(program);
        let output = command.env(mask_model::LEAVE_OUT, "OfSession").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let is_caught = !output.status.success() && said.contains("nonces in common");
        assert!(is_caught, "without the rule nothing fails: {output:?}");
    }
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    ExitCode::SUCCESS
}
