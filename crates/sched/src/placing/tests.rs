use strongroom_engine::Operation;

use super::*;
use crate::record::Measurement;
use crate::settings::Objective;

const BYTES: u64 = 4096;
/// Two tiers of the CPU and a device.
const SERVICE_NS: [f64; 3] = [1300.0, 1000.0, 20_000.0];

/// Places batches one after the other, and tells how many came to each engine.
fn place_batches(batches: u32) -> [u32; 3] {
    let said = |inline| Expectation { inline, cpu_ns: 500.0, ..Expectation::of_nothing() };
    let placer = Placer::new([said(true), said(true), said(false)]);
    let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
    let request = Request::whole(Operation::Seal, BYTES);
    let cpu = CpuView { idle: 0.5, ..CpuView::idle(2) };
    let now = Moment { cpu, usable: 0b111, version: 0, is_first: true };
    let mut placed = [0; 3];
    for _ in 0..batches {
        let Some(Decision { placement: Placement::Whole(engine), .. }) =
            placer.decide(&settings, &request, &now)
        else {
            panic!("a batch of one segment is placed whole");
        };
        placed[engine] += 1;
        let record = &placer.records()[engine];
        let flight = record.began(request.operation, BYTES);
        let service_ns = SERVICE_NS[engine];
        let cpu_ns = if engine < 2 { service_ns } else { 500.0 };
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns, cpu_ns });
    }
    placed
}

/// What the batches of two tiers of the CPU take that say 15 and 4 GB/s of
/// themselves and are so fast, and no more, from 4 KiB on.
fn on_tier(tier: usize, bytes: u64) -> f64 {
    [900.0 + bytes as f64 / 15.0, 500.0 + bytes as f64 / 4.0][tier]
}

/// Places small batches, and then large ones of which the first on the
/// faster tier takes `stretch` times as long; how many large ones went to
/// the slower.
fn large_on_slower(stretch: f64) -> u32 {
    let said = |rate: f64| Expectation {
        inline: true,
        fixed_ns: 300.0,
        per_byte_ns: 1.0 / rate,
        ..Expectation::of_nothing()
    };
    let placer = Placer::new([said(15.0), said(4.0)]);
    let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
    let cpu = CpuView { idle: 0.5, ..CpuView::idle(2) };
    let now = Moment { cpu, usable: 0b11, version: 0, is_first: true };
    let (mut slower, mut is_stretched) = (0, false);
    for batch in 0..2000 {
        let bytes = if batch < 100 { 40 } else { 262_144 };
        let request = Request::whole(Operation::Open, bytes);
        let decision = placer.decide(&settings, &request, &now).unwrap();
        let Placement::Whole(tier) = decision.placement else { panic!("a batch of one segment") };
        slower += u32::from(tier == 1 && batch >= 100);
        let record = &placer.records()[tier];
        if decision.reason != Reason::Probe && !record.wants_time(Operation::Open, bytes) {
            continue;
        }
        let is_first = tier == 0 && batch >= 100 && !std::mem::replace(&mut is_stretched, batch >= 100);
        let took = on_tier(tier, bytes) * if is_first { stretch } else { 1.0 };
        let flight = record.began(Operation::Open, bytes);
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns: took, cpu_ns: took });
    }
    slower
}

#[test]
fn an_interrupt_in_the_first_large_batch_does_not_make_a_tier_slow() {
    for stretch in [1.0, 3.0, 30.0, 300.0] {
        assert!(large_on_slower(stretch) < 30, "{stretch}: {}", large_on_slower(stretch));
    }
}

/// Places batches of 4 KiB on three tiers that say 15, 4 and 0.4 GB/s of
/// themselves, where each takes what `takes` tells of it, which is told
/// whether it had the batch before too; how many came to each.
fn on_tiers_alone(takes: impl Fn(usize, bool) -> f64) -> [u32; 3] {
    let said = |rate: f64| Expectation {
        inline: true,
        fixed_ns: 300.0,
        per_byte_ns: 1.0 / rate,
        ..Expectation::of_nothing()
    };
    let placer = Placer::new([said(15.0), said(4.0), said(0.4)]);
    let settings = Settings { policy: Policy::Adaptive, ..Settings::default() };
    let cpu = CpuView::idle(2);
    let now = Moment { cpu, usable: 0b111, version: 0, is_first: true };
    let request = Request::whole(Operation::Open, BYTES);
    let (mut before, mut placed) = (usize::MAX, [0; 3]);
    for _ in 0..5000 {
        let decision = placer.decide(&settings, &request, &now).expect("three engines");
        let Placement::Whole(tier) = decision.placement else { panic!("a batch of one segment") };
        placed[tier] += 1;
        let record = &placer.records()[tier];
        if decision.reason == Reason::Probe || record.wants_time(request.operation, BYTES) {
            let took = takes(tier, before == tier);
            let flight = record.began(request.operation, BYTES);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns: took, cpu_ns: took });
        }
        before = tier;
    }
    placed
}

