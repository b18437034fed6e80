//! `strongroom-provider.so`: the ciphers of the engines as a provider of
//! OpenSSL 3, so that programs which use OpenSSL are served by configuration
//! alone (docs/provider.md).
//!
//! OpenSSL calls `low`'s tables; these call a `cipher::Cipher`, which keeps
//! the semantics of EVP (streaming, IVs, tags, padding, TLS records) and
//! computes with `strongroom_engine_cpu::stream`. What this crate does not do:
//! digests, key exchange, random numbers. OpenSSL takes these from its default
//! provider, as it takes there the ciphers that are not here.
//!
//! Invariants, since this runs in processes that are not ours: no panic leaves
//! an entry point, and a context in which one happened computes no more; no
//! thread is started, no signal handled, no file opened, and no memory locked;
//! memory is ordinary, so that forked children go on with inherited contexts;
//! libcrypto is not linked: it may be another one in every program.
#![deny(unsafe_code)]

mod cbc;
mod chacha;
mod cipher;
mod ctr;
mod gcm;
mod low;
mod reason;
mod record;
mod tls_cbc;
mod xts;
