//! Which blocks of a file have an image in the journal, and where.
//!
//! Kept by group: what is overwritten comes in neighbours as a rule, and a
//! search for each of them would cost more than to note it.

use std::collections::BTreeMap;
use std::ops::Range;

use strongroom_units::GROUP_BLOCKS;

use crate::journal::Place;

const BLOCKS: usize = GROUP_BLOCKS as usize;

/// Places of blocks, in the order of the blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    /// None of them is empty.
    groups: BTreeMap<u64, Box<Group>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Bit `i`: block `i` of the group has an image.
    present: u128,
    places: [Place; BLOCKS],
}

impl Default for Group {
    fn default() -> Group {
        Group { present: 0, places: [Place { segment: 0, slot: 0 }; BLOCKS] }
    }
}

/// A block's group, and its number in it.
fn split(block: u64) -> (u64, usize) {
    (block / GROUP_BLOCKS, (block % GROUP_BLOCKS) as usize)
}

/// Bits of a group that lie in a range of blocks.
fn bits_in(group: u64, blocks: &Range<u64>) -> u128 {
    let first = group * GROUP_BLOCKS;
    let below = |end: u64| match end.saturating_sub(first) {
        GROUP_BLOCKS.. => u128::MAX,
        blocks => (1 << blocks) - 1,
    };
    below(blocks.end) & !below(blocks.start)
}

impl Images {
    /// None.
    pub(crate) const fn new() -> Images {
        Images { groups: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Those of a group, if it has any.
    pub(crate) fn group(&self, number: u64) -> Option<&Group> {
        self.groups.get(&number).map(|group| &**group)
    }

    pub(crate) fn insert(&mut self, block: u64, place: Place) {
        let (group, index) = split(block);
        self.groups.entry(group).or_default().set(index, place);
    }

    pub(crate) fn remove(&mut self, block: u64) {
        let (number, index) = split(block);
        let Some(group) = self.groups.get_mut(&number) else { return };
        group.present &= !(1 << index);
        if group.present == 0 {
            self.groups.remove(&number);
        }
    }

    /// Removes those of all blocks of a range.
    pub(crate) fn remove_all(&mut self, blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        let touched = split(blocks.start).0..=split(blocks.end - 1).0;
        let mut emptied = Vec::new();
        for (&number, group) in self.groups.range_mut(touched) {
            group.present &= !bits_in(number, &blocks);
            if group.present == 0 {
                emptied.push(number);
            }
        }
        for number in emptied {
            self.groups.remove(&number);
        }
    }

    /// Removes those that `others` has at the same places.
    pub(crate) fn remove_same(&mut self, others: &Images) {
        for (number, others) in &others.groups {
            let Some(group) = self.groups.get_mut(number) else { continue };
            group.present = group.not_in(others);
            if group.present == 0 {
                self.groups.remove(number);
            }
        }
    }

    /// Those that `others` does not have, or has at other places.
    pub(crate) fn not_in<'i>(&'i self, others: &'i Images) -> impl Iterator<Item = (u64, Place)> + 'i {
        self.groups.iter().flat_map(|(&number, group)| {
            group.within(number, others.group(number).map_or(u128::MAX, |others| group.not_in(others)))
        })
    }

    /// Removes those of all blocks that `is_kept` does not hold of.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        let dropped: Vec<u64> =
            self.iter().map(|(block, _)| block).filter(|&block| !is_kept(block)).collect();
        dropped.into_iter().for_each(|block| self.remove(block));
    }

    pub(crate) fn clear(&mut self) {
        self.groups.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.groups.iter().flat_map(|(&number, group)| group.within(number, u128::MAX))
    }

    /// Those of a range of blocks.
    pub(crate) fn range(&self, blocks: Range<u64>) -> impl Iterator<Item = (u64, Place)> + '_ {
        let touched = split(blocks.start).0..=split(blocks.end).0;
        let groups = self.groups.range(touched);
        groups.flat_map(move |(&number, group)| group.within(number, bits_in(number, &blocks)))
    }
}

impl Group {
    /// The place of its block number `index`.
    pub(crate) fn get(&self, index: usize) -> Option<Place> {
        (self.present >> index & 1 == 1).then(|| self.places[index])
    }

