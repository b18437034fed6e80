//! An instance: a ring of requests and one of answers, of one device.

use std::mem::{ManuallyDrop, offset_of, size_of};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};

use strongroom_engine::{Tag, limits};

use super::Library;
use super::library::failure;
use super::memory::{Pinned, Pool};
use crate::Error;
use crate::cpa::{
    self, AuthSetup, Boolean, CipherSetup, FALSE, Handle, HashSetup, NestedSetup, OpData, SessionSetup,
    Status, TRUE, direction, operation, status,
};

/// An instance that this thread has.
pub(crate) struct Instance {
    library: &'static Library,
    number: u16,
    handle: Handle,
    pool: Pool,
}

/// What a session is to do.
pub(crate) struct Setup<'a> {
    /// Of [`cpa::cipher`].
    pub(crate) cipher: u32,
    pub(crate) encrypts: bool,
    pub(crate) key: &'a [u8],
    /// Bytes of associated data, of an AEAD.
    pub(crate) ad_len: Option<usize>,
}

/// A session, which holds a key. It is removed when it is dropped, and with the
/// last request in it.
pub(crate) struct Context {
    library: &'static Library,
    handle: Handle,
    memory: ManuallyDrop<Pinned>,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made for this instance and is removed once; this is the
        // instance's thread.
        let status =
            unsafe { (self.library.qat.cpaCySymDpRemoveSession)(self.handle, self.memory.pointer(0).cast()) };
        if status == status::SUCCESS {
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.memory) }
        }
        // Else the device may still look at it.
    }
}

/// What is asked.
pub(crate) struct Message<'a> {
    pub(crate) iv: &'a [u8],
    pub(crate) ad: &'a [u8],
    /// To be checked, by an AEAD that opens.
    pub(crate) tag: &'a Tag,
    pub(crate) data: &'a [u8],
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The tag was wrong; the data are as if it were right.
    Forged,
    Failed,
}

/// Values of [`Head::answer`].
const NOT_YET: u8 = 0;
const DONE: u8 = 1;
const FORGED: u8 = 2;
const FAILED: u8 = 3;

/// What stands before the data of a request.
#[repr(C)]
struct Head {
    operation: OpData,
    iv: [u8; 16],
    /// The library pads it to a multiple of 16.
    ad: [u8; limits::ASSOCIATED_DATA_MAX],
    tag: Tag,
    /// Written by [`answered`]; the device does not know of it.
    answer: AtomicU8,
}

const IV_AT: usize = offset_of!(Head, iv);
const AD_AT: usize = offset_of!(Head, ad);
const TAG_AT: usize = offset_of!(Head, tag);
const ANSWER_AT: usize = offset_of!(Head, answer);
const DATA_AT: usize = size_of::<Head>().next_multiple_of(super::memory::ALIGNMENT);
const _: () = assert!(limits::ASSOCIATED_DATA_MAX.is_multiple_of(16));

/// A request that the device has. Dropped before it is answered, it is leaked.
pub(crate) struct Flight {
    memory: ManuallyDrop<Pinned>,
    session: ManuallyDrop<Rc<Context>>,
}

impl Flight {
    /// Whether it has an answer, which [`Instance::finish`] tells.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer() != NOT_YET
    }

    fn answer(&self) -> u8 {
        // SAFETY: it stands there as long as this has the memory, and is written
        // by atomic accesses alone.
        unsafe { &*self.memory.pointer(ANSWER_AT).cast::<AtomicU8>() }.load(Acquire)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.is_answered() {
            // SAFETY: each is dropped once, here: `finish` forgets the flight.
            unsafe {
                ManuallyDrop::drop(&mut self.memory);
                ManuallyDrop::drop(&mut self.session);
            }
        }
    }
}

/// Called by the library for each request that is answered, from within a poll.
unsafe extern "C" fn answered(operation: *mut OpData, status: Status, is_verified: Boolean) {
    let answer = match (status, is_verified) {
        (status::SUCCESS, FALSE) => FORGED,
        (status::SUCCESS, _) => DONE,
        _ => FAILED,
    };
    // SAFETY: the library hands back what `enqueue` gave it, once. That is the
    // beginning of a `Head`, whose memory is neither freed nor used again before
    // `answer` is written.
    let head = unsafe { &*operation.cast::<u8>().add(ANSWER_AT).cast::<AtomicU8>() };
    head.store(answer, Release);
}

