//! What a driver sees in configuration space and in the first BAR.

use strongroom_engine_virtio::spec::{
    self, CAPABILITIES, CAPABILITY_VENDOR, CONFIG_LEN, Part, common, config, feature, status,
};

use crate::Model;
use crate::compute::{AEADS, CIPHERS};

/// Bytes of the BAR, and where its parts are.
pub(crate) const BAR_LEN: u64 = 0x4000;
const ISR: u64 = 0x1000;
const DEVICE: u64 = 0x2000;
const NOTIFY: u64 = 0x3000;
/// Bytes between doorbells.
const DOORBELL: u64 = 4;
/// Vectors of MSI-X.
pub(crate) const VECTORS: u16 = 8;

const FEATURES: u64 = feature::VERSION_1 | feature::EVENT_IDX;

/// PCI configuration space with the list of capabilities.
pub(crate) fn config_space() -> [u8; CONFIG_LEN] {
    let mut space = [0; CONFIG_LEN];
    space[..2].copy_from_slice(&spec::VENDOR.to_le_bytes());
    space[2..4].copy_from_slice(&spec::DEVICE.to_le_bytes());
    // There are capabilities.
    space[6] = 1 << 4;
    // Revision 1; an encryption controller.
    (space[8], space[10], space[11]) = (1, 0x80, 0x10);
    let mut at = 0x40;
    space[CAPABILITIES] = at as u8;
    let parts = [
        (Part::Common, 0, common::LEN),
        (Part::Isr, ISR, 4),
        (Part::Device, DEVICE, config::LEN as u64),
        (Part::Notify, NOTIFY, BAR_LEN - NOTIFY),
    ];
    for (index, (part, offset, len)) in parts.into_iter().enumerate() {
        let next = if index + 1 < parts.len() { at + 20 } else { 0 };
        space[at] = CAPABILITY_VENDOR;
        (space[at + 1], space[at + 2], space[at + 3]) = (next as u8, 20, part as u8);
        space[at + 8..at + 12].copy_from_slice(&(offset as u32).to_le_bytes());
        space[at + 12..at + 16].copy_from_slice(&(len as u32).to_le_bytes());
        space[at + 16..at + 20].copy_from_slice(&(DOORBELL as u32).to_le_bytes());
        at += 20;
    }
    space
}

/// The registers of one queue.
#[derive(Clone, Default)]
pub(crate) struct QueueRegisters {
    pub(crate) size: u16,
    pub(crate) vector: u16,
    pub(crate) is_enabled: bool,
    pub(crate) places: [u64; 3],
}

/// The registers.
pub(crate) struct Registers {
    device: [u8; config::LEN],
    device_half: u32,
    driver_half: u32,
    driver_features: u64,
    pub(crate) status: u8,
    selected: u16,
    pub(crate) queues: Vec<QueueRegisters>,
    size: u16,
}

/// What a write asks for, besides being remembered.
pub(crate) enum Effect {
    None,
    Reset,
    Enable(u16),
    Doorbell(u16),
}

impl Registers {
    pub(crate) fn new(model: &Model) -> Registers {
        let mut device = [0; config::LEN];
        let mut put = |at: u64, number: u32| {
            device[at as usize..at as usize + 4].copy_from_slice(&number.to_le_bytes());
        };
        put(config::STATUS, 1);
        put(config::DATA_QUEUES_MAX, model.queues.into());
        put(config::SERVICES, 1 << spec::service::CIPHER | 1 << spec::service::AEAD);
        put(config::CIPHERS, CIPHERS);
        put(config::AEADS, AEADS);
        put(config::KEY_LEN_MAX, 64);
        put(config::REQUEST_LEN_MAX, model.request_len_max as u32);
        put(config::REQUEST_LEN_MAX + 4, (model.request_len_max >> 32) as u32);
        let mut registers = Registers {
            device,
            device_half: 0,
            driver_half: 0,
            driver_features: 0,
            status: 0,
            selected: 0,
            queues: vec![QueueRegisters::default(); usize::from(model.queues) + 1],
            size: model.queue_size,
        };
        registers.reset();
        registers
    }

