//! The redo journal: slots for images, a chain of records, and one barrier
//! shared by all who wait for it.
//!
//! Invariants: a change's slots are promised before it takes any lock; a
//! record is appended only after everything it names has been written; a
//! segment's slots are written again only after its new header is durable.
//! What the journal does not know: files, pages and blocks (that is `content`)
//! and when to commit (that is `committer`).

pub(crate) mod replay;
mod segments;
mod space;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use strongroom_engine::AssociatedData;
use strongroom_format::vault::WriteSession;
use strongroom_format::vault::journal::{CLEAR_LEN, RecordHeader, SegmentHeader, SegmentStart, record_slots};
pub(crate) use strongroom_format::vault::record::Place;
use strongroom_format::vault::record::{Change, Record};
use strongroom_store::NodeRef;

use crate::error::{Error, Result, errno};
use crate::rules::{Rule, Rules};
use crate::sealer::{Purpose, Sealer};
pub(crate) use segments::{Segments, after, slots_of};
use space::Space;

/// The journal of the session that this process writes in.
pub(crate) struct Journal {
    segments: Arc<Segments>,
    session: WriteSession,
    slots: u32,
    rules: Rules,
    space: Mutex<Space>,
    /// Held by whoever rotates the segments and empties one.
    rotating: Mutex<()>,
    failing: Mutex<Option<Error>>,
    room: Condvar,
    /// How many wait for room; guarded by `space`.
    waiting: AtomicUsize,
    chain: Mutex<Chain>,
    barrier: Mutex<Barrier>,
    synced: Condvar,
}

/// Where the chain of records ends.
struct Chain {
    next_sequence: u64,
    tag: [u8; 16],
    epochs: [u64; 2],
}

/// What is durable.
#[derive(Default)]
struct Barrier {
    /// Records appended so far, those that a failed barrier voided included.
    appended: u64,
    /// How many of them are durable, or void.
    durable: u64,
    end: End,
    durable_end: End,
    unsynced: [bool; 2],
    under_way: bool,
    failure: Option<Error>,
}

/// A record that ends the chain, and how many barriers had failed by then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct End {
    sequence: u64,
    tag: [u8; 16],
    failures: u64,
}

/// A record that has been appended, to be waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    /// Counts all records of this journal.
    pub(crate) number: u64,
    failures: u64,
}

impl Appended {
    /// To wait for this record and for those since `first`.
    pub(crate) fn since(self, first: Option<Appended>) -> Appended {
        Appended { failures: first.map_or(self.failures, |first| first.failures), ..self }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Creates the session's journal and makes it durable, so that the vault
    /// header may name the session.
    pub(crate) fn create(
        directory: &NodeRef,
        session: WriteSession,
        slots: u32,
        sealer: &Sealer,
        rules: Rules,
    ) -> Result<Journal> {
        let segments = Arc::new(Segments::create(directory, session, slots)?);
        let journal = Journal {
            segments,
            session,
            slots,
            rules,
            space: Mutex::new(Space::new(slots)),
            rotating: Mutex::new(()),
            failing: Mutex::new(None),
            room: Condvar::new(),
            waiting: AtomicUsize::new(0),
            chain: Mutex::new(Chain { next_sequence: 1, tag: [0; 16], epochs: [1, 2] }),
            barrier: Mutex::new(Barrier::default()),
            synced: Condvar::new(),
        };
        let begin = SegmentStart { chain: [0; 16], next_sequence: 1 };
        for segment in [0, 1] {
            let epoch = u64::from(segment) + 1;
            journal.segments.write_header(sealer, segment, journal.header(epoch), &begin)?;
            journal.segments.file(segment).sync_all()?;
        }
        Ok(journal)
    }

    fn header(&self, epoch: u64) -> SegmentHeader {
        SegmentHeader { epoch, session: self.session, slots: self.slots, nonce: [0; 24], tag: [0; 16] }
    }

    /// The session that the vault header lists.
    pub(crate) fn session(&self) -> WriteSession {
        self.session
    }

    /// For reading images.
    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Slots that are promised.
    #[cfg(all(test, strongroom_model))]
    pub(crate) fn promised(&self) -> u32 {
        lock(&self.space).promised()
    }

    /// Most slots that one change may ask for.
    pub(crate) fn promise_max(&self) -> u32 {
        self.slots / 2
    }

    /// Promises `slots` of the active segment, if it has them.
    pub(crate) fn try_promise(&self, slots: u32) -> bool {
        lock(&self.space).promise(slots)
    }

    /// Waits until [`Journal::try_promise`] is worth another try.
    ///
    /// # Errors
    /// Why the journal cannot be emptied, while that lasts.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let space = lock(&self.space);
        if let Some(error) = &*lock(&self.failing) {
            return Err(error.clone());
        }
        let patience = Duration::from_millis(100);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.room.wait_timeout(space, patience).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(waited);
        Ok(())
    }

