//! What of the un-synced changes one image keeps. Extremes come first: the
//! remainder of the seed by [`PATTERNS`] picks the pattern, the rest of it
//! the details.

/// Number of patterns.
pub(super) const PATTERNS: u64 = 16;

/// A sequence of numbers from a seed (SplitMix64, Steele et al. 2014).
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.state)
    }

    /// A number below `bound`, 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    /// True once in `n`.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Which sectors of one change are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    Everything,
    /// Each by itself, with so many chances in eight.
    Some(u8),
    /// All but one, counted modulo the number of sectors.
    AllBut(u64),
    /// One, counted likewise.
    Only(u64),
}

/// Which length a file gets.
#[derive(Clone, Copy)]
enum Lengths {
    /// The durable one.
    Old,
    /// The latest.
    New,
    /// Any since the last barrier.
    Any,
    /// The one after the last change before this ordinal.
    Before(usize),
}

/// All choices of one image. Changes of content are known by their ordinal
/// among all un-synced ones of the store.
pub(super) struct Choice {
    /// How many of the un-synced directory operations are kept.
    pub(super) names: usize,
    keep: Vec<Keep>,
    lengths: Lengths,
    seed: u64,
}

impl Choice {
    /// Chooses for an image with so many directory operations, and changes
    /// of content, whose files are `files`, by ordinal.
    pub(super) fn draw(seed: u64, cut: usize, names: usize, files: &[u64]) -> Choice {
        let seed_of_cut = scramble(seed ^ scramble(cut as u64));
        let mut random = Random::new(seed_of_cut);
        let count = files.len();
        let one = random.below(count);
        let detail = random.next();
        let all = |keep: Keep| vec![keep; count];
        let all_but = |rest: Keep, single: Keep| {
            (0..count).map(|at| if at == one { single } else { rest }).collect::<Vec<_>>()
        };
        let any_length = if detail & 1 == 0 { Lengths::New } else { Lengths::Any };
        let (keep, lengths) = match seed % PATTERNS {
            0 => (all(Keep::Nothing), Lengths::Old),
            1 => (all(Keep::Everything), Lengths::New),
            2 => (all(Keep::Nothing), Lengths::New),
            3 => (all(Keep::Everything), Lengths::Old),
            4 => (all_but(Keep::Everything, Keep::Nothing), any_length),
            5 => (all_but(Keep::Nothing, Keep::Everything), any_length),
            6 => (all_but(Keep::Everything, Keep::Some(4)), any_length),
            7 => (all_but(Keep::Nothing, Keep::Some(4)), any_length),
            8 => (all_but(Keep::Everything, Keep::AllBut(detail)), any_length),
            9 => (all_but(Keep::Nothing, Keep::Only(detail)), any_length),
            10 => (in_time(count, one, Keep::Everything, Keep::Nothing), Lengths::Before(one + 1)),
            11 => (in_time(count, one, Keep::Nothing, Keep::Everything), any_length),
            12 => (last_of_each_file(files), any_length),
            13 => (by_file(files, detail), any_length),
            14 => ((0..count).map(|_| half(&mut random)).collect(), Lengths::Any),
            _ => (all(Keep::Some([1, 4, 7][random.below(3)])), Lengths::Any),
        };
        let names = match seed % PATTERNS {
            0 => 0,
            1 => names,
            _ => some_names(&mut random, names),
        };
        Choice { names, keep, lengths, seed: seed_of_cut }
    }

    /// Whether the change `ordinal` keeps its sector `index` of `count`.
    pub(super) fn keeps(&self, ordinal: usize, index: u64, count: u64) -> bool {
        match self.keep[ordinal] {
            Keep::Nothing => false,
            Keep::Everything => true,
            Keep::AllBut(one) => one % count != index,
            Keep::Only(one) => one % count == index,
            Keep::Some(eighths) => {
                scramble(self.seed ^ scramble(((ordinal as u64) << 32) ^ index)) % 8 < eighths.into()
            }
        }
    }

    /// How many of a file's changes (their ordinals ascending) its length has
    /// seen.
    pub(super) fn changes_seen(&self, inode: u64, ordinals: impl ExactSizeIterator<Item = usize>) -> usize {
        match self.lengths {
            Lengths::Old => 0,
            Lengths::New => ordinals.len(),
            Lengths::Before(bound) => ordinals.filter(|&ordinal| ordinal < bound).count(),
            Lengths::Any => {
                let mut random = Random::new(self.seed ^ scramble(inode));
                let count = ordinals.len();
                match random.below(4) {
                    0 => 0,
                    1 => count,
                    _ => random.below(count + 1),
                }
            }
        }
    }

    /// A length on the way from `old` to `new` at which a growing write may
    /// have been stopped: at a multiple of `step` between them, or `new`.
    pub(super) fn stopped_length(&self, inode: u64, old: u64, new: u64, step: u64) -> u64 {
        let exact = matches!(self.lengths, Lengths::New | Lengths::Old);
        let first = old / step + 1;
        let stops = (new.saturating_sub(1) / step).saturating_sub(first - 1);
        let mut random = Random::new(self.seed ^ scramble(!inode));
        if exact || stops == 0 || !random.once_in(2) {
            return new;
        }
        (first + random.next() % stops) * step
    }
}

/// `before` up to the change `at`, which is torn, `after` from there on.
fn in_time(count: usize, at: usize, before: Keep, after: Keep) -> Vec<Keep> {
    (0..count)
        .map(|ordinal| match ordinal.cmp(&at) {
            std::cmp::Ordering::Less => before,
            std::cmp::Ordering::Equal => Keep::Some(4),
            std::cmp::Ordering::Greater => after,
        })
        .collect()
}

fn last_of_each_file(files: &[u64]) -> Vec<Keep> {
    let is_last = |at: usize| !files[at + 1..].contains(&files[at]);
    (0..files.len()).map(|at| if is_last(at) { Keep::Everything } else { Keep::Nothing }).collect()
}

fn by_file(files: &[u64], detail: u64) -> Vec<Keep> {
    let kept = |inode: u64| scramble(detail ^ inode) & 1 == 0;
    files.iter().map(|&inode| if kept(inode) { Keep::Everything } else { Keep::Nothing }).collect()
}

fn half(random: &mut Random) -> Keep {
    if random.once_in(2) { Keep::Everything } else { Keep::Nothing }
}

/// A prefix: often none, all, all but one, or one.
fn some_names(random: &mut Random, count: usize) -> usize {
    match random.below(8) {
        0 => 0,
        1..=3 => count,
        4 => count.saturating_sub(1),
        5 => count.min(1),
        _ => random.below(count + 1),
    }
}
