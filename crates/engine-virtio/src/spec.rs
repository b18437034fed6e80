//! Numbers and layouts of virtio 1.2: the PCI transport (section 4.1), split
//! rings (2.7) and the crypto device (5.9). All numbers are little-endian.

/// Of PCI: who made it, and which device it is (4.1.2).
pub const VENDOR: u16 = 0x1af4;
/// A crypto device without the transitional numbers.
pub const DEVICE: u16 = 0x1040 + 20;

/// PCI configuration space.
pub const CONFIG_LEN: usize = 256;
/// Where the list of capabilities begins.
pub const CAPABILITIES: usize = 0x34;
/// A capability of the vendor (4.1.4): id, next, length, type, BAR, then offset
/// at 8, length at 12, and for notifications a multiplier at 16.
pub const CAPABILITY_VENDOR: u8 = 0x09;

/// What a capability points at (4.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// [`common`].
    Common = 1,
    /// Doorbells.
    Notify = 2,
    /// The interrupt's status, without MSI-X.
    Isr = 3,
    /// [`config`].
    Device = 4,
}

/// The common configuration (4.1.4.3): offsets, with the bytes of each.
pub mod common {
    /// 4.
    pub const DEVICE_FEATURE_SELECT: u64 = 0;
    /// 4.
    pub const DEVICE_FEATURE: u64 = 4;
    /// 4.
    pub const DRIVER_FEATURE_SELECT: u64 = 8;
    /// 4.
    pub const DRIVER_FEATURE: u64 = 12;
    /// 2.
    pub const NUM_QUEUES: u64 = 18;
    /// 1.
    pub const DEVICE_STATUS: u64 = 20;
    /// 2.
    pub const QUEUE_SELECT: u64 = 22;
    /// 2.
    pub const QUEUE_SIZE: u64 = 24;
    /// 2.
    pub const QUEUE_MSIX_VECTOR: u64 = 26;
    /// 2.
    pub const QUEUE_ENABLE: u64 = 28;
    /// 2.
    pub const QUEUE_NOTIFY_OFF: u64 = 30;
    /// 8.
    pub const QUEUE_DESC: u64 = 32;
    /// 8.
    pub const QUEUE_DRIVER: u64 = 40;
    /// 8.
    pub const QUEUE_DEVICE: u64 = 48;
    /// All of it.
    pub const LEN: u64 = 56;
}

/// Bits of the device's status (2.1).
pub mod status {
    /// The driver has seen it.
    pub const ACKNOWLEDGE: u8 = 1;
    /// The driver can drive it.
    pub const DRIVER: u8 = 2;
    /// The driver drives it.
    pub const DRIVER_OK: u8 = 4;
    /// Both agree on features.
    pub const FEATURES_OK: u8 = 8;
    /// The device wants to be reset.
    pub const NEEDS_RESET: u8 = 64;
}

/// Features (6), by the number of their bit.
pub mod feature {
    /// Events are asked for by index (2.7.10).
    pub const EVENT_IDX: u64 = 1 << 29;
    /// Virtio 1.
    pub const VERSION_1: u64 = 1 << 32;
    /// Memory is reached through an IOMMU or what takes its place.
    pub const ACCESS_PLATFORM: u64 = 1 << 33;
}

/// The crypto device's configuration (5.9.4): offsets.
pub mod config {
    /// Bit 0: it is ready.
    pub const STATUS: u64 = 0;
    /// Data queues; the control queue comes behind them.
    pub const DATA_QUEUES_MAX: u64 = 4;
    /// A bit for each service.
    pub const SERVICES: u64 = 8;
    /// A bit for each cipher.
    pub const CIPHERS: u64 = 12;
    /// A bit for each AEAD.
    pub const AEADS: u64 = 32;
    /// Bytes of the longest key.
    pub const KEY_LEN_MAX: u64 = 36;
    /// 8 bytes: those of the longest request.
    pub const REQUEST_LEN_MAX: u64 = 48;
    /// All of it.
    pub const LEN: usize = 56;
}

/// Services (5.9.4), by number.
pub mod service {
    /// Symmetric ciphers.
    pub const CIPHER: u32 = 0;
    /// Authenticated ones.
    pub const AEAD: u32 = 3;
}

/// Algorithms (5.9.4), by number within their service.
pub mod algorithm {
    /// AES in CBC.
    pub const AES_CBC: u32 = 3;
    /// AES in counter mode.
    pub const AES_CTR: u32 = 4;
    /// AES in XTS.
    pub const AES_XTS: u32 = 13;
    /// AES-GCM.
    pub const AES_GCM: u32 = 1;
}

/// Operations, a service above each (5.9.7).
pub mod opcode {
    /// Data: `| service << 8`.
    pub const ENCRYPT: u32 = 0;
    /// Data: `| service << 8`.
    pub const DECRYPT: u32 = 1;
    /// Control: `| service << 8`.
    pub const CREATE_SESSION: u32 = 2;
    /// Control: `| service << 8`.
    pub const DESTROY_SESSION: u32 = 3;
}

/// Directions of a session.
pub const ENCRYPTS: u32 = 1;
/// See [`ENCRYPTS`].
pub const DECRYPTS: u32 = 2;
/// A symmetric request of a cipher alone.
pub const CIPHER_ALONE: u32 = 1;

