//! A function with its memory: set up from a reset on, and tested.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::control::{self, Control};
use crate::lanes::Queue;
use crate::request::{self, Piece};
use crate::ring::{Ring, ring_len};
use crate::spec::{TAG_LEN, answer, service};
use crate::transport::{Offer, Transport};
use crate::wire::{KEY_MAX, Wire};
use crate::{Bus, Error, Memory};

/// Where a device sees the control queue's memory, and that of data.
const CONTROL_BASE: u64 = 1 << 32;
const DATA_BASE: u64 = 1 << 33;
/// Bytes for requests.
const DATA_LEN: usize = 16 << 20;
/// Bytes of a request, at most: a quarter, so that several fit.
pub(crate) const REQUEST_MAX: usize = DATA_LEN / 4;
/// Descriptors of a queue, at most.
const QUEUE_SIZE_MAX: u16 = 256;
/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Function {
    pub(crate) transport: Transport,
    offer: Offer,
    data_queues: u16,
    queues: u16,
    control_memory: Arc<Memory>,
    pub(crate) data_memory: Arc<Memory>,
}

/// What is made anew by each reset.
pub(crate) struct Queues {
    pub(crate) control: Control,
    pub(crate) data: Vec<Queue>,
    /// Where data begin in the memory.
    pub(crate) data_at: usize,
}

impl Function {
    /// Finds it, resets it, and gives it memory and `vectors` interrupts.
    pub(crate) fn find(bus: Arc<dyn Bus>, queues_max: u16) -> Result<(Function, OwnedFd), Error> {
        let transport = Transport::find(Arc::clone(&bus))?;
        transport.reset()?;
        let offer = transport.negotiate()?;
        let data_queues =
            u16::try_from(offer.data_queues).map_err(|_| Error::Device("it has too many queues"))?;
        let queues = data_queues.min(queues_max.max(1));
        let (control_memory, file) = Memory::create_locked(CONTROL_BASE, control::MEMORY_LEN)?;
        bus.map(&file, CONTROL_BASE, control::MEMORY_LEN as u64)?;
        let rings = usize::from(queues) * ring_len(QUEUE_SIZE_MAX);
        let len = (rings + DATA_LEN).next_multiple_of(4096);
        let (data_memory, file) = Memory::create(DATA_BASE, len)?;
        bus.map(&file, DATA_BASE, len as u64)?;
        let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::Bus(error.into()))?;
        bus.interrupts(&[interrupt.try_clone()?])?;
        let (control_memory, data_memory) = (Arc::new(control_memory), Arc::new(data_memory));
        let function = Function { transport, offer, data_queues, queues, control_memory, data_memory };
        Ok((function, interrupt))
    }

    /// Sets the queues up, from a reset on: the control queue, and the data
    /// queues with one vector for all of them.
    pub(crate) fn set_up(&self) -> Result<Queues, Error> {
        let transport = &self.transport;
        let control = Control::new(transport, &self.control_memory, self.data_queues)?;
        let mut data_at = 0;
        let mut data = Vec::new();
        for number in 0..self.queues {
            let size = transport.queue_size(number)?.min(QUEUE_SIZE_MAX);
            if !size.is_power_of_two() || size < 8 {
                return Err(Error::Device("a queue has an impossible size"));
            }
            let ring = Ring::new(&self.data_memory, data_at, size)?;
            data_at += ring_len(size);
            transport.enable(number, size, Some(0), &ring.places())?;
            data.push(Queue::new(number, ring, transport.doorbell(number)?));
        }
        transport.start()?;
        Ok(Queues { control, data, data_at })
    }

    /// Resets the device and sets it up again; what it offers is what it was.
    pub(crate) fn restart(&self) -> Result<Queues, Error> {
        self.transport.reset()?;
        if self.transport.negotiate()? != self.offer {
            return Err(Error::Device("after a reset it offers something else"));
        }
        self.set_up()
    }

    /// Bytes of a request's data, at most.
    pub(crate) fn request_max(&self) -> usize {
        usize::try_from(self.offer.request_len_max).unwrap_or(usize::MAX).min(REQUEST_MAX)
    }

    /// The keys with which it computes what it shall, by their lengths. What it
    /// advertises and does wrong, or refuses, is left out.
    pub(crate) fn test(&self, queues: &mut Queues) -> Result<Vec<(Wire, usize)>, Error> {
        let mut passed = Vec::new();
        for wire in Wire::ALL {
            for &key_len in wire.key_lens() {
                if self.offer.has(wire)
                    && key_len <= self.offer.key_len_max
                    && self.passes(queues, wire, key_len)?
                {
                    passed.push((wire, key_len));
                }
            }
        }
        Ok(passed)
    }

    fn passes(&self, queues: &mut Queues, wire: Wire, key_len: usize) -> Result<bool, Error> {
        let vector = Vector::of(wire);
        let mut sessions = [0; 2];
        for (encrypts, session) in [(true, 0), (false, 1)] {
            let opened = queues.control.open(&self.transport, wire, encrypts, &vector.key[..key_len])?;
            let Some(number) = opened else { return Ok(false) };
            sessions[session] = number;
        }
        let at = queues.data_at;
        let memory = &self.data_memory;
        let mut ask = |encrypts: bool, data: &[u8], tag: &[u8; TAG_LEN]| {
            let session = sessions[usize::from(!encrypts)];
            let piece = Piece { service: wire.service, encrypts, session, iv: vector.iv, ad: &[], data, tag };
            let status = queues.data[0].exchange(&self.transport, memory, at, &piece, LIMIT)?;
            let mut answered = ([0; 32], [0; TAG_LEN]);
            memory.read(at + request::HEAD_LEN, &mut answered.0[..data.len()])?;
            memory.read(at + request::HEAD_LEN + data.len(), &mut answered.1)?;
            Ok::<_, Error>((status == answer::OK).then_some(answered))
        };
        let Some((sealed, tag)) = ask(true, vector.plain, &[0; TAG_LEN])? else { return Ok(false) };
        let sealed = &sealed[..vector.plain.len()];
        let opened = ask(false, sealed, &tag)?.is_some_and(|(opened, _)| opened.starts_with(vector.plain));
        let is_aead = wire.service == service::AEAD;
        let mut forged = tag;
        forged[0] ^= 1;
        let is_fooled = is_aead && ask(false, sealed, &forged)?.is_some();
        let is_right = match key_len == vector.key_len {
            true => sealed == vector.sealed && (!is_aead || tag == vector.tag),
            false => sealed != vector.plain,
        };
        for number in sessions {
            queues.control.close(&self.transport, wire.service, number)?;
        }
        Ok(is_right && opened && !is_fooled)
    }
}

