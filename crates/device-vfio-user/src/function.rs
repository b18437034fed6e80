//! The state of one function, which its registers and its units share.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use strongroom_engine_virtio::spec::{self, CONTROL_LEN, answer, opcode};
use strongroom_engine_virtio::{Memory, OutOfBounds};

use crate::Model;
use crate::compute::Session;
use crate::queue::{Chain, Queue};
use crate::registers::{Effect, Registers};

/// See the module.
pub(crate) struct Function {
    pub(crate) model: Model,
    state: Mutex<State>,
    /// There is work, or the driver has left.
    pub(crate) changed: Condvar,
}

/// What changes.
pub(crate) struct State {
    pub(crate) registers: Registers,
    pub(crate) memories: Vec<Arc<Memory>>,
    pub(crate) interrupts: Vec<Option<File>>,
    queues: Vec<Option<Queue>>,
    pub(crate) sessions: HashMap<u64, Arc<Session>>,
    next_session: u64,
    /// Requests that no unit has begun.
    pub(crate) work: VecDeque<Work>,
    /// Resets so far: what was begun before one is forgotten.
    pub(crate) epoch: u64,
    /// Requests so far.
    pub(crate) requests: u64,
    /// The driver has left, and units end.
    pub(crate) is_over: bool,
}

/// A request that was taken from a ring.
pub(crate) struct Work {
    pub(crate) queue: u16,
    pub(crate) head: u16,
    pub(crate) chain: Chain,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) arrived: Instant,
}

fn outside(_: OutOfBounds) -> io::Error {
    io::Error::other("the driver points outside of its memory")
}

impl Function {
    pub(crate) fn new(model: &Model) -> Function {
        let state = State {
            registers: Registers::new(model),
            memories: Vec::new(),
            interrupts: Vec::new(),
            queues: (0..=model.queues).map(|_| None).collect(),
            sessions: HashMap::new(),
            next_session: 1,
            work: VecDeque::new(),
            epoch: 0,
            requests: 0,
            is_over: false,
        };
        Function { model: model.clone(), state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A driver writes the BAR.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        match state.registers.write(offset, bytes) {
            Effect::None => Ok(()),
            Effect::Reset => {
                state.reset();
                Ok(())
            }
            Effect::Enable(queue) => state.enable(queue),
            Effect::Doorbell(queue) => {
                let before = state.work.len();
                let done = state.doorbell(queue);
                // No unit wakes for nothing: that is CPU time which hardware does not take.
                (before..state.work.len()).for_each(|_| self.changed.notify_one());
                done
            }
        }
    }
}

impl State {
    pub(crate) fn reset(&mut self) {
        self.registers.reset();
        self.queues.iter_mut().for_each(|queue| *queue = None);
        self.sessions.clear();
        self.work.clear();
        self.epoch += 1;
    }

    fn enable(&mut self, number: u16) -> io::Result<()> {
        let registers = &self.registers.queues[usize::from(number)];
        let sees = |memory: &&Arc<Memory>| registers.places.iter().all(|place| memory.place(*place).is_ok());
        let memory = self.memories.iter().find(sees).ok_or_else(|| outside(OutOfBounds))?;
        let place = |at: usize| memory.place(registers.places[at]).map_err(outside);
        let queue = Queue {
            size: registers.size,
            descriptors: place(0)?,
            available: place(1)?,
            used: place(2)?,
            memory: Arc::clone(memory),
            seen: 0,
            done: 0,
            vector: registers.vector,
        };
        self.queues[usize::from(number)] = Some(queue);
        Ok(())
    }

    fn doorbell(&mut self, number: u16) -> io::Result<()> {
        let is_control = usize::from(number) + 1 == self.queues.len();
        let queue = self.queues.get_mut(usize::from(number)).and_then(Option::take);
        let Some(mut queue) = queue else { return Ok(()) };
        let done = self.take(number, &mut queue, is_control);
        self.queues[usize::from(number)] = Some(queue);
        done.map_err(outside)
    }

    fn take(&mut self, number: u16, queue: &mut Queue, is_control: bool) -> Result<(), OutOfBounds> {
        while let Some(head) = queue.next()? {
            let chain = queue.chain(head)?;
            if is_control {
                let bytes = self.control(&chain.readable);
                let written = queue.write(&chain, &bytes)?;
                if queue.give_back(head, written)? {
                    self.interrupt(queue.vector);
                }
            } else {
                self.work.push_back(Work {
                    queue: number,
                    head,
                    chain,
                    epoch: self.epoch,
                    number: self.requests,
                    arrived: Instant::now(),
                });
                self.requests += 1;
            }
        }
        Ok(())
    }

    /// Answers a control request.
    fn control(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some((request, key)) = bytes.split_first_chunk::<CONTROL_LEN>() else {
            return vec![answer::ERROR];
        };
        match spec::word(request, 0) & 0xff {
            opcode::CREATE_SESSION => {
                let number = self.next_session;
                let opened = Session::open(request, key).map(|session| {
                    self.sessions.insert(number, Arc::new(session));
                    self.next_session += 1;
                });
                let status = if opened.is_some() { answer::OK } else { answer::NOT_SUPPORTED };
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.extend(u32::from(status).to_le_bytes());
                bytes.extend([0; 4]);
                bytes
            }
            opcode::DESTROY_SESSION => {
                let number = u64::from_le_bytes(request[16..24].try_into().expect("eight bytes"));
                let found = self.sessions.remove(&number);
                vec![if found.is_some() { answer::OK } else { answer::INVALID_SESSION }]
            }
            _ => vec![answer::NOT_SUPPORTED],
        }
    }

    /// Answers a request, unless it was forgotten by a reset.
    pub(crate) fn answer(&mut self, work: &Work, output: &[u8], status: u8) -> Result<(), OutOfBounds> {
        if work.epoch != self.epoch {
            return Ok(());
        }
        let Some(queue) = self.queues[usize::from(work.queue)].as_mut() else { return Ok(()) };
        let written = queue.write(&work.chain, output)?;
        queue.write_last(&work.chain, status)?;
        let vector = queue.vector;
        if queue.give_back(work.head, written + 1)? {
            self.interrupt(vector);
        }
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        if let Some(Some(event)) = self.interrupts.get_mut(usize::from(vector)) {
            // Full, it is signalled.
            let _ = event.write_all(&1u64.to_ne_bytes());
        }
    }
}
