//! Making a device, serving its queues, and removing it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use strongroom_disk::Device;

use crate::abi::{self, Descriptor, Info, Parameters, attribute, control, flag};
use crate::queue::{Requests, Worker};
use crate::sys::{Control, Descriptors, QueueRing};

/// Where devices are made.
const CONTROL: &str = "/dev/ublk-control";
/// Most queues, and so threads.
const QUEUES_MAX: usize = 4;
/// Requests of a queue.
const DEPTH: u16 = 64;
/// Bytes of a request at most.
const REQUEST_LEN_MAX: u32 = 256 << 10;
/// How long a device's files may take to appear.
const APPEAR_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no device.
#[derive(Debug)]
pub enum StartError {
    /// The kernel has no ublk, or its module is not loaded.
    Absent,
    /// The kernel's ublk lacks what is needed: Linux 6.5 has it.
    TooOld,
    /// This user may not.
    NotPermitted,
    /// Anything else that the system said while something was done.
    Io(&'static str, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Absent => f.write_str("the kernel has no ublk (there is no /dev/ublk-control)"),
            StartError::TooOld => f.write_str("the kernel's ublk is too old: Linux 6.5 or newer is needed"),
            StartError::NotPermitted => f.write_str("making a block device is for root alone"),
            StartError::Io(doing, error) => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS) => StartError::NotPermitted,
        _ => StartError::Io(doing, error),
    }
}

fn open_control() -> Result<File, StartError> {
    File::options().read(true).write(true).open(CONTROL).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StartError::Absent,
        _ => failed("opening /dev/ublk-control")(error),
    })
}

/// A block device that is served.
pub struct Server {
    number: u32,
    control: Arc<Mutex<Control>>,
    queues: Vec<JoinHandle<io::Result<()>>>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct ServerHandle {
    number: u32,
    control: Arc<Mutex<Control>>,
}

fn command(
    control: &Mutex<Control>,
    number: u32,
    command: u32,
    buffer: Vec<u8>,
    data: u64,
) -> io::Result<Vec<u8>> {
    let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
    control.command(command, number, buffer, data)
}

impl Server {
    /// Whether this process can ask the kernel for devices.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn check() -> Result<(), StartError> {
        open_control().map(drop)
    }

    /// Makes a device and begins to serve it.
    ///
    /// # Errors
    /// [`StartError`]; no device is left then.
    pub fn start(device: Arc<dyn Device>) -> Result<Server, StartError> {
        let control = Control::new(open_control()?).map_err(failed("making a ring"))?;
        let control = Arc::new(Mutex::new(control));
        let features = command(&control, u32::MAX, control::FEATURES, vec![0; 8], 0);
        let features = features.ok().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        if features & flag::USER_COPY == 0 {
            return Err(StartError::TooOld);
        }
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let wanted = Info {
            queues: cpus.min(QUEUES_MAX) as u16,
            depth: DEPTH,
            request_len_max: REQUEST_LEN_MAX,
            device: u32::MAX,
            flags: flag::IOCTL_ENCODED | flag::USER_COPY,
        };
        let made = command(&control, u32::MAX, control::ADD, wanted.encode().to_vec(), 0);
        let made = made.map_err(failed("making a device"))?;
        let info = Info::parse(&made.try_into().expect("as many bytes as were given"));
        let mut server = Server { number: info.device, control, queues: Vec::new() };
        match server.begin(&device, &info) {
            Ok(()) => Ok(server),
            Err(error) => {
                // Queues that wait for requests end.
                let _ = server.command(control::STOP, Vec::new(), 0);
                server.remove();
                Err(error)
            }
        }
    }

    fn begin(&mut self, device: &Arc<dyn Device>, info: &Info) -> Result<(), StartError> {
        let writable = attribute::VOLATILE_CACHE | attribute::FUA;
        let parameters = Parameters {
            attributes: if device.is_read_only() { attribute::READ_ONLY } else { writable },
            sector_len: device.sector_len(),
            request_len_max: info.request_len_max,
            len: device.len(),
            discard: device.can_discard(),
        };
        self.command(control::SET_PARAMETERS, parameters.encode().to_vec(), 0)
            .map_err(failed("describing the disk"))?;
        let path = PathBuf::from(format!("/dev/ublkc{}", self.number));
        appear(&path);
        // The kernel lets it be opened once; the queues share it.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(failed("opening the device"))?;
        let (told, ready) = channel();
        let mut outcome = Ok(());
        for number in 0..info.queues {
            if let Err(error) = self.serve_queue(device, &file, number, info.depth, told.clone()) {
                outcome = Err(error);
                break;
            }
        }
        drop(told);
        // The kernel shows the disk when all queues wait for requests, and
        // would wait for one that cannot. It stops those alone that do wait.
        let mut waiting = 0;
        for told in ready {
            waiting += 1;
            outcome = outcome.and(told.map_err(failed("serving a queue")));
        }
        outcome?;
        if waiting < info.queues {
            return Err(StartError::Io("serving a queue", Errno::IO.into()));
        }
        self.command(control::START, Vec::new(), u64::from(std::process::id()))
            .map_err(failed("showing the disk"))?;
        appear(&self.path());
        Ok(())
    }

