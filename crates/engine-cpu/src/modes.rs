//! Sectors in XTS, CBC and counter mode over any [`Kernel`], with the IVs of
//! dm-crypt. The kernel is kept busy across sectors: blocks of several short
//! sectors go to it together, and CBC, which is serial within a sector when it
//! encrypts, works on many sectors side by side.
//!
//! Allocates nothing once the key is set.

use strongroom_engine::{
    Crossing, Operation, SectorCipher, SectorIv, SectorMode, SectorNumbers, SessionError,
};

use crate::hardware::Tier;
use crate::kernel::{ACROSS_UNIT, Block, Kernel};
use crate::low::aws_lc;
use crate::low::wipe::wipe;
use crate::process::{self, SectorSegment};

/// Blocks handed to a kernel at once, and sectors whose IVs are made at once.
const CHUNK: usize = 64;

/// A key for a sector cipher.
pub(crate) struct Sectors {
    sector: SectorCipher,
    data: Box<dyn Kernel>,
    /// Encrypts the IV of XTS.
    tweak: Option<Box<dyn Kernel>>,
    /// Encrypts the number for ESSIV.
    essiv: Option<Box<dyn Kernel>>,
}

impl Sectors {
    /// # Errors
    /// [`SessionError::KeyLength`], or [`SessionError::Unsupported`] for an XTS key of two equal halves, which
    /// is not secure.
    pub(crate) fn new(tier: Tier, sector: SectorCipher, key: &[u8]) -> Result<Sectors, SessionError> {
        if !strongroom_engine::Algorithm::Sector(sector).key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        let set_key = |key: &[u8]| tier.kernel(sector.cipher, key).ok_or(SessionError::Unsupported);
        let (data, tweak) = match sector.mode {
            SectorMode::Xts => {
                let (data, tweak) = key.split_at(key.len() / 2);
                if data == tweak {
                    return Err(SessionError::Unsupported);
                }
                (set_key(data)?, Some(set_key(tweak)?))
            }
            SectorMode::Cbc | SectorMode::Ctr => (set_key(key)?, None),
        };
        let essiv = match sector.iv {
            SectorIv::EssivSha256 => Some(set_key(&*aws_lc::sha256(key))?),
            SectorIv::Plain | SectorIv::Plain64 | SectorIv::Plain128 => None,
        };
        Ok(Sectors { sector, data, tweak, essiv })
    }

    /// The IVs of the sectors from `index` on.
    fn make_ivs(&self, numbers: SectorNumbers, index: usize, ivs: &mut [Block]) {
        for (i, iv) in ivs.iter_mut().enumerate() {
            *iv = self.sector.iv.number_block(numbers.at(index + i));
        }
        for kernel in self.essiv.iter().chain(&self.tweak) {
            kernel.encrypt(ivs);
        }
    }

    /// Decrypts sectors from one place to another, where that is one pass; false
    /// when it is not, and nothing was done. What is crossed has been validated.
    pub(crate) fn cross(&self, crossing: Crossing<'_>) -> bool {
        let Crossing { numbers, sector_len, from, to } = crossing;
        let sector_len = sector_len as usize;
        let fused = match self.sector.mode {
            SectorMode::Xts if sector_len.is_multiple_of(ACROSS_UNIT) => self.data.fused(),
            _ => None,
        };
        let Some(fused) = fused else { return false };
        let mut ivs = [[0; 16]; CHUNK];
        let mut at = 0;
        while at < to.len() {
            let len = (to.len() - at).min(CHUNK * sector_len);
            let ivs = &mut ivs[..len / sector_len];
            self.make_ivs(numbers, at / sector_len, ivs);
            fused.xts_across(ivs, sector_len, from.part(at..at + len), &mut to[at..at + len]);
            at += len;
        }
        true
    }
}

impl process::SectorCipher for Sectors {
    fn sectors(&self, operation: Operation, segment: SectorSegment<'_>) {
        let encrypt = operation == Operation::EncryptSectors;
        let group_len = CHUNK * segment.sector_len;
        let mut ivs = [[0; 16]; CHUNK];
        let mut index = 0;
        let mut rest = segment;
        while !rest.data.is_empty() {
            let len = rest.data.len().min(group_len);
            let (data, after) = std::mem::take(&mut rest.data).split_at_mut(len);
            let group = SectorSegment { data, ..rest };
            rest.data = after;
            let ivs = &mut ivs[..len / group.sector_len];
            self.make_ivs(group.numbers, index, ivs);
            index += ivs.len();
            let blocks_per_sector = group.sector_len / 16;
            let (blocks, _) = group.data.as_chunks_mut::<16>();
            match (self.sector.mode, encrypt) {
                (SectorMode::Xts, _) => xts(&*self.data, encrypt, ivs, blocks_per_sector, blocks),
                (SectorMode::Cbc, true) => cbc_encrypt(&*self.data, ivs, blocks_per_sector, blocks),
                (SectorMode::Cbc, false) => cbc_decrypt(&*self.data, ivs, blocks_per_sector, blocks),
                (SectorMode::Ctr, _) => ctr(&*self.data, ivs, blocks_per_sector, blocks),
            }
        }
    }
}

fn xor(block: &mut Block, mask: &Block) {
    *block = (u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(*mask)).to_ne_bytes();
}

