//! The conformance suite.

mod content;
mod metadata;
mod names;

use std::any::Any;
use std::sync::Arc;

use strongroom_store::{FileRef, NodeRef, Result, Store};

/// What differs between stores without being a fault.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    /// Device nodes can be made.
    pub(crate) device_nodes: bool,
    /// `RenameMode::Whiteout` is there.
    pub(crate) whiteout: bool,
    /// Entries are listed by name.
    pub(crate) sorted: bool,
}

impl Default for Traits {
    fn default() -> Traits {
        Traits { device_nodes: true, whiteout: true, sorted: false }
    }
}

/// A fresh store under test.
pub(crate) struct Subject {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) traits: Traits,
    /// Removed when the test is over.
    #[allow(dead_code, reason = "held for its drop")]
    pub(crate) keep: Option<Box<dyn Any>>,
}

impl Subject {
    pub(crate) fn new(store: impl Store + 'static, traits: Traits) -> Subject {
        Subject { store: Arc::new(store), traits, keep: None }
    }

    pub(crate) fn root(&self) -> NodeRef {
        self.store.root()
    }
}

/// A test of the suite.
pub(crate) type Test = fn(&Subject);

/// All of them.
pub(crate) const TESTS: &[(&str, Test)] = &[
    ("names: create and look up", names::create_and_look_up),
    ("names: bad ones are refused", names::bad_names),
    ("names: errors", names::errors),
    ("names: a long listing", names::long_listing),
    ("names: kinds", names::kinds),
    ("names: removal", names::removal),
    ("names: links", names::links),
    ("names: rename", names::rename),
    ("names: rename of directories", names::rename_directories),
    ("names: rename modes", names::rename_modes),
    ("names: whiteout", names::whiteout),
    ("names: symlinks are not followed", names::symlinks_not_followed),
    ("names: unnamed files", names::unnamed),
    ("names: nodes outlive their names", names::nodes_outlive_names),
    ("content: read and write", content::read_and_write),
    ("content: vectors", content::vectors),
    ("content: many vectors", content::many_vectors),
    ("content: copies", content::copies),
    ("content: sparse", content::sparse),
    ("content: lengths", content::lengths),
    ("content: allocation", content::allocation),
    ("content: access", content::access),
    ("content: barriers", content::barriers),
    ("metadata: mode and owner", metadata::mode_and_owner),
    ("metadata: times", metadata::times),
    ("metadata: extended attributes", metadata::xattrs),
    ("metadata: special files", metadata::special),
    ("metadata: space and limits", metadata::space_and_limits),
];

/// Demands that `result` is the error `errno`.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, errno: rustix::io::Errno) {
    match result {
        Ok(_) => panic!("done, where {errno:?} was due"),
        Err(error) => assert_eq!(error.errno(), errno.raw_os_error(), "{error}"),
    }
}

/// The whole content of a file.
pub(crate) fn content(file: &FileRef) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// The names in a directory, sorted.
pub(crate) fn listing(directory: &NodeRef) -> Vec<String> {
    let entries = directory.entries().unwrap();
    let mut names: Vec<String> =
        entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect();
    names.sort();
    names
}
