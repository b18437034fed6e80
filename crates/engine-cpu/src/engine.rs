//! [`CpuEngine`]: validation, dispatch to the ciphers, and what it can do.

use std::sync::{Arc, OnceLock};

use strongroom_engine::{
    Aead, Algorithm, Batch, BlockCipher, Buffer, Capability, Cross, Crossing, Engine, Masking, Operation,
    Refusal, Refused, SectorCipher, SectorIv, SectorMode, Session, SessionError, Ticket,
};
use strongroom_memory::{in_wiped_frames, in_wiped_stack};

use crate::aegis256x::{Aegis, Four, Two};
use crate::counter_poly1305::{self, CounterPoly1305, Recipe};
use crate::gcm::AesGcm;
use crate::hardware::Tier;
use crate::kernel::Code;
use crate::modes::Sectors;
use crate::xaes::Xaes;
use crate::xchacha::{ChaCha, XChaCha};
use crate::{process, rates, self_test};

/// Most bytes of a batch's buffer: far above any use, far below the limit of
/// every cipher for one message.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// Most segments of a batch.
pub(crate) const SEGMENTS_MAX: usize = 1 << 20;

/// A fast engine of one [`Tier`]. It is inline, works on the caller's thread,
/// and shares nothing between threads but key schedules. These are allocated in
/// locked memory where the program has `strongroom_memory`'s allocator, and so
/// is what ciphers of libraries allocate for them.
pub struct CpuEngine {
    tier: Tier,
    passes: fn(Tier, Algorithm) -> bool,
    /// Better tiers that stand beside it: what they compute by the same code
    /// is theirs.
    beside: &'static [Tier],
    /// By [`slot`], what the known-answer test said.
    tested: [OnceLock<bool>; SLOTS],
}

/// Algorithms of the contract.
const SLOTS: usize = Aead::ALL.len() + BlockCipher::ALL.len() * SectorMode::ALL.len() * SectorIv::ALL.len();

/// A number below [`SLOTS`] for every algorithm.
fn slot(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Aead(aead) => aead as usize,
        Algorithm::Sector(SectorCipher { cipher, mode, iv }) => {
            let of_cipher = cipher as usize * SectorMode::ALL.len() + mode as usize;
            Aead::ALL.len() + of_cipher * SectorIv::ALL.len() + iv as usize
        }
    }
}

/// A key schedule of one of the ciphers.
pub(crate) enum Cipher {
    Xaes(Box<Xaes>),
    Gcm(Box<AesGcm>),
    XChaCha(XChaCha),
    ChaCha(ChaCha),
    AegisX2(Aegis<Two>),
    AegisX4(Aegis<Four>),
    CounterPoly1305(Box<CounterPoly1305>),
    Sectors(Box<Sectors>),
}

/// A session's state: the cipher, and whose it is.
struct Keyed {
    tier: Tier,
    cipher: Cipher,
}

impl Cipher {
    pub(crate) fn new(tier: Tier, algorithm: Algorithm, key: &[u8]) -> Result<Cipher, SessionError> {
        if !tier.has(algorithm) {
            return Err(SessionError::Unsupported);
        }
        let aead_key = || <&[u8; 32]>::try_from(key).map_err(|_| SessionError::KeyLength);
        Ok(match algorithm {
            Algorithm::Aead(Aead::XAes256Gcm) => Cipher::Xaes(Box::new(Xaes::new(tier, aead_key()?))),
            Algorithm::Aead(Aead::Aes256Gcm) => Cipher::Gcm(Box::new(AesGcm::new(tier, aead_key()?))),
            Algorithm::Aead(Aead::XChaCha20Poly1305) => Cipher::XChaCha(XChaCha::new(aead_key()?)),
            Algorithm::Aead(Aead::ChaCha20Poly1305) => Cipher::ChaCha(ChaCha::new(aead_key()?)),
            Algorithm::Aead(Aead::Aegis256X2) => Cipher::AegisX2(Aegis::new(aead_key()?)),
            Algorithm::Aead(Aead::Aegis256X4) => Cipher::AegisX4(Aegis::new(aead_key()?)),
            Algorithm::Aead(Aead::Serpent256Poly1305) => {
                Cipher::counter_poly1305(tier, &counter_poly1305::SERPENT, aead_key()?)
            }
            Algorithm::Aead(Aead::Cascade) => {
                Cipher::counter_poly1305(tier, &counter_poly1305::CASCADE, aead_key()?)
            }
            Algorithm::Sector(sector) => Cipher::Sectors(Box::new(Sectors::new(tier, sector, key)?)),
        })
    }

    fn counter_poly1305(tier: Tier, recipe: &'static Recipe, key: &[u8; 32]) -> Cipher {
        Cipher::CounterPoly1305(Box::new(CounterPoly1305::new(tier, recipe, key)))
    }