    /// Notes whether emptying a segment works; who waits for room is told.
    pub(crate) fn set_failing(&self, error: Option<Error>) {
        let _space = lock(&self.space);
        *lock(&self.failing) = error;
        self.room.notify_all();
    }

    /// Gives back what was promised and not needed. Nearly every write does,
    /// and to notify nobody is a system call all the same.
    pub(crate) fn release(&self, slots: u32) {
        if slots == 0 {
            return;
        }
        let mut space = lock(&self.space);
        space.release(slots);
        let is_waited_for = self.waiting.load(Ordering::Relaxed) > 0;
        drop(space);
        if is_waited_for {
            self.room.notify_all();
        }
    }

    /// Writes images into consecutive slots, `promised` of which had been.
    pub(crate) fn write_images(&self, data: &[u8], slots: u32, promised: u32) -> Result<Place> {
        let place = lock(&self.space).take(slots, promised).ok_or(Error::Refused(errno::ENOSPC))?;
        self.segments.write(place, data)?;
        lock(&self.barrier).unsynced[usize::from(place.segment)] = true;
        Ok(place)
    }

    /// Writes images again that stand in `place` already: a barrier that
    /// should have made them durable has failed.
    pub(crate) fn rewrite_images(&self, place: Place, data: &[u8]) -> Result<()> {
        self.segments.write(place, data)?;
        lock(&self.barrier).unsynced[usize::from(place.segment)] = true;
        Ok(())
    }

    /// How many barriers have failed. What was not durable before one of them
    /// may be lost, whatever a later barrier says.
    pub(crate) fn failures(&self) -> u64 {
        lock(&self.barrier).end.failures
    }

