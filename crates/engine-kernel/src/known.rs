//! What AES makes of published texts. A driver is asked for them before its
//! first byte, and has the modes and lengths of keys that it answers right. Two
//! blocks each: of one, several modes make the same.

use strongroom_engine::SectorMode;

use crate::Error;
use crate::socket::Driver;

struct Answer {
    mode: SectorMode,
    key: &'static [u8],
    iv: [u8; 16],
    plain: [u8; 32],
    encrypted: [u8; 32],
}

/// Bytes of hexadecimal digits.
const fn hex<const N: usize>(digits: &str) -> [u8; N] {
    const fn value(digit: u8) -> u8 {
        match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("a hexadecimal digit"),
        }
    }
    let digits = digits.as_bytes();
    assert!(digits.len() == 2 * N);
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = value(digits[2 * at]) << 4 | value(digits[2 * at + 1]);
        at += 1;
    }
    bytes
}

const KEY_128: [u8; 16] = hex("2b7e151628aed2a6abf7158809cf4f3c");
const KEY_192: [u8; 24] = hex("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b");
const KEY_256: [u8; 32] = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");

/// NIST SP 800-38A, sections F.2 and F.5, the first two blocks.
const fn nist(mode: SectorMode, key: &'static [u8], encrypted: &str) -> Answer {
    let iv = match mode {
        SectorMode::Ctr => "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        _ => "000102030405060708090a0b0c0d0e0f",
    };
    let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    Answer { mode, key, iv: hex(iv), plain, encrypted: hex(encrypted) }
}

/// Keys of XTS by IEEE 1619-2007, annex B, vectors 2 and 10; of the latter the
/// first two blocks.
const XTS_128: [u8; 32] = hex("1111111111111111111111111111111122222222222222222222222222222222");
const XTS_256: [u8; 64] = hex("27182818284590452353602874713526624977572470936999595749669676273141592653\
589793238462643383279502884197169399375105820974944592");

const fn ieee(key: &'static [u8], iv: &str, plain: [u8; 32], encrypted: &str) -> Answer {
    Answer { mode: SectorMode::Xts, key, iv: hex(iv), plain, encrypted: hex(encrypted) }
}

const COUNTED: [u8; 32] = hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");

const ANSWERS: [Answer; 8] = [
    nist(SectorMode::Cbc, &KEY_128, "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
    nist(SectorMode::Cbc, &KEY_192, "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a"),
    nist(SectorMode::Cbc, &KEY_256, "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"),
    nist(SectorMode::Ctr, &KEY_128, "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"),
    nist(SectorMode::Ctr, &KEY_192, "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94"),
    nist(SectorMode::Ctr, &KEY_256, "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"),
    ieee(
        &XTS_128,
        "33333333330000000000000000000000",
        [0x44; 32],
        "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
    ),
    ieee(
        &XTS_256,
        "ff000000000000000000000000000000",
        COUNTED,
        "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b",
    ),
];

/// The modes and lengths of keys with which a driver gives the known answers,
/// in both directions.
///
/// # Errors
/// There is no such driver, or it gives none.
pub(crate) fn passed(driver: &str) -> Result<Vec<(SectorMode, usize)>, Error> {
    let mut passed = Vec::new();
    for answer in &ANSWERS {
        if gives(Driver::find(driver)?, answer) {
            passed.push((answer.mode, answer.key.len()));
        }
    }
    if passed.is_empty() { Err(Error::ComputesNothing) } else { Ok(passed) }
}

fn gives(driver: Driver, answer: &Answer) -> bool {
    let Ok(cipher) = driver.with_key(answer.key) else { return false };
    let Ok(line) = cipher.line() else { return false };
    let crypted = |encrypts: bool, mut data: [u8; 32]| {
        line.crypt(encrypts, &answer.iv, &mut data).ok()?;
        Some(data)
    };
    crypted(true, answer.plain) == Some(answer.encrypted)
        && crypted(false, answer.encrypted) == Some(answer.plain)
}

#[cfg(test)]
mod tests {
    use strongroom_engine::{
        Algorithm, Batch, BlockCipher, Buffer, Engine, Operation, SectorCipher, SectorIv, SectorNumbers,
        Segment, client,
    };
    use strongroom_engine_cpu::ReferenceEngine;

    use super::*;

    #[test]
    fn the_answers_are_those_of_the_reference() {
        for Answer { mode, key, iv, plain, encrypted } in &ANSWERS {
            let sector = SectorCipher::new(BlockCipher::Aes, *mode, SectorIv::Plain128);
            let session = ReferenceEngine.session(Algorithm::Sector(sector), key).expect("it has AES");
            let numbers = SectorNumbers { first: u128::from_le_bytes(*iv), step: 1 };
            let segments = vec![Segment::numbered_sectors(0, 32, numbers, 32)];
            let batch = Batch::new(Operation::EncryptSectors, Buffer::copy_of(plain), segments);
            let done = client::execute(&ReferenceEngine, &session, batch).expect("it computes");
            assert_eq!(done.batch.buffer[..], encrypted[..], "{mode} with {} bytes", key.len());
        }
    }
}
