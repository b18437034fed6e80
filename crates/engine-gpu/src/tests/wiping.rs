//! On the devices that there are: after a launch nothing is left in their memory.

use std::time::{Duration, Instant};

use crate::cipher::Cipher;
use crate::plan::{Builder, Plan, Sectors, Stream};
use crate::platform::{Device, Lane};
use crate::sys::{Block, open_cuda, open_opencl};

const KEY: [u8; 32] = *b"a key that one finds in a memory";

/// Keystream or sectors, with all that a launch can have.
fn plan(block: &mut Block, cipher: Cipher) -> Plan {
    let mut builder = Builder::new(block);
    let runs = [builder.run(100), builder.run(4096), builder.run(512)];
    builder.pass(cipher, 8);
    let key = builder.key(&KEY);
    if cipher == Cipher::ChaCha20 {
        let streams = runs.map(|run| (Stream { key, nonce: [1; 12], counter: 1 }, run));
        builder.counter(streams, false);
        return builder.finish();
    }
    builder.data_goes_in();
    for run in &runs {
        builder.bytes(run.clone()).fill(0x77);
    }
    for number in 1..=9 {
        builder.tweak([number; 16]);
    }
    builder.encrypt_tweaks(key);
    builder.xts(key, false, [(Sectors { tweak: 0, blocks_per_sector: 32 }, runs[1].clone())]);
    builder.finish()
}

fn run(lane: &mut dyn Lane, plan: &Plan, block: Block) -> Block {
    lane.launch(plan, block).expect("it is queued");
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(block) = lane.poll().expect("it ends well") {
            return block;
        }
        assert!(Instant::now() < deadline, "it ends");
        lane.signal().wait(Duration::from_millis(20));
    }
}

fn check(device: &dyn Device, cipher: Cipher) {
    let name = &device.info().name;
    device.prepare(cipher).expect("its kernels compile");
    let mut lane = device.lane().expect("a lane");
    let zeros = |lane: &mut dyn Lane| lane.remains().expect("readable").iter().all(|&byte| byte == 0);
    assert!(zeros(&mut *lane), "{name}: a new lane");
    let mut block = device.block().expect("a block");
    let mut plan = plan(&mut block, cipher);
    let block = run(&mut *lane, &plan, block);
    assert!(block[plan.data()].iter().any(|&byte| byte != 0), "{name}: {cipher} computed nothing");
    assert!(zeros(&mut *lane), "{name}: {cipher} left something behind");
    // That this could be seen.
    plan.leaves_all = true;
    run(&mut *lane, &plan, block);
    let remains = lane.remains().expect("readable");
    assert!(remains.windows(32).any(|window| window == KEY), "{name}: {cipher}: no wiping, and no key");
}

#[test]
fn launches_leave_nothing_in_device_memory() {
    let found = [open_cuda(), open_opencl()];
    for missing in found.iter().filter_map(|found| found.missing.as_ref()) {
        println!("skipped: {missing}");
    }
    let devices: Vec<_> = found.into_iter().flat_map(|found| found.devices).collect();
    let required = std::env::var_os("STRONGROOM_GPU_REQUIRED").is_some();
    assert!(!required || !devices.is_empty(), "a device is required and there is none");
    for device in devices {
        for cipher in Cipher::ALL {
            check(&*device, cipher);
        }
    }
}