impl Instance {
    /// Starts the one with this number.
    ///
    /// # Errors
    /// There is none, it is in use, or the library does not start it.
    pub(crate) fn start(library: &'static Library, number: u16) -> Result<Instance, Error> {
        let handle = library.take(number)?;
        // Stops it and gives it back where something fails.
        let instance = Instance { library, number, handle, pool: Pool::new(library) };
        let qat = &library.qat;
        // SAFETY: the handle is the library's, and this thread's.
        failure("cpaCyStartInstance", unsafe { (qat.cpaCyStartInstance)(handle) })?;
        let translate = library.usdm.qaeVirtToPhysNUMA;
        // SAFETY: as above; the function stays as long as the process.
        let status = unsafe { (qat.cpaCySetAddressTranslation)(handle, translate) };
        failure("cpaCySetAddressTranslation", status)?;
        // SAFETY: as above.
        let status = unsafe { (qat.cpaCySymDpRegCbFunc)(handle, answered) };
        failure("cpaCySymDpRegCbFunc", status)?;
        Ok(instance)
    }

    /// Opens a session.
    ///
    /// # Errors
    /// What the library says: it does not have the algorithm or this key, has no
    /// room now, or is restarting.
    pub(crate) fn open(&mut self, setup: &Setup<'_>) -> Result<Context, Status> {
        let digest_len = if setup.ad_len.is_some() { size_of::<Tag>() as u32 } else { 0 };
        let asked = SessionSetup {
            priority: cpa::PRIORITY_HIGH,
            operation: if setup.ad_len.is_some() { operation::ALGORITHM_CHAINING } else { operation::CIPHER },
            cipher: CipherSetup {
                algorithm: setup.cipher,
                key_len: setup.key.len() as u32,
                // It is not written to.
                key: setup.key.as_ptr().cast_mut(),
                direction: if setup.encrypts { direction::ENCRYPT } else { direction::DECRYPT },
            },
            hash: HashSetup {
                algorithm: if setup.ad_len.is_some() { cpa::HASH_AES_GCM } else { 0 },
                mode: if setup.ad_len.is_some() { cpa::HASH_MODE_AUTH } else { 0 },
                digest_len,
                auth: AuthSetup { key: null_mut(), key_len: 0, ad_len: setup.ad_len.unwrap_or(0) as u32 },
                nested: NestedSetup {
                    inner: null_mut(),
                    inner_len: 0,
                    outer_algorithm: 0,
                    outer: null_mut(),
                    outer_len: 0,
                },
            },
            chain_order: cpa::CIPHER_THEN_HASH,
            digest_is_appended: FALSE,
            verify_digest: if setup.ad_len.is_some() && !setup.encrypts { TRUE } else { FALSE },
            partials_not_required: TRUE,
        };
        let mut len = 0;
        let qat = &self.library.qat;
        // SAFETY: the structure is whole, and the length is written to the place given.
        let status = unsafe { (qat.cpaCySymDpSessionCtxGetSize)(self.handle, &asked, &mut len) };
        if status != status::SUCCESS {
            return Err(status);
        }
        let memory = Pinned::new(self.library, len as usize).ok_or(status::RESOURCE)?;
        // SAFETY: the structure is whole, its key is as long as it says and lives
        // until this returns; the memory has the length that was asked for.
        let status = unsafe { (qat.cpaCySymDpInitSession)(self.handle, &asked, memory.pointer(0).cast()) };
        match status {
            status::SUCCESS => {
                let memory = ManuallyDrop::new(memory);
                Ok(Context { library: self.library, handle: self.handle, memory })
            }
            status => Err(status),
        }
    }