#[test]
fn cold_caches_do_not_make_the_faster_tier_the_slower_one() {
    let takes = |tier, is_warm| [450.0, 1350.0, 9600.0][tier] + if is_warm { 0.0 } else { 10_000.0 };
    let placed = on_tiers_alone(takes);
    assert!(placed[0] > 4900 && placed[2] == 0, "{placed:?}");
}

#[test]
fn a_tier_that_is_far_slower_than_it_says_is_left_for_one_that_says_less() {
    let placed = on_tiers_alone(|tier, _| [90_000.0, 60_000.0, 12_000.0][tier]);
    // What it says is believed for a thousand batches, and no longer.
    assert!(placed[2] > 3500, "{placed:?}");
}

/// A CPU that takes 100 us, and a device that takes half of it, serves one at a
/// time and costs the CPU 6 us.
fn beside_device() -> (Placer, Settings) {
    let said = |inline| Expectation { inline, ..Expectation::of_nothing() };
    let placer = Placer::new([said(true), said(false)]);
    for (engine, service_ns, cpu_ns) in [(0, 100_000.0, 100_000.0), (1, 50_000.0, 4_000.0)] {
        for _ in 0..9 {
            let record = &placer.records()[engine];
            let flight = record.began(Operation::Seal, BYTES);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns, cpu_ns });
        }
    }
    (placer, Settings { policy: Policy::Adaptive, check_exponent: 10, ..Settings::default() })
}

/// Where a batch goes on one CPU.
fn goes(placer: &Placer, settings: &Settings, request: &Request, cpu: CpuView) -> (usize, Reason) {
    let now = Moment { cpu, usable: 0b11, version: 0, is_first: true };
    let decision = placer.decide(settings, request, &now).expect("two engines");
    let Placement::Whole(engine) = decision.placement else { panic!("a batch of one segment") };
    (engine, decision.reason)
}

#[test]
fn an_answer_that_waits_for_a_cpu_behind_other_processes_costs_that() {
    let request = Request::whole(Operation::Seal, BYTES);
    let waits = |cpu_wait_ns, own| {
        let (placer, settings) = beside_device();
        (0..99).for_each(|_| placer.records()[1].woke(cpu_wait_ns));
        goes(&placer, &settings, &request, CpuView { idle: 0.0, own, ..CpuView::idle(1) }).0
    };
    assert_eq!(waits(0.0, 0.2), 1);
    assert_eq!(waits(200_000.0, 0.2), 0);
    // Behind threads of its own: that is in the price of CPU time.
    assert_eq!(waits(200_000.0, 1.0), 1);
}

#[test]
fn cpu_time_has_a_price_while_others_wait_for_it() {
    let (placer, settings) = beside_device();
    let request = Request { in_flight: 8, ..Request::whole(Operation::Seal, BYTES) };
    // Ten batches wait for the device: half a millisecond or so.
    let flights: Vec<_> = (0..40).map(|_| placer.records()[1].began(Operation::Seal, BYTES)).collect();
    let idle = CpuView::idle(1);
    let busy = CpuView { waiting: 7.0, saturated: 1.0, idle: 0.0, ..idle };
    assert_eq!(goes(&placer, &settings, &request, idle), (0, Reason::Least));
    assert_eq!(goes(&placer, &settings, &request, busy), (1, Reason::Least));
    // Who looks at himself alone does not pay for it.
    let latency = Settings { objective: Objective::Latency, ..settings };
    assert_eq!(goes(&placer, &latency, &request, busy), (0, Reason::Soonest));
    let cpu = Settings { objective: Objective::Cpu, ..settings };
    flights.iter().for_each(|flight| placer.records()[1].left(flight));
    assert_eq!(goes(&placer, &cpu, &request, idle), (1, Reason::CheapestCpu));
}

