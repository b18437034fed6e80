//! Following a writer: what a vault that is opened to be read knows of header
//! and journals, brought up to date whenever somebody asks (`docs/readers.md`).
//!
//! Nothing here waits for a writer or tells it anything. What was read is held
//! against what is there then: a journal whose headers are the same after it
//! was read was not overwritten meanwhile, and a file whose [`Version`] is the
//! same after it was read was read in one state.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use strongroom_format::vault::header::{Header, SessionState};
use strongroom_format::vault::page::{CLEAR_LEN, PageHeader};
use strongroom_format::vault::{FileId, WriteSession};
use strongroom_keys::RootKey;
use strongroom_keys::slots::verify_header;
use strongroom_store::{Access, Attributes, File, FileRef, Store, Timestamp};

use crate::crashed::Crashed;
use crate::error::{Damage, Error, Result, errno};
use crate::header_file::{COPIES, private, read_header_copies};
use crate::journal::Segments;
use crate::journal::replay::{Advance, Reader, Replayed, Tail};
use crate::page::PageReader;
use crate::sync::{Mutex, MutexGuard};

/// How often something is read again that changes meanwhile.
const TRIES_MAX: u32 = 200;

/// How often what does not open is looked at again before it is damage, with
/// nothing changed in between: a writer may be in the middle of a write.
const LOOKS: u32 = 10;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A store gives a file the time at the beginning of a write, and counts time
/// in ticks. A time this old stays what it is only if nothing more is written.
const SETTLED: Duration = Duration::from_secs(2);

/// What follows the writer of a vault.
pub(crate) struct Follower {
    store: Arc<dyn Store>,
    root: Arc<RootKey>,
    /// Is told which sessions the header lists.
    crashed: Arc<Crashed>,
    known: Mutex<Known>,
}

/// What is known of header and journals.
struct Known {
    header: Watched,
    /// The header's sequence number; `None` before it has been read.
    sequence: Option<u64>,
    journals: HashMap<WriteSession, Followed>,
    /// Sessions whose writer was gone when the vault was opened: what a crash
    /// may have torn of them is torn. Others are somebody's who is there.
    dead: HashSet<WriteSession>,
}

/// A session's journal, as far as it has been read.
#[derive(Default)]
struct Followed {
    /// Opened once, so that what reads images of it is refreshed with it.
    segments: Option<Arc<Segments>>,
    tail: Option<Tail>,
    watched: [Watched; 2],
    /// The record before which it was last found damaged.
    stuck: Option<u64>,
}

/// A stored file that is read again when it may have been written to.
#[derive(Default)]
struct Watched {
    file: Option<FileRef>,
    seen: Option<Stamp>,
}

/// What a write to a stored file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Timestamp,
    links: u32,
}

impl Stamp {
    /// `None` while a further write might leave the stamp as it is.
    fn of(attributes: &Attributes) -> Option<Stamp> {
        let Attributes { modified, links, .. } = *attributes;
        let since = std::time::UNIX_EPOCH.elapsed().ok()?;
        let age = i128::try_from(since.as_nanos()).ok()?
            - (i128::from(modified.seconds) * 1_000_000_000 + i128::from(modified.nanoseconds));
        (age > SETTLED.as_nanos() as i128).then_some(Stamp { modified, links })
    }
}

impl Followed {
    fn open(&mut self, store: &dyn Store, session: WriteSession) -> Result<Arc<Segments>> {
        let segments = match self.segments.take() {
            Some(segments) => segments,
            None => Arc::new(Segments::open_listed(&private(store)?, session)?),
        };
        segments.refresh()?;
        self.segments = Some(Arc::clone(&segments));
        Ok(segments)
    }
}

impl Watched {
    fn new(file: FileRef) -> Watched {
        Watched { file: Some(file), seen: None }
    }

    /// `None` when it is as it was when it was last read; else what to note as
    /// seen once it has been read.
    fn changed(&self) -> Result<Option<Option<Stamp>>> {
        let Some(file) = &self.file else { return Ok(Some(None)) };
        file.refresh()?;
        let now = Stamp::of(&file.attributes()?);
        Ok((now.is_none() || now != self.seen).then_some(now))
    }