    /// Starts the thread of a queue, which tells when it waits for requests or
    /// cannot.
    fn serve_queue(
        &mut self,
        device: &Arc<dyn Device>,
        file: &File,
        number: u16,
        depth: u16,
        told: Sender<io::Result<()>>,
    ) -> Result<(), StartError> {
        let file = file.try_clone().map_err(failed("opening the device"))?;
        let device = Arc::clone(device);
        let serve = move || serve(&*device, file, number, depth, told);
        let thread = thread::Builder::new().name("ublk".into()).spawn(serve);
        self.queues.push(thread.map_err(failed("starting a thread"))?);
        Ok(())
    }

    fn command(&self, number: u32, buffer: Vec<u8>, data: u64) -> io::Result<Vec<u8>> {
        command(&self.control, self.number, number, buffer, data)
    }

    /// The block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// For other threads.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { number: self.number, control: Arc::clone(&self.control) }
    }

    /// Serves until [`ServerHandle::stop`], and then leaves no thread and no
    /// device behind. The disk is not flushed.
    pub fn run(mut self) {
        self.remove();
    }

    /// Waits for the queues, and removes the device.
    fn remove(&mut self) {
        for queue in self.queues.drain(..) {
            // When one fails, the kernel ends the others.
            let _ = queue.join();
        }
        let _ = self.command(control::DELETE, Vec::new(), 0);
    }
}

impl ServerHandle {
    /// Whether somebody has the block device for himself: it is mounted, or
    /// swap.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        use rustix::fs::{Mode, OFlags};
        let path = format!("/dev/ublkb{}", self.number);
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        matches!(opened, Err(Errno::BUSY))
    }

    /// Takes the disk away: what is under way is carried out, and whoever uses
    /// it gets errors afterwards. [`Server::run`] returns.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&self) -> io::Result<()> {
        command(&self.control, self.number, control::STOP, Vec::new(), 0).map(drop)
    }
}

/// Waits a moment for a device file, which the kernel or udev makes.
fn appear(path: &Path) {
    let until = Instant::now() + APPEAR_LIMIT;
    while !path.exists() && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
}

/// One queue in this thread, which alone may use it.
fn serve(
    device: &dyn Device,
    file: File,
    queue: u16,
    depth: u16,
    told: Sender<io::Result<()>>,
) -> io::Result<()> {
    let begun = || -> io::Result<Queue> {
        let descriptors = Descriptors::map(&file, queue, depth)?;
        let mut ring = QueueRing::new(file, queue, depth)?;
        for tag in 0..depth {
            ring.push(abi::io::FETCH, tag, 0)?;
        }
        ring.submit()?;
        Ok(Queue { ring, descriptors, queue })
    };
    let mut worker = Worker::new(device, depth);
    match begun() {
        Ok(mut queue) => {
            let _ = told.send(Ok(()));
            // The starting thread waits until nobody can tell any more.
            drop(told);
            worker.serve(&mut queue, depth)
        }
        Err(error) => {
            let again = io::Error::from(error.kind());
            let _ = told.send(Err(error));
            Err(again)
        }
    }
}

/// A queue of the kernel's.
struct Queue {
    ring: QueueRing,
    descriptors: Descriptors,
    queue: u16,
}

impl Requests for Queue {
    fn wait(&mut self, tags: &mut Vec<u16>) -> io::Result<usize> {
        let mut ended = 0;
        self.ring.wait(|tag, result| match result {
            0 => tags.push(tag),
            // The device is being stopped.
            _ => ended += 1,
        })?;
        Ok(ended)
    }

    fn descriptor(&self, tag: u16) -> Option<Descriptor> {
        self.descriptors.read(tag)
    }

    fn fetch_data(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
        self.ring.device().read_exact_at(bytes, abi::data_offset(self.queue, tag))
    }

    fn give_data(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.ring.device().write_all_at(bytes, abi::data_offset(self.queue, tag))
    }

    fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.ring.push(abi::io::COMMIT_AND_FETCH, tag, result)
    }
}
