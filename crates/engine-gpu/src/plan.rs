//! What one launch does: pure arithmetic, and the only place that knows how a block of pinned memory is divided.
//!
//! A block holds, one after the other, the pieces (see `kernels/common.h`), the keys, the tweaks of sectors and the
//! data. Each run of data begins at a multiple of 64 bytes, so that work-items which do several cipher blocks write
//! into no other run.

use std::ops::Range;

use crate::cipher::Cipher;
use crate::limits::{CONTEXTS_MAX, KEYS_MAX, LAUNCH_BYTES_MAX, PIECE_BLOCKS_MAX, PIECES_MAX, SECTORS_MAX};
use crate::sys::Block;

/// Bytes of a piece, `PIECE_WORDS` of the kernels.
const PIECE_LEN: usize = 32;
/// Bytes of a padded key.
const KEY_LEN: usize = 32;
/// Bytes of a tweak.
const TWEAK_LEN: usize = 16;
/// Where runs of data begin.
const RUN_ALIGNMENT: usize = 64;

const PIECES_AT: usize = 0;
const KEYS_AT: usize = PIECES_AT + PIECES_MAX * PIECE_LEN;
const TWEAKS_AT: usize = KEYS_AT + KEYS_MAX * KEY_LEN;
const DATA_AT: usize = TWEAKS_AT + SECTORS_MAX * TWEAK_LEN;
/// Bytes of the region for data: every run may end in a part of its alignment.
pub(crate) const DATA_LEN: usize = LAUNCH_BYTES_MAX + CONTEXTS_MAX * RUN_ALIGNMENT;

/// Bytes of a block.
pub(crate) const BLOCK_LEN: usize = DATA_AT + DATA_LEN;

/// Bytes of the device's memory for each region.
pub(crate) const PIECES_LEN: usize = PIECES_MAX * PIECE_LEN;
pub(crate) const KEYS_LEN: usize = KEYS_MAX * KEY_LEN;
pub(crate) const TWEAKS_LEN: usize = SECTORS_MAX * TWEAK_LEN;
/// Schedules are made anew for each pass.
pub(crate) const SCHEDULES_LEN: usize = CONTEXTS_MAX * Cipher::SCHEDULE_WORDS_MAX * 4;

/// `MODE_*` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    Counter = 0,
    CounterXor = 1,
    Blocks = 2,
    Xts = 3,
}

/// What a kernel works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Data,
    Tweaks,
}

/// One kernel's run over pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) decrypt: bool,
    pub(crate) target: Target,
    pub(crate) first_piece: u32,
    /// Work-items of a piece.
    pub(crate) units: u32,
    /// Work-items in all.
    pub(crate) total: u32,
    pub(crate) mode: Mode,
}

/// Schedules of keys, and the runs that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) cipher: Cipher,
    /// Words of a key before it was padded.
    pub(crate) key_words: u32,
    pub(crate) first_key: u32,
    pub(crate) keys: u32,
    pub(crate) runs: Vec<Run>,
}

/// A launch.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pieces: usize,
    keys: usize,
    tweaks: usize,
    data_len: usize,
    /// False for keystream, which is made from nothing.
    pub(crate) data_goes_in: bool,
    pub(crate) passes: Vec<Pass>,
    /// For the test of the test that device memory is wiped.
    #[cfg(test)]
    pub(crate) leaves_all: bool,
}

impl Plan {
    /// What is used of each region of the block.
    pub(crate) fn pieces(&self) -> Range<usize> {
        PIECES_AT..PIECES_AT + self.pieces * PIECE_LEN
    }

    pub(crate) fn keys(&self) -> Range<usize> {
        KEYS_AT..KEYS_AT + self.keys * KEY_LEN
    }

    /// With what work-items write behind the last one.
    pub(crate) fn tweaks(&self) -> Range<usize> {
        TWEAKS_AT..TWEAKS_AT + (self.tweaks * TWEAK_LEN).next_multiple_of(RUN_ALIGNMENT)
    }

