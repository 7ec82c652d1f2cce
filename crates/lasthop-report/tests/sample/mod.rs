//! A small handmade run and study for tests and the gallery.
#![allow(dead_code, reason = "each test uses its own part")]

use lasthop_proto::event::Event;
use lasthop_proto::packet::{
    Body, Cause, Flags, FlowId, Integrity, LinkHeaders, Options, Packet, Priority, SackBlock, SackBlocks, Segment,
    Side, Timestamps,
};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::trace::{CapturePoint, DropReason, FlowInfo, Record, Trace, What};

pub const SOURCE: u16 = 0;
pub const BASE_WIRED: u16 = 1;
pub const BASE_RADIO: u16 = 2;
pub const MOBILE: u16 = 3;

/// Initial sequence numbers of the bulk flow: the initiator's wraps within the run.
pub const ISS: [u32; 2] = [u32::MAX - 3000, 7000];
pub const MSS: u32 = 1360;

/// Fate of a packet on a link.
#[derive(Clone, Copy)]
pub enum Outcome {
    Arrives,
    Damaged,
    Lost,
    QueueFull,
}

/// Builder of traces of a source, a base station and a mobile host in a row.
pub struct Recorder {
    pub trace: Trace,
}

const HOP: Duration = Duration::from_millis(1);

impl Recorder {
    pub fn new() -> Self {
        let point = |name: &str| CapturePoint { name: name.to_owned() };
        let flow = |name: &str, port: u16, iss| FlowInfo {
            name: name.to_owned(),
            addresses: [[10, 0, 0, 1], [10, 0, 1, 2]],
            ports: [port, 80],
            iss,
        };
        let trace = Trace {
            points: ["source", "base:lan", "base:radio", "mobile"].map(point).to_vec(),
            flows: vec![flow("bulk", 40_000, ISS), flow("probe, udp", 40_001, [0, 0])],
            records: Vec::new(),
        };
        Self { trace }
    }

    /// Returns the finished trace, in order of time.
    pub fn finish(mut self) -> Trace {
        self.trace.records.sort_by_key(|record| record.time);
        self.trace
    }

    pub fn record(&mut self, time: Instant, point: u16, flow: FlowId, what: What) {
        self.trace.records.push(Record { time, point, flow, what });
    }

    pub fn event(&mut self, micros: u64, point: u16, event: Event) {
        self.record(at(micros), point, FlowId(0), What::Event(event));
    }

    /// Sends a packet over one link.
    pub fn link(&mut self, time: Instant, [from, to]: [u16; 2], packet: Packet, outcome: Outcome) {
        self.record(time, from, packet.flow, What::Sent(packet));
        let (time, point, what) = match outcome {
            Outcome::Arrives => (time + HOP, to, What::Received(packet)),
            Outcome::Damaged => {
                (time + HOP, to, What::Received(Packet { integrity: Integrity::PayloadDamaged, ..packet }))
            }
            Outcome::Lost => (time + HOP, from, What::Dropped(packet, DropReason::Channel)),
            Outcome::QueueFull => (time, from, What::Dropped(packet, DropReason::Queue)),
        };
        self.record(time, point, packet.flow, what);
    }

    /// Sends a packet over both links between the source and the mobile host, in either direction.
    pub fn across(&mut self, micros: u64, packet: Packet, radio: Outcome) {
        let time = at(micros);
        match packet.from {
            Side::Initiator => {
                self.link(time, [SOURCE, BASE_WIRED], packet, Outcome::Arrives);
                self.link(time + HOP, [BASE_RADIO, MOBILE], packet, radio);
            }
            Side::Acceptor => {
                self.link(time, [MOBILE, BASE_RADIO], packet, radio);
                if matches!(radio, Outcome::Arrives | Outcome::Damaged) {
                    self.link(time + HOP, [BASE_WIRED, SOURCE], packet, Outcome::Arrives);
                }
            }
        }
    }
}

pub fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

pub fn packet(from: Side, cause: Cause, len: u32, segment: Segment) -> Packet {
    Packet {
        flow: FlowId(0),
        from,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Default::default(),
        cause,
        super_segment: 0,
        header_len: 40 + segment.options.wire_len(),
        len,
        body: Body::Tcp(segment),
        link: LinkHeaders::NONE,
        payload: (),
    }
}

/// Returns data segment `number` (from 0) of the initiator.
pub fn data(number: u32, cause: Cause) -> Packet {
    let segment = Segment {
        seq: Seq(ISS[0]) + 1 + number * MSS,
        ack: Seq(ISS[1]) + 1,
        window: 8192,
        flags: Flags::ACK.with(Flags::PSH),
        ..Segment::default()
    };
    packet(Side::Initiator, cause, MSS, segment)
}

