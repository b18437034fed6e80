//! Devices through the CUDA driver, whose library is opened at run time. The kernels come as PTX of the lowest
//! architecture, which the driver compiles for the device there is: no toolkit is needed.

mod api;
mod lane;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use api::{Functions, Handle, SUCCESS, Status};

use super::Found;
use super::pinned::{Block, Release};
use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::BLOCK_LEN;
use crate::platform::{Api, Device, Info, Lane};
use crate::ptx;

const LIBRARY: &str = "libcuda.so.1";

/// The devices that the PTX runs on.
pub(crate) fn open() -> Found {
    // SAFETY: what runs when the library is loaded is its own initialisation; it is the system's driver.
    let Ok(library) = (unsafe { Library::new(LIBRARY) }) else {
        return Found::nothing(format!(
            "there is no {LIBRARY}: NVIDIA's driver has it (Debian's nvidia-driver with libcuda1); other GPUs need \
             none of it"
        ));
    };
    // Never unloaded: drivers leave threads behind.
    let library: &'static Library = Box::leak(Box::new(library));
    let functions: &'static Functions = match Functions::find(library) {
        Ok(functions) => Box::leak(Box::new(functions)),
        Err(name) => return Found::nothing(format!("{LIBRARY} has no {name}: the driver is too old")),
    };
    // SAFETY: flags have to be zero.
    let status = unsafe { (functions.cuInit)(0) };
    if status != SUCCESS {
        return Found::nothing(format!(
            "cuInit failed with code {status}: no NVIDIA GPU, or its kernel module is not loaded or of another version"
        ));
    }
    let mut version = 0;
    // SAFETY: the version is written to the place given.
    let status = unsafe { (functions.cuDriverGetVersion)(&mut version) };
    if status != SUCCESS || version < ptx::DRIVER_VERSION_MIN {
        let (has, needs) = (version, ptx::DRIVER_VERSION_MIN);
        return Found::nothing(format!(
            "NVIDIA's driver is for CUDA {}.{}, and {}.{} is needed: a driver of the series 530 or later has it",
            has / 1000,
            has % 1000 / 10,
            needs / 1000,
            needs % 1000 / 10
        ));
    }
    devices(functions)
}

fn devices(functions: &'static Functions) -> Found {
    let mut count = 0;
    // SAFETY: the count is written to the place given.
    if unsafe { (functions.cuDeviceGetCount)(&mut count) } != SUCCESS || count == 0 {
        return Found::nothing("NVIDIA's driver finds no GPU");
    }
    let mut found = Found { devices: Vec::new(), missing: None };
    for ordinal in 0..count {
        match CudaDevice::new(functions, ordinal) {
            Ok(device) => found.devices.push(Box::new(device)),
            Err(why) => found.missing = Some(why),
        }
    }
    found
}

fn check(call: &'static str, code: Status) -> Result<(), Failure> {
    if code == SUCCESS { Ok(()) } else { Err(Failure::Call { call, code }) }
}

/// A device's primary context, which is never released, with its modules. Every thread makes it current before it
/// calls anything.
struct Context {
    functions: &'static Functions,
    context: Handle,
    modules: Mutex<HashMap<Cipher, Handle>>,
}

// SAFETY: contexts and modules may be used by any thread that makes the context current.
unsafe impl Send for Context {}
// SAFETY: as above; the modules are behind a lock.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the context current for this thread.
    fn enter(&self) -> Result<&'static Functions, Failure> {
        // SAFETY: the context is never released.
        check("cuCtxSetCurrent", unsafe { (self.functions.cuCtxSetCurrent)(self.context) })?;
        Ok(self.functions)
    }

    /// The kernels of a cipher, compiled by the driver once.
    fn module(&self, cipher: Cipher) -> Result<Handle, Failure> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&cipher) {
            return Ok(*module);
        }
        let functions = self.enter()?;
        let text = CString::new(ptx::of(cipher)).expect("PTX is text without zeros");
        let mut module = null_mut();
        // SAFETY: PTX that ends with zero.
        let status = unsafe { (functions.cuModuleLoadData)(&mut module, text.as_ptr().cast()) };
        if status != SUCCESS {
            return Err(Failure::Build(format!("cuModuleLoadData failed with code {status}")));
        }
        modules.insert(cipher, module);
        Ok(module)
    }
}

