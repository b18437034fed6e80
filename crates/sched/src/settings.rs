//! What a scheduler is told to do, changeable while it works.
//!
//! All settings fit one word, so that a change is seen whole or not at all
//! and reading them costs one load.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Which function places batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Always the engine [`Settings::engine`].
    Fixed,
    /// The CPU below [`Settings::beta_bytes`], the first device from there on.
    Size,
    /// Algorithm 1 of the ACA-SDS paper.
    Aca,
    /// By what each engine is expected to cost now.
    #[default]
    Adaptive,
}

/// What [`Policy::Adaptive`] minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The time of everybody: one's own, and what one makes others wait.
    #[default]
    Throughput,
    /// One's own time.
    Latency,
    /// CPU time, as long as the engine keeps up.
    Cpu,
}

/// Whether keystream is made ahead by a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masks {
    /// Where it spares the CPU work.
    #[default]
    Auto,
    /// Wherever a device makes it.
    On,
    /// Never.
    Off,
}

/// A text is not among a setting's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSetting {
    /// What was given.
    pub text: String,
    /// What may be given.
    pub expected: &'static str,
}

impl fmt::Display for UnknownSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.text, self.expected)
    }
}

impl std::error::Error for UnknownSetting {}

/// Gives an enum its names in both directions.
macro_rules! named {
    ($type:ident, $expected:literal, $($name:literal => $variant:ident),+) => {
        impl $type {
            /// Its name in settings and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = UnknownSetting;

            fn from_str(text: &str) -> Result<$type, UnknownSetting> {
                match text {
                    $($name => Ok($type::$variant),)+
                    _ => Err(UnknownSetting { text: text.to_owned(), expected: $expected }),
                }
            }
        }
    };
}

named!(Policy, "fixed, size, aca, adaptive", "fixed" => Fixed, "size" => Size, "aca" => Aca, "adaptive" => Adaptive);
named!(Masks, "auto, on, off", "auto" => Auto, "on" => On, "off" => Off);
named!(Objective, "throughput, latency, cpu", "throughput" => Throughput, "latency" => Latency, "cpu" => Cpu);

/// Everything that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which function places batches.
    pub policy: Policy,
    /// What `adaptive` minimises.
    pub objective: Objective,
    /// Place of the engine that `fixed` takes in the scheduler's list.
    pub engine: u8,
    /// Alpha of the paper: tasks, distinct callers with batches in flight, above
    /// which a device is worth its cost.
    pub alpha: u16,
    /// Beta of the paper, of the request's bytes, and the threshold of `size`, of
    /// the batch's; kept to 64 bytes, at most 1 GiB.
    pub beta_bytes: u32,
    /// M of the paper, in per mille: idle CPU above which the CPU computes
    /// what the device could.
    pub idle_cpu_permille: u16,
    /// One result in 2^n of a device is recomputed on the CPU before it
    /// counts; 0 is every one, which is the default, since nothing less shows
    /// that a sealed block can be opened again.
    pub check_exponent: u8,
    /// Whether keystream is made ahead.
    pub masks: Masks,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            policy: Policy::default(),
            objective: Objective::default(),
            engine: 0,
            alpha: 12,
            beta_bytes: 4096,
            idle_cpu_permille: 100,
            check_exponent: 0,
            masks: Masks::default(),
        }
    }
}

impl Settings {
    /// Largest [`Settings::check_exponent`]: never fewer than one in 16,384.
    pub const CHECK_EXPONENT_MAX: u8 = 14;
    /// Largest [`Settings::engine`].
    pub const ENGINE_MAX: u8 = 15;
    /// Largest [`Settings::beta_bytes`].
    pub const BETA_BYTES_MAX: u32 = ((1 << 24) - 1) * 64;

    fn pack(self) -> u64 {
        let fields = [
            (self.policy as u64, 2),
            (self.objective as u64, 2),
            (self.masks as u64, 2),
            (u64::from(self.engine.min(Self::ENGINE_MAX)), 4),
            (u64::from(self.alpha), 16),
            (u64::from(self.beta_bytes.min(Self::BETA_BYTES_MAX).div_ceil(64)), 24),
            (u64::from(self.idle_cpu_permille.min(1000)), 10),
            (u64::from(self.check_exponent.min(Self::CHECK_EXPONENT_MAX)), 4),
        ];
        fields.iter().rev().fold(0, |word, (value, bits)| word << bits | value)
    }

    fn unpack(mut word: u64) -> Settings {
        let mut take = |bits: u32| {
            let value = word & ((1 << bits) - 1);
            word >>= bits;
            value
        };
        Settings {
            policy: match take(2) {
                0 => Policy::Fixed,
                1 => Policy::Size,
                2 => Policy::Aca,
                _ => Policy::Adaptive,
            },
            objective: match take(2) {
                0 => Objective::Throughput,
                1 => Objective::Latency,
                _ => Objective::Cpu,
            },
            masks: match take(2) {
                0 => Masks::Auto,
                1 => Masks::On,
                _ => Masks::Off,
            },
            engine: take(4) as u8,
            alpha: take(16) as u16,
            beta_bytes: take(24) as u32 * 64,
            idle_cpu_permille: take(10) as u16,
            check_exponent: take(4) as u8,
        }
    }
}

/// Settings that threads read while another changes them.
pub(crate) struct LiveSettings {
    word: AtomicU64,
    version: AtomicU32,
}

impl LiveSettings {
    pub(crate) fn new(settings: Settings) -> LiveSettings {
        LiveSettings { word: AtomicU64::new(settings.pack()), version: AtomicU32::new(0) }
    }

    pub(crate) fn load(&self) -> Settings {
        Settings::unpack(self.word.load(Ordering::Relaxed))
    }

    /// Counts changes. Settings that are loaded after it are not older.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, settings: Settings) {
        self.word.store(settings.pack(), Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_word() {
        for policy in [Policy::Fixed, Policy::Size, Policy::Aca, Policy::Adaptive] {
            for objective in [Objective::Throughput, Objective::Latency, Objective::Cpu] {
                let settings = Settings {
                    policy,
                    objective,
                    engine: 15,
                    alpha: u16::MAX,
                    beta_bytes: Settings::BETA_BYTES_MAX,
                    idle_cpu_permille: 1000,
                    check_exponent: 14,
                    masks: Masks::Off,
                };
                assert_eq!(Settings::unpack(settings.pack()), settings);
                assert_eq!(policy.name().parse(), Ok(policy));
                assert_eq!(objective.name().parse(), Ok(objective));
            }
        }
        assert_eq!(Settings::unpack(Settings::default().pack()), Settings::default());
        assert!("best".parse::<Policy>().is_err());
    }
}
