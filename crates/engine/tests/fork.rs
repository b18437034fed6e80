//! A process that forks while it holds a source of nonces: parent and child
//! share neither a session nor a nonce. Without a test harness, so that the
//! process that forks has one thread.

use std::collections::HashSet;
use std::io::{Read, Write};

use fork::Fork;
use strongroom_engine::NonceSource;

const BATCHES: usize = 2000;

fn draw(source: &NonceSource) -> Vec<[u8; 24]> {
    (0..BATCHES).map(|_| source.batch(4096).expect("entropy").draw().bytes()).collect()
}

fn main() {
    let source = NonceSource::new().expect("entropy");
    let before = draw(&source);
    let session = source.session();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let child = match fork::fork().expect("a process") {
        Fork::Child => {
            drop(reader);
            let drawn = draw(&source).concat();
            let written = writer.write_all(&drawn).and_then(|()| writer.write_all(&source.session().0));
            std::process::exit(i32::from(written.is_err()));
        }
        Fork::Parent(child) => child,
    };
    drop(writer);
    let parents = draw(&source);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("what the child drew");
    fork::waitpid(child).expect("the child ended");
    let (drawn, childs_session) = bytes.split_at(BATCHES * 24);
    let childs: Vec<[u8; 24]> = drawn.as_chunks().0.to_vec();
    assert_eq!(source.session(), session, "the parent goes on");
    assert_ne!(childs_session, session.0, "the child has a session of its own");
    assert!(childs.iter().all(|nonce| nonce[..12] == *childs_session), "from its first nonce on");
    let all: HashSet<_> = before.iter().chain(&parents).chain(&childs).collect();
    assert_eq!(all.len(), 3 * BATCHES, "no nonce was drawn twice");
    println!("{} nonces of parent and child, none twice", all.len());
}
