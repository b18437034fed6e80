//! A mounted vault: from the store and the root key to names and contents,
//! and back to a clean end.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use strongroom_engine::Engine;
use strongroom_format::vault::header::{Header, Session, SessionState};
use strongroom_format::vault::journal::SLOT_LEN;
use strongroom_format::vault::{FileId, Geometry, WriteSession};
use strongroom_keys::{RootKey, VaultKeys};
use strongroom_store::{InodeId, Kind, NodeRef, Store};

use crate::barriers::Barriers;
use crate::committer::Committer;
use crate::content::Contents;
use crate::context::{Context, Counters, Recovered, Wakeup};
use crate::crashed::Crashed;
use crate::error::{Damage, Error, Result, Staleness, errno};
use crate::fence::{Fence, Fenced};
use crate::follow::Follower;
use crate::freshness::{Freshness, Trusted};
use crate::header_file::{HeaderWitness, PRIVATE, private, write_header, write_header_under};
use crate::journal::replay::{Reader, Replayed};
use crate::journal::{Journal, Segments};
use crate::losses::Untold;
use crate::masks::{MaskReport, Masks};
use crate::namespace::{self, Namespace, Observer, Opening, ROOT, Unobserved};
use crate::page::PageReader;
use crate::recovery;
use crate::rules::{Rule, Rules};
use crate::sealer::Sealer;
use crate::waiting::Waiting;
use crate::walk::{Deed, Walk};

/// Who may write to a vault while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Nobody else: a lock keeps them out.
    KeptOut,
    /// Nobody does now, and somebody may come.
    MayCome,
    /// Somebody does.
    Present,
}

/// How a vault is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Open for writing. Without it nothing in the store is changed.
    pub writable: bool,
    /// Others who write; to a vault that is opened for writing, nobody may.
    pub writers: Writers,
    /// Which ordering rules are kept.
    pub rules: Rules,
    /// Bytes of the journal, both segments together.
    pub journal_len: u64,
    /// Seconds since 1970.
    pub now: u64,
    /// Keep POSIX access control lists.
    pub acl: bool,
    /// What is created is given to whoever created it (needs root).
    pub owners: bool,
    /// Commit, and settle what crashed sessions left, in threads. Without it
    /// nothing happens but in calls, which makes tests repeatable.
    pub background: bool,
    /// A damaged journal is no error: its records count up to the damage, which
    /// [`Vault::damage`] gives. Where the vault is opened for writing, such a
    /// journal goes to `.strongroom/aside`.
    pub damaged_journals: bool,
    /// What guards the vault from the outside.
    pub guards: Guards,
    /// Is told of damage that is not the answer to any request.
    pub observer: Arc<dyn Observer>,
}

impl OpenOptions {
    /// Default length of the journal.
    pub const JOURNAL_LEN: u64 = 64 << 20;
    /// Shortest journal that takes any request of 1 MiB, at any block size.
    pub const JOURNAL_LEN_MIN: u64 = 16 << 20;

    /// For a program that reads and has the vault for itself, unobserved and
    /// without threads, with access control lists. `now` is in seconds since
    /// 1970.
    #[must_use]
    pub fn new(now: u64) -> OpenOptions {
        OpenOptions {
            writable: false,
            writers: Writers::KeptOut,
            rules: Rules::STRICT,
            journal_len: Self::JOURNAL_LEN_MIN,
            now,
            acl: true,
            owners: false,
            background: false,
            damaged_journals: false,
            guards: Guards::default(),
            observer: Arc::new(Unobserved),
        }
    }
}

/// What guards a vault from the outside.
#[derive(Clone, Default)]
pub struct Guards {
    /// The freshness file in which it is recorded.
    pub trusted: Option<Trusted>,
    /// What tells that another machine has taken it over.
    pub fence: Option<Arc<dyn Fence>>,
    /// Who remembers the headers that were written.
    pub witness: Option<HeaderWitness>,
}

/// What a freshness file was found to be when the vault was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// There was none; it records the vault as it was found.
    New,
    /// The vault has been opened for writing, or its keys changed, without it.
    Bypassed,
    /// It was written to last when the vault was.
    Current,
}

/// An open vault.
pub struct Vault {
    context: Arc<Context>,
    contents: Arc<Contents>,
    namespace: Arc<Namespace>,
    committer: Mutex<Option<Committer>>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    session: Option<WriteSession>,
    header: Arc<Mutex<Header>>,
    root_key: Arc<RootKey>,
    damage: Vec<Damage>,
}

