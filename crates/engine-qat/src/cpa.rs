//! What crosses QATlib's C interface: types, structures and constants of its
//! headers `cpa.h`, `cpa_cy_sym.h` and `cpa_cy_sym_dp.h` (Intel, "QuickAssist
//! Technology Cryptographic API", version 3). A test compares them with the
//! headers, where these are installed.
//!
//! Public for what plays the library in tests.

use std::ffi::c_void;

pub use crate::sys::{Callback, Translate};

/// `CpaStatus`.
pub type Status = i32;
/// `CpaBoolean`, an enumeration.
pub type Boolean = u32;
/// `CpaInstanceHandle`.
pub type Handle = *mut c_void;
/// `CpaCySymDpSessionCtx`: where a session is, in memory that the device reaches.
pub type SessionContext = *mut c_void;
/// `CpaPhysicalAddr`: where the device sees something.
pub type Address = u64;

/// `CPA_FALSE` and `CPA_TRUE`.
pub const FALSE: Boolean = 0;
/// See [`FALSE`].
pub const TRUE: Boolean = 1;

/// Values of [`Status`]: `CPA_STATUS_…`.
#[allow(missing_docs)]
pub mod status {
    use super::Status;

    pub const SUCCESS: Status = 0;
    pub const FAIL: Status = -1;
    pub const RETRY: Status = -2;
    pub const RESOURCE: Status = -3;
    pub const INVALID_PARAM: Status = -4;
    pub const FATAL: Status = -5;
    pub const UNSUPPORTED: Status = -6;
    pub const RESTARTING: Status = -7;
}

/// `CPA_CY_PRIORITY_HIGH`: the ring that the data plane's polling looks at.
pub const PRIORITY_HIGH: u32 = 2;

/// `CpaCySymOp`: `CPA_CY_SYM_OP_…`.
#[allow(missing_docs)]
pub mod operation {
    pub const CIPHER: u32 = 1;
    pub const ALGORITHM_CHAINING: u32 = 3;
}

/// `CpaCySymCipherAlgorithm`: `CPA_CY_SYM_CIPHER_…`.
#[allow(missing_docs)]
pub mod cipher {
    pub const AES_CBC: u32 = 4;
    pub const AES_CTR: u32 = 5;
    pub const AES_GCM: u32 = 7;
    pub const AES_XTS: u32 = 16;
}

/// `CpaCySymCipherDirection`: `CPA_CY_SYM_CIPHER_DIRECTION_…`.
#[allow(missing_docs)]
pub mod direction {
    pub const ENCRYPT: u32 = 1;
    pub const DECRYPT: u32 = 2;
}

/// `CPA_CY_SYM_HASH_AES_GCM`.
pub const HASH_AES_GCM: u32 = 9;
/// `CPA_CY_SYM_HASH_MODE_AUTH`.
pub const HASH_MODE_AUTH: u32 = 2;
/// `CPA_CY_SYM_ALG_CHAIN_ORDER_CIPHER_THEN_HASH`.
pub const CIPHER_THEN_HASH: u32 = 2;

/// `CpaCySymCipherSetupData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CipherSetup {
    pub algorithm: u32,
    pub key_len: u32,
    pub key: *mut u8,
    pub direction: u32,
}

/// `CpaCySymHashAuthModeSetupData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct AuthSetup {
    pub key: *mut u8,
    pub key_len: u32,
    pub ad_len: u32,
}

/// `CpaCySymHashNestedModeSetupData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct NestedSetup {
    pub inner: *mut u8,
    pub inner_len: u32,
    pub outer_algorithm: u32,
    pub outer: *mut u8,
    pub outer_len: u32,
}

/// `CpaCySymHashSetupData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct HashSetup {
    pub algorithm: u32,
    pub mode: u32,
    pub digest_len: u32,
    pub auth: AuthSetup,
    pub nested: NestedSetup,
}

/// `CpaCySymSessionSetupData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SessionSetup {
    pub priority: u32,
    pub operation: u32,
    pub cipher: CipherSetup,
    pub hash: HashSetup,
    pub chain_order: u32,
    pub digest_is_appended: Boolean,
    pub verify_digest: Boolean,
    pub partials_not_required: Boolean,
}

/// `CpaCySymDpOpData`: a request, in memory that the device reaches.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct OpData {
    pub reserved0: u64,
    pub crypto_start: u32,
    pub crypto_len: u32,
    pub iv: Address,
    pub reserved1: u64,
    pub hash_start: u32,
    pub hash_len: u32,
    pub ad: Address,
    pub digest: Address,
    pub instance: Handle,
    pub session: SessionContext,
    pub iv_len: u32,
    pub source: Address,
    pub source_len: u32,
    pub target: Address,
    pub target_len: u32,
    pub this: Address,
    pub iv_here: *mut u8,
    pub ad_here: *mut u8,
    pub tag: *mut c_void,
}
