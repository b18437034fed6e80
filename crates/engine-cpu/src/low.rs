//! AWS-LC's C interface where its safe one has no equivalent: AES-XTS,
//! ChaCha20-Poly1305 without an allocation per key, and bare ChaCha20.
//!
//! All unsafe code of the crate is here. Nothing above can pass a wrong
//! length: they are in the types, or checked here.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use aws_lc_sys as c;
use strongroom_engine::Tag;

/// Which way a [`CipherContext`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Encrypt,
    Decrypt,
}

/// The modes that a [`CipherContext`] works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockMode {
    /// A key of 64 bytes; a tweak before every sector.
    Aes256Xts,
    /// A key of 16 bytes; every block by itself.
    Aes128Ecb,
}

/// An EVP cipher context: a key schedule in one direction, in place, over
/// whole blocks. AWS-LC wipes it when it is freed.
pub(crate) struct CipherContext {
    context: NonNull<c::EVP_CIPHER_CTX>,
    mode: BlockMode,
}

// SAFETY: the context is owned by this value alone, AWS-LC ties it to no
// thread, and every function that changes it takes `&mut self`.
unsafe impl Send for CipherContext {}

impl CipherContext {
    /// # Panics
    /// If the key is not of the mode's length (or, for XTS, has equal halves),
    /// or memory runs out.
    pub(crate) fn new(mode: BlockMode, key: &[u8], direction: Direction) -> CipherContext {
        let key_len = match mode {
            BlockMode::Aes256Xts => 64,
            BlockMode::Aes128Ecb => 16,
        };
        assert_eq!(key.len(), key_len, "the key has the mode's length");
        // SAFETY: both functions take nothing and return a static table.
        let cipher = unsafe {
            match mode {
                BlockMode::Aes256Xts => c::EVP_aes_256_xts(),
                BlockMode::Aes128Ecb => c::EVP_aes_128_ecb(),
            }
        };
        // SAFETY: takes nothing; returns a fresh context or null, checked here.
        let context = NonNull::new(unsafe { c::EVP_CIPHER_CTX_new() }).expect("memory for a key schedule");
        let context = CipherContext { context, mode };
        let encrypt = c_int::from(direction == Direction::Encrypt);
        // SAFETY: the context is live and initialised by `EVP_CIPHER_CTX_new`;
        // `key` has the length that `cipher` reads, by the assertion above; no
        // tweak is set yet (null is allowed), no engine is named.
        let ready = unsafe {
            c::EVP_CipherInit_ex(
                context.context.as_ptr(),
                cipher,
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                encrypt,
            )
        };
        assert_eq!(ready, 1, "AWS-LC takes a key of the right length with different halves");
        context
    }

    /// Sets the tweak of the next sector, before it is encrypted.
    pub(crate) fn set_tweak(&mut self, tweak: &[u8; 16]) {
        assert_eq!(self.mode, BlockMode::Aes256Xts, "only XTS has a tweak");
        // SAFETY: the context is live and holds its cipher and key; null keeps
        // both, and -1 the direction. XTS reads 16 bytes of tweak.
        let ready = unsafe {
            c::EVP_CipherInit_ex(
                self.context.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                tweak.as_ptr(),
                -1,
            )
        };
        assert_eq!(ready, 1, "a tweak is always accepted");
    }

    /// Encrypts or decrypts whole blocks in place.
    pub(crate) fn apply(&mut self, data: &mut [u8]) {
        assert!(data.len().is_multiple_of(16), "whole blocks");
        if data.is_empty() {
            return;
        }
        // SAFETY: the context is live and keyed. Input and output are the same
        // `data.len()` bytes, which both modes allow exactly when the pointers
        // are equal; a multiple of 16 leaves no partial block to be written
        // later.
        let written =
            unsafe { c::EVP_Cipher(self.context.as_ptr(), data.as_mut_ptr(), data.as_ptr(), data.len()) };
        assert!(written > 0, "whole blocks within the limit of XTS");
    }
}

