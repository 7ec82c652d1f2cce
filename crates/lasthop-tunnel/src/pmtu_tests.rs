//! Search for the path's MTU, on paths with an MTU known to the test.

use proptest::prelude::*;

use super::*;

/// Runs the search until nothing is due before `until`; `passes` returns for a size whether the probe and its answer
/// arrive. The answer arrives after 50 ms.
fn run(search: &mut Search, from: Instant, until: Instant, mut passes: impl FnMut(u16) -> bool) -> u32 {
    let (mut now, mut probes) = (from, 0);
    while let Some(deadline) = search.poll_deadline() {
        now = now.max(deadline);
        if now > until {
            break;
        }
        if let Some((number, size)) = search.poll(now) {
            probes += 1;
            if passes(size) {
                now += Duration::from_millis(50);
                search.seen(now, number);
            }
        }
    }
    probes
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn a_path_without_a_narrow_place_takes_two_probes() {
    let mut search = Search::new(at(0), 1472);
    assert_eq!((search.size(), search.state()), (BASE, State::Base));
    assert_eq!(run(&mut search, at(0), at(10), |_| true), 2);
    assert_eq!((search.size(), search.state(), search.poll_deadline()), (1472, State::Complete, None));
}

#[test]
fn a_narrower_path_is_found_and_tried_again_later() {
    let mut search = Search::new(at(0), 1472);
    run(&mut search, at(0), at(60), |size| size <= 1392);
    assert_eq!(search.state(), State::Complete);
    assert!((1389..=1392).contains(&search.size()), "{}", search.size());
    // The path's MTU grows, which is detected ten minutes later.
    run(&mut search, at(60), at(700), |_| true);
    assert_eq!((search.size(), search.state()), (1472, State::Complete));
}

#[test]
fn where_the_base_does_not_pass_the_least_is_used_and_the_base_tried_again() {
    let mut search = Search::new(at(0), 1472);
    let probes = run(&mut search, at(0), at(600), |_| false);
    assert_eq!((search.size(), search.state()), (LEAST, State::Error));
    assert!(probes < 45, "{probes} probes in ten minutes");
    run(&mut search, at(600), at(800), |_| true);
    assert_eq!((search.size(), search.state()), (1472, State::Complete));
}

#[test]
fn a_black_hole_is_found_by_the_data_that_falls_into_it() {
    let mut search = Search::new(at(0), 1472);
    run(&mut search, at(0), at(10), |_| true);
    let lose = |search: &mut Search, count: u64, from: u64| {
        (0..count).any(|n| search.lost(at(from) + Duration::from_millis(n * 20), 1472))
    };
    // No packet of any size arrives: the path is interrupted, which says nothing about its MTU.
    assert!(!lose(&mut search, 100, 11));
    search.acknowledged(1472);
    assert!(!lose(&mut search, 9, 20));
    search.acknowledged(1472);
    assert!(!lose(&mut search, 9, 21));
    search.acknowledged(100);
    assert!(lose(&mut search, 1, 22));
    assert_eq!((search.size(), search.state()), (BASE, State::Base));
    run(&mut search, at(22), at(80), |size| size <= 1300);
    assert!((1297..=1300).contains(&search.size()), "{}", search.size());
}

#[test]
fn what_the_system_refuses_is_not_tried_again() {
    let mut search = Search::new(at(0), 1472);
    let (number, size) = search.poll(at(0)).unwrap();
    assert_eq!(size, BASE);
    assert!(!search.seen(at(0), number));
    let (_, size) = search.poll(at(0)).unwrap();
    assert_eq!(size, 1472);
    assert!(!search.too_big(at(0), 1472));
    let (_, next) = search.poll(at(0)).unwrap();
    assert!(next < 1472 && next > BASE);
    run(&mut search, at(1), at(100), |size| size < 1472);
    assert!(search.size() >= 1468);
    // The interface's own MTU was reduced.
    assert!(search.too_big(at(100), 1400));
    assert_eq!(search.size(), BASE);
}

#[test]
fn a_refused_probe_may_be_smaller_than_what_passed_before() {
    let mut search = Search::new(at(0), 1472);
    run(&mut search, at(0), at(60), |size| size <= 1392);
    // Ten minutes later the search continues; meanwhile the interface's MTU was reduced.
    assert!(search.poll(at(700)).is_some());
    assert!(search.too_big(at(700), 1300));
    assert_eq!((search.size(), search.state()), (BASE, State::Base));
}

#[test]
fn a_late_answer_to_another_probe_counts_for_nothing() {
    let mut search = Search::new(at(0), 1472);
    let (number, _) = search.poll(at(0)).unwrap();
    assert!(!search.seen(at(0), number.wrapping_add(1)));
    assert_eq!(search.state(), State::Base);
    search.seen(at(0), number);
    assert!(!search.seen(at(0), number));
    assert_eq!((search.size(), search.state()), (BASE, State::Searching));
}

proptest! {
    #[test]
    fn any_path_is_found_within_four_bytes(mtu in LEAST..=9_000_u16, ceiling in LEAST..=9_000_u16) {
        let mut search = Search::new(at(0), ceiling);
        run(&mut search, at(0), at(590), |size| size <= mtu);
        let best = mtu.min(ceiling);
        if best >= BASE.min(ceiling) {
            prop_assert!(search.size() <= best && search.size() + NEAR > best, "{} of {}", search.size(), best);
            prop_assert_eq!(search.state(), State::Complete);
        } else {
            prop_assert_eq!(search.size(), LEAST);
        }
    }

    #[test]
    fn losses_never_make_it_larger_than_the_path(mtu in LEAST..=1_600_u16, lost in proptest::collection::vec(any::<bool>(), 1..200)) {
        let mut search = Search::new(at(0), 1472);
        let mut fates = lost.iter().cycle();
        run(&mut search, at(0), at(300), |size| size <= mtu && !*fates.next().unwrap_or(&true));
        prop_assert!(search.size() <= mtu.max(LEAST) || search.size() == BASE && search.state() == State::Base);
    }
}
