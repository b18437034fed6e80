//! QATlib and its library for memory, opened at run time, with the functions
//! that are used.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::cpa::{
    Address, Boolean, Callback, FALSE, Handle, OpData, SessionContext, SessionSetup, Status, Translate,
    status,
};

const QAT: &str = "libqat.so.4";
const MEMORY: &str = "libusdm.so.0";
/// The section of a driver's configuration, for drivers that have one.
const PROCESS: &std::ffi::CStr = c"SSL";

macro_rules! functions {
    ($set:ident { $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        #[allow(non_snake_case)]
        pub(super) struct $set {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $set {
            fn find(library: &'static libloading::Library) -> Result<$set, &'static str> {
                Ok($set {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is that of the headers under this name.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(name.as_bytes())
                        };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    Qat {
        icp_sal_userStart: fn(*const c_char) -> Status;
        icp_sal_userIsQatAvailable: fn() -> Boolean;
        icp_sal_poll_device_events: fn() -> Status;
        icp_sal_CyPollDpInstance: fn(Handle, u32) -> Status;
        cpaCyGetNumInstances: fn(*mut u16) -> Status;
        cpaCyGetInstances: fn(u16, *mut Handle) -> Status;
        cpaCyStartInstance: fn(Handle) -> Status;
        cpaCyStopInstance: fn(Handle) -> Status;
        cpaCySetAddressTranslation: fn(Handle, Translate) -> Status;
        cpaCySymDpRegCbFunc: fn(Handle, Callback) -> Status;
        cpaCySymDpSessionCtxGetSize: fn(Handle, *const SessionSetup, *mut u32) -> Status;
        cpaCySymDpInitSession: fn(Handle, *const SessionSetup, SessionContext) -> Status;
        cpaCySymDpRemoveSession: fn(Handle, SessionContext) -> Status;
        cpaCySymDpEnqueueOp: fn(*mut OpData, Boolean) -> Status;
        cpaCySymDpPerformOpNow: fn(Handle) -> Status;
    }
}

functions! {
    Usdm {
        qaeMemAllocNUMA: fn(usize, c_int, usize) -> *mut c_void;
        qaeMemFreeNUMA: fn(*mut *mut c_void);
        qaeVirtToPhysNUMA: fn(*mut c_void) -> Address;
    }
}

/// QATlib, opened. It stays so until the process ends, since it has threads of
/// its own and memory that devices reach.
pub struct Library {
    name: PathBuf,
    pub(super) qat: Qat,
    pub(super) usdm: Usdm,
    /// The calls that are for one thread at a time, of all instances.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_started: bool,
    /// Instances that an engine has.
    taken: BTreeSet<u16>,
}

/// Those that were opened.
static OPENED: Mutex<Vec<&'static Library>> = Mutex::new(Vec::new());

impl Library {
    /// That of this machine, by the names that the system knows it by.
    ///
    /// # Errors
    /// A library, or a function of it, is not there.
    pub fn system() -> Result<&'static Library, Error> {
        Library::at(Path::new(QAT), Path::new(MEMORY))
    }

    /// Those at two paths, which are taken for QATlib and its library for memory.
    ///
    /// # Errors
    /// A library, or a function of it, is not there.
    pub fn at(qat: &Path, memory: &Path) -> Result<&'static Library, Error> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = opened.iter().find(|library| library.name == qat) {
            return Ok(library);
        }
        // First, since the other needs it.
        let from_memory = open(memory)?;
        let from_qat = open(qat)?;
        let lacks = |library: &Path| {
            let library = library.to_owned();
            move |function| Error::NoFunction(library, function)
        };
        let usdm = Usdm::find(from_memory).map_err(lacks(memory))?;
        let found = Qat::find(from_qat).map_err(lacks(qat))?;
        let library = Library { name: qat.to_owned(), qat: found, usdm, state: Mutex::default() };
        let library: &'static Library = Box::leak(Box::new(library));
        opened.push(library);
        Ok(library)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it says that there is a device.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub fn probe(&self) -> Result<(), Error> {
        let _one_at_a_time = self.state();
        // SAFETY: it takes nothing.
        match unsafe { (self.qat.icp_sal_userIsQatAvailable)() } {
            FALSE => Err(Error::NoDevice),
            _ => Ok(()),
        }
    }

    /// The instance with this number, for nobody else.
    pub(super) fn take(&self, number: u16) -> Result<Handle, Error> {
        let mut state = self.state();
        if !state.is_started {
            // SAFETY: the name ends with zero; one thread at a time is here.
            failure("icp_sal_userStart", unsafe { (self.qat.icp_sal_userStart)(PROCESS.as_ptr()) })?;
            state.is_started = true;
        }
        let mut count = 0;
        // SAFETY: the count is written to the place given.
        failure("cpaCyGetNumInstances", unsafe { (self.qat.cpaCyGetNumInstances)(&mut count) })?;
        if number >= count {
            return Err(Error::NoInstance { number, count });
        }
        let mut handles = vec![std::ptr::null_mut(); usize::from(count)];
        // SAFETY: there is room for as many handles as are asked for.
        let status = unsafe { (self.qat.cpaCyGetInstances)(count, handles.as_mut_ptr()) };
        failure("cpaCyGetInstances", status)?;
        match state.taken.insert(number) {
            true => Ok(handles[usize::from(number)]),
            false => Err(Error::InUse),
        }
    }

    /// Gives an instance back.
    pub(super) fn give_back(&self, number: u16) {
        self.state().taken.remove(&number);
    }

    /// Lets the library look after devices that have begun to restart or have
    /// done so. What comes of it is told by the calls that follow.
    pub(super) fn look_after_devices(&self) {
        let _one_at_a_time = self.state();
        // SAFETY: it takes nothing; one thread at a time is here.
        unsafe { (self.qat.icp_sal_poll_device_events)() };
    }
}

fn open(path: &Path) -> Result<&'static libloading::Library, Error> {
    // SAFETY: what runs when the library is loaded is its own initialisation;
    // it is the system's, or what the caller takes for it.
    match unsafe { libloading::Library::new(path) } {
        // Never unloaded.
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => Err(Error::NoLibrary(path.to_owned(), error.to_string())),
    }
}

/// What a call before the first request came to.
pub(super) fn failure(call: &'static str, status: Status) -> Result<(), Error> {
    if status == status::SUCCESS { Ok(()) } else { Err(Error::Call(call, status)) }
}
