//! Times of two classes of inputs, and whether they have one mean.

/// Inputs of each class that are made before, so that both are read alike.
pub(crate) const INPUTS: usize = 64;

/// SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Times of two classes, in nanoseconds.
pub(crate) type Times = [Vec<f64>; 2];

/// Measures `call(class, input)` in random order.
pub(crate) fn measure(calls: usize, rng: &mut Rng, mut call: impl FnMut(usize, usize) -> f64) -> Times {
    let mut times = Times::default();
    for at in 0..calls + calls / 10 {
        let drawn = rng.next();
        let class = (drawn & 1) as usize;
        let time = call(class, (drawn >> 8) as usize % INPUTS);
        // The first tenth warms the caches.
        if at >= calls / 10 {
            times[class].push(time);
        }
    }
    times
}

fn mean_and_variance(times: &[f64]) -> (f64, f64) {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, squares / (times.len() as f64 - 1.0))
}

/// Welch's t of both classes.
fn welch(times: &Times) -> f64 {
    if times.iter().any(|class| class.len() < 100) {
        return 0.0;
    }
    let [(a, var_a), (b, var_b)] = [mean_and_variance(&times[0]), mean_and_variance(&times[1])];
    let spread = var_a / times[0].len() as f64 + var_b / times[1].len() as f64;
    if spread == 0.0 { 0.0 } else { (a - b) / spread.sqrt() }
}

/// The largest |t| of the times below several quantiles of all times.
pub(crate) fn largest_t(times: &Times) -> f64 {
    let mut all: Vec<f64> = times.concat();
    all.sort_unstable_by(f64::total_cmp);
    let quantile = |part: f64| all[((all.len() - 1) as f64 * part) as usize];
    [0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
        .into_iter()
        .map(|part| {
            let limit = quantile(part);
            let below = times
                .each_ref()
                .map(|class| class.iter().copied().filter(|&time| time <= limit).collect::<Vec<f64>>());
            welch(&below).abs()
        })
        .fold(0.0, f64::max)
}
