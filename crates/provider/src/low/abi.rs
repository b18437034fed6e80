//! OpenSSL's types and numbers, from `openssl/core.h` and
//! `openssl/core_dispatch.h` of 3.0, which later versions keep.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

/// `OSSL_DISPATCH`: a function and which it is.
#[repr(C)]
pub(super) struct Dispatch {
    pub(super) id: c_int,
    pub(super) function: *const c_void,
}

/// `OSSL_ALGORITHM`.
#[repr(C)]
pub(super) struct Algorithm {
    pub(super) names: *const c_char,
    pub(super) properties: *const c_char,
    pub(super) implementation: *const Dispatch,
    pub(super) description: *const c_char,
}

/// `OSSL_PARAM`.
#[repr(C)]
pub(super) struct Parameter {
    pub(super) key: *const c_char,
    pub(super) data_type: c_uint,
    pub(super) data: *mut c_void,
    pub(super) data_size: usize,
    pub(super) return_size: usize,
}

/// `OSSL_ITEM`.
#[repr(C)]
pub(super) struct Item {
    pub(super) id: c_uint,
    pub(super) text: *const c_char,
}

/// A table of C's, whose pointers are to static data and functions.
pub(super) struct Table<T, const N: usize>(pub(super) [T; N]);

// SAFETY: nothing in a table changes, and what it points at is static.
unsafe impl<T, const N: usize> Sync for Table<T, N> {}

impl Dispatch {
    pub(super) const END: Dispatch = Dispatch { id: 0, function: ptr::null() };

    pub(super) const fn new(id: c_int, function: *const c_void) -> Dispatch {
        Dispatch { id, function }
    }
}

/// Types of parameters.
pub(super) const INTEGER: c_uint = 1;
pub(super) const UNSIGNED_INTEGER: c_uint = 2;
pub(super) const UTF8_PTR: c_uint = 6;
pub(super) const OCTET_STRING: c_uint = 5;
pub(super) const OCTET_PTR: c_uint = 7;

/// What the core offers.
pub(super) const CORE_NEW_ERROR: c_int = 5;
pub(super) const CORE_SET_ERROR_DEBUG: c_int = 6;
pub(super) const CORE_VSET_ERROR: c_int = 7;

/// What a provider offers.
pub(super) const PROVIDER_TEARDOWN: c_int = 1024;
pub(super) const PROVIDER_GETTABLE_PARAMS: c_int = 1025;
pub(super) const PROVIDER_GET_PARAMS: c_int = 1026;
pub(super) const PROVIDER_QUERY_OPERATION: c_int = 1027;
pub(super) const PROVIDER_GET_REASON_STRINGS: c_int = 1029;

/// The operation of symmetric ciphers.
pub(super) const OPERATION_CIPHER: c_int = 2;

/// What a cipher offers.
pub(super) const CIPHER_NEWCTX: c_int = 1;
pub(super) const CIPHER_ENCRYPT_INIT: c_int = 2;
pub(super) const CIPHER_DECRYPT_INIT: c_int = 3;
pub(super) const CIPHER_UPDATE: c_int = 4;
pub(super) const CIPHER_FINAL: c_int = 5;
pub(super) const CIPHER_CIPHER: c_int = 6;
pub(super) const CIPHER_FREECTX: c_int = 7;
pub(super) const CIPHER_DUPCTX: c_int = 8;
pub(super) const CIPHER_GET_PARAMS: c_int = 9;
pub(super) const CIPHER_GET_CTX_PARAMS: c_int = 10;
pub(super) const CIPHER_SET_CTX_PARAMS: c_int = 11;
pub(super) const CIPHER_GETTABLE_PARAMS: c_int = 12;
pub(super) const CIPHER_GETTABLE_CTX_PARAMS: c_int = 13;
pub(super) const CIPHER_SETTABLE_CTX_PARAMS: c_int = 14;
