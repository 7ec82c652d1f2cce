//! Small packets per second that a device under test forwards: `packet_rate WIRED@MAC WIRELESS@MAC FLOWS PAYLOAD
//! SECONDS`, where MAC is the address of the device at the other end.
//!
//! Emulates both ends of FLOWS connections, from 10.0.0.1 to 10.1.0.0/16, with raw frames. As many segments are in
//! flight as a short queue holds, and each arrival triggers the next segment, so that nothing is lost and the slowest
//! component determines the rate. Every second segment is acknowledged, a few segments late: each connection always has
//! unacknowledged data, which a cache must hold. Out-of-order segments, as caused by the scheduler moving a program
//! between CPUs, are acknowledged at once (RFC 5681 §4.2). Prints `measuring` after a second, and the results as JSON
//! at the end.
//!
//! Sequence numbers are set in prebuilt packets, and the checksums updated.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use lasthop_proto::packet::{Flags, Options, Segment};
use lasthop_proto::seq::Seq;
use lasthop_sys::packet_socket::PacketSocket;
use lasthop_wire::{Route, amend, build, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

/// Number of segments in flight, of all flows.
const UNDER_WAY: u32 = 512;
/// Number of received segments that acknowledgments do not cover yet.
const LATE: u32 = 4;
/// Number of segments to send before checking for arrivals.
const BURST: usize = 32;
const WARM_UP: Duration = Duration::from_secs(1);
/// Time without progress after which a flow is considered to have lost a segment.
const STUCK: Duration = Duration::from_millis(500);
const ETHERNET: usize = 14;
/// Offsets of source and destination address, sequence number, acknowledgment and flags in a frame.
const SOURCE: usize = ETHERNET + 12;
const DESTINATION: usize = ETHERNET + 16;
const SEQ: usize = ETHERNET + 24;
const ACK: usize = ETHERNET + 28;
const FLAGS: usize = ETHERNET + 33;
/// Header length of a frame with data.
const HEADERS: usize = ETHERNET + 40;

struct Flow {
    syn: [Vec<u8>; 3],
    data: Vec<u8>,
    ack: Vec<u8>,
    /// Number of segments sent.
    sent: u32,
    arrived: u32,
    /// Segments that arrived before a missing one.
    early: BTreeSet<u32>,
    /// Value of `arrived` at the last check for flows without progress.
    arrived_before: u32,
}

impl Flow {
    fn new(number: u16, payload: usize, far: [[u8; 6]; 2]) -> Self {
        let [high, low] = number.to_be_bytes();
        let down = Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 1, high, low], 4000).into() };
        let frame = |route, flags, seq, ack, payload: usize, to: [u8; 6]| {
            let options = if flags == Flags::ACK {
                Options::default()
            } else {
                Options { mss: Some(1460), ..Options::default() }
            };
            let segment = Segment { seq: Seq(seq), ack: Seq(ack), window: 65_535, flags, options };
            let packet = build(route, &segment, &vec![0x55; payload]).expect("a short packet");
            [&to[..], &[2, 0, 0, 0, 1, 0], &[8, 0], &packet].concat()
        };
        let answer = Flags(Flags::SYN.0 | Flags::ACK.0);
        Self {
            syn: [
                frame(down, Flags::SYN, 0, 0, 0, far[0]),
                frame(down.reversed(), answer, 0, 1, 0, far[1]),
                frame(down, Flags::ACK, 1, 1, 0, far[0]),
            ],
            data: frame(down, Flags::ACK, 1, 1, payload, far[0]),
            ack: frame(down.reversed(), Flags::ACK, 1, 1, 0, far[1]),
            sent: 0,
            arrived: 0,
            early: BTreeSet::new(),
            arrived_before: 0,
        }
    }

    /// Records the arrival of the segment at `seq`.
    fn arrive(&mut self, seq: u32, payload: u32) -> Arrived {
        let offset = seq.wrapping_sub(self.arrived.wrapping_mul(payload).wrapping_add(1));
        let ahead = offset / payload;
        if !offset.is_multiple_of(payload)
            || ahead >= UNDER_WAY
            || self.early.contains(&self.arrived.wrapping_add(ahead))
        {
            return Arrived::Again;
        }
        if ahead > 0 {
            self.early.insert(self.arrived.wrapping_add(ahead));
            return Arrived::Early;
        }
        self.arrived = self.arrived.wrapping_add(1);
        while self.early.remove(&self.arrived) {
            self.arrived = self.arrived.wrapping_add(1);
        }
        // The segment was delayed, not lost.
        self.sent = self.sent.max(self.arrived);
        Arrived::Next
    }

    /// Returns an acknowledgment of all but the last `late` segments.
    fn acknowledgment(&mut self, late: u32, payload: u32) -> &[u8] {
        set(&mut self.ack, ACK, self.arrived.saturating_sub(late).wrapping_mul(payload).wrapping_add(1));
        &self.ack
    }
}

