//! CPUs and the tasks that want them: whoever has had least runs next, on any
//! CPU, until it has had clearly more than another. Switching costs nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time after which a running task is looked at again.
pub(crate) const SLICE_NS: u64 = 100_000;
/// A task stays on its CPU until it has had so much more than another that
/// is ready.
const GRANULARITY_NS: u64 = 50_000;

/// Number of a task.
pub(crate) type Task = usize;

/// See the module.
pub(crate) struct Cpus {
    /// The first tasks are threads, the others interrupts.
    threads: usize,
    /// What each CPU runs: the task, and how long this time.
    running: Vec<Option<(Task, u64)>>,
    idle: Vec<usize>,
    ready: BinaryHeap<Reverse<(u64, u64, Task)>>,
    /// CPU time that each task has had, or is taken to have had.
    had: Vec<u64>,
    /// What each still wants before it has to be asked again.
    wants: Vec<u64>,
    least: u64,
    sequence: u64,
    busy_ns: u64,
}

impl Cpus {
    pub(crate) fn new(cpus: u32, tasks: usize) -> Cpus {
        Cpus {
            threads: tasks,
            running: vec![None; cpus as usize],
            idle: (0..cpus as usize).collect(),
            ready: BinaryHeap::new(),
            // Interrupts alone have had nothing.
            had: vec![1; tasks],
            wants: vec![0; tasks],
            least: 1,
            sequence: 0,
            busy_ns: 0,
        }
    }

    /// One more task.
    pub(crate) fn add_task(&mut self) -> Task {
        self.had.push(1);
        self.wants.push(0);
        self.had.len() - 1
    }

    /// A task wants to run. An idle CPU that should be filled is returned.
    pub(crate) fn wake(&mut self, task: Task) -> Option<usize> {
        // Whoever slept does not catch up, nor with those who never waited.
        self.follows(None);
        self.had[task] = self.had[task].max(self.least);
        self.push(task);
        self.idle.pop()
    }

    /// Nobody who wakes up has had less than whoever of the threads that run has
    /// had least, this one among them that stops just now, if no thread waits.
    fn follows(&mut self, stops: Option<Task>) {
        if self.ready.is_empty() {
            let running = self.running.iter().flatten().map(|(task, _)| *task).chain(stops);
            let had = running.filter(|task| *task < self.threads).map(|task| self.had[task]).min();
            self.least = had.map_or(self.least, |had| self.least.max(had));
        }
    }

    /// As [`Cpus::wake`], for an interrupt: before all others.
    pub(crate) fn interrupt(&mut self, task: Task, wants_ns: u64) -> Option<usize> {
        self.had[task] = 0;
        self.wants[task] = wants_ns;
        self.push(task);
        self.idle.pop()
    }

    fn push(&mut self, task: Task) {
        self.sequence += 1;
        self.ready.push(Reverse((self.had[task], self.sequence, task)));
    }

    /// The next task for a CPU; the CPU is idle when there is none.
    pub(crate) fn next(&mut self, cpu: usize) -> Option<Task> {
        match self.ready.pop() {
            Some(Reverse((had, _, task))) => {
                self.least = self.least.max(had);
                Some(task)
            }
            None => {
                self.idle.push(cpu);
                None
            }
        }
    }

    pub(crate) fn wants(&self, task: Task) -> u64 {
        self.wants[task]
    }

    pub(crate) fn set_wants(&mut self, task: Task, wants_ns: u64) {
        self.wants[task] = wants_ns;
    }

    /// Runs a task; how long until it has to be looked at.
    pub(crate) fn run(&mut self, cpu: usize, task: Task) -> u64 {
        let slice = self.wants[task].min(SLICE_NS);
        self.running[cpu] = Some((task, slice));
        slice
    }

    /// The time of [`Cpus::run`] is over: which task ran, and how long.
    pub(crate) fn ran(&mut self, cpu: usize) -> (Task, u64) {
        let (task, slice) = self.running[cpu].take().expect("a CPU ends what it began");
        self.had[task] += slice;
        self.wants[task] -= slice;
        self.busy_ns += slice;
        self.follows(Some(task));
        (task, slice)
    }

    /// Whether a task that ran stays on its CPU, if it wants to.
    pub(crate) fn stays(&self, task: Task) -> bool {
        let first = self.ready.peek();
        first.is_none_or(|Reverse((had, _, _))| self.had[task] <= had + GRANULARITY_NS)
    }

    /// A task that ran waits its turn.
    pub(crate) fn requeue(&mut self, task: Task) {
        self.push(task);
    }

    /// Tasks that run or are ready.
    pub(crate) fn runnable(&self) -> usize {
        self.ready.len() + self.running.len() - self.idle.len()
    }

    /// CPU time used up to the last slice that ended.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_a_cpu_evenly() {
        let mut cpus = Cpus::new(1, 3);
        let mut cpu = None;
        for task in 0..3 {
            cpus.set_wants(task, u64::MAX);
            cpu = cpu.or(cpus.wake(task));
        }
        let mut ran = [0; 3];
        let mut task = cpus.next(0).expect("ready");
        for _ in 0..300 {
            assert_eq!(cpus.run(0, task), SLICE_NS);
            ran[cpus.ran(0).0] += 1;
            if !cpus.stays(task) {
                cpus.requeue(task);
                task = cpus.next(0).expect("ready");
            }
        }
        assert_eq!((cpu, ran), (Some(0), [100; 3]));
        assert_eq!(cpus.busy_ns(), 300 * SLICE_NS);
    }

    /// Task 0 runs while all others sleep, for a hundred slices; on which CPU.
    fn runs_alone(cpus: &mut Cpus) -> usize {
        cpus.set_wants(0, u64::MAX);
        let cpu = cpus.wake(0).expect("an idle CPU");
        let task = cpus.next(cpu).expect("ready");
        for _ in 0..100 {
            cpus.run(cpu, task);
            cpus.ran(cpu);
        }
        cpu
    }

    #[test]
    fn a_thread_that_wakes_beside_an_interrupt_has_no_more_credit_than_others() {
        let mut cpus = Cpus::new(2, 2);
        let first = runs_alone(&mut cpus);
        cpus.run(first, 0);
        let interrupt = cpus.add_task();
        let cpu = cpus.interrupt(interrupt, 500).expect("an idle CPU");
        assert_eq!(cpus.next(cpu), Some(interrupt));
        cpus.run(cpu, interrupt);
        cpus.wake(1);
        assert_eq!(cpus.had[1], cpus.had[0]);
    }

    #[test]
    fn a_thread_that_wakes_while_all_sleep_has_no_more_credit_than_others() {
        let mut cpus = Cpus::new(1, 2);
        let cpu = runs_alone(&mut cpus);
        assert_eq!(cpus.next(cpu), None, "it waits for a device");
        cpus.wake(1);
        assert_eq!(cpus.had[1], cpus.had[0]);
    }

    #[test]
    fn an_interrupt_comes_first_and_an_idle_cpu_is_filled() {
        let mut cpus = Cpus::new(2, 2);
        assert!(cpus.wake(0).is_some() && cpus.interrupt(1, 5).is_some());
        assert_eq!(cpus.next(0), Some(1));
        assert_eq!((cpus.wants(1), cpus.next(0), cpus.next(1)), (5, Some(0), None));
    }
}
