//! A cipher's functions, as OpenSSL calls them.

use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

use super::abi::Parameter;
use super::errors::Errors;
use super::text::Text;
use super::{guarded, parameters};
use crate::cipher::Cipher;
use crate::reason::Reason;

/// What a pointer to a context points at.
struct Context<C> {
    cipher: C,
    /// Of the provider, which OpenSSL keeps as long as it has contexts.
    errors: *const Errors,
    /// A call has panicked: what the cipher holds may be anything.
    is_broken: bool,
}

/// Runs `work` on a context; 1 when it succeeds, else 0 and an error in the
/// queue.
///
/// # Safety
/// `context` is null or of [`newctx`] of the same cipher, and this thread's
/// alone, as OpenSSL has contexts used.
unsafe fn with<C: Cipher>(
    context: *mut c_void,
    operation: &'static CStr,
    work: impl FnOnce(&mut C) -> Result<(), Reason>,
) -> c_int {
    // SAFETY: the caller's word.
    let Some(context) = (unsafe { context.cast::<Context<C>>().as_mut() }) else { return 0 };
    if context.is_broken {
        return raised(context.errors, Reason::Internal, operation);
    }
    context.is_broken = true;
    let done = guarded(None, || Some(work(&mut context.cipher)));
    match done {
        Some(Ok(())) => {
            context.is_broken = false;
            1
        }
        Some(Err(reason)) => {
            context.is_broken = false;
            raised(context.errors, reason, operation)
        }
        None => raised(context.errors, Reason::Internal, operation),
    }
}

#[cold]
fn raised(errors: *const Errors, reason: Reason, operation: &CStr) -> c_int {
    guarded(0, || {
        // SAFETY: the provider outlives its contexts.
        if let Some(errors) = unsafe { errors.as_ref() } {
            errors.raise(reason, operation);
        }
        0
    })
}

/// # Safety
/// `provider` is null or what `OSSL_provider_init` gave OpenSSL.
pub(super) unsafe extern "C" fn newctx<C: Cipher>(provider: *mut c_void) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        let context = Context { cipher: C::new(), errors: provider.cast_const().cast(), is_broken: false };
        Box::into_raw(Box::new(context)).cast()
    })
}

/// # Safety
/// As [`with`]; the context is not used again.
pub(super) unsafe extern "C" fn freectx<C: Cipher>(context: *mut c_void) {
    guarded((), || {
        if !context.is_null() {
            // SAFETY: it was made by `newctx` or `dupctx`, as a box.
            drop(unsafe { Box::from_raw(context.cast::<Context<C>>()) });
        }
    });
}

/// # Safety
/// As [`with`].
pub(super) unsafe extern "C" fn dupctx<C: Cipher>(context: *mut c_void) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's word.
        let Some(context) = (unsafe { context.cast::<Context<C>>().as_ref() }) else {
            return ptr::null_mut();
        };
        if context.is_broken {
            return ptr::null_mut();
        }
        let copy = Context { cipher: context.cipher.clone(), errors: context.errors, is_broken: false };
        Box::into_raw(Box::new(copy)).cast()
    })
}

/// # Safety
/// As [`with`]; key and IV are null, or have so many bytes; the parameters are
/// as OpenSSL hands them in.
unsafe fn init<C: Cipher>(
    context: *mut c_void,
    encrypt: bool,
    [key, iv]: [(*const u8, usize); 2],
    parameters: *const Parameter,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        with::<C>(context, c"init", |cipher| {
            let bytes = |(start, len): (*const u8, usize)| {
                (!start.is_null()).then(|| slice::from_raw_parts(start, len))
            };
            cipher.init(encrypt, bytes(key), bytes(iv))?;
            parameters::set(cipher, parameters)
        })
    }
}

/// # Safety
/// As [`init`].
pub(super) unsafe extern "C" fn encrypt_init<C: Cipher>(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    parameters: *const Parameter,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { init::<C>(context, true, [(key, key_len), (iv, iv_len)], parameters) }
}

/// # Safety
/// As [`init`].
pub(super) unsafe extern "C" fn decrypt_init<C: Cipher>(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    parameters: *const Parameter,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { init::<C>(context, false, [(key, key_len), (iv, iv_len)], parameters) }
}

/// # Safety
/// As [`with`]; `len` bytes are readable at `input`, `room` writable at
/// `output` if it is not null, and a length at `output_len`.
pub(super) unsafe extern "C" fn update<C: Cipher>(
    context: *mut c_void,
    output: *mut u8,
    output_len: *mut usize,
    room: usize,
    input: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        *output_len = 0;
        if len == 0 {
            return 1;
        }
        with::<C>(context, c"update", |cipher| {
            *output_len = cipher.update(Text::new(input, len, output, room))?;
            Ok(())
        })
    }
}

/// # Safety
/// As [`update`].
pub(super) unsafe extern "C" fn finish<C: Cipher>(
    context: *mut c_void,
    output: *mut u8,
    output_len: *mut usize,
    room: usize,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        *output_len = 0;
        with::<C>(context, c"final", |cipher| {
            let room = if output.is_null() { 0 } else { room };
            let place = if room == 0 { ptr::NonNull::dangling().as_ptr() } else { output };
            *output_len = cipher.finish(slice::from_raw_parts_mut(place, room))?;
            Ok(())
        })
    }
}

