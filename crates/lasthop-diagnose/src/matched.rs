//! Comparison of two captures of the same connections, taken at two places on their path: finds the packets that were
//! lost between these places.
//!
//! A packet is identified by its endpoints, sequence number, length and timestamp. A packet that passed the place
//! nearer to the sender but did not reach the other one was lost between them, whether it was retransmitted or not.
//! Delays between the places are measured on the packets themselves; a single capture would require inferring them from
//! acknowledgments. The clocks may differ, but must not drift apart by more than the queue's jitter.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::SocketAddr;

use lasthop_proto::packet::Flags;
use serde::Serialize;

use crate::capture::{Capture, CaptureError};
use crate::loss::{Repair, Seen, Side};
use crate::packets::{Found, Packets};
use crate::path::{Neighbours, Path, Sample};
use crate::sent::Around;
use crate::table::Clock;
use crate::verdict::{Cause, Judge, Marks, Verdict};

/// Maximum number of data packets per capture.
pub const MOST_PACKETS: usize = 4_000_000;
/// Payload of a full packet in bytes if the capture does not show it.
const USUAL: u32 = 1448;

/// Comparison of two captures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Between {
    /// Directions with packets in both captures, the one with more packets first.
    pub flows: Vec<Crossing>,
    /// Data packets beyond the limit, for each capture.
    pub left_out: [u64; 2],
    /// Reason for which each capture ends early, if it does.
    pub damage: [Option<String>; 2],
}

/// One direction of a connection from one place to the other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Crossing {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Number of the capture that was taken nearer to the sender: 1 or 2.
    pub near: u8,
    /// Data packets that passed the place nearer to the sender while both captures were running.
    pub packets: u64,
    /// Packets that reached the other place and are not in the capture nearer to the sender.
    pub unseen: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// Maximum queueing delay between the two places, in milliseconds.
    pub longest_queue_ms: f64,
    /// Rate of the bottleneck between the two places in bits of IP packets per second, if a queue showed it.
    pub bottleneck_bps: Option<f64>,
    /// Packets lost to corruption.
    pub corruption: u64,
    /// Packets lost to congestion.
    pub congestion: u64,
    /// All lost packets.
    pub unknown: u64,
    /// Losses.
    pub losses: Vec<LostBetween>,
}

/// A packet that was lost between the two places.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LostBetween {
    /// Number in the capture nearer to the sender.
    pub packet: u64,
    /// Seconds since the start of that capture.
    pub time_s: f64,
    /// First sequence number.
    pub seq: u32,
    /// Bytes of payload.
    pub bytes: u32,
    /// Number of times that the data had passed the place nearer to the sender.
    pub transmission: u32,
    /// Cause of the loss, and its evidence.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A data packet, as on the wire.
#[derive(Clone, Copy, Debug)]
struct Piece {
    time: i64,
    number: u64,
    seq: u32,
    len: u32,
    stamp: Option<u32>,
    wire: u32,
}

/// One direction in one capture.
#[derive(Clone, Debug, Default)]
struct Way {
    /// Segments, including super-segments.
    segments: Vec<Piece>,
    /// Payload of a full packet in bytes, as the receiver's SYN allows.
    most: Option<u32>,
    marked: bool,
}

type Ways = BTreeMap<(SocketAddr, SocketAddr), Way>;

struct Contents {
    ways: Ways,
    begin: i64,
    left_out: u64,
    damage: Option<String>,
}

/// Matches the packets of two captures.
///
/// # Errors
///
/// Returns an error if one of them is not a capture, or nothing in it can be read, with its index, 0 or 1.
pub fn between(sources: [impl Read; 2]) -> Result<Between, (usize, CaptureError)> {
    let [first, second] = sources;
    let one = contents(first).map_err(|error| (0, error))?;
    let other = contents(second).map_err(|error| (1, error))?;
    let mut flows: Vec<Crossing> = one
        .ways
        .iter()
        .filter_map(|(ends, here)| crossing(*ends, [here, other.ways.get(ends)?], [one.begin, other.begin]))
        .collect();
    flows.sort_by_key(|flow| (std::cmp::Reverse(flow.packets), flow.from, flow.to));
    Ok(Between { flows, left_out: [one.left_out, other.left_out], damage: [one.damage, other.damage] })
}