/// A published vector, for one length of key; of others it is asked only that
/// what was encrypted is decrypted again.
struct Vector {
    key: [u8; KEY_MAX],
    key_len: usize,
    iv: &'static [u8],
    plain: &'static [u8],
    sealed: &'static [u8],
    tag: [u8; TAG_LEN],
}

/// NIST SP 800-38A, appendix F: the key of 128 bits, and the first block.
const SP800_38A_KEY: [u8; 16] =
    [0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c];
const SP800_38A_PLAIN: [u8; 16] =
    [0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a];

impl Vector {
    fn of(wire: Wire) -> Vector {
        let mut vector = Vector {
            key: std::array::from_fn(|at| at as u8),
            key_len: 16,
            iv: &[0; 12],
            plain: &[0; 16],
            sealed: &[],
            tag: [0; TAG_LEN],
        };
        match wire {
            // Test case 14 of "The Galois/Counter Mode of Operation" (McGrew and Viega 2004).
            Wire::GCM => {
                (vector.key, vector.key_len) = ([0; KEY_MAX], 32);
                vector.sealed = &[
                    0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d,
                    0x18,
                ];
                vector.tag = [
                    0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9,
                    0x19,
                ];
            }
            // IEEE 1619-2007, annex B, vector 2.
            Wire::XTS => {
                vector.key_len = 32;
                vector.key = [0x33; KEY_MAX];
                vector.key[..16].fill(0x11);
                vector.key[16..32].fill(0x22);
                vector.iv = &[0x33, 0x33, 0x33, 0x33, 0x33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                vector.plain = &[0x44; 32];
                vector.sealed = &[
                    0xc4, 0x54, 0x18, 0x5e, 0x6a, 0x16, 0x93, 0x6e, 0x39, 0x33, 0x40, 0x38, 0xac, 0xef, 0x83,
                    0x8b, 0xfb, 0x18, 0x6f, 0xff, 0x74, 0x80, 0xad, 0xc4, 0x28, 0x93, 0x82, 0xec, 0xd6, 0xd3,
                    0x94, 0xf0,
                ];
            }
            Wire { .. } => {
                vector.key[..16].copy_from_slice(&SP800_38A_KEY);
                vector.plain = &SP800_38A_PLAIN;
                if wire == Wire::CTR {
                    vector.iv = &[
                        0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd,
                        0xfe, 0xff,
                    ];
                    vector.sealed = &[
                        0x87, 0x4d, 0x61, 0x91, 0xb6, 0x20, 0xe3, 0x26, 0x1b, 0xef, 0x68, 0x64, 0x99, 0x0d,
                        0xb6, 0xce,
                    ];
                } else {
                    vector.iv = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
                    vector.sealed = &[
                        0x76, 0x49, 0xab, 0xac, 0x81, 0x19, 0xb2, 0x46, 0xce, 0xe9, 0x8e, 0x9b, 0x12, 0xe9,
                        0x19, 0x7d,
                    ];
                }
            }
        }
        vector
    }
}
