//! A queue of OpenCL with its memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::api::{self, Handle, SUCCESS, Status};
use super::{Context, check};
use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::platform::{Lane, Signal};
use crate::sys::commands::{self, Argument, Commands, Entry, GROUP, Region};
use crate::sys::in_flight::InFlight;
use crate::sys::pinned::Block;

pub(super) struct OpenClLane {
    queue: Queue,
    in_flight: InFlight,
    signal: Arc<Signal>,
}

struct Queue {
    context: Arc<Context>,
    queue: Handle,
    /// Device memory by region; null where there is none yet.
    memory: [Handle; Region::ALL.len()],
    /// Of this lane alone, since their arguments are set for each launch.
    kernels: HashMap<(Cipher, Entry), Handle>,
    /// Every command's event of the launch in flight, the last one last.
    events: Vec<Handle>,
}

// SAFETY: handles may be used by any thread, and a lane is used by one at a time.
unsafe impl Send for Queue {}

/// Runs on a thread of the driver when the last command has ended, well or not.
unsafe extern "C" fn raise(_event: Handle, _status: Status, signal: *mut c_void) {
    // SAFETY: `Queue::tell` made the pointer by `Arc::into_raw`, for this one call.
    unsafe { Arc::from_raw(signal.cast::<Signal>()) }.raise();
}

impl OpenClLane {
    pub(super) fn new(context: Arc<Context>) -> Result<OpenClLane, Failure> {
        let queue = context.queue()?;
        // Where one fails, dropping the queue releases those before.
        let mut queue = Queue {
            context,
            queue,
            memory: [null_mut(); Region::ALL.len()],
            kernels: HashMap::new(),
            events: Vec::new(),
        };
        for region in Region::ALL {
            queue.memory[region as usize] = queue.context.buffer(api::MEM_READ_WRITE, region.len())?;
            queue.wipe(region, region.len())?;
        }
        queue.release_events();
        Ok(OpenClLane { queue, in_flight: InFlight::default(), signal: Arc::default() })
    }
}

impl Queue {
    fn queue(&mut self, plan: &Plan, block: &mut Block, signal: &Arc<Signal>) -> Result<(), Failure> {
        commands::queue(self, plan, block)?;
        self.tell(signal)
    }

    fn memory(&self, region: Region) -> Handle {
        self.memory[region as usize]
    }

    fn kernel(&mut self, cipher: Cipher, entry: Entry) -> Result<Handle, Failure> {
        if let Some(kernel) = self.kernels.get(&(cipher, entry)) {
            return Ok(*kernel);
        }
        let program = self.context.program(cipher)?;
        let kernel = self.context.kernel(program, &commands::kernel_name(cipher, entry))?;
        self.kernels.insert((cipher, entry), kernel);
        Ok(kernel)
    }

    /// Notes a command's event.
    fn queued(&mut self, call: &'static str, status: Status, event: Handle) -> Result<(), Failure> {
        check(call, status)?;
        self.events.push(event);
        Ok(())
    }

    /// Has the signal raised when all that is queued has ended, and hands it to the device.
    fn tell(&self, signal: &Arc<Signal>) -> Result<(), Failure> {
        let functions = self.context.functions;
        if let Some(&last) = self.events.last() {
            let signal = Arc::into_raw(Arc::clone(signal)).cast_mut().cast();
            // SAFETY: `raise` has the type of a callback and takes `signal` once, whatever thread it runs on.
            let status = unsafe { (functions.clSetEventCallback)(last, api::COMPLETE, raise, signal) };
            if status != SUCCESS {
                // SAFETY: the callback was not registered, so that the pointer is ours still.
                drop(unsafe { Arc::from_raw(signal.cast::<Signal>()) });
                check("clSetEventCallback", status)?;
            }
        }
        // SAFETY: the queue is this lane's.
        check("clFlush", unsafe { (functions.clFlush)(self.queue) })
    }

    /// How far a command is: 0 when it has ended; an error when it failed.
    fn status_of(&self, event: Handle) -> Result<Status, Failure> {
        let mut status: Status = 0;
        // SAFETY: the property has four bytes.
        let answer = unsafe {
            (self.context.functions.clGetEventInfo)(
                event,
                api::EVENT_COMMAND_EXECUTION_STATUS,
                4,
                (&raw mut status).cast(),
                null_mut(),
            )
        };
        check("clGetEventInfo", answer)?;
        check("a command", status.min(0))?;
        Ok(status)
    }

    /// Whether all that was queued has ended, and well.
    fn has_ended(&self) -> Result<bool, Failure> {
        let Some(&last) = self.events.last() else { return Ok(true) };
        if self.status_of(last)? != api::COMPLETE {
            return Ok(false);
        }
        // The queue is in order, so that all have ended; one of them may have failed.
        self.events.iter().try_for_each(|&event| self.status_of(event).map(drop))?;
        Ok(true)
    }

    fn release_events(&mut self) {
        for event in self.events.drain(..) {
            // SAFETY: the event was created by a command of this lane and is used no more.
            unsafe { (self.context.functions.clReleaseEvent)(event) };
        }
    }

