//! Detection of a half-duplex medium shared by both directions, from simultaneous trains.

use super::capacity::spacing_of;
use super::{Capacity, Log, Packet, Purpose, median};

/// Half-duplex medium: one end sends at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HalfDuplex {
    /// Rates in bits per second while a frame is on the air: down, up.
    pub rates: [f64; 2],
    /// Overhead of each frame in seconds. `None` if it was not found; it is then part of the rates.
    pub frame_overhead: Option<f64>,
    /// Additional time in seconds between frames of different ends.
    pub turnaround: f64,
}

/// Number of packets over which a spacing is taken: after a delayed packet, others follow too closely.
const STRIDE: usize = 8;
/// Maximum number of packets missing among these.
const MISSING: u16 = 2;
/// Minimum share of the other direction's airtime that each direction yields if they take turns; 1 if the trains
/// overlap fully.
const TURNS: f64 = 0.5;
/// Minimum number of train pairs that show it: a single one may be chance.
const ENOUGH: usize = 2;
/// Pairs whose share is at least this part of the maximum overlapped fully as well.
const WHOLE: f64 = 0.85;
/// Minimum share of a packet's time that can be distinguished from zero.
const LEAST: f64 = 0.03;

/// Returns the spacing of packets in a train on arrival, in descending order.
fn spacings(train: &[&Packet]) -> Vec<f64> {
    let came: Vec<(u16, f64)> = train.iter().filter_map(|packet| Some((packet.index, packet.arrived?))).collect();
    let over = |window: &[(u16, f64)]| {
        let [first, last] = [window.first()?, window.last()?];
        let packets = last.0 - first.0;
        (packets <= STRIDE as u16 + MISSING).then(|| (last.1 - first.1) / f64::from(packets))
    };
    let mut spacings: Vec<f64> = came.windows(STRIDE + 1).filter_map(over).collect();
    spacings.sort_by(|one, other| other.total_cmp(one));
    spacings
}

/// Result of two simultaneous trains.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Meeting {
    /// Share of the other direction's airtime that each direction yielded: 0 if the trains did not overlap or share a
    /// medium, 1 if they took turns all the time.
    pub shared: f64,
    /// Mean packet spacing of a direction.
    spacing: f64,
}

impl Meeting {
    /// `air` is the time of a packet if one direction has the medium to itself. `None` if too little arrived.
    fn of([down, up]: [&[&Packet]; 2], air: [f64; 2]) -> Option<Self> {
        let [mut down, mut up] = [spacings(down), spacings(up)];
        // A full queue shortens a train; the other train then overlaps it, and is slowed, only in part.
        let both = down.len().min(up.len());
        down.truncate(both);
        up.truncate(both);
        let spacings = [median(&mut down)?, median(&mut up)?];
        let gave = |way: usize| (spacings[way] - air[way]) / air[1 - way];
        Some(Self { shared: gave(0).min(gave(1)), spacing: (spacings[0] + spacings[1]) / 2.0 })
    }

    /// Returns whether the directions took turns.
    pub fn took_turns(&self) -> bool {
        self.shared >= TURNS
    }
}

/// Returns the results of all simultaneous trains, in order. `rates` are those of one direction at a time, in bits per
/// second: down, up.
pub fn meetings([down, up]: [&Log; 2], rates: [f64; 2]) -> Vec<Option<Meeting>> {
    let (down, up) = (down.trains(Purpose::Both), up.trains(Purpose::Both));
    let pairs = down.iter().zip(&up);
    pairs.map(|(down, up)| Meeting::of([down, up], [down[0].air(rates[0]), up[0].air(rates[1])])).collect()
}

/// Returns whether enough train pairs took turns to exclude chance.
pub fn is_half_duplex(meetings: &[Option<Meeting>]) -> bool {
    meetings.iter().flatten().filter(|meeting| meeting.took_turns()).count() >= ENOUGH
}

/// Returns the half-duplex medium if both directions share one. Arrays are in the order down, up.
pub fn half_duplex(logs: [&Log; 2], found: [Capacity; 2]) -> Option<HalfDuplex> {
    let rates = found.map(|found| found.rate);
    let meetings = meetings(logs, rates);
    if !is_half_duplex(&meetings) {
        return None;
    }
    // Trains that overlap only in part take fewer turns.
    let most = meetings.iter().flatten().map(|meeting| meeting.shared).fold(0.0, f64::max);
    let whole = meetings.iter().flatten().filter(|meeting| meeting.shared >= WHOLE * most);
    let mut spacings: Vec<f64> = whole.map(|meeting| meeting.spacing).collect();
    let size = f64::from(logs[0].of(Purpose::Both).map(|packet| packet.size).max()?);
    let bits = 8.0 * size;
    let airs = rates.map(|rate| bits / rate);
    // A packet's time is the overhead plus a time proportional to its size.
    let overhead = |way: usize| {
        let small = logs[way].of(Purpose::Small).map(|packet| packet.size).max()?;
        let spacing = spacing_of(logs[way], Purpose::Small, small)?;
        let per_bit = (airs[way] - spacing) / (bits - 8.0 * f64::from(small));
        (per_bit > 0.0).then_some((airs[way] - per_bit * bits).max(0.0))
    };
    let overheads: Vec<f64> = [0, 1].into_iter().filter_map(overhead).collect();
    let telling = |seconds: f64| if seconds >= LEAST * airs[0].min(airs[1]) { seconds } else { 0.0 };
    let count = overheads.len();
    let frame_overhead = (count > 0).then(|| telling(overheads.iter().sum::<f64>() / count as f64));
    let both = median(&mut spacings)?;
    Some(HalfDuplex {
        rates: airs.map(|air| bits / (air - frame_overhead.unwrap_or(0.0))),
        frame_overhead,
        turnaround: telling((both - airs[0] - airs[1]) / 2.0),
    })
}
