//! Faults of the store: every call of a fixed workload fails once, in every
//! way a store can fail. Whoever asked is told; what was synced before and not
//! touched since is whole, and so is what is written after the store has
//! healed, whether the vault is closed, dies, or the power fails.

mod fault_model;
mod support;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use fault_model::{Step, Trial, base, trial_options};
use strongroom_engine::Engine;
use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, EVERYTHING, Effect, FaultyStore, NOTHING, Plan};
use strongroom_store::{SetTime, Store};
use strongroom_vault::namespace::{Changes, ROOT};

use Step::{Close, Create, Punch, Read, Remove, Rename, SetLen, Sync, SyncAll, Write};

const EPERM: i32 = 1;
const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const ESTALE: i32 = 116;
const EDQUOT: i32 = 122;

const fn kib(count: u64) -> u64 {
    count << 10
}

/// Every kind of change, with enough overwrites to fill journal segments.
const WORKLOAD: [Step; 62] = [
    Create("a"),
    Write("a", 0, kib(60)),
    Sync("a"),
    Create("b"),
    Write("b", 0, 10_000),
    Close("b"),
    Create("c"),
    Write("c", 0, kib(100)),
    SyncAll,
    Write("a", 5_000, 100),
    Sync("a"),
    Write("b", 10_000, 700),
    Sync("b"),
    Write("b", 10_700, 300),
    Sync("b"),
    Write("c", kib(8), kib(80)),
    Sync("c"),
    Read("c"),
    Write("a", kib(600), kib(10)),
    Sync("a"),
    Write("a", kib(4), kib(40)),
    SetLen("b", 9_000),
    Sync("b"),
    Write("b", 9_000, kib(9)),
    SetLen("b", kib(13)),
    Close("b"),
    Punch("c", kib(8), kib(30)),
    Sync("c"),
    Write("c", kib(10), kib(8)),
    Close("c"),
    Create("d"),
    Write("d", 0, kib(6)),
    Rename("d", "b"),
    Read("b"),
    Sync("b"),
    Create("d"),
    Write("d", 100, 50),
    Close("d"),
    Rename("d", "e"),
    Write("e", 0, kib(5)),
    Write("c", 0, kib(90)),
    Sync("c"),
    Write("c", kib(2), kib(80)),
    SyncAll,
    Read("a"),
    SetLen("a", kib(30)),
    Sync("a"),
    SetLen("a", kib(80)),
    Write("a", kib(70), kib(4)),
    Remove("e"),
    Create("f"),
    Write("f", 0, kib(20)),
    Sync("f"),
    Write("f", kib(4), kib(8)),
    Write("c", kib(3), kib(70)),
    Sync("c"),
    Write("c", kib(1), kib(75)),
    Close("f"),
    Remove("f"),
    Sync("a"),
    Write("c", 0, kib(60)),
    SyncAll,
];