#[test]
fn probes_of_a_slow_device_cost_one_per_cent() {
    let (placer, settings) = beside_device();
    let request = Request::whole(Operation::Seal, BYTES);
    let cpu = CpuView::idle(1);
    let (mut spent, mut lost) = (0.0, 0.0);
    for _ in 0..50_000 {
        let (engine, _) = goes(&placer, &settings, &request, cpu);
        let service_ns = [100_000.0, 2_000_000.0][engine];
        let record = &placer.records()[engine];
        let flight = record.began(Operation::Seal, BYTES);
        record.left(&flight);
        record.learn(&flight, Measurement { service_ns, cpu_ns: [100_000.0, 4_000.0][engine] });
        spent += service_ns;
        lost += service_ns - 100_000.0;
    }
    let share = lost / spent;
    assert!(share > 0.002 && share < 0.015, "{share}");
}

#[test]
fn a_device_that_has_become_fast_is_found_by_a_probe() {
    let (placer, settings) = beside_device();
    let request = Request::whole(Operation::Seal, BYTES);
    let mut on_device = [0; 2];
    for (phase, service_ns) in [400_000.0, 20_000.0].into_iter().enumerate() {
        for _ in 0..4000 {
            let (engine, _) = goes(&placer, &settings, &request, CpuView::idle(1));
            let service_ns = [100_000.0, service_ns][engine];
            let record = &placer.records()[engine];
            let flight = record.began(Operation::Seal, BYTES);
            record.left(&flight);
            record.learn(&flight, Measurement { service_ns, cpu_ns: [service_ns, 4_000.0][engine] });
            on_device[phase] += engine;
        }
    }
    assert!(on_device[0] < 100 && on_device[1] > 3000, "{on_device:?}");
}

#[test]
fn a_decision_stands_only_where_no_queue_changes_it() {
    let stands = |service_ns: f64, in_flight| {
        let (placer, settings) = beside_device();
        (0..99).for_each(|_| {
            let flight = placer.records()[1].began(Operation::Seal, BYTES);
            placer.records()[1].left(&flight);
            placer.records()[1].learn(&flight, Measurement { service_ns, cpu_ns: 4_000.0 });
        });
        let request = Request { in_flight, ..Request::whole(Operation::Seal, BYTES) };
        goes(&placer, &settings, &request, CpuView::idle(1));
        placer.standing.engine(Operation::Seal, BYTES, in_flight, 0).is_some()
    };
    assert!(stands(300_000.0, 1));
    assert!(!stands(300_000.0, 8), "eight on the CPU take longer than the device");
    assert!(!stands(50_000.0, 1), "what goes to a device never stands");
}

#[test]
fn thresholds_are_asked_for_each_batch() {
    let (placer, settings) = beside_device();
    let request = Request::whole(Operation::Seal, BYTES);
    for policy in [Policy::Fixed, Policy::Size, Policy::Aca] {
        goes(&placer, &Settings { policy, ..settings }, &request, CpuView::idle(1));
        assert_eq!(placer.standing.engine(Operation::Seal, BYTES, 1, 0), None, "{policy:?}");
    }
}

#[test]
fn a_batch_is_divided_so_that_both_parts_end_together() {
    let said = |inline| Expectation { inline, per_byte_ns: 1.0, ..Expectation::of_nothing() };
    let placer = Placer::new([said(true), said(false)]);
    for (bytes, on_cpu_ns) in [(1 << 18, 0.25e6), (1 << 19, 0.5e6), (1 << 20, 1e6)] {
        for (engine, times) in [(0, 1.0), (1, 3.0)] {
            let cpu_ns = if engine == 0 { on_cpu_ns } else { 5e3 };
            let measured = Measurement { service_ns: times * on_cpu_ns, cpu_ns };
            placer.records()[engine].believe(Operation::Seal, bytes, measured);
        }
    }
    let request = Request { segments: 256, ..Request::whole(Operation::Seal, 1 << 20) };
    let settings = Settings { policy: Policy::Adaptive, check_exponent: 10, ..Settings::default() };
    let now = Moment { cpu: CpuView::idle(4), usable: 0b11, version: 0, is_first: true };
    let placed = placer.decide(&settings, &request, &now).expect("two engines").placement;
    // A quarter to the device, which is three times as slow.
    let Placement::Split { device_segments, .. } = placed else { panic!("{placed:?}") };
    assert!((55..=64).contains(&device_segments), "{device_segments}");
}

#[test]
fn the_slower_tier_of_the_cpu_and_a_slow_device_are_probed_and_no_more() {
    let [slower, faster, device] = place_batches(400_000);
    // What they took longer than the faster one, over all that was taken.
    let lost = f64::from(slower) * (SERVICE_NS[0] - SERVICE_NS[1]) + f64::from(device) * SERVICE_NS[2];
    let share = lost / (f64::from(faster) * SERVICE_NS[1]);
    assert!(slower > 0 && share < 1.2 * PROBE_SHARE, "{share}: {slower} {faster} {device}");
}
