//! What the device is, and what goes wrong, drawn from a seed for each request.

use std::fmt::Write;

/// The file with the dials, in the library's directory: a name and a number on
/// each line.
pub const DIALS: &str = "dials";

macro_rules! dials {
    ($($(#[$doc:meta])* $name:ident: $initial:expr,)*) => {
        /// See the module.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Dials {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Default for Dials {
            fn default() -> Dials {
                Dials { $($name: $initial,)* }
            }
        }

        impl Dials {
            /// As they stand in the file.
            #[must_use]
            pub fn text(&self) -> String {
                let mut text = String::new();
                $(writeln!(text, "{} {}", stringify!($name), self.$name).expect("a text takes it");)*
                text
            }

            /// Those of a text; none where it has another line.
            #[must_use]
            pub fn parse(text: &str) -> Option<Dials> {
                let mut dials = Dials::default();
                for line in text.lines() {
                    let (name, value) = line.split_once(' ')?;
                    let value = value.parse().ok()?;
                    match name {
                        $(stringify!($name) => dials.$name = value,)*
                        _ => return None,
                    }
                }
                Some(dials)
            }
        }
    };
}

dials! {
    /// Instances that there are; none is that there is no device.
    instances: 2,
    /// Requests that an instance has at once; one more is refused as `RETRY`.
    ring: 128,
    /// Requests that are computed at once.
    units: 2,
    /// Microseconds of each request.
    service_us: 0,
    /// Ciphers that it does not have, a bit each by `CpaCySymCipherAlgorithm`.
    lacks: 0,
    /// Bits in which it counts the bytes of a request.
    length_bits: 32,
    /// Requests, the first ones, with which nothing goes wrong.
    sound: 0,
    /// Where the draws begin.
    seed: 0,
    /// Chances in millions: refused as `RETRY`,
    busy_ppm: 0,
    /// with a wrong bit in its answer,
    wrong_ppm: 0,
    /// answered as failed,
    failed_ppm: 0,
    /// answered late,
    late_ppm: 0,
    /// by so many milliseconds,
    late_ms: 0,
    /// never answered.
    lost_ppm: 0,
    /// Requests after which the device restarts, each time; never if 0.
    restart_after: 0,
    /// Milliseconds that it takes.
    restart_ms: 0,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Right,
    Busy,
    Wrong,
    Failed,
    Late,
    Lost,
}

impl Dials {
    /// That of the request with this number, counted from 0 (SplitMix64).
    pub(crate) fn fate(&self, number: u64) -> Fate {
        if number < self.sound {
            return Fate::Right;
        }
        let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.seed);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mut drawn = (z ^ (z >> 31)) % 1_000_000;
        for (ppm, fate) in [
            (self.busy_ppm, Fate::Busy),
            (self.wrong_ppm, Fate::Wrong),
            (self.failed_ppm, Fate::Failed),
            (self.late_ppm, Fate::Late),
            (self.lost_ppm, Fate::Lost),
        ] {
            match drawn.checked_sub(ppm) {
                None => return fate,
                Some(rest) => drawn = rest,
            }
        }
        Fate::Right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dials_are_read_as_they_were_written() {
        let dials = Dials { seed: 7, lost_ppm: 200_000, length_bits: 16, ..Dials::default() };
        assert_eq!(Dials::parse(&dials.text()), Some(dials));
        assert_eq!(Dials::parse(""), Some(Dials::default()));
        assert_eq!((Dials::parse("seed"), Dials::parse("sed 1"), Dials::parse("seed x")), (None, None, None));
    }

    #[test]
    fn chances_are_what_they_say() {
        let dials =
            Dials { wrong_ppm: 100_000, late_ppm: 200_000, lost_ppm: 300_000, sound: 50, ..Dials::default() };
        assert!((0..50).all(|number| dials.fate(number) == Fate::Right));
        let count = |fate| (0..100_000).filter(|number| dials.fate(*number) == fate).count();
        for (fate, expected) in [(Fate::Wrong, 10_000), (Fate::Late, 20_000), (Fate::Lost, 30_000)] {
            assert!(count(fate).abs_diff(expected) < 1000, "{fate:?}");
        }
    }
}