    pub(crate) fn data(&self) -> Range<usize> {
        DATA_AT..DATA_AT + self.data_len
    }

    /// Bytes of the device's memory that schedules take.
    pub(crate) fn schedules_len(&self) -> usize {
        self.passes
            .iter()
            .map(|pass| pass.keys as usize * pass.cipher.schedule_words() * 4)
            .max()
            .unwrap_or(0)
    }
}

/// Keystream of one nonce from a counter on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Which of the pass's keys.
    pub(crate) key: u32,
    pub(crate) nonce: [u8; 12],
    pub(crate) counter: u32,
}

/// A run of sectors: how many cipher blocks each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// The first of its tweaks.
    pub(crate) tweak: u32,
    pub(crate) blocks_per_sector: u32,
}

/// Puts a launch together in its block.
pub(crate) struct Builder<'b> {
    block: &'b mut Block,
    plan: Plan,
}

impl<'b> Builder<'b> {
    pub(crate) fn new(block: &'b mut Block) -> Builder<'b> {
        Builder { block, plan: Plan::default() }
    }

    pub(crate) fn finish(self) -> Plan {
        self.plan
    }

    /// Room for a run of `len` bytes: where it lies in the block.
    ///
    /// # Panics
    /// When the runs together are more than a launch takes.
    pub(crate) fn run(&mut self, len: usize) -> Range<usize> {
        let start = DATA_AT + self.plan.data_len;
        self.plan.data_len += len.next_multiple_of(RUN_ALIGNMENT);
        assert!(self.plan.data_len <= DATA_LEN, "the caller holds to the limits");
        start..start + len
    }

    /// The block's bytes.
    pub(crate) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.block[range]
    }

    /// Sectors come with their data.
    pub(crate) fn data_goes_in(&mut self) {
        self.plan.data_goes_in = true;
    }

    /// Keys for the runs that follow.
    pub(crate) fn pass(&mut self, cipher: Cipher, key_words: usize) {
        self.plan.passes.push(Pass {
            cipher,
            key_words: key_words as u32,
            first_key: self.plan.keys as u32,
            keys: 0,
            runs: Vec::new(),
        });
    }

    fn current(&mut self) -> &mut Pass {
        self.plan.passes.last_mut().expect("a pass was begun")
    }

    /// A key of the pass, padded, and its number in the pass.
    pub(crate) fn key(&mut self, padded: &[u8; 32]) -> u32 {
        assert!(self.plan.keys < KEYS_MAX, "the caller holds to the limits");
        let at = KEYS_AT + self.plan.keys * KEY_LEN;
        self.block[at..at + KEY_LEN].copy_from_slice(padded);
        self.plan.keys += 1;
        let pass = self.current();
        pass.keys += 1;
        pass.keys - 1
    }

    /// A tweak, not yet encrypted, and its number.
    pub(crate) fn tweak(&mut self, tweak: [u8; 16]) -> u32 {
        assert!(self.plan.tweaks < SECTORS_MAX, "the caller holds to the limits");
        let at = TWEAKS_AT + self.plan.tweaks * TWEAK_LEN;
        self.block[at..at + TWEAK_LEN].copy_from_slice(&tweak);
        self.plan.tweaks += 1;
        self.plan.tweaks as u32 - 1
    }

    fn piece(&mut self, words: [u32; 8]) {
        assert!(self.plan.pieces < PIECES_MAX, "the caller holds to the limits");
        let at = PIECES_AT + self.plan.pieces * PIECE_LEN;
        for (bytes, word) in self.block[at..at + PIECE_LEN].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.plan.pieces += 1;
    }

    /// The number that kernels know a key of the pass by: where keys are schedules, all of the launch's stand there.
    fn schedule(&self, key: u32) -> u32 {
        let pass = self.plan.passes.last().expect("a pass was begun");
        if pass.cipher.schedule_words() == 0 { pass.first_key + key } else { key }
    }

