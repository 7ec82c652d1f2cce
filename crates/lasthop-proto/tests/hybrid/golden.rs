//! Sequences derived from the rules in `docs/models/two-ended-link.md`. A full-size frame takes 1 ms, the hop 30 ms in
//! each direction.

use lasthop_proto::link::hybrid::{Header, Repair};
use lasthop_proto::packet::{Cause, Packet};
use lasthop_proto::time::{Duration, Instant};

use super::link::*;

/// Returns a channel that loses the data frames of end 0 with these packet numbers.
fn losing(lost: &[u32]) -> impl FnMut(Instant, usize, &Packet) -> Vec<Duration> {
    move |_, end, packet| match Header::of(packet) {
        Some(Header::Symbol { packet, .. }) if end == 0 && lost.contains(&packet) => vec![],
        _ => vec![millis(30)],
    }
}

/// Three later transmissions are acknowledged at 65 ms, by the feedback of 35 ms. Order is restored at 95 ms.
#[test]
fn one_loss() {
    let lost = [2];
    let mut link = Link::new(config(Repair::Repeat), losing(&lost));
    (0..6).for_each(|number| link.offer(0, segment(0, number)));
    link.run_until(ms(1_000));
    assert_eq!(
        link.lines(0),
        [
            "0 #0 symbol 0 chain 0",
            "1 #1 symbol 1 chain 1",
            "2 #2 symbol 2 chain 1 lost",
            "3 #3 symbol 3 chain 1",
            "4 #4 symbol 4 chain 1",
            "5 #5 symbol 5 chain 1",
            "65 #6 symbol 2 chain 1 again",
        ]
    );
    assert_eq!(
        link.lines(1),
        [
            "31 #0 feedback 1 floor 2",
            "33 #1 feedback 3 floor 2",
            "35 #2 feedback 5 floor 2",
            "100 #3 feedback 6 floor 6",
        ]
    );
    let taken: Vec<_> = link.taken[1].iter().map(|(at, packet)| (at.as_nanos() / 1_000_000, number(packet))).collect();
    assert_eq!(taken, [(30, 0), (31, 1), (95, 2), (95, 3), (95, 4), (95, 5)]);
}

