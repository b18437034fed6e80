//! The functions of OpenCL 1.2 that are used, found at run time (Khronos, "The OpenCL Specification, Version 1.2").
//! Constants have the names of its header `CL/cl.h`.

use std::ffi::{c_char, c_void};

use libloading::Library;

pub(super) type Status = i32;
/// A platform, device, context, queue, program, kernel, memory object or event.
pub(super) type Handle = *mut c_void;

pub(super) const SUCCESS: Status = 0;
pub(super) const TRUE: u32 = 1;
pub(super) const FALSE: u32 = 0;
pub(super) const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
pub(super) const DEVICE_TYPE_GPU: u64 = 1 << 2;
pub(super) const DEVICE_TYPE: u32 = 0x1000;
pub(super) const DEVICE_GLOBAL_MEM_SIZE: u32 = 0x101f;
pub(super) const DEVICE_ENDIAN_LITTLE: u32 = 0x1026;
pub(super) const DEVICE_AVAILABLE: u32 = 0x1027;
pub(super) const DEVICE_COMPILER_AVAILABLE: u32 = 0x1028;
pub(super) const DEVICE_NAME: u32 = 0x102b;
pub(super) const DRIVER_VERSION: u32 = 0x102d;
pub(super) const PLATFORM_NAME: u32 = 0x0902;
pub(super) const MEM_READ_WRITE: u64 = 1;
pub(super) const MEM_ALLOC_HOST_PTR: u64 = 1 << 4;
pub(super) const MAP_READ_AND_WRITE: u64 = 1 | 2;
pub(super) const PROGRAM_BUILD_LOG: u32 = 0x1183;
pub(super) const EVENT_COMMAND_EXECUTION_STATUS: u32 = 0x11d3;
pub(super) const COMPLETE: Status = 0;

pub(super) type EventCallback = unsafe extern "C" fn(Handle, Status, *mut c_void);
type Callback = *const c_void;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, which live as long as the process: the library is never unloaded.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// # Errors
            /// The name of a function that the library does not have.
            pub(super) fn find(library: &'static Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is that of the specification, section 4 to 5, under this name.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>(name.as_bytes())
                        };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    clGetPlatformIDs: fn(u32, *mut Handle, *mut u32) -> Status;
    clGetPlatformInfo: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clGetDeviceIDs: fn(Handle, u64, u32, *mut Handle, *mut u32) -> Status;
    clGetDeviceInfo: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clCreateContext: fn(*const isize, u32, *const Handle, Callback, *mut c_void, *mut Status) -> Handle;
    clReleaseContext: fn(Handle) -> Status;
    clCreateCommandQueue: fn(Handle, Handle, u64, *mut Status) -> Handle;
    clReleaseCommandQueue: fn(Handle) -> Status;
    clCreateBuffer: fn(Handle, u64, usize, *mut c_void, *mut Status) -> Handle;
    clReleaseMemObject: fn(Handle) -> Status;
    clCreateProgramWithSource: fn(Handle, u32, *const *const c_char, *const usize, *mut Status) -> Handle;
    clBuildProgram: fn(Handle, u32, *const Handle, *const c_char, Callback, *mut c_void) -> Status;
    clGetProgramBuildInfo: fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clReleaseProgram: fn(Handle) -> Status;
    clCreateKernel: fn(Handle, *const c_char, *mut Status) -> Handle;
    clSetKernelArg: fn(Handle, u32, usize, *const c_void) -> Status;
    clReleaseKernel: fn(Handle) -> Status;
    clEnqueueMapBuffer: fn(Handle, Handle, u32, u64, usize, usize, u32, *const Handle, *mut Handle, *mut Status) -> *mut c_void;
    clEnqueueUnmapMemObject: fn(Handle, Handle, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    clEnqueueWriteBuffer: fn(Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> Status;
    clEnqueueReadBuffer: fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    clEnqueueFillBuffer: fn(Handle, Handle, *const c_void, usize, usize, usize, u32, *const Handle, *mut Handle) -> Status;
    clEnqueueNDRangeKernel: fn(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> Status;
    clFlush: fn(Handle) -> Status;
    clGetEventInfo: fn(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    clSetEventCallback: fn(Handle, i32, EventCallback, *mut c_void) -> Status;
    clReleaseEvent: fn(Handle) -> Status;
}
