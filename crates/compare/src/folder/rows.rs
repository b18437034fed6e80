//! The rows of the comparison: what is done, how much of it belongs to a short run, and what ours has to reach.

use strongroom_harness::subject::Kind;

/// In which order a file's blocks are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    Random,
    /// At random, and no two of them near each other: what reads ahead or around gains nothing.
    Sparse,
}

/// What a data row does with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// New files, from front to back.
    Write,
    /// Blocks of files that were written and synced before.
    Overwrite,
    /// Right after a remount.
    ReadCold,
    /// After everything was read once through this mount.
    ReadWarm,
}

/// A data row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) action: Action,
    pub(super) order: Order,
    /// Bytes of one system call.
    pub(super) call: usize,
    /// Threads, each with files of its own.
    pub(super) jobs: usize,
}

/// Steps on a tree of small files. One pass takes all of them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Unpack,
    ListCold,
    ListWarm,
    ReadCold,
    GitStatusCold,
    Remove,
}

/// A mix of operations after a filebench profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Fileserver,
    Webserver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Data(Data),
    Step(Step),
    Mix(Mix, usize),
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Names it in reports and on the command line.
    pub(super) key: String,
    pub(super) title: String,
    pub(super) work: Work,
    /// Part of short runs, and of what is measured for every peer.
    pub(super) main: bool,
}

/// The steps of a pass over a tree, in order.
pub(super) const STEPS: [(Step, &str, &str); 6] = [
    (Step::Unpack, "unpack", "unpacking small files"),
    (Step::ListCold, "list-cold", "listing and stat of all, cold"),
    (Step::ListWarm, "list-warm", "listing and stat of all, warm"),
    (Step::ReadCold, "read-tree-cold", "reading all small files, cold"),
    (Step::GitStatusCold, "git-status-cold", "git status, cold"),
    (Step::Remove, "remove", "removing the tree"),
];

const CALLS: [(usize, &str, &str); 4] = [
    (4096, "4k", "4 KiB"),
    (64 << 10, "64k", "64 KiB"),
    (128 << 10, "128k", "128 KiB"),
    (1 << 20, "1m", "1 MiB"),
];
pub(super) const JOBS: [usize; 2] = [1, 4];

/// All rows, in the order they are measured.
pub(super) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for (action, order, name, title) in [
        (Action::Write, Order::Sequential, "write", "sequential write of new files"),
        (Action::ReadCold, Order::Sequential, "read-cold", "sequential read, cold"),
        (Action::ReadCold, Order::Random, "random-read-cold", "random read, cold"),
        (Action::ReadCold, Order::Sparse, "sparse-read-cold", "random read of places far apart, cold"),
        (Action::ReadWarm, Order::Sequential, "read-warm", "sequential read, warm"),
        (Action::ReadWarm, Order::Random, "random-read-warm", "random read, warm"),
        (Action::Overwrite, Order::Sequential, "overwrite", "sequential overwrite"),
        (Action::Overwrite, Order::Random, "random-overwrite", "random overwrite"),
    ] {
        for (call, short, long) in CALLS {
            // Longer calls are no different from random ones.
            if order == Order::Sparse && call != 4096 {
                continue;
            }
            for jobs in JOBS {
                let ends = call == 4096 || call == 1 << 20;
                let random_jobs = jobs == 4 && order == Order::Random && call == 4096;
                rows.push(Row {
                    key: format!("{name}-{short}-{jobs}"),
                    title: format!("{title}, {long}, {}", if jobs == 1 { "1 job" } else { "4 jobs" }),
                    work: Work::Data(Data { action, order, call, jobs }),
                    main: action != Action::ReadWarm && ends && (jobs == 1 || random_jobs),
                });
            }
        }
    }
    for (step, key, title) in STEPS {
        rows.push(Row { key: key.into(), title: title.into(), work: Work::Step(step), main: true });
    }
    for (mix, name) in [(Mix::Fileserver, "fileserver"), (Mix::Webserver, "webserver")] {
        for jobs in JOBS {
            rows.push(Row {
                key: format!("{name}-{jobs}"),
                title: format!("{name} mix, {}", if jobs == 1 { "1 job" } else { "4 jobs" }),
                work: Work::Mix(mix, jobs),
                main: jobs == 4,
            });
        }
    }
    rows
}

impl Row {
    /// True when the daemon cannot have been asked before.
    fn is_cold(&self) -> bool {
        match self.work {
            Work::Data(data) => data.action == Action::ReadCold,
            Work::Step(step) => matches!(step, Step::ListCold | Step::ReadCold | Step::GitStatusCold),
            Work::Mix(..) => false,
        }
    }

    fn is_warm(&self) -> bool {
        match self.work {
            Work::Data(data) => data.action == Action::ReadWarm,
            Work::Step(step) => step == Step::ListWarm,
            Work::Mix(..) => false,
        }
    }

    fn jobs(&self) -> Option<usize> {
        match self.work {
            Work::Data(data) => Some(data.jobs),
            Work::Mix(_, jobs) => Some(jobs),
            Work::Step(_) => None,
        }
    }