/// Returns an acknowledgment for all segments below `number`.
pub fn ack(number: u32, options: Options) -> Packet {
    let segment =
        Segment { seq: Seq(ISS[1]) + 1, ack: Seq(ISS[0]) + 1 + number * MSS, window: 8192, flags: Flags::ACK, options };
    packet(Side::Acceptor, Cause::Ack, 0, segment)
}

pub fn sack(runs: &[(u32, u32)]) -> Options {
    let mut blocks = SackBlocks::default();
    for (left, right) in runs {
        let edge = |number: u32| Seq(ISS[0]) + 1 + number * MSS;
        blocks.push(SackBlock { left: edge(*left), right: edge(*right) });
    }
    Options { sack: blocks, ..Options::default() }
}

fn smart(number: u32) -> Options {
    Options { smart: Some(Seq(ISS[0]) + 1 + number * MSS), ..Options::default() }
}

fn syn(from: Side) -> Packet {
    let options = Options {
        mss: Some(MSS as u16),
        window_scale: Some(2),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 17, ecr: 0 }),
        ..Options::default()
    };
    let (seq, ack, flags) = match from {
        Side::Initiator => (ISS[0], Seq(0), Flags::SYN),
        Side::Acceptor => (ISS[1], Seq(ISS[0]) + 1, Flags::SYN.with(Flags::ACK)),
    };
    packet(from, Cause::Handshake, 0, Segment { seq: Seq(seq), ack, window: 16_384, flags, options })
}

/// Returns a run with one of every event.
pub fn trace() -> Trace {
    let mut run = Recorder::new();
    run.across(0, syn(Side::Initiator), Outcome::Arrives);
    run.across(2_000, syn(Side::Acceptor), Outcome::Arrives);
    run.event(4_000, SOURCE, Event::Established);
    run.event(4_000, SOURCE, Event::Window { cwnd: 1360, ssthresh: 65_535 });
    run.across(4_000, data(0, Cause::New), Outcome::Arrives);
    run.across(6_000, ack(1, Options::default()), Outcome::Arrives);
    run.event(8_000, SOURCE, Event::Window { cwnd: 2720, ssthresh: 65_535 });

    // Segment 1 is lost on the radio; the base station retransmits it, and it is lost again.
    run.across(8_000, data(1, Cause::New), Outcome::Lost);
    run.across(8_500, data(2, Cause::New), Outcome::Arrives);
    run.across(9_000, data(3, Cause::New), Outcome::Damaged);
    run.across(9_500, data(4, Cause::New), Outcome::QueueFull);
    run.across(10_500, ack(1, sack(&[(2, 3)])), Outcome::Arrives);
    run.event(11_500, BASE_RADIO, Event::DupAckSuppressed { ack: Seq(ISS[0]) + 1 + MSS });
    run.link(at(11_500), [BASE_RADIO, MOBILE], data(1, Cause::LocalDuplicate), Outcome::Lost);

    // Three identical acknowledgments: the second is lost.
    run.across(12_000, ack(1, smart(3)), Outcome::Arrives);
    run.across(12_200, ack(1, smart(3)), Outcome::Lost);
    run.across(12_400, ack(1, smart(3)), Outcome::Arrives);
    run.across(12_600, ack(1, Options { eln: true, ..smart(4) }), Outcome::Arrives);
    run.event(14_600, SOURCE, Event::RecoveryEntered { seq: Seq(ISS[0]) + 1 + MSS });
    run.across(14_600, data(1, Cause::FastRetransmit), Outcome::Arrives);
    run.across(14_700, data(5, Cause::LimitedTransmit), Outcome::Arrives);
    run.across(16_600, ack(4, sack(&[(5, 6)])), Outcome::Arrives);
    run.event(18_600, SOURCE, Event::RecoveryLeft { ack: Seq(ISS[0]) + 1 + 4 * MSS });
    run.event(18_600, SOURCE, Event::Window { cwnd: 2720, ssthresh: 2720 });
    run.event(1_018_600, SOURCE, Event::Timeout { seq: Seq(ISS[0]) + 1 + 4 * MSS });
    run.across(1_018_600, data(4, Cause::Timeout), Outcome::Arrives);
    run.across(1_020_600, ack(6, Options::default()), Outcome::Arrives);

    let datagram = Packet {
        flow: FlowId(1),
        cause: Cause::Datagram,
        header_len: 28,
        len: 200,
        body: Body::Datagram { number: 65_537 },
        ..data(0, Cause::New)
    };
    run.across(1_030_000, datagram, Outcome::Lost);
    run.finish()
}