    /// Whether it has no name any more.
    fn is_removed(&self) -> Result<bool> {
        self.file.as_ref().map_or(Ok(true), |file| Ok(file.attributes()?.links == 0))
    }
}

/// What tells one state of a stored file from all others: the last record that
/// speaks of it, and the clear part of its header page at home, in which the
/// tag is. Whatever makes something unreadable that this state refers to
/// changes one of them first (section 7 of the format).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    record: Option<[u8; 16]>,
    home: Vec<u8>,
}

/// Tries, with pauses that grow.
struct Patience {
    tries: u32,
    /// Failures in a row with nothing changed in between.
    same: u32,
}

impl Patience {
    fn new() -> Patience {
        Patience { tries: 0, same: 0 }
    }

    /// Waits before the next try; `error` is why the last was none.
    ///
    /// # Errors
    /// The error, when it came often enough with nothing `changed` meanwhile;
    /// `EAGAIN` when there were too many tries.
    fn wait(&mut self, error: Option<Error>, changed: bool) -> Result<()> {
        self.tries += 1;
        self.same = if changed { 0 } else { self.same + 1 };
        match error {
            Some(error) if self.same >= LOOKS => return Err(error),
            _ if self.tries >= TRIES_MAX => return Err(Error::Refused(errno::EAGAIN)),
            _ => {}
        }
        // What has changed is read again at once, the first times.
        if !changed || self.tries > LOOKS {
            std::thread::sleep(PAUSE_MAX.min(Duration::from_micros(100 << self.tries.min(8))));
        }
        Ok(())
    }
}

