//! One request, in 32 bytes.

/// Bytes of a record.
pub const RECORD_LEN: usize = 32;
/// `cpu_ns` of a request whose CPU time was not taken.
pub const CPU_UNKNOWN: u32 = u32::MAX;

const BATCHES_MAX: u8 = 63;
const ON_CPU: u8 = 1 << 6;
const ON_DEVICE: u8 = 1 << 7;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Bytes of a file or disk.
    Read = 0,
    /// The same, to be stored.
    Write = 1,
    /// That what was written lasts.
    Durable = 2,
    /// Names and attributes.
    Names = 3,
    /// Anything else.
    Other = 4,
}

impl Kind {
    /// Every kind, each at its own number.
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Durable, Kind::Names, Kind::Other];

    /// For reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Durable => "durable",
            Kind::Names => "names",
            Kind::Other => "other",
        }
    }
}

/// Where a request begins, seen from the one before it in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Offset {
    /// It has no offset.
    None = 0,
    /// Where that one ended.
    Sequential = 1,
    /// Within 1 MiB of there.
    Near = 2,
    /// Elsewhere.
    Far = 3,
}

impl Offset {
    const ALL: [Offset; 4] = [Offset::None, Offset::Sequential, Offset::Near, Offset::Far];
}

/// See the module, and for each field the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the trace began, in nanoseconds.
    pub start_ns: u64,
    /// From receiving it to having answered.
    pub latency_ns: u32,
    /// Of it, in submissions to engines; their CPU time where `cpu_ns` is known.
    pub cryptography_ns: u32,
    /// CPU time of its thread meanwhile, or [`CPU_UNKNOWN`].
    pub cpu_ns: u32,
    /// Asked for.
    pub bytes: u32,
    /// That engines were given.
    pub sealed_bytes: u32,
    /// Who asked; 0 is the kernel.
    pub caller: u16,
    /// What.
    pub kind: Kind,
    /// Where.
    pub offset: Offset,
    /// Batches that engines were given, at most 63.
    pub batches: u8,
    /// Some were computed when they were submitted.
    pub on_cpu: bool,
    /// Some were not.
    pub on_device: bool,
}

impl Record {
    /// When it was answered, since the trace began.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(u64::from(self.latency_ns))
    }

    /// As it stands in a file.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..8].copy_from_slice(&self.start_ns.to_le_bytes());
        let words = [self.latency_ns, self.cryptography_ns, self.cpu_ns, self.bytes, self.sealed_bytes];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_le_bytes());
        }
        bytes[28..30].copy_from_slice(&self.caller.to_le_bytes());
        bytes[30] = self.kind as u8 | (self.offset as u8) << 4;
        let on_cpu = if self.on_cpu { ON_CPU } else { 0 };
        let on_device = if self.on_device { ON_DEVICE } else { 0 };
        bytes[31] = self.batches.min(BATCHES_MAX) | on_cpu | on_device;
        bytes
    }

    /// The reverse; `None` of bytes that no record has.
    #[must_use]
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Record> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Some(Record {
            start_ns: u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")),
            latency_ns: word(8),
            cryptography_ns: word(12),
            cpu_ns: word(16),
            bytes: word(20),
            sealed_bytes: word(24),
            caller: u16::from_le_bytes([bytes[28], bytes[29]]),
            kind: *Kind::ALL.get(usize::from(bytes[30] & 15))?,
            offset: *Offset::ALL.get(usize::from(bytes[30] >> 4))?,
            batches: bytes[31] & BATCHES_MAX,
            on_cpu: bytes[31] & ON_CPU != 0,
            on_device: bytes[31] & ON_DEVICE != 0,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One with nothing in it.
    pub(crate) fn request(start_ns: u64, latency_ns: u32, caller: u16, kind: Kind) -> Record {
        Record {
            start_ns,
            latency_ns,
            cryptography_ns: 0,
            cpu_ns: CPU_UNKNOWN,
            bytes: 4096,
            sealed_bytes: 4096,
            caller,
            kind,
            offset: Offset::Far,
            batches: 1,
            on_cpu: true,
            on_device: false,
        }
    }

    #[test]
    fn records_come_back_and_stand_where_the_description_says() {
        let record = Record {
            start_ns: 0x0102_0304_0506_0708,
            latency_ns: 0x11,
            cryptography_ns: 0x22,
            cpu_ns: 0x33,
            bytes: 0x44,
            sealed_bytes: 0x55,
            caller: 0x0607,
            kind: Kind::Durable,
            offset: Offset::Near,
            batches: 5,
            on_cpu: true,
            on_device: true,
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        for (at, first) in [(8, 0x11), (12, 0x22), (16, 0x33), (20, 0x44), (24, 0x55), (28, 7)] {
            assert_eq!(bytes[at], first, "{at}");
        }
        assert_eq!((bytes[30], bytes[31]), (0x22, 0xc5));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/whatif.md");
        let document = std::fs::read_to_string(path).expect("the description");
        for row in [
            "| 0 | 8 | `start_ns` |",
            "| 8 | 4 | `latency_ns` |",
            "| 12 | 4 | `cryptography_ns` |",
            "| 16 | 4 | `cpu_ns` |",
            "| 20 | 4 | `bytes` |",
            "| 24 | 4 | `sealed_bytes` |",
            "| 28 | 2 | `caller` |",
            "| 30 | 1 | `kind` |",
            "| 31 | 1 | `batches` |",
        ] {
            assert!(document.contains(row), "{row}");
        }
    }

    #[test]
    fn what_no_record_has_is_refused() {
        let mut bytes = request(1, 2, 3, Kind::Other).encode();
        bytes[30] = 5;
        assert_eq!(Record::decode(&bytes), None);
        bytes[30] = 4 << 4;
        assert_eq!(Record::decode(&bytes), None);
    }
}
