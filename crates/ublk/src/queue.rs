//! One queue: takes the requests that have come, has their reads and writes
//! done as batches of the device, and answers them.

use std::io;

use rustix::io::Errno;
use strongroom_disk::{Device, Error, Piece};
use strongroom_engine::Buffer;

use crate::abi::{Descriptor, operation};

/// Bytes of data that a queue has in hand.
const BUFFER_LEN: usize = 1 << 20;

/// Where requests come from and answers go.
pub(crate) trait Requests {
    /// Sends the answers, and waits for more: adds the tags of requests that
    /// have come to `tags`, and says how many tags will bring none any more.
    ///
    /// # Errors
    /// The system's; the queue ends.
    fn wait(&mut self, tags: &mut Vec<u16>) -> io::Result<usize>;
    /// What is asked for by a tag.
    fn descriptor(&self, tag: u16) -> Option<Descriptor>;
    /// Gets the data of a write.
    ///
    /// # Errors
    /// The system's.
    fn fetch_data(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()>;
    /// Gives the data of a read.
    ///
    /// # Errors
    /// The system's.
    fn give_data(&self, tag: u16, bytes: &[u8]) -> io::Result<()>;
    /// Answers, with bytes or a negative error number.
    ///
    /// # Errors
    /// The system's; the queue ends.
    fn answer(&mut self, tag: u16, result: i32) -> io::Result<()>;
}

/// A request with its data's place.
#[derive(Clone, Copy)]
struct Taken {
    tag: u16,
    request: Descriptor,
    start: usize,
}

/// What a queue works with; allocated once.
pub(crate) struct Worker<'a> {
    device: &'a dyn Device,
    buffer: Buffer,
    /// Tags whose requests wait.
    tags: Vec<u16>,
    taken: Vec<Taken>,
    pieces: Vec<Piece>,
    outcomes: Vec<Result<(), Error>>,
}

impl<'a> Worker<'a> {
    /// For a queue of `depth` requests.
    pub(crate) fn new(device: &'a dyn Device, depth: u16) -> Worker<'a> {
        let depth = usize::from(depth);
        Worker {
            device,
            buffer: device.buffer(BUFFER_LEN),
            tags: Vec::with_capacity(depth),
            taken: Vec::with_capacity(depth),
            pieces: Vec::with_capacity(depth),
            outcomes: Vec::with_capacity(depth),
        }
    }

    /// Serves until no tag brings a request any more.
    ///
    /// # Errors
    /// The queue's.
    pub(crate) fn serve(&mut self, requests: &mut dyn Requests, depth: u16) -> io::Result<()> {
        let mut open = usize::from(depth);
        while open > 0 {
            open -= requests.wait(&mut self.tags)?.min(open);
            while !self.tags.is_empty() {
                self.take(requests)?;
                self.carry_out(requests)?;
            }
        }
        Ok(())
    }

    /// Takes as many waiting requests as the buffer holds.
    fn take(&mut self, requests: &mut dyn Requests) -> io::Result<()> {
        self.taken.clear();
        let mut place = 0;
        while let Some(&tag) = self.tags.last() {
            let known = requests.descriptor(tag).filter(|request| self.is_sound(request));
            let Some(request) = known else {
                self.tags.pop();
                requests.answer(tag, -Errno::INVAL.raw_os_error())?;
                continue;
            };
            let moves = matches!(request.operation, operation::READ | operation::WRITE);
            let len = if moves { request.len as usize } else { 0 };
            if place + len > BUFFER_LEN {
                break;
            }
            self.tags.pop();
            if request.operation == operation::WRITE
                && let Err(error) = requests.fetch_data(tag, &mut self.buffer[place..place + len])
            {
                requests.answer(tag, number(&error))?;
                continue;
            }
            self.taken.push(Taken { tag, request, start: place });
            place = (place + len).next_multiple_of(4096);
        }
        Ok(())
    }

    /// Whether a request can be one of ours: the device checks its range.
    fn is_sound(&self, request: &Descriptor) -> bool {
        match request.operation {
            operation::READ | operation::WRITE => request.len <= BUFFER_LEN as u64,
            operation::FLUSH | operation::DISCARD => true,
            _ => false,
        }
    }

    /// Writes, then reads, then the others; then what is to be durable.
    fn carry_out(&mut self, requests: &mut dyn Requests) -> io::Result<()> {
        let Worker { device, buffer, taken, pieces, outcomes, .. } = self;
        taken.sort_unstable_by_key(|taken| match taken.request.operation {
            operation::WRITE => 0,
            operation::READ => 1,
            _ => 2,
        });
        let count = |wanted: u8| taken.iter().filter(|taken| taken.request.operation == wanted).count();
        let (writes, reads) = (count(operation::WRITE), count(operation::READ));
        let ends = writes + reads;
        outcomes.clear();
        outcomes.resize_with(taken.len(), || Ok(()));
        pieces.clear();
        pieces.extend(taken[..ends].iter().map(|taken| Piece {
            offset: taken.request.offset,
            start: taken.start,
            len: taken.request.len as usize,
        }));
        if writes > 0 {
            device.write(&pieces[..writes], buffer, &mut outcomes[..writes]);
        }
        if reads > 0 {
            device.read(&pieces[writes..], buffer, &mut outcomes[writes..ends]);
        }
        for (taken, outcome) in taken.iter().zip(&mut *outcomes).skip(ends) {
            *outcome = match taken.request.operation {
                operation::DISCARD => device.discard(taken.request.offset, taken.request.len),
                _ => device.flush(),
            };
        }
        let durable = |taken: &Taken| taken.request.fua && taken.request.operation == operation::WRITE;
        if taken.iter().any(durable) && device.flush().is_err() {
            for (_, outcome) in taken.iter().zip(&mut *outcomes).filter(|(taken, _)| durable(taken)) {
                *outcome = Err(Error::FlushFailed);
            }
        }
        for (taken, outcome) in taken.iter().zip(outcomes) {
            let Taken { tag, request, start } = *taken;
            let result = match outcome {
                Err(error) => -error.errno(),
                Ok(()) if request.operation == operation::READ => {
                    match requests.give_data(tag, &buffer[start..start + request.len as usize]) {
                        Ok(()) => request.len as i32,
                        Err(error) => number(&error),
                    }
                }
                Ok(()) if request.operation == operation::FLUSH => 0,
                Ok(()) => i32::try_from(request.len).unwrap_or(i32::MAX),
            };
            requests.answer(tag, result)?;
        }
        Ok(())
    }
}

/// The negative number of an error.
fn number(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;

    use strongroom_disk::{FileBacking, PlainDevice};

    use super::*;

    /// A queue without a kernel: rounds of requests, the data of each tag, and
    /// the answers.
    #[derive(Default)]
    struct Recorded {
        rounds: Vec<Vec<(u16, Descriptor)>>,
        now: Vec<(u16, Descriptor)>,
        data: RefCell<Vec<Vec<u8>>>,
        answers: Vec<(u16, i32)>,
    }

    impl Requests for Recorded {
        fn wait(&mut self, tags: &mut Vec<u16>) -> io::Result<usize> {
            if self.rounds.is_empty() {
                return Ok(4);
            }
            self.now = self.rounds.remove(0);
            tags.extend(self.now.iter().map(|(tag, _)| *tag));
            Ok(0)
        }

        fn descriptor(&self, tag: u16) -> Option<Descriptor> {
            self.now.iter().find(|(known, _)| *known == tag).map(|(_, request)| *request)
        }

        fn fetch_data(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(&self.data.borrow()[usize::from(tag)][..bytes.len()]);
            Ok(())
        }

        fn give_data(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
            self.data.borrow_mut()[usize::from(tag)] = bytes.to_vec();
            Ok(())
        }

        fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
            self.answers.push((tag, result));
            Ok(())
        }
    }

