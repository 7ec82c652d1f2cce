//! Tests of the auto-tuned window.

use std::vec::Vec;

use super::*;

fn tuned() -> TcpConfig {
    let timestamps = Switch::On;
    let receive_autotune = ReceiveAutotune::Linux;
    config().with(|c| {
        c.receiver.receive_autotune = receive_autotune;
        c.common.timestamps = timestamps;
        c.receiver.receive_buffer = 32 << 20;
        c.receiver.window_scale = Some(10);
    })
}

/// 128 KiB of memory, half of it data, in whole segments of 1460 bytes: the 64,240 in a Linux SYN, and 63 of the units
/// in which windows count afterwards. Each good segment opens it by two, of 1448 bytes without their timestamps. The
/// memory of a packet is 2304, so that 160 of 256 is data: 80 KiB at most before the first read after a round trip,
/// minus the segment that has just arrived.
#[test]
fn the_window_starts_small_and_grows_with_each_segment() {
    assert_eq!(Bench::unopened(tuned()).receiver.syn_window(), 64_240);
    let mut bench = Bench::new(tuned());
    assert_eq!(bench.receiver.window(), 64_512);
    bench.age = Duration::from_millis(500);
    let mut windows = Vec::new();
    for number in 1..=12 {
        bench.segment(u64::from(number) * 10, number);
        windows.push(bench.receiver.window());
    }
    // Multiples of the window field's unit.
    let unit = |bytes: u32| bytes.next_multiple_of(1024);
    let expected: Vec<_> = (1..=12).map(|n| unit((64_512 + n * 2896).min((131_072 - 2304) / 256 * 160))).collect();
    assert_eq!(windows, expected);
    // The answering end, as in a kernel, in KiB.
    let mut bench = Bench::answering(tuned());
    let windows = (1..=7).map(|number| {
        bench.segment(u64::from(number) * 10, number);
        bench.receiver.window() / 1024
    });
    assert_eq!(windows.collect::<Vec<_>>(), [67, 70, 73, 75, 78, 79, 79]);
}

/// The first segment is lost. The end that answers a SYN offers 45 whole segments of 1448 bytes, the rest after their
/// timestamps (65,160). The first segment out of order reveals the memory overhead, like an in-order one (6.17 and
/// later): 80 KiB, minus 1440 for each one queued. Four open the window, and each of them is acknowledged at once; the
/// three duplicates follow at once, and the next one is compressed. A kernel does exactly that.
#[test]
fn segments_out_of_order_open_the_window_too() {
    let mut bench = Bench::answering(tuned());
    let mut windows = Vec::new();
    for number in 2..=10 {
        bench.segment(u64::from(number) * 200, number);
        windows.push(bench.receiver.window());
    }
    let grown = [65_160 + 2896, 65_160 + 2 * 2896, 65_160 + 3 * 2896, (131_072 - 4 * 2304) / 256 * 160];
    let grown = grown.map(|bytes: u32| bytes.next_multiple_of(1024));
    assert_eq!(windows, [&grown[..], &[grown[3]; 5]].concat());
    let at_once: Vec<_> = bench.acks.iter().map(|(time, _, blocks)| (*time, blocks[0].1)).collect();
    assert_eq!(at_once, (2..=8).map(|number| (u64::from(number) * 200, number)).collect::<Vec<_>>());
}

/// An in-order segment is in the buffer when the window grows by it: 79 KiB at most of 80. An out-of-order one is not
/// yet: 80 KiB, which the next acknowledgment after the read shows. A copy of queued data opens nothing.
#[test]
fn a_segment_out_of_order_opens_the_window_before_it_takes_room() {
    let mut bench = Bench::answering(tuned());
    bench.age = Duration::from_millis(500);
    (1..=20).for_each(|number| bench.segment(u64::from(number) * 10, number));
    assert_eq!(bench.receiver.window(), 79 * 1024);
    [22, 21, 23].into_iter().zip(30..).for_each(|(number, time)| bench.segment(time * 10, number));
    bench.until(1_000_000);
    assert_eq!(bench.receiver.window(), 80 * 1024);
    let mut bench = Bench::answering(tuned());
    [2, 2, 2].into_iter().zip(1..).for_each(|(number, time)| bench.segment(time * 10, number));
    assert_eq!(bench.receiver.window(), 67 * 1024);
}

