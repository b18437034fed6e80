//! In what pieces a file that is written from its beginning to its end reaches the store. A store of objects
//! begins a new one with each piece that does not follow the last.

mod support;

use std::sync::Arc;

use strongroom_format::vault::{Geometry, PageKind, Suite};
use strongroom_store::Store;
use strongroom_store::faulty::{Call, Effect, Event, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_units::{BlockIndex, BlockSize, GROUP_BLOCKS, PAGE_LEN};
use strongroom_vault::content::{Content, Loss};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, OpenOptions, Vault};
use support::{create_file, options, read_all, write};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// So long that no commit comes for want of room.
const JOURNAL: u64 = 64 << 20;

/// A vault in whose log a file can be followed.
struct Traced {
    store: Arc<FaultyStore>,
    vault: Vault,
    content: Arc<Content>,
    number: u64,
    inode: u64,
    geometry: Geometry,
    model: Vec<u8>,
    /// Where in the log the next look begins.
    seen: usize,
}

/// A piece of the stored file: offset and length.
type Piece = (u64, u64);

impl Traced {
    fn new(block_size: BlockSize) -> Traced {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::Xaes256Gcm, block_size);
        let store = Arc::new(FaultyStore::new(memory));
        let options = OpenOptions { journal_len: JOURNAL, ..options() };
        let vault =
            support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options).unwrap();
        let before = store.position();
        let (entry, content) = create_file(vault.namespace(), "file");
        let events = store.events(before..store.position());
        let header = |event: &Event| match *event {
            Event::Write { inode, offset: 0, len } if len == PAGE_LEN as u64 => Some(inode),
            _ => None,
        };
        let inode = events.iter().find_map(header).expect("a new file is given a place for its header page");
        let (seen, geometry) = (store.position(), Geometry::new(block_size));
        Traced { store, vault, content, number: entry.number, inode, geometry, model: Vec::new(), seen }
    }

    /// What was written to the stored file since the last look.
    fn pieces(&mut self) -> Vec<Piece> {
        let events = self.store.events(self.seen..self.store.position());
        self.seen = self.store.position();
        let piece = |event: &Event| match *event {
            Event::Write { inode, offset, len } if inode == self.inode => Some((offset, len)),
            _ => None,
        };
        events.iter().filter_map(piece).collect()
    }

    /// Whether nothing but writes was done to the stored file since the last look.
    fn is_only_written(&self) -> bool {
        self.store.events(self.seen..self.store.position()).iter().all(|event| match *event {
            Event::SetLen { inode, .. } | Event::Punch { inode, .. } | Event::Reserve { inode, .. } => {
                inode != self.inode
            }
            _ => true,
        })
    }

    /// Writes behind the end, in requests of a length.
    fn append(&mut self, len: u64, request: u64) {
        let end = self.model.len() as u64 + len;
        while (self.model.len() as u64) < end {
            let offset = self.model.len() as u64;
            let part = request.min(end - offset);
            let data: Vec<u8> = (offset..offset + part).map(|at| (at / 509) as u8).collect();
            write(&self.content, offset, &data).unwrap();
            self.model.extend(data);
        }
    }

    fn node_at(&self, group: u64) -> u64 {
        self.geometry.page_offset(PageKind::Node, group).0
    }

    /// Opens the vault anew, and the file.
    fn reopen(self) -> Arc<Content> {
        drop(self.content);
        self.vault.namespace().release(self.number);
        self.vault.close().unwrap();
        drop(self.vault);
        let vault = support::open(self.store as Arc<dyn Store>);
        let found = vault.namespace().lookup(ROOT, b"file").unwrap();
        vault.namespace().open(found.number, Opening::default()).unwrap()
    }

    /// Every page and block of the file has to be there when it is opened anew.
    fn check(mut self) {
        assert!(read_all(&self.content).unwrap() == self.model);
        let model = std::mem::take(&mut self.model);
        let content = self.reopen();
        assert!(read_all(&content).unwrap() == model);
        assert_eq!(content.verify(&mut |_| {}).unwrap().damage, []);
    }
}

/// Those that do not begin where the one before ends.
fn breaks(from: u64, pieces: &[Piece]) -> Vec<Piece> {
    let ends = std::iter::once(from).chain(pieces.iter().map(|(offset, len)| offset + len));
    ends.zip(pieces).filter(|(end, (offset, _))| end != offset).map(|(_, piece)| *piece).collect()
}

