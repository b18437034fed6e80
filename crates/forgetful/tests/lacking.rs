//! A local store on file systems that lack links, attributes or files without
//! names, in whatever words these say so. It needs `/dev/fuse`.

mod mounted;

use mounted::Mounted;
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::{NodeRef, RenameMode, Result, Store, XattrMode};

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;

fn errno<T>(result: Result<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

fn with_store(lacking: &[String], test: impl Fn(&NodeRef)) {
    let directory = tempfile::tempdir().expect("a directory");
    let _mounted = Mounted::on(directory.path(), lacking);
    let store = LocalStore::open(directory.path(), OpenMode::Writable).expect("it opens");
    test(&store.root());
}

#[test]
fn what_a_store_lacks_is_not_supported_in_whatever_words_it_says_so() {
    for words in [EIO, ENOSYS, EOPNOTSUPP] {
        let lacking = ["links", "xattrs", "unnamed", "exchange"].map(|ability| format!("{ability}={words}"));
        with_store(&lacking, |root| {
            let (node, file) = root.create(b"file", 0o600).expect("made");
            file.write_at(b"text", 0).expect("written");
            for _ in 0..2 {
                assert_eq!(errno(root.link(&*node, b"other")), Some(EOPNOTSUPP), "{words}");
                assert_eq!(errno(node.xattr(b"user.x")), Some(EOPNOTSUPP), "{words}");
                assert_eq!(errno(node.xattr_names()), Some(EOPNOTSUPP), "{words}");
                let set = node.set_xattr(b"user.x", b"1", XattrMode::Any);
                assert_eq!(errno(set), Some(EOPNOTSUPP), "{words}");
                assert_eq!(errno(node.remove_xattr(b"user.x")), Some(EOPNOTSUPP), "{words}");
                assert_eq!(errno(root.create_unnamed(0o600)), Some(EOPNOTSUPP), "{words}");
            }
            let names: Vec<_> = root.entries().expect("listed").into_iter().map(|entry| entry.name).collect();
            assert_eq!(names, [b"file"], "trials leave nothing");
        });
    }
}

#[test]
fn one_thing_that_is_lacking_takes_nothing_else_away() {
    with_store(&[format!("links={EIO}")], |root| {
        let (node, _) = root.create(b"file", 0o600).expect("made");
        root.create(b"second", 0o600).expect("made");
        assert_eq!(errno(root.link(&*node, b"other")), Some(EOPNOTSUPP));
        node.set_xattr(b"user.x", b"1", XattrMode::Any).expect("there are attributes");
        assert_eq!(node.xattr(b"user.x").expect("set"), b"1");
        root.rename(b"file", &**root, b"second", RenameMode::Exchange).expect("exchanged");
    });
    with_store(&[format!("xattrs={EIO}"), format!("exchange={ENOSYS}")], |root| {
        let (node, _) = root.create(b"file", 0o600).expect("made");
        root.create(b"second", 0o600).expect("made");
        assert_eq!(errno(node.xattr(b"user.x")), Some(EOPNOTSUPP));
        root.link(&*node, b"other").expect("there are links");
        assert_eq!(root.lookup(b"other").expect("there").id(), node.id());
        let exchanged = root.rename(b"file", &**root, b"second", RenameMode::Exchange);
        assert_eq!(errno(exchanged), Some(EINVAL));
    });
    with_store(&[], |root| {
        let (node, _) = root.create(b"file", 0o600).expect("made");
        // Of no program: some lose what gets a name later.
        assert_eq!(errno(root.create_unnamed(0o600)), Some(EOPNOTSUPP));
        assert_eq!(errno(node.xattr(b"user.x")), Some(ENODATA));
        root.link(&*node, b"other").expect("there are links");
    });
}
