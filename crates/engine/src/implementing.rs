//! Writing an engine: what the contract asks, an example, and how devices fit.
//!
//! An engine is one crate with one type that implements [`Engine`](crate::Engine), one line
//! where the program is composed, and one test that calls
//! `conformance::run`. No consumer changes: they hold a
//! [`Client`](crate::client::Client) and do not know what computes.
//!
//! # The life of a batch
//!
//! | step | the engine |
//! |---|---|
//! | [`submit`](crate::Engine::submit) | checks ([`Batch::validate`](crate::Batch::validate), its limits) and refuses untouched; else takes the batch, buffer and all, into its queue and answers with a pending [`Ticket`](crate::Ticket). An inline engine computes here and answers [`Ticket::ready`](crate::Ticket::ready) |
//! | [`flush`](crate::Engine::flush) | begins all that was taken: one doorbell, one launch. Not called for inline tickets |
//! | completion | writes results, tags and verdicts into the batch and uses the [`Completer`](crate::Completer), from any thread and in any order |
//! | failure | [`Outcome::DeviceLost`](crate::Outcome::DeviceLost) with the buffer in any state; or drops the completer, and the waiter is told that the batch has vanished. The scheduler redoes both from a copy |
//!
//! A full queue is [`Refusal::Busy`](crate::Refusal::Busy), with the batch as it
//! was. What an engine does not have, or what is larger than it says in
//! [`Capability`](crate::Capability), or not aligned as it says there, is
//! [`Refusal::Unsupported`](crate::Refusal::Unsupported): the scheduler has the CPU do it.
//!
//! # An engine of your own
//!
//! ChaCha20-Poly1305 on a "device" that is a thread. It passes the conformance
//! suite.
//!
//! ```
//! use std::sync::{Arc, Mutex, mpsc};
//!
//! use chacha20poly1305::{ChaCha20Poly1305, KeyInit, aead::AeadInOut};
//! use strongroom_engine::{
//!     Aead, Algorithm, Batch, Buffer, Capability, Completed, Completer, Cross, Engine, Operation,
//!     Masking, Outcome, Refusal, Refused, Session, SessionError, Ticket,
//! };
//!
//! /// A key schedule; wiped when the last session with it is dropped.
//! struct Key(ChaCha20Poly1305);
//!
//! struct Job {
//!     session: Session,
//!     batch: Batch,
//!     completer: Completer,
//! }
//!
//! struct Own {
//!     /// Submitted, and not begun.
//!     queue: Mutex<Vec<Job>>,
//!     device: mpsc::Sender<Vec<Job>>,
//! }
//!
//! const QUEUE_MAX: usize = 64;
//! const BATCH_BYTES_MAX: usize = 1 << 24;
//!
//! impl Own {
//!     fn new() -> Own {
//!         let (device, jobs) = mpsc::channel::<Vec<Job>>();
//!         // Ends when the engine is dropped, after what it has been given.
//!         std::thread::spawn(move || jobs.iter().flatten().for_each(compute));
//!         Own { queue: Mutex::default(), device }
//!     }
//! }
//!
//! fn compute(Job { session, mut batch, completer }: Job) {
//!     let Key(key) = session.state().expect("submit has looked");
//!     let mut outcome = Outcome::Done;
//!     for segment in &mut batch.segments {
//!         // Short nonces are the last bytes of the contract's.
//!         let nonce: [u8; 12] = segment.nonce()[12..].try_into().expect("twelve bytes");
//!         let data = &mut batch.buffer[segment.range()];
//!         let ad = segment.associated_data();
//!         if batch.operation == Operation::Seal {
//!             let tag = key.encrypt_inout_detached(&nonce.into(), ad, data.into()).expect("not too long");
//!             segment.set_done(Some(tag.into()));
//!             continue;
//!         }
//!         let tag = (*segment.tag()).into();
//!         match key.decrypt_inout_detached(&nonce.into(), ad, (&mut *data).into(), &tag) {
//!             Ok(()) => segment.set_done(None),
//!             Err(_) => {
//!                 data.fill(0);
//!                 segment.set_forged();
//!                 outcome = Outcome::AuthenticationFailed;
//!             }
//!         }
//!     }
//!     completer.complete(Completed { batch, outcome });
//! }
//!
//! impl Engine for Own {
//!     fn name(&self) -> &str {
//!         "own"
//!     }
//!
//!     fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
//!         let is_offered = algorithm == Algorithm::Aead(Aead::ChaCha20Poly1305)
//!             && matches!(operation, Operation::Seal | Operation::Open);
//!         is_offered.then_some(Capability {
//!             inline: false,
//!             batch_bytes_max: BATCH_BYTES_MAX,
//!             segments_max: 4096,
//!             queue_max: QUEUE_MAX,
//!             alignment: 1,
//!             latency_ns: 20_000,
//!             bytes_per_second: 1_000_000_000,
//!             takes_masks: false,
//!         })
//!     }
//!
//!     fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
//!         if self.capability(algorithm, Operation::Seal).is_none() {
//!             return Err(SessionError::Unsupported);
//!         }
//!         let key = ChaCha20Poly1305::new_from_slice(key).map_err(|_| SessionError::KeyLength)?;
//!         Ok(Session::new(algorithm, Arc::new(Key(key))))
//!     }
//!
//!     fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
//!         let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
//!         if session.state::<Key>().is_none() {
//!             return refuse(batch, Refusal::Misuse("the session belongs to another engine"));
//!         }
//!         if let Err(refusal) = batch.validate(session.algorithm()) {
//!             return refuse(batch, refusal);
//!         }
//!         match self.capability(session.algorithm(), batch.operation) {
//!             Some(most)
//!                 if batch.buffer.len() <= most.batch_bytes_max
//!                     && batch.segments.len() <= most.segments_max => {}
//!             _ => return refuse(batch, Refusal::Unsupported),
//!         }
//!         let mut queue = self.queue.lock().unwrap();
//!         if queue.len() >= QUEUE_MAX {
//!             return refuse(batch, Refusal::Busy);
//!         }
//!         let (ticket, completer) = Ticket::pending();
//!         queue.push(Job { session: session.clone(), batch, completer });
//!         Ok(ticket)
//!     }
//!
//!     fn flush(&self) {
//!         let jobs = std::mem::take(&mut *self.queue.lock().unwrap());
//!         // Were the thread gone, the completers would go with what it cannot get.
//!         let _ = self.device.send(jobs);
//!     }
//!
//!     fn buffer(&self, _: &Session, len: usize) -> Buffer {
//!         Buffer::new(len)
//!     }
//!
//!     /// It writes after `submit` has returned.
//!     fn crossing(&self) -> Option<&dyn Cross> {
//!         None
//!     }
//!
//!     fn masking(&self) -> Option<&dyn Masking> {
//!         None
//!     }
//! }
//!
//! # #[cfg(feature = "conformance")]
//! strongroom_engine::conformance::run(&Own::new(), &Own::new());
//!
//! // What a consumer sees of it.
//! use strongroom_engine::{AssociatedData, Segment, StreamNonces, client::Client};
//! let engine: Arc<dyn Engine> = Arc::new(Own::new());
//! let client = Client::open(&engine, Algorithm::Aead(Aead::ChaCha20Poly1305), &[7; 32])?;
//! let mut nonces = StreamNonces::for_fresh_key();
//! let batches = (0..3).map(|_| {
//!     let segment = Segment::seal(0, 4096, nonces.draw(false), AssociatedData::new(b"page"));
//!     Batch::new(Operation::Seal, client.buffer(4096), vec![segment])
//! });
//! for completed in client.submit_many(batches)? {
//!     assert_eq!(completed?.outcome, Outcome::Done);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The conformance suite takes a second engine to compare with: the by-the-book
//! engine of `engine-cpu` in the tests of a real one.
//!
//! # A GPU
//!
//! | contract | a GPU |
//! |---|---|
//! | `capability` | `segments_max`: contexts of a launch (4096). `batch_bytes_max`: what a launch's device memory holds. `queue_max`: batches of the two launches in flight and of the one being collected. `latency_ns`: an empty launch; a rate with transfers |
//! | `session` | the key schedule, bitsliced, in device memory, wiped there when the state of the session is dropped |
//! | `submit` | appends the batch's segments, with nonces and lengths, to the launch being collected: many batches and sessions go in one. `Busy` when it is full and two are in flight |
//! | `flush` | launches what was collected; with two in flight, it stays until one of them ends, whose completion launches it |
//! | completion | by event: a thread of the engine waits for the oldest launch and completes its batches. By polling: [`Ticket::polled`](crate::Ticket::polled), whose [`Poller`](crate::Poller) asks for the state of the oldest launch's event, which needs no profiling and no thread; [`Batch::origin`](crate::Batch::origin) and the queue say when spinning pays |
//! | `buffer` | pinned host memory ([`Buffer::lent`](crate::Buffer::lent)) from a pool. `submit` finds its own by [`Buffer::memory`](crate::Buffer::memory) and copies straight from it; any other buffer goes through a pinned block of the launch. It comes back wiped |
//! | `masking` | [`Masking`](crate::Masking): the masks of many messages in one launch, lent in the pinned memory that the device wrote them to. Device memory is wiped when they have been read back |
//! | errors | a failed launch answers its batches as lost; an event that never comes meets the scheduler's deadline, and dropping the engine's launches drops their completers |
//!
//! # A virtio-crypto device
//!
//! As `engine-virtio` has it.
//!
//! | contract | virtio-crypto 1.2 |
//! |---|---|
//! | `capability` | from the device's configuration: algorithm masks, `max_size` as `batch_bytes_max`. A segment, or a sector, is a request of its own, and the batch is complete with the last |
//! | `session` | the key alone; `CREATE_SESSION` on the control queue by the engine's thread when the first request needs it, `DESTROY_SESSION` after the state is dropped. So no caller waits for a device |
//! | `submit` | into a list; `Busy` when it is full |
//! | `flush` | requests in the memory that the device sees and in the available ring, while there is room; publishes the index, and notifies unless `VIRTIO_F_EVENT_IDX` says that the device looks by itself |
//! | completion | [`Ticket::pending`](crate::Ticket::pending), by a thread that takes the used ring, and sleeps on the MSI-X eventfd or spins as the controller in [`completion`](crate::completion) says. An engine whose waiters shall look themselves has [`Ticket::polled`](crate::Ticket::polled) |
//! | `buffer` | ordinary memory: what the device can write is never a batch's |
//! | crossing | none: the device writes after the call |
//! | errors | a status other than OK answers the batch as lost; a device that is late or at fault is reset, what it had is lost, and sessions are opened anew |
