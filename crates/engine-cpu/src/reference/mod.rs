//! The reference engine: every algorithm straight from its specification, or
//! from RustCrypto where this crate's fast path uses own code. It shares no
//! cipher code with [`crate::CpuEngine`], and is slow.

mod aegis256x;
mod block;
mod counter_poly1305;
mod gcm;
mod sectors;
mod short_nonce;
mod xaes;
mod xchacha;

use std::sync::Arc;

use strongroom_engine::{
    Aead, Algorithm, Batch, Buffer, Capability, Cross, Engine, Masking, Operation, Refusal, Refused, Session,
    SessionError, Ticket,
};
use strongroom_memory::{in_wiped_frames, in_wiped_stack};

use crate::engine::{BATCH_BYTES_MAX, SEGMENTS_MAX, check};
use crate::process;

/// The slow engine, by the book. Inline.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceEngine;

enum Cipher {
    Xaes(Box<xaes::Xaes>),
    XChaCha(xchacha::XChaCha),
    AegisX2(aegis256x::Aegis<2>),
    AegisX4(aegis256x::Aegis<4>),
    AesGcm(Box<short_nonce::AesGcm>),
    ChaCha(short_nonce::ChaCha),
    CounterPoly1305(counter_poly1305::CounterPoly1305),
    Sectors(sectors::Sectors),
}

impl Cipher {
    fn new(algorithm: Algorithm, key: &[u8]) -> Result<Cipher, SessionError> {
        let aead_key = || <&[u8; 32]>::try_from(key).map_err(|_| SessionError::KeyLength);
        Ok(match algorithm {
            Algorithm::Aead(Aead::XAes256Gcm) => Cipher::Xaes(Box::new(xaes::Xaes::new(aead_key()?))),
            Algorithm::Aead(Aead::XChaCha20Poly1305) => Cipher::XChaCha(xchacha::XChaCha::new(aead_key()?)),
            Algorithm::Aead(Aead::Aegis256X2) => Cipher::AegisX2(aegis256x::Aegis::new(aead_key()?)),
            Algorithm::Aead(Aead::Aegis256X4) => Cipher::AegisX4(aegis256x::Aegis::new(aead_key()?)),
            Algorithm::Aead(Aead::Aes256Gcm) => {
                Cipher::AesGcm(Box::new(short_nonce::AesGcm(gcm::Gcm::new(aead_key()?))))
            }
            Algorithm::Aead(Aead::ChaCha20Poly1305) => Cipher::ChaCha(short_nonce::ChaCha::new(aead_key()?)),
            Algorithm::Aead(Aead::Serpent256Poly1305) => {
                Cipher::CounterPoly1305(counter_poly1305::CounterPoly1305::serpent(aead_key()?))
            }
            Algorithm::Aead(Aead::Cascade) => {
                Cipher::CounterPoly1305(counter_poly1305::CounterPoly1305::cascade(aead_key()?))
            }
            Algorithm::Sector(sector) => {
                Cipher::Sectors(sectors::Sectors::new(sector, key).ok_or(SessionError::KeyLength)?)
            }
        })
    }
}

impl Engine for ReferenceEngine {
    fn name(&self) -> &str {
        "reference"
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        algorithm.has(operation).then_some(Capability {
            inline: true,
            batch_bytes_max: BATCH_BYTES_MAX,
            segments_max: SEGMENTS_MAX,
            queue_max: usize::MAX,
            alignment: 1,
            latency_ns: 100_000,
            bytes_per_second: 10_000_000,
            takes_masks: false,
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        in_wiped_stack(|| Ok(Session::new(algorithm, Arc::new(Cipher::new(algorithm, key)?))))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let Some(cipher) = session.state::<Cipher>() else {
            let refusal = Refusal::Misuse("the session belongs to another engine");
            return Err(Box::new(Refused { batch, refusal }));
        };
        if let Err(refusal) = check(session.algorithm(), &batch) {
            return Err(Box::new(Refused { batch, refusal }));
        }
        Ok(Ticket::ready(in_wiped_frames(|| match cipher {
            Cipher::Xaes(cipher) => process::aead(&**cipher, batch),
            Cipher::XChaCha(cipher) => process::aead(cipher, batch),
            Cipher::AegisX2(cipher) => process::aead(cipher, batch),
            Cipher::AegisX4(cipher) => process::aead(cipher, batch),
            Cipher::AesGcm(cipher) => process::aead(&**cipher, batch),
            Cipher::ChaCha(cipher) => process::aead(cipher, batch),
            Cipher::CounterPoly1305(cipher) => process::aead(cipher, batch),
            Cipher::Sectors(cipher) => process::sectors(cipher, batch),
        })))
    }

    fn flush(&self) {}

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    /// It is to be compared with: it computes by the book, in place.
    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn Masking> {
        None
    }
}
