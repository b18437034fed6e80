//! Why a call failed, as OpenSSL's error queue names it.

use std::ffi::CStr;

/// The words are those of OpenSSL's own provider, for programs that look at
/// them; the numbers are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Reason {
    KeyLength = 1,
    IvLength,
    NoKey,
    NoIv,
    OutputTooSmall,
    NotInPlace,
    WrongFinalBlockLength,
    BadDecrypt,
    TagMismatch,
    Tag,
    TagNotSet,
    DataLength,
    DuplicatedKeys,
    Parameter,
    TooManyRecords,
    Entropy,
    Internal,
}

impl Reason {
    pub(crate) const ALL: [Reason; 17] = [
        Reason::KeyLength,
        Reason::IvLength,
        Reason::NoKey,
        Reason::NoIv,
        Reason::OutputTooSmall,
        Reason::NotInPlace,
        Reason::WrongFinalBlockLength,
        Reason::BadDecrypt,
        Reason::TagMismatch,
        Reason::Tag,
        Reason::TagNotSet,
        Reason::DataLength,
        Reason::DuplicatedKeys,
        Reason::Parameter,
        Reason::TooManyRecords,
        Reason::Entropy,
        Reason::Internal,
    ];

    pub(crate) const fn words(self) -> &'static CStr {
        match self {
            Reason::KeyLength => c"invalid key length",
            Reason::IvLength => c"invalid iv length",
            Reason::NoKey => c"no key set",
            Reason::NoIv => c"no iv set, or the iv was used",
            Reason::OutputTooSmall => c"output buffer too small",
            Reason::NotInPlace => c"a tls record is processed in place",
            Reason::WrongFinalBlockLength => c"wrong final block length",
            Reason::BadDecrypt => c"bad decrypt",
            Reason::TagMismatch => c"the tag is wrong",
            Reason::Tag => c"invalid tag",
            Reason::TagNotSet => c"tag not set",
            Reason::DataLength => c"invalid data length",
            Reason::DuplicatedKeys => c"xts duplicated keys",
            Reason::Parameter => c"invalid parameter",
            Reason::TooManyRecords => c"too many records",
            Reason::Entropy => c"the system gives no random bytes",
            Reason::Internal => c"internal error",
        }
    }
}
