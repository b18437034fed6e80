//! What AES makes of published texts. An instance is asked for them before its
//! first byte.

use std::rc::Rc;
use std::time::{Duration, Instant};

use strongroom_engine::Tag;

use crate::Error;
use crate::cpa::{Status, status};
use crate::sys::{Answer, Context, Instance, Message, Setup};
use crate::wire::Wire;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of the longest request, as it is tried: some devices count their bytes
/// by 16 bits.
const LONGEST: [usize; 2] = [1 << 20, (1 << 16) - 16];

/// What an instance has been seen to compute.
pub(crate) struct Passed {
    /// With the bytes of the key.
    pub(crate) wires: Vec<(Wire, usize)>,
    /// Bytes of the longest request that it computes right with all of them.
    pub(crate) request_max: usize,
}

struct Published {
    wire: Wire,
    key: &'static [u8],
    iv: &'static [u8],
    ad: &'static [u8],
    plain: &'static [u8],
    sealed: &'static [u8],
    tag: Tag,
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

const fn cipher(
    wire: Wire,
    key: &'static [u8],
    iv: &'static [u8; 16],
    plain: &'static [u8; 32],
    sealed: &'static [u8; 32],
) -> Published {
    Published { wire, key, iv, ad: &[], plain, sealed, tag: [0; 16] }
}

/// NIST SP 800-38A, sections F.2 and F.5, the first two blocks.
const KEY_128: &[u8; 16] = &hex("2b7e151628aed2a6abf7158809cf4f3c");
const KEY_192: &[u8; 24] = &hex("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b");
const KEY_256: &[u8; 32] = &hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
const CBC_IV: &[u8; 16] = &hex("000102030405060708090a0b0c0d0e0f");
const CTR_IV: &[u8; 16] = &hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
const NIST: &[u8; 32] = &hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");

/// IEEE 1619-2007, annex B, vectors 2 and 10; of the latter the first two blocks.
const XTS_128: &[u8; 32] = &hex("1111111111111111111111111111111122222222222222222222222222222222");
const XTS_256: &[u8; 64] = &hex("27182818284590452353602874713526624977572470936999595749669676273141592653\
589793238462643383279502884197169399375105820974944592");
const COUNTED: &[u8; 32] = &hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");

const PUBLISHED: [Published; 10] = [
    cipher(
        Wire::Cbc,
        KEY_128,
        CBC_IV,
        NIST,
        &hex("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
    ),
    cipher(
        Wire::Cbc,
        KEY_192,
        CBC_IV,
        NIST,
        &hex("4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a"),
    ),
    cipher(
        Wire::Cbc,
        KEY_256,
        CBC_IV,
        NIST,
        &hex("f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"),
    ),
    cipher(
        Wire::Ctr,
        KEY_128,
        CTR_IV,
        NIST,
        &hex("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"),
    ),
    cipher(
        Wire::Ctr,
        KEY_192,
        CTR_IV,
        NIST,
        &hex("1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94"),
    ),
    cipher(
        Wire::Ctr,
        KEY_256,
        CTR_IV,
        NIST,
        &hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"),
    ),
    cipher(
        Wire::Xts,
        XTS_128,
        &hex("33333333330000000000000000000000"),
        &[0x44; 32],
        &hex("c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0"),
    ),
    cipher(
        Wire::Xts,
        XTS_256,
        &hex("ff000000000000000000000000000000"),
        COUNTED,
        &hex("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b"),
    ),
    // Test cases 13 and 16 of "The Galois/Counter Mode of Operation" (McGrew and Viega 2004).
    Published {
        wire: Wire::Gcm,
        key: &[0; 32],
        iv: &[0; 12],
        ad: &[],
        plain: &[],
        sealed: &[],
        tag: hex("530f8afbc74536b9a963b4f1c4cb738b"),
    },
    Published {
        wire: Wire::Gcm,
        key: &hex::<32>("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
        iv: &hex::<12>("cafebabefacedbaddecaf888"),
        ad: &hex::<20>("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
        plain: &hex::<60>(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        ),
        sealed: &hex::<60>(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        ),
        tag: hex("76fc6ece0f4e1768cddf8853bb2d551b"),
    },
];

impl Published {
    fn name(&self) -> String {
        let mode = match self.wire {
            Wire::Ctr => "CTR",
            Wire::Cbc => "CBC",
            Wire::Xts => "XTS",
            Wire::Gcm => "GCM",
        };
        format!("AES in {mode} with a key of {} bytes", self.key.len())
    }
}

/// What an instance computes.
///
/// # Errors
/// [`Error::Wrong`] where it answers one thing wrong or not at all,
/// [`Error::ComputesNothing`] where it has nothing, or that a call fails.
pub(crate) fn passed(instance: &mut Instance) -> Result<Passed, Error> {
    let (mut wires, mut lacks) = (Vec::new(), Vec::new());
    let mut request_max = LONGEST[0];
    for published in &PUBLISHED {
        let both = (published.wire, published.key.len());
        let Some(mut pair) = Pair::open(instance, published)? else {
            lacks.push(both);
            continue;
        };
        match pair.is_right()? {
            None => lacks.push(both),
            Some(false) => return Err(Error::Wrong(published.name())),
            Some(true) if wires.contains(&both) => {}
            Some(true) => {
                request_max = pair.longest(request_max)?.ok_or_else(|| Error::Wrong(published.name()))?;
                wires.push(both);
            }
        }
    }
    wires.retain(|both| !lacks.contains(both));
    if wires.is_empty() { Err(Error::ComputesNothing) } else { Ok(Passed { wires, request_max }) }
}

/// Two sessions of a key, by whether they encrypt.
struct Pair<'a> {
    instance: &'a mut Instance,
    published: &'a Published,
    sessions: [Rc<Context>; 2],
}

/// What an instance made of a text, if it does such things.
type Made = Option<(Answer, Vec<u8>, Tag)>;

impl<'a> Pair<'a> {
    /// None where it does not have the algorithm.
    fn open(instance: &'a mut Instance, published: &'a Published) -> Result<Option<Pair<'a>>, Error> {
        let mut open = |encrypts: bool| {
            let opened = instance.open(&Setup {
                cipher: published.wire.cipher(),
                encrypts: published.wire.session_encrypts(encrypts),
                key: published.key,
                ad_len: (published.wire == Wire::Gcm).then_some(published.ad.len()),
            });
            had("cpaCySymDpInitSession", opened)
        };
        let (Some(decrypting), Some(encrypting)) = (open(false)?, open(true)?) else { return Ok(None) };
        Ok(Some(Pair { instance, published, sessions: [Rc::new(decrypting), Rc::new(encrypting)] }))
    }

    /// None where it does not take such a request.
    fn ask(&mut self, encrypts: bool, data: &[u8], tag: &Tag) -> Result<Made, Error> {
        let Published { iv, ad, .. } = *self.published;
        let message = Message { iv, ad, tag, data };
        let session = &self.sessions[usize::from(encrypts)];
        let began = Instant::now();
        let flight = loop {
            match self.instance.enqueue(session, &message) {
                Err(status::RETRY) if began.elapsed() < LIMIT => std::thread::yield_now(),
                other => match had("cpaCySymDpEnqueueOp", other)? {
                    Some(flight) => break flight,
                    None => return Ok(None),
                },
            }
        };
        let failed = |call| move |status| Error::Call(call, status);
        self.instance.perform().map_err(failed("cpaCySymDpPerformOpNow"))?;
        while !flight.is_answered() {
            if began.elapsed() > LIMIT {
                return Err(Error::Wrong(self.published.name()));
            }
            self.instance.poll().map_err(failed("icp_sal_CyPollDpInstance"))?;
            std::thread::yield_now();
        }
        let mut made = vec![0; data.len()];
        let (answer, tag) = self.instance.finish(flight, &mut made);
        Ok((answer != Answer::Failed).then_some((answer, made, tag)))
    }

    /// Whether it makes of the text what is published, and the text of that.
    fn is_right(&mut self) -> Result<Option<bool>, Error> {
        let Published { wire, plain, sealed, tag, .. } = *self.published;
        let is_aead = wire == Wire::Gcm;
        let Some(made) = self.ask(true, plain, &[0; 16])? else { return Ok(None) };
        let Some(opened) = self.ask(false, sealed, &tag)? else { return Ok(None) };
        let mut forged = tag;
        forged[0] ^= 1;
        let is_fooled = match is_aead {
            true => self.ask(false, sealed, &forged)?.is_none_or(|(answer, ..)| answer != Answer::Forged),
            false => false,
        };
        let is_same = |(answer, data, made): &(Answer, Vec<u8>, Tag), expected: &[u8]| {
            *answer == Answer::Done && data == expected && (!is_aead || *made == tag)
        };
        Ok(Some(is_same(&made, sealed) && is_same(&opened, plain) && !is_fooled))
    }

    /// The longest request, of at most so many bytes, with which it encrypts the
    /// first bytes as alone, and decrypts what it encrypted.
    fn longest(&mut self, most: usize) -> Result<Option<usize>, Error> {
        for len in LONGEST.into_iter().filter(|len| *len <= most) {
            let plain: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let Some((_, head, _)) = self.ask(true, &plain[..32], &[0; 16])? else { return Ok(None) };
            let Some((_, sealed, tag)) = self.ask(true, &plain, &[0; 16])? else { continue };
            let Some((answer, opened, _)) = self.ask(false, &sealed, &tag)? else { continue };
            let is_encrypted = sealed.starts_with(&head) && sealed[len - 16..] != plain[len - 16..];
            if answer == Answer::Done && opened == plain && is_encrypted {
                return Ok(Some(len));
            }
        }
        Ok(None)
    }
}

/// None of what it does not have; an error where it is not able to say.
fn had<T>(call: &'static str, result: Result<T, Status>) -> Result<Option<T>, Error> {
    match result {
        Ok(had) => Ok(Some(had)),
        Err(status::UNSUPPORTED | status::INVALID_PARAM | status::FAIL) => Ok(None),
        Err(status) => Err(Error::Call(call, status)),
    }
}

#[cfg(test)]
mod tests {
    use strongroom_engine::{
        Aead, Algorithm, AssociatedData, Batch, BlockCipher, Buffer, Engine, Operation, Outcome,
        SectorCipher, SectorIv, SectorMode, SectorNumbers, Segment, StoredNonce, client,
    };
    use strongroom_engine_cpu::ReferenceEngine;

    use super::*;

    #[test]
    fn what_is_published_is_what_the_reference_computes() {
        for published in &PUBLISHED {
            let Published { wire, key, iv, ad, plain, sealed, tag } = published;
            let mode = match wire {
                Wire::Gcm => None,
                Wire::Ctr => Some(SectorMode::Ctr),
                Wire::Cbc => Some(SectorMode::Cbc),
                Wire::Xts => Some(SectorMode::Xts),
            };
            let (algorithm, operation, segment) = match mode {
                Some(mode) => {
                    let sector = SectorCipher::new(BlockCipher::Aes, mode, SectorIv::Plain128);
                    let iv = u128::from_le_bytes((*iv).try_into().expect("a block"));
                    let numbers = SectorNumbers { first: iv, step: 1 };
                    let segment = Segment::numbered_sectors(0, 32, numbers, 32);
                    (Algorithm::Sector(sector), Operation::DecryptSectors, segment)
                }
                None => {
                    let mut nonce = [0; 24];
                    nonce[12..].copy_from_slice(iv);
                    let ad = AssociatedData::new(ad);
                    let segment = Segment::open(0, plain.len(), StoredNonce::new(nonce), ad, *tag);
                    (Algorithm::Aead(Aead::Aes256Gcm), Operation::Open, segment)
                }
            };
            let session = ReferenceEngine.session(algorithm, key).expect("it has AES");
            let batch = Batch::new(operation, Buffer::copy_of(sealed), vec![segment]);
            let done = client::execute(&ReferenceEngine, &session, batch).expect("it computes");
            assert_eq!(done.outcome, Outcome::Done, "{}", published.name());
            assert_eq!(done.batch.buffer[..], plain[..], "{}", published.name());
        }
    }
}
