use super::*;

/// Windows of a load under which each way has its speed, for so long; the
/// way in use at the end, and the share of the time of each.
fn run(race: &mut Race, speeds: &[f64], reads: f64, from_ns: u64, for_ns: u64) -> (usize, Vec<f64>) {
    let load = Load { reads, work_ns: 1e4, in_flight: 4.0, waiting: 0.0 };
    windows(race, load, (from_ns, for_ns), |way, _| speeds[way])
}

fn windows(
    race: &mut Race,
    load: Load,
    (from_ns, for_ns): (u64, u64),
    speed_of: impl Fn(usize, u64) -> f64,
) -> (usize, Vec<f64>) {
    let (mut now, mut way, mut settles) = (from_ns, race.incumbent(), true);
    let mut shares = vec![0.0; race.ways];
    while now < from_ns + for_ns {
        let elapsed_ns = if settles { 1e5 } else { WINDOW_NS };
        now += elapsed_ns as u64;
        shares[way] += elapsed_ns / for_ns as f64;
        // Some noise, without chance.
        let speed = speed_of(way, now) * (1.0 + 0.02 * (now as f64 / 1e6).sin());
        let batches = elapsed_ns * speed / 1e4;
        let window = Window { load, speed, elapsed_ns, batches, otherwise: !0, is_lost: false };
        let (next, asked) = race.window(&window, settles, now);
        settles = next.is_some();
        way = next.unwrap_or(way);
        if let Some(asked) = asked.filter(|asked| race.answer(*asked, Outlook::Open, now)) {
            (way, settles) = (asked, true);
        }
    }
    (race.incumbent(), shares)
}

#[test]
fn the_fastest_way_is_found_and_the_others_cost_little() {
    for (fastest, speeds) in
        [(0, [1.0, 0.9, 0.8, 0.1]), (2, [1.0, 1.0, 1.05, 0.02]), (3, [0.5, 0.4, 0.6, 2.0])]
    {
        let mut race = Race::new(2, 4);
        let (found, _) = run(&mut race, &speeds, 0.0, 0, 1_000_000_000);
        assert_eq!(found, fastest, "{speeds:?}");
        let (found, shares) = run(&mut race, &speeds, 0.0, 1_000_000_000, 1_000_000_000);
        let reached: f64 = shares.iter().zip(speeds).map(|(share, speed)| share * speed).sum();
        assert!(found == fastest && reached > 0.985 * speeds[fastest], "{speeds:?}: {reached} {shares:?}");
    }
}

#[test]
fn another_load_and_a_way_that_slows_down_are_noticed() {
    let mut race = Race::new(2, 4);
    assert_eq!(run(&mut race, &[1.0, 1.0, 0.2, 1.5], 0.0, 0, 500_000_000).0, 3);
    // Reads come, for which the other engine is the better one.
    assert_eq!(run(&mut race, &[1.0, 1.0, 1.4, 0.2], 1.0, 500_000_000, 500_000_000).0, 2);
    // And becomes slower than what was left.
    assert_ne!(run(&mut race, &[1.0, 1.0, 0.5, 0.2], 1.0, 1_000_000_000, 500_000_000).0, 2);
}

#[test]
fn a_steady_way_is_taken_from_one_that_swings() {
    let mut race = Race::new(2, 3);
    let load = Load { reads: 0.0, work_ns: 1e4, in_flight: 4.0, waiting: 0.0 };
    let swings =
        |way, now: u64| if way == 2 { 1.75 } else { [1.74, 0.6, 1.2, 0.7][now as usize / 5_000_000 % 4] };
    assert_eq!(windows(&mut race, load, (0, 240_000_000), swings).0, 2);
}

#[test]
fn with_many_more_in_flight_all_is_tried_again() {
    let mut race = Race::new(2, 4);
    let few = Load { reads: 0.0, work_ns: 1e4, in_flight: 0.0, waiting: 0.0 };
    let second = 1_000_000_000;
    assert_eq!(windows(&mut race, few, (0, second), |way, _| [1.0, 1.0, 0.9, 0.02][way]).0, 0);
    let many = Load { in_flight: 40.0, ..few };
    assert_eq!(windows(&mut race, many, (second, second / 4), |way, _| [1.0, 1.0, 0.9, 1.3][way]).0, 3);
}

#[test]
fn sizes_that_were_alike_and_are_others_start_over_at_once() {
    let mut race = Race::new(2, 4);
    assert_eq!(run(&mut race, &[1.0, 1.0, 0.2, 1.5], 0.0, 0, 500_000_000).0, 3);
    let load = Load { work_ns: 1e6, in_flight: 4.0, ..Load::default() };
    let window = Window { load, speed: 1.5, elapsed_ns: 4e6, batches: 16.0, ..Window::default() };
    assert_eq!(race.window(&window, false, 600_000_000).0, Some(0));
}

