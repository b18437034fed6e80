//! `OSSL_PARAM`: what is asked and set by name.

use std::ffi::{CStr, c_char, c_uint};
use std::{ptr, slice};

use super::abi::{INTEGER, OCTET_PTR, OCTET_STRING, Parameter, Table, UNSIGNED_INTEGER, UTF8_PTR};
use crate::cipher::{Cipher, Given, Mode, Shape, Value};
use crate::reason::Reason;

impl Parameter {
    const END: Parameter =
        Parameter { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };

    /// One that may be asked or set.
    const fn named(key: &'static CStr, data_type: c_uint) -> Parameter {
        // `OSSL_PARAM_UNMODIFIED`.
        Parameter { key: key.as_ptr(), data_type, return_size: usize::MAX, ..Parameter::END }
    }

    /// Answers with a number.
    ///
    /// # Safety
    /// As OpenSSL hands it in: `data` is null, or has `data_size` writable bytes.
    unsafe fn answer_number(&mut self, number: u64) -> Result<(), Reason> {
        if !matches!(self.data_type, INTEGER | UNSIGNED_INTEGER) {
            return Err(Reason::Parameter);
        }
        self.return_size = if self.data.is_null() { 8 } else { self.data_size };
        // SAFETY: the caller's word; the places need no alignment here.
        unsafe {
            match (self.data.is_null(), self.data_size) {
                (true, _) => {}
                (false, 8) => self.data.cast::<u64>().write_unaligned(number),
                (false, 4) => {
                    let number = u32::try_from(number).map_err(|_| Reason::Parameter)?;
                    self.data.cast::<u32>().write_unaligned(number);
                }
                (false, _) => return Err(Reason::Parameter),
            }
        }
        Ok(())
    }

    /// Answers with bytes, or with where they are.
    ///
    /// # Safety
    /// As above; and `bytes` stay where they are as long as OpenSSL may look.
    unsafe fn answer_bytes(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        self.return_size = bytes.len();
        // SAFETY: the caller's word.
        unsafe {
            match self.data_type {
                OCTET_PTR if self.data.is_null() => {}
                OCTET_PTR => self.data.cast::<*const u8>().write_unaligned(bytes.as_ptr()),
                OCTET_STRING if self.data.is_null() => {}
                OCTET_STRING if self.data_size >= bytes.len() => {
                    ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.cast(), bytes.len());
                }
                _ => return Err(Reason::Parameter),
            }
        }
        Ok(())
    }

    /// Answers with a text that is static.
    ///
    /// # Safety
    /// As above.
    unsafe fn answer_text(&mut self, text: &'static CStr) {
        if self.data_type == UTF8_PTR && !self.data.is_null() {
            // SAFETY: the caller's word.
            unsafe { self.data.cast::<*const c_char>().write_unaligned(text.as_ptr()) };
            self.return_size = text.to_bytes().len();
        }
    }

    /// # Safety
    /// As OpenSSL hands it in: `data` is null, or has `data_size` readable bytes.
    unsafe fn given(&self) -> Given<'_> {
        let is_number = matches!(self.data_type, INTEGER | UNSIGNED_INTEGER) && !self.data.is_null();
        let is_string = self.data_type == OCTET_STRING && isize::try_from(self.data_size).is_ok();
        // SAFETY: the caller's word; places need no alignment here.
        unsafe {
            let number = match self.data_size {
                8 if is_number => Some(self.data.cast::<u64>().read_unaligned()),
                4 if is_number => Some(self.data.cast::<u32>().read_unaligned().into()),
                _ => None,
            };
            let bytes = (is_string && !self.data.is_null())
                .then(|| slice::from_raw_parts(self.data.cast::<u8>().cast_const(), self.data_size));
            Given { number, bytes, len: if is_string { self.data_size } else { usize::MAX } }
        }
    }

    /// # Safety
    /// The key is a text that OpenSSL keeps meanwhile.
    unsafe fn name<'a>(&self) -> &'a [u8] {
        // SAFETY: the caller's word.
        unsafe { CStr::from_ptr(self.key) }.to_bytes()
    }
}

/// Calls `work` for every parameter up to the end of the array, until it fails.
///
/// # Safety
/// `first` is null or begins an array as OpenSSL hands it in.
unsafe fn each(
    first: *mut Parameter,
    mut work: impl FnMut(&[u8], &mut Parameter) -> Result<(), Reason>,
) -> Result<(), Reason> {
    let mut at = first;
    // SAFETY: the caller's word; the array ends with a null key.
    unsafe {
        while !at.is_null() && !(*at).key.is_null() {
            let name = (*at).name();
            work(name, &mut *at)?;
            at = at.add(1);
        }
    }
    Ok(())
}

/// Answers what a context is asked.
///
/// # Safety
/// As [`each`]; the context stays where it is as long as OpenSSL may look.
pub(super) unsafe fn answer<C: Cipher>(cipher: &mut C, first: *mut Parameter) -> Result<(), Reason> {
    // SAFETY: the caller's word.
    unsafe {
        each(first, |name, parameter| match cipher.parameter(name, parameter.data_size)? {
            None => Ok(()),
            Some(Value::Number(number)) => parameter.answer_number(number),
            Some(Value::Bytes(bytes)) => parameter.answer_bytes(bytes),
        })
    }
}

