//! Looks for secrets in the memory of a running process, and tells in what kind
//! of mapping each was found.
//!
//! Known secrets are looked for as their bytes. Expanded AES-256 keys are found
//! without being known, by the recurrence of the key schedule (FIPS 197, 5.2),
//! as memory forensics does it: so those derived for a nonce are found too. So
//! are states of ChaCha20, by their constant (RFC 8439, 2.3).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Words of an expanded AES-256 key.
const WORDS: usize = 60;
/// Read at once; what lies across two reads is found by their overlap.
const AT_ONCE: usize = 4 << 20;
const OVERLAP: usize = 4 * WORDS;

/// What a state of ChaCha20 is called.
pub(crate) const CHACHA: &str = "a state of ChaCha20";

/// Bytes to look for, at least 16.
pub(crate) struct Pattern {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Both halves of a key: what keeps one of them is found.
pub(crate) fn halves(name: &str, key: &[u8]) -> Vec<Pattern> {
    let halves = key.chunks_exact(16).enumerate();
    halves.map(|(at, half)| Pattern { name: format!("{name}, part {at}"), bytes: half.to_vec() }).collect()
}

/// A secret that was found.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) address: usize,
    name_and_place: String,
    /// Locked, and left out of core dumps.
    pub(crate) is_kept: bool,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name_and_place)
    }
}

struct Mapping {
    line: String,
    start: usize,
    end: usize,
    is_kept: bool,
}

fn mappings(process: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps")).expect("a process that root can read");
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let flags: Vec<&str> = flags.split_whitespace().collect();
            mappings.last_mut().expect("after its mapping").is_kept =
                flags.contains(&"lo") && flags.contains(&"dd");
        } else if let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-'))
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            mappings.push(Mapping { line: line.to_owned(), start, end, is_kept: false });
        }
    }
    assert!(mappings.len() > 10, "{text}");
    mappings
}

/// Every place where a secret stands in the memory of `process`.
pub(crate) fn scan(process: u32, patterns: &[Pattern]) -> Vec<Found> {
    let memory = File::open(format!("/proc/{process}/mem")).expect("a process that root can read");
    let mut found = Vec::new();
    let mut read = 0;
    for mapping in mappings(process) {
        let mut at = mapping.start;
        while at < mapping.end {
            let mut bytes = vec![0; AT_ONCE.min(mapping.end - at)];
            // What cannot be read has no secret for anybody: guard pages, devices.
            if memory.read_exact_at(&mut bytes, at as u64).is_ok() {
                read += bytes.len();
                // The constant stands in the program as well, which is not written to.
                let is_program = !mapping.line.contains(" rw");
                let all = search(&bytes, patterns).into_iter();
                for (name, offset) in all.filter(|(name, _)| !(is_program && name == CHACHA)) {
                    found.push((name, at + offset));
                }
            }
            at += if bytes.len() == AT_ONCE { AT_ONCE - OVERLAP } else { bytes.len() };
        }
    }
    assert!(read > 1 << 20, "only {read} bytes of the process were read");
    // As they are now: the process may have opened more locked memory meanwhile.
    let mappings = mappings(process);
    let tell = |(name, address): (String, usize)| {
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
        let line = mapping.map_or("gone", |mapping| &mapping.line);
        let name_and_place = format!("{name} at {address:x} in {line}");
        Found { name, address, name_and_place, is_kept: mapping.is_some_and(|mapping| mapping.is_kept) }
    };
    found.into_iter().map(tell).collect()
}

fn search(bytes: &[u8], patterns: &[Pattern]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    // Two pairs of bytes decide most places. One would not: patterns are random, and one that
    // begins with zeros would have to be held against all memory that was never used.
    let pair = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let of_all = |from: usize| {
        let mut pairs = vec![false; 1 << 16];
        patterns.iter().for_each(|pattern| pairs[pair(&pattern.bytes[from..])] = true);
        pairs
    };
    let (first, second) = (of_all(0), of_all(2));
    for at in 0..bytes.len().saturating_sub(15) {
        if first[pair(&bytes[at..])] && second[pair(&bytes[at + 2..])] {
            let here = patterns.iter().filter(|pattern| bytes[at..].starts_with(&pattern.bytes));
            found.extend(here.map(|pattern| (pattern.name.clone(), at)));
        }
    }
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    for (at, words) in words.windows(WORDS).enumerate() {
        if expands(words) {
            found.push(("an expanded AES-256 key".to_owned(), 4 * at));
        } else if decrypts(words) {
            found.push(("an expanded AES-256 key for decryption".to_owned(), 4 * at));
        }
    }
    for (at, words) in words.windows(12).enumerate() {
        let is_state = words[..4] == [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
        if is_state && words[4..].iter().all(|word| word.count_ones().abs_diff(16) < 14) {
            found.push((CHACHA.to_owned(), 4 * at));
        }
    }
    found
}

/// True for the words of an expanded AES-256 key.
fn expands(words: &[u32]) -> bool {
    // Three of every four words are a sum of two others.
    let sums = |i: usize| words[i] == words[i - 8] ^ words[i - 1];
    (9..12).all(sums) && words[8] != 0 && expanded(&words[..8]) == words[..WORDS]
}

/// The same for the equivalent inverse cipher (FIPS 197, 5.3.5): the round keys
/// the other way round, those between the outer two after InvMixColumns, which
/// keeps sums.
fn decrypts(words: &[u32]) -> bool {
    let key = |round: usize| &words[4 * (14 - round)..][..4];
    let sums = |round: usize| (1..4).all(|at| key(round)[at] == key(round - 2)[at] ^ key(round)[at - 1]);
    // Most of memory is zero, of which any sum holds.
    words[4] != 0 && (3..14).all(sums) && (1..14).all(|round| key(round).iter().all(|word| *word != 0))
}

/// FIPS 197, 5.2, in little-endian words.
pub(crate) fn expanded(key: &[u32]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    words[..8].copy_from_slice(&key[..8]);
    let mut constant = 1;
    for i in 8..WORDS {
        let mut word = words[i - 1];
        if i % 8 == 0 {
            word = substituted(word.rotate_right(8)) ^ constant;
            constant <<= 1;
        } else if i % 8 == 4 {
            word = substituted(word);
        }
        words[i] = words[i - 8] ^ word;
    }
    words
}

fn substituted(word: u32) -> u32 {
    u32::from_le_bytes(word.to_le_bytes().map(substitute))
}

/// The S-box, computed: the inverse in GF(2^8), then the affine map.
fn substitute(byte: u8) -> u8 {
    let times = |mut a: u8, mut b: u8| {
        let mut product = 0;
        while b != 0 {
            product ^= a * (b & 1);
            a = (a << 1) ^ (0x1b * (a >> 7));
            b >>= 1;
        }
        product
    };
    let inverse = (0..253).fold(byte, |power, _| times(power, byte));
    (1..5).fold(inverse ^ 0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

#[test]
fn the_schedule_of_the_standard_is_recognised() {
    // FIPS 197, A.3.
    let key: [u32; 8] = [
        0x603d_eb10,
        0x15ca_71be,
        0x2b73_aef0,
        0x857d_7781,
        0x1f35_2c07,
        0x3b61_08d7,
        0x2d98_10a3,
        0x0914_dff4,
    ];
    let mut words = expanded(&key.map(u32::swap_bytes));
    assert_eq!(words[59], 0x706c_631e_u32.swap_bytes());
    assert!(expands(&words) && !decrypts(&words));
    words[30] ^= 1;
    assert!(!expands(&words) && !expands(&[0; WORDS]) && !decrypts(&[0; WORDS]));
}
