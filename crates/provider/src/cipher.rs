//! What a cipher of the provider is, without pointers: `low` calls it, one
//! context at a time.

use std::ffi::CStr;

use strongroom_engine_cpu::stream::Kind;

use crate::low::Text;
use crate::reason::Reason;

/// What a parameter is answered with.
pub(crate) enum Value<'a> {
    Number(u64),
    /// Lives in the context until the next call.
    Bytes(&'a [u8]),
}

/// A parameter that is being set.
pub(crate) struct Given<'a> {
    /// Of integers.
    pub(crate) number: Option<u64>,
    /// Of octet strings; none when only a length was given.
    pub(crate) bytes: Option<&'a [u8]>,
    /// Bytes of the octet string.
    pub(crate) len: usize,
}

impl Given<'_> {
    /// The number, where one is needed.
    pub(crate) fn number(&self) -> Result<u64, Reason> {
        self.number.ok_or(Reason::Parameter)
    }

    /// The bytes, where they are needed.
    pub(crate) fn bytes(&self) -> Result<&[u8], Reason> {
        self.bytes.ok_or(Reason::Parameter)
    }
}

/// What OpenSSL asks of a cipher before it has a context.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Every name and object identifier, as OpenSSL's default provider has
    /// them: names that it has for one cipher may not belong to two.
    pub(crate) names: &'static CStr,
    pub(crate) description: &'static CStr,
    /// What has to pass before it is offered.
    pub(crate) kind: Kind,
    pub(crate) key_len: usize,
    pub(crate) iv_len: usize,
    /// 1 for what takes any length.
    pub(crate) block_len: usize,
    pub(crate) mode: Mode,
    pub(crate) is_aead: bool,
    pub(crate) has_custom_iv: bool,
}

/// As `EVP_CIPH_*_MODE` numbers them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    Stream = 0,
    Cbc = 2,
    Ctr = 5,
    Gcm = 6,
    Xts = 0x1_0001,
}

/// A context of one cipher. A clone is another context that goes on alike.
pub(crate) trait Cipher: Clone + 'static {
    const SHAPE: Shape;

    /// Without key and IV.
    fn new() -> Self;

    /// Begins; what is not given stays as it was, if it was given before.
    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason>;

    /// The next piece; the bytes of output.
    fn update(&mut self, text: Text<'_>) -> Result<usize, Reason>;

    /// The end of the message; the bytes of output.
    fn finish(&mut self, output: &mut [u8]) -> Result<usize, Reason>;

    /// `EVP_Cipher`: whole blocks, nothing kept. None where it is as
    /// [`Cipher::update`] and [`Cipher::finish`].
    fn raw(&mut self, _text: Text<'_>) -> Option<Result<usize, Reason>> {
        None
    }

    /// A parameter of the context, of which `wanted` bytes fit; none for one
    /// that it does not have.
    fn parameter(&mut self, name: &[u8], wanted: usize) -> Result<Option<Value<'_>>, Reason>;

    /// Sets a parameter. One that it does not have is left alone, as OpenSSL
    /// would have it.
    fn set_parameter(&mut self, name: &[u8], given: &Given<'_>) -> Result<(), Reason>;
}

/// A key's bytes, when they are as many as they have to be.
pub(crate) fn key_of(key: &[u8], len: usize) -> Result<&[u8], Reason> {
    if key.len() == len { Ok(key) } else { Err(Reason::KeyLength) }
}

/// An IV of 16 bytes.
pub(crate) fn iv_of(iv: &[u8]) -> Result<[u8; 16], Reason> {
    iv.try_into().map_err(|_| Reason::IvLength)
}

/// Sets a key length that cannot be another.
pub(crate) fn fixed_key_len(given: &Given<'_>, len: usize) -> Result<(), Reason> {
    if given.number()? == len as u64 { Ok(()) } else { Err(Reason::KeyLength) }
}

/// Names of the AES ciphers by mode and key length in bits.
macro_rules! by_key_len {
    ($len:expr, $c128:literal, $c192:literal, $c256:literal) => {
        match $len {
            16 => $c128,
            24 => $c192,
            _ => $c256,
        }
    };
}
pub(crate) use by_key_len;
