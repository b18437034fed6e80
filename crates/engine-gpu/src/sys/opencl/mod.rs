//! Devices through OpenCL 1.2, whose library is opened at run time.

mod api;
mod lane;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use api::{Functions, Handle, SUCCESS, Status};

use super::Found;
use super::pinned::{Block, Release};
use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::BLOCK_LEN;
use crate::platform::{Api, Device, Info, Lane};
use crate::source;

const LIBRARY: &str = "libOpenCL.so.1";
const OPTIONS: &CStr = c"-cl-std=CL1.2";

/// The devices of all platforms.
pub(crate) fn open() -> Found {
    // SAFETY: what runs when the library is loaded is its own initialisation; it is the system's OpenCL loader.
    let Ok(library) = (unsafe { Library::new(LIBRARY) }) else {
        return Found::nothing(format!(
            "there is no {LIBRARY}: Debian's ocl-icd-libopencl1 has it, and the GPU's vendor the driver \
             (mesa-opencl-icd, intel-opencl-icd, nvidia-opencl-icd, ROCm)"
        ));
    };
    // Never unloaded: drivers leave threads behind.
    let library: &'static Library = Box::leak(Box::new(library));
    let functions: &'static Functions = match Functions::find(library) {
        Ok(functions) => Box::leak(Box::new(functions)),
        Err(name) => {
            return Found::nothing(format!("{LIBRARY} has no {name}: it is older than OpenCL 1.2"));
        }
    };
    let devices: Vec<_> =
        platforms(functions).into_iter().flat_map(|platform| devices(functions, platform)).collect();
    if devices.is_empty() {
        return Found::nothing(format!(
            "{LIBRARY} finds no device: install the OpenCL driver of the GPU (mesa-opencl-icd, intel-opencl-icd, \
             nvidia-opencl-icd, ROCm), and see that this user may open /dev/dri/renderD* or /dev/nvidia*"
        ));
    }
    Found { devices, missing: None }
}

fn platforms(functions: &Functions) -> Vec<Handle> {
    let mut count = 0;
    // SAFETY: with no room for handles only `count` is written.
    let status = unsafe { (functions.clGetPlatformIDs)(0, null_mut(), &mut count) };
    if status != SUCCESS {
        return Vec::new();
    }
    let mut handles = vec![null_mut(); count as usize];
    // SAFETY: there is room for `count` handles.
    let status = unsafe { (functions.clGetPlatformIDs)(count, handles.as_mut_ptr(), null_mut()) };
    if status == SUCCESS { handles } else { Vec::new() }
}

fn devices(functions: &'static Functions, platform: Handle) -> Vec<Box<dyn Device>> {
    let ids = functions.clGetDeviceIDs;
    let mut count = 0;
    // SAFETY: with no room for handles only `count` is written; the platform comes from the library.
    let status = unsafe { ids(platform, api::DEVICE_TYPE_ALL, 0, null_mut(), &mut count) };
    if status != SUCCESS {
        return Vec::new();
    }
    let mut handles = vec![null_mut(); count as usize];
    // SAFETY: there is room for `count` handles.
    let status = unsafe { ids(platform, api::DEVICE_TYPE_ALL, count, handles.as_mut_ptr(), null_mut()) };
    if status != SUCCESS {
        return Vec::new();
    }
    let usable = handles.into_iter().filter_map(|handle| OpenClDevice::new(functions, platform, handle));
    usable.map(|device| Box::new(device) as Box<dyn Device>).collect()
}

/// A function of `clGet*Info`'s form: subject, which property, room, where to, how long.
type InfoFunction = unsafe extern "C" fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;

fn text(function: InfoFunction, subject: Handle, what: u32) -> String {
    let mut bytes = [0u8; 256];
    // SAFETY: the library writes at most as many bytes as there is room for.
    let status = unsafe { function(subject, what, bytes.len(), bytes.as_mut_ptr().cast(), null_mut()) };
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    if status == SUCCESS { String::from_utf8_lossy(&bytes[..end]).into_owned() } else { String::new() }
}

