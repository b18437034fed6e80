//! Measures the driver on the device, in two processes: what coalescing costs and saves, from which size on the device
//! is the faster one, and where the scheduler places. `cargo xtask bench device` runs it. With `--on` it tests a device
//! that is there already, and measures the latter two; `cargo xtask vm --part device` does so.

mod coalescing;
mod crossover;
mod load;
mod placement;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use strongroom_engine::completion::Rule;
use strongroom_engine::{Aead, Algorithm, Engine, SectorCipher, SectorMode, conformance};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};
use strongroom_engine_kernel::KernelEngine;
use strongroom_engine_virtio::{Options, Vfio, VfioUser, VirtioEngine};

use crate::crossover::{Sides, Subject};

const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
const CBC: Algorithm =
    Algorithm::Sector(SectorCipher { mode: SectorMode::Cbc, ..SectorCipher::AES_XTS_PLAIN64 });
const GCM: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);
/// 20 us and four units of 1 GB/s.
const MODELLED: [&str; 4] = ["--service-us", "20", "--bytes-per-second", "1000000000"];

#[derive(Parser)]
struct Arguments {
    /// The device's program
    #[arg(long, required_unless_present = "on")]
    device: Option<PathBuf>,
    /// A device that is there: vfio:ADDRESS or kernel:DRIVER
    #[arg(long)]
    on: Option<String>,
    /// Runs the conformance suite there, and measures nothing
    #[arg(long, requires = "on")]
    conform: bool,
    /// Measures from which size on it is the faster one, one batch at a time, in place of where the scheduler places
    #[arg(long, conflicts_with = "conform")]
    crossover: bool,
    /// Measures what coalescing costs and saves, in place of that
    #[arg(long, requires = "device", conflicts_with = "crossover")]
    coalescing: bool,
    /// The program whose `tune` is to name that size too
    #[arg(long, requires = "crossover")]
    strongroom: Option<PathBuf>,
    /// Only rows or tables with this in them, as "xaes-256-gcm | 64 | 8" or "100 us"
    #[arg(long, default_value = "")]
    only: String,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Pairs of which the median counts
    #[arg(long, default_value_t = 7)]
    pairs: usize,
}

