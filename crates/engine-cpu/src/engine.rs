//! [`CpuEngine`]: validation, dispatch to the ciphers, and what it can do.

use std::sync::Arc;

use strongroom_engine::{
    Aead, Algorithm, Batch, Capability, Engine, Operation, Refusal, Refused, SectorCipher, SectorIv, Session,
    SessionError, Ticket,
};

use crate::aegis256x2::Aegis;
use crate::hardware::Tier;
use crate::xaes::Xaes;
use crate::xchacha::{ChaCha, XChaCha};
use crate::xts::Xts;
use crate::{process, self_test};

/// Most bytes of a batch's buffer: far above any use, far below the limit of
/// every cipher for one message.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// Most segments of a batch.
pub(crate) const SEGMENTS_MAX: usize = 1 << 20;

/// Everything that a CPU engine computes.
pub(crate) const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Aead(Aead::XAes256Gcm),
    Algorithm::Aead(Aead::XChaCha20Poly1305),
    Algorithm::Aead(Aead::Aegis256X2),
    Algorithm::Aead(Aead::ChaCha20Poly1305),
    Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64),
];

/// The fast engine. It is inline, works on the caller's thread, and shares
/// nothing between threads but key schedules.
pub struct CpuEngine {
    tier: Tier,
    refused: Vec<Algorithm>,
}

/// A key schedule of one of the ciphers.
pub(crate) enum Cipher {
    Xaes(Box<Xaes>),
    XChaCha(XChaCha),
    Aegis(Aegis),
    ChaCha(ChaCha),
    Xts(Xts),
}

impl Cipher {
    pub(crate) fn new(algorithm: Algorithm, key: &[u8]) -> Result<Cipher, SessionError> {
        let aead_key = || <&[u8; 32]>::try_from(key).map_err(|_| SessionError::KeyLength);
        Ok(match algorithm {
            Algorithm::Aead(Aead::XAes256Gcm) => Cipher::Xaes(Box::new(Xaes::new(aead_key()?))),
            Algorithm::Aead(Aead::XChaCha20Poly1305) => Cipher::XChaCha(XChaCha::new(aead_key()?)),
            Algorithm::Aead(Aead::Aegis256X2) => Cipher::Aegis(Aegis::new(aead_key()?)),
            Algorithm::Aead(Aead::ChaCha20Poly1305) => Cipher::ChaCha(ChaCha::new(aead_key()?)),
            Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64) => match key.len() {
                32 | 64 => Cipher::Xts(Xts::new(SectorIv::Plain64, key).ok_or(SessionError::Unsupported)?),
                48 => return Err(SessionError::Unsupported),
                _ => return Err(SessionError::KeyLength),
            },
            Algorithm::Aead(Aead::Aes256Gcm) | Algorithm::Sector(_) => return Err(SessionError::Unsupported),
        })
    }

    /// Processes a batch that has been validated for this cipher's algorithm.
    pub(crate) fn process(&self, batch: Batch) -> strongroom_engine::Completed {
        match self {
            Cipher::Xaes(cipher) => process::aead(&**cipher, batch),
            Cipher::XChaCha(cipher) => process::aead(cipher, batch),
            Cipher::Aegis(cipher) => process::aead(cipher, batch),
            Cipher::ChaCha(cipher) => process::aead(cipher, batch),
            Cipher::Xts(cipher) => process::sectors(cipher, batch),
        }
    }
}

impl CpuEngine {
    /// Runs the known-answer test of every algorithm, in a few microseconds.
    #[must_use]
    pub fn new() -> CpuEngine {
        CpuEngine::tested_by(self_test::passes)
    }

    fn tested_by(passes: impl Fn(Algorithm) -> bool) -> CpuEngine {
        let refused = ALGORITHMS.into_iter().filter(|&algorithm| !passes(algorithm)).collect();
        CpuEngine { tier: Tier::detect(), refused }
    }

    /// The algorithms that failed their known-answer test on this machine and
    /// are not offered. Empty on a sound one.
    #[must_use]
    pub fn refused(&self) -> &[Algorithm] {
        &self.refused
    }
}

