//! Samples of call stacks, put together by what they have in common.

use std::collections::BTreeMap;

/// Frames that every thread and every system call has, and that tell nothing.
const EVERYWHERE: [&str; 8] = [
    "[unknown]",
    "__rust_begin_short_backtrace",
    "FnOnce::call_once",
    "thread_start",
    "start_thread",
    "clone3",
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
];

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Kernel,
    Ours,
    Cipher,
    #[default]
    Other,
}

/// What was called from one place: how many samples were in it, and what it called in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stacks {
    samples: u64,
    calls: BTreeMap<(String, Owner), Stacks>,
}

impl Stacks {
    /// How many samples there are.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// What was called, by name.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, Owner, &Stacks)> {
        self.calls.iter().map(|((name, owner), called)| (name.as_str(), *owner, called))
    }

    /// Adds what `perf script -F comm,ip,sym` printed: for each sample the thread's name, and a line for each
    /// frame, the innermost first.
    pub(super) fn add(&mut self, printed: &str) {
        for sample in printed.split("\n\n") {
            let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
            let Some(thread) = lines.next() else { continue };
            let mut frames: Vec<_> = lines.filter_map(frame).collect();
            // Workers do the same work.
            let name = thread.trim().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
            frames.push((name.to_owned(), Owner::Other));
            self.count(frames);
        }
    }

    /// Counts a sample, whose outermost frame is the last.
    fn count(&mut self, mut frames: Vec<(String, Owner)>) {
        self.samples += 1;
        if let Some(outermost) = frames.pop() {
            self.calls.entry(outermost).or_default().count(frames);
        }
    }
}

/// `ADDRESS SYMBOL`; addresses of the kernel are in the upper half.
fn frame(line: &str) -> Option<(String, Owner)> {
    let (address, symbol) = line.trim().split_once(' ')?;
    if EVERYWHERE.iter().any(|part| symbol.contains(part)) {
        return None;
    }
    let is_kernel = address.len() == 16 && address.starts_with("ffff");
    let is = |parts: &[&str]| parts.iter().any(|part| symbol.contains(part));
    let owner = match symbol {
        _ if is_kernel => Owner::Kernel,
        _ if is(&["aws_lc", "aes_gcm", "engine_cpu", "aead_"]) => Owner::Cipher,
        _ if is(&["strongroom"]) => Owner::Ours,
        _ => Owner::Other,
    };
    Some((symbol.to_owned(), owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_put_together_by_their_outer_frames() {
        let mut stacks = Stacks::default();
        stacks.add(
            "fuse-worker-0 \n\tffffffff81633e4d copy_page\n\tffffffff821ecc51 do_syscall_64\n\
             \t 371fd9 strongroom_fuse::worker::serve\n\t 1098eb clone3\n\n\
             fuse-worker-1 \n\t 371fd9 strongroom_fuse::worker::serve\n\n",
        );
        assert_eq!(stacks.samples(), 2);
        let (thread, _, worker) = stacks.calls().next().unwrap();
        assert_eq!((thread, worker.samples()), ("fuse-worker", 2));
        let (name, owner, serve) = worker.calls().next().unwrap();
        assert_eq!((name, owner, serve.samples()), ("strongroom_fuse::worker::serve", Owner::Ours, 2));
        let (name, owner, copy) = serve.calls().next().unwrap();
        assert_eq!((name, owner, copy.samples()), ("copy_page", Owner::Kernel, 1));
    }
}
