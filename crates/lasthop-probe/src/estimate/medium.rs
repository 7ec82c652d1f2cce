//! Whether both ways take turns on one medium, from trains that go both ways at once.

use super::capacity::spacing_of;
use super::{Capacity, Log, Packet, Purpose, median};

/// A medium that one end uses at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HalfDuplex {
    /// Bits a second while a frame is on the air: down, up.
    pub rates: [f64; 2],
    /// Seconds that each frame takes beside its bytes; `None`: not found, and part of the rates.
    pub frame_overhead: Option<f64>,
    /// Seconds from a frame of one end to one of the other, beside that.
    pub turnaround: f64,
}

/// A spacing is taken over so many packets: behind one that was held up, others come too close.
const STRIDE: usize = 8;
/// Of these, so many more may be missing.
const MISSING: u16 = 2;
/// A way gives up so much of the other's time on the air, at the least, where they take turns; all of it where the trains meet as a whole.
const TURNS: f64 = 0.5;
/// So many trains both ways have to show it: one may be chance.
const ENOUGH: usize = 2;
/// Trains that share as much as this beside the one that shares most met as a whole, too.
const WHOLE: f64 = 0.85;
/// What is a smaller share of a packet's time than this is not told from nothing.
const LEAST: f64 = 0.03;

/// Times between two packets of a train as they arrived, the longest first.
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

/// What a train each way at once shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Meeting {
    /// How much of the other way's time on the air each way gave up: 0 where they did not meet, or need not share; 1 where they took turns all the while.
    pub shared: f64,
    /// The mean time between two packets of a way.
    spacing: f64,
}

impl Meeting {
    /// `air`: what a packet takes when one way has the medium to itself. `None` where too little arrived.
    fn of([down, up]: [&[&Packet]; 2], air: [f64; 2]) -> Option<Self> {
        let [mut down, mut up] = [spacings(down), spacings(up)];
        // A full queue cuts a train short: then the other meets it in part, and was slowed down in that.
        let both = down.len().min(up.len());
        down.truncate(both);
        up.truncate(both);
        let spacings = [median(&mut down)?, median(&mut up)?];
        let gave = |way: usize| (spacings[way] - air[way]) / air[1 - way];
        Some(Self { shared: gave(0).min(gave(1)), spacing: (spacings[0] + spacings[1]) / 2.0 })
    }

    /// Whether the ways took turns.
    pub fn took_turns(&self) -> bool {
        self.shared >= TURNS
    }
}

/// The trains both ways at once, in order; `rates`, bits a second, down and up, are those of one way at a time.
pub fn meetings([down, up]: [&Log; 2], rates: [f64; 2]) -> Vec<Option<Meeting>> {
    let (down, up) = (down.trains(Purpose::Both), up.trains(Purpose::Both));
    let pairs = down.iter().zip(&up);
    pairs.map(|(down, up)| Meeting::of([down, up], [down[0].air(rates[0]), up[0].air(rates[1])])).collect()
}

/// Whether so many took turns that it is no chance.
pub fn is_half_duplex(meetings: &[Option<Meeting>]) -> bool {
    meetings.iter().flatten().filter(|meeting| meeting.took_turns()).count() >= ENOUGH
}

/// The medium, where both ways were seen to take turns on it: down, up.
pub fn half_duplex(logs: [&Log; 2], found: [Capacity; 2]) -> Option<HalfDuplex> {
    let rates = found.map(|found| found.rate);
    let meetings = meetings(logs, rates);
    if !is_half_duplex(&meetings) {
        return None;
    }
    // Where trains met in part only, the ways took fewer turns.
    let most = meetings.iter().flatten().map(|meeting| meeting.shared).fold(0.0, f64::max);
    let whole = meetings.iter().flatten().filter(|meeting| meeting.shared >= WHOLE * most);
    let mut spacings: Vec<f64> = whole.map(|meeting| meeting.spacing).collect();
    let size = f64::from(logs[0].of(Purpose::Both).map(|packet| packet.size).max()?);
    let bits = 8.0 * size;
    let airs = rates.map(|rate| bits / rate);
    // What a packet takes grows with its bytes from the overhead on.
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