/// Makes the directories of a new vault and writes its header.
///
/// # Errors
/// `EEXIST` when there is a vault already, or what the store reports.
pub fn create(store: &dyn Store, header: &mut Header, root: &RootKey) -> Result<()> {
    let top = store.root();
    let private = top.make_directory(PRIVATE, 0o700)?;
    private.make_directory(b"temporary", 0o700)?;
    private.make_directory(b"links", 0o700)?;
    write_header(store, header, root)?;
    top.sync()?;
    Ok(())
}

impl Vault {
    /// Opens the vault in `store`, whose `header` the root key has verified.
    /// Journals of sessions that did not end cleanly are replayed. A freshness
    /// file is made where the options name one, there is none, and the vault is
    /// opened for writing; it then records the vault as it is.
    ///
    /// # Errors
    /// Damage of a journal, unless the options allow for it; damage when the
    /// vault as a whole is older than it was, or the freshness file is not its
    /// own; `EINVAL` for a freshness file without all rules;
    /// [`Error::TakenOver`]; an engine that lacks the suite, or what the store
    /// reports.
    pub fn open(
        store: Arc<dyn Store>,
        engine: Arc<dyn Engine>,
        header: Header,
        root: RootKey,
        options: &OpenOptions,
    ) -> Result<Vault> {
        let keys = VaultKeys::derive(&root, header.vault);
        let mut opening =
            Unopened { store, engine, header, root, keys, options, damaged: Vec::new(), freshness: None };
        let trusted = options.guards.trusted.as_ref();
        opening.freshness = trusted.map(|trusted| opening.read_record(trusted)).transpose()?;
        let follows = !options.writable && options.writers != Writers::KeptOut;
        let replayed = if follows { HashMap::new() } else { opening.read_journals()? };
        if let Some((_, damage)) = opening.damaged.first()
            && !options.damaged_journals
        {
            return Err(Error::Damaged(damage.clone()));
        }
        let (context, session) = if options.writable {
            opening.remove_stale_journals()?;
            let recovered = opening.recover(replayed)?;
            if opening.header.sessions.iter().all(Option::is_some) {
                opening.settle_before()?;
            }
            let (context, session) = opening.begin_session()?;
            recovered.into_iter().for_each(|(inode, what)| context.note_recovered(inode, what));
            (context, Some(session))
        } else if follows {
            (opening.follow()?, None)
        } else {
            (opening.read_only(replayed)?, None)
        };
        let context = Arc::new(context);
        let contents = Arc::new(Contents::new(Arc::clone(&context)));
        let namespace = opening.namespace(&contents);
        if options.writable {
            namespace.sweep()?;
            context.note_header(&opening.header);
            begin_recording(&context, &namespace)?;
        }
        let vault = Vault {
            committer: Mutex::new(
                (options.writable && options.background).then(|| Committer::start(&contents)),
            ),
            context,
            contents,
            namespace: Arc::new(namespace),
            sweeper: Mutex::new(None),
            stopping: Arc::new(AtomicBool::new(false)),
            session,
            header: Arc::new(Mutex::new(opening.header)),
            root_key: Arc::new(opening.root),
            damage: opening.damaged.into_iter().map(|(_, damage)| damage).collect(),
        };
        if options.writable && options.background && vault.context.has_crashed() {
            vault.start_sweep();
        }
        Ok(vault)
    }

    /// What journals were damaged when the vault was opened: what their records
    /// said behind that is lost. None unless the options allowed for it.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Names, attributes and contents.
    #[must_use]
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The vault header as last written.
    #[must_use]
    pub fn header(&self) -> Header {
        lock(&self.header).clone()
    }