fn contents(source: impl Read) -> Result<Contents, CaptureError> {
    let mut capture = Capture::open(source)?;
    let (mut clock, mut packets) = (Clock::default(), Packets::default());
    let mut contents = Contents { ways: Ways::new(), begin: 0, left_out: 0, damage: None };
    let (mut begun, mut remembered) = (false, 0);
    loop {
        let (frame, interface) = match capture.next_frame() {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(contents),
            Err(error) if !begun => return Err(error),
            Err(error) => {
                contents.damage = Some(error.to_string());
                return Ok(contents);
            }
        };
        let time = clock.read(frame.time);
        if !std::mem::replace(&mut begun, true) {
            contents.begin = time;
        }
        let mut found = None;
        packets.read(interface, &frame, time, &mut |packet| {
            if let Found::Tcp { head, segment, payload_len, .. } = packet {
                found = Some((head.route, head.ecn, head.total_len, segment, payload_len));
            }
        });
        let Some((route, ecn, wire, segment, len)) = found else { continue };
        let (from, to) = (route.source, route.destination);
        let stamps = segment.options.timestamps;
        if segment.flags.has(Flags::SYN) {
            // Limit of the segments to this end: timestamps take twelve bytes of each.
            let options = if stamps.is_some() { 12 } else { 0 };
            let most = segment.options.mss.map(|mss| u32::from(mss).saturating_sub(options));
            contents.ways.entry((to, from)).or_default().most = most.filter(|most| *most > 0);
            continue;
        }
        if len == 0 {
            continue;
        }
        if remembered == MOST_PACKETS {
            contents.left_out += 1;
            continue;
        }
        remembered += 1;
        let way = contents.ways.entry((from, to)).or_default();
        way.marked |= ecn == lasthop_proto::packet::Ecn::Ce;
        let stamp = stamps.map(|stamps| stamps.val);
        way.segments.push(Piece { time, number: frame.number, seq: segment.seq.0, len, stamp, wire });
    }
}

/// Returns the payload of a full packet in bytes, the smaller one of both captures.
fn packet_size(ways: [&Way; 2]) -> u32 {
    let longest = |way: &Way| way.segments.iter().map(|piece| piece.len).max().unwrap_or(USUAL);
    let seen = ways.map(longest).into_iter().min().unwrap_or(USUAL);
    ways.iter().filter_map(|way| way.most).min().map_or(seen, |most| most.min(seen)).max(1)
}

/// Splits super-segments into the packets on the wire.
fn pieces(way: &Way, size: u32) -> Vec<Piece> {
    let mut all = Vec::with_capacity(way.segments.len());
    for segment in &way.segments {
        let headers = segment.wire.saturating_sub(segment.len);
        for number in 0..segment.len.div_ceil(size) {
            let at = number * size;
            let len = (segment.len - at).min(size);
            all.push(Piece { seq: segment.seq.wrapping_add(at), len, wire: len + headers, ..*segment });
        }
    }
    all
}

/// Returns the arrival time of each of `near` at the other place, and the number of arrivals there that are not in
/// `near`.
fn arrivals(near: &[Piece], far: &[Piece]) -> (Vec<Option<i64>>, u64) {
    let key = |piece: &Piece| (piece.seq, piece.len, piece.stamp);
    let mut sent: HashMap<_, Vec<usize>> = HashMap::with_capacity(near.len());
    for (index, piece) in near.iter().enumerate() {
        sent.entry(key(piece)).or_default().push(index);
    }
    let (mut arrived, mut unseen) = (vec![None; near.len()], 0);
    // If a packet passed several times and arrived fewer times, the last ones arrived; the sender retransmitted the
    // others because they were lost.
    for piece in far.iter().rev() {
        match sent.get_mut(&key(piece)).and_then(Vec::pop) {
            Some(index) => arrived[index] = Some(piece.time),
            None => unseen += 1,
        }
    }
    (arrived, unseen)
}

