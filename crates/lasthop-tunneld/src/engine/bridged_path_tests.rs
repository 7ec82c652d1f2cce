//! Two bridges with two lines between them.

use lasthop_proto::link::hybrid::{Multipath, PathUse};

use super::*;
use crate::link::Link;

const SECOND: PathId = PathId(1);

/// Returns the plan of an end with a path for each of `names`, each of 20 Mbps.
fn plan_over(end: usize, names: &[&str], multipath: Multipath) -> Plan {
    let mut plan = plan(end, [1, 2][end], [2, 1][end], 1500);
    let only = plan.peers[0].paths[0].clone();
    let path = |(socket, name): (u8, &&str)| PathPlan { name: (*name).to_owned(), socket, ..only.clone() };
    plan.peers[0].paths = (0..).zip(names).map(path).collect();
    plan.peers[0].multipath = multipath;
    plan.interfaces = names.iter().skip(1).map(|name| (*name).to_owned()).collect();
    plan
}

/// Returns two ends over a line of 5 ms and one of 15 ms, without a session.
fn apart(multipath: Multipath) -> World {
    let plans = [0, 1].map(|end| plan_over(end, &["one", "two"], multipath));
    World::over(plans, vec![Line::new(0, 5, 0), Line::new(1, 15, 0)])
}

/// Returns two ends with a session, with traffic on both lines.
fn up(multipath: Multipath) -> World {
    let mut world = apart(multipath);
    world.connect();
    for number in 0..200 {
        for end in 0..2 {
            world.offer(end, &ordered(number));
        }
        world.run(5);
    }
    world.run(200);
    for got in &mut world.got {
        assert_eq!(got.len(), 200);
        got.clear();
    }
    world
}

fn link(world: &World, end: usize) -> &Link {
    world.ends[end].as_ref().unwrap().links().next().unwrap()
}

fn uses(world: &World, end: usize) -> Vec<PathUse> {
    let hop = &link(world, end).hop;
    hop.path_ids().map(|path| hop.path_use(path)).collect()
}

fn numbers(world: &World, end: usize) -> Vec<u32> {
    world.frames(end).iter().map(|frame| u32::from_be_bytes(*frame[34..].first_chunk().unwrap())).collect()
}

/// Returns the bytes that each end has sent on each line since `before`.
fn sent_since(world: &World, before: [[usize; 2]; 2]) -> [[usize; 2]; 2] {
    [0, 1].map(|end| [0, 1].map(|line| world.sent[end][line] - before[end][line]))
}

#[test]
fn two_lines_carry_more_than_either_in_order() {
    let mut world = up(Multipath::Bond);
    let before = world.sent;
    // 30 Mbit/s in each direction for 2 s, on lines of 20 Mbit/s.
    for number in 0..7_500 {
        for end in 0..2 {
            world.offer(end, &ordered(number));
        }
        if number % 15 == 14 {
            world.run(4);
        }
    }
    world.run(1_000);
    for end in 0..2 {
        assert_eq!(numbers(&world, end), (0..7_500).collect::<Vec<_>>());
        let sent = sent_since(&world, before);
        assert!(sent[end].iter().all(|bytes| *bytes > 2_000_000), "end {end}: {sent:?}");
    }
    assert_eq!(world.plain, [const { Vec::new() }; 2]);
}

/// Returns a frame of a call.
fn call(number: u32) -> Vec<u8> {
    udp(number, 2, 200)
}

/// Line that is cut, milliseconds between frames, and frames.
type Cut = (usize, u64, fn(u32) -> Vec<u8>);
const CUTS: [Cut; 6] =
    [(0, 20, ordered), (1, 20, ordered), (0, 2, ordered), (1, 2, ordered), (0, 20, call), (1, 20, call)];

/// Frames of a flow of 50 Hz, and of a busier one, arrive although a line is cut: no frame is lost or bypasses the tunnel,
/// and the gap is at most a round trip and 100 ms.
#[test]
fn a_cut_line_costs_no_frame() {
    for multipath in [Multipath::Bond, Multipath::Redundant, Multipath::Failover] {
        for (cut, every, frame) in CUTS {
            let mut world = up(multipath);
            let silences = |world: &World| [0, 1].map(|end| link(world, end).counters.silences);
            let before = silences(&world);
            let count = 6_000 / every as u32;
            for number in 0..count {
                match number * 6 / count {
                    1 => world.lines[cut].is_cut = true,
                    4 => world.lines[cut].is_cut = false,
                    _ => {}
                }
                for end in 0..2 {
                    world.offer(end, &frame(number));
                }
                world.run(every);
                assert_eq!(world.takes(), [true; 2], "{multipath:?}, line {cut}, frame {number}");
            }
            world.run(2_000);
            for end in 0..2 {
                let what = format!("{multipath:?}, line {cut}, each {every} ms, end {end}");
                assert_eq!(numbers(&world, end), (0..count).collect::<Vec<_>>(), "{what}");
                let gap = world.got[end].windows(2).map(|pair| pair[1].0.since(pair[0].0)).max().unwrap();
                assert!(gap <= Duration::from_millis(2 * 15 + 100 + every), "{what}: {gap:?}");
            }
            assert_eq!(world.plain, [const { Vec::new() }; 2]);
            assert_eq!(silences(&world), before);
            let expected = if multipath == Multipath::Failover { PathUse::Standby } else { PathUse::Used };
            assert_eq!(uses(&world, 0), [PathUse::Used, expected], "{multipath:?}, line {cut}");
        }
    }
}