/// A property of four or eight bytes.
fn number(function: InfoFunction, subject: Handle, what: u32) -> u64 {
    let mut number = 0u64;
    // SAFETY: the library writes at most the eight bytes of `number`.
    let status = unsafe { function(subject, what, 8, (&raw mut number).cast(), null_mut()) };
    if status == SUCCESS { u64::from_le(number) } else { 0 }
}

fn check(call: &'static str, code: Status) -> Result<(), Failure> {
    if code == SUCCESS { Ok(()) } else { Err(Failure::Call { call, code }) }
}

/// A context of one device, with what was made in it. Handles may be used by any thread (specification, appendix A.2;
/// arguments of kernels are set on kernels of a lane's own).
struct Context {
    functions: &'static Functions,
    device: Handle,
    context: Handle,
    /// For mapping and unmapping alone.
    queue: Handle,
    programs: Mutex<HashMap<Cipher, Handle>>,
}

// SAFETY: see the type.
unsafe impl Send for Context {}
// SAFETY: see the type.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        for program in self.programs.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: the program was created here and is used no more.
            unsafe { (self.functions.clReleaseProgram)(*program) };
        }
        // SAFETY: as above.
        unsafe {
            (self.functions.clReleaseCommandQueue)(self.queue);
            (self.functions.clReleaseContext)(self.context);
        }
    }
}

impl Context {
    fn queue(&self) -> Result<Handle, Failure> {
        let mut status = SUCCESS;
        // SAFETY: context and device belong together.
        let queue =
            unsafe { (self.functions.clCreateCommandQueue)(self.context, self.device, 0, &mut status) };
        check("clCreateCommandQueue", status)?;
        Ok(queue)
    }

    fn buffer(&self, flags: u64, len: usize) -> Result<Handle, Failure> {
        let mut status = SUCCESS;
        // SAFETY: without a host pointer the library allocates.
        let buffer =
            unsafe { (self.functions.clCreateBuffer)(self.context, flags, len, null_mut(), &mut status) };
        check("clCreateBuffer", status)?;
        Ok(buffer)
    }

    /// The kernels of a cipher, compiled once.
    fn program(&self, cipher: Cipher) -> Result<Handle, Failure> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&cipher) {
            return Ok(*program);
        }
        let program = self.compile(&source::opencl(cipher))?;
        programs.insert(cipher, program);
        Ok(program)
    }

    fn compile(&self, source: &str) -> Result<Handle, Failure> {
        let (start, len) = (source.as_ptr().cast::<c_char>(), source.len());
        let mut status = SUCCESS;
        // SAFETY: one string, whose length is given; it is copied.
        let program =
            unsafe { (self.functions.clCreateProgramWithSource)(self.context, 1, &start, &len, &mut status) };
        check("clCreateProgramWithSource", status)?;
        // SAFETY: one device, that of the context; the options end with zero; without a callback it returns when the
        // program is built.
        let built = unsafe {
            (self.functions.clBuildProgram)(program, 1, &self.device, OPTIONS.as_ptr(), null(), null_mut())
        };
        if built == SUCCESS {
            return Ok(program);
        }
        let mut log = vec![0u8; 4096];
        // SAFETY: at most as many bytes are written as there is room for; the program is used no more afterwards.
        unsafe {
            (self.functions.clGetProgramBuildInfo)(
                program,
                self.device,
                api::PROGRAM_BUILD_LOG,
                log.len(),
                log.as_mut_ptr().cast(),
                null_mut(),
            );
            (self.functions.clReleaseProgram)(program);
        }
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        Err(Failure::Build(format!("clBuildProgram failed with code {built}. {log}")))
    }

    fn kernel(&self, program: Handle, name: &str) -> Result<Handle, Failure> {
        let name = CString::new(name).expect("a name without zeros");
        let mut status = SUCCESS;
        // SAFETY: the program is built; the name ends with zero.
        let kernel = unsafe { (self.functions.clCreateKernel)(program, name.as_ptr(), &mut status) };
        check("clCreateKernel", status)?;
        Ok(kernel)
    }
}

struct OpenClDevice {
    info: Info,
    context: Arc<Context>,
}

