//! A device that is not there: it makes keystream of ChaCha20 on the thread that launches, and errs as it is told.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::{BLOCK_LEN, Plan};
use crate::platform::{Api, Device, Info, Lane, Signal};
use crate::sys::Block;

/// What goes wrong with the launches to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Queueing fails half-way.
    Launch,
    /// The launch ends with an error.
    Ends,
    /// Its end never comes.
    Never,
    /// Nobody is woken at its end.
    Silent,
    /// A bit of the result is wrong.
    Wrong,
    /// There is no memory for a lane.
    NoLane,
}

#[derive(Default)]
pub(super) struct Knobs {
    /// For so many launches.
    pub(super) fault: Mutex<(Fault, usize)>,
    pub(super) takes: Mutex<Duration>,
    pub(super) in_flight: AtomicUsize,
    pub(super) in_flight_most: AtomicUsize,
    pub(super) launches: AtomicUsize,
    pub(super) lanes: AtomicUsize,
}

impl Knobs {
    pub(super) fn plant(&self, fault: Fault, launches: usize) {
        *self.fault.lock().unwrap() = (fault, launches);
    }

    /// The fault of the launch that begins now, if it is `is`.
    fn takes(&self, is: impl Fn(Fault) -> bool) -> Fault {
        let mut planted = self.fault.lock().unwrap();
        if planted.1 == 0 || !is(planted.0) {
            return Fault::None;
        }
        planted.1 -= 1;
        planted.0
    }
}

pub(super) struct FakeDevice {
    pub(super) knobs: Arc<Knobs>,
    info: Info,
}

impl FakeDevice {
    pub(super) fn new() -> FakeDevice {
        let info = Info {
            api: Api::OpenCl,
            name: "not there".to_owned(),
            driver: "tests".to_owned(),
            memory_bytes: 1 << 30,
            is_gpu: true,
        };
        FakeDevice { knobs: Arc::default(), info }
    }
}

const REFUSED: Failure = Failure::Call { call: "a fault", code: -7 };

impl Device for FakeDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn prepare(&self, cipher: Cipher) -> Result<(), Failure> {
        if cipher == Cipher::ChaCha20 { Ok(()) } else { Err(Failure::Build("ChaCha20 alone".to_owned())) }
    }

    fn lane(&self) -> Result<Box<dyn Lane>, Failure> {
        if self.knobs.takes(|fault| fault == Fault::NoLane) == Fault::NoLane {
            return Err(REFUSED);
        }
        self.knobs.lanes.fetch_add(1, SeqCst);
        Ok(Box::new(FakeLane { knobs: Arc::clone(&self.knobs), launch: None, signal: Arc::default() }))
    }

    fn block(&self) -> Result<Block, Failure> {
        Ok(Block::plain(BLOCK_LEN))
    }
}

struct FakeLane {
    knobs: Arc<Knobs>,
    launch: Option<(Block, Fault, Instant)>,
    signal: Arc<Signal>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap())
}

/// As the kernels read it.
fn compute(plan: &Plan, block: &mut Block) {
    assert!(plan.passes.iter().all(|pass| pass.cipher == Cipher::ChaCha20));
    let pieces: Vec<Vec<u8>> = block[plan.pieces()].chunks(32).map(<[u8]>::to_vec).collect();
    for piece in pieces {
        let key_at = plan.keys().start + 32 * word(&piece, 0) as usize;
        let key: [u8; 32] = block[key_at..key_at + 32].try_into().unwrap();
        let start = plan.data().start + 16 * word(&piece, 2) as usize;
        let nonce: [u8; 12] = piece[16..28].try_into().unwrap();
        for number in 0..word(&piece, 3) {
            let mut cipher = chacha20::ChaCha20::new(&key.into(), &nonce.into());
            cipher.seek(64 * u64::from(word(&piece, 1).wrapping_add(number)));
            let at = start + 64 * number as usize;
            block[at..at + 64].fill(0);
            cipher.apply_keystream(&mut block[at..at + 64]);
        }
    }
}

impl Lane for FakeLane {
    fn launch(&mut self, plan: &Plan, mut block: Block) -> Result<(), Failure> {
        assert!(self.launch.is_none());
        self.knobs.launches.fetch_add(1, SeqCst);
        let fault = self.knobs.takes(|fault| fault != Fault::NoLane);
        if fault == Fault::Launch {
            std::mem::forget(block);
            return Err(REFUSED);
        }
        compute(plan, &mut block);
        if fault == Fault::Wrong {
            let data = plan.data();
            block[data][0] ^= 4;
        }
        let takes = *self.knobs.takes.lock().unwrap();
        self.launch = Some((block, fault, Instant::now() + takes));
        let now = self.knobs.in_flight.fetch_add(1, SeqCst) + 1;
        self.knobs.in_flight_most.fetch_max(now, SeqCst);
        if fault != Fault::Silent {
            let signal = Arc::clone(&self.signal);
            std::thread::spawn(move || {
                std::thread::sleep(takes);
                signal.raise();
            });
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Block>, Failure> {
        match self.launch.take() {
            Some((_, Fault::Ends, _)) => Err(REFUSED),
            Some((block, fault, ends)) if fault == Fault::Never || Instant::now() < ends => {
                self.launch = Some((block, fault, ends));
                Ok(None)
            }
            launch => {
                self.knobs.in_flight.fetch_sub(1, SeqCst);
                Ok(launch.map(|(block, ..)| block))
            }
        }
    }

    fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    fn remains(&mut self) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }
}

impl Drop for FakeLane {
    fn drop(&mut self) {
        // As the others do: what a late device writes to stays.
        std::mem::forget(self.launch.take());
    }
}
