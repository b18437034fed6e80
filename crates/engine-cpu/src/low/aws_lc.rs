//! AWS-LC's C interface where its safe one has no equivalent:
//! ChaCha20-Poly1305 without an allocation per key, bare ChaCha20, and a hash
//! and a derivation of keys that are wiped.
//!
//! Nothing above can pass a wrong length: they are in the types, or checked
//! here.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use aws_lc_sys as c;
use strongroom_engine::Tag;
use strongroom_memory::foreign;
use zeroize::Zeroizing;

/// Has AWS-LC allocate in locked memory. Its contexts are small; the data it
/// works on is never its own. What it had before stays where it is, and is lost
/// when it is freed. False when it was called before, or AWS-LC is
/// configured by other means.
pub(crate) fn allocate_in_locked_memory() -> bool {
    unsafe extern "C" fn allocate(size: usize, _file: *const c_char, _line: c_int) -> *mut c_void {
        foreign::allocate(size)
    }
    unsafe extern "C" fn reallocate(
        block: *mut c_void,
        size: usize,
        _file: *const c_char,
        _line: c_int,
    ) -> *mut c_void {
        // SAFETY: AWS-LC gives back what it was given by these functions.
        unsafe { foreign::reallocate(block, size) }
    }
    unsafe extern "C" fn release(block: *mut c_void, _file: *const c_char, _line: c_int) {
        // SAFETY: as above.
        unsafe { foreign::release(block) }
    }
    // SAFETY: the three belong together, and behave as `malloc`, `realloc` and
    // `free`; blocks from before they leave alone.
    unsafe { c::CRYPTO_set_mem_functions(Some(allocate), Some(reallocate), Some(release)) == 1 }
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

/// SHA-256 (FIPS 180-4), wiped when dropped.
pub(crate) fn sha256(bytes: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut hash = Zeroizing::new([0; 32]);
    // SAFETY: reads the bytes of the slice and writes the 32 of `hash`.
    unsafe { c::SHA256(bytes.as_ptr(), bytes.len(), hash.as_mut_ptr()) };
    hash
}

/// What HKDF-SHA256 (RFC 5869) expands keys from, wiped when dropped.
pub(crate) struct HkdfKey(Zeroizing<[u8; 32]>);

/// Most bytes of an `info` here.
const INFO_MAX: usize = 64;

impl HkdfKey {
    /// HKDF-Extract without salt.
    pub(crate) fn extract(secret: &[u8; 32]) -> HkdfKey {
        let mut key = Zeroizing::new([0; 32]);
        let mut len = key.len();
        // SAFETY: `key` has room for a hash of SHA-256, whose length is
        // written to `len`; the secret has 32 bytes; no salt (null with length
        // 0) is allowed; the digest is a static table.
        let made = unsafe {
            c::HKDF_extract(
                key.as_mut_ptr(),
                &mut len,
                c::EVP_sha256(),
                secret.as_ptr(),
                secret.len(),
                ptr::null(),
                0,
            )
        };
        assert_eq!((made, len), (1, 32), "AWS-LC has SHA-256");
        HkdfKey(key)
    }

    /// HKDF-Expand, `info` being the parts one after the other.
    ///
    /// # Panics
    /// When the parts are longer than [`INFO_MAX`].
    pub(crate) fn expand(&self, info: &[&[u8]], key: &mut [u8]) {
        let mut joined = [0; INFO_MAX];
        let mut end = 0;
        for part in info {
            joined[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        // SAFETY: `key` is written and the 32 bytes of the extracted key and
        // the first `end` of `joined` are read.
        let made = unsafe {
            c::HKDF_expand(
                key.as_mut_ptr(),
                key.len(),
                c::EVP_sha256(),
                self.0.as_ptr(),
                self.0.len(),
                joined.as_ptr(),
                end,
            )
        };
        assert_eq!(made, 1, "a key is shorter than what HKDF can give");
    }
}
