//! Twofish (Schneier and others: "Twofish: A 128-Bit Block Cipher", 1998).
//!
//! `schedule` is for every engine, and constant-time. [`Tables`] is the
//! portable cipher, with the four key-dependent tables of section 5.1 ("full
//! keying"): fast, but its loads depend on key and data. Where there are byte
//! permutations of 64 bytes, `low::twofish` looks up in registers instead.

pub(crate) mod schedule;

use schedule::Schedule;
use zeroize::Zeroize;

use crate::kernel::{Block, Code, Kernel};

/// Blocks worked on side by side, to hide the latency of loads.
const BLOCKS: usize = 2;

/// S-box and matrix together: what byte `i` of a word adds to g.
pub(crate) struct Tables {
    g: Box<[[u32; 256]; 4]>,
    subkeys: [u32; 40],
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.g.as_flattened_mut().zeroize();
        self.subkeys.zeroize();
    }
}

impl Tables {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Tables {
        let schedule = Schedule::new(key);
        let mut g = Box::new([[0; 256]; 4]);
        for (column, (table, boxes)) in g.iter_mut().zip(schedule.boxes.iter()).enumerate() {
            for (entry, &byte) in table.iter_mut().zip(boxes) {
                *entry = schedule::matrix_column(column, byte);
            }
        }
        Tables { g, subkeys: schedule.subkeys }
    }

    fn g(&self, word: u32) -> u32 {
        let [b0, b1, b2, b3] = word.to_le_bytes().map(usize::from);
        self.g[0][b0] ^ self.g[1][b1] ^ self.g[2][b2] ^ self.g[3][b3]
    }

    /// F of section 4.2 without the turns.
    fn f(&self, round: usize, first: u32, second: u32) -> [u32; 2] {
        let t0 = self.g(first);
        let t1 = self.g(second.rotate_left(8));
        let sum = t0.wrapping_add(t1);
        [
            sum.wrapping_add(self.subkeys[2 * round + 8]),
            sum.wrapping_add(t1).wrapping_add(self.subkeys[2 * round + 9]),
        ]
    }

    fn encrypt_words(&self, states: &mut [[u32; 4]]) {
        for round in (0..16).step_by(2) {
            for state in &mut *states {
                let [f0, f1] = self.f(round, state[0], state[1]);
                state[2] = (state[2] ^ f0).rotate_right(1);
                state[3] = state[3].rotate_left(1) ^ f1;
            }
            for state in &mut *states {
                let [f0, f1] = self.f(round + 1, state[2], state[3]);
                state[0] = (state[0] ^ f0).rotate_right(1);
                state[1] = state[1].rotate_left(1) ^ f1;
            }
        }
    }

    fn decrypt_words(&self, states: &mut [[u32; 4]]) {
        for round in (0..16).step_by(2).rev() {
            for state in &mut *states {
                let [f0, f1] = self.f(round + 1, state[2], state[3]);
                state[0] = state[0].rotate_left(1) ^ f0;
                state[1] = (state[1] ^ f1).rotate_right(1);
            }
            for state in &mut *states {
                let [f0, f1] = self.f(round, state[0], state[1]);
                state[2] = state[2].rotate_left(1) ^ f0;
                state[3] = (state[3] ^ f1).rotate_right(1);
            }
        }
    }

    /// Whitens, runs `rounds` and whitens; `turned` when halves are exchanged
    /// at the beginning, for decryption.
    fn crypt(&self, blocks: &mut [Block], encrypt: bool) {
        let mut states = [[0u32; 4]; BLOCKS];
        let states = &mut states[..blocks.len()];
        let (first, last) = if encrypt { (0, 4) } else { (4, 0) };
        for (state, block) in states.iter_mut().zip(&*blocks) {
            let words: [u32; 4] = std::array::from_fn(|i| {
                let bytes = block[4 * i..4 * i + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes) ^ self.subkeys[first + i]
            });
            *state = if encrypt { words } else { [words[2], words[3], words[0], words[1]] };
        }
        match encrypt {
            true => self.encrypt_words(states),
            false => self.decrypt_words(states),
        }
        for (state, block) in states.iter().zip(blocks) {
            let words = if encrypt { [state[2], state[3], state[0], state[1]] } else { *state };
            for (i, (bytes, word)) in block.chunks_exact_mut(4).zip(words).enumerate() {
                bytes.copy_from_slice(&(word ^ self.subkeys[last + i]).to_le_bytes());
            }
        }
    }
}

impl Kernel for Tables {
    fn code(&self) -> Code {
        Code::with_tables("own, tables")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        blocks.chunks_mut(BLOCKS).for_each(|pair| self.crypt(pair, true));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        blocks.chunks_mut(BLOCKS).for_each(|pair| self.crypt(pair, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper, section B.2.
    #[test]
    fn tables_compute_the_vectors_of_the_paper() {
        let mut blocks = [[0; 16]; 3];
        let tables = Tables::new(&[0; 16]);
        tables.encrypt(&mut blocks);
        let expected = 0x9f58_9f5c_f612_2c32_b6bf_ec2f_2ae8_c35a_u128.to_be_bytes();
        assert_eq!(blocks, [expected; 3]);
        tables.decrypt(&mut blocks);
        assert_eq!(blocks, [[0; 16]; 3]);
    }
}