/// An end that is silent on all lines is bypassed on the first one, and no frame is lost.
#[test]
fn when_all_lines_are_cut_frames_go_as_they_are_until_one_returns() {
    let mut world = up(Multipath::Bond);
    world.lines.iter_mut().for_each(|line| line.is_cut = true);
    let cut = world.now;
    for number in 0..100 {
        world.offer(0, &ordered(number));
        world.run(1);
    }
    assert_eq!(world.takes(), [false; 2]);
    let first = world.plain[0].first().unwrap().0;
    assert!(first.since(cut) <= Duration::from_nanos(SILENCE + 16 * MS), "{}", first.since(cut).as_nanos());
    assert!(world.plain[0].iter().map(|(_, frame)| frame).eq(&(0..100).map(ordered).collect::<Vec<_>>()));
    world.lines[1].is_cut = false;
    world.run(1_000);
    assert_eq!(world.takes(), [true; 2]);
    world.got[1].clear();
    world.offer(0, &ordered(100));
    world.run(200);
    assert_eq!((numbers(&world, 1), world.plain[0].len()), (vec![100], 100));
}

#[test]
fn a_session_begins_on_the_line_that_works_and_finds_the_other_later() {
    for dead in 0..2 {
        let mut world = apart(Multipath::Bond);
        world.lines[dead].is_cut = true;
        world.connect();
        let address = |world: &World, end: usize| link(world, end).paths()[dead].address;
        assert_eq!([address(&world, 0), address(&world, 1)], [None, None]);
        world.offer(0, &ordered(0));
        world.run(200);
        assert_eq!(numbers(&world, 1), [0]);
        world.lines[dead].is_cut = false;
        world.run(500);
        for end in 0..2 {
            assert_eq!(address(&world, end), Some(Mac(mac(1 - end, dead)).address()), "line {dead}, end {end}");
        }
        for number in 0..400 {
            world.offer(0, &ordered(number));
            world.run(5);
        }
        assert_eq!(uses(&world, 0), [PathUse::Used; 2]);
    }
}

/// The interfaces of a line are replaced at both ends, so that neither end's frames arrive any longer.
#[test]
fn a_line_with_other_addresses_is_found_again() {
    let mut world = up(Multipath::Bond);
    world.lines[1].macs = [mac(0, 7), mac(1, 7)];
    world.run(2_500);
    for end in 0..2 {
        assert_eq!(link(&world, end).paths()[1].address, Some(Mac(mac(1 - end, 7)).address()), "end {end}");
    }
    for number in 0..400 {
        world.offer(0, &ordered(number));
        world.run(5);
    }
    assert_eq!((numbers(&world, 1), uses(&world, 0)), ((0..400).collect(), vec![PathUse::Used; 2]));
}

#[test]
fn ends_with_different_numbers_of_paths_use_the_common_ones() {
    let plans = [plan_over(0, &["one", "two"], Multipath::Bond), plan_over(1, &["one"], Multipath::Bond)];
    let mut world = World::over(plans, vec![Line::new(0, 5, 0), Line::new(1, 15, 0)]);
    world.connect();
    for number in 0..100 {
        world.offer(0, &ordered(number));
        world.run(5);
    }
    world.run(100);
    assert_eq!((numbers(&world, 1), uses(&world, 0)), ((0..100).collect(), vec![PathUse::Used]));
    assert_eq!(world.sent.map(|sent| sent[1]), [0; 2]);
}

/// Repairs of a frame may take any line.
#[test]
fn frames_are_as_large_as_the_narrowest_line_allows() {
    let mut world = up(Multipath::Bond);
    let room = |world: &World| link(world, 0).mtu(world.now);
    // 1500 less the length 2, session 24 and link 6.
    assert_eq!(room(&world), 1_468);
    for (line, mtu, expected) in [(1, 1_400, 1_368), (0, 1_600, 1_368), (1, 1_600, 1_568)] {
        let now = world.now;
        for engine in world.ends.iter_mut().flatten() {
            engine.set_link_mtu(now, SocketId(line), mtu);
        }
        world.run(1_000);
        assert_eq!(room(&world), expected, "line {line}");
    }
    // A peer whose entry changes keeps the MTUs of the interfaces.
    let now = world.now;
    for (end, engine) in world.ends.iter_mut().enumerate() {
        let mut plan = plan_over(end, &["one", "two"], Multipath::Bond);
        plan.peers[0].queue = Some(500);
        engine.as_mut().unwrap().configure(now, &plan.peers).unwrap();
    }
    world.connect();
    assert_eq!(room(&world), 1_568);
    assert_eq!(link(&world, 0).path_name(SECOND), "two");
}

/// Each line carries signs of life, so that one is known to work when the other fails.
#[test]
fn an_idle_end_gives_signs_of_life_on_each_line() {
    let mut world = apart(Multipath::Failover);
    world.connect();
    let before = world.sent;
    world.run(1_000);
    // 150 per second, of 33 bytes.
    let sent = sent_since(&world, before);
    assert!(sent.as_flattened().iter().all(|bytes| (140 * 33..=160 * 33).contains(bytes)), "{sent:?}");
}