#[test]
fn a_load_for_which_the_way_is_far_slower_starts_over_at_once() {
    let mut race = Race::new(2, 4);
    assert_eq!(run(&mut race, &[1.0, 1.0, 0.2, 1.5], 0.0, 0, 500_000_000).0, 3);
    let load = Load { reads: 1.0, work_ns: 1e4, in_flight: 4.0, ..Load::default() };
    let window = Window { load, speed: 0.7, elapsed_ns: 4e6, batches: 280.0, ..Window::default() };
    assert_eq!(race.window(&window, false, 600_000_000).0, None, "others may have come for a moment");
    let window = Window { speed: 0.1, batches: 40.0, ..window };
    assert_eq!(race.window(&window, false, 604_000_000).0, Some(0));
}

#[test]
fn a_trial_during_which_many_more_come_is_no_trial() {
    let mut race = Race::new(2, 3);
    race.challengers[1].next_ns = u64::MAX;
    let load = Load { work_ns: 1e4, ..Load::default() };
    let window = Window { load, speed: 1.0, elapsed_ns: 4e6, batches: 400.0, ..Window::default() };
    let asked = (0..3).find_map(|_| race.window(&window, false, 0).1);
    assert!(asked == Some(2) && race.answer(2, Outlook::Open, 0));
    assert_eq!(race.window(&window, false, 0).0, Some(0));
    // One asked, and now there are 47 more that wait for its CPU.
    let load = Load { waiting: 47.0, ..load };
    assert_eq!(race.window(&Window { load, speed: 0.5, ..window }, false, 0).0, None);
    assert!(race.trial.is_none() && race.challengers[2].evidence.pairs() == 0.0);
    assert!(race.challengers.iter().all(|way| way.next_ns == 0));
}

#[test]
fn another_load_starts_over_however_much_the_speed_has_swung_before() {
    let mut race = Race::new(2, 4);
    let load = Load { work_ns: 1e4, in_flight: 4.0, ..Load::default() };
    // All are slower by two thirds in each second fifth of a second.
    let speed_of =
        |way: usize, now: u64| [1.0, 1.0, 0.2, 1.5][way] * [1.0, 0.33][(now / 200_000_000 % 2) as usize];
    assert_eq!(windows(&mut race, load, (0, 5_000_000_000), speed_of).0, 3);
    let large = Load { work_ns: 1e6, ..load };
    let window = Window { load: large, speed: 1.5, elapsed_ns: 4e6, batches: 16.0, ..Window::default() };
    assert_eq!(race.window(&window, false, 5_010_000_000).0, Some(0));
}

#[test]
fn a_window_is_as_long_as_other_work_takes_to_come_back() {
    let mut race = Race::new(2, 2);
    let load = Load { in_flight: 4.0, work_ns: 1e4, ..Load::default() };
    let mut compared = 0;
    for at in 0..400u64 {
        if at == 300 {
            // The other way was tried with short windows, and lost.
            race.challengers[1].evidence.add(0.8);
            (race.challengers[1].longest_ns, race.challengers[1].next_ns) = (WINDOW_NS, u64::MAX);
        }
        // 16 of each 36 ms have other work.
        let speed = if at % 9 < 4 { 0.4 } else { 1.0 };
        let window = Window { load, speed, elapsed_ns: WINDOW_NS, batches: 400.0, ..Window::default() };
        race.window(&window, false, at * 4_000_000);
        compared += u32::from(at >= 300 && race.joined.is_none());
    }
    assert!((8.0..=10.0).contains(&(race.window_ns() / WINDOW_NS)), "{}", race.window_ns());
    assert!((10..=13).contains(&compared), "{compared} of 100");
    // And what lasts is seen.
    assert!((race.speed - 0.73).abs() < 0.05, "{}", race.speed);
    assert!(race.challengers[1].next_ns < u64::MAX, "it would be tried again");
}

#[test]
fn what_a_device_has_still_to_do_is_not_counted_for_the_way_that_follows() {
    let mut race = Race::new(2, 3);
    // In flight, and speed, of the short windows of the CPU after a device.
    let leaves = [(12.0, 1.1), (5.0, 1.1), (0.3, 1.0)];
    let (mut now, mut way, mut settles, mut since) = (0, 0, true, leaves.len());
    while now < 1_000_000_000 {
        let elapsed_ns = if settles { 1e5 } else { WINDOW_NS };
        now += elapsed_ns as u64;
        let (in_flight, speed) = if way == 2 { (16.0, 1.04) } else { leaves[since.min(leaves.len() - 1)] };
        since += usize::from(!settles);
        let load = Load { work_ns: 1e4, in_flight, ..Load::default() };
        let window = Window { load, speed, elapsed_ns, batches: 400.0, ..Window::default() };
        let (next, asked) = race.window(&window, settles, now);
        let outlook = |way| if way == 2 { Outlook::Open } else { Outlook::Hopeless };
        let asked = asked.filter(|asked| race.answer(*asked, outlook(*asked), now));
        settles = next.or(asked).is_some();
        if let Some(next) = next.or(asked) {
            since = if way == 2 { 0 } else { leaves.len() };
            way = next;
        }
    }
    assert_eq!(race.incumbent(), 2);
}

