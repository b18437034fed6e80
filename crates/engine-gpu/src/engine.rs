//! The engine: what the contract asks of a device's launches.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Completed, Cross, Engine, Masking, Operation, Outcome, Refusal,
    Refused, Segment, Session, SessionError, Ticket,
};
use strongroom_memory::{Locked, in_wiped_stack, wipe};
use zeroize::Zeroizing;

use crate::Options;
use crate::cipher::Cipher;
use crate::launcher::{Launcher, NotNow};
use crate::limits::{CONTEXTS_MAX, LAUNCH_BYTES_MAX};
use crate::plan::{Builder, Plan};
use crate::platform::{Device, Info};
use crate::sectors::{self, SectorKeys};
use crate::self_test;
use crate::suite::{self, Recipe};
use crate::sys::Block;

/// Small batches wait for a transfer each way and some kernels.
const LATENCY_NS: u64 = 60_000;
/// What a link of 16 lanes carries; what a device really does is measured.
const GPU_BYTES_PER_SECOND: u64 = 5_000_000_000;
/// A driver on the CPU.
const CPU_BYTES_PER_SECOND: u64 = 100_000_000;

/// Engines of this process, so that each knows its own sessions.
static MADE: AtomicU64 = AtomicU64::new(0);

/// One device as an engine: sectors in XTS whole, and the keystream of suites that are built on a counter mode. It does
/// not authenticate.
pub struct GpuEngine {
    name: String,
    number: u64,
    launcher: Launcher,
    tested: [OnceLock<bool>; Cipher::ALL.len()],
}

/// The state of a session.
struct Keyed {
    engine: u64,
    keys: Locked<Keys>,
}

enum Keys {
    Suite(&'static Recipe, Zeroizing<[u8; 32]>),
    Sectors(SectorKeys),
}

impl GpuEngine {
    pub(crate) fn on(name: String, device: Arc<dyn Device>, options: Options) -> GpuEngine {
        GpuEngine {
            name,
            number: MADE.fetch_add(1, Relaxed),
            launcher: Launcher::new(device, options),
            tested: [const { OnceLock::new() }; Cipher::ALL.len()],
        }
    }

    /// The device.
    #[must_use]
    pub fn info(&self) -> &Info {
        self.launcher.device().info()
    }

    /// True once the device counts as lost; it stays so.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.launcher.is_lost()
    }

    /// True when the driver compiles the cipher's kernels and they compute the known answers. That runs when it is
    /// first asked for, and takes from milliseconds to some seconds.
    #[must_use]
    pub fn passes(&self, cipher: Cipher) -> bool {
        let slot = &self.tested[cipher as usize];
        *slot.get_or_init(|| self_test::run(&self.launcher, cipher).is_ok())
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// The suite and key of one of its sessions.
    pub(crate) fn suite_of<'s>(&self, session: &'s Session) -> Option<(&'static Recipe, &'s [u8; 32])> {
        match &*self.keyed(session)?.keys {
            Keys::Suite(recipe, key) => Some((*recipe, &**key)),
            Keys::Sectors(_) => None,
        }
    }

    fn keyed<'s>(&self, session: &'s Session) -> Option<&'s Keyed> {
        session.state::<Keyed>().filter(|keyed| keyed.engine == self.number)
    }

    fn passes_all(&self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::Aead(aead) => {
                suite::recipe(aead).is_some_and(|recipe| recipe.ciphers().iter().all(|&c| self.passes(c)))
            }
            Algorithm::Sector(sector) => sectors::offers(sector) && self.passes(sector.cipher.into()),
        }
    }

    fn offers(algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::Aead(aead) => suite::recipe(aead).is_some(),
            Algorithm::Sector(sector) => sectors::offers(sector),
        }
    }
}

fn check(algorithm: Algorithm, batch: &Batch) -> Result<(), Refusal> {
    let is_keystream = batch.operation == Operation::Keystream;
    let is_sectors = matches!(algorithm, Algorithm::Sector(_));
    batch.validate(algorithm)?;
    if !is_keystream && !is_sectors
        || batch.buffer.len() > LAUNCH_BYTES_MAX
        || batch.segments.len() > CONTEXTS_MAX
        || is_sectors && !sectors::fit(&batch.segments)
    {
        return Err(Refusal::Unsupported);
    }
    Ok(())
}