    /// Hands a request over, for [`Instance::perform`] to begin with.
    ///
    /// # Errors
    /// What the library says; it has nothing of it. `RETRY` where its ring is
    /// full, `RESOURCE` where there is no memory left.
    ///
    /// # Panics
    /// When the IV or the associated data is longer than any.
    pub(crate) fn enqueue(&mut self, session: &Rc<Context>, message: &Message<'_>) -> Result<Flight, Status> {
        let Message { iv, ad, tag, data } = message;
        assert!(iv.len() <= 16 && ad.len() <= limits::ASSOCIATED_DATA_MAX, "they fit");
        let mut memory = self.pool.take(DATA_AT + data.len()).ok_or(status::RESOURCE)?;
        let address = |at: usize| memory.address + at as u64;
        let has_ad = !ad.is_empty();
        let operation = OpData {
            reserved0: 0,
            crypto_start: 0,
            crypto_len: data.len() as u32,
            iv: address(IV_AT),
            reserved1: 0,
            hash_start: 0,
            hash_len: 0,
            ad: if has_ad { address(AD_AT) } else { 0 },
            digest: address(TAG_AT),
            instance: self.handle,
            session: session.memory.pointer(0).cast(),
            iv_len: iv.len() as u32,
            source: address(DATA_AT),
            source_len: data.len() as u32,
            target: address(DATA_AT),
            target_len: data.len() as u32,
            this: address(0),
            iv_here: memory.pointer(IV_AT),
            ad_here: if has_ad { memory.pointer(AD_AT) } else { null_mut() },
            tag: null_mut(),
        };
        memory.write(IV_AT, &[0; 16]);
        memory.write(IV_AT, iv);
        memory.write(AD_AT, ad);
        memory.write(TAG_AT, &tag[..]);
        memory.write(ANSWER_AT, &[NOT_YET]);
        memory.write(DATA_AT, data);
        let place = memory.pointer(0).cast::<OpData>();
        // SAFETY: there is room for it, aligned, and nothing else looks at it.
        unsafe { place.write(operation) };
        // SAFETY: all that the structure names lies in `memory` or in the session,
        // which the flight keeps until the request is answered.
        match unsafe { (self.library.qat.cpaCySymDpEnqueueOp)(place, FALSE) } {
            status::SUCCESS => Ok(Flight {
                memory: ManuallyDrop::new(memory),
                session: ManuallyDrop::new(Rc::clone(session)),
            }),
            status => {
                self.pool.give_back(memory);
                Err(status)
            }
        }
    }

    /// Has the device begin with what was handed over.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn perform(&mut self) -> Result<(), Status> {
        // SAFETY: the instance is started, and this thread's.
        match unsafe { (self.library.qat.cpaCySymDpPerformOpNow)(self.handle) } {
            status::SUCCESS => Ok(()),
            status => Err(status),
        }
    }

    /// Has the library look for answers, all that are there.
    ///
    /// # Errors
    /// What the library says; none is that there was no answer.
    pub(crate) fn poll(&mut self) -> Result<(), Status> {
        // SAFETY: as above; `answered` is called from within.
        match unsafe { (self.library.qat.icp_sal_CyPollDpInstance)(self.handle, 0) } {
            status::SUCCESS | status::RETRY => Ok(()),
            status => Err(status),
        }
    }

    /// Takes the answer of a request that has one, and its results: as many of
    /// the bytes of data as there is room for, and the tag.
    ///
    /// # Panics
    /// When it has no answer.
    pub(crate) fn finish(&mut self, flight: Flight, data: &mut [u8]) -> (Answer, Tag) {
        let answer = match flight.answer() {
            NOT_YET => panic!("a request that has an answer"),
            DONE => Answer::Done,
            FORGED => Answer::Forged,
            _ => Answer::Failed,
        };
        let mut tag = [0; 16];
        if answer == Answer::Done {
            flight.memory.read(DATA_AT, data);
            flight.memory.read(TAG_AT, &mut tag);
        }
        let mut flight = ManuallyDrop::new(flight);
        // SAFETY: each is taken once, here: the flight is not dropped.
        let (memory, session) =
            unsafe { (ManuallyDrop::take(&mut flight.memory), ManuallyDrop::take(&mut flight.session)) };
        drop(session);
        self.pool.give_back(memory);
        (answer, tag)
    }

    /// Lets the library look after devices.
    pub(crate) fn look_after_devices(&mut self) {
        self.library.look_after_devices();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's, and this thread's; what is still
        // out is leaked.
        unsafe { (self.library.qat.cpaCyStopInstance)(self.handle) };
        self.library.give_back(self.number);
    }
}