/// Runs `work` in a thread that must report at least every 20 seconds.
fn watched(work: impl FnOnce(&mpsc::Sender<String>) + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || work(&sender));
    let mut last = String::from("the start");
    loop {
        match receiver.recv_timeout(Duration::from_secs(60)) {
            Ok(report) => last = report,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs after {last}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(panic) = worker.join() {
        eprintln!("failed in {last}");
        std::panic::resume_unwind(panic);
    }
}

/// How many calls of the store the workload makes.
fn calls_of_workload(engine: &Arc<dyn Engine>) -> u64 {
    let mut trial = Trial::new(&base(Suite::Xaes256Gcm), false, engine);
    let before = trial.store.calls(None);
    WORKLOAD.iter().for_each(|&step| trial.step(step).unwrap());
    let calls = trial.store.calls(None) - before;
    trial.heal_and_go_on();
    trial.check_power_cut_of_synced(NOTHING);
    trial.close_and_check();
    calls
}

/// The workload with the plans that `plan` makes for every `stride`th call.
fn inject(name: &'static str, stride: u64, loses: bool, plan: impl Fn(u64) -> Plan + Send + 'static) {
    inject_on(support::engine(), name, stride, loses, plan);
}

fn inject_on(
    engine: Arc<dyn Engine>,
    name: &'static str,
    stride: u64,
    loses: bool,
    plan: impl Fn(u64) -> Plan + Send + 'static,
) {
    watched(move |reports| {
        let calls = calls_of_workload(&engine);
        assert!(calls > 150, "the workload reaches the store: {calls} calls");
        let bases = Suite::ALL.map(base);
        let mut told = 0;
        for after in (0..calls).step_by(stride as usize) {
            for dies in [false, true] {
                let label = format!("{name}, call {after}, {}", if dies { "dying" } else { "healing" });
                reports.send(label).expect("somebody watches");
                let mut trial = Trial::new(&bases[(after % 3) as usize], loses, &engine);
                trial.store.fail(plan(after));
                WORKLOAD.iter().for_each(|&step| drop(trial.step(step)));
                told += trial.failures();
                if dies {
                    trial.die_and_check();
                } else {
                    trial.heal_and_go_on();
                    for seed in [NOTHING, EVERYTHING, after] {
                        trial.check_power_cut_of_synced(seed);
                    }
                    trial.close_and_check();
                }
            }
        }
        assert!(told > 0, "no fault was seen");
    });
}

/// A file of two groups, in which pages of both are named by what is durable.
const TWO_GROUPS: [Step; 5] = [
    Create("a"),
    Write("a", 0, kib(60)),
    Write("a", kib(600), kib(20)),
    SyncAll,
    Write("a", kib(604), kib(4)),
];

/// A commit that fails after its pages were sealed is made again whole: the
/// next record names them, and not the images of the one that failed.
#[test]
fn a_commit_whose_times_fail_is_made_again() {
    let engine = support::engine();
    for call in [Call::SetTimes, Call::Attributes, Call::Write, Call::SyncData] {
        let mut is_told = false;
        for after in 0..4 {
            let mut trial = Trial::new(&base(Suite::Xaes256Gcm), false, &engine);
            TWO_GROUPS.iter().for_each(|&step| trial.step(step).unwrap());
            trial.store.fail(Plan::once(after, EIO).of(call));
            is_told |= trial.step(Sync("a")).is_err();
            trial.store.heal();
            trial.step(Sync("a")).unwrap();
            for seed in [NOTHING, EVERYTHING, after] {
                trial.check_power_cut_of_synced(seed);
            }
            trial.close_and_check();
        }
        assert!(is_told, "{call:?} is part of a commit");
    }
}

/// What a barrier lost, and was told to be lost, takes nothing along that later ones made durable.
#[test]
fn a_new_file_whose_first_barrier_lost_a_part_of_it_is_not_taken_away() {
    let engine = support::engine();
    for later in 1..=3 {
        let mut trial = Trial::new(&base(Suite::Xaes256Gcm), true, &engine);
        [Create("a"), Write("a", 0, 8192)].iter().for_each(|&step| trial.step(step).unwrap());
        let lost = Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(0, EIO) };
        trial.store.fail(lost.of(Call::SyncAll));
        trial.step(Sync("a")).unwrap_err();
        trial.store.heal();
        for number in 1..=later {
            trial.step(Write("a", number << 19, 1 << 19)).unwrap();
            trial.step(if number == 2 { SyncAll } else { Sync("a") }).unwrap();
        }
        for seed in [NOTHING, EVERYTHING, 1] {
            trial.check_power_cut_of_synced(seed);
        }
    }
}

/// A kernel tells of pages that it could not write once, and forgets them: the
/// next barrier succeeds.
#[test]
fn a_barrier_that_failed_for_another_is_told_to_whoever_syncs_the_file() {
    for (durable, is_journaled) in [(false, false), (true, false), (true, true)] {
        let store = Arc::new(FaultyStore::new(base(Suite::Xaes256Gcm)));
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let vault = support::open_with(shared, support::engine(), &trial_options()).unwrap();
        let (_, content) = support::create_file(vault.namespace(), "file");
        support::write(&content, 0, &[1; 9000]).unwrap();
        if durable {
            content.sync().unwrap();
        }
        let offset = if is_journaled { 0 } else { 1 << 20 };
        support::write(&content, offset, &[2; 200_000]).unwrap();
        // As the background commit does.
        for call in [Call::SyncData, Call::SyncAll, Call::SyncStore] {
            store.fail(Plan::once(0, EIO).of(call));
            let failed = vault.sync();
            store.heal();
            if failed.is_err() && call != Call::SyncStore {
                break;
            }
        }
        let told = [content.sync_data(), content.sync_data(), content.sync()];
        assert_eq!(told[0].as_ref().map_err(|error| error.errno()), Err(EIO), "{durable} {is_journaled}");
        assert_eq!(told[1..], [Ok(()), Ok(())], "{durable} {is_journaled}: once");
        drop(content);
        vault.close().unwrap();
    }
}