    /// Figures since the mount.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.context.counters
    }

    /// The last error that no caller was there to be told of.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        // Who has lost the vault says so, whether or not there was anything to be written since.
        let lost = self.context.fenced.check_known().err().map(|error| error.to_string());
        lost.or_else(|| self.context.last_error())
    }

    /// Opens new write sessions for all nonces to come: the machine was copied.
    ///
    /// # Errors
    /// When the kernel gives no random bytes; the next batch asks again.
    pub fn renew_sessions(&self) -> Result<()> {
        self.context.sealer.renew()?;
        self.context.freshness.as_ref().map_or(Ok(()), Freshness::renew)
    }

    /// What is known of masks; `None` where the engine makes none.
    #[must_use]
    pub fn masks(&self) -> Option<MaskReport> {
        self.context.sealer.masks().map(Masks::report)
    }

    /// Gives back masks that nobody has come for in a while. To be called now
    /// and then.
    pub fn give_back_masks(&self) {
        if let Some(masks) = self.context.sealer.masks() {
            masks.give_back();
            self.contents.all().iter().for_each(|content| content.give_back_masks());
        }
    }

    /// What recovery has settled, by stored inode.
    #[must_use]
    pub fn recovered(&self) -> BTreeMap<InodeId, Recovered> {
        self.context.recovered()
    }

    /// Whether files of a crashed session are still to be settled. Beside a
    /// writer that is the writer's to do.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.context.has_crashed() && self.context.follower.is_none()
    }

    /// Whether somebody writes to the vault while it is read here, as far as
    /// was seen at the last request.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        self.context.has_writer()
    }

    /// Makes everything durable that was written before the call.
    ///
    /// # Errors
    /// What the store reported, now or before when nobody was there to be told.
    pub fn sync(&self) -> Result<()> {
        let outcome = self.sync_everything();
        let untold = self.context.untold.tell();
        outcome.and(untold)
    }

    fn sync_everything(&self) -> Result<()> {
        self.contents.commit_pending()?;
        let attributed = self.context.waiting.attributed().take_all();
        if let Err(error) = self.context.sync_store() {
            self.context.waiting.attributed().put_back(attributed);
            return Err(error);
        }
        self.context.freshness.as_ref().map_or(Ok(()), Freshness::flush)
    }

    /// What the freshness file was found to be, where there is one.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.context.freshness.as_ref().map(|freshness| match freshness.is_new {
            true => Recording::New,
            false if freshness.was_bypassed => Recording::Bypassed,
            false => Recording::Current,
        })
    }

    /// Compares every entry and every file's version with the freshness file,
    /// and tells `report` the plain path of what differs. Without one nothing
    /// does.
    ///
    /// # Errors
    /// What a store reported.
    pub fn audit(&self, report: &mut dyn FnMut(&[u8], Staleness)) -> Result<()> {
        match &self.context.freshness {
            Some(freshness) => Walk::new(&self.namespace, freshness).run(Deed::Report(report)),
            None => Ok(()),
        }
    }

    /// Records the vault as it is: what the plain path leads to, with all that
    /// is below it, or everything. The vault was opened to be believed
    /// ([`crate::Trust::Vault`]). Gives how many records differed.
    ///
    /// # Errors
    /// `ENOENT` for a path that neither the vault nor the record has; what the
    /// store or that of the freshness file reported.
    pub fn accept(&self, path: Option<&[u8]>) -> Result<u64> {
        let Some(freshness) = &self.context.freshness else { return Ok(0) };
        if self.context.has_crashed() {
            self.settle()?;
        }
        self.sync()?;
        let mut walk = Walk::new(&self.namespace, freshness);
        match path {
            None => walk.run(Deed::AcceptAll)?,
            Some(path) => {
                let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
                walk.run(Deed::Accept(names.map(<[u8]>::to_vec).collect()))?;
            }
        }
        freshness.flush()?;
        Ok(walk.taken)
    }

    /// Brings everything home and delists the session. Requests must have
    /// ended; what comes later is refused by nobody and lost.
    ///
    /// # Errors
    /// What the store reported, now or before when nobody was told; the session
    /// then stays listed, and the next mount recovers.
    pub fn close(&self) -> Result<()> {
        self.stopping.store(true, Ordering::Release);
        if let Some(sweeper) = lock(&self.sweeper).take() {
            let _ = sweeper.join();
        }
        if let Some(mut committer) = lock(&self.committer).take() {
            committer.stop(&self.context);
        }
        let Some(session) = self.session else { return Ok(()) };
        self.settle_all()?;
        self.context.fenced.check()?;
        let mut header = lock(&self.header);
        header
            .sessions
            .iter_mut()
            .filter(|listed| is_listed(listed, session))
            .for_each(|listed| *listed = None);
        header.has_freshness |= self.context.freshness.is_some();
        write_header_under(self.context.rules, &*self.context.store, &mut header, &self.root_key)?;
        let private = private(&*self.context.store)?;
        self.context.note_header(&header);
        Segments::remove(&*private, session)?;
        self.context.freshness.as_ref().map_or(Ok(()), Freshness::flush)
    }

    /// Tried twice: what the store's barrier tells may be what whoever synced a
    /// file was told before, and is over.
    fn settle_all(&self) -> Result<()> {
        let settled = match self.contents.settle_all() {
            Err(Error::Store(_)) => self.contents.settle_all(),
            settled => settled,
        };
        settled?;
        self.context.waiting.take_all_lost().map_or(Ok(()), Err)
    }

    /// Ends the threads without bringing anything home, as a crash would: for
    /// tests, and for when the store is gone.
    pub fn abandon(&self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(mut committer) = lock(&self.committer).take() {
            committer.stop(&self.context);
        }
        if let Some(sweeper) = lock(&self.sweeper).take() {
            let _ = sweeper.join();
        }
    }

    /// Settles every file of crashed sessions, then lets a crash explain
    /// nothing any more.
    ///
    /// # Errors
    /// What the store reported; damaged files are no error here.
    pub fn settle(&self) -> Result<()> {
        settle(&self.contents, &self.namespace, &self.header, &self.root_key, &self.stopping)
    }

    /// Journal slots that are promised to changes and commits.
    #[cfg(all(test, strongroom_model))]
    pub(crate) fn promised(&self) -> u32 {
        self.context.journal.as_ref().map_or(0, Journal::promised)
    }

    fn start_sweep(&self) {
        let contents = Arc::clone(&self.contents);
        let namespace = Arc::clone(&self.namespace);
        let (header, root) = (Arc::clone(&self.header), Arc::clone(&self.root_key));
        let stopping = Arc::clone(&self.stopping);
        let sweep = move || {
            if let Err(error) = settle(&contents, &namespace, &header, &root, &stopping) {
                contents.context.note_error("settling after a crash", &error);
            }
        };
        let thread = thread::Builder::new().name("settle".into()).spawn(sweep);
        *lock(&self.sweeper) = thread.ok();
    }
}