    pub(crate) fn reset(&mut self) {
        (self.device_half, self.driver_half, self.driver_features) = (0, 0, 0);
        (self.status, self.selected) = (0, 0);
        let fresh = QueueRegisters { size: self.size, vector: u16::MAX, ..QueueRegisters::default() };
        self.queues.fill(fresh);
    }

    fn queue(&mut self) -> Option<&mut QueueRegisters> {
        self.queues.get_mut(usize::from(self.selected))
    }

    /// Reads the BAR.
    pub(crate) fn read(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        if let Some(at) = offset.checked_sub(DEVICE).filter(|at| *at < config::LEN as u64) {
            let part = &self.device[at as usize..];
            let len = part.len().min(bytes.len());
            bytes[..len].copy_from_slice(&part[..len]);
            return;
        }
        let half =
            |features: u64, half: u32| if half < 2 { features >> (32 * half) & 0xffff_ffff } else { 0 };
        let queues = self.queues.len() as u64;
        let selected = self.selected;
        let number = match offset {
            common::DEVICE_FEATURE_SELECT => self.device_half.into(),
            common::DEVICE_FEATURE => half(FEATURES, self.device_half),
            common::DRIVER_FEATURE_SELECT => self.driver_half.into(),
            common::DRIVER_FEATURE => half(self.driver_features, self.driver_half),
            common::NUM_QUEUES => queues,
            common::DEVICE_STATUS => self.status.into(),
            common::QUEUE_SELECT => selected.into(),
            common::QUEUE_SIZE => self.queue().map_or(0, |queue| queue.size.into()),
            common::QUEUE_MSIX_VECTOR => {
                self.queue().map_or(u64::from(u16::MAX), |queue| queue.vector.into())
            }
            common::QUEUE_ENABLE => self.queue().map_or(0, |queue| queue.is_enabled.into()),
            common::QUEUE_NOTIFY_OFF => selected.into(),
            _ => 0,
        };
        let number = number.to_le_bytes();
        let len = bytes.len().min(8);
        bytes[..len].copy_from_slice(&number[..len]);
    }

    /// Writes the BAR.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Effect {
        let mut number = [0; 8];
        let len = bytes.len().min(8);
        number[..len].copy_from_slice(&bytes[..len]);
        let number = u64::from_le_bytes(number);
        if offset >= NOTIFY {
            return Effect::Doorbell(((offset - NOTIFY) / DOORBELL) as u16);
        }
        let selected = self.selected;
        let size_max = self.size;
        let shift = 32 * self.driver_half.min(1);
        match (offset, self.queue()) {
            (common::DEVICE_FEATURE_SELECT, _) => self.device_half = number as u32,
            (common::DRIVER_FEATURE_SELECT, _) => self.driver_half = number as u32,
            (common::DRIVER_FEATURE, _) => {
                self.driver_features = self.driver_features & !(0xffff_ffff << shift) | number << shift;
            }
            (common::DEVICE_STATUS, _) if number == 0 => return Effect::Reset,
            (common::DEVICE_STATUS, _) => {
                self.status = number as u8;
                let agreed =
                    self.driver_features & !FEATURES == 0 && self.driver_features & feature::VERSION_1 != 0;
                if !agreed {
                    self.status &= !status::FEATURES_OK;
                }
            }
            (common::QUEUE_SELECT, _) => self.selected = number as u16,
            (common::QUEUE_SIZE, Some(queue)) => queue.size = (number as u16).clamp(1, size_max),
            (common::QUEUE_MSIX_VECTOR, Some(queue)) => {
                queue.vector = if number < VECTORS.into() { number as u16 } else { u16::MAX };
            }
            (common::QUEUE_DESC, Some(queue)) => queue.places[0] = number,
            (common::QUEUE_DRIVER, Some(queue)) => queue.places[1] = number,
            (common::QUEUE_DEVICE, Some(queue)) => queue.places[2] = number,
            (common::QUEUE_ENABLE, Some(queue)) if number == 1 => {
                queue.is_enabled = true;
                return Effect::Enable(selected);
            }
            _ => {}
        }
        Effect::None
    }
}