    /// Pieces of a run of cipher blocks: each a part of it, by number of block and count. Returns the longest.
    fn pieces_of(&mut self, blocks: usize, most: usize, piece: impl Fn(u32, u32) -> [u32; 8]) -> usize {
        for first in (0..blocks).step_by(most) {
            self.piece(piece(first as u32, most.min(blocks - first) as u32));
        }
        blocks.min(most)
    }

    fn push_run(&mut self, first_piece: usize, longest: usize, run: Run) {
        let pieces = self.plan.pieces - first_piece;
        let pass = self.current();
        let units = longest.div_ceil(pass.cipher.blocks_per_item());
        if pieces * units > 0 {
            let (units, total) = (units as u32, (pieces * units) as u32);
            pass.runs.push(Run { first_piece: first_piece as u32, units, total, ..run });
        }
    }

    /// Keystream into each of `streams`, or onto what passes before have made.
    pub(crate) fn counter(&mut self, streams: impl IntoIterator<Item = (Stream, Range<usize>)>, onto: bool) {
        let cipher = self.current().cipher;
        let units_of_16 = (cipher.block_len() / 16) as u32;
        let most = PIECE_BLOCKS_MAX * 16 / cipher.block_len();
        let (first_piece, mut longest) = (self.plan.pieces, 0);
        for (stream, range) in streams {
            let schedule = self.schedule(stream.key);
            let offset = ((range.start - DATA_AT) / 16) as u32;
            let [a, b, c] = [0, 4, 8].map(|at| {
                u32::from_le_bytes(stream.nonce[at..at + 4].try_into().expect("four bytes of twelve"))
            });
            let piece = |first: u32, count: u32| {
                let counter = stream.counter.wrapping_add(first);
                [schedule, counter, offset + first * units_of_16, count, a, b, c, 0]
            };
            let blocks = range.len().div_ceil(cipher.block_len());
            longest = longest.max(self.pieces_of(blocks, most, piece));
        }
        let mode = if onto { Mode::CounterXor } else { Mode::Counter };
        self.push_run(first_piece, longest, RUN.with(Target::Data, mode, false));
    }

    /// Encrypts all tweaks by key `key` of the pass.
    pub(crate) fn encrypt_tweaks(&mut self, key: u32) {
        let first_piece = self.plan.pieces;
        let schedule = self.schedule(key);
        let piece = |first, count| [schedule, 0, first, count, 0, 0, 0, 0];
        let longest = self.pieces_of(self.plan.tweaks, PIECE_BLOCKS_MAX, piece);
        self.push_run(first_piece, longest, RUN.with(Target::Tweaks, Mode::Blocks, false));
    }

    /// XTS of each run of sectors by key `key` of the pass.
    pub(crate) fn xts(
        &mut self,
        key: u32,
        decrypt: bool,
        runs: impl IntoIterator<Item = (Sectors, Range<usize>)>,
    ) {
        let (first_piece, mut longest) = (self.plan.pieces, 0);
        let schedule = self.schedule(key);
        for (sectors, range) in runs {
            let offset = ((range.start - DATA_AT) / 16) as u32;
            let piece = |first: u32, count: u32| {
                [schedule, first, offset + first, count, sectors.tweak, sectors.blocks_per_sector, 0, 0]
            };
            longest = longest.max(self.pieces_of(range.len() / 16, PIECE_BLOCKS_MAX, piece));
        }
        self.push_run(first_piece, longest, RUN.with(Target::Data, Mode::Xts, decrypt));
    }
}

/// A run of nothing.
const RUN: Run =
    Run { decrypt: false, target: Target::Data, first_piece: 0, units: 0, total: 0, mode: Mode::Blocks };