impl Follower {
    /// `header` is the vault's as it was found. Without a writer there, the
    /// sessions that it lists as open are crashed.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        root: Arc<RootKey>,
        crashed: Arc<Crashed>,
        header: &Header,
        has_writer: bool,
    ) -> Follower {
        let open = header.sessions.iter().flatten().map(|session| session.id);
        let dead = if has_writer { HashSet::new() } else { open.collect() };
        let known = Known { header: Watched::default(), sequence: None, journals: HashMap::new(), dead };
        Follower { store, root, crashed, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is listed whose writer is there, as far as is known.
    pub(crate) fn has_writer(&self) -> bool {
        let known = self.known();
        known.journals.keys().any(|session| !known.dead.contains(session))
    }

    /// Whether a session's writer is there, as far as is known.
    pub(crate) fn is_live(&self, session: WriteSession) -> bool {
        let known = self.known();
        known.journals.contains_key(&session) && !known.dead.contains(&session)
    }

    /// What the journals say of a file.
    pub(crate) fn replayed(&self, file: FileId) -> Option<Arc<Replayed>> {
        let known = self.known();
        let mut tails = known.journals.values().filter_map(|journal| journal.tail.as_ref());
        tails.find_map(|tail| tail.files.get(&file).cloned())
    }

    /// Takes in what has been committed by now.
    ///
    /// # Errors
    /// Damage of the header or a journal, or what the store reported.
    pub(crate) fn look(&self, pages: PageReader<'_>) -> Result<()> {
        let mut known = self.known();
        let mut patience = Patience::new();
        loop {
            match self.look_once(&mut known, pages) {
                Ok(true) => return Ok(()),
                Ok(false) => patience.wait(None, true)?,
                // The header may have changed since it was read.
                Err(error) => {
                    known.header.seen = None;
                    patience.wait(Some(error), false)?;
                }
            }
        }
    }

    /// False when something changed meanwhile that is to be looked at anew.
    fn look_once(&self, known: &mut Known, pages: PageReader<'_>) -> Result<bool> {
        if known.header.changed()?.is_some() {
            self.read_header(known)?;
        }
        let reader = Reader { pages };
        for (&session, journal) in &mut known.journals {
            if journal.tail.is_none() {
                let segments = journal.open(&*self.store, session)?;
                journal.watched = [0, 1].map(|segment| Watched::new(Arc::clone(segments.file(segment))));
                journal.tail = Some(reader.begin(segments, session)?);
            }
            let stamps = [journal.watched[0].changed()?, journal.watched[1].changed()?];
            if stamps == [None; 2] {
                continue;
            }
            let tail = journal.tail.as_mut().expect("it has just been begun");
            let advance = reader.advance(tail, stamps.map(|stamp| stamp.is_some()))?;
            if advance == Advance::Anew || !reader.is_current(tail, session)? {
                journal.tail = None;
                return Ok(false);
            }
            if journal.watched[0].is_removed()? {
                *journal = Followed::default();
                known.header.seen = None;
                return Ok(false);
            }
            if let Advance::Damaged(damage) = advance {
                // What was written while it was read may look like that.
                let before = journal.stuck.replace(tail.next_sequence());
                return if before == journal.stuck { Err(Error::Damaged(damage)) } else { Ok(false) };
            }
            journal.stuck = None;
            for (segment, stamp) in journal.watched.iter_mut().zip(stamps) {
                segment.seen = stamp.unwrap_or(segment.seen);
            }
        }
        Ok(true)
    }

    /// Reads the header, and forgets the journals that it does not list.
    fn read_header(&self, known: &mut Known) -> Result<()> {
        let private = private(&*self.store)?;
        // Before its content: what is written in between shows afterwards.
        let mut watched = match private.lookup(COPIES[0]) {
            Ok(node) => Watched::new(node.open(Access::Read)?),
            Err(error) if error.is_not_found() => Watched::default(),
            Err(error) => return Err(error.into()),
        };
        watched.seen = watched.changed()?.flatten();
        let copies = read_header_copies(&*self.store)?;
        let sound = copies.iter().flatten().flat_map(|bytes| Header::decode(bytes));
        let sound = sound.filter(|header| verify_header(header, &self.root));
        let header = sound.max_by_key(|header| header.sequence);
        let header = header.ok_or(Error::Damaged(Damage::Name("no copy of the vault's header verifies")))?;
        known.header = watched;
        if known.sequence == Some(header.sequence) {
            return Ok(());
        }
        known.sequence = Some(header.sequence);
        let listed = || header.sessions.iter().flatten();
        let open: HashSet<_> = listed()
            .filter(|session| session.state == SessionState::Open)
            .map(|session| session.id)
            .collect();
        known.journals.retain(|session, _| open.contains(session));
        for session in open {
            known.journals.entry(session).or_default();
        }
        self.crashed.set(listed().map(|session| session.id).collect());
        Ok(())
    }

    /// The version of a stored file, with everything taken in that has been
    /// committed by now.
    fn version(&self, pages: PageReader<'_>, file: &dyn File) -> Result<Version> {
        self.look(pages)?;
        file.refresh()?;
        let mut home = vec![0; CLEAR_LEN];
        // However much there is of it: a file may be growing.
        let read = file.read_at(&mut home, 0)?;
        home.truncate(read);
        let clear: Option<&[u8; CLEAR_LEN]> = home.as_slice().try_into().ok();
        let header = clear.and_then(|clear| PageHeader::decode(clear).ok());
        let record = header.and_then(|header| self.replayed(header.file)).map(|replayed| replayed.tag);
        Ok(Version { record, home })
    }

    /// Does `attempt`, which is told the version of `file`, until it succeeds
    /// with that version still the file's.
    ///
    /// # Errors
    /// What `attempt` gives again and again while the version stays the same,
    /// `ESTALE` instead when the file has been removed; `EAGAIN` when it
    /// changes faster than it can be read.
    pub(crate) fn steadily<T>(
        &self,
        pages: PageReader<'_>,
        file: &dyn File,
        mut attempt: impl FnMut(&Version) -> Result<T>,
    ) -> Result<T> {
        let mut patience = Patience::new();
        let mut before = self.version(pages, file)?;
        loop {
            let outcome = attempt(&before);
            let after = self.version(pages, file)?;
            let changed = before != after;
            before = after;
            let error = match outcome {
                Ok(value) if !changed => return Ok(value),
                Err(error @ Error::Refused(_)) if !changed => return Err(error),
                outcome => outcome.err(),
            };
            patience.wait(error, changed).map_err(|error| match file.attributes() {
                Ok(attributes) if attributes.links == 0 => Error::Refused(errno::ESTALE),
                _ => error,
            })?;
        }
    }
}