impl Drop for Vault {
    /// As [`Vault::abandon`]: no thread goes on with the keys.
    fn drop(&mut self) {
        self.abandon();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_listed(listed: &Option<Session>, session: WriteSession) -> bool {
    listed.as_ref().is_some_and(|listed| listed.id == session)
}

fn settle(
    contents: &Contents,
    namespace: &Namespace,
    header: &Mutex<Header>,
    root: &RootKey,
    stopping: &AtomicBool,
) -> Result<()> {
    // A directory that was moved meanwhile may not have been come by.
    loop {
        let moves = namespace.directory_moves();
        if !settle_directory(namespace, ROOT, stopping)? {
            return Ok(());
        }
        if namespace.directory_moves() == moves {
            break;
        }
    }
    let context = &contents.context;
    contents.commit_pending()?;
    context.sync_store()?;
    context.fenced.check()?;
    let mut header = lock(header);
    for listed in &mut header.sessions {
        if listed.as_ref().is_some_and(|listed| listed.state == SessionState::Crashed) {
            *listed = None;
        }
    }
    header.has_freshness |= context.freshness.is_some();
    write_header_under(context.rules, &*context.store, &mut header, root)?;
    context.note_header(&header);
    context.all_settled();
    Ok(())
}

/// The vault is open for writing: where a crash left directories unsettled, or
/// there was no record, what is there is recorded.
fn begin_recording(context: &Context, namespace: &Namespace) -> Result<()> {
    let Some(freshness) = &context.freshness else { return Ok(()) };
    let deed = match freshness.is_new {
        true => Deed::AcceptAll,
        false if freshness.has_lenient() => Deed::Settle,
        false => return freshness.flush(),
    };
    let enforced = freshness.enforce(false);
    let moment = freshness.now();
    // What is recorded as found must not be undone by another crash.
    context.store.sync_all()?;
    Walk::new(namespace, freshness).run(deed)?;
    freshness.end_lenience();
    freshness.barrier_passed(moment);
    freshness.enforce(enforced || freshness.is_new);
    freshness.flush()
}

/// Opens every file below a directory, which settles it. False when stopped.
fn settle_directory(namespace: &Namespace, directory: u64, stopping: &AtomicBool) -> Result<bool> {
    let listing = namespace.open_directory(directory)?;
    let mut names = Vec::new();
    let listed = namespace.read_directory(&listing, 0, &mut |item| {
        if item.name != b"." && item.name != b".." {
            names.push(item.name.to_vec());
        }
        true
    });
    if matches!(listed, Err(Error::Damaged(_))) {
        return Ok(true);
    }
    listed?;
    for name in names {
        if stopping.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Ok(entry) = namespace.lookup(directory, &name) else { continue };
        let kind = entry.attributes.kind;
        let settled = match kind {
            Kind::Directory => settle_directory(namespace, entry.number, stopping),
            Kind::File => settle_file(namespace, entry.number),
            _ => Ok(true),
        };
        namespace.forget(entry.number, 1);
        if !settled? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn settle_file(namespace: &Namespace, number: u64) -> Result<bool> {
    match namespace.open(number, Opening::default()) {
        Ok(_) => namespace.release(number),
        // Damage is reported to whoever opens the file, and by `check`.
        Err(Error::Damaged(_)) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// What opening a vault has at hand.
struct Unopened<'a> {
    store: Arc<dyn Store>,
    engine: Arc<dyn Engine>,
    header: Header,
    root: RootKey,
    keys: VaultKeys,
    options: &'a OpenOptions,
    /// Sessions whose journals are damaged.
    damaged: Vec<(WriteSession, Damage)>,
    freshness: Option<Freshness>,
}

impl Unopened<'_> {
    fn sealer(&self) -> Result<Sealer> {
        Sealer::new(&self.engine, &self.header, &self.root, &self.keys)
    }

    fn read_record(&self, trusted: &Trusted) -> Result<Freshness> {
        if self.options.writable && self.options.rules != Rules::STRICT {
            return Err(Error::Refused(errno::EINVAL));
        }
        Freshness::open(trusted, self.sealer()?, &self.header, self.options.writable)
    }

    fn private(&self) -> Result<NodeRef> {
        private(&*self.store)
    }

    fn fenced(&self) -> Fenced {
        Fenced::new(self.options.guards.fence.clone())
    }

    fn sessions(&self, state: SessionState) -> Vec<WriteSession> {
        let listed = self.header.sessions.iter().flatten();
        listed.filter(|session| session.state == state).map(|session| session.id).collect()
    }

    /// Without journal, record, follower and crashed sessions.
    fn context(&self, sealer: Sealer) -> Context {
        Context {
            store: Arc::clone(&self.store),
            geometry: Geometry::new(self.header.block_size),
            suite: self.header.suite,
            generation: self.header.generation,
            sealer,
            journal: None,
            freshness: None,
            fenced: self.fenced(),
            witness: self.options.guards.witness.clone(),
            follower: None,
            rules: self.options.rules,
            writable: self.options.writable,
            background: self.options.background,
            waiting: Waiting::default(),
            untold: Untold::default(),
            counters: Counters::default(),
            wakeup: Wakeup::default(),
            barriers: Barriers::default(),
            crashed: Arc::default(),
            replayed: HashMap::new(),
            recovered: Mutex::default(),
            last_error: Mutex::default(),
        }
    }

    /// Reads the journal of every open session.
    fn read_journals(&mut self) -> Result<HashMap<FileId, Arc<Replayed>>> {
        let sealer = self.sealer()?;
        let pages = PageReader {
            sealer: &sealer,
            suite: self.header.suite,
            geometry: Geometry::new(self.header.block_size),
        };
        let reader = Reader { pages };
        let mut files = HashMap::new();
        for session in self.sessions(SessionState::Open) {
            match reader.read(&self.private()?, session, &mut files) {
                Err(Error::Damaged(damage)) => self.damaged.push((session, damage)),
                other => other?,
            }
        }
        Ok(files)
    }

    /// Brings home what the journals say; their sessions are crashed, and
    /// their journals deleted.
    fn recover(&mut self, replayed: HashMap<FileId, Arc<Replayed>>) -> Result<BTreeMap<InodeId, Recovered>> {
        let open = self.sessions(SessionState::Open);
        if open.is_empty() {
            return Ok(BTreeMap::new());
        }
        let context = Arc::new(self.context(self.sealer()?));
        recovery::replay(&context, replayed)?;
        // Before the header says that it is not needed any more, which lets
        // the next mount delete it.
        for (session, _) in &self.damaged {
            let aside = crate::content::aside::directory(&context)?;
            Segments::move_to(&*self.private()?, &*aside, *session)?;
        }
        for session in self.header.sessions.iter_mut().flatten() {
            session.state = SessionState::Crashed;
        }
        write_header_under(self.options.rules, &*self.store, &mut self.header, &self.root)?;
        let private = self.private()?;
        for session in open {
            Segments::remove(&*private, session)?;
        }
        Ok(context.recovered())
    }

    /// Settles everything before a session begins, since the header lists as
    /// many crashed ones as it can: the program was killed again and again
    /// before it had settled what they left. Nothing here needs a journal, and
    /// a kill changes nothing: it is begun anew.
    fn settle_before(&mut self) -> Result<()> {
        let mut context = self.context(self.sealer()?);
        context.crashed = Arc::new(Crashed::new(self.sessions(SessionState::Crashed)));
        context.freshness = self.freshness.take();
        let context = Arc::new(context);
        let contents = Arc::new(Contents::new(Arc::clone(&context)));
        let namespace = self.namespace(&contents);
        begin_recording(&context, &namespace)?;
        let header = Mutex::new(self.header.clone());
        settle(&contents, &namespace, &header, &self.root, &AtomicBool::new(false))?;
        self.header = lock(&header).clone();
        drop((namespace, contents));
        let context = Arc::into_inner(context).expect("the names and contents that held it are gone");
        self.freshness = context.freshness;
        Ok(())
    }

    fn namespace(&self, contents: &Arc<Contents>) -> Namespace {
        let options = namespace::Options {
            read_only: !self.options.writable,
            folding: self.header.base32_names,
            acl: self.options.acl,
            owners: self.options.owners,
        };
        let (store, observer) = (Arc::clone(&self.store), Arc::clone(&self.options.observer));
        Namespace::new(store, Arc::clone(contents), &self.keys, options, observer)
    }

    /// Removes journals of sessions that the header does not list: a clean
    /// end, or a beginning, that was cut off.
    fn remove_stale_journals(&self) -> Result<()> {
        let private = self.private()?;
        let open = self.sessions(SessionState::Open);
        let listed = |name: &[u8]| open.iter().any(|&session| Segments::is_of(name, session));
        for entry in private.entries()? {
            if entry.name.starts_with(b"journal.") && !listed(&entry.name) {
                private.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Creates the journal, then lists the session, both durably.
    fn begin_session(&mut self) -> Result<(Context, WriteSession)> {
        let sealer = self.sealer()?;
        let session = WriteSession(sealer.nonces().session().0);
        let free = self.header.sessions.iter().position(Option::is_none);
        let free = free.ok_or(Error::Refused(errno::ENOSPC))?;
        let private = self.private()?;
        let slots = u32::try_from(self.options.journal_len / 2 / SLOT_LEN as u64).unwrap_or(u32::MAX);
        let journal = Journal::create(&private, session, slots, &sealer, self.options.rules)?;
        private.sync()?;
        self.header.sessions[free] =
            Some(Session { id: session, state: SessionState::Open, opened: self.options.now });
        // A new file is not durable yet: that the vault has one is said later.
        self.header.has_freshness |= self.freshness.as_ref().is_some_and(|freshness| !freshness.is_new);
        if self.options.rules.keeps(Rule::SessionBeforeWrite) {
            self.fenced().check()?;
            write_header_under(self.options.rules, &*self.store, &mut self.header, &self.root)?;
        }
        let mut context = self.context(sealer);
        context.crashed = Arc::new(Crashed::new(self.sessions(SessionState::Crashed)));
        context.journal = Some(journal);
        context.freshness = self.freshness.take();
        Ok((context, session))
    }

    /// Keeps what the journals say in memory: nothing is written.
    fn read_only(&mut self, replayed: HashMap<FileId, Arc<Replayed>>) -> Result<Context> {
        let mut context = self.context(self.sealer()?);
        let listed = self.header.sessions.iter().flatten().map(|session| session.id);
        context.crashed = Arc::new(Crashed::new(listed.collect()));
        context.freshness = self.freshness.take();
        context.replayed = replayed;
        Ok(context)
    }

    /// The same, and what a writer commits meanwhile is taken in.
    fn follow(&self) -> Result<Context> {
        // It says what was there at one time, and a writer goes on from it.
        if self.freshness.is_some() {
            return Err(Error::Refused(errno::EINVAL));
        }
        let root = Arc::new(self.root.duplicate());
        let mut context = self.context(self.sealer()?);
        let (store, crashed) = (Arc::clone(&self.store), Arc::clone(&context.crashed));
        let has_writer = self.options.writers == Writers::Present;
        context.follower = Some(Follower::new(store, root, crashed, &self.header, has_writer));
        context.look()?;
        Ok(context)
    }
}