/// No packet follows the last one. After a silence of 60 ms, four times the variation of 16.875 ms, and 5 ms, the hop
/// is probed.
#[test]
fn the_tail_is_probed() {
    let lost = [5];
    let mut link = Link::new(config(Repair::Repeat), losing(&lost));
    (0..6).for_each(|number| link.offer(0, segment(0, number)));
    link.run_until(ms(1_000));
    assert_eq!(link.lines(0)[5..], ["5 #5 symbol 5 chain 1 lost", "201.5 #6 symbol 5 chain 1 probe"]);
    assert_eq!(link.numbers(1, 0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(link.ends[0].poll_quiet(), None);
}

/// Feedback on acknowledgments takes capacity from the data that they acknowledge. It is sent after 20 ms, for 16
/// together, or immediately after a gap.
#[test]
fn acknowledgments_are_spoken_of_seldom() {
    let lost = [8];
    let mut link = Link::new(config(Repair::Repeat), losing(&lost));
    for number in 0..10 {
        link.offer(0, acknowledgment(number));
        let next = link.now + millis(4);
        link.run_until(next);
    }
    link.run_until(ms(1_000));
    let feedback: Vec<_> =
        link.lines(1).into_iter().map(|line| line.split(" floor").next().unwrap().to_owned()).collect();
    assert_eq!(feedback, ["50 #0 feedback 5", "66 #1 feedback 9", "149.5 #2 feedback 10"]);
}

/// With a code, the probe is the sum of all unacknowledged packets: it restores whichever is missing.
#[test]
fn a_coded_probe() {
    let lost = [4];
    let mut link = Link::new(config(Repair::Adaptive), |at, end, packet| {
        // Feedback on the last two is lost as well.
        if end == 1 && at > ms(34) && at < ms(100) { vec![] } else { losing(&lost)(at, end, packet) }
    });
    (0..6).for_each(|number| link.offer(0, segment(0, number)));
    link.run_until(ms(1_000));
    let probe = link.lines(0).into_iter().find(|line| line.contains("probe")).unwrap();
    assert!(probe.ends_with("#6 repair 4+2 key 0 probe"), "{probe}");
    assert_eq!(link.numbers(1, 0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(link.ends[1].hop().counters().restored, 1);
}

/// A lost retransmission is detected like a first loss, one round trip later; then two are sent, spaced, and then twice
/// three.
#[test]
fn rounds_escalate() {
    let mut times = vec![];
    let mut link = Link::new(config(Repair::Repeat), |at, end, packet| match Header::of(packet) {
        Some(Header::Symbol { symbol: 2, .. }) if end == 0 => {
            times.push(at.as_nanos() / 1_000_000);
            vec![]
        }
        _ => vec![millis(30)],
    });
    for number in 0..400 {
        link.offer(0, segment(0, number));
        let next = link.now + Duration::from_micros(1_100);
        link.run_until(next);
    }
    link.run_until(ms(2_000));
    assert_eq!(link.ends[0].hop().counters().given_up, 1);
    // All others arrived, in order.
    let expected: Vec<u32> = (0..400).filter(|number| *number != 2).collect();
    assert_eq!(link.numbers(1, 0), expected);
    drop(link);
    assert_eq!(times[..2], [2, 65]);
    assert!((125..140).contains(&times[2]) && times[3] - times[2] >= 2, "{times:?}");
    assert!((times[3] + 60..times[3] + 75).contains(&times[4]), "{times:?}");
    assert_eq!(times.len(), 1 + 1 + 2 + 3 + 3, "{times:?}");
}

/// Flows do not wait for another flow's hole, and datagrams for none.
#[test]
fn flows_do_not_wait_for_each_other() {
    let lost = [0];
    let mut link = Link::new(config(Repair::Repeat), losing(&lost));
    for number in 0..4 {
        link.offer(0, segment(1, number));
        link.offer(0, segment(2, number));
        link.offer(0, datagram(3, number));
    }
    link.run_until(ms(60));
    assert_eq!(link.numbers(1, 1), []);
    assert_eq!(link.numbers(1, 2), [0, 1, 2, 3]);
    assert_eq!(link.numbers(1, 3), [0, 1, 2, 3]);
    link.run_until(ms(1_000));
    assert_eq!(link.numbers(1, 1), [0, 1, 2, 3]);
}

/// An outage of 300 ms: given-up packets are announced, and sending ends.
#[test]
fn an_outage_passes() {
    for outage in [300, 3_000] {
        let mut link = Link::new(config(Repair::Adaptive), |at, _, _| {
            if (ms(100)..ms(100 + outage)).contains(&at) { vec![] } else { vec![millis(30)] }
        });
        for number in 0..40 {
            link.offer(0, segment(0, number));
            link.offer(0, datagram(1, number));
            let next = link.now + millis(10);
            link.run_until(next);
        }
        link.run_until(ms(10_000));
        for number in 40..80 {
            link.offer(0, segment(0, number));
            link.offer(0, datagram(1, number));
        }
        link.run_until(ms(60_000));
        for flow in 0..2 {
            let numbers = link.numbers(1, flow);
            // Calls are not held: repaired packets arrive later.
            let ordered = flow == 1 || numbers.is_sorted_by(|one, next| one < next);
            assert!(ordered && numbers.ends_with(&[77, 78, 79]), "{numbers:?}");
        }
        // Some arrived whose acknowledgment was not received in time.
        assert!(link.numbers(1, 0).len() + link.numbers(1, 1).len() + lost_of(&link) >= 160);
        assert_eq!(link.ends.each_ref().map(|end| end.poll_quiet()), [None, None]);
    }
}

fn lost_of(link: &Link<'_>) -> usize {
    link.ends[0].hop().counters().given_up as usize
}

/// A share of 3 in 20: three lost packets are restored, without feedback, and four are not.
#[test]
fn a_fixed_share() {
    for (lost, restored) in [(&[3, 9, 17][..], 3), (&[3, 9, 11, 17][..], 0)] {
        let mut link = Link::new(config(SHARE), losing(lost));
        (0..20).for_each(|number| link.offer(0, segment(0, number)));
        link.run_until(ms(1_000));
        let lines = link.lines(0);
        assert_eq!(lines.len(), 23);
        assert!(lines[20].contains("repair 0+20 key 0 ahead"), "{lines:?}");
        assert_eq!(link.sent[1].len(), 0);
        assert_eq!(link.taken[1].len(), 20 - lost.len() + restored);
        assert_eq!(link.ends[1].hop().counters().restored, restored as u64);
    }
}

/// A partial block is closed 8 ms after its last packet, with a proportional number of frames: 2 for 7.
#[test]
fn a_block_does_not_wait() {
    let mut link = Link::new(config(SHARE), losing(&[]));
    (0..7).for_each(|number| link.offer(0, datagram(0, number)));
    link.run_until(ms(1_000));
    assert_eq!(link.lines(0)[7..], ["9.032 #7 repair 0+7 key 0 ahead", "9.205334 #8 repair 0+7 key 1 ahead"]);
}

/// At 10 % loss, where a retransmission would be too late for a call, its packets are sent three times.
#[test]
fn calls_are_sent_ahead() {
    let mut frame = 0;
    let mut link = Link::new(config(Repair::Adaptive), |_, end, packet| {
        frame += 1;
        let data = matches!(Header::of(packet), Some(Header::Symbol { .. } | Header::Repair { .. }));
        if end == 0 && data && frame % 10 == 0 { vec![] } else { vec![millis(30)] }
    });
    for number in 0..2_000 {
        link.offer(0, segment(0, number));
        if number % 10 == 0 {
            link.offer(0, datagram(1, number));
        }
        let next = link.now + millis(2);
        link.run_until(next);
    }
    link.run_until(ms(10_000));
    let ahead = |packet: &Packet| {
        packet.cause == Cause::LinkRepair && matches!(Header::of(packet), Some(Header::Symbol { .. }))
    };
    let copies = link.sent[0].iter().filter(|(_, packet, _)| ahead(packet)).count();
    assert!(copies >= 300, "{copies}");
    assert_eq!((link.numbers(1, 0).len(), link.numbers(1, 1).len()), (2_000, 200));
}

trait Quiet {
    fn poll_quiet(&self) -> Option<Instant>;
}

impl Quiet for lasthop_proto::link::hybrid::node::TwoEnded {
    /// Returns its next deadline.
    fn poll_quiet(&self) -> Option<Instant> {
        lasthop_proto::node::Node::poll_deadline(self)
    }
}
