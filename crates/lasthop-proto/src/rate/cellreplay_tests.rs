//! Departures that CellReplay's own code wrote.

extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;

/// Cases of CellReplay 2ca662c, `src/frontend/cellular_queue.cc`, compiled with a virtual clock, for random traces and
/// packets. A line has the heavy trace, the light trace with commas between its lines, the gap, the packets as
/// `time:bytes`, and their departures; times in milliseconds, bytes as the original counts them, with 4 of packet
/// information.
const CASES: &str = include_str!("cellreplay_cases.txt");

fn numbers(text: &str) -> Vec<u32> {
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

#[test]
fn packets_leave_at_the_times_of_the_original() {
    for (number, case) in (1..).zip(CASES.lines()) {
        let [heavy, light, gap, packets, departures] = case.split('|').collect::<Vec<_>>()[..] else {
            panic!("line {number}")
        };
        let light = read_light(light.replace(',', "\n").as_bytes()).unwrap();
        let (heavy, gap) = (Arc::new(numbers(heavy)), millis(gap.parse().unwrap()));
        let trace = CellReplay::new(heavy, Arc::new(light), gap, Wrap::Repeat).unwrap();
        // Both traces start with the first packet.
        for start in [0, 12_345] {
            let mut process = Process::new(&trace);
            let left = packets.split(' ').map(|packet| {
                let (at, bytes) = packet.split_once(':').unwrap();
                let now = Instant::ZERO + millis(start + at.parse::<u32>().unwrap());
                process.send(now, bytes.parse::<u32>().unwrap() - OPPORTUNITY_EXTRA).end
            });
            let expected = numbers(departures).into_iter().map(|at| Instant::ZERO + millis(start + at));
            assert!(left.eq(expected), "line {number}");
        }
    }
}

/// The third packet of a train of two opportunities takes a heavy one.
#[test]
fn a_train_beyond_the_light_trace_is_heavy() {
    let light = Arc::new(read_light(b"0 10 0 5\n100 10 0 5\n200 10 0 5\n").unwrap());
    let trace = CellReplay::new(Arc::new(vec![40, 80]), light, Duration::ZERO, Wrap::Repeat).unwrap();
    let mut process = Process::new(&trace);
    let left: Vec<_> = (0..4).map(|_| process.send(Instant::ZERO, 1396)).collect();
    let ends: Vec<_> = left.iter().map(|sent| sent.end.as_nanos() / MILLISECOND).collect();
    assert_eq!(ends, [10, 15, 40, 80]);
    assert!(left.iter().all(|sent| sent.free == Instant::ZERO), "packets wait within");
}

#[test]
fn light_traces_are_read() {
    let read = |text: &str| read_light(text.as_bytes());
    let lines = read("0 25 0 3 7\n50 30\r\n100 28 0\n").unwrap();
    assert_eq!(lines[0], LightLine { at: 0, delay: 25, opportunities: vec![0, 3, 7] });
    assert_eq!((lines.len(), lines[1].opportunities.len()), (3, 0));
    for (text, error) in [
        ("", BadLight::Line(1)),
        ("0 1\n2\n3 1\n", BadLight::Line(2)),
        ("0 1\n2 x\n3 1\n", BadLight::Line(2)),
        ("0 1\n2 3600001\n3 1\n", BadLight::Delay(2)),
        ("5 1 0\n2 1 0\n6 1\n", BadLight::Back(2)),
        ("0 1 0\n2 1 0\n", BadLight::Short),
        ("0 1\n0 1\n0 1\n", BadLight::Short),
    ] {
        assert_eq!(read(text), Err(error), "{text:?}");
    }
}