#[test]
fn a_new_file_is_one_piece_until_its_commit() {
    let mut traced = Traced::new(BlockSize::MIN);
    traced.append(8 * MIB, MIB);
    assert!(traced.is_only_written());
    let pieces = traced.pieces();
    assert_eq!(breaks(PAGE_LEN as u64, &pieces), []);
    assert_eq!(pieces.len(), 8, "a request is one write");
    traced.content.sync().unwrap();
    let map = (traced.node_at(1) - PAGE_LEN as u64, PAGE_LEN as u64);
    assert_eq!(traced.pieces(), [map, (0, PAGE_LEN as u64)], "the commit writes what was not known before");
    traced.check();
}

#[test]
fn so_is_what_is_appended_to_a_durable_file() {
    let mut traced = Traced::new(BlockSize::MIN);
    traced.append(8 * MIB, MIB);
    traced.content.sync().unwrap();
    traced.pieces();
    let end = traced.node_at(16);
    traced.append(8 * MIB, MIB);
    assert!(traced.is_only_written());
    assert_eq!(breaks(end, &traced.pieces()), []);
    traced.content.sync().unwrap();
    assert_eq!(traced.pieces(), [], "the header and map page are referenced");
    traced.check();
}

#[test]
fn a_page_goes_back_to_its_place_when_several_requests_fill_its_group() {
    for request in [300 << 10, MIB + BLOCK, 64 << 10, 3 * BLOCK] {
        let mut traced = Traced::new(BlockSize::MIN);
        traced.append(4 * MIB, request);
        let nodes: Vec<u64> = (1..8).map(|group| traced.node_at(group)).collect();
        let mut end = PAGE_LEN as u64;
        let mut back = Vec::new();
        for (offset, len) in traced.pieces() {
            if len == PAGE_LEN as u64 && offset < end && nodes.contains(&offset) {
                back.push(offset);
                continue;
            }
            assert_eq!(offset, end, "{len} bytes, in requests of {request}");
            end = offset + len;
        }
        assert!(back.is_sorted_by(|a, b| a < b), "each page once: {back:?}");
        traced.content.sync().unwrap();
        assert_eq!(traced.pieces().len(), 2, "the map and the header page, in requests of {request}");
        traced.check();
    }
}

#[test]
fn a_page_that_has_changed_before_its_commit_is_written_again_by_it() {
    let mut traced = Traced::new(BlockSize::MIN);
    traced.append(4 * MIB, MIB);
    traced.pieces();
    let at = (3 * GROUP_BLOCKS + 5) * BLOCK;
    for stamp in 1..4 {
        write(&traced.content, at, &[stamp; BLOCK as usize]).unwrap();
        traced.model[at as usize..][..BLOCK as usize].fill(stamp);
    }
    let block = (traced.geometry.block_offset(BlockIndex(at / BLOCK)).0, BLOCK);
    assert_eq!(traced.pieces(), [block; 3], "not by each write");
    traced.content.sync().unwrap();
    let (page, len) = (traced.node_at(3), PAGE_LEN as u64);
    let map = (traced.node_at(1) - len, len);
    assert_eq!(traced.pieces(), [(page, len), map, (0, len)]);
    traced.check();
}

#[test]
fn behind_a_cut_that_is_not_durable_nothing_is_written_in_place() {
    let mut traced = Traced::new(BlockSize::MIN);
    traced.append(4 * MIB, MIB);
    traced.content.sync().unwrap();
    traced.content.set_len(MIB).unwrap();
    traced.model.truncate(MIB as usize);
    traced.pieces();
    traced.append(2 * MIB, 64 << 10);
    assert_eq!(traced.pieces(), []);
    traced.check();
}

#[test]
fn pages_whose_barrier_failed_are_written_again() {
    let mut traced = Traced::new(BlockSize::MIN);
    traced.append(MIB, MIB);
    traced.content.sync().unwrap();
    traced.append(MIB, MIB);
    traced.store.fail(Plan {
        call: Some(Call::SyncData),
        effect: Effect::LosesUnsynced(5),
        ..Plan::once(0, 5)
    });
    assert!(traced.content.sync_data().is_err());
    traced.content.sync_data().unwrap();
    let content = traced.reopen();
    let damage = content.verify(&mut |_| {}).unwrap().damage;
    let [Loss { damage: Damage::Blocks { .. }, range }] = &damage[..] else { panic!("{damage:?}") };
    assert_eq!(*range, Some(MIB..2 * MIB), "the blocks are lost, and no page is");
}