impl Default for CpuEngine {
    fn default() -> CpuEngine {
        CpuEngine::new()
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &str {
        self.tier.engine_name()
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        if !ALGORITHMS.contains(&algorithm) || self.refused.contains(&algorithm) || !algorithm.has(operation)
        {
            return None;
        }
        Some(Capability {
            inline: true,
            batch_bytes_max: BATCH_BYTES_MAX,
            segments_max: SEGMENTS_MAX,
            alignment: 1,
            latency_ns: 300,
            bytes_per_second: expected_rate(self.tier, algorithm),
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        if self.refused.contains(&algorithm) {
            return Err(SessionError::DeviceLost);
        }
        Ok(Session::new(algorithm, Arc::new(Cipher::new(algorithm, key)?)))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let Some(cipher) = session.state::<Cipher>() else {
            let refusal = Refusal::Misuse("the session belongs to another engine");
            return Err(Box::new(Refused { batch, refusal }));
        };
        match check(session.algorithm(), &batch) {
            Ok(()) => Ok(Ticket::ready(cipher.process(batch))),
            Err(refusal) => Err(Box::new(Refused { batch, refusal })),
        }
    }
}

/// What both engines of this crate check before they start.
pub(crate) fn check(algorithm: Algorithm, batch: &Batch) -> Result<(), Refusal> {
    if batch.buffer.len() > BATCH_BYTES_MAX || batch.segments.len() > SEGMENTS_MAX {
        return Err(Refusal::Unsupported);
    }
    batch.validate(algorithm)
}

/// Bytes per second of one thread with 64 KiB segments in cache, as measured
/// on a recent CPU of each tier: a starting point for a scheduler.
fn expected_rate(tier: Tier, algorithm: Algorithm) -> u64 {
    let megabytes = match (algorithm, tier) {
        (Algorithm::Aead(Aead::XChaCha20Poly1305 | Aead::ChaCha20Poly1305), _) => 2_400,
        (Algorithm::Aead(Aead::Aegis256X2), Tier::VectorAes) => 17_000,
        (Algorithm::Aead(Aead::Aegis256X2), Tier::Aes) => 10_000,
        (Algorithm::Aead(_), Tier::VectorAes) => 19_000,
        (Algorithm::Aead(_), Tier::Aes) => 6_000,
        (Algorithm::Sector(_), Tier::VectorAes) => 24_000,
        (Algorithm::Sector(_), Tier::Aes) => 7_000,
        (_, Tier::Portable) => 250,
    };
    megabytes * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_engine::{Buffer, Operation};

    #[test]
    fn every_algorithm_passes_its_known_answer_test() {
        assert_eq!(CpuEngine::new().refused(), []);
    }

    #[test]
    fn an_algorithm_that_fails_its_test_is_not_offered() {
        let broken = Algorithm::Aead(Aead::Aegis256X2);
        let engine = CpuEngine::tested_by(|algorithm| algorithm != broken);
        assert_eq!(engine.refused(), [broken]);
        assert_eq!(engine.capability(broken, Operation::Seal), None);
        assert_eq!(engine.session(broken, &[1; 32]).err(), Some(SessionError::DeviceLost));
        assert!(engine.session(Algorithm::Aead(Aead::XAes256Gcm), &[1; 32]).is_ok());
    }

    #[test]
    fn a_buffer_above_the_limit_is_for_another_engine() {
        let algorithm = Algorithm::Aead(Aead::XAes256Gcm);
        let batch = Batch::new(Operation::Seal, Buffer::new(BATCH_BYTES_MAX + 1), Vec::new());
        assert_eq!(check(algorithm, &batch), Err(Refusal::Unsupported));
    }

    #[test]
    fn xts_refuses_a_key_with_equal_halves() {
        let xts = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
        assert_eq!(CpuEngine::new().session(xts, &[9; 64]).err(), Some(SessionError::Unsupported));
    }
}
