//! Serves crypto functions over vfio-user, one at each socket, until it is
//! killed.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use strongroom_device_vfio_user::{Faults, Model, serve};

/// A virtio-crypto device for tests
#[derive(Parser)]
struct Arguments {
    /// Where a function is reached; several for several functions
    #[arg(long, required = true)]
    socket: Vec<PathBuf>,
    /// Microseconds of every request
    #[arg(long, default_value_t = 0)]
    service_us: u64,
    /// Bytes that a unit does in a second; 0 for no limit
    #[arg(long, default_value_t = 0)]
    bytes_per_second: u64,
    /// Requests served at the same time
    #[arg(long, default_value_t = 4)]
    units: usize,
    /// Data queues
    #[arg(long, default_value_t = 2)]
    queues: u16,
    /// Bytes of the longest request
    #[arg(long, default_value_t = 1 << 20)]
    request_len_max: u64,
    /// Answers in a million that come late
    #[arg(long, default_value_t = 0)]
    late_ppm: u32,
    /// By so many milliseconds
    #[arg(long, default_value_t = 500)]
    late_ms: u64,
    /// Answers in a million that never come
    #[arg(long, default_value_t = 0)]
    lost_ppm: u32,
    /// Answers in a million that have a wrong bit
    #[arg(long, default_value_t = 0)]
    wrong_ppm: u32,
    /// Ends after so many requests
    #[arg(long)]
    unplug_after: Option<u64>,
    /// Requests with which nothing goes wrong, the first ones
    #[arg(long, default_value_t = 0)]
    sound: u64,
    /// Where what goes wrong is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let model = Model {
        fixed: Duration::from_micros(arguments.service_us),
        bytes_per_second: arguments.bytes_per_second,
        units: arguments.units,
        queues: arguments.queues.clamp(1, 64),
        queue_size: 256,
        request_len_max: arguments.request_len_max,
        faults: Faults {
            late_ppm: arguments.late_ppm,
            late: Duration::from_millis(arguments.late_ms),
            lost_ppm: arguments.lost_ppm,
            wrong_ppm: arguments.wrong_ppm,
            unplug_after: arguments.unplug_after,
            sound: arguments.sound,
            seed: arguments.seed,
        },
    };
    let functions: Vec<_> = arguments
        .socket
        .into_iter()
        .map(|socket| {
            let model = model.clone();
            std::thread::spawn(move || {
                if let Err(error) = serve(&socket, &model) {
                    eprintln!("{}: {error}", socket.display());
                    std::process::exit(1);
                }
            })
        })
        .collect();
    for function in functions {
        let _ = function.join();
    }
}