    #[cfg(test)]
    fn read_now(&self, region: Region, bytes: &mut [u8]) -> Result<(), Failure> {
        // SAFETY: the region has at least so many bytes, for which there is room; the call blocks until they are here.
        let status = unsafe {
            (self.context.functions.clEnqueueReadBuffer)(
                self.queue,
                self.memory(region),
                api::TRUE,
                0,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        };
        check("clEnqueueReadBuffer", status)
    }
}

impl Commands for Queue {
    fn upload(&mut self, to: Region, bytes: &[u8]) -> Result<(), Failure> {
        let mut event = null_mut();
        // SAFETY: the region has room for them; the bytes stay as `Commands` asks.
        let status = unsafe {
            (self.context.functions.clEnqueueWriteBuffer)(
                self.queue,
                self.memory(to),
                api::FALSE,
                0,
                bytes.len(),
                bytes.as_ptr().cast(),
                0,
                null(),
                &mut event,
            )
        };
        self.queued("clEnqueueWriteBuffer", status, event)
    }

    fn download(&mut self, from: Region, bytes: &mut [u8]) -> Result<(), Failure> {
        let mut event = null_mut();
        // SAFETY: as in `upload`; nobody looks at them meanwhile, since the lane owns their block.
        let status = unsafe {
            (self.context.functions.clEnqueueReadBuffer)(
                self.queue,
                self.memory(from),
                api::FALSE,
                0,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                0,
                null(),
                &mut event,
            )
        };
        self.queued("clEnqueueReadBuffer", status, event)
    }

    fn wipe(&mut self, region: Region, len: usize) -> Result<(), Failure> {
        let (zero, mut event) = (0u32, null_mut());
        // SAFETY: the pattern has four bytes and is copied; `len` is a multiple of four within the region.
        let status = unsafe {
            (self.context.functions.clEnqueueFillBuffer)(
                self.queue,
                self.memory(region),
                (&raw const zero).cast(),
                4,
                0,
                len,
                0,
                null(),
                &mut event,
            )
        };
        self.queued("clEnqueueFillBuffer", status, event)
    }

    fn run(
        &mut self,
        cipher: Cipher,
        entry: Entry,
        arguments: &[Argument],
        work_items: u32,
    ) -> Result<(), Failure> {
        let kernel = self.kernel(cipher, entry)?;
        for (place, argument) in (0..).zip(arguments) {
            let (buffer, number);
            let (len, value): (usize, *const c_void) = match *argument {
                Argument::Region(region) => {
                    buffer = self.memory(region);
                    (size_of::<Handle>(), (&raw const buffer).cast())
                }
                Argument::Number(value) => {
                    number = value;
                    (size_of::<u32>(), (&raw const number).cast())
                }
            };
            // SAFETY: the kernel belongs to this lane; the value has the length of its type and is copied.
            let status = unsafe { (self.context.functions.clSetKernelArg)(kernel, place, len, value) };
            check("clSetKernelArg", status)?;
        }
        let (items, group) = ((work_items as usize).next_multiple_of(GROUP), GROUP);
        let mut event = null_mut();
        // SAFETY: one dimension; all arguments are set.
        let status = unsafe {
            (self.context.functions.clEnqueueNDRangeKernel)(
                self.queue,
                kernel,
                1,
                null(),
                &items,
                &group,
                0,
                null(),
                &mut event,
            )
        };
        self.queued("clEnqueueNDRangeKernel", status, event)
    }
}

impl Lane for OpenClLane {
    fn launch(&mut self, plan: &Plan, block: Block) -> Result<(), Failure> {
        self.in_flight.begin(block, |block| self.queue.queue(plan, block, &self.signal))
    }

    fn poll(&mut self) -> Result<Option<Block>, Failure> {
        let ended = self.in_flight.end(self.queue.has_ended())?;
        if ended.is_some() {
            self.queue.release_events();
        }
        Ok(ended)
    }

    fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    #[cfg(test)]
    fn remains(&mut self) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        for region in Region::ALL {
            let start = all.len();
            all.resize(start + region.len(), 0);
            self.queue.read_now(region, &mut all[start..])?;
        }
        Ok(all)
    }
}

impl Drop for OpenClLane {
    fn drop(&mut self) {
        if self.in_flight.is_left_behind() {
            // Queue and context stay too.
            std::mem::forget(Arc::clone(&self.queue.context));
            self.queue.memory = [null_mut(); Region::ALL.len()];
            self.queue.kernels.clear();
            self.queue.events.clear();
            self.queue.queue = null_mut();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.release_events();
        let functions = self.context.functions;
        for kernel in self.kernels.values() {
            // SAFETY: the kernel was created by this lane and is used no more.
            unsafe { (functions.clReleaseKernel)(*kernel) };
        }
        for memory in self.memory.iter().filter(|memory| !memory.is_null()) {
            // SAFETY: as for kernels.
            unsafe { (functions.clReleaseMemObject)(*memory) };
        }
        if !self.queue.is_null() {
            // SAFETY: as for kernels.
            unsafe { (functions.clReleaseCommandQueue)(self.queue) };
        }
    }
}
