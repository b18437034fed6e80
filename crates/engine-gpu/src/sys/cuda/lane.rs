//! A stream of CUDA with its memory.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::api::{self, Address, Functions, Handle, SUCCESS};
use super::{Context, check};
use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::platform::{Lane, Signal};
use crate::sys::commands::{self, Argument, Commands, Entry, GROUP, Region};
use crate::sys::in_flight::InFlight;
use crate::sys::pinned::Block;

pub(super) struct CudaLane {
    stream: Stream,
    in_flight: InFlight,
    signal: Arc<Signal>,
}

struct Stream {
    context: Arc<Context>,
    stream: Handle,
    /// Recorded behind a launch.
    event: Handle,
    /// Device memory by region; 0 where there is none yet.
    memory: [Address; Region::ALL.len()],
    kernels: HashMap<(Cipher, Entry), Handle>,
}

// SAFETY: handles may be used by any thread that makes the context current, and a lane is used by one at a time.
unsafe impl Send for Stream {}

/// Runs on a thread of the driver when all before it in the stream has ended.
unsafe extern "C" fn raise(signal: *mut c_void) {
    // SAFETY: `Stream::tell` made the pointer by `Arc::into_raw`, for this one call.
    unsafe { Arc::from_raw(signal.cast::<Signal>()) }.raise();
}

impl CudaLane {
    pub(super) fn new(context: Arc<Context>) -> Result<CudaLane, Failure> {
        let functions = context.enter()?;
        // Where one fails, dropping the stream gives back what was made before.
        let mut stream = Stream {
            context,
            stream: null_mut(),
            event: null_mut(),
            memory: [0; Region::ALL.len()],
            kernels: HashMap::new(),
        };
        // SAFETY: the handle is written to the place given.
        let status = unsafe { (functions.cuStreamCreate)(&mut stream.stream, api::STREAM_NON_BLOCKING) };
        check("cuStreamCreate", status)?;
        // SAFETY: as above.
        let status = unsafe { (functions.cuEventCreate)(&mut stream.event, api::EVENT_DISABLE_TIMING) };
        check("cuEventCreate", status)?;
        for region in Region::ALL {
            let memory = &mut stream.memory[region as usize];
            // SAFETY: the address is written to the place given.
            check("cuMemAlloc", unsafe { (functions.cuMemAlloc_v2)(memory, region.len()) })?;
            stream.wipe(region, region.len())?;
        }
        Ok(CudaLane { stream, in_flight: InFlight::default(), signal: Arc::default() })
    }
}

impl Stream {
    fn queue(&mut self, plan: &Plan, block: &mut Block, signal: &Arc<Signal>) -> Result<(), Failure> {
        let functions = self.context.enter()?;
        commands::queue(self, plan, block)?;
        self.tell(functions, signal)
    }

    fn memory(&self, region: Region) -> Address {
        self.memory[region as usize]
    }

    fn kernel(&mut self, cipher: Cipher, entry: Entry) -> Result<Handle, Failure> {
        if let Some(kernel) = self.kernels.get(&(cipher, entry)) {
            return Ok(*kernel);
        }
        let module = self.context.module(cipher)?;
        let name = CString::new(commands::kernel_name(cipher, entry)).expect("a name without zeros");
        let mut kernel = null_mut();
        // SAFETY: the module is loaded; the name ends with zero.
        let status =
            unsafe { (self.context.functions.cuModuleGetFunction)(&mut kernel, module, name.as_ptr()) };
        check("cuModuleGetFunction", status)?;
        self.kernels.insert((cipher, entry), kernel);
        Ok(kernel)
    }

    /// Has the signal raised when all that is queued has ended well. Where it has not, the event says so.
    fn tell(&self, functions: &Functions, signal: &Arc<Signal>) -> Result<(), Failure> {
        // SAFETY: event and stream belong to this lane.
        check("cuEventRecord", unsafe { (functions.cuEventRecord)(self.event, self.stream) })?;
        let signal = Arc::into_raw(Arc::clone(signal)).cast_mut().cast();
        // SAFETY: `raise` takes `signal` once, whatever thread it runs on, and calls nothing of the driver.
        let status = unsafe { (functions.cuLaunchHostFunc)(self.stream, raise, signal) };
        if status != SUCCESS {
            // SAFETY: the function was not queued, so that the pointer is ours still.
            drop(unsafe { Arc::from_raw(signal.cast::<Signal>()) });
        }
        check("cuLaunchHostFunc", status)
    }

