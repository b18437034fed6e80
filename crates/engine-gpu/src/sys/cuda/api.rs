//! The functions of the CUDA driver that are used, found at run time (NVIDIA, "CUDA Driver API"). Names that end with
//! `_v2` are what its header `cuda.h` makes of the name without.

use std::ffi::{c_char, c_void};

use libloading::Library;

/// `CUresult`.
pub(super) type Status = i32;
/// A context, module, function, stream or event.
pub(super) type Handle = *mut c_void;
/// `CUdeviceptr`.
pub(super) type Address = u64;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERROR_NOT_READY: Status = 600;
pub(super) const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
pub(super) const COMPUTE_CAPABILITY_MINOR: i32 = 76;
pub(super) const STREAM_NON_BLOCKING: u32 = 1;
pub(super) const EVENT_DISABLE_TIMING: u32 = 2;
pub(super) const MEMHOSTALLOC_PORTABLE: u32 = 1;

pub(super) type HostFunction = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*);)*) => {
        /// The functions, which live as long as the process: the library is never unloaded.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            /// # Errors
            /// The name of a function that the library does not have.
            pub(super) fn find(library: &'static Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is that of `cuda.h` under this name.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> Status>(name.as_bytes())
                        };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    cuInit: fn(u32);
    cuDriverGetVersion: fn(*mut i32);
    cuDeviceGetCount: fn(*mut i32);
    cuDeviceGet: fn(*mut i32, i32);
    cuDeviceGetName: fn(*mut c_char, i32, i32);
    cuDeviceTotalMem_v2: fn(*mut usize, i32);
    cuDeviceGetAttribute: fn(*mut i32, i32, i32);
    cuDevicePrimaryCtxRetain: fn(*mut Handle, i32);
    cuCtxSetCurrent: fn(Handle);
    cuModuleLoadData: fn(*mut Handle, *const c_void);
    cuModuleGetFunction: fn(*mut Handle, Handle, *const c_char);
    cuMemAlloc_v2: fn(*mut Address, usize);
    cuMemFree_v2: fn(Address);
    cuMemHostAlloc: fn(*mut *mut c_void, usize, u32);
    cuMemFreeHost: fn(*mut c_void);
    cuMemcpyHtoDAsync_v2: fn(Address, *const c_void, usize, Handle);
    cuMemcpyDtoHAsync_v2: fn(*mut c_void, Address, usize, Handle);
    cuMemsetD32Async: fn(Address, u32, usize, Handle);
    cuLaunchKernel: fn(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    cuLaunchHostFunc: fn(Handle, HostFunction, *mut c_void);
    cuStreamCreate: fn(*mut Handle, u32);
    cuStreamDestroy_v2: fn(Handle);
    cuEventCreate: fn(*mut Handle, u32);
    cuEventRecord: fn(Handle, Handle);
    cuEventQuery: fn(Handle);
    cuEventDestroy_v2: fn(Handle);
}
