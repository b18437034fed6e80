//! What is found on file systems of this machine.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use strongroom_store::trials::{Ability, Finding, Stopped, Trials};

/// As another process would: a description of its own.
fn honest(file: &Path) -> std::io::Result<bool> {
    Ok(flock(File::open(file)?, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn found(directory: &Path, other: &dyn Fn(&Path) -> std::io::Result<bool>) -> HashMap<Ability, Finding> {
    let trials = Trials::begin(directory).expect("it may be written");
    let findings = trials.run(&|_| true, other, &|| true).expect("all are made");
    trials.end().expect("removed");
    assert_eq!(std::fs::read_dir(directory).expect("a directory").count(), 0, "nothing is left");
    let count = findings.len();
    let by_ability: HashMap<_, _> = findings.into_iter().map(|finding| (finding.ability, finding)).collect();
    assert_eq!(by_ability.len(), count, "each is tried once");
    by_ability
}

/// What no file system for general use lacks.
const EVERYWHERE: [Ability; 15] = [
    Ability::Contents,
    Ability::Lengths,
    Ability::LongNames,
    Ability::ExclusiveCreation,
    Ability::Listing,
    Ability::Replacing,
    Ability::Identity,
    Ability::MovingDirectories,
    Ability::Locks,
    Ability::Barriers,
    Ability::RemovedFiles,
    Ability::EmptyAfterRemoval,
    Ability::HardLinks,
    Ability::Modes,
    Ability::Space,
];

#[test]
fn a_directory_of_this_machine_keeps_what_a_vault_needs() {
    let disk = tempfile::tempdir().expect("a directory");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for directory in [disk.path(), memory.path()] {
        let found = found(directory, &honest);
        for ability in EVERYWHERE {
            assert!(found[&ability].kept, "{directory:?}: {:?}", found[&ability]);
        }
    }
}

#[test]
fn they_end_when_that_is_asked_and_leave_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = Trials::begin(directory.path()).expect("it may be written");
    let left = std::cell::Cell::new(3_u32);
    let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
    assert_eq!(trials.run(&|_| true, &honest, &goes_on), Err(Stopped::Asked));
    trials.end().expect("removed");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
}

#[test]
fn what_killed_ones_have_left_is_removed_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let make = |name: String, age_s: u64| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.join("0")).expect("made");
        let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(age_s);
        File::open(&path).and_then(|file| file.set_modified(changed)).expect("ours");
        path
    };
    // Above the largest number of a process.
    let gone = make(".n~doctor-4194305".into(), 7200);
    let young = make(".n~doctor-4194306".into(), 60);
    let living = make(".n~doctor-1".into(), 7200);
    let foreign = make(".n~doctor-x".into(), 7200);
    Trials::begin(directory.path()).and_then(Trials::end).expect("begun and ended");
    let kept = [gone, young, living, foreign].map(|path| path.exists());
    assert_eq!(kept, [false, true, true, true]);
}

#[test]
fn a_lock_that_another_process_gets_too_is_none() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(!found(directory.path(), &|_| Ok(true))[&Ability::Locks].kept);
    // Nor is one that nobody gets any more.
    assert!(!found(directory.path(), &|_| Ok(false))[&Ability::Locks].kept);
    let failing = |_: &Path| Err(std::io::Error::other("no process"));
    assert!(found(directory.path(), &failing)[&Ability::Locks].found.contains("no process"));
}

#[test]
fn what_may_not_be_written_is_not_tried() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    Trials::begin(&file).expect_err("no directory");
    Trials::begin(&directory.path().join("absent")).expect_err("not there");
}
