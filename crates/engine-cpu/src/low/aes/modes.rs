//! The modes of AES in one pass over the data.

use super::vectors::AesVector;
use super::{REGISTERS, RoundKeys, decrypt_registers, encrypt_registers, load, store};
use crate::kernel::Block;

/// Runs a block of code on every `CHUNK` blocks, and on the rest through a
/// padded copy. A closure would not be compiled with the kernel's features.
macro_rules! by_chunks {
    ($size:ident, $blocks:ident, $chunk:ident => $work:block) => {
        let (chunks, rest) = $blocks.as_chunks_mut::<$size>();
        for $chunk in chunks {
            $work
        }
        if !rest.is_empty() {
            let mut padded = [[0; 16]; $size];
            padded[..rest.len()].copy_from_slice(rest);
            // What the last chunk leaves for a next one is not read.
            #[allow(unused_assignments)]
            {
                let $chunk = &mut padded;
                $work
            }
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    };
}

/// Blocks in a register, at most.
const WIDTH_MAX: usize = 4;

/// The tweaks of the first `CHUNK` blocks.
#[inline(always)]
fn first_tweaks<V: AesVector>(token: V::AesToken, tweak: &Block) -> [V; REGISTERS] {
    let mut tweaks = [V::splat_block(token, tweak).times_x_place(token); REGISTERS];
    let mut i = 1;
    while i < REGISTERS {
        tweaks[i] = tweaks[i - 1].times_x_width(token);
        i += 1;
    }
    tweaks
}

/// `CHUNK` is the blocks of all registers.
#[inline(always)]
pub(super) fn xts<V: AesVector, const CHUNK: usize, const ENCRYPT: bool>(
    token: V::AesToken,
    keys: &RoundKeys,
    tweak: &Block,
    sector: &mut [Block],
) {
    let mut tweaks = first_tweaks::<V>(token, tweak);
    let mut is_first = true;
    by_chunks!(CHUNK, sector, chunk => {
        // Not behind the last chunk: a sector of 512 bytes may have no other.
        if !is_first {
            for tweak in &mut tweaks {
                *tweak = tweak.times_x_8_width(token);
            }
        }
        is_first = false;
        let mut state = load::<V>(token, chunk);
        xor_all(&mut state, &tweaks);
        match ENCRYPT {
            true => encrypt_registers(token, keys.encrypting(), &mut state),
            false => decrypt_registers(token, keys.decrypting(), &mut state),
        }
        xor_all(&mut state, &tweaks);
        store(state, chunk);
    });
}

/// Decryption in XTS from one place to another, a sector for each tweak. A
/// sector is whole chunks.
///
/// # Safety
/// As many bytes are readable at `from` as `to` has. Others may change them
/// meanwhile, by atomic accesses of bytes: what is loaded is data alone.
#[inline(always)]
pub(super) unsafe fn xts_across<V: AesVector, const CHUNK: usize>(
    token: V::AesToken,
    keys: &RoundKeys,
    tweaks: &[Block],
    sector_blocks: usize,
    from: *const u8,
    to: &mut [Block],
) {
    let mut at = 0;
    for (tweak, sector) in tweaks.iter().zip(to.chunks_exact_mut(sector_blocks)) {
        let mut masks = first_tweaks::<V>(token, tweak);
        let mut is_first = true;
        let (chunks, _) = sector.as_chunks_mut::<CHUNK>();
        for chunk in chunks {
            if !is_first {
                for mask in &mut masks {
                    *mask = mask.times_x_8_width(token);
                }
            }
            is_first = false;
            let mut state = [masks[0]; REGISTERS];
            let mut i = 0;
            while i < REGISTERS {
                // SAFETY: `at` counts the chunks of `to` before this one, and
                // the caller says that so many bytes and more are readable.
                state[i] = unsafe { V::load_from(token, from.add(at + i * V::WIDTH * 16)) };
                i += 1;
            }
            xor_all(&mut state, &masks);
            decrypt_registers(token, keys.decrypting(), &mut state);
            xor_all(&mut state, &masks);
            store(state, chunk);
            at += CHUNK * 16;
        }
    }
}

#[inline(always)]
fn xor_all<V: AesVector>(state: &mut [V; REGISTERS], masks: &[V; REGISTERS]) {
    let mut i = 0;
    while i < REGISTERS {
        state[i] = state[i].xor_with(masks[i]);
        i += 1;
    }
}

/// Block by block, as encryption in CBC is. The last round adds, beside its key,
/// what the next block begins with, so that nothing but rounds waits for rounds.
#[inline(always)]
pub(super) fn cbc_encrypt<V: AesVector>(
    token: V::AesToken,
    keys: &RoundKeys,
    iv: &mut Block,
    sector: &mut [Block],
) {
    let keys = keys.encrypting();
    let (first, last) = (V::splat_block(token, &keys[0]), V::splat_block(token, &keys[keys.len() - 1]));
    // Before the first round of a block: its text, the ciphertext before it, and
    // the first key.
    let Some(block) = sector.first() else { return };
    let mut added = V::splat_block(token, block).xor_with(first);
    let mut state = added.xor_with(V::splat_block(token, iv));
    let mut at = 0;
    while at < sector.len() {
        added = match sector.get(at + 1) {
            Some(next) => V::splat_block(token, next).xor_with(first),
            None => first,
        };
        for key in &keys[1..keys.len() - 1] {
            state = state.encrypt_round(token, V::splat_block(token, key));
        }
        state = state.encrypt_last(token, last.xor_with(added));
        state = state.xor_with(added);
        state.store_blocks(&mut sector[at..]);
        state = state.xor_with(added);
        at += 1;
    }
    state.xor_with(added).store_blocks(std::slice::from_mut(iv));
}

#[inline(always)]
pub(super) fn cbc_decrypt<V: AesVector, const CHUNK: usize>(
    token: V::AesToken,
    keys: &RoundKeys,
    iv: &Block,
    sector: &mut [Block],
) {
    let mut before = *iv;
    by_chunks!(CHUNK, sector, chunk => {
        let mut state = load::<V>(token, chunk);
        let mut head = [before; WIDTH_MAX];
        head[1..].copy_from_slice(&chunk[..WIDTH_MAX - 1]);
        before = chunk[CHUNK - 1];
        decrypt_registers(token, keys.decrypting(), &mut state);
        // From the last register on: its ciphertext is still there when the
        // one before it is stored.
        let mut i = REGISTERS - 1;
        while i > 0 {
            let preceding = V::load_blocks(token, &chunk[i * V::WIDTH - 1..]);
            state[i].xor_with(preceding).store_blocks(&mut chunk[i * V::WIDTH..]);
            i -= 1;
        }
        state[0].xor_with(V::load_blocks(token, &head)).store_blocks(chunk);
    });
}

#[inline(always)]
pub(super) fn ctr<V: AesVector, const CHUNK: usize>(
    token: V::AesToken,
    keys: &RoundKeys,
    iv: &Block,
    sector: &mut [Block],
) {
    let mut counter = u128::from_be_bytes(*iv);
    by_chunks!(CHUNK, sector, chunk => {
        let mut state = counters::<V, CHUNK>(token, counter);
        counter = counter.wrapping_add(CHUNK as u128);
        encrypt_registers(token, keys.encrypting(), &mut state);
        xor_all(&mut state, &load::<V>(token, chunk));
        store(state, chunk);
    });
}

/// The counter blocks from `counter` on.
#[inline(always)]
fn counters<V: AesVector, const CHUNK: usize>(token: V::AesToken, counter: u128) -> [V; REGISTERS] {
    if (counter as u64).checked_add(CHUNK as u64).is_none() {
        let mut blocks = [[0; 16]; CHUNK];
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = counter.wrapping_add(i as u128).to_be_bytes();
        }
        return load::<V>(token, &blocks);
    }
    // No carry leaves the low word, so that words can be added alone.
    let offsets: [Block; WIDTH_MAX] =
        [0u128.to_le_bytes(), 1u128.to_le_bytes(), 2u128.to_le_bytes(), 3u128.to_le_bytes()];
    let step = V::splat_block(token, &(V::WIDTH as u128).to_le_bytes());
    let first = V::splat_block(token, &counter.to_le_bytes());
    let mut next = first.add_words(V::load_blocks(token, &offsets));
    let mut state = [next; REGISTERS];
    let mut i = 0;
    while i < REGISTERS {
        state[i] = next.reversed(token);
        next = next.add_words(step);
        i += 1;
    }
    state
}