/// Some stores refuse to set the times of a file that has no name any more.
#[test]
fn times_of_a_removed_file_are_no_fault() {
    for is_told in [false, true] {
        let store = Arc::new(FaultyStore::new(base(Suite::Xaes256Gcm)));
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let vault = support::open_with(shared, support::engine(), &trial_options()).unwrap();
        let names = vault.namespace();
        let (entry, content) = support::create_file(names, "file");
        support::write(&content, 0, &[1; 9000]).unwrap();
        content.sync().unwrap();
        support::write(&content, 0, &[2; 9000]).unwrap();
        let changes = Changes { modified: SetTime::Now, ..Changes::NONE };
        let refused = || store.fail(Plan::from(0, EPERM).of(Call::SetTimes));

        refused();
        assert_eq!(content.sync().unwrap_err().errno(), EPERM, "the file has a name");
        assert_eq!(names.set_attributes(entry.number, &changes).unwrap_err().errno(), EPERM);
        store.heal();
        if is_told {
            names.remove(ROOT, b"file").unwrap();
        } else {
            // As when the removal is under way, and the file not told of it yet.
            let root = store.root();
            let of = |name: &[u8]| root.lookup(name).unwrap().id() == entry.attributes.id;
            let stored = root.entries().unwrap().into_iter().find(|stored| of(&stored.name)).unwrap();
            root.remove(&stored.name).unwrap();
        }
        refused();
        content.sync().unwrap();
        names.set_attributes(entry.number, &changes).unwrap();
        drop(content);
        names.release(entry.number);
        names.set_attributes(entry.number, &changes).unwrap();
        vault.sync().unwrap();
        names.forget(entry.number, 1);
        vault.close().unwrap();
        assert_eq!(vault.last_error(), None);
    }
}

fn once(effect: Effect) -> impl Fn(u64) -> Plan {
    move |after| Plan { call: None, after, times: 1, effect }
}

#[test]
fn every_call_fails_once_with_eio() {
    inject("EIO", 1, false, once(Effect::Fails(EIO)));
}

/// A local store repeats calls that a signal cuts short, one behind a network
/// may not.
#[test]
fn every_call_fails_once_with_eintr() {
    inject("EINTR", 3, false, once(Effect::Fails(EINTR)));
}

#[test]
fn every_call_fails_once_for_space_or_quota() {
    inject("ENOSPC", 2, false, once(Effect::Fails(ENOSPC)));
    inject("EDQUOT", 7, false, once(Effect::Fails(EDQUOT)));
}

#[test]
fn every_write_is_cut_short() {
    inject("512 bytes", 1, false, once(Effect::PartialWrite { bytes: 512, errno: EIO }));
    inject("5000 bytes", 3, false, once(Effect::PartialWrite { bytes: 5000, errno: ENOSPC }));
    inject("all bytes", 3, false, once(Effect::PartialWrite { bytes: usize::MAX, errno: EIO }));
}

#[test]
fn every_read_is_short() {
    inject("no bytes", 1, false, once(Effect::ShortRead(0)));
    inject("100 bytes", 2, false, once(Effect::ShortRead(100)));
}

#[test]
fn every_barrier_loses_what_it_should_cover() {
    inject("lost", 1, true, once(Effect::LosesUnsynced(EIO)));
}

#[test]
fn the_store_turns_read_only() {
    inject("read-only", 3, false, |after| Plan {
        call: None,
        after,
        times: u64::MAX,
        effect: Effect::ReadOnly,
    });
}

#[test]
fn the_store_disappears_and_returns() {
    inject("for 40 calls", 3, false, |after| Plan { times: 40, ..Plan::from(after, EIO) });
    inject("for good", 5, false, |after| Plan::from(after, ESTALE));
}

/// The same faults, while the engine answers from other threads, late, out of
/// order, and loses work of its own. The calls and their order are the same:
/// the store is called by whoever waits.
#[test]
fn calls_fail_on_an_unruly_engine() {
    let unruly = support::unruly();
    let on = |name, stride, loses, plan: Effect| {
        inject_on(Arc::clone(&unruly), name, stride, loses, once(plan));
    };
    on("unruly, EIO", 5, false, Effect::Fails(EIO));
    on("unruly, EINTR", 11, false, Effect::Fails(EINTR));
    on("unruly, ENOSPC", 11, false, Effect::Fails(ENOSPC));
    on("unruly, EDQUOT", 17, false, Effect::Fails(EDQUOT));
    on("unruly, short write", 11, false, Effect::PartialWrite { bytes: 5000, errno: EIO });
    on("unruly, short read", 11, false, Effect::ShortRead(100));
    on("unruly, lost", 11, true, Effect::LosesUnsynced(EIO));
    inject_on(Arc::clone(&unruly), "unruly, read-only", 23, false, |after| Plan {
        call: None,
        after,
        times: u64::MAX,
        effect: Effect::ReadOnly,
    });
    inject_on(unruly, "unruly, for 40 calls", 23, false, |after| Plan {
        times: 40,
        ..Plan::from(after, EIO)
    });
}
