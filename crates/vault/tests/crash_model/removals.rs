//! A history for one rule alone: files that were overwritten durably and then
//! removed, until the journal's segments are used again for records of others
//! like them. No random history keeps all else from making the removals
//! durable first: a barrier on any stored file does so, and most checkpoints
//! have one.

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{OpenOptions, Rules};

use super::CHOICES;
use crate::support::{self, Rng, create_file, options, write};

const FILES: usize = 24;
const LEN: usize = 64 << 10;

/// Cuts the power at random moments, and looks at up to `limit` images: a
/// removed file that a crash brings back holds what was last synced. Calls
/// `checked` after each.
///
/// # Errors
/// What is wrong with an image.
pub(crate) fn run(rules: Rules, limit: usize, mut checked: impl FnMut()) -> Result<usize, String> {
    let (store, synced) = play(rules);
    let (begin, end) = (synced[0], store.position());
    let mut rng = Rng(0x7e30);
    for number in 0..limit {
        let cut = begin + rng.below((end - begin + 1) as u64) as usize;
        let image = store.image(cut, rng.below(CHOICES));
        check(image, cut, &synced).map_err(|fault| format!("image {number} of the removals: {fault}"))?;
        checked();
    }
    Ok(limit)
}

/// Gives the store, and its position when each file had been overwritten
/// durably.
fn play(rules: Rules) -> (Arc<FaultyStore>, Vec<usize>) {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::new(memory));
    let small = OpenOptions { journal_len: 1 << 20, rules, ..options() };
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let vault = support::open_with(shared, support::engine(), &small).expect("it opens");
    let names = vault.namespace();
    let create = |at: usize| {
        let (entry, content) = create_file(names, &at.to_string());
        write(&content, 0, &[1; LEN]).expect("written");
        content.sync().expect("synced");
        (entry.number, content)
    };
    let files: Vec<_> = (0..FILES).map(create).collect();
    let remove = |(at, (number, content)): (usize, &(u64, Arc<Content>))| {
        write(content, 0, &[2; LEN]).expect("overwritten");
        content.sync_data().expect("synced");
        let synced = store.position();
        names.remove(ROOT, at.to_string().as_bytes()).expect("removed");
        names.release(*number);
        synced
    };
    let synced = files.iter().enumerate().map(remove).collect();
    vault.abandon();
    (store, synced)
}

fn check(image: MemoryStore, cut: usize, synced: &[usize]) -> Result<(), String> {
    let vault = support::open(Arc::new(image));
    let names = vault.namespace();
    for (at, synced) in synced.iter().enumerate() {
        let Ok(entry) = names.lookup(ROOT, at.to_string().as_bytes()) else { continue };
        let content =
            names.open(entry.number, Opening::default()).map_err(|error| format!("{at}: {error}"))?;
        let found = support::read_all(&content).map_err(|error| format!("{at}: {error}"))?;
        if found != [2; LEN] && (found != [1; LEN] || cut >= *synced) {
            return Err(format!("file {at} is not as it was synced"));
        }
    }
    Ok(())
}
