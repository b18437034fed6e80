//! The C interface: the functions of `libqat.so` and `libusdm.so` that the
//! engine calls, under their names.
//!
//! Invariants: what the caller points to is checked to be memory that was given
//! out here before it is looked at, where the interface asks for such; the rest
//! is what the headers ask of a caller.
#![allow(unsafe_code, non_snake_case)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use strongroom_engine_qat::cpa::{
    self, Address, Boolean, Callback, FALSE, Handle, OpData, SessionContext, SessionSetup, Status, TRUE,
    Translate, operation, status,
};

use crate::compute::Cipher;
use crate::device::{Device, Request, Session};
use crate::dials::{DIALS, Dials};
use crate::low;

/// Bytes of a session's memory.
const SESSION_LEN: u32 = 384;

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let dials = dials();
    (0..dials.instances).map(|_| Device::new(dials.clone())).collect()
});

/// Open sessions by their memory, requests that are out by theirs, and the
/// function to be called for each instance's answers.
#[derive(Default)]
struct Known {
    sessions: HashMap<usize, Arc<Session>>,
    out: BTreeSet<usize>,
    callbacks: HashMap<usize, Callback>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of the file beside this library.
fn dials() -> Dials {
    let path = directory().join(DIALS);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    Dials::parse(&text).unwrap_or_else(|| panic!("{} has dials", path.display()))
}

/// Where this library is.
fn directory() -> PathBuf {
    let here = icp_sal_userIsQatAvailable as extern "C" fn() -> Boolean;
    // SAFETY: a structure of pointers and zeros is one.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; what is known is written to the place given.
    let is_known = unsafe { libc::dladdr(here as *const c_void, &mut found) } != 0;
    assert!(is_known && !found.dli_fname.is_null(), "a library knows where it is");
    // SAFETY: the loader's name of it ends with zero and stays.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    let mut path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
    path.pop();
    path
}

/// The device of a handle.
fn device(handle: Handle) -> Option<&'static Device> {
    DEVICES.iter().find(|device| std::ptr::from_ref(*device).cast_mut().cast() == handle)
}

