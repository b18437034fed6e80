//! FUSE requests: whatever the kernel could send is parsed or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = strongroom_fuse::abi::request::parse(data);
});