/// For every chunk of blocks, a mask for each made from its sector's IV:
/// `first` makes what the sector starts with, `next` hands one out.
struct Masks<'i> {
    ivs: std::slice::Iter<'i, Block>,
    blocks_per_sector: usize,
    left_in_sector: usize,
    current: u128,
}

impl<'i> Masks<'i> {
    fn new(ivs: &'i [Block], blocks_per_sector: usize) -> Masks<'i> {
        Masks { ivs: ivs.iter(), blocks_per_sector, left_in_sector: 0, current: 0 }
    }

    /// Fills `masks`; each sector begins with `first` of its IV and goes on
    /// with `step`.
    #[inline(always)]
    fn fill(
        &mut self,
        masks: &mut [Block],
        first: impl Fn(&Block) -> u128,
        step: impl Fn(u128) -> (Block, u128),
    ) {
        let mut rest = masks;
        while !rest.is_empty() {
            if self.left_in_sector == 0 {
                self.current = first(self.ivs.next().expect("an IV for every sector"));
                self.left_in_sector = self.blocks_per_sector;
            }
            let run = self.left_in_sector.min(rest.len());
            let (of_sector, after) = rest.split_at_mut(run);
            for mask in of_sector {
                (*mask, self.current) = step(self.current);
            }
            self.left_in_sector -= run;
            rest = after;
        }
    }
}

/// IEEE 1619 section 5; `tweaks` are encrypted already.
pub(crate) fn xts(
    kernel: &dyn Kernel,
    encrypt: bool,
    tweaks: &[Block],
    blocks_per_sector: usize,
    blocks: &mut [Block],
) {
    if let Some(fused) = kernel.fused() {
        for (tweak, sector) in tweaks.iter().zip(blocks.chunks_exact_mut(blocks_per_sector)) {
            fused.xts(encrypt, tweak, sector);
        }
        return;
    }
    let mut masks = Masks::new(tweaks, blocks_per_sector);
    let mut mask = [[0; 16]; CHUNK];
    for chunk in blocks.chunks_mut(CHUNK) {
        let mask = &mut mask[..chunk.len()];
        masks.fill(
            mask,
            |tweak| u128::from_le_bytes(*tweak),
            |tweak| (tweak.to_le_bytes(), (tweak << 1) ^ ((tweak >> 127) * 0x87)),
        );
        chunk.iter_mut().zip(&*mask).for_each(|(block, mask)| xor(block, mask));
        match encrypt {
            true => kernel.encrypt(chunk),
            false => kernel.decrypt(chunk),
        }
        chunk.iter_mut().zip(&*mask).for_each(|(block, mask)| xor(block, mask));
    }
    wipe(&mut mask);
}

/// NIST SP 800-38A section 6.5, with a big-endian counter of 128 bits.
pub(crate) fn ctr(kernel: &dyn Kernel, ivs: &[Block], blocks_per_sector: usize, blocks: &mut [Block]) {
    if let Some(fused) = kernel.fused() {
        for (iv, sector) in ivs.iter().zip(blocks.chunks_exact_mut(blocks_per_sector)) {
            fused.ctr(iv, sector);
        }
        return;
    }
    let mut masks = Masks::new(ivs, blocks_per_sector);
    let mut mask = [[0; 16]; CHUNK];
    for chunk in blocks.chunks_mut(CHUNK) {
        let mask = &mut mask[..chunk.len()];
        masks.fill(
            mask,
            |iv| u128::from_be_bytes(*iv),
            |counter| (counter.to_be_bytes(), counter.wrapping_add(1)),
        );
        kernel.encrypt(mask);
        chunk.iter_mut().zip(&*mask).for_each(|(block, mask)| xor(block, mask));
    }
    // Whoever has it and the stored data has the plain ones.
    wipe(&mut mask);
}

/// NIST SP 800-38A section 6.2.
pub(crate) fn cbc_decrypt(
    kernel: &dyn Kernel,
    ivs: &[Block],
    blocks_per_sector: usize,
    blocks: &mut [Block],
) {
    if let Some(fused) = kernel.fused() {
        for (iv, sector) in ivs.iter().zip(blocks.chunks_exact_mut(blocks_per_sector)) {
            fused.cbc_decrypt(iv, sector);
        }
        return;
    }
    let mut ivs = ivs.iter();
    let mut index = 0;
    let mut last = [0; 16];
    let mut before = [[0; 16]; CHUNK];
    for chunk in blocks.chunks_mut(CHUNK) {
        for (before, block) in before.iter_mut().zip(&*chunk) {
            if index % blocks_per_sector == 0 {
                last = *ivs.next().expect("an IV for every sector");
            }
            *before = last;
            last = *block;
            index += 1;
        }
        kernel.decrypt(chunk);
        chunk.iter_mut().zip(&before).for_each(|(block, before)| xor(block, before));
    }
}

/// Block by block, but of all sectors at once.
fn cbc_encrypt(kernel: &dyn Kernel, ivs: &mut [Block], blocks_per_sector: usize, blocks: &mut [Block]) {
    for index in 0..blocks_per_sector {
        for (sector, last) in ivs.iter_mut().enumerate() {
            xor(last, &blocks[sector * blocks_per_sector + index]);
        }
        kernel.encrypt(ivs);
        for (sector, last) in ivs.iter().enumerate() {
            blocks[sector * blocks_per_sector + index] = *last;
        }
    }
}