#[test]
fn where_sizes_spread_a_window_has_more_batches() {
    let mut race = Race::new(2, 1);
    assert_eq!(race.fewest(0.0), BATCHES[0]);
    for at in 1..40 {
        let work_ns = [1e4, 2.5e4][at % 2];
        let load = Load { work_ns, in_flight: 4.0, ..Load::default() };
        let window = Window { load, speed: 1.0, elapsed_ns: 4e6, batches: 20.0, ..Window::default() };
        race.window(&window, false, at as u64 * 4_000_000);
    }
    assert!(race.fewest(0.0) > 5.0 * BATCHES[0], "{}", race.fewest(0.0));
    assert_eq!(race.fewest(FEWEST_NS / 10.0), 10.0, "but for no longer than that");
}

#[test]
fn where_sizes_spread_ways_are_compared_for_longer_than_the_large_batches_take() {
    for (large_ns, is_longer) in [(2.5e4, true), (1e4, false)] {
        let mut race = Race::new(2, 3);
        let mut now = 0;
        while race.trial.is_none() {
            now += 4_000_000;
            let work_ns = [1e4, large_ns][(now / 4_000_000 % 2) as usize];
            let load = Load { work_ns, in_flight: 4.0, ..Load::default() };
            let window = Window { load, speed: 1.0, elapsed_ns: 4e6, batches: 200.0, ..Window::default() };
            // The first trials come before sizes are known.
            let asked = race.window(&window, false, now).1.filter(|_| now > 200_000_000);
            asked.map(|asked| race.answer(asked, Outlook::Open, now));
        }
        race.turned_over(8e6);
        assert_eq!(race.window_ns() >= TURNOVERS * 8e6, is_longer, "{}", race.window_ns());
    }
}

#[test]
fn other_work_that_comes_and_goes_has_a_loser_tried_ever_less_often() {
    let mut race = Race::new(2, 2);
    let load = Load { in_flight: 4.0, work_ns: 1e4, ..Load::default() };
    // Both are slower by a fifth in each second tenth of a second.
    let speed_of = |way, now: u64| [1.0, 0.85][way] * [1.0, 0.8][(now / 100_000_000 % 2) as usize];
    let second = 1_000_000_000;
    let (_, early) = windows(&mut race, load, (0, second), speed_of);
    let (found, late) = windows(&mut race, load, (5 * second, second), speed_of);
    assert!(found == 0 && late[1] < 0.01, "{early:?} {late:?}");
}

#[test]
fn ways_that_are_taken_in_turn_are_compared_for_longer() {
    let mut race = Race::new(2, 3);
    race.takes(2, 0);
    assert_eq!(race.challengers[0].evidence.length(), 0.0);
    race.takes(0, 0);
    assert!(race.challengers[2].evidence.length() > 1.0);
    race.starts_over(0);
    race.takes(2, 0);
    race.takes(1, 0);
    assert_eq!(race.challengers[2].evidence.length(), 0.0, "another was taken");
}

#[test]
fn what_the_model_finds_hopeless_is_not_tried() {
    let mut race = Race::new(2, 3);
    assert!(!race.answer(2, Outlook::Hopeless, 0) && !race.is_challenged());
    assert!(race.answer(2, Outlook::Slow, 0) && race.is_challenged());
}

#[test]
fn ways_by_the_model_are_tried_where_they_would_place_otherwise() {
    for (otherwise, tried) in [(0b000, vec![]), (0b010, vec![1]), (0b100, vec![2]), (0b110, vec![1, 2])] {
        let mut race = Race::new(3, 3);
        let load = Load { work_ns: 1e4, in_flight: 4.0, ..Load::default() };
        let window =
            Window { load, speed: 1.0, elapsed_ns: 4e6, batches: 400.0, otherwise, ..Window::default() };
        let mut asked = vec![];
        for at in 1..14 {
            let way = race.window(&window, false, at * 4_000_000).1;
            way.map(|way| race.answer(way, Outlook::Hopeless, at * 4_000_000));
            asked.extend(way);
        }
        assert_eq!(asked, tried, "{otherwise:b}");
    }
}