fn crossing(ends: (SocketAddr, SocketAddr), ways: [&Way; 2], begins: [i64; 2]) -> Option<Crossing> {
    let size = packet_size(ways);
    let [one, other] = ways.map(|way| pieces(way, size));
    let (there, back) = (arrivals(&one, &other), arrivals(&other, &one));
    // Packets are lost on the path, so the place nearer to the sender has more packets that the other one lacks.
    let lost = |arrived: &[Option<i64>]| {
        span(arrived).map_or(0, |span| arrived[span].iter().filter(|it| it.is_none()).count())
    };
    let first_is_near = lost(&there.0) >= lost(&back.0);
    let (near, pieces, (arrived, unseen)) = if first_is_near { (0, one, there) } else { (1, other, back) };
    let span = span(&arrived)?;
    let marks = if ways.iter().any(|way| way.marked) { Marks::Seen } else { Marks::None };
    Some(follow(ends, near, &pieces[span.clone()], &arrived[span], unseen, begins[near], marks))
}

/// Returns the range from the first to the last packet that both captures have, during which both were running.
fn span(arrived: &[Option<i64>]) -> Option<std::ops::Range<usize>> {
    let first = arrived.iter().position(Option::is_some)?;
    let last = arrived.iter().rposition(Option::is_some)?;
    Some(first..last + 1)
}

/// Processes the packets in the order in which they passed the place nearer to the sender.
fn follow(
    (from, to): (SocketAddr, SocketAddr),
    near: usize,
    pieces: &[Piece],
    arrived: &[Option<i64>],
    unseen: u64,
    begin: i64,
    marks: Marks,
) -> Crossing {
    let mut path = Path::default();
    let (mut volume, mut missing, mut reordered) = (0_u64, 0_u64, 0);
    let (mut lost, mut open) = (Vec::<Seen>::new(), 0);
    let mut passed: HashMap<u32, u32> = HashMap::new();
    for (index, (piece, arrival)) in pieces.iter().zip(arrived).enumerate() {
        volume += u64::from(piece.wire);
        let times = passed.entry(piece.seq).or_default();
        *times += 1;
        let Some(arrival) = *arrival else {
            missing += u64::from(piece.wire);
            lost.push(Seen {
                number: piece.number,
                repaired_by: 0,
                time: piece.time,
                seq: piece.seq,
                len: piece.len,
                wire: piece.wire,
                volume,
                passed: *times,
                repair: Repair::Fast,
                side: Side::Beyond,
                around: Around { before: path.last(), ..Around::default() },
                packet_len: piece.len,
                sent_before: None,
            });
            continue;
        };
        let sample = Sample { sent: piece.time, arrived: arrival, volume, end: index as u64 };
        if path.last().is_some_and(|last| arrival < last.arrived) {
            // It overtook another packet, so its delay is not due to a queue.
            reordered += 1;
            continue;
        }
        let row = lost[open..].first().zip(lost.last()).map_or(0, |(first, last)| last.time.saturating_sub(first.time));
        for loss in &mut lost[open..] {
            loss.around = Around { after: Some(sample), missing, row, ..loss.around };
        }
        let neighbours = if missing == 0 { Neighbours::Arrived } else { Neighbours::Missing };
        (open, missing) = (lost.len(), 0);
        path.take(sample, neighbours);
    }
    let mut judge = Judge::new(&path, marks);
    judge.learn(lost.iter());
    let millis = |nanos: i64| (nanos as f64 / 1e3).round() / 1e3;
    let losses: Vec<LostBetween> = lost
        .iter()
        .map(|loss| LostBetween {
            packet: loss.number,
            time_s: (loss.time.saturating_sub(begin) as f64 / 1e3).round() / 1e6,
            seq: loss.seq,
            bytes: loss.len,
            transmission: loss.passed,
            verdict: judge.judge(loss),
        })
        .collect();
    let count = |cause: Cause| losses.iter().filter(|loss| loss.verdict.cause == cause).count() as u64;
    Crossing {
        from,
        to,
        near: near as u8 + 1,
        packets: pieces.len() as u64,
        unseen,
        reordered,
        longest_queue_ms: millis(path.full()),
        bottleneck_bps: path.rate().map(f64::round),
        corruption: count(Cause::Corruption),
        congestion: count(Cause::Congestion),
        unknown: count(Cause::Unknown),
        losses,
    }
}