impl Drop for CipherContext {
    fn drop(&mut self) {
        // SAFETY: the context came from `EVP_CIPHER_CTX_new`, is owned by this
        // value and not used afterwards.
        unsafe { c::EVP_CIPHER_CTX_free(self.context.as_ptr()) }
    }
}

/// Encrypts in place with ChaCha20-Poly1305 (RFC 8439).
pub(crate) fn chacha20_poly1305_seal(key: &[u8; 32], nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
    let mut tag = [0; 16];
    let sealed = with_chacha20_poly1305(key, |context| {
        let mut tag_len = 0;
        // SAFETY: `context` is initialised. Input and output are the same
        // `data.len()` bytes, which AWS-LC allows; the tag has room for 16
        // bytes and says so; nonce and associated data are valid for their
        // lengths; there is no extra input (null with length 0 is allowed).
        unsafe {
            c::EVP_AEAD_CTX_seal_scatter(
                context,
                data.as_mut_ptr(),
                tag.as_mut_ptr(),
                &mut tag_len,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                data.as_ptr(),
                data.len(),
                ptr::null(),
                0,
                ad.as_ptr(),
                ad.len(),
            )
        }
    });
    assert_eq!(sealed, 1, "a segment is shorter than the limit of ChaCha20");
    tag
}

/// Checks the tag and decrypts in place; false when it is wrong, and then the
/// data may hold anything.
#[must_use]
pub(crate) fn chacha20_poly1305_open(
    key: &[u8; 32],
    nonce: &[u8; 12],
    ad: &[u8],
    tag: &Tag,
    data: &mut [u8],
) -> bool {
    with_chacha20_poly1305(key, |context| {
        // SAFETY: `context` is initialised. Input and output are the same
        // `data.len()` bytes, which AWS-LC allows; nonce, tag and associated
        // data are valid for their lengths.
        unsafe {
            c::EVP_AEAD_CTX_open_gather(
                context,
                data.as_mut_ptr(),
                nonce.as_ptr(),
                nonce.len(),
                data.as_ptr(),
                data.len(),
                tag.as_ptr(),
                tag.len(),
                ad.as_ptr(),
                ad.len(),
            )
        }
    }) == 1
}

/// Runs `work` with a context on the stack, which is wiped after it.
fn with_chacha20_poly1305(key: &[u8; 32], work: impl FnOnce(*const c::EVP_AEAD_CTX) -> c_int) -> c_int {
    let mut context = MaybeUninit::<c::EVP_AEAD_CTX>::zeroed();
    // SAFETY: `context` is memory of the right size and alignment; the AEAD is
    // a static table; the key has the 32 bytes that it reads.
    let ready = unsafe {
        c::EVP_AEAD_CTX_init(
            context.as_mut_ptr(),
            c::EVP_aead_chacha20_poly1305(),
            key.as_ptr(),
            key.len(),
            size_of::<Tag>(),
            ptr::null_mut(),
        )
    };
    assert_eq!(ready, 1, "AWS-LC takes a key of 32 bytes");
    let answer = work(context.as_ptr());
    // SAFETY: the context was initialised above and is not used again; its
    // bytes are ours to overwrite, all of them, and any pattern is a valid
    // `MaybeUninit`.
    unsafe {
        c::EVP_AEAD_CTX_cleanup(context.as_mut_ptr());
        c::OPENSSL_cleanse(context.as_mut_ptr().cast(), size_of::<c::EVP_AEAD_CTX>());
    }
    answer
}

/// XORs the ChaCha20 keystream that begins at block `counter` onto the data.
pub(crate) fn chacha20_xor(key: &[u8; 32], nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
    // SAFETY: input and output are the same `data.len()` bytes, which AWS-LC
    // allows exactly when the pointers are equal; key and nonce have the 32
    // and 12 bytes that it reads.
    unsafe {
        c::CRYPTO_chacha_20(
            data.as_mut_ptr(),
            data.as_ptr(),
            data.len(),
            key.as_ptr(),
            nonce.as_ptr(),
            counter,
        );
    }
}
