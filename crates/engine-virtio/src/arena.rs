//! Which parts of a memory are taken: first fit, in grains, so that no more of
//! it is touched than is needed at once.

/// Bytes that parts are multiples of.
const GRAIN: usize = 1024;

/// See the module.
pub(crate) struct Arena {
    /// Where it begins in the memory.
    at: usize,
    taken: Vec<bool>,
    /// Nothing is free before it.
    hint: usize,
}

/// A part that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The place of its first byte.
    pub(crate) at: usize,
    grains: usize,
}

impl Arena {
    /// Of the bytes from `at` on.
    pub(crate) fn new(at: usize, len: usize) -> Arena {
        Arena { at, taken: vec![false; len / GRAIN], hint: 0 }
    }

    /// Takes `len` bytes, if they are free in one piece.
    pub(crate) fn take(&mut self, len: usize) -> Option<Part> {
        let grains = len.div_ceil(GRAIN).max(1);
        let from = self.first_fit(grains)?;
        self.taken[from..from + grains].fill(true);
        if from == self.hint {
            self.hint += grains;
        }
        Some(Part { at: self.at + from * GRAIN, grains })
    }

    fn first_fit(&self, grains: usize) -> Option<usize> {
        let mut run = 0;
        for (at, taken) in self.taken.iter().enumerate().skip(self.hint) {
            run = if *taken { 0 } else { run + 1 };
            if run == grains {
                return Some(at + 1 - grains);
            }
        }
        None
    }

    /// Gives a part back.
    pub(crate) fn give_back(&mut self, part: Part) {
        let from = (part.at - self.at) / GRAIN;
        self.taken[from..from + part.grains].fill(false);
        self.hint = self.hint.min(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_come_free() {
        let mut arena = Arena::new(4096, 16 * GRAIN);
        let one = arena.take(1).expect("room");
        let three = arena.take(2 * GRAIN + 1).expect("room");
        let rest = arena.take(12 * GRAIN).expect("room");
        assert_eq!((one.at, three.at, rest.at), (4096, 4096 + GRAIN, 4096 + 4 * GRAIN));
        assert_eq!(arena.take(1), None);
        arena.give_back(one);
        assert_eq!(arena.take(GRAIN + 1), None, "in one piece");
        arena.give_back(three);
        assert_eq!(arena.take(4 * GRAIN).map(|part| part.at), Some(4096));
    }
}