impl OpenClDevice {
    /// `None` for what is not there at the moment, cannot compile, or has big-endian words.
    fn new(functions: &'static Functions, platform: Handle, device: Handle) -> Option<OpenClDevice> {
        let property = |what| number(functions.clGetDeviceInfo, device, what);
        let needed = [api::DEVICE_AVAILABLE, api::DEVICE_COMPILER_AVAILABLE, api::DEVICE_ENDIAN_LITTLE];
        if needed.into_iter().any(|what| property(what) as u32 == api::FALSE) {
            return None;
        }
        let mut status = SUCCESS;
        // SAFETY: one device; without properties and callback.
        let context =
            unsafe { (functions.clCreateContext)(null(), 1, &device, null(), null_mut(), &mut status) };
        if status != SUCCESS {
            return None;
        }
        // SAFETY: context and device belong together.
        let queue = unsafe { (functions.clCreateCommandQueue)(context, device, 0, &mut status) };
        if status != SUCCESS {
            // SAFETY: the context was created here and is used no more.
            unsafe { (functions.clReleaseContext)(context) };
            return None;
        }
        let info = Info {
            api: Api::OpenCl,
            name: text(functions.clGetDeviceInfo, device, api::DEVICE_NAME).trim().to_owned(),
            driver: format!(
                "{} {}",
                text(functions.clGetPlatformInfo, platform, api::PLATFORM_NAME),
                text(functions.clGetDeviceInfo, device, api::DRIVER_VERSION)
            ),
            memory_bytes: property(api::DEVICE_GLOBAL_MEM_SIZE),
            is_gpu: property(api::DEVICE_TYPE) & api::DEVICE_TYPE_GPU != 0,
        };
        let context = Context { functions, device, context, queue, programs: Mutex::default() };
        Some(OpenClDevice { info, context: Arc::new(context) })
    }
}

impl Device for OpenClDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn prepare(&self, cipher: Cipher) -> Result<(), Failure> {
        self.context.program(cipher).map(drop)
    }

    fn lane(&self) -> Result<Box<dyn Lane>, Failure> {
        Ok(Box::new(lane::OpenClLane::new(Arc::clone(&self.context))?))
    }

    fn block(&self) -> Result<Block, Failure> {
        let context = &self.context;
        let buffer = context.buffer(api::MEM_READ_WRITE | api::MEM_ALLOC_HOST_PTR, BLOCK_LEN)?;
        let mut mapping = Mapping { context: Arc::clone(context), buffer };
        let mut status = SUCCESS;
        // SAFETY: the buffer has so many bytes; the call blocks until they are mapped.
        let start = unsafe {
            (context.functions.clEnqueueMapBuffer)(
                context.queue,
                buffer,
                api::TRUE,
                api::MAP_READ_AND_WRITE,
                0,
                BLOCK_LEN,
                0,
                null(),
                null_mut(),
                &mut status,
            )
        };
        let start = NonNull::new(start.cast::<u8>()).filter(|_| status == SUCCESS);
        let Some(start) = start else {
            mapping.release_buffer();
            return Err(Failure::Call { call: "clEnqueueMapBuffer", code: status });
        };
        // SAFETY: so many bytes are mapped for reading and writing.
        unsafe { start.write_bytes(0, BLOCK_LEN) };
        // SAFETY: they are initialised now, and stay mapped until `mapping` releases them.
        Ok(unsafe { Block::from_raw(start, BLOCK_LEN, Box::new(mapping)) })
    }
}

/// The buffer behind pinned memory.
struct Mapping {
    context: Arc<Context>,
    buffer: Handle,
}

// SAFETY: as for `Context`.
unsafe impl Send for Mapping {}

impl Mapping {
    fn release_buffer(&mut self) {
        // SAFETY: the buffer was created for this mapping and is used no more.
        unsafe { (self.context.functions.clReleaseMemObject)(self.buffer) };
    }
}

impl Release for Mapping {
    unsafe fn release(&mut self, start: NonNull<u8>) {
        let functions = self.context.functions;
        // SAFETY: `start` is where this buffer is mapped.
        unsafe {
            let (queue, start) = (self.context.queue, start.as_ptr().cast());
            (functions.clEnqueueUnmapMemObject)(queue, self.buffer, start, 0, null(), null_mut());
            (functions.clFlush)(queue);
        }
        self.release_buffer();
    }
}
