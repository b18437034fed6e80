//! A file system in memory, for tests: small, plain, and talkative about what
//! it was asked.
//!
//! Some names are special: looking up `panic` panics, and reading a file named
//! `hang` waits until [`Memory::release_hanging`]. Of a file named `slow` the
//! kernel keeps what it holds, and a long read is old when it is answered.

#![allow(dead_code)] // each test binary uses its own part

mod operations;
pub(crate) mod served;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strongroom_fuse::{Attributes, Entry, Errno, Negotiated, NodeId, TimedAttributes, Timestamp};

const TIMEOUT: Duration = Duration::from_secs(1);
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

#[derive(Default)]
struct Node {
    attributes: Attributes,
    data: Vec<u8>,
    names: BTreeMap<Vec<u8>, u64>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    parent: u64,
    lookups: u64,
    opens: u64,
    hangs: bool,
    is_slow: bool,
}

struct Tree {
    nodes: HashMap<u64, Node>,
    last: u64,
}

/// What the file system saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) write_max: AtomicUsize,
    pub(crate) read_max: AtomicUsize,
    pub(crate) unaligned: AtomicUsize,
    pub(crate) listings_plus: AtomicUsize,
    pub(crate) copies: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    pub(crate) destroyed: AtomicBool,
    pub(crate) negotiated: Mutex<Option<Negotiated>>,
    /// Readers that hang, and whether they may go on.
    hanging: Mutex<(usize, bool)>,
    changed: Condvar,
}

pub(crate) struct Memory {
    tree: Mutex<Tree>,
    pub(crate) seen: Seen,
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let mut tree = Tree { nodes: HashMap::new(), last: 0 };
        let root = tree.add(DIRECTORY | 0o777, (0, 0), 1);
        tree.nodes.get_mut(&root).unwrap().lookups = 1;
        Memory { tree: Mutex::new(tree), seen: Seen::default() }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many nodes exist, the root included.
    pub(crate) fn node_count(&self) -> usize {
        self.tree().nodes.len()
    }

    /// Changes a file behind the kernel's back, and names its node.
    pub(crate) fn change(&self, name: &[u8], data: &[u8]) -> NodeId {
        let mut tree = self.tree();
        let id = tree.nodes[&1].names[name];
        let node = tree.nodes.get_mut(&id).unwrap();
        node.data = data.to_vec();
        node.attributes.size = data.len() as u64;
        NodeId(id)
    }

    /// Removes a name behind the kernel's back.
    pub(crate) fn forget_name(&self, name: &[u8]) {
        self.tree().nodes.get_mut(&1).unwrap().names.remove(name);
    }

    fn hang(&self) {
        let mut hanging = self.seen.hanging.lock().unwrap();
        hanging.0 += 1;
        self.seen.changed.notify_all();
        while !hanging.1 {
            hanging = self.seen.changed.wait(hanging).unwrap();
        }
    }

    /// Waits until so many readers hang; false when they do not in time.
    pub(crate) fn wait_for_hanging(&self, readers: usize) -> bool {
        let hanging = self.seen.hanging.lock().unwrap();
        let limit = Duration::from_secs(60);
        let (hanging, _) =
            self.seen.changed.wait_timeout_while(hanging, limit, |hanging| hanging.0 < readers).unwrap();
        hanging.0 >= readers
    }

    pub(crate) fn release_hanging(&self) {
        self.seen.hanging.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.seen.changed.notify_all();
    }
}

impl Tree {
    fn add(&mut self, mode: u32, (uid, gid): (u32, u32), parent: u64) -> u64 {
        self.last += 1;
        let (time, inode) = (now(), self.last);
        let attributes = Attributes {
            inode,
            mode,
            nlink: 1,
            uid,
            gid,
            atime: time,
            mtime: time,
            ctime: time,
            block_size: 4096,
            ..Attributes::default()
        };
        self.nodes.insert(inode, Node { attributes, parent, ..Node::default() });
        inode
    }

    fn node(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id.0).ok_or(Errno::STALE)
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&id.0).ok_or(Errno::STALE)
    }

    fn child(&self, parent: NodeId, name: &[u8]) -> Result<NodeId, Errno> {
        self.node(parent)?.names.get(name).copied().map(NodeId).ok_or(Errno::NOENT)
    }

    fn timed(&self, id: NodeId) -> Result<TimedAttributes, Errno> {
        let node = self.node(id)?;
        let mut attributes = node.attributes;
        if attributes.mode & TYPE != DIRECTORY {
            attributes.size = node.data.len() as u64;
        }
        attributes.blocks = attributes.size.div_ceil(512);
        Ok(TimedAttributes::new(attributes, TIMEOUT))
    }

    /// The entry of a node, and one more lookup of it.
    fn entry(&mut self, id: NodeId) -> Result<Entry, Errno> {
        let attributes = self.timed(id)?;
        self.node_mut(id)?.lookups += 1;
        Ok(Entry { node: id, generation: 0, entry_timeout: TIMEOUT, attributes })
    }

    fn insert(&mut self, parent: NodeId, name: &[u8], id: u64) -> Result<(), Errno> {
        let directory = self.node_mut(parent)?;
        if directory.names.contains_key(name) {
            return Err(Errno::EXIST);
        }
        directory.names.insert(name.to_vec(), id);
        Ok(())
    }

    /// Takes one link from a node.
    fn unlinked(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id.0) {
            node.attributes.nlink = node.attributes.nlink.saturating_sub(1);
        }
        self.collect(id);
    }

    /// Removes a node that nothing leads to any more.
    fn collect(&mut self, id: NodeId) {
        let unused = |node: &Node| node.attributes.nlink == 0 && node.lookups == 0 && node.opens == 0;
        if self.nodes.get(&id.0).is_some_and(unused) {
            self.nodes.remove(&id.0);
        }
    }
}

impl Seen {
    fn maximum(of: &AtomicUsize, value: usize) {
        of.fetch_max(value, Ordering::Relaxed);
    }
}
