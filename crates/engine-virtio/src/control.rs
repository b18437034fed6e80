//! The control queue: sessions are opened and closed, one at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ring::{Ring, ring_len};
use crate::spec::{self, CONTROL_LEN, SESSION_ANSWER_LEN, answer};
use crate::transport::Transport;
use crate::{Error, Memory};

/// Descriptors of the control queue.
pub(crate) const SIZE: u16 = 8;
const KEY_MAX: usize = 64;
const LIMIT: Duration = Duration::from_secs(2);
/// Answers before which the queue is looked at without sleeping.
const LOOKS: u32 = 2000;

/// Bytes of memory that it takes.
pub(crate) fn memory_len() -> usize {
    ring_len(SIZE).next_multiple_of(64) + 256
}

/// See the module.
pub(crate) struct Control {
    memory: Arc<Memory>,
    at: usize,
    queue: u16,
    ring: Ring,
    doorbell: u64,
    /// Counts resets: sessions of an earlier one are gone.
    pub(crate) epoch: u64,
    /// The device is gone for good.
    pub(crate) is_gone: bool,
}

impl Control {
    /// Sets the queue up in memory from `at` on.
    pub(crate) fn new(
        transport: &Transport,
        memory: &Arc<Memory>,
        at: usize,
        queue: u16,
        epoch: u64,
    ) -> Result<Control, Error> {
        if transport.queue_size(queue)? < SIZE {
            return Err(Error::Device("its control queue is too short"));
        }
        let ring = Ring::new(memory, at, SIZE)?;
        transport.enable(queue, SIZE, None, &ring.places())?;
        let doorbell = transport.doorbell(queue)?;
        let memory = Arc::clone(memory);
        Ok(Control { memory, at, queue, ring, doorbell, epoch, is_gone: false })
    }

    /// One request and its answer.
    fn exchange(
        &mut self,
        transport: &Transport,
        request: &[u8; CONTROL_LEN],
        key: &[u8],
        answer: &mut [u8],
    ) -> Result<(), Error> {
        if self.is_gone {
            return Err(Error::Late);
        }
        let request_at = self.at + ring_len(SIZE).next_multiple_of(64);
        let key_at = request_at + CONTROL_LEN;
        let answer_at = key_at + KEY_MAX;
        self.memory.write(request_at, request)?;
        self.memory.write(key_at, key)?;
        self.memory.write(answer_at, &vec![0xff; answer.len()])?;
        let chain = [(request_at, CONTROL_LEN, false), (key_at, key.len(), false), (answer_at, answer.len(), true)];
        self.ring.describe(0, &chain)?;
        self.ring.offer(0)?;
        if self.ring.publish()? {
            transport.ring(self.doorbell, self.queue)?;
        }
        let done = self.wait();
        self.memory.write(key_at, &[0; KEY_MAX])?;
        done?;
        Ok(self.memory.read(answer_at, answer)?)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        for look in 0u32.. {
            if self.ring.take()?.is_some() {
                return Ok(());
            }
            if began.elapsed() > LIMIT {
                return Err(Error::Late);
            }
            match look < LOOKS {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        Err(Error::Late)
    }

    /// Opens a session in one direction; none when the device does not take it.
    pub(crate) fn open(
        &mut self,
        transport: &Transport,
        (service, algorithm): (u32, u32),
        direction: u32,
        key: &[u8],
    ) -> Result<Option<u64>, Error> {
        let request = spec::create_session(service, algorithm, key.len() as u32, direction);
        let mut bytes = [0; SESSION_ANSWER_LEN];
        self.exchange(transport, &request, key, &mut bytes)?;
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        Ok((spec::word(&bytes, 8) == answer::OK.into()).then_some(number))
    }

    /// Closes a session; what the device says of it changes nothing.
    pub(crate) fn close(&mut self, transport: &Transport, service: u32, session: u64) -> Result<(), Error> {
        self.exchange(transport, &spec::destroy_session(service, session), &[], &mut [0])
    }
}
