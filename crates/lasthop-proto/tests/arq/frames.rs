//! Frame format, stray frames, and extreme sizes.

use lasthop_proto::link::arq::{Arq, ArqConfig, Header, MAX_WINDOW, Protocol, Timer};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Cause, FlowId, Integrity, Packet, Priority};
use lasthop_proto::time::{Duration, Instant};

use super::golden::{GBN, SR};
use super::link::*;

/// A frame is the packet with the header in front, and the packet is delivered unchanged.
#[test]
fn frames_carry_packets_unchanged() {
    let mut ends = [Arq::new(config(SR)), Arq::new(config(SR))];
    let tcp = Packet { body: Body::Tcp(Default::default()), cause: Cause::New, ..packet(0) };
    for (number, sent) in [packet(5), tcp].into_iter().enumerate() {
        let frame = Packet { header_len: HEADER + 4, link: Header::Data(number as u16).into(), ..sent };
        assert_eq!(feed(&mut ends[0], ms(0), Port::WIRED, sent), [(Port::WIRELESS, frame)]);
        let ack = Packet {
            flow: FlowId::NONE,
            priority: Priority::Urgent,
            cause: Cause::LinkControl,
            header_len: 4,
            body: Body::Control,
            link: Header::Ack(number as u16 + 1).into(),
            ..Packet::default()
        };
        let expected = [(Port::WIRED, sent), (Port::WIRELESS, ack)];
        assert_eq!(feed(&mut ends[1], ms(0), Port::WIRELESS, frame), expected);
    }
    // A retransmission's priority ends with the hop; its cause records the retransmission.
    let frame = feed(&mut ends[0], ms(10), Port::WIRED, packet(6))[0].1;
    let nack = Packet { link: Header::Nack(2).into(), body: Body::Control, ..Packet::default() };
    let again = Packet { priority: Priority::Urgent, cause: Cause::LinkNack, ..frame };
    assert_eq!(feed(&mut ends[0], ms(20), Port::WIRELESS, nack), [(Port::WIRELESS, again)]);
    let out = feed(&mut ends[1], ms(30), Port::WIRELESS, again)[0];
    assert_eq!(out, (Port::WIRED, Packet { cause: Cause::LinkNack, ..packet(6) }));
}

/// New frames keep their order on the hop, however urgent a packet was before.
#[test]
fn new_frames_are_not_urgent() {
    let mut end = Arq::new(config(SR));
    let urgent = Packet { priority: Priority::Urgent, ..packet(0) };
    assert_eq!(feed(&mut end, ms(0), Port::WIRED, urgent)[0].1.priority, Priority::Normal);
}

#[test]
fn damaged_frames_count_as_lost() {
    let mut ends = [Arq::new(config(SR)), Arq::new(config(SR))];
    let frame = feed(&mut ends[0], ms(0), Port::WIRED, packet(0))[0].1;
    let damaged = |packet| Packet { integrity: Integrity::PayloadDamaged, ..packet };
    assert_eq!(feed(&mut ends[1], ms(0), Port::WIRELESS, damaged(frame)), []);
    // Corruption before the hop is ignored by the protocol, as are packets without its header.
    assert_eq!(feed(&mut ends[0], ms(0), Port::WIRED, damaged(packet(1))), [(Port::WIRELESS, damaged(packet(1)))]);
    for other in [damaged(packet(1)), packet(2)] {
        assert_eq!(feed(&mut ends[1], ms(0), Port::WIRELESS, other), [(Port::WIRED, other)]);
    }
    assert_eq!(feed(&mut ends[1], ms(0), Port::WIRELESS, frame).len(), 2);
}

/// A NACK for a frame that is acknowledged or was never sent is not answered.
#[test]
fn stray_control_frames_do_nothing() {
    for protocol in [SR, GBN, Protocol::StopAndWait] {
        let mut end = Arq::new(config(protocol));
        let control = |header: Header| Packet { link: header.into(), body: Body::Control, ..Packet::default() };
        feed(&mut end, ms(0), Port::WIRED, packet(0));
        feed(&mut end, ms(1), Port::WIRELESS, control(Header::Ack(1)));
        feed(&mut end, ms(2), Port::WIRED, packet(1));
        for header in [0, 2, 3, 9, 32769, 65535].map(Header::Nack) {
            assert_eq!(feed(&mut end, ms(3), Port::WIRELESS, control(header)), [], "{header:?}");
        }
        for header in [0, 1, 3, 9, 32769, 65535].map(Header::Ack) {
            assert_eq!(feed(&mut end, ms(3), Port::WIRELESS, control(header)), [], "{header:?}");
            assert_eq!(end.unacknowledged(), 1);
        }
        assert_eq!(feed(&mut end, ms(4), Port::WIRELESS, control(Header::Nack(1))).len(), 1);
        // Beyond the receiver's window.
        for number in [8, 9, 20_000, 32_767] {
            assert_eq!(
                feed(&mut end, ms(5), Port::WIRELESS, Packet { link: Header::Data(number).into(), ..packet(9) }),
                []
            );
        }
        assert_eq!(feed(&mut end, ms(5), Port::WIRELESS, control(Header::Skip(9))), []);
    }
}

/// Timers of zero or unlimited length do not make an end spin.
#[test]
fn extreme_timers() {
    for protocol in [SR, GBN, Protocol::StopAndWait] {
        for span in [Duration::ZERO, Duration::MAX] {
            for timer in [Timer::Fixed(span), Timer::Estimated { min: span }] {
                let mut end = Arq::new(ArqConfig { timer, nack_again: Some(span), ..config(protocol) });
                let late = Packet { link: Header::Data(5).into(), ..packet(5) };
                for at in [Instant::ZERO, ms(1), Instant::from_nanos(u64::MAX - 1), Instant::FAR_FUTURE] {
                    wake(&mut end, at);
                    feed(&mut end, at, Port::WIRED, packet(0));
                    feed(&mut end, at, Port::WIRELESS, late);
                }
            }
        }
    }
}

/// 2^15 frames may be in flight, not more, and every other frame of a full window can be repaired.
#[test]
fn the_largest_window() {
    for protocol in [SR, GBN] {
        let config = ArqConfig { window: u16::MAX, queue: 10, ..config(protocol) };
        let mut odd = false;
        let mut link = Link::new(config, |_, packet| {
            let data = matches!(Header::of(packet), Some(Header::Data(_)));
            odd ^= data;
            let lost = data && odd && !packet.cause.is_local_retransmission();
            if lost { vec![] } else { vec![millis(50)] }
        });
        (0..70_000).for_each(|number| link.offer(0, packet(number)));
        assert_eq!((link.ends[0].unacknowledged(), link.ends[0].waiting()), (usize::from(MAX_WINDOW), 10));
        link.run_until(ms(10_000));
        assert!(link.is_idle());
        assert_eq!(link.numbers(1), link.accepted[0]);
    }
}