    /// Processes a batch that has been validated for this cipher's algorithm.
    pub(crate) fn process(&self, batch: Batch) -> strongroom_engine::Completed {
        match self {
            Cipher::Xaes(cipher) => process::aead(&**cipher, batch),
            Cipher::Gcm(cipher) => process::aead(&**cipher, batch),
            Cipher::XChaCha(cipher) => process::aead(cipher, batch),
            Cipher::ChaCha(cipher) => process::aead(cipher, batch),
            Cipher::AegisX2(cipher) => process::aead(cipher, batch),
            Cipher::AegisX4(cipher) => process::aead(cipher, batch),
            Cipher::CounterPoly1305(cipher) => process::aead(&**cipher, batch),
            Cipher::Sectors(cipher) => process::sectors(&**cipher, batch),
        }
    }
}

impl CpuEngine {
    /// The best tier of this CPU. Each algorithm's known-answer test runs when
    /// the algorithm is first asked for.
    #[must_use]
    pub fn new() -> CpuEngine {
        CpuEngine::tested_by(Tier::best(), self_test::passes)
    }

    /// The engine of one tier; `None` when the CPU lacks its instructions.
    #[must_use]
    pub fn of_tier(tier: Tier) -> Option<CpuEngine> {
        (tier <= Tier::best()).then(|| CpuEngine::tested_by(tier, self_test::passes))
    }

    fn tested_by(tier: Tier, passes: fn(Tier, Algorithm) -> bool) -> CpuEngine {
        CpuEngine { tier, passes, beside: &[], tested: [const { OnceLock::new() }; SLOTS] }
    }

    /// The engines of all tiers that this CPU has, the best first, to stand
    /// side by side under a scheduler. Each after the first offers only what
    /// it computes by other code than those before it, and of that only what
    /// is constant-time, so that a choice among them never trades away what
    /// the best tier gives.
    #[must_use]
    pub fn side_by_side() -> Vec<CpuEngine> {
        let present = Tier::ALL.iter().position(|tier| *tier <= Tier::best()).unwrap_or(0);
        let tiers = Tier::ALL.iter().enumerate().skip(present);
        tiers
            .map(|(at, tier)| {
                let engine = CpuEngine::tested_by(*tier, self_test::passes);
                CpuEngine { beside: &Tier::ALL[present..at], ..engine }
            })
            .collect()
    }

    /// Which code computes the algorithm here; `None` when this engine does
    /// not offer it, whether or not its self-test passes.
    #[must_use]
    pub fn code(&self, algorithm: Algorithm) -> Option<Code> {
        let code = self.tier.code(algorithm)?;
        let offered = self.beside.is_empty()
            || code.constant_time && self.beside.iter().all(|better| better.code(algorithm) != Some(code));
        offered.then_some(code)
    }

    /// True when the engine offers the algorithm and computes its known answers
    /// on this machine.
    fn passes(&self, algorithm: Algorithm) -> bool {
        *self.tested[slot(algorithm)]
            .get_or_init(|| self.code(algorithm).is_some() && (self.passes)(self.tier, algorithm))
    }