struct CudaDevice {
    info: Info,
    context: Arc<Context>,
}

impl CudaDevice {
    fn new(functions: &'static Functions, ordinal: i32) -> Result<CudaDevice, String> {
        let failed = |failure: Failure| format!("NVIDIA's device {ordinal}: {failure}");
        let (mut device, mut name, mut memory) = (0, [0u8; 256], 0usize);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: results are written to the places given, the name with its zero within its room.
        let statuses = unsafe {
            [
                ("cuDeviceGet", (functions.cuDeviceGet)(&mut device, ordinal)),
                (
                    "cuDeviceGetName",
                    (functions.cuDeviceGetName)(name.as_mut_ptr().cast(), name.len() as i32, device),
                ),
                ("cuDeviceTotalMem", (functions.cuDeviceTotalMem_v2)(&mut memory, device)),
                (
                    "cuDeviceGetAttribute",
                    (functions.cuDeviceGetAttribute)(&mut major, api::COMPUTE_CAPABILITY_MAJOR, device),
                ),
                (
                    "cuDeviceGetAttribute",
                    (functions.cuDeviceGetAttribute)(&mut minor, api::COMPUTE_CAPABILITY_MINOR, device),
                ),
            ]
        };
        statuses.into_iter().try_for_each(|(call, status)| check(call, status)).map_err(failed)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        if (major, minor) < ptx::CAPABILITY_MIN {
            let (needs, after) = ptx::CAPABILITY_MIN;
            return Err(format!(
                "{name} has compute capability {major}.{minor}, and {needs}.{after} is needed"
            ));
        }
        let mut context = null_mut();
        // SAFETY: the device comes from the driver.
        let status = unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
        check("cuDevicePrimaryCtxRetain", status).map_err(failed)?;
        let mut version = 0;
        // SAFETY: the version is written to the place given.
        unsafe { (functions.cuDriverGetVersion)(&mut version) };
        let info = Info {
            api: Api::Cuda,
            name,
            driver: format!("NVIDIA, CUDA {}.{}", version / 1000, version % 1000 / 10),
            memory_bytes: memory as u64,
            is_gpu: true,
        };
        let context = Context { functions, context, modules: Mutex::default() };
        Ok(CudaDevice { info, context: Arc::new(context) })
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn prepare(&self, cipher: Cipher) -> Result<(), Failure> {
        self.context.module(cipher).map(drop)
    }

    fn lane(&self) -> Result<Box<dyn Lane>, Failure> {
        Ok(Box::new(lane::CudaLane::new(Arc::clone(&self.context))?))
    }

    fn block(&self) -> Result<Block, Failure> {
        let functions = self.context.enter()?;
        let mut start: *mut c_void = null_mut();
        // SAFETY: the address is written to the place given.
        let status = unsafe { (functions.cuMemHostAlloc)(&mut start, BLOCK_LEN, api::MEMHOSTALLOC_PORTABLE) };
        check("cuMemHostAlloc", status)?;
        let start =
            NonNull::new(start.cast::<u8>()).ok_or(Failure::Call { call: "cuMemHostAlloc", code: status })?;
        let pinning = Pinning { context: Arc::clone(&self.context) };
        // SAFETY: so many bytes were allocated.
        unsafe { start.write_bytes(0, BLOCK_LEN) };
        // SAFETY: they are initialised now, and stay until `pinning` frees them.
        Ok(unsafe { Block::from_raw(start, BLOCK_LEN, Box::new(pinning)) })
    }
}

struct Pinning {
    context: Arc<Context>,
}

impl Release for Pinning {
    unsafe fn release(&mut self, start: NonNull<u8>) {
        if let Ok(functions) = self.context.enter() {
            // SAFETY: `start` is what `cuMemHostAlloc` gave.
            unsafe { (functions.cuMemFreeHost)(start.as_ptr().cast()) };
        }
    }
}
