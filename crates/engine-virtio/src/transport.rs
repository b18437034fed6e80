//! A virtio function on PCI: its parts, its features, its queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::spec::{self, Part, common, config, feature, status};
use crate::wire::Wire;
use crate::{Bus, Error};

/// How long a reset may take.
const RESET_LIMIT: Duration = Duration::from_secs(2);

/// Where a part of the function is.
#[derive(Clone, Copy, Default)]
struct Place {
    bar: u8,
    offset: u64,
}

/// A function that has been found.
pub(crate) struct Transport {
    bus: Arc<dyn Bus>,
    common: Place,
    notify: Place,
    notify_multiplier: u32,
    device: Place,
}

/// What the device says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) data_queues: u32,
    pub(crate) ciphers: u32,
    pub(crate) aeads: u32,
    pub(crate) key_len_max: usize,
    pub(crate) request_len_max: u64,
}

impl Offer {
    /// Whether it is advertised.
    pub(crate) fn has(&self, wire: Wire) -> bool {
        let algorithms = if wire.service == spec::service::AEAD { self.aeads } else { self.ciphers };
        algorithms >> wire.algorithm & 1 == 1
    }
}

/// Where a queue's rings are, as the device sees them.
pub(crate) struct QueuePlaces {
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

impl Transport {
    /// Finds the parts by the list of capabilities.
    pub(crate) fn find(bus: Arc<dyn Bus>) -> Result<Transport, Error> {
        let mut space = [0; spec::CONFIG_LEN];
        bus.read_config(0, &mut space)?;
        let number = |at: usize| u16::from_le_bytes([space[at], space[at + 1]]);
        if (number(0), number(2)) != (spec::VENDOR, spec::DEVICE) {
            return Err(Error::Device("it is no crypto device of virtio 1"));
        }
        let mut found = [None; 5];
        let mut notify_multiplier = 0;
        let mut at = usize::from(space[spec::CAPABILITIES]);
        // A list that ends within the space has no more than this.
        for _ in 0..spec::CONFIG_LEN / 4 {
            if at == 0 || at + 20 > spec::CONFIG_LEN {
                break;
            }
            let part = usize::from(space[at + 3]);
            if space[at] == spec::CAPABILITY_VENDOR
                && (1..found.len()).contains(&part)
                && found[part].is_none()
            {
                let offset = spec::word(&space, at + 8).into();
                found[part] = Some(Place { bar: space[at + 4], offset });
                if part == Part::Notify as usize {
                    notify_multiplier = spec::word(&space, at + 16);
                }
            }
            at = usize::from(space[at + 1]);
        }
        let part = |part: Part| found[part as usize].ok_or(Error::Device("a part is missing"));
        let (common, notify, device) = (part(Part::Common)?, part(Part::Notify)?, part(Part::Device)?);
        Ok(Transport { bus, common, notify, notify_multiplier, device })
    }

    fn read<const N: usize>(&self, offset: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.bus.read(self.common.bar, self.common.offset + offset, &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.bus.write(self.common.bar, self.common.offset + offset, bytes)?)
    }

    pub(crate) fn status(&self) -> Result<u8, Error> {
        Ok(self.read::<1>(common::DEVICE_STATUS)?[0])
    }