    /// Why the last barrier has failed that did.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.barrier).failure.clone()
    }

    /// Appends a record, whose slots come out of the `promised` ones as far
    /// as these reach; it is to be waited for with [`Journal::sync_to`]. The
    /// chain stays locked while the engine seals, since each record holds the
    /// tag of the one before.
    ///
    /// # Errors
    /// Why a barrier has failed since there were `failures`: what the record would
    /// name may be lost.
    pub(crate) fn append(
        &self,
        sealer: &Sealer,
        change: Change,
        failures: u64,
        promised: &mut u32,
    ) -> Result<Appended> {
        // No barrier is found to have failed while the chain is locked.
        let mut chain = lock(&self.chain);
        let durable = {
            let barrier = lock(&self.barrier);
            match &barrier.failure {
                Some(error) if barrier.end.failures != failures => return Err(error.clone()),
                _ => barrier.durable_end.sequence,
            }
        };
        let record = Record { chain: chain.tag, durable, change };
        let sealed_len = record.encoded_len();
        let slots = record_slots(sealed_len);
        let mut sealed = Vec::with_capacity(sealed_len);
        record.encode(&mut sealed).map_err(|_| Error::Engine("a journal record is malformed"))?;
        let of_promised = slots.min(*promised);
        let place = lock(&self.space).take(slots, of_promised).ok_or(Error::Refused(errno::ENOSPC))?;
        *promised -= of_promised;
        let mut header = RecordHeader {
            sealed_len,
            epoch: chain.epochs[usize::from(place.segment)],
            sequence: chain.next_sequence,
            nonce: [0; 24],
            tag: [0; 16],
        };
        let mut buffer = sealer.buffer(Purpose::Journal, CLEAR_LEN + sealed_len);
        buffer[CLEAR_LEN..].copy_from_slice(&sealed);
        let (nonce, tag) =
            sealer.seal_one(Purpose::Journal, &mut buffer, CLEAR_LEN..CLEAR_LEN + sealed_len, |nonce| {
                header.nonce = *nonce;
                AssociatedData::new(&header.associated_data(self.session, place.slot))
            })?;
        header.nonce = nonce;
        header.tag = tag;
        buffer[..CLEAR_LEN].copy_from_slice(&header.encode());
        self.segments.write(place, &buffer)?;
        chain.next_sequence += 1;
        chain.tag = tag;
        let mut barrier = lock(&self.barrier);
        barrier.appended += 1;
        barrier.end = End { sequence: header.sequence, tag, failures: barrier.end.failures };
        barrier.unsynced[usize::from(place.segment)] = true;
        Ok(Appended { number: barrier.appended, failures: barrier.end.failures })
    }

    /// Makes every record up to `record` durable. All who wait at once share
    /// a barrier, and its failure.
    pub(crate) fn sync_to(&self, record: Appended) -> Result<()> {
        if !self.rules.keeps(Rule::RecordBeforeReply) {
            return Ok(());
        }
        let mut barrier = lock(&self.barrier);
        loop {
            if let Some(error) = &barrier.failure
                && barrier.end.failures != record.failures
            {
                return Err(error.clone());
            }
            if barrier.durable >= record.number {
                return Ok(());
            }
            if barrier.under_way {
                barrier = self.synced.wait(barrier).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            barrier.under_way = true;
            let (appended, end) = (barrier.appended, barrier.end);
            let unsynced = std::mem::take(&mut barrier.unsynced);
            drop(barrier);
            if let Err(error) = self.sync_segments(unsynced) {
                self.void_undurable(unsynced, &error);
                return Err(error);
            }
            barrier = lock(&self.barrier);
            barrier.under_way = false;
            barrier.durable = appended;
            barrier.durable_end = end;
            self.synced.notify_all();
        }
    }

    /// A barrier has failed, and what it should have covered may be lost even
    /// if the next one succeeds. The chain goes on behind what is durable, and
    /// whoever waits for a record behind that is told.
    fn void_undurable(&self, unsynced: [bool; 2], error: &Error) {
        let mut chain = lock(&self.chain);
        let mut barrier = lock(&self.barrier);
        let failures = barrier.end.failures + 1;
        barrier.durable_end.failures = failures;
        barrier.end = barrier.durable_end;
        barrier.durable = barrier.appended;
        barrier.failure = Some(error.clone());
        chain.next_sequence = barrier.end.sequence + 1;
        chain.tag = barrier.end.tag;
        for (flag, was) in barrier.unsynced.iter_mut().zip(unsynced) {
            *flag |= was;
        }
        barrier.under_way = false;
        self.synced.notify_all();
    }

    fn sync_segments(&self, unsynced: [bool; 2]) -> Result<()> {
        for segment in [0, 1] {
            if unsynced[usize::from(segment)] {
                self.segments.file(segment).sync_data()?;
            }
        }
        Ok(())
    }

    /// True when the active segment is filling up and the other is ready.
    pub(crate) fn wants_rotation(&self) -> bool {
        lock(&self.space).wants_rotation()
    }

    /// Keeps others from rotating the segments.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        lock(&self.rotating)
    }

    /// Lets the other segment take new slots, if it is ready; gives the one
    /// that is to be emptied.
    pub(crate) fn rotate(&self) -> Option<u8> {
        // The chain is locked so that no record is between its slots and its epoch.
        let _chain = lock(&self.chain);
        let mut space = lock(&self.space);
        let old = space.can_rotate().then(|| space.rotate());
        self.room.notify_all();
        old.or(space.emptying())
    }

    /// Gives the emptied segment its next epoch: replay begins behind
    /// `through`: all records up to it are durable at home.
    ///
    /// # Errors
    /// What the store reported, or why a barrier has failed meanwhile.
    pub(crate) fn reuse(&self, segment: u8, through: End, sealer: &Sealer) -> Result<()> {
        if let Barrier { end, failure: Some(error), .. } = &*lock(&self.barrier)
            && end.failures != through.failures
        {
            return Err(error.clone());
        }
        let epoch = {
            let mut chain = lock(&self.chain);
            let epoch = chain.epochs.iter().max().expect("two epochs") + 1;
            chain.epochs[usize::from(segment)] = epoch;
            epoch
        };
        let begin = SegmentStart { chain: through.tag, next_sequence: through.sequence + 1 };
        self.segments.write_header(sealer, segment, self.header(epoch), &begin)?;
        if self.rules.keeps(Rule::HeaderBeforeReuse) {
            self.segments.file(segment).sync_data()?;
        }
        lock(&self.space).emptied();
        self.room.notify_all();
        Ok(())
    }

    /// The end of the chain.
    pub(crate) fn end(&self) -> End {
        lock(&self.barrier).end
    }
}

/// Slots promised to one change; what is not used or kept goes back.
pub(crate) struct Promise<'a> {
    journal: Option<&'a Journal>,
    left: u32,
    kept: u32,
}

impl<'a> Promise<'a> {
    /// `slots` that [`Journal::promise`] gave, or none without a journal.
    pub(crate) fn new(journal: Option<&'a Journal>, slots: u32) -> Promise<'a> {
        Promise { journal, left: slots, kept: 0 }
    }

    /// Writes images into consecutive slots.
    pub(crate) fn write_images(&mut self, data: &[u8], slots: u32) -> Result<Place> {
        let journal = self.journal.ok_or(Error::Refused(errno::EROFS))?;
        let promised = slots.min(self.left);
        self.left -= promised;
        journal.write_images(data, slots, promised)
    }

    /// Appends a record, as [`Journal::append`].
    pub(crate) fn append(&mut self, sealer: &Sealer, change: Change, failures: u64) -> Result<Appended> {
        let journal = self.journal.ok_or(Error::Refused(errno::EROFS))?;
        journal.append(sealer, change, failures, &mut self.left)
    }

    /// Keeps `slots` for the file's next commit.
    pub(crate) fn keep(&mut self, slots: u32) {
        let kept = slots.min(self.left);
        self.left -= kept;
        self.kept += kept;
    }

    /// Hands what was kept to its file.
    pub(crate) fn hand_over(&mut self) -> u32 {
        std::mem::take(&mut self.kept)
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if let Some(journal) = self.journal {
            journal.release(self.left + self.kept);
        }
    }
}