    /// Its tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Runs the known-answer tests that have not run yet, in some milliseconds,
    /// and says which algorithms failed on this machine and are not offered.
    /// Empty on a sound one.
    #[must_use]
    pub fn refused(&self) -> Vec<Algorithm> {
        Algorithm::all().filter(|&known| self.code(known).is_some() && !self.passes(known)).collect()
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
        if !algorithm.has(operation) || !self.passes(algorithm) {
            return None;
        }
        Some(Capability {
            inline: true,
            batch_bytes_max: BATCH_BYTES_MAX,
            segments_max: SEGMENTS_MAX,
            queue_max: usize::MAX,
            alignment: 1,
            latency_ns: 300,
            bytes_per_second: rates::expected(self.tier, algorithm),
            takes_masks: takes_masks(algorithm, operation),
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        if !self.passes(algorithm) {
            let offered = self.code(algorithm).is_some();
            return Err(if offered { SessionError::DeviceLost } else { SessionError::Unsupported });
        }
        in_wiped_stack(|| {
            let cipher = Cipher::new(self.tier, algorithm, key)?;
            Ok(Session::new(algorithm, Arc::new(Keyed { tier: self.tier, cipher })))
        })
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let keyed = match session.state::<Keyed>() {
            Some(keyed) if keyed.tier == self.tier => keyed,
            _ => {
                let refusal = Refusal::Misuse("the session belongs to another engine");
                return Err(Box::new(Refused { batch, refusal }));
            }
        };
        match check(session.algorithm(), &batch) {
            Ok(()) => Ok(Ticket::ready(in_wiped_frames(|| keyed.cipher.process(batch)))),
            Err(refusal) => Err(Box::new(Refused { batch, refusal })),
        }
    }

    fn flush(&self) {}

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        Some(self)
    }

    fn masking(&self) -> Option<&dyn Masking> {
        None
    }
}

impl Cross for CpuEngine {
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal> {
        let keyed = match session.state::<Keyed>() {
            Some(keyed) if keyed.tier == self.tier => keyed,
            _ => return Err(Refusal::Misuse("the session belongs to another engine")),
        };
        crossing.validate(session.algorithm())?;
        let Cipher::Sectors(sectors) = &keyed.cipher else { return Err(Refusal::Unsupported) };
        in_wiped_frames(|| sectors.cross(crossing)).then_some(()).ok_or(Refusal::Unsupported)
    }
}

/// Suites in encrypt-then-MAC order of a cipher without instructions. Elsewhere
/// encrypting costs about what an XOR does.
fn takes_masks(algorithm: Algorithm, operation: Operation) -> bool {
    matches!(algorithm, Algorithm::Aead(Aead::Serpent256Poly1305 | Aead::Cascade))
        && matches!(operation, Operation::Seal | Operation::Open)
}

/// What both engines of this crate check before they start.
pub(crate) fn check(algorithm: Algorithm, batch: &Batch) -> Result<(), Refusal> {
    if batch.buffer.len() > BATCH_BYTES_MAX || batch.segments.len() > SEGMENTS_MAX {
        return Err(Refusal::Unsupported);
    }
    batch.validate(algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_engine::{Buffer, Operation, SharedBytes};

    #[test]
    fn every_algorithm_of_every_tier_passes_its_known_answer_test() {
        for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
            assert_eq!(engine.refused(), [], "{}", engine.name());
        }
    }

    #[test]
    fn every_algorithm_has_a_slot_of_its_own() {
        let slots: std::collections::BTreeSet<_> = Algorithm::all().map(slot).collect();
        assert_eq!((slots.len(), slots.last().copied()), (SLOTS, Some(SLOTS - 1)));
    }

    #[test]
    fn an_algorithm_that_fails_its_test_is_not_offered() {
        let broken = Algorithm::Aead(Aead::Aegis256X2);
        let engine =
            CpuEngine::tested_by(Tier::best(), |_, algorithm| algorithm != Algorithm::Aead(Aead::Aegis256X2));
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
    fn sectors_cross_where_aes_is_fast_and_nowhere_else() {
        use std::sync::atomic::AtomicU8;
        let from: Vec<AtomicU8> = (0..1024u32).map(|i| AtomicU8::new(i as u8)).collect();
        let key: Vec<u8> = (0..64).collect();
        for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
            let has_instructions = cfg!(target_arch = "x86_64") && engine.tier() != Tier::Portable;
            for (cipher, fast) in [(BlockCipher::Aes, has_instructions), (BlockCipher::Serpent, false)] {
                let algorithm = Algorithm::Sector(SectorCipher { cipher, ..SectorCipher::AES_XTS_PLAIN64 });
                let session = engine.session(algorithm, &key).unwrap();
                let mut to = vec![0; 1024];
                let from = SharedBytes::new(&from);
                let crossing = Crossing { numbers: 0.into(), sector_len: 512, from, to: &mut to };
                let crossed = engine.cross(&session, crossing);
                let expected = if fast { Ok(()) } else { Err(Refusal::Unsupported) };
                assert_eq!(crossed, expected, "{} {algorithm}", engine.name());
            }
        }
    }

    #[test]
    fn xts_refuses_a_key_with_equal_halves() {
        let xts = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
        assert_eq!(CpuEngine::new().session(xts, &[9; 64]).err(), Some(SessionError::Unsupported));
    }

    #[test]
    fn side_by_side_a_lower_tier_offers_other_code_alone_and_no_tables() {
        let engines = CpuEngine::side_by_side();
        assert_eq!(engines[0].tier(), Tier::best());
        assert!(engines[0].code(Algorithm::Aead(Aead::Aegis256X2)).is_some());
        for (at, engine) in engines.iter().enumerate().skip(1) {
            for algorithm in Algorithm::all() {
                let better = || engines[..at].iter().filter_map(|better| better.tier().code(algorithm));
                match engine.code(algorithm) {
                    Some(code) => {
                        assert!(code.constant_time && better().all(|other| other != code), "{algorithm}");
                        assert!(engine.capability(algorithm, any_operation(algorithm)).is_some());
                    }
                    None => {
                        let key = vec![7; algorithm.key_lens()[0]];
                        let refused = engine.session(algorithm, &key).err();
                        assert_eq!(refused, Some(SessionError::Unsupported), "{algorithm}");
                    }
                }
            }
            assert!(engine.code(Algorithm::Aead(Aead::XAes256Gcm)).is_some());
            assert!(engine.code(Algorithm::Aead(Aead::ChaCha20Poly1305)).is_none());
        }
    }

    fn any_operation(algorithm: Algorithm) -> Operation {
        match algorithm {
            Algorithm::Aead(_) => Operation::Seal,
            Algorithm::Sector(_) => Operation::EncryptSectors,
        }
    }

    #[test]
    fn a_tier_takes_no_session_of_another() {
        let [Some(portable), best] = [CpuEngine::of_tier(Tier::Portable), Some(CpuEngine::new())] else {
            panic!("every CPU has the portable tier");
        };
        let best = best.filter(|best| best.tier() != Tier::Portable);
        let algorithm = Algorithm::Aead(Aead::XAes256Gcm);
        let session = portable.session(algorithm, &[1; 32]).unwrap();
        let empty = || Batch::new(Operation::Seal, Buffer::empty(), Vec::new());
        assert!(portable.submit(&session, empty()).is_ok());
        assert!(best.is_none_or(|best| best.submit(&session, empty()).is_err()));
    }
}
