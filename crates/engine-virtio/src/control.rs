//! The control queue: sessions are opened and closed, one at a time. Its memory
//! is its own and locked, since keys stand there for a moment.

use std::sync::Arc;
use std::time::Duration;

use crate::ring::{Ring, ring_len};
use crate::spec::{self, CONTROL_LEN, SESSION_ANSWER_LEN, answer};
use crate::transport::Transport;
use crate::wire::{KEY_MAX, Wire};
use crate::{Error, Memory};

/// Descriptors of the control queue.
const SIZE: u16 = 8;
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Where its parts are: the ring, then what goes there and back.
const REQUEST_AT: usize = 1024;
const KEY_AT: usize = REQUEST_AT + CONTROL_LEN;
const ANSWER_AT: usize = KEY_AT + KEY_MAX;
/// Bytes of memory that it takes.
pub(crate) const MEMORY_LEN: usize = 4096;

/// See the module.
pub(crate) struct Control {
    memory: Arc<Memory>,
    queue: u16,
    ring: Ring,
    doorbell: u64,
}

impl Control {
    /// Sets the queue up in memory of its own.
    pub(crate) fn new(transport: &Transport, memory: &Arc<Memory>, queue: u16) -> Result<Control, Error> {
        debug_assert!(ring_len(SIZE) <= REQUEST_AT && ANSWER_AT + SESSION_ANSWER_LEN <= MEMORY_LEN);
        if transport.queue_size(queue)? < SIZE {
            return Err(Error::Device("its control queue is too short"));
        }
        let ring = Ring::new(memory, 0, SIZE)?;
        transport.enable(queue, SIZE, None, &ring.places())?;
        let doorbell = transport.doorbell(queue)?;
        Ok(Control { memory: Arc::clone(memory), queue, ring, doorbell })
    }

    /// One request and its answer. After an error the queue is of no use.
    fn exchange(
        &mut self,
        transport: &Transport,
        request: &[u8; CONTROL_LEN],
        key: &[u8],
        answer: &mut [u8],
    ) -> Result<(), Error> {
        self.memory.write(REQUEST_AT, request)?;
        self.memory.write(KEY_AT, key)?;
        // No answer, wherever it is looked at.
        answer.fill(0xff);
        self.memory.write(ANSWER_AT, answer)?;
        let chain =
            [(REQUEST_AT, CONTROL_LEN, false), (KEY_AT, key.len(), false), (ANSWER_AT, answer.len(), true)];
        self.ring.offer_chain(0, &chain)?;
        if self.ring.publish()? {
            transport.ring(self.doorbell, self.queue)?;
        }
        let done = self.ring.wait(LIMIT);
        self.memory.write(KEY_AT, &[0; KEY_MAX])?;
        done?;
        Ok(self.memory.read(ANSWER_AT, answer)?)
    }

    /// Opens a session in one direction; none when the device does not take it.
    pub(crate) fn open(
        &mut self,
        transport: &Transport,
        wire: Wire,
        encrypts: bool,
        key: &[u8],
    ) -> Result<Option<u64>, Error> {
        let direction = if encrypts { spec::ENCRYPTS } else { spec::DECRYPTS };
        let request = spec::create_session(wire.service, wire.algorithm, key.len() as u32, direction);
        let mut bytes = [0; SESSION_ANSWER_LEN];
        self.exchange(transport, &request, key, &mut bytes)?;
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        Ok((spec::word(&bytes, 8) == u32::from(answer::OK)).then_some(number))
    }

    /// Closes a session; what the device says of it changes nothing.
    pub(crate) fn close(&mut self, transport: &Transport, service: u32, session: u64) -> Result<(), Error> {
        self.exchange(transport, &spec::destroy_session(service, session), &[], &mut [0])
    }
}
