//! Every bound on what is read from a LUKS header.

/// Bytes of a LUKS2 header copy, binary part and JSON together (LUKS2, 2.2).
pub const HEADER_SIZES: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];

/// Deepest nesting of the JSON area. The specification's own objects go four
/// deep, tokens may go deeper.
pub const JSON_DEPTH_MAX: usize = 32;

/// Key slots of LUKS2 (LUKS2, 3.2).
pub const KEYSLOTS_MAX: usize = 32;
/// Tokens, segments and digests of LUKS2, each.
pub const OBJECTS_MAX: usize = 32;
/// Largest bytes of all key slot areas together (LUKS2, 2.5).
pub const KEYSLOTS_AREA_MAX: u64 = 128 << 20;

/// Stripes of the anti-forensic splitter: no other number is in use.
pub const STRIPES: u32 = 4000;

/// Largest bytes of a volume key.
pub const KEY_LEN_MAX: u32 = 64;
/// Smallest bytes of a volume key.
pub const KEY_LEN_MIN: u32 = 16;

/// Most memory of Argon2 in KiB.
pub const ARGON2_MEMORY_MAX: u64 = 4 << 20;
/// Most lanes of Argon2.
pub const ARGON2_LANES_MAX: u64 = 64;
/// Most of memory in KiB times passes of Argon2: four GiB 32 times.
pub const ARGON2_WORK_MAX: u64 = ARGON2_MEMORY_MAX * 32;
/// Most iterations of PBKDF2: minutes on a fast CPU.
pub const PBKDF2_ITERATIONS_MAX: u64 = 1 << 28;
/// Fewest iterations of PBKDF2 that a new slot gets (LUKS1, 4.1).
pub const PBKDF2_ITERATIONS_FLOOR: u32 = 1000;

/// Shortest salt of Argon2 in bytes (RFC 9106, section 3.1).
pub const ARGON2_SALT_LEN_MIN: usize = 8;
/// Longest salt or digest in bytes.
pub const SALT_LEN_MAX: usize = 256;

const _: () = assert!(ARGON2_WORK_MAX > ARGON2_MEMORY_MAX);
const _: () = assert!(HEADER_SIZES[8] < KEYSLOTS_AREA_MAX);
