//! Prague between two endpoints: ECT(1) on every segment after the handshake (RFC 9331 §4.1), an echo per packet, and
//! from it the number of marked segments. 50 ms each way.

use std::sync::Mutex;

use lasthop_proto::packet::{Ecn, Flags, Packet, Side};
use lasthop_proto::tcp::config::{ControlRule, DelayedAck, EcnEcho, EcnMode, Preset, Switch, TcpConfig};
use lasthop_proto::tcp::congestion::control::{AckSample, CongestionControl, Episode};
use lasthop_proto::tcp::congestion::{Algorithm, ControlRule as Rule};
use lasthop_proto::time::Instant;

use crate::golden_ecn::Path;
use crate::util::ms;

fn prague() -> TcpConfig {
    TcpConfig::preset(Preset::Linux618).with(|c| {
        c.common.mss = 1000;
        c.common.ecn = EcnMode::On;
        c.receiver.ecn_echo = EcnEcho::PerPacket;
        c.sender.modern_mut().unwrap().congestion = ControlRule::PRAGUE;
    })
}

/// SYNs are not ECN-capable; everything else is ECT(1), retransmissions and acknowledgments included.
#[test]
fn everything_is_ect1() {
    let mut path = Path::between([prague(), prague()], |number, _| number != 3 + 4);
    path.run(ms(100));
    path.ends[0].write(40_000);
    path.run(ms(5000));
    assert_eq!(path.ends[0].acked(), 40_000);
    assert!(path.sent.iter().any(|sent| sent.2.cause.is_source_retransmission()));
    for (number, (_, _, packet)) in path.sent.iter().enumerate() {
        let expected = if number < 2 { Ecn::NotEct } else { Ecn::Ect1 };
        assert_eq!(packet.ecn, expected, "{number}");
    }
}

/// A peer that does not support ECN gets packets that are not ECN-capable.
#[test]
fn without_agreement_nothing_is_marked() {
    let peer = prague().with(|c| c.common.ecn = EcnMode::Off);
    let mut path = Path::between([prague(), peer], |_, _| true);
    path.run(ms(100));
    path.ends[0].write(40_000);
    path.run(ms(5000));
    assert_eq!(path.ends[0].acked(), 40_000);
    assert!(path.sent.iter().all(|sent| sent.2.ecn == Ecn::NotEct));
}

/// Marks that a sender was told of.
static MARKED: Mutex<u64> = Mutex::new(0);

/// A window of 40 segments that counts marks.
#[derive(Clone, Debug)]
struct Counter;

impl CongestionControl for Counter {
    fn window(&self) -> u32 {
        40
    }
    fn ssthresh(&self) -> u32 {
        u32::MAX
    }
    fn set_window(&mut self, _: u32) {}
    fn on_ack(&mut self, ack: &AckSample) {
        assert!(ack.marked <= ack.delivered, "{ack:?}");
        assert_eq!(ack.ece, ack.marked > 0);
        *MARKED.lock().unwrap() += u64::from(ack.marked);
    }
    fn on_episode(&mut self, _: Instant, _: Episode) {}
    fn governs_recovery(&self) -> bool {
        true
    }
}

static COUNTER: Algorithm = Algorithm {
    name: "counter",
    title: "Counter",
    about: "",
    family: "counter",
    kernel_name: None,
    paces: false,
    scalable: true,
    hystart: None,
    build: |_, _| Box::new(Counter),
};

/// Packets marked in a pattern: one, pairs, runs.
fn mark(number: usize, packet: &mut Packet) -> bool {
    if packet.len > 0 && [3, 5, 8, 9, 13, 14, 15, 20, 22, 24].contains(&(number % 29)) {
        packet.ecn = Ecn::Ce;
    }
    true
}

/// With delayed acknowledgments and without, the sender learns the exact number of marked segments: from an echo per
/// packet, ECE that CWR does not end, or from the counts of accurate ECN (RFC 9768).
#[test]
fn marks_are_counted() {
    let ways =
        [(DelayedAck::Linux, EcnMode::On), (DelayedAck::Off, EcnMode::On), (DelayedAck::Linux, EcnMode::Accurate)];
    for (delayed_ack, mode) in ways {
        let config = prague().with(|c| {
            c.common.ecn = mode;
            c.receiver.delayed_ack = delayed_ack;
            if delayed_ack == DelayedAck::Off {
                c.receiver.sack_compression = lasthop_proto::tcp::config::SackCompression::Off;
                c.receiver.receive_autotune = lasthop_proto::tcp::config::ReceiveAutotune::Off;
            }
            c.common.timestamps = Switch::On;
            c.sender.modern_mut().unwrap().congestion = Rule::of(&COUNTER);
        });
        *MARKED.lock().unwrap() = 0;
        let mut path = Path::between([config.clone(), config], mark);
        path.run(ms(100));
        path.ends[0].write(300_000);
        path.run(ms(5000));
        assert_eq!(path.ends[0].acked(), 300_000);
        let (mut marked, mut data) = (0, 0);
        for (number, sent) in path.sent.iter().enumerate() {
            let mut packet = sent.2;
            mark(number, &mut packet);
            data += u64::from(packet.len > 0);
            marked += u64::from(packet.len > 0 && packet.ecn == Ecn::Ce);
        }
        // Segments are shorter for the option of accurate ECN.
        assert!((300..=304).contains(&data) && marked > 60, "{data} {marked}");
        assert_eq!(*MARKED.lock().unwrap(), marked, "{delayed_ack:?}, {mode:?}");
        assert!(path.sent.iter().skip(3).all(|sent| sent.2.ecn == Ecn::Ect1), "{mode:?}");
        if mode == EcnMode::Accurate {
            assert_eq!(path.ends[0].info().accurate.delivered_ce, marked as u32);
            continue;
        }
        let echoes = path.of(Side::Acceptor, false).filter(|ack| ack.tcp().unwrap().flags.has(Flags::ECE)).count();
        assert!(echoes > 20, "{echoes}");
    }
}
