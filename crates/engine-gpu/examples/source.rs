//! Prints the kernels' source: `source opencl|cuda CIPHER`.

use std::process::ExitCode;

use strongroom_engine_gpu::{Cipher, source};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dialect, name] = &arguments[..] else {
        eprintln!("usage: source opencl|cuda CIPHER");
        return ExitCode::FAILURE;
    };
    let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.name() == name);
    match (&**dialect, cipher) {
        ("opencl", Some(cipher)) => print!("{}", source::opencl(cipher)),
        ("cuda", Some(cipher)) => print!("{}", source::cuda(cipher)),
        _ => {
            eprintln!("there is no dialect `{dialect}` or cipher `{name}`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