/// Sets what a context is given.
///
/// # Safety
/// As [`each`].
pub(super) unsafe fn set<C: Cipher>(cipher: &mut C, first: *const Parameter) -> Result<(), Reason> {
    // SAFETY: the caller's word; nothing is written.
    unsafe { each(first.cast_mut(), |name, parameter| cipher.set_parameter(name, &parameter.given())) }
}

/// Answers what is asked of a cipher without a context.
///
/// # Safety
/// As [`each`].
pub(super) unsafe fn answer_shape(shape: &Shape, first: *mut Parameter) -> Result<(), Reason> {
    // SAFETY: the caller's word.
    unsafe {
        each(first, |name, parameter| {
            let number = match name {
                b"mode" => shape.mode as u64,
                b"keylen" => shape.key_len as u64,
                b"ivlen" => shape.iv_len as u64,
                b"blocksize" => shape.block_len as u64,
                b"aead" => shape.is_aead.into(),
                b"custom-iv" => shape.has_custom_iv.into(),
                b"cts" | b"tls-multi" | b"has-randkey" => 0,
                _ => return Ok(()),
            };
            parameter.answer_number(number)
        })
    }
}

/// Answers what is asked of the provider.
///
/// # Safety
/// As [`each`].
pub(super) unsafe fn answer_provider(first: *mut Parameter) -> Result<(), Reason> {
    // SAFETY: the caller's word.
    unsafe {
        each(first, |name, parameter| {
            match name {
                b"name" => parameter.answer_text(c"Strongroom"),
                b"version" | b"buildinfo" => parameter.answer_text(VERSION),
                b"status" => return parameter.answer_number(1),
                _ => {}
            }
            Ok(())
        })
    }
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero byte"),
};

const fn number(key: &'static CStr) -> Parameter {
    Parameter::named(key, UNSIGNED_INTEGER)
}

const fn bytes(key: &'static CStr) -> Parameter {
    Parameter::named(key, OCTET_STRING)
}

/// What the provider can be asked.
pub(super) static OF_PROVIDER: Table<Parameter, 5> = Table([
    Parameter::named(c"name", UTF8_PTR),
    Parameter::named(c"version", UTF8_PTR),
    Parameter::named(c"buildinfo", UTF8_PTR),
    Parameter::named(c"status", INTEGER),
    Parameter::END,
]);

/// What a cipher can be asked without a context.
pub(super) static OF_CIPHER: Table<Parameter, 10> = Table([
    number(c"mode"),
    number(c"keylen"),
    number(c"ivlen"),
    number(c"blocksize"),
    Parameter::named(c"aead", INTEGER),
    Parameter::named(c"custom-iv", INTEGER),
    Parameter::named(c"cts", INTEGER),
    Parameter::named(c"tls-multi", INTEGER),
    Parameter::named(c"has-randkey", INTEGER),
    Parameter::END,
]);

static ANSWERED_BY_AEAD: Table<Parameter, 9> = Table([
    number(c"keylen"),
    number(c"ivlen"),
    number(c"taglen"),
    bytes(c"iv"),
    bytes(c"updated-iv"),
    bytes(c"tag"),
    number(c"tlsaadpad"),
    bytes(c"tlsivgen"),
    Parameter::END,
]);

static ANSWERED_BY_OTHERS: Table<Parameter, 8> = Table([
    number(c"keylen"),
    number(c"ivlen"),
    number(c"padding"),
    number(c"num"),
    bytes(c"iv"),
    bytes(c"updated-iv"),
    Parameter::named(c"tls-mac", OCTET_PTR),
    Parameter::END,
]);

static SET_IN_AEAD: Table<Parameter, 7> = Table([
    number(c"keylen"),
    number(c"ivlen"),
    bytes(c"tag"),
    bytes(c"tlsaad"),
    bytes(c"tlsivfixed"),
    bytes(c"tlsivinv"),
    Parameter::END,
]);

static SET_IN_CBC: Table<Parameter, 5> = Table([
    number(c"keylen"),
    number(c"padding"),
    number(c"tls-version"),
    number(c"tls-mac-size"),
    Parameter::END,
]);

static SET_IN_OTHERS: Table<Parameter, 3> = Table([number(c"keylen"), number(c"num"), Parameter::END]);

/// What a context can be asked.
pub(super) fn answered_by(shape: &Shape) -> *const Parameter {
    if shape.is_aead { ANSWERED_BY_AEAD.0.as_ptr() } else { ANSWERED_BY_OTHERS.0.as_ptr() }
}

/// What can be set in a context.
pub(super) fn set_in(shape: &Shape) -> *const Parameter {
    match shape.mode {
        Mode::Gcm | Mode::Stream => SET_IN_AEAD.0.as_ptr(),
        Mode::Cbc => SET_IN_CBC.0.as_ptr(),
        Mode::Ctr | Mode::Xts => SET_IN_OTHERS.0.as_ptr(),
    }
}
