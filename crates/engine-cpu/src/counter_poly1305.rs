//! Block ciphers in counter mode with Poly1305, committing to the key:
//! Serpent-256, and the cascade of AES-256, Twofish-256 and Serpent-256 (vault
//! format, section 3.1).
//!
//! The keystream is the XOR of that of each cipher. It is made under keys that
//! HKDF derives for the first 12 bytes of the nonce, and its first 32 bytes are
//! the one-time key of Poly1305. These are made for many messages at once,
//! since kernels take many blocks at once or leave most of their work unused.
//!
//! Constant time where the kernels are. Keys, what is derived from them and
//! pieces of keystream are wiped.

use std::sync::Arc;

use strongroom_engine::limits::ASSOCIATED_DATA_MAX;
use strongroom_engine::{BlockCipher, Segment, Tag};
use zeroize::{Zeroize, Zeroizing};

use crate::authenticator::{Authenticator, SumsOfThisCpu, same};
use crate::hardware::Tier;
use crate::kernel::{Block, Code, Kernel};
use crate::key_cache::KeyCache;
use crate::low::aws_lc::{self, HkdfKey};
use crate::modes;
use crate::process::{AHEAD, AeadCipher, Forged};
use crate::stream::xor;

/// Bytes encrypted before they are hashed, so that they are still in the
/// nearest cache. A multiple of what every kernel takes at once.
const STRIDE: usize = 8192;

/// Blocks of keystream that are the one-time key, before those for the data.
const ONE_TIME_BLOCKS: usize = 2;

/// Bytes hashed besides the associated data: a key, a nonce and a tag.
const HASHED_BESIDES: usize = 32 + 24 + 16;

/// What tells one algorithm of this kind from another.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// The suite's name, which begins every `info` of HKDF.
    name: &'static str,
    /// Whose keystreams are XORed.
    ciphers: &'static [BlockCipher],
}

/// `serpent-256-poly1305`.
pub(crate) const SERPENT: Recipe = Recipe { name: "serpent-256-poly1305", ciphers: &[BlockCipher::Serpent] };

/// `cascade`.
pub(crate) const CASCADE: Recipe =
    Recipe { name: "cascade", ciphers: &[BlockCipher::Aes, BlockCipher::Twofish, BlockCipher::Serpent] };

impl Recipe {
    /// Which code computes it on a tier. It has the name of the slowest part,
    /// by which tiers differ, and no more than all parts are constant-time.
    pub(crate) fn code(&self, tier: Tier) -> Option<Code> {
        let codes = self.ciphers.iter().map(|&cipher| Some(tier.kernel(cipher, &[0; 32])?.code()));
        let codes: Vec<Code> = codes.collect::<Option<_>>()?;
        match codes[..] {
            [code] => Some(code),
            _ if codes.iter().all(|code| code.constant_time) => Some(Code::constant_time(tier.kernels())),
            _ => Some(Code::with_tables("own, Twofish by tables")),
        }
    }
}

/// A key, with the kernels keyed for nonce prefixes met lately.
pub(crate) struct CounterPoly1305 {
    tier: Tier,
    recipe: &'static Recipe,
    sums: SumsOfThisCpu,
    source: HkdfKey,
    commitment: Zeroizing<[u8; 32]>,
    derived: KeyCache<Keystream>,
}

/// The kernels for one nonce prefix.
struct Keystream {
    prefix: [u8; 12],
    kernels: Box<[Box<dyn Kernel>]>,
}

/// A one-time key of Poly1305.
type OneTimeKey = [u8; 32];

/// What is kept from one message of a batch to the next.
pub(crate) struct Cursor {
    keystream: Option<Arc<Keystream>>,
    /// Of the messages to come, their nonces and one-time keys.
    nonces: [[u8; 24]; AHEAD],
    keys: Zeroizing<[OneTimeKey; AHEAD]>,
    next: usize,
    made: usize,
}

impl Keystream {
    fn counter_block(&self, nonce: &[u8; 24], counter: u32) -> Block {
        let mut block = [0; 16];
        block[..12].copy_from_slice(&nonce[12..]);
        block[12..].copy_from_slice(&counter.to_be_bytes());
        block
    }