fn call(handle: Handle, act: impl FnOnce(&'static Device) -> Status) -> Status {
    device(handle).map_or(status::INVALID_PARAM, act)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn icp_sal_userStart(name: *const c_char) -> Status {
    match DEVICES.is_empty() || name.is_null() {
        true => status::FAIL,
        false => status::SUCCESS,
    }
}

#[unsafe(no_mangle)]
extern "C" fn icp_sal_userIsQatAvailable() -> Boolean {
    if DEVICES.is_empty() { FALSE } else { TRUE }
}

#[unsafe(no_mangle)]
extern "C" fn icp_sal_poll_device_events() -> Status {
    status::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cpaCyGetNumInstances(count: *mut u16) -> Status {
    // SAFETY: the caller's place for it.
    unsafe { count.write(DEVICES.len() as u16) };
    status::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cpaCyGetInstances(count: u16, handles: *mut Handle) -> Status {
    if usize::from(count) > DEVICES.len() {
        return status::FAIL;
    }
    for (at, device) in DEVICES.iter().take(count.into()).enumerate() {
        // SAFETY: the caller has room for `count` of them.
        unsafe { handles.add(at).write(std::ptr::from_ref(device).cast_mut().cast()) };
    }
    status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cpaCyStartInstance(handle: Handle) -> Status {
    call(handle, Device::start)
}

#[unsafe(no_mangle)]
extern "C" fn cpaCyStopInstance(handle: Handle) -> Status {
    call(handle, Device::stop)
}

#[unsafe(no_mangle)]
extern "C" fn cpaCySetAddressTranslation(handle: Handle, translate: Translate) -> Status {
    assert!(std::ptr::fn_addr_eq(translate, qaeVirtToPhysNUMA as Translate), "by the library for memory");
    call(handle, Device::set_translation)
}

#[unsafe(no_mangle)]
extern "C" fn cpaCySymDpRegCbFunc(handle: Handle, callback: Callback) -> Status {
    known().callbacks.insert(handle as usize, callback);
    call(handle, Device::set_callback)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cpaCySymDpSessionCtxGetSize(
    handle: Handle,
    _: *const SessionSetup,
    len: *mut u32,
) -> Status {
    // SAFETY: the caller's place for it.
    unsafe { len.write(SESSION_LEN) };
    call(handle, |_| status::SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cpaCySymDpInitSession(
    handle: Handle,
    setup: *const SessionSetup,
    memory: SessionContext,
) -> Status {
    // SAFETY: the caller's structure.
    let setup = unsafe { setup.read() };
    let is_aead = setup.operation == operation::ALGORITHM_CHAINING;
    let is_sound = low::is_reached(memory.cast(), SESSION_LEN as usize)
        && setup.priority == cpa::PRIORITY_HIGH
        && setup.digest_is_appended == FALSE
        && (is_aead || setup.operation == operation::CIPHER)
        && is_aead == (setup.cipher.algorithm == cpa::cipher::AES_GCM);
    let is_gcm = setup.hash.algorithm == cpa::HASH_AES_GCM
        && setup.hash.mode == cpa::HASH_MODE_AUTH
        && setup.hash.digest_len == 16;
    if !is_sound || is_aead && !is_gcm {
        return status::INVALID_PARAM;
    }
    let took = call(handle, |device| device.takes_session(setup.cipher.algorithm));
    if took != status::SUCCESS {
        return took;
    }
    // SAFETY: the caller's key has the length that stands beside it.
    let key = unsafe { std::slice::from_raw_parts(setup.cipher.key, setup.cipher.key_len as usize) };
    let ad_len = if is_aead { setup.hash.auth.ad_len as usize } else { 0 };
    let cipher = Cipher::new(setup.cipher.algorithm, setup.cipher.direction, key, ad_len);
    let Some(cipher) = cipher else { return status::UNSUPPORTED };
    let session = Arc::new(Session { cipher, pending: AtomicUsize::new(0) });
    known().sessions.insert(memory as usize, session);
    status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cpaCySymDpRemoveSession(handle: Handle, memory: SessionContext) -> Status {
    let mut known = known();
    match known.sessions.get(&(memory as usize)) {
        None => return status::INVALID_PARAM,
        Some(session) if session.pending.load(SeqCst) > 0 => return status::RETRY,
        Some(_) => {}
    }
    known.sessions.remove(&(memory as usize));
    drop(known);
    call(handle, |_| status::SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cpaCySymDpEnqueueOp(place: *mut OpData, is_last: Boolean) -> Status {
    if !low::is_reached(place.cast(), size_of::<OpData>()) || !place.is_aligned() {
        return status::INVALID_PARAM;
    }
    // SAFETY: it lies in memory that was given out here, aligned.
    let operation = unsafe { place.read() };
    let session = known().sessions.get(&(operation.session as usize)).cloned();
    let Some(session) = session else { return status::INVALID_PARAM };
    let cipher = &session.cipher;
    let len = operation.crypto_len as usize;
    let is_sound = operation.this == low::address_of(place.cast())
        && operation.iv == low::address_of(operation.iv_here)
        && operation.iv_len == cipher.iv_len()
        && operation.crypto_start == 0
        && len.is_multiple_of(cipher.unit())
        && operation.source == operation.target
        && operation.source_len == operation.target_len
        && operation.crypto_len <= operation.source_len
        && (cipher.ad_len > 0) == (operation.ad != 0);
    if !is_sound {
        return status::INVALID_PARAM;
    }
    if cipher.ad_len > 0 {
        let padded = cipher.ad_len.next_multiple_of(16);
        let is_there = operation.ad == low::address_of(operation.ad_here)
            && low::write(operation.ad + cipher.ad_len as u64, &vec![0; padded - cipher.ad_len]);
        if !is_there {
            return status::INVALID_PARAM;
        }
    }
    let request = Request {
        session: Arc::clone(&session),
        place: place as usize,
        iv: operation.iv,
        iv_len: operation.iv_len as usize,
        ad: operation.ad,
        data: operation.source,
        len,
        tag: operation.digest,
    };
    assert!(!known().out.contains(&request.place), "a request is handed over once");
    call(operation.instance, |device| match device.enqueue(request) {
        status::SUCCESS => {
            known().out.insert(place as usize);
            if is_last == TRUE { device.perform() } else { status::SUCCESS }
        }
        status => status,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cpaCySymDpPerformOpNow(handle: Handle) -> Status {
    call(handle, Device::perform)
}

#[unsafe(no_mangle)]
extern "C" fn icp_sal_CyPollDpInstance(handle: Handle, quota: u32) -> Status {
    assert_eq!(quota, 0, "all that are there");
    let Some(device) = device(handle) else { return status::INVALID_PARAM };
    let done = match device.poll() {
        Ok(done) => done,
        Err(status) => return status,
    };
    let callback = known().callbacks.get(&(handle as usize)).copied();
    let (Some(callback), false) = (callback, done.is_empty()) else { return status::RETRY };
    for done in done {
        let place = done.request.place as *mut OpData;
        known().out.remove(&done.request.place);
        // SAFETY: the function and the request are the caller's.
        unsafe { callback(place, done.status, if done.is_verified { TRUE } else { FALSE }) };
        done.request.session.pending.fetch_sub(1, SeqCst);
    }
    status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn qaeMemAllocNUMA(len: usize, _: c_int, alignment: usize) -> *mut c_void {
    low::allocate(len, alignment).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn qaeMemFreeNUMA(place: *mut *mut c_void) {
    // SAFETY: the caller's place for it.
    let at = unsafe { place.replace(std::ptr::null_mut()) };
    let known = known();
    assert!(!known.sessions.contains_key(&(at as usize)), "a session is removed before its memory is freed");
    assert!(!known.out.contains(&(at as usize)), "the device has this request");
    assert!(low::free(at.cast()), "it was given out here");
}

#[unsafe(no_mangle)]
unsafe extern "C" fn qaeVirtToPhysNUMA(place: *mut c_void) -> Address {
    low::address_of(place.cast())
}