struct Device {
    process: Child,
    directory: tempfile::TempDir,
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Device {
    /// With so many functions.
    fn start(program: &Path, functions: usize, arguments: &[&str]) -> Device {
        Device::start_as(&[program.as_os_str()], functions, arguments)
    }

    /// With one, which gets a CPU before any other process, where this one may grant that: so that nothing takes the
    /// time of its threads, as nothing takes that of hardware.
    fn start_as_hardware(program: &Path, arguments: &[&str]) -> Device {
        let first = ["chrt", "--fifo", "1"].map(OsStr::new);
        let may = Command::new(first[0])
            .args(&first[1..])
            .arg("true")
            .status()
            .is_ok_and(|status| status.success());
        let words =
            if may { [&first[..], &[program.as_os_str()]].concat() } else { vec![program.as_os_str()] };
        Device::start_as(&words, 1, arguments)
    }

    fn start_as(program: &[&OsStr], functions: usize, arguments: &[&str]) -> Device {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        let sockets: Vec<PathBuf> = (0..functions).map(|at| directory.path().join(at.to_string())).collect();
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        let process = command.args(arguments).spawn();
        let device = Device { process: process.expect("the device starts"), directory };
        while !sockets.iter().all(|socket| socket.exists()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        device
    }

    /// CPU time of its process. Source: proc_pid_stat(5), fields 14 and 15, in ticks of 10 ms.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs");
        let fields = stat.rsplit_once(')').expect("its name").1.split_whitespace().skip(11).take(2);
        Duration::from_millis(fields.map(|ticks| ticks.parse::<u64>().expect("a number") * 10).sum())
    }

    fn open(&self, function: usize, rule: Rule) -> VirtioEngine {
        let socket = self.directory.path().join(function.to_string());
        let bus = VfioUser::connect(&socket).expect("the device is there");
        VirtioEngine::open("virtio", Arc::new(bus), Options { rule, ..Options::default() }).expect("sound")
    }
}

/// A device, and the process that it is, where it is one.
type Opened = (Option<Device>, Arc<dyn Engine>);

/// A device of this machine by its name.
fn open(name: &str) -> Arc<dyn Engine> {
    if let Some(driver) = name.strip_prefix("kernel:") {
        return Arc::new(KernelEngine::open(name, driver).expect("the driver is there"));
    }
    let address = name.strip_prefix("vfio:").expect("`vfio:ADDRESS` or `kernel:DRIVER`");
    let bus = Arc::new(Vfio::open(address).expect("the function is there"));
    Arc::new(VirtioEngine::open(name, bus, Options::default()).expect("it is sound"))
}

/// From which size on a device that is there is faster than all tiers of the CPU.
fn crossover_on(arguments: &Arguments, name: &str) {
    let Arguments { pairs, seconds, strongroom, .. } = arguments;
    let subject = Subject { algorithm: CBC, key_len: 32, name, pairs: *pairs, seconds: seconds / 4.0 };
    // First, since a device has one driver at a time.
    let named = strongroom.as_ref().map(|program| subject.named(program, name));
    let cpu = CpuEngine::side_by_side().into_iter().map(|tier| Arc::new(tier) as Arc<dyn Engine>);
    let measured = subject.measure(Sides { cpu: cpu.collect(), device: open(name) });
    println!("{}", subject.compared(named, measured));
}

/// The same of ours, beside portable code: it computes with the CPU's best tier, and is nowhere faster than that.
fn crossover_of(arguments: &Arguments, program: &Path) {
    let device = Device::start(program, 1, &MODELLED);
    let name = format!("vfio-user:{}", device.directory.path().join("0").display());
    let Arguments { pairs, seconds, strongroom, .. } = arguments;
    let subject = Subject { algorithm: GCM, key_len: 32, name: &name, pairs: *pairs, seconds: seconds / 4.0 };
    let beside = format!("{}+{name}", Tier::Portable.engine_name());
    let named = strongroom.as_ref().map(|program| subject.named(program, &beside));
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::of_tier(Tier::Portable).expect("it needs nothing"));
    let measured =
        subject.measure(Sides { cpu: vec![cpu], device: Arc::new(device.open(0, Rule::Adaptive)) });
    println!("{}", subject.compared(named, measured));
}

/// One part of what there is to be known of ours.
fn measure(arguments: &Arguments, program: &Path, per_round: &str) {
    if arguments.coalescing {
        coalescing::measure(arguments, program);
    } else if arguments.crossover {
        println!("\nxaes-256-gcm in blocks of 4 KiB, one batch at a time; 20 us and 4 units of 1 GB/s:\n");
        crossover_of(arguments, program);
    } else {
        println!("\n{per_round}; 20 us and 4 units of 1 GB/s:\n");
        let placed = [("xaes-256-gcm", GCM, 32), ("aes-xts", XTS, 64)];
        placement::measure(arguments, &[Tier::Portable, Tier::best()], &placed, || {
            let device = Device::start_as_hardware(program, &MODELLED);
            let engine = Arc::new(device.open(0, Rule::Adaptive));
            (Some(device), engine)
        });
    }
}

fn main() {
    let arguments = Arguments::parse();
    let per_round = format!("MB/s, median of {} rounds; one result in 1024 is checked", arguments.pairs);
    match (&arguments.on, &arguments.device) {
        (Some(name), _) if arguments.conform => {
            conformance::run(&*open(name), &ReferenceEngine);
            println!("{name} conforms");
        }
        (Some(name), _) if arguments.crossover => crossover_on(&arguments, name),
        (Some(name), _) => {
            println!("\n{per_round}; {name}:\n");
            let engine = open(name);
            let open = || (None, Arc::clone(&engine));
            placement::measure(&arguments, &[Tier::best()], &[("aes-cbc", CBC, 32)], open);
        }
        (None, Some(program)) => measure(&arguments, program, &per_round),
        (None, None) => unreachable!("one of them is required"),
    }
}