    /// XORs the keystream that begins at block `first` of the message onto the
    /// data. Counters do not reach their end: a batch is too short for it.
    fn xor(&self, nonce: &[u8; 24], first: usize, data: &mut [u8]) {
        let counter = |index: usize| u32::try_from(index).expect("a batch has fewer blocks");
        let (blocks, rest) = data.as_chunks_mut::<16>();
        if !blocks.is_empty() {
            self.xor_blocks(&self.counter_block(nonce, counter(first)), blocks);
        }
        if !rest.is_empty() {
            let mut last = [[0; 16]];
            last[0][..rest.len()].copy_from_slice(rest);
            self.xor_blocks(&self.counter_block(nonce, counter(first + blocks.len())), &mut last);
            rest.copy_from_slice(&last[0][..rest.len()]);
            last[0].zeroize();
        }
    }

    fn xor_blocks(&self, counter: &Block, blocks: &mut [Block]) {
        for kernel in &self.kernels {
            modes::ctr(&**kernel, &[*counter], blocks.len(), blocks);
        }
    }

    /// The first blocks of keystream of each message.
    fn one_time_keys(&self, nonces: &[[u8; 24]], keys: &mut [OneTimeKey]) {
        let mut counters = [[0; 16]; ONE_TIME_BLOCKS * AHEAD];
        let counters = &mut counters[..ONE_TIME_BLOCKS * nonces.len()];
        for (pair, nonce) in counters.chunks_exact_mut(ONE_TIME_BLOCKS).zip(nonces) {
            for (counter, block) in (0..).zip(pair) {
                *block = self.counter_block(nonce, counter);
            }
        }
        keys.as_flattened_mut().fill(0);
        let mut masks = Zeroizing::new([[0; 16]; ONE_TIME_BLOCKS * AHEAD]);
        let masks = &mut masks[..counters.len()];
        for kernel in &self.kernels {
            masks.copy_from_slice(counters);
            kernel.encrypt(masks);
            keys.as_flattened_mut().iter_mut().zip(masks.as_flattened()).for_each(|(key, mask)| *key ^= mask);
        }
    }
}

impl CounterPoly1305 {
    pub(crate) fn new(tier: Tier, recipe: &'static Recipe, key: &[u8; 32]) -> CounterPoly1305 {
        let source = HkdfKey::extract(key);
        let mut commitment = Zeroizing::new([0; 32]);
        source.expand(&[recipe.name, " commitment\0"].map(str::as_bytes), &mut commitment[..]);
        let sums = SumsOfThisCpu::detect();
        CounterPoly1305 { tier, recipe, sums, source, commitment, derived: KeyCache::new() }
    }

    fn derive(&self, prefix: [u8; 12]) -> Keystream {
        let kernels = self.recipe.ciphers.iter().map(|cipher| {
            let mut key = Zeroizing::new([0; 32]);
            let cipher_name = cipher.to_string();
            let info: [&[u8]; 5] =
                [self.recipe.name.as_bytes(), b" ", cipher_name.as_bytes(), b"\0", &prefix];
            self.source.expand(&info, &mut key[..]);
            self.tier.kernel(*cipher, &key[..]).expect("every tier has every cipher")
        });
        Keystream { prefix, kernels: kernels.collect() }
    }

