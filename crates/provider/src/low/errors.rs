//! The way to OpenSSL's error queue.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::abi::{CORE_NEW_ERROR, CORE_SET_ERROR_DEBUG, CORE_VSET_ERROR, Dispatch, Item, Table};
use crate::reason::Reason;

type NewError = unsafe extern "C" fn(*const c_void);
type SetErrorDebug = unsafe extern "C" fn(*const c_void, *const c_char, c_int, *const c_char);
type SetError = unsafe extern "C" fn(*const c_void, c_uint, *const c_char, *mut c_void);

/// Core's functions for errors. Lives as long as the provider is loaded.
pub(super) struct Errors {
    handle: *const c_void,
    new_error: Option<NewError>,
    set_debug: Option<SetErrorDebug>,
    set_error: Option<SetError>,
}

impl Errors {
    /// From the table that the core hands to a provider.
    ///
    /// # Safety
    /// `handle` and `offered` are what OpenSSL called `OSSL_provider_init` with.
    pub(super) unsafe fn find(handle: *const c_void, offered: *const Dispatch) -> Errors {
        let mut errors = Errors { handle, new_error: None, set_debug: None, set_error: None };
        let mut entry = offered;
        // SAFETY: the table ends with an entry of id 0 (the caller's word); each
        // id says which type its function has.
        unsafe {
            while (*entry).id != 0 {
                let function = (*entry).function;
                match (*entry).id {
                    CORE_NEW_ERROR => {
                        errors.new_error = std::mem::transmute::<*const c_void, Option<NewError>>(function);
                    }
                    CORE_SET_ERROR_DEBUG => {
                        errors.set_debug =
                            std::mem::transmute::<*const c_void, Option<SetErrorDebug>>(function);
                    }
                    CORE_VSET_ERROR => {
                        errors.set_error = std::mem::transmute::<*const c_void, Option<SetError>>(function);
                    }
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        errors
    }

    /// Puts an error into the queue.
    pub(super) fn raise(&self, reason: Reason, operation: &CStr) {
        let (Some(new_error), Some(set_error)) = (self.new_error, self.set_error) else { return };
        // C's `va_list`, which is not read where there is no format: a pointer
        // to some words on x86-64 and (the argument being a large structure)
        // on AArch64, where it may be copied.
        let mut no_arguments = [0u64; 8];
        // SAFETY: the core's functions, with its own handle; the texts are
        // static; no format, so that no argument is read.
        unsafe {
            new_error(self.handle);
            if let Some(set_debug) = self.set_debug {
                set_debug(self.handle, c"strongroom-provider".as_ptr(), 0, operation.as_ptr());
            }
            set_error(self.handle, reason as c_uint, ptr::null(), no_arguments.as_mut_ptr().cast());
        }
    }
}

/// Every reason in words, for the queue's readers.
pub(super) static REASONS: Table<Item, { Reason::ALL.len() + 1 }> = {
    let mut items = [const { Item { id: 0, text: ptr::null() } }; Reason::ALL.len() + 1];
    let mut at = 0;
    while at < Reason::ALL.len() {
        let reason = Reason::ALL[at];
        items[at] = Item { id: reason as c_uint, text: reason.words().as_ptr() };
        at += 1;
    }
    Table(items)
};
