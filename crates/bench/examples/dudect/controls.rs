//! What has to be seen, or else nothing seen would say nothing.

use std::hint::black_box;
use std::time::Instant;

use crate::statistics::{INPUTS, Rng, Times, measure};

/// A comparison that ends at the first difference.
pub(crate) fn early_exit(calls: usize, rng: &mut Rng) -> Times {
    let right = rng.bytes(256);
    measure(calls, rng, |class, _| {
        let mut wrong = right.clone();
        wrong[if class == 0 { 0 } else { 255 }] ^= 1;
        let started = Instant::now();
        black_box(black_box(&right).iter().zip(black_box(&wrong)).all(|(a, b)| black_box(a) == black_box(b)));
        started.elapsed().as_nanos() as f64
    })
}

/// Look-ups in a table larger than the first caches, at addresses that the
/// data give.
pub(crate) fn table(calls: usize, rng: &mut Rng) -> Times {
    let table = rng.bytes(8 << 20);
    let inputs: [Vec<Vec<u64>>; 2] = [
        vec![vec![rng.next(); 32]; INPUTS],
        (0..INPUTS).map(|_| (0..32).map(|_| rng.next()).collect()).collect(),
    ];
    measure(calls, rng, |class, input| {
        let started = Instant::now();
        let sum = inputs[class][input].iter().map(|&at| u64::from(table[at as usize % table.len()]));
        black_box(sum.sum::<u64>());
        started.elapsed().as_nanos() as f64
    })
}