    fn request(operation: u8, offset: u64, len: u64) -> Descriptor {
        Descriptor { operation, fua: false, offset, len }
    }

    fn device() -> PlainDevice<FileBacking> {
        let memory = rustix::fs::memfd_create("device", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        let file = File::from(memory);
        file.set_len(8 << 20).expect("long");
        PlainDevice::new(FileBacking::from_file(file)).expect("a device")
    }

    #[test]
    fn what_is_written_is_read_and_mistakes_are_answered() {
        let device = device();
        let written = |tag: u8, len: usize| vec![tag + 1; len];
        let mut recorded = Recorded {
            rounds: vec![
                vec![
                    (0, Descriptor { fua: true, ..request(operation::WRITE, 0, 4096) }),
                    (1, request(operation::WRITE, 1 << 20, 1 << 20)),
                    (2, request(operation::FLUSH, 0, 0)),
                    (3, request(operation::WRITE, 4096, 512)),
                ],
                vec![
                    (0, request(operation::READ, 0, 8192)),
                    (1, request(operation::READ, 1 << 20, 1 << 20)),
                    (2, request(operation::READ, 8 << 20, 512)),
                    (3, request(9, 0, 512)),
                ],
                vec![(0, request(operation::READ, 0, 2 << 20)), (1, request(operation::DISCARD, 0, 4096))],
            ],
            data: RefCell::new(vec![written(0, 4096), written(1, 1 << 20), Vec::new(), written(3, 512)]),
            ..Recorded::default()
        };
        let mut worker = Worker::new(&device, 4);
        worker.serve(&mut recorded, 4).expect("served");
        let mut answers = recorded.answers.clone();
        for (round, expected) in answers.chunks_mut(4).zip([
            vec![(0, 4096), (1, 1 << 20), (2, 0), (3, 512)],
            vec![(0, 8192), (1, 1 << 20), (2, -22), (3, -22)],
            vec![(0, -22), (1, 4096)],
        ]) {
            round.sort_unstable();
            assert_eq!(round, expected);
        }
        assert_eq!(answers.len(), 10);
        let data = recorded.data.into_inner();
        assert_eq!(data[0], [written(0, 4096), written(3, 512), vec![0; 3584]].concat());
        assert_eq!(data[1], written(1, 1 << 20));
    }
}
