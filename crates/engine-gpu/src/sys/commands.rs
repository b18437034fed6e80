//! What a launch queues, in the words that both drivers have.

use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::plan::{self, Pass, Plan, Run, Target};
use crate::sys::Block;

/// Work-items of a work-group.
pub(super) const GROUP: usize = 64;

/// A part of a lane's device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Pieces,
    Keys,
    Tweaks,
    Schedules,
    Data,
}

impl Region {
    pub(super) const ALL: [Region; 5] =
        [Region::Pieces, Region::Keys, Region::Tweaks, Region::Schedules, Region::Data];

    /// Its bytes.
    pub(super) fn len(self) -> usize {
        match self {
            Region::Pieces => plan::PIECES_LEN,
            Region::Keys => plan::KEYS_LEN,
            Region::Tweaks => plan::TWEAKS_LEN,
            Region::Schedules => plan::SCHEDULES_LEN,
            Region::Data => plan::DATA_LEN,
        }
    }
}

/// A kernel of a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    Expand,
    Encrypt,
    Decrypt,
}

/// A kernel's name in source and modules.
pub(super) fn kernel_name(cipher: Cipher, entry: Entry) -> String {
    let entry = match entry {
        Entry::Expand => "expand",
        Entry::Encrypt => "encrypt",
        Entry::Decrypt => "decrypt",
    };
    format!("{cipher}_{entry}")
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    Region(Region),
    Number(u32),
}

/// An in-order queue. Every command returns once it is queued; the memory of the host that it names stays where it is
/// until the launch has ended, or for good.
pub(super) trait Commands {
    fn upload(&mut self, to: Region, bytes: &[u8]) -> Result<(), Failure>;
    fn download(&mut self, from: Region, bytes: &mut [u8]) -> Result<(), Failure>;
    /// Zeros in the first `len` bytes, a multiple of four.
    fn wipe(&mut self, region: Region, len: usize) -> Result<(), Failure>;
    fn run(
        &mut self,
        cipher: Cipher,
        entry: Entry,
        arguments: &[Argument],
        work_items: u32,
    ) -> Result<(), Failure>;
}

/// Queues all of a launch.
pub(super) fn queue(commands: &mut impl Commands, plan: &Plan, block: &mut Block) -> Result<(), Failure> {
    let goes_in = if plan.data_goes_in { plan.data() } else { 0..0 };
    let parts = [
        (Region::Pieces, plan.pieces()),
        (Region::Keys, plan.keys()),
        (Region::Tweaks, plan.tweaks()),
        (Region::Data, goes_in),
    ];
    for (region, range) in parts.into_iter().filter(|(_, range)| !range.is_empty()) {
        commands.upload(region, &block[range])?;
    }
    for pass in &plan.passes {
        queue_pass(commands, pass)?;
    }
    if !plan.data().is_empty() {
        commands.download(Region::Data, &mut block[plan.data()])?;
    }
    #[cfg(test)]
    if plan.leaves_all {
        return Ok(());
    }
    let used = [
        (Region::Keys, plan.keys().len()),
        (Region::Schedules, plan.schedules_len()),
        (Region::Tweaks, plan.tweaks().len()),
        (Region::Data, plan.data().len()),
        (Region::Pieces, plan.pieces().len()),
    ];
    used.into_iter().filter(|(_, len)| *len > 0).try_for_each(|(region, len)| commands.wipe(region, len))
}

fn queue_pass(commands: &mut impl Commands, pass: &Pass) -> Result<(), Failure> {
    use Argument::Number;
    let mut schedules = Region::Keys;
    if pass.cipher.schedule_words() > 0 && pass.keys > 0 {
        schedules = Region::Schedules;
        let regions = [Region::Keys, Region::Schedules].map(Argument::Region);
        let numbers = [pass.first_key, pass.keys, pass.key_words].map(Number);
        commands.run(pass.cipher, Entry::Expand, &[&regions[..], &numbers].concat(), pass.keys)?;
    }
    for run in &pass.runs {
        let &Run { decrypt, target, first_piece, units, total, mode } = run;
        let entry = if decrypt { Entry::Decrypt } else { Entry::Encrypt };
        let target = match target {
            Target::Data => Region::Data,
            Target::Tweaks => Region::Tweaks,
        };
        let regions = [Region::Pieces, target, schedules, Region::Tweaks].map(Argument::Region);
        let numbers = [first_piece, units, total, mode as u32, pass.key_words].map(Number);
        commands.run(pass.cipher, entry, &[&regions[..], &numbers].concat(), total)?;
    }
    Ok(())
}