/// `EVP_Cipher`.
///
/// # Safety
/// As [`update`]; no input asks for the end.
pub(super) unsafe extern "C" fn raw<C: Cipher>(
    context: *mut c_void,
    output: *mut u8,
    output_len: *mut usize,
    room: usize,
    input: *const u8,
    len: usize,
) -> c_int {
    if input.is_null() {
        // SAFETY: the caller's word.
        return unsafe { finish::<C>(context, output, output_len, room) };
    }
    // SAFETY: the caller's word.
    unsafe {
        *output_len = 0;
        with::<C>(context, c"cipher", |cipher| {
            let text = || Text::new(input, len, output, room);
            let done = cipher.raw(text()).unwrap_or_else(|| cipher.update(text()));
            *output_len = done?;
            Ok(())
        })
    }
}

/// # Safety
/// The parameters are as OpenSSL hands them in.
pub(super) unsafe extern "C" fn get_params<C: Cipher>(parameters: *mut Parameter) -> c_int {
    // SAFETY: the caller's word.
    guarded(0, || unsafe { parameters::answer_shape(&C::SHAPE, parameters) }.is_ok().into())
}

/// # Safety
/// As [`with`] and [`get_params`].
pub(super) unsafe extern "C" fn get_ctx_params<C: Cipher>(
    context: *mut c_void,
    parameters: *mut Parameter,
) -> c_int {
    // SAFETY: the caller's word; the context is in a box, which does not move.
    unsafe { with::<C>(context, c"get_ctx_params", |cipher| parameters::answer(cipher, parameters)) }
}

/// # Safety
/// As [`with`] and [`get_params`].
pub(super) unsafe extern "C" fn set_ctx_params<C: Cipher>(
    context: *mut c_void,
    parameters: *const Parameter,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { with::<C>(context, c"set_ctx_params", |cipher| parameters::set(cipher, parameters)) }
}

pub(super) extern "C" fn gettable_params(_provider: *mut c_void) -> *const Parameter {
    parameters::OF_CIPHER.0.as_ptr()
}

pub(super) extern "C" fn gettable_ctx_params<C: Cipher>(
    _context: *mut c_void,
    _provider: *mut c_void,
) -> *const Parameter {
    parameters::answered_by(&C::SHAPE)
}

pub(super) extern "C" fn settable_ctx_params<C: Cipher>(
    _context: *mut c_void,
    _provider: *mut c_void,
) -> *const Parameter {
    parameters::set_in(&C::SHAPE)
}

#[cfg(test)]
mod tests {
    use strongroom_engine_cpu::stream::Kind;

    use super::*;
    use crate::cipher::{Given, Mode, Shape, Value};

    /// Panics when it is given 13 bytes.
    #[derive(Clone)]
    struct Panics;

    impl Cipher for Panics {
        const SHAPE: Shape = Shape {
            names: c"PANICS",
            description: c"",
            kind: Kind::Ctr(16),
            key_len: 16,
            iv_len: 16,
            block_len: 1,
            mode: Mode::Ctr,
            is_aead: false,
            has_custom_iv: false,
        };

        fn new() -> Panics {
            Panics
        }

        fn init(&mut self, _encrypt: bool, _key: Option<&[u8]>, _iv: Option<&[u8]>) -> Result<(), Reason> {
            Ok(())
        }

        fn update(&mut self, text: Text<'_>) -> Result<usize, Reason> {
            assert!(text.len() != 13, "thirteen");
            Ok(text.len())
        }

        fn finish(&mut self, _output: &mut [u8]) -> Result<usize, Reason> {
            Err(Reason::TagMismatch)
        }

        fn parameter(&mut self, _name: &[u8], _wanted: usize) -> Result<Option<Value<'_>>, Reason> {
            Ok(None)
        }

        fn set_parameter(&mut self, _name: &[u8], _given: &Given<'_>) -> Result<(), Reason> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_stays_inside_and_ends_the_context() {
        let (mut data, mut len) = ([0; 64], 0);
        // SAFETY: as OpenSSL would call: one context, buffers of their length.
        unsafe {
            let context = newctx::<Panics>(ptr::null_mut());
            let update = |context, with: usize, len: &mut usize, data: &mut [u8; 64]| {
                let data = data.as_mut_ptr();
                update::<Panics>(context, data, len, 64, data, with)
            };
            assert_eq!((update(context, 12, &mut len, &mut data), len), (1, 12));
            // An error is none.
            assert_eq!(finish::<Panics>(context, data.as_mut_ptr(), &mut len, 64), 0);
            assert_eq!(update(context, 12, &mut len, &mut data), 1);
            let copy = dupctx::<Panics>(context);
            assert_eq!((update(context, 13, &mut len, &mut data), len), (0, 0));
            assert_eq!(update(context, 12, &mut len, &mut data), 0, "what it holds may be anything");
            assert!(dupctx::<Panics>(context).is_null());
            assert_eq!(update(copy, 12, &mut len, &mut data), 1);
            freectx::<Panics>(context);
            freectx::<Panics>(copy);
            freectx::<Panics>(ptr::null_mut());
        }
    }
}