impl Run {
    const fn with(self, target: Target, mode: Mode, decrypt: bool) -> Run {
        Run { target, mode, decrypt, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(block: &Block, piece: usize) -> [u32; 8] {
        let bytes = &block[piece * PIECE_LEN..][..PIECE_LEN];
        std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
    }

    #[test]
    fn a_long_context_is_cut_and_its_counter_goes_on() {
        let mut block = Block::plain(BLOCK_LEN);
        let mut builder = Builder::new(&mut block);
        builder.pass(Cipher::Aes, 8);
        let key = builder.key(&[7; 32]);
        let short = builder.run(5);
        let long = builder.run(4096 + 33);
        let nonce = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        let stream = |counter| Stream { key, nonce, counter };
        builder.counter([(stream(9), short), (stream(u32::MAX), long)], false);
        let plan = builder.finish();
        assert_eq!(words(&block, 0), [0, 9, 0, 1, 1, 2, 3, 0]);
        assert_eq!(words(&block, 1), [0, u32::MAX, 4, 256, 1, 2, 3, 0]);
        assert_eq!(words(&block, 2), [0, 255, 260, 3, 1, 2, 3, 0]);
        let run = Run { units: 128, total: 3 * 128, ..RUN.with(Target::Data, Mode::Counter, false) };
        assert_eq!(plan.passes[0].runs, [run]);
        assert_eq!(plan.data().len(), 64 + 4096 + 64);
        assert_eq!(plan.schedules_len(), 720);
    }

    #[test]
    fn keys_that_are_schedules_are_numbered_through_the_launch() {
        let mut block = Block::plain(BLOCK_LEN);
        let mut builder = Builder::new(&mut block);
        let run = builder.run(64);
        for cipher in [Cipher::Serpent, Cipher::ChaCha20] {
            builder.pass(cipher, 8);
            let key = builder.key(&[7; 32]);
            builder.counter([(Stream { key, nonce: [0; 12], counter: 0 }, run.clone())], true);
        }
        let plan = builder.finish();
        assert_eq!((words(&block, 0)[0], words(&block, 1)[0]), (0, 1));
        assert_eq!((words(&block, 0)[3], words(&block, 1)[3]), (4, 1));
        assert_eq!((plan.passes[1].first_key, plan.passes[1].keys), (1, 1));
    }

    #[test]
    fn sectors_are_cut_without_regard_to_their_ends() {
        let mut block = Block::plain(BLOCK_LEN);
        let mut builder = Builder::new(&mut block);
        builder.pass(Cipher::Camellia, 4);
        let key = builder.key(&[7; 32]);
        for tweak in 0..9 {
            builder.tweak([tweak; 16]);
        }
        builder.encrypt_tweaks(key);
        let run = builder.run(9 * 512);
        builder.xts(key, true, [(Sectors { tweak: 0, blocks_per_sector: 32 }, run)]);
        let plan = builder.finish();
        assert_eq!(words(&block, 0), [0, 0, 0, 9, 0, 0, 0, 0]);
        assert_eq!(words(&block, 1), [0, 0, 0, 256, 0, 32, 0, 0]);
        assert_eq!(words(&block, 2), [0, 256, 256, 32, 0, 32, 0, 0]);
        let runs: Vec<_> = plan.passes[0].runs.iter().map(|run| (run.target, run.units, run.total)).collect();
        assert_eq!(runs, [(Target::Tweaks, 3, 3), (Target::Data, 64, 128)]);
    }

    #[test]
    fn the_largest_launches_fit() {
        let mut block = Block::plain(BLOCK_LEN);
        let mut builder = Builder::new(&mut block);
        // Cascades of odd lengths, each context under keys of its own.
        let runs: Vec<_> = (0..CONTEXTS_MAX).map(|_| builder.run(4095)).collect();
        for cipher in [Cipher::Aes, Cipher::Twofish, Cipher::Serpent] {
            builder.pass(cipher, 8);
            let streams: Vec<_> = runs
                .iter()
                .map(|run| {
                    let key = builder.key(&[1; 32]);
                    (Stream { key, nonce: [0; 12], counter: 2 }, run.clone())
                })
                .collect();
            builder.counter(streams, false);
        }
        let plan = builder.finish();
        assert!(plan.schedules_len() <= SCHEDULES_LEN && plan.data().end <= BLOCK_LEN);
        assert!(plan.passes.iter().all(|pass| pass.runs.len() == 1));
    }
}