    /// Resets it: it forgets queues and sessions, and touches no memory.
    pub(crate) fn reset(&self) -> Result<(), Error> {
        self.write(common::DEVICE_STATUS, &[0])?;
        let began = Instant::now();
        while self.status()? != 0 {
            if began.elapsed() > RESET_LIMIT {
                return Err(Error::Late);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Agrees on features, from a reset on.
    pub(crate) fn negotiate(&self) -> Result<Offer, Error> {
        let mut state = status::ACKNOWLEDGE | status::DRIVER;
        self.write(common::DEVICE_STATUS, &[state])?;
        let mut offered = 0;
        for half in [0u32, 1] {
            self.write(common::DEVICE_FEATURE_SELECT, &half.to_le_bytes())?;
            let word = u32::from_le_bytes(self.read(common::DEVICE_FEATURE)?);
            offered |= u64::from(word) << (32 * half);
        }
        let needed = feature::VERSION_1 | feature::EVENT_IDX;
        if offered & needed != needed {
            return Err(Error::Device("it lacks version 1 or events by index"));
        }
        let taken = needed | offered & feature::ACCESS_PLATFORM;
        for half in [0u32, 1] {
            self.write(common::DRIVER_FEATURE_SELECT, &half.to_le_bytes())?;
            self.write(common::DRIVER_FEATURE, &((taken >> (32 * half)) as u32).to_le_bytes())?;
        }
        state |= status::FEATURES_OK;
        self.write(common::DEVICE_STATUS, &[state])?;
        if self.status()? & status::FEATURES_OK == 0 {
            return Err(Error::Device("it does not take the features"));
        }
        self.offer()
    }

    fn offer(&self) -> Result<Offer, Error> {
        let mut bytes = [0; config::LEN];
        self.bus.read(self.device.bar, self.device.offset, &mut bytes)?;
        let word = |at: u64| spec::word(&bytes, at as usize);
        let services = word(config::SERVICES);
        let of_service =
            |service: u32, algorithms: u32| if services >> service & 1 == 1 { algorithms } else { 0 };
        let length: [u8; 8] = bytes[config::REQUEST_LEN_MAX as usize..][..8].try_into().expect("eight bytes");
        let offer = Offer {
            data_queues: word(config::DATA_QUEUES_MAX),
            ciphers: of_service(spec::service::CIPHER, word(config::CIPHERS)),
            aeads: of_service(spec::service::AEAD, word(config::AEADS)),
            key_len_max: word(config::KEY_LEN_MAX) as usize,
            request_len_max: u64::from_le_bytes(length),
        };
        if word(config::STATUS) & 1 == 0 || offer.data_queues == 0 {
            return Err(Error::Device("it is not ready"));
        }
        let queues = u32::from(u16::from_le_bytes(self.read(common::NUM_QUEUES)?));
        if offer.data_queues >= queues {
            return Err(Error::Device("it has no control queue"));
        }
        Ok(offer)
    }

    /// Descriptors that a queue has at most.
    pub(crate) fn queue_size(&self, queue: u16) -> Result<u16, Error> {
        self.write(common::QUEUE_SELECT, &queue.to_le_bytes())?;
        Ok(u16::from_le_bytes(self.read(common::QUEUE_SIZE)?))
    }

    /// Sets a queue up, with a vector of MSI-X or none.
    pub(crate) fn enable(
        &self,
        queue: u16,
        size: u16,
        vector: Option<u16>,
        places: &QueuePlaces,
    ) -> Result<(), Error> {
        let vector = vector.unwrap_or(u16::MAX);
        self.write(common::QUEUE_SELECT, &queue.to_le_bytes())?;
        self.write(common::QUEUE_SIZE, &size.to_le_bytes())?;
        self.write(common::QUEUE_MSIX_VECTOR, &vector.to_le_bytes())?;
        if u16::from_le_bytes(self.read(common::QUEUE_MSIX_VECTOR)?) != vector {
            return Err(Error::Device("it has no vector for a queue"));
        }
        self.write(common::QUEUE_DESC, &places.descriptors.to_le_bytes())?;
        self.write(common::QUEUE_DRIVER, &places.available.to_le_bytes())?;
        self.write(common::QUEUE_DEVICE, &places.used.to_le_bytes())?;
        self.write(common::QUEUE_ENABLE, &1u16.to_le_bytes())
    }

    /// The device may begin.
    pub(crate) fn start(&self) -> Result<(), Error> {
        let state = self.status()? | status::DRIVER_OK;
        self.write(common::DEVICE_STATUS, &[state])
    }

    /// The doorbell of a queue.
    pub(crate) fn doorbell(&self, queue: u16) -> Result<u64, Error> {
        self.write(common::QUEUE_SELECT, &queue.to_le_bytes())?;
        let offset = u16::from_le_bytes(self.read(common::QUEUE_NOTIFY_OFF)?);
        Ok(self.notify.offset + u64::from(offset) * u64::from(self.notify_multiplier))
    }

    /// Tells the device that a queue has more, without waiting for it.
    pub(crate) fn ring(&self, doorbell: u64, queue: u16) -> Result<(), Error> {
        Ok(self.bus.post(self.notify.bar, doorbell, &queue.to_le_bytes())?)
    }
}
