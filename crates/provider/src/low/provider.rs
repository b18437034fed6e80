//! What OpenSSL finds when it loads the library.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::abi::{
    Algorithm, Dispatch, Item, OPERATION_CIPHER, PROVIDER_GET_PARAMS, PROVIDER_GET_REASON_STRINGS,
    PROVIDER_GETTABLE_PARAMS, PROVIDER_QUERY_OPERATION, PROVIDER_TEARDOWN, Parameter, Table,
};
use super::errors::{Errors, REASONS};
use super::{guarded, parameters, table};

static PROVIDER: Table<Dispatch, 6> = Table([
    Dispatch::new(PROVIDER_TEARDOWN, teardown as *const c_void),
    Dispatch::new(PROVIDER_GETTABLE_PARAMS, gettable_params as *const c_void),
    Dispatch::new(PROVIDER_GET_PARAMS, get_params as *const c_void),
    Dispatch::new(PROVIDER_QUERY_OPERATION, query_operation as *const c_void),
    Dispatch::new(PROVIDER_GET_REASON_STRINGS, reason_strings as *const c_void),
    Dispatch::END,
]);

/// The one function that OpenSSL looks up by its name.
///
/// # Safety
/// OpenSSL calls it as provider-base(7) says.
#[unsafe(no_mangle)]
unsafe extern "C" fn OSSL_provider_init(
    handle: *const c_void,
    offered: *const Dispatch,
    provided: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    guarded(0, || {
        // Panics are caught, and the error queue tells of them; this program's
        // standard error is not ours. The hook is that of this library, which
        // has the standard library to itself.
        std::panic::set_hook(Box::new(|_| {}));
        // SAFETY: the caller's word.
        unsafe {
            let errors = Errors::find(handle, offered);
            *provided = PROVIDER.0.as_ptr();
            *context = Box::into_raw(Box::new(errors)).cast();
        }
        1
    })
}

/// # Safety
/// `context` is what [`OSSL_provider_init`] made, and not used again.
unsafe extern "C" fn teardown(context: *mut c_void) {
    guarded((), || {
        if !context.is_null() {
            // SAFETY: the caller's word.
            drop(unsafe { Box::from_raw(context.cast::<Errors>()) });
        }
    });
}

extern "C" fn gettable_params(_context: *mut c_void) -> *const Parameter {
    parameters::OF_PROVIDER.0.as_ptr()
}

/// # Safety
/// The parameters are as OpenSSL hands them in.
unsafe extern "C" fn get_params(_context: *mut c_void, parameters: *mut Parameter) -> c_int {
    // SAFETY: the caller's word.
    guarded(0, || unsafe { parameters::answer_provider(parameters) }.is_ok().into())
}

/// # Safety
/// A number is writable at `no_cache`.
unsafe extern "C" fn query_operation(
    _context: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const Algorithm {
    guarded(ptr::null(), || {
        // SAFETY: the caller's word.
        unsafe { *no_cache = 0 };
        if operation == OPERATION_CIPHER { table::algorithms() } else { ptr::null() }
    })
}

extern "C" fn reason_strings(_context: *mut c_void) -> *const Item {
    REASONS.0.as_ptr()
}