    /// The key without the number of jobs.
    fn stem(&self) -> &str {
        match self.jobs() {
            Some(_) => self.key.rsplit_once('-').expect("the key ends with the jobs").0,
            None => &self.key,
        }
    }

    /// True when both are one thing done by more or fewer jobs.
    pub(super) fn is_same_but_for_jobs(&self, other: &Row) -> bool {
        self.stem() == other.stem()
    }

    /// The key of the row in which one job does what four do in this one.
    pub(super) fn with_one_job(&self) -> Option<String> {
        (self.jobs() == Some(4)).then(|| format!("{}-1", self.stem()))
    }

    /// The least that four jobs have to reach of one job's speed.
    pub(super) fn target_jobs(&self) -> f64 {
        if self.is_small_random_read() { 1.4 } else { 1.0 }
    }

    /// True for cold random reads of 4 KiB.
    fn is_small_random_read(&self) -> bool {
        matches!(
            self.work,
            Work::Data(Data { action: Action::ReadCold, order: Order::Random, call: 4096, .. })
        )
    }

    /// The least that our speed over the peer's has to be, where something is asked of this row.
    ///
    /// Warm reads are served by the kernel alone where what it has cached outlives the opening of a file, as with
    /// ours and `passthrough_ll`: against that is asked no more than to lose nothing.
    pub(super) fn target(&self, peer: Kind) -> Option<f64> {
        match peer {
            Kind::Passthrough => self.target_passthrough(),
            Kind::Clear => match self.work {
                Work::Data(Data { action: Action::ReadCold, order: Order::Sequential, .. }) => {
                    Some(1.0 / 1.15)
                }
                _ if self.is_small_random_read() => Some(1.0 / 1.25),
                _ => None,
            },
            Kind::Gocryptfs => self.target_gocryptfs(),
            Kind::Securefs | Kind::Encfs | Kind::Cryfs => Some(1.0),
            Kind::Bare | Kind::Strongroom => None,
        }
    }

    fn target_passthrough(&self) -> Option<f64> {
        let first_write = matches!(self.work, Work::Data(Data { action: Action::Write, .. }));
        match self.work {
            _ if self.is_small_random_read() => Some(2.0),
            Work::Step(Step::Unpack) => Some(2.0),
            _ if self.is_cold() || first_write => Some(1.0),
            _ if self.is_warm() => Some(0.95),
            _ => None,
        }
    }

    fn target_gocryptfs(&self) -> Option<f64> {
        match self.work {
            Work::Step(Step::Unpack) => Some(1.7),
            Work::Mix(..) => Some(2.0),
            Work::Data(data) => match (data.action, data.order, data.call) {
                (Action::ReadCold, Order::Random, 4096) => Some(if data.jobs == 4 { 2.0 } else { 1.6 }),
                (Action::Write | Action::Overwrite, _, 4096) => Some(10.0),
                (Action::ReadCold, Order::Sequential, 1_048_576) => Some(1.1),
                (_, _, 1_048_576) => Some(1.2),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The least that the geometric mean over all rows has to be.
pub(super) fn target_mean(peer: Kind) -> Option<f64> {
    match peer {
        Kind::Passthrough => Some(1.3),
        Kind::Gocryptfs => Some(3.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_unique_and_the_targets_stand_at_their_rows() {
        let rows = all();
        let keys: HashSet<_> = rows.iter().map(|row| &row.key).collect();
        assert_eq!(keys.len(), rows.len());
        let target = |key: &str, peer| rows.iter().find(|row| row.key == key).unwrap().target(peer);
        assert_eq!(target("random-read-cold-4k-1", Kind::Passthrough), Some(2.0));
        assert_eq!(target("random-read-cold-4k-4", Kind::Gocryptfs), Some(2.0));
        assert_eq!(target("sparse-read-cold-4k-1", Kind::Passthrough), Some(1.0));
        assert_eq!(target("read-warm-1m-4", Kind::Passthrough), Some(0.95));
        assert_eq!(target("write-4k-1", Kind::Gocryptfs), Some(10.0));
        assert_eq!(target("write-4k-1", Kind::Passthrough), Some(1.0));
        assert_eq!(target("read-cold-1m-1", Kind::Gocryptfs), Some(1.1));
        assert_eq!(target("random-read-warm-1m-4", Kind::Gocryptfs), Some(1.2));
        assert_eq!(target("unpack", Kind::Gocryptfs), Some(1.7));
        assert_eq!(target("random-overwrite-4k-1", Kind::Gocryptfs), Some(10.0));
        assert_eq!(target("fileserver-4", Kind::Gocryptfs), Some(2.0));
        assert_eq!(target("webserver-1", Kind::Gocryptfs), Some(2.0));
        let jobs = |key: &str| rows.iter().find(|row| row.key == key).unwrap().target_jobs();
        assert_eq!((jobs("random-read-cold-4k-4"), jobs("fileserver-4")), (1.4, 1.0));
        assert_eq!(target("remove", Kind::Cryfs), Some(1.0));
        assert_eq!(target("overwrite-64k-1", Kind::Passthrough), None);
    }
}