    fn set(&mut self, index: usize, place: Place) {
        self.present |= 1 << index;
        self.places[index] = place;
    }

    /// Bits of those that `others` does not have, or has at other places.
    fn not_in(&self, others: &Group) -> u128 {
        let pairs = self.places.iter().zip(&others.places).enumerate();
        let same = pairs.fold(0, |bits, (index, (place, other))| bits | u128::from(place == other) << index);
        self.present & !(others.present & same)
    }

    /// Blocks and places of the group `number`, as far as `bits` has them.
    fn within(&self, number: u64, bits: u128) -> impl Iterator<Item = (u64, Place)> + '_ {
        let mut left = self.present & bits;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            Some((number * GROUP_BLOCKS + index as u64, self.places[index]))
        })
    }
}

impl Extend<(u64, Place)> for Images {
    fn extend<T: IntoIterator<Item = (u64, Place)>>(&mut self, images: T) {
        let mut images = images.into_iter().peekable();
        while let Some((number, _)) = images.peek().map(|&(block, _)| split(block)) {
            let group = self.groups.entry(number).or_default();
            while let Some((block, place)) = images.next_if(|&(block, _)| split(block).0 == number) {
                group.set(split(block).1, place);
            }
        }
    }
}

impl FromIterator<(u64, Place)> for Images {
    fn from_iter<T: IntoIterator<Item = (u64, Place)>>(images: T) -> Images {
        let mut collected = Images::default();
        collected.extend(images);
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of the files here: four groups.
    const FILE: u64 = 4 * GROUP_BLOCKS;

    /// Numbers in no order, the same ones each time.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn change(numbers: &mut Numbers, images: &mut Images, expected: &mut BTreeMap<u64, Place>) {
        let block = numbers.below(FILE);
        match numbers.below(100) {
            0 => {
                let end = block + numbers.below(3 * GROUP_BLOCKS);
                images.remove_all(block..end);
                expected.retain(|found, _| !(block..end).contains(found));
            }
            1 => {
                let divisor = 2 + numbers.below(3);
                images.retain(|block| block % divisor == 0);
                expected.retain(|block, _| block % divisor == 0);
            }
            2..20 => {
                images.remove(block);
                expected.remove(&block);
            }
            slot => {
                let place = Place { segment: (slot & 1) as u8, slot: slot as u32 };
                images.insert(block, place);
                expected.insert(block, place);
            }
        }
    }

    #[test]
    fn images_are_an_ordered_map_of_blocks() {
        let mut numbers = Numbers(1);
        let (mut images, mut expected) = (Images::default(), BTreeMap::new());
        for _ in 0..20_000 {
            change(&mut numbers, &mut images, &mut expected);
            assert_eq!(images.is_empty(), expected.is_empty());
            assert!(images.iter().eq(expected.iter().map(|(&block, &place)| (block, place))));
            let at = numbers.below(FILE);
            let part = at..at + numbers.below(FILE);
            let found = expected.range(part.clone()).map(|(&block, &place)| (block, place));
            assert!(images.range(part).eq(found));
            let (number, index) = split(at);
            let place = images.group(number).and_then(|group| group.get(index));
            assert_eq!(place, expected.get(&at).copied());
        }
        images.remove_all(0..u64::MAX);
        assert!(images.is_empty());
    }

    #[test]
    fn images_are_held_against_others_by_block_and_place() {
        let mut numbers = Numbers(2);
        for _ in 0..200 {
            let (mut images, mut expected) = (Images::default(), BTreeMap::new());
            for _ in 0..500 {
                change(&mut numbers, &mut images, &mut expected);
            }
            let others = images.clone();
            let before = expected.clone();
            for _ in 0..numbers.below(500) {
                change(&mut numbers, &mut images, &mut expected);
            }
            expected.retain(|block, place| before.get(block) != Some(place));
            assert!(images.not_in(&others).eq(expected.iter().map(|(&block, &place)| (block, place))));
            images.remove_same(&others);
            assert!(images.iter().eq(expected.iter().map(|(&block, &place)| (block, place))));
            let again: Images = expected.into_iter().collect();
            assert!(again.iter().eq(images.iter()));
        }
    }
}