    fn has_ended(&self) -> Result<bool, Failure> {
        let functions = self.context.enter()?;
        // SAFETY: the event is this lane's.
        match unsafe { (functions.cuEventQuery)(self.event) } {
            api::ERROR_NOT_READY => Ok(false),
            status => check("a launch", status).map(|()| true),
        }
    }
}

/// The context is current: a lane's methods enter it.
impl Commands for Stream {
    fn upload(&mut self, to: Region, bytes: &[u8]) -> Result<(), Failure> {
        // SAFETY: the region has room for them; the bytes stay as `Commands` asks.
        let status = unsafe {
            (self.context.functions.cuMemcpyHtoDAsync_v2)(
                self.memory(to),
                bytes.as_ptr().cast(),
                bytes.len(),
                self.stream,
            )
        };
        check("cuMemcpyHtoDAsync", status)
    }

    fn download(&mut self, from: Region, bytes: &mut [u8]) -> Result<(), Failure> {
        // SAFETY: as in `upload`; nobody looks at them meanwhile, since the lane owns their block.
        let status = unsafe {
            (self.context.functions.cuMemcpyDtoHAsync_v2)(
                bytes.as_mut_ptr().cast(),
                self.memory(from),
                bytes.len(),
                self.stream,
            )
        };
        check("cuMemcpyDtoHAsync", status)
    }

    fn wipe(&mut self, region: Region, len: usize) -> Result<(), Failure> {
        // SAFETY: `len` is a multiple of four within the region.
        let status = unsafe {
            (self.context.functions.cuMemsetD32Async)(self.memory(region), 0, len / 4, self.stream)
        };
        check("cuMemsetD32Async", status)
    }

    fn run(
        &mut self,
        cipher: Cipher,
        entry: Entry,
        arguments: &[Argument],
        work_items: u32,
    ) -> Result<(), Failure> {
        let kernel = self.kernel(cipher, entry)?;
        // A value of four bytes is the lower half of its eight: the machine is little-endian.
        let mut values: Vec<u64> = arguments
            .iter()
            .map(|argument| match *argument {
                Argument::Region(region) => self.memory(region),
                Argument::Number(number) => u64::from(number).to_le(),
            })
            .collect();
        let mut places: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let (groups, group) = (work_items.div_ceil(GROUP as u32), GROUP as u32);
        // SAFETY: one place for each argument, with its value, which is copied.
        let status = unsafe {
            (self.context.functions.cuLaunchKernel)(
                kernel,
                groups,
                1,
                1,
                group,
                1,
                1,
                0,
                self.stream,
                places.as_mut_ptr(),
                null_mut(),
            )
        };
        check("cuLaunchKernel", status)
    }
}

impl Lane for CudaLane {
    fn launch(&mut self, plan: &Plan, block: Block) -> Result<(), Failure> {
        self.in_flight.begin(block, |block| self.stream.queue(plan, block, &self.signal))
    }

    fn poll(&mut self) -> Result<Option<Block>, Failure> {
        self.in_flight.end(self.stream.has_ended())
    }

    fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    #[cfg(test)]
    fn remains(&mut self) -> Result<Vec<u8>, Failure> {
        let functions = self.stream.context.enter()?;
        let mut all = vec![0; Region::ALL.into_iter().map(Region::len).sum()];
        let mut start = 0;
        for region in Region::ALL {
            self.stream.download(region, &mut all[start..start + region.len()])?;
            start += region.len();
        }
        self.stream.tell(functions, &self.signal)?;
        while !self.stream.has_ended()? {
            std::thread::yield_now();
        }
        Ok(all)
    }
}

impl Drop for CudaLane {
    fn drop(&mut self) {
        if self.in_flight.is_left_behind() {
            self.stream.memory = [0; Region::ALL.len()];
            self.stream.stream = null_mut();
            self.stream.event = null_mut();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(functions) = self.context.enter() else { return };
        // SAFETY: all of it was made by this lane and is used no more; nothing is in flight.
        unsafe {
            for memory in self.memory.into_iter().filter(|memory| *memory != 0) {
                (functions.cuMemFree_v2)(memory);
            }
            if !self.event.is_null() {
                (functions.cuEventDestroy_v2)(self.event);
            }
            if !self.stream.is_null() {
                (functions.cuStreamDestroy_v2)(self.stream);
            }
        }
    }
}