/// At most 512 runs of out-of-order data are kept. A run that is not kept is not reported either, so that it is
/// retransmitted.
#[test]
fn only_what_is_kept_is_reported() {
    let mut bench = Bench::new(tuned());
    let mut number = 0;
    for round in 0..10 {
        let burst = 10 << round;
        for n in 0..burst {
            number += 1;
            bench.segment(100_000 + round * 40_000 + n * 30_000 / burst, number);
        }
    }
    assert!(bench.receiver.window() > 1200 * MSS);
    bench.acks.clear();
    let runs: Vec<u32> = (1..=600).map(|run| number + 2 * run).collect();
    runs.iter().zip(0..).for_each(|(&run, n)| bench.segment(1_000_000 + n * 100_000, run));
    let reported: std::collections::BTreeSet<u32> =
        bench.acks.iter().flat_map(|(_, _, blocks)| blocks.iter().map(|&(left, _)| left)).collect();
    assert_eq!(reported.into_iter().collect::<Vec<_>>(), runs[..512]);
}

/// In each round trip of 40 ms the application takes twice as much as in the previous one: the window stays ahead of
/// it. It never exceeds the capacity of 32 MiB.
#[test]
fn the_buffer_follows_the_application() {
    let mut bench = Bench::new(tuned());
    let (mut number, mut burst) = (0, 10);
    for round in 0..12 {
        let window = bench.receiver.window();
        assert!(window >= (burst * MSS).min(16 << 20), "round {round}: {window} bytes for {burst} segments");
        for n in 0..burst {
            number += 1;
            bench.segment(100_000 + round * 40_000 + u64::from(n) * 30_000 / u64::from(burst), number);
        }
        burst = (burst * 2).min(8000);
    }
    assert!(bench.receiver.window() <= (32 << 20) / 256 * 160 + 1024);
    assert!(bench.receiver.window() > 1 << 20);
}

/// A hole is filled and the application reads 30 segments at once. `tcp_rcv_space_adjust` checks after each packet that
/// it copies: after the first of them a round trip has passed, but only one packet was taken, and 29 are queued. The
/// window is unchanged until the next round trip shows more.
#[test]
fn a_hole_that_is_filled_does_not_raise_the_buffer_by_itself() {
    let mut bench = Bench::new(tuned());
    for number in 1..=3 {
        bench.segment(100_000 + u64::from(number) * 1000, number);
    }
    for number in 5..=34 {
        bench.segment(150_000 + u64::from(number) * 1000, number);
    }
    bench.segment(200_000, 4);
    let before = bench.receiver.linux.kept().unwrap().tuning().unwrap().clamp();
    assert_eq!(before, 81_920, "128 KiB still");
    for number in 35..=64 {
        bench.segment(200_000 + u64::from(number) * 1000, number);
    }
    let after = bench.receiver.linux.kept().unwrap().tuning().unwrap().clamp();
    assert!(after > 2 * before, "{after} bytes once a round trip has brought 30 segments");
}

/// Queued data takes memory, 2304 bytes per segment, of which a window counts 1440. Once it takes more than half the
/// buffer, the rest is rounded down to the window field's unit, not up.
#[test]
fn a_buffer_more_than_half_full_rounds_down() {
    let mut bench = Bench::new(tuned());
    bench.segment(10, 1);
    bench.reads = Switch::Off;
    for (number, offer) in [(2..=21, 52 * 1024), (22..=41, 23 * 1024)] {
        number.for_each(|number| bench.segment(u64::from(number) * 10, number));
        let linux = bench.receiver.linux.kept().unwrap();
        assert_eq!(bench.receiver.offer_beside(linux).0, offer);
    }
}

/// A filled hole is acknowledged before the application has read any of it: 22 segments of 2304 bytes are queued, and
/// just over 49 KiB of 80 are left. The read then opens the window for the next acknowledgment.
#[test]
fn a_filled_hole_is_acknowledged_before_the_read() {
    let mut bench = Bench::answering(tuned());
    bench.age = Duration::from_millis(500);
    (1..=20).for_each(|number| bench.segment(u64::from(number) * 10, number));
    (22..=42).for_each(|number| bench.segment(u64::from(number) * 10, number));
    bench.receiver.on_arrival(at(10_000), &bench.arrival(first(21), MSS, 21));
    bench.receiver.on_read(bench.receiver.unread());
    assert!(bench.receiver.ack_due());
    assert_eq!(bench.receiver.take_window(), 50);
    assert_eq!((bench.receiver.unread(), bench.receiver.window()), (0, 80 * 1024));
}

/// Unread data closes the window, and reading opens it with a separate acknowledgment.
#[test]
fn unread_data_shuts_the_window() {
    let mut bench = Bench::new(tuned());
    bench.reads = Switch::Off;
    let mut number = 0;
    while bench.receiver.window() > MSS {
        number += 1;
        assert!(number < 200);
        bench.segment(u64::from(number) * 10, number);
    }
    bench.until(1_000_000);
    bench.acks.clear();
    bench.receiver.on_read(bench.receiver.unread());
    bench.pump(at(1_000_000));
    assert_eq!(bench.acks.len(), 1);
    assert!(bench.receiver.window() > 64_000);
}