/// Classification of a segment by the receiver.
enum Arrived {
    Next,
    Early,
    Again,
}

/// Received frame.
struct Seen {
    flow: usize,
    flags: Flags,
    seq: u32,
    payload: usize,
}

#[derive(Default)]
struct Counts {
    data: u64,
    acks: u64,
    again: u64,
    resent: u64,
}

/// Sets a number in the TCP header, and updates the checksum.
fn set(frame: &mut [u8], at: usize, value: u32) {
    let packet = &mut frame[ETHERNET..];
    let view = parse(packet).expect("it was built");
    let at = at - ETHERNET - view.ip_len;
    amend(packet, &view, |tcp| tcp[at..at + 4].copy_from_slice(&value.to_be_bytes()));
}

fn get(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the flow of a client's address.
fn flow(frame: &[u8], at: usize) -> Option<usize> {
    get(frame, at).filter(|address| address >> 16 == 0x0a01).map(|address| address as usize & 0xffff)
}

/// Parses a device's name and the hardware address at its other end.
fn end(text: &str) -> Option<(&str, [u8; 6])> {
    let (device, mac) = text.split_once('@')?;
    let bytes: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    Some((device, bytes?.try_into().ok()?))
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

struct Ends {
    sockets: [PacketSocket; 2],
    flows: Vec<Flow>,
    payload: u32,
    counts: Counts,
}

impl Ends {
    fn wait(&self, millis: i64) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
        let [wired, wireless] = &self.sockets;
        // The caller checks for frames again even after an interruption.
        let _ = poll(&mut [PollFd::new(wired, PollFlags::IN), PollFd::new(wireless, PollFlags::IN)], Some(&timeout));
    }

    /// Collects all frames that wait at an end.
    fn take(&mut self, end: usize, into: &mut Vec<Seen>) -> std::io::Result<()> {
        let (client, count) = ([SOURCE, DESTINATION][end], self.flows.len());
        into.clear();
        while self.sockets[end].receive(|arrival| {
            let frame = arrival.bytes;
            if let (Some(flow), Some(seq)) = (flow(frame, client).filter(|&flow| flow < count), get(frame, SEQ)) {
                let payload = frame.len().saturating_sub(HEADERS);
                into.push(Seen { flow, flags: Flags(frame.get(FLAGS).copied().unwrap_or(0).into()), seq, payload });
            }
        })? {}
        Ok(())
    }

    /// Opens all connections, a limited number at a time.
    fn open(&mut self) -> Result<(), Box<dyn Error>> {
        let mut waiting: VecDeque<usize> = (0..self.flows.len()).collect();
        let (mut open, mut begun, mut frames) = (0, 0, Vec::new());
        let limit = Instant::now() + Duration::from_secs(10);
        while open < self.flows.len() {
            if Instant::now() > limit {
                return Err(
                    format!("only {open} of {} connections opened: packets do not pass", self.flows.len()).into()
                );
            }
            while begun - open < 64
                && let Some(number) = waiting.pop_front()
            {
                self.sockets[0].send(&self.flows[number].syn[0])?;
                begun += 1;
            }
            self.wait(1);
            self.take(1, &mut frames)?;
            for seen in frames.iter().filter(|seen| seen.flags.has(Flags::SYN)) {
                self.sockets[1].send(&self.flows[seen.flow].syn[1])?;
            }
            self.take(0, &mut frames)?;
            for seen in frames.iter().filter(|seen| seen.flags.has(Flags::SYN)) {
                self.sockets[0].send(&self.flows[seen.flow].syn[2])?;
                open += 1;
            }
        }
        Ok(())
    }

    /// Keeps segments in flight until `end`.
    fn exchange(&mut self, end: Instant) -> std::io::Result<()> {
        let count = self.flows.len();
        let share = (UNDER_WAY / count as u32).max(1);
        let mut under_way = self.under_way();
        let (mut next, mut checked, mut frames) = (0, Instant::now(), Vec::new());
        while Instant::now() < end {
            let (mut looked, mut burst) = (0, 0);
            while under_way < UNDER_WAY && burst < BURST && looked < count {
                let flow = &mut self.flows[next];
                next = (next + 1) % count;
                looked += 1;
                while flow.sent - flow.arrived < share && under_way < UNDER_WAY && burst < BURST {
                    set(&mut flow.data, SEQ, flow.sent.wrapping_mul(self.payload).wrapping_add(1));
                    self.sockets[0].send(&flow.data)?;
                    flow.sent = flow.sent.wrapping_add(1);
                    (under_way, burst, looked) = (under_way + 1, burst + 1, 0);
                }
            }
            if burst == 0 {
                self.wait(1);
            }
            self.take(1, &mut frames)?;
            // Ignore the last acknowledgments of handshakes.
            for &Seen { flow, seq, .. } in frames.iter().filter(|seen| seen.payload > 0) {
                let flow = &mut self.flows[flow];
                let before = flow.arrived;
                let arrived = flow.arrive(seq, self.payload);
                let moved = flow.arrived - before;
                under_way = under_way.saturating_sub(moved);
                match arrived {
                    Arrived::Again => self.counts.again += 1,
                    Arrived::Early | Arrived::Next => self.counts.data += 1,
                }
                if !matches!(arrived, Arrived::Next) || moved > 1 {
                    self.sockets[1].send(flow.acknowledgment(0, self.payload))?;
                } else if flow.arrived.is_multiple_of(2) && flow.arrived > LATE {
                    self.sockets[1].send(flow.acknowledgment(LATE, self.payload))?;
                }
            }
            self.take(0, &mut frames)?;
            self.counts.acks += frames.len() as u64;
            if checked.elapsed() > STUCK {
                checked = Instant::now();
                under_way = self.go_back();
            }
        }
        Ok(())
    }

    /// Makes flows without progress retransmit unacknowledged segments. Returns the number of segments then in flight.
    fn go_back(&mut self) -> u32 {
        for flow in &mut self.flows {
            if flow.sent != flow.arrived && flow.arrived_before == flow.arrived {
                self.counts.resent += u64::from(flow.sent - flow.arrived);
                flow.sent = flow.arrived;
            }
            flow.arrived_before = flow.arrived;
        }
        self.under_way()
    }

    fn under_way(&self) -> u32 {
        self.flows.iter().map(|flow| flow.sent - flow.arrived).sum()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: packet_rate WIRED@MAC WIRELESS@MAC FLOWS PAYLOAD SECONDS";
    let [wired, wireless, flows, payload, seconds] = &arguments[..] else { return Err(usage.into()) };
    let (wired, wireless) = (end(wired).ok_or(usage)?, end(wireless).ok_or(usage)?);
    let (flows, payload): (NonZeroU16, u16) = (flows.parse()?, payload.parse()?);
    let far = [wired.1, wireless.1];
    let mut ends = Ends {
        sockets: [PacketSocket::open(wired.0, 1500)?, PacketSocket::open(wireless.0, 1500)?],
        flows: (0..flows.get()).map(|number| Flow::new(number, usize::from(payload), far)).collect(),
        payload: u32::from(payload),
        counts: Counts::default(),
    };
    ends.open()?;
    ends.exchange(Instant::now() + WARM_UP)?;
    ends.counts = Counts::default();
    println!("measuring");
    let (begun, busy) = (Instant::now(), cpu());
    ends.exchange(begun + Duration::from_secs_f64(seconds.parse()?))?;
    let (seconds, busy) = (begun.elapsed().as_secs_f64(), cpu() - busy);
    let Counts { data, acks, again, resent } = ends.counts;
    println!(
        r#"{{"seconds": {seconds}, "data": {data}, "acks": {acks}, "again": {again}, "resent": {resent}, "busy": {}}}"#,
        busy / seconds
    );
    Ok(())
}
