//! Many threads at one namespace.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use strongroom_store::RenameMode;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Opening, ROOT};

use crate::support::{creation, on_both};

const ROUNDS: u32 = 150;

#[test]
fn no_entry_is_made_in_a_directory_that_goes() {
    on_both(|vault| {
        let namespace = &vault.namespace;
        let (done, removed) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let directory = namespace.make_directory(ROOT, b"d", &creation(0o755));
                    match directory {
                        Ok(entry) => namespace.forget(entry.number, 1),
                        Err(error) => assert_eq!(error.errno(), code::EEXIST, "round {round}"),
                    }
                    match namespace.remove_directory(ROOT, b"d") {
                        Ok(()) => removed.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert!(matches!(error.errno(), code::ENOTEMPTY | code::ENOENT), "{error}");
                            0
                        }
                    };
                }
                done.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let Ok(entry) = namespace.lookup(ROOT, b"d") else { continue };
                    let write = Opening { write: true, ..Opening::default() };
                    match namespace.create(entry.number, b"f", &creation(0o600), write) {
                        Ok((file, _content)) => {
                            namespace.release(file.number);
                            namespace.remove(entry.number, b"f").expect("nobody else removes it");
                            namespace.forget(file.number, 1);
                        }
                        Err(error) => assert_eq!(error.errno(), code::ENOENT, "{error}"),
                    }
                    namespace.forget(entry.number, 1);
                }
            });
        });
        match namespace.remove_directory(ROOT, b"d") {
            Ok(()) => removed.fetch_add(1, Ordering::Relaxed),
            Err(error) => removed.fetch_add(u32::from(error.errno() == code::ENOENT), Ordering::Relaxed),
        };
        assert!(removed.load(Ordering::Relaxed) > 0);
        assert_eq!(vault.names(""), Vec::<String>::new());
        assert_eq!(vault.private("temporary").entries().unwrap(), []);
        assert_eq!(vault.reports.take(), []);
        assert_eq!(namespace.known(), 1);
    });
}

#[test]
fn files_change_places_under_many_hands() {
    on_both(|vault| {
        let directories = [ROOT, vault.directory("a").number, vault.directory("b").number];
        let namespace = &vault.namespace;
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    let mut state = thread.wrapping_mul(0x9e37_79b9) | 1;
                    let mut pick = move |bound: u32| {
                        state ^= state << 13;
                        state ^= state >> 17;
                        state ^= state << 5;
                        state % bound
                    };
                    let tolerated = [
                        code::ENOENT,
                        code::EEXIST,
                        code::EISDIR,
                        code::ENOTDIR,
                        code::ENOTEMPTY,
                        code::EINVAL,
                        code::ESTALE,
                    ];
                    for _ in 0..ROUNDS {
                        let names = [b"x", b"y", b"z"];
                        let (parent, name) = (directories[pick(3) as usize], names[pick(3) as usize]);
                        let (to, to_name) = (directories[pick(3) as usize], names[pick(3) as usize]);
                        let write = Opening { write: true, ..Opening::default() };
                        let done = match pick(7) {
                            0 | 1 => {
                                namespace.create(parent, name, &creation(0o644), write).map(|(entry, _)| {
                                    namespace.release(entry.number);
                                    namespace.forget(entry.number, 1);
                                })
                            }
                            2 => namespace.remove(parent, name),
                            3 => namespace.rename(parent, name, to, to_name, RenameMode::Replace),
                            4 => namespace.rename(parent, name, to, to_name, RenameMode::Exchange),
                            5 => namespace.make_directory(parent, name, &creation(0o755)).map(|entry| {
                                namespace.forget(entry.number, 1);
                            }),
                            _ => namespace.remove_directory(parent, name),
                        };
                        if let Err(error) = done {
                            assert!(tolerated.contains(&error.errno()), "{error:?}");
                        }
                        if let Ok(entry) = namespace.lookup(to, to_name) {
                            // A file that is renamed meanwhile is found or not, never taken for damaged.
                            if let Err(error) = namespace.open(entry.number, Opening::default()) {
                                assert!([code::EISDIR, code::ESTALE].contains(&error.errno()), "{error:?}");
                            } else {
                                namespace.release(entry.number);
                            }
                            namespace.forget(entry.number, 1);
                        }
                    }
                });
            }
        });
        assert_eq!(vault.reports.take(), []);
        assert_eq!(vault.private("temporary").entries().unwrap(), []);
        let vault = vault.remounted();
        for directory in ["", "a", "b"] {
            for name in vault.names(directory) {
                let path = format!("{directory}/{name}");
                if vault.find(&path).unwrap().attributes.kind == strongroom_store::Kind::File {
                    assert_eq!(vault.check_open(&path), Ok(0), "{path}");
                }
            }
        }
    });
}