/// Puts a batch into a block.
fn build(block: &mut Block, keys: &Keys, batch: &Batch) -> (Plan, Vec<Range<usize>>) {
    let mut builder = Builder::new(block);
    let ranges: Vec<_> = batch.segments.iter().map(|segment| builder.run(segment.len())).collect();
    match keys {
        Keys::Suite(recipe, key) => {
            let of = |(segment, range): (&Segment, &Range<usize>)| (*segment.nonce(), range.clone());
            let messages: Vec<_> = batch.segments.iter().zip(&ranges).map(of).collect();
            recipe.build(key, &mut builder, &messages);
        }
        Keys::Sectors(keys) => {
            builder.data_goes_in();
            for (segment, range) in batch.segments.iter().zip(&ranges) {
                builder.bytes(range.clone()).copy_from_slice(&batch.buffer[segment.range()]);
            }
            let decrypt = batch.operation == Operation::DecryptSectors;
            keys.build(&mut builder, decrypt, &batch.segments, &ranges);
        }
    }
    (builder.finish(), ranges)
}

fn lost(batch: Batch) -> Completed {
    Completed { batch, outcome: Outcome::DeviceLost }
}

impl Engine for GpuEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let has = match algorithm {
            Algorithm::Aead(_) => operation == Operation::Keystream,
            Algorithm::Sector(_) => {
                matches!(operation, Operation::EncryptSectors | Operation::DecryptSectors)
            }
        };
        if !has || !self.passes_all(algorithm) {
            return None;
        }
        let is_gpu = self.info().is_gpu;
        Some(Capability {
            inline: false,
            batch_bytes_max: LAUNCH_BYTES_MAX,
            segments_max: CONTEXTS_MAX,
            queue_max: self.launcher.queue_max(),
            alignment: 1,
            latency_ns: LATENCY_NS,
            bytes_per_second: if is_gpu { GPU_BYTES_PER_SECOND } else { CPU_BYTES_PER_SECOND },
            takes_masks: false,
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        if !Self::offers(algorithm) {
            return Err(SessionError::Unsupported);
        }
        if !algorithm.key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        if !self.passes_all(algorithm) {
            return Err(SessionError::DeviceLost);
        }
        let keys = in_wiped_stack(|| {
            Ok(Locked::new(match algorithm {
                Algorithm::Aead(aead) => {
                    let key = key.try_into().map_err(|_| SessionError::KeyLength)?;
                    let recipe = suite::recipe(aead).ok_or(SessionError::Unsupported)?;
                    Keys::Suite(recipe, Zeroizing::new(key))
                }
                Algorithm::Sector(sector) => Keys::Sectors(SectorKeys::new(sector, key)?),
            }))
        })?;
        Ok(Session::new(algorithm, Arc::new(Keyed { engine: self.number, keys })))
    }

    fn submit(&self, session: &Session, mut batch: Batch) -> Result<Ticket, Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let Some(keyed) = self.keyed(session) else {
            return refuse(batch, Refusal::Misuse("the session belongs to another engine"));
        };
        if let Err(refusal) = check(session.algorithm(), &batch) {
            return refuse(batch, refusal);
        }
        if batch.bytes() == 0 {
            batch.segments.iter_mut().for_each(|segment| segment.set_done(None));
            return Ok(Ticket::ready(Completed { batch, outcome: Outcome::Done }));
        }
        strongroom_memory::lock_stack();
        let mut begun = match self.launcher.begin() {
            Ok(begun) => begun,
            Err(NotNow::Busy) => return refuse(batch, Refusal::Busy),
            Err(NotNow::Failed(_)) => return Ok(Ticket::ready(lost(batch))),
        };
        let (plan, ranges) = build(begun.block(), &keyed.keys, &batch);
        let (ticket, completer) = Ticket::pending();
        let (give_back, data) = (self.launcher.returner(), plan.data());
        let done = move |result: Result<Block, _>| {
            let Ok(mut block) = result else { return completer.complete(lost(batch)) };
            for (segment, range) in batch.segments.iter_mut().zip(ranges) {
                batch.buffer[segment.range()].copy_from_slice(&block[range]);
                segment.set_done(None);
            }
            wipe(&mut block[data]);
            give_back(block);
            completer.complete(Completed { batch, outcome: Outcome::Done });
        };
        self.launcher.queue(begun, plan, Box::new(done));
        Ok(ticket)
    }

    /// Nothing waits for it: a launch begins when it is submitted.
    fn flush(&self) {}

    /// Ordinary memory: batches are copied to and from pinned blocks, which are lent as masks alone.
    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    /// A device writes when it likes.
    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn Masking> {
        Some(self)
    }
}