/// How a request ended (5.9.7).
pub mod answer {
    /// Well.
    pub const OK: u8 = 0;
    /// Not.
    pub const ERROR: u8 = 1;
    /// The tag was wrong.
    pub const BAD_MESSAGE: u8 = 2;
    /// There is no such algorithm.
    pub const NOT_SUPPORTED: u8 = 3;
    /// There is no such session.
    pub const INVALID_SESSION: u8 = 4;
}

/// Bytes of a control request before the key: header and fixed part.
pub const CONTROL_LEN: usize = 72;
/// Bytes of the answer to the creation of a session: number, status, padding.
pub const SESSION_ANSWER_LEN: usize = 16;
/// Bytes of a data request before IV and data.
pub const REQUEST_LEN: usize = 72;
/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// Descriptors (2.7.5): address, length, flags, next.
pub const DESCRIPTOR_LEN: usize = 16;
/// Another comes behind it.
pub const DESCRIPTOR_NEXT: u16 = 1;
/// The device writes it.
pub const DESCRIPTOR_WRITE: u16 = 2;

/// Bytes of the ring of what is available: flags, index, entries, event.
#[must_use]
pub const fn available_len(size: u16) -> usize {
    6 + 2 * size as usize
}

/// Bytes of the ring of what was used: flags, index, entries, event.
#[must_use]
pub const fn used_len(size: u16) -> usize {
    6 + 8 * size as usize
}

/// Whether who moved an index from `old` to `new` has passed `event`, at which
/// the other side asked to be told (2.7.10).
#[must_use]
pub const fn has_passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// A control request that opens a session.
#[must_use]
pub fn create_session(service: u32, algorithm: u32, key_len: u32, direction: u32) -> [u8; CONTROL_LEN] {
    let mut request = [0; CONTROL_LEN];
    put(&mut request, 0, service << 8 | opcode::CREATE_SESSION);
    put(&mut request, 4, algorithm);
    put(&mut request, 16, algorithm);
    put(&mut request, 20, key_len);
    if service == service::AEAD {
        put(&mut request, 24, TAG_LEN as u32);
        put(&mut request, 32, direction);
    } else {
        put(&mut request, 24, direction);
        // Behind the largest of the alternatives, of 48 bytes.
        put(&mut request, 64, CIPHER_ALONE);
    }
    request
}

/// A control request that closes a session.
#[must_use]
pub fn destroy_session(service: u32, session: u64) -> [u8; CONTROL_LEN] {
    let mut request = [0; CONTROL_LEN];
    put(&mut request, 0, service << 8 | opcode::DESTROY_SESSION);
    request[16..24].copy_from_slice(&session.to_le_bytes());
    request
}

/// A request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`opcode`], with the service.
    pub opcode: u32,
    /// The session's number.
    pub session: u64,
    /// Bytes of the IV.
    pub iv_len: u32,
    /// Bytes of associated data.
    pub ad_len: u32,
    /// Bytes of data in, with a tag that is to be checked.
    pub source_len: u32,
    /// Bytes of data out, with a tag that is made.
    pub target_len: u32,
}

impl Request {
    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut request = [0; REQUEST_LEN];
        put(&mut request, 0, self.opcode);
        request[8..16].copy_from_slice(&self.session.to_le_bytes());
        put(&mut request, 24, self.iv_len);
        if self.opcode >> 8 == service::AEAD {
            put(&mut request, 28, self.ad_len);
            put(&mut request, 32, self.source_len);
            put(&mut request, 36, self.target_len);
        } else {
            put(&mut request, 28, self.source_len);
            put(&mut request, 32, self.target_len);
            // Behind the largest of the alternatives, of 40 bytes.
            put(&mut request, 64, CIPHER_ALONE);
        }
        request
    }

    /// What was sent.
    #[must_use]
    pub fn decode(request: &[u8; REQUEST_LEN]) -> Request {
        let opcode = word(request, 0);
        let [ad_len, source_len, target_len] = match opcode >> 8 == service::AEAD {
            true => [28, 32, 36].map(|at| word(request, at)),
            false => [0, word(request, 28), word(request, 32)],
        };
        let session = u64::from_le_bytes(request[8..16].try_into().expect("eight bytes"));
        Request { opcode, session, iv_len: word(request, 24), ad_len, source_len, target_len }
    }
}

/// The number of four bytes at `at`.
///
/// # Panics
/// When these are not there.
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back() {
        for opcode in [service::CIPHER << 8 | opcode::ENCRYPT, service::AEAD << 8 | opcode::DECRYPT] {
            let ad_len = if opcode >> 8 == service::AEAD { 5 } else { 0 };
            let request =
                Request { opcode, session: 1 << 40, iv_len: 16, ad_len, source_len: 77, target_len: 78 };
            assert_eq!(Request::decode(&request.encode()), request);
        }
    }

    /// The example of 2.7.10 in words: told when the index goes past the event.
    #[test]
    fn an_event_is_passed_once() {
        assert!(has_passed(5, 5, 6) && has_passed(5, 3, 9));
        assert!(!has_passed(5, 6, 9) && !has_passed(5, 3, 5));
        assert!(has_passed(u16::MAX, u16::MAX, 0) && !has_passed(2, u16::MAX, 2));
    }
}
