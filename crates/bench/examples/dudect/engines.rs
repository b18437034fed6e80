//! The kernels of every engine of this machine.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BlockCipher, Buffer, Engine, NonceSource, Operation,
    SectorCipher, SectorIv, SectorMode, Segment, Session, StoredNonce,
};
use strongroom_engine_cpu::{CpuEngine, Tier};

use crate::Subject;
use crate::statistics::{INPUTS, Rng, Times, measure};

/// Bytes of a call: as few as the code for long messages is used for.
const LEN: usize = 1024;

/// One kernel under test.
#[derive(Clone)]
struct Kernel {
    engine: Rc<CpuEngine>,
    algorithm: Algorithm,
    operation: Operation,
}

impl Kernel {
    fn session(&self, key: &[u8]) -> Session {
        self.engine.session(self.algorithm, key).expect("the engine has the algorithm")
    }

    fn key_len(&self) -> usize {
        *self.algorithm.key_lens().last().expect("every algorithm has a key")
    }

    fn segment(&self, nonces: &NonceSource) -> Segment {
        match self.operation {
            Operation::Seal => {
                let nonce = nonces.batch(LEN).expect("random bytes").draw();
                Segment::seal(0, LEN, nonce, AssociatedData::new(&[7; 16]))
            }
            _ => Segment::sectors(0, LEN, 9, LEN as u32),
        }
    }

    /// The time of one call.
    fn time(&self, session: &Session, buffer: &mut Buffer, segment: Segment) -> f64 {
        let batch = Batch::new(self.operation, buffer.take(), vec![segment]);
        let started = Instant::now();
        let ticket = self.engine.submit(black_box(session), black_box(batch)).expect("a sound batch");
        let taken = started.elapsed();
        *buffer = ticket.wait().expect("an inline engine answers").batch.buffer;
        taken.as_nanos() as f64
    }

    fn of_data(&self, calls: usize, rng: &mut Rng) -> Times {
        let session = self.session(&rng.bytes(self.key_len()));
        let fixed = rng.bytes(LEN);
        let inputs = [vec![fixed; INPUTS], (0..INPUTS).map(|_| rng.bytes(LEN)).collect()];
        let (nonces, mut buffer) = (NonceSource::new().expect("random bytes"), Buffer::new(LEN));
        measure(calls, rng, |class, input| {
            buffer.copy_from_slice(&inputs[class][input]);
            self.time(&session, &mut buffer, self.segment(&nonces))
        })
    }

    fn of_key(&self, calls: usize, rng: &mut Rng) -> Times {
        let fixed = rng.bytes(self.key_len());
        // Made in turn, so that neither class lies better in memory.
        let mut sessions: [Vec<Session>; 2] = Default::default();
        for _ in 0..INPUTS {
            sessions[0].push(self.session(&fixed));
            sessions[1].push(self.session(&rng.bytes(self.key_len())));
        }
        let (nonces, mut buffer) = (NonceSource::new().expect("random bytes"), Buffer::new(LEN));
        let data = rng.bytes(LEN);
        measure(calls, rng, |class, input| {
            buffer.copy_from_slice(&data);
            self.time(&sessions[class][input], &mut buffer, self.segment(&nonces))
        })
    }

    /// Opening under tags that are wrong in the first byte, or in the last.
    fn of_tag(&self, calls: usize, rng: &mut Rng) -> Times {
        let session = self.session(&rng.bytes(self.key_len()));
        let nonces = NonceSource::new().expect("random bytes");
        let mut buffer = Buffer::new(LEN);
        buffer.copy_from_slice(&rng.bytes(LEN));
        let sealing = Kernel { operation: Operation::Seal, ..self.clone() };
        let batch = Batch::new(Operation::Seal, buffer, vec![sealing.segment(&nonces)]);
        let sealed = self.engine.submit(&session, batch).expect("sound").wait().expect("inline").batch;
        let (nonce, tag) = (*sealed.segments[0].nonce(), *sealed.segments[0].tag());
        let ciphertext = sealed.buffer.to_vec();
        let mut buffer = Buffer::new(LEN);
        measure(calls, rng, |class, _| {
            buffer.copy_from_slice(&ciphertext);
            let mut wrong = tag;
            let at = if class == 0 { 0 } else { wrong.len() - 1 };
            wrong[at] ^= 1;
            let ad = AssociatedData::new(&[7; 16]);
            self.time(&session, &mut buffer, Segment::open(0, LEN, StoredNonce::new(nonce), ad, wrong))
        })
    }
}

/// A way to measure a kernel.
type Measure = fn(&Kernel, usize, &mut Rng) -> Times;

impl Kernel {
    fn subject(&self, secret: &'static str, measure: Measure) -> Subject {
        let what = format!("{} {} {:?}", self.engine.name(), self.algorithm, self.operation);
        let kernel = self.clone();
        Subject::new(what, secret, move |calls, rng| measure(&kernel, calls, rng))
    }

    fn exists(&self) -> bool {
        self.engine.capability(self.algorithm, self.operation).is_some()
    }
}

/// Every kernel, with what may not show in its time.
pub(crate) fn subjects() -> Vec<Subject> {
    Tier::ALL.into_iter().filter_map(CpuEngine::of_tier).map(Rc::new).flat_map(of_engine).collect()
}

fn of_engine(engine: Rc<CpuEngine>) -> Vec<Subject> {
    let kernel = |algorithm, operation| Kernel { engine: Rc::clone(&engine), algorithm, operation };
    let mut subjects = Vec::new();
    for cipher in [BlockCipher::Aes, BlockCipher::Serpent, BlockCipher::Twofish, BlockCipher::Camellia] {
        let algorithm = SectorCipher { cipher, mode: SectorMode::Xts, iv: SectorIv::Plain64 };
        for operation in [Operation::EncryptSectors, Operation::DecryptSectors] {
            let kernel = kernel(Algorithm::Sector(algorithm), operation);
            if kernel.exists() {
                subjects.push(kernel.subject("data", Kernel::of_data));
                subjects.push(kernel.subject("key", Kernel::of_key));
            }
        }
    }
    for aead in Aead::ALL.into_iter().filter(|aead| aead.nonce_len() == 24) {
        let (seal, open) = (Operation::Seal, Operation::Open);
        let [seal, open] = [seal, open].map(|operation| kernel(Algorithm::Aead(aead), operation));
        if seal.exists() {
            subjects.push(seal.subject("data", Kernel::of_data));
            subjects.push(open.subject("tag", Kernel::of_tag));
        }
    }
    subjects
}
