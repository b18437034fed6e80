//! The conformance suite on the kernel's own ciphers, where it gives them to programs. Devices are tested in a
//! virtual machine (`cargo xtask vm --part device`).
#![forbid(unsafe_code)]

use strongroom_engine::conformance;
use strongroom_engine_cpu::ReferenceEngine;
use strongroom_engine_kernel::{Error, KernelEngine, probe};

#[test]
fn the_kernels_ciphers_conform() {
    for algorithm in ["cbc(aes)", "ctr(aes)", "xts(aes)"] {
        match KernelEngine::open("kernel", algorithm) {
            Ok(engine) => conformance::run(&engine, &ReferenceEngine),
            Err(Error::NoInterface(error)) => {
                assert!(probe().is_err());
                println!("not run: no AF_ALG: {error}");
            }
            // A kernel may keep single ones to itself.
            Err(error) => println!("{algorithm} not run: {error}"),
        }
    }
}