    /// The kernels for a nonce. Allocates only when its prefix was not seen
    /// lately.
    fn keystream<'c>(&self, kept: &'c mut Option<Arc<Keystream>>, nonce: &[u8; 24]) -> &'c Keystream {
        let prefix: [u8; 12] = nonce[..12].try_into().expect("twelve bytes");
        kept.take_if(|kept| kept.prefix != prefix);
        kept.get_or_insert_with(|| self.derived.find_or_insert(prefix, || self.derive(prefix)))
    }

    /// The kernels and the one-time key for a message.
    fn at<'c>(&self, cursor: &'c mut Cursor, nonce: &[u8; 24]) -> (&'c Keystream, &'c OneTimeKey) {
        let keystream = self.keystream(&mut cursor.keystream, nonce);
        if cursor.next >= cursor.made || cursor.nonces[cursor.next] != *nonce {
            keystream.one_time_keys(&[*nonce], &mut cursor.keys[..1]);
            (cursor.next, cursor.made) = (0, 1);
        }
        cursor.next += 1;
        (keystream, &cursor.keys[cursor.next - 1])
    }

    /// Encrypts by `xor`, which is told of each stride where it begins in the
    /// keystream, and hashes.
    fn seal_by(
        &self,
        xor: impl Fn(usize, &mut [u8]),
        key: &OneTimeKey,
        nonce: &[u8; 24],
        ad: &[u8],
        data: &mut [u8],
    ) -> Tag {
        let mut authenticator = Authenticator::new(self.sums, key, ad, data.len());
        for (first, part) in strides().zip(data.chunks_mut(STRIDE)) {
            xor(first, part);
            authenticator.add(part);
        }
        self.commit(nonce, ad, authenticator.tag(ad.len(), data.len()))
    }

    fn open_by(
        &self,
        xor: impl Fn(usize, &mut [u8]),
        key: &OneTimeKey,
        (nonce, ad, tag): (&[u8; 24], &[u8], &Tag),
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let mut authenticator = Authenticator::new(self.sums, key, ad, data.len());
        for (first, part) in strides().zip(data.chunks_mut(STRIDE)) {
            authenticator.add(part);
            xor(first, part);
        }
        same(&self.commit(nonce, ad, authenticator.tag(ad.len(), data.len())), tag)
    }

    /// Binds Poly1305's tag to the key (Chan and Rogaway 2022, CTX): the first
    /// half of SHA-256 over commitment key, nonce, associated data and tag.
    fn commit(&self, nonce: &[u8; 24], ad: &[u8], tag: Tag) -> Tag {
        let mut hashed = Zeroizing::new([0; HASHED_BESIDES + ASSOCIATED_DATA_MAX]);
        let mut end = 0;
        for part in [&self.commitment[..], nonce, ad, &tag] {
            hashed[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        let hash = aws_lc::sha256(&hashed[..end]);
        hash[..16].try_into().expect("sixteen bytes")
    }
}

/// XORs a stride with its part of a mask, which begins with the data.
fn xor_mask(mask: &[u8], first: usize, data: &mut [u8]) {
    xor(data, &mask[(first - ONE_TIME_BLOCKS) * 16..]);
}

/// Where the strides of a message begin in its keystream, in blocks.
fn strides() -> impl Iterator<Item = usize> {
    (ONE_TIME_BLOCKS..).step_by(STRIDE / 16)
}

impl AeadCipher for CounterPoly1305 {
    type Cursor<'a> = Cursor;

    fn cursor(&self) -> Cursor {
        Cursor {
            keystream: None,
            nonces: [[0; 24]; AHEAD],
            keys: Zeroizing::new([[0; 32]; AHEAD]),
            next: 0,
            made: 0,
        }
    }

    fn ahead(&self, cursor: &mut Cursor, segments: &[Segment]) {
        cursor.next = 0;
        cursor.made = segments.len();
        for (nonce, segment) in cursor.nonces.iter_mut().zip(segments) {
            *nonce = *segment.nonce();
        }
        let mut start = 0;
        for run in cursor.nonces[..cursor.made].chunk_by(|a, b| a[..12] == b[..12]) {
            let keystream = self.keystream(&mut cursor.keystream, &run[0]);
            keystream.one_time_keys(run, &mut cursor.keys[start..start + run.len()]);
            start += run.len();
        }
    }

    fn seal(&self, cursor: &mut Cursor, nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let (keystream, key) = self.at(cursor, nonce);
        self.seal_by(|first, part| keystream.xor(nonce, first, part), key, nonce, ad, data)
    }

    fn open(
        &self,
        cursor: &mut Cursor,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let (keystream, key) = self.at(cursor, nonce);
        self.open_by(|first, part| keystream.xor(nonce, first, part), key, (nonce, ad, tag), data)
    }

    fn seal_masked(
        &self,
        cursor: &mut Cursor,
        nonce: &[u8; 24],
        ad: &[u8],
        data: &mut [u8],
        mask: &[u8],
    ) -> Tag {
        let (_, key) = self.at(cursor, nonce);
        self.seal_by(|first, part| xor_mask(mask, first, part), key, nonce, ad, data)
    }

    fn open_masked(
        &self,
        cursor: &mut Cursor,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
        mask: &[u8],
    ) -> Result<(), Forged> {
        let (_, key) = self.at(cursor, nonce);
        self.open_by(|first, part| xor_mask(mask, first, part), key, (nonce, ad, tag), data)
    }

    fn keystream(&self, cursor: &mut Cursor, nonce: &[u8; 24], data: &mut [u8]) {
        let keystream = self.keystream(&mut cursor.keystream, nonce);
        data.fill(0);
        keystream.xor(nonce, ONE_TIME_BLOCKS, data);
    }
}
