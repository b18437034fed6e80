//! Prints what each device does: `cargo run --release --example figures`.

use strongroom_engine_gpu::figures::{copy_rate, measure};
use strongroom_engine_gpu::{Cipher, Options, survey};

fn main() {
    let survey = survey();
    survey.missing.iter().for_each(|missing| println!("{missing}"));
    for found in &survey.devices {
        let engine = found.engine(Options::default());
        let copy = match copy_rate(&engine) {
            Ok(rate) => rate / 1e9,
            Err(failure) => {
                println!("{}: {failure}", found.name);
                continue;
            }
        };
        println!("{}: {} by {}, plain copy {copy:.2} GB/s", found.name, found.info.name, found.info.driver);
        println!(
            "| cipher | contexts | latency µs | kernel GB/s | with transfers GB/s | of the copy | CPU s/GiB |"
        );
        for cipher in Cipher::ALL {
            for contexts in [1, 16, 64, 256, 1024, 4096] {
                match measure(&engine, cipher, contexts) {
                    Ok(figure) => println!(
                        "| {cipher} | {contexts} | {:.0} | {} | {:.2} | {:.2} | {:.3} |",
                        figure.latency.as_secs_f64() * 1e6,
                        figure
                            .kernel_bytes_per_second
                            .map_or("-".into(), |rate| format!("{:.1}", rate / 1e9)),
                        figure.bytes_per_second / 1e9,
                        figure.bytes_per_second / 1e9 / copy,
                        figure.cpu_seconds_per_gib
                    ),
                    Err(failure) => println!("| {cipher} | {contexts} | {failure} |"),
                }
            }
        }
    }
}
