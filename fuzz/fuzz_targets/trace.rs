//! Traces: junk is an error, what is taken is written again as it was, and the
//! chains of any records have each of them once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_trace::{Trace, chains};

fuzz_target!(|data: &[u8]| {
    let Ok(trace) = Trace::decode(data) else { return };
    let again = Trace::decode(&trace.encode()).expect("it was written so");
    assert_eq!(again, trace);
    let mut places: Vec<usize> = chains(&trace.records).concat();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..trace.records.len()));
});
