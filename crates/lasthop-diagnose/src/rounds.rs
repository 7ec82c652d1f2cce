//! Limiting factors of a sender, round trip by round trip.

use std::collections::VecDeque;

use serde::Serialize;

use crate::loss::{Reduction, Side};

/// Factor that limits a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// The sender has nothing to send.
    Application,
    /// The receiver's window.
    ReceiveWindow,
    /// The window of a sender that still looks for the rate.
    SlowStart,
    /// The bottleneck has a queue all the time.
    Bottleneck,
    /// The congestion window, which a corrupted packet made small.
    AfterCorruption,
    /// The congestion window, which congestion made small.
    AfterCongestion,
    /// The congestion window, after a loss of unknown cause or a needless retransmission.
    AfterUnknown,
    /// A policer, which dropped packets that exceeded its rate.
    Policer,
    /// A path-MTU black hole, in which large packets vanish.
    PathMtu,
}

/// All of them.
pub const FACTORS: [Factor; 9] = [
    Factor::Application,
    Factor::ReceiveWindow,
    Factor::SlowStart,
    Factor::Bottleneck,
    Factor::AfterCorruption,
    Factor::AfterCongestion,
    Factor::AfterUnknown,
    Factor::Policer,
    Factor::PathMtu,
];

impl Factor {
    /// In a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Application => "the application",
            Self::ReceiveWindow => "the receive window",
            Self::SlowStart => "slow start",
            Self::Bottleneck => "the bottleneck's rate",
            Self::AfterCorruption => "the congestion window after corruption",
            Self::AfterCongestion => "the congestion window after congestion",
            Self::AfterUnknown => "the congestion window after a loss of unknown cause",
            Self::Policer => "a policer",
            Self::PathMtu => "a path-MTU black hole",
        }
    }
}

/// Time whose cause is known only once all losses are judged.
pub type Charge = (Reduction, i64);

/// A round without data for that much longer than it should take says that the sender had none: a share of the round trip, and nanoseconds.
const PATIENCE: (i64, i64) = (4, 3_000_000);
/// Acknowledgments of that many packets are kept.
const MOST_EDGES: usize = 4096;
/// Resolution of senders' timestamps, in nanoseconds.
const STAMPS: i64 = 1_000_000;
/// Rounds whose bytes are compared.
const ROUNDS: usize = 16;

/// A round that goes on.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    begin: i64,
    bytes: u64,
    packets: u32,
    /// Packets behind which there was no room in the receiver's window.
    at_edge: u32,
    /// Bytes were sent that did not fill a packet, and then none for a while.
    drained: bool,
    idle: i64,
    /// Nanoseconds in which the receiver had its window closed, or the sender waited for room in it.
    shut: i64,
    /// The shortest queueing delays before and beyond the capture, in nanoseconds.
    least_queues: [Option<i64>; 2],
}

/// The time of one direction.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    round: Option<Round>,
    /// Nanoseconds by factor; the congestion window's go to whom they are charged.
    known: [i64; FACTORS.len()],
    last_data: Option<i64>,
    last_was_short: bool,
    /// Time at which the last data was acknowledged, if nothing was sent since then.
    all_acknowledged: Option<i64>,
    /// Edges of the window that the receiver announced, with the time of each.
    edges: VecDeque<(i64, u64)>,
    allowed: Option<u64>,
    recent: [u64; ROUNDS],
    whole_rounds: u32,
    /// Time since which the receiver has kept its window closed.
    closed_since: Option<i64>,
    /// The last packet left less than a segment of the window.
    was_at_edge: bool,
    mss: u32,
    /// Most payload of a packet, and that of a full one with the usual options.
    most: Option<(u32, u32)>,
}

/// Times that a round is judged with, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Now.
    pub now: i64,
    /// From the capture to the sender and back.
    pub to_sender: i64,
    /// The whole round trip as it is now.
    pub whole: i64,
    /// A queue shorter than this is none.
    pub short_queue: i64,
}

/// Bytes of TCP options that each packet with data has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionBytes(pub u16);

/// A piece of new data passes.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Behind its last byte.
    pub end: u64,
    /// Its bytes.
    pub len: u32,
}

impl Rounds {
    /// Nanoseconds that are known to belong to `factor`.
    pub const fn known(&self, factor: Factor) -> i64 {
        self.known[factor as usize]
    }

    /// The largest segment seen.
    pub const fn mss(&self) -> u32 {
        self.mss
    }

    /// Returns the number of packets on the wire for a payload: more than one for the super-segments that interfaces
    /// with offloads show.
    pub fn packets(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.mss.max(1)))
    }

    /// The receiver allows data up to `edge`.
    pub fn allow(&mut self, now: i64, edge: u64) {
        if self.edges.back().is_some_and(|&(_, last)| last == edge) {
            return;
        }
        if self.edges.len() == MOST_EDGES {
            self.edges.pop_front();
        }
        self.edges.push_back((now, edge));
    }

    /// The receiver has its window closed, or open.
    pub fn closed(&mut self, now: i64, is_closed: bool) {
        if is_closed {
            self.closed_since.get_or_insert(now);
        } else if let Some(since) = self.closed_since.take()
            && let Some(round) = &mut self.round
        {
            round.shut += now.saturating_sub(since.max(round.begin)).max(0);
            // The sender had nothing to wait for but this.
            if let Some(since) = &mut self.all_acknowledged {
                *since = now;
            }
        }
    }

    /// All data that was sent has been acknowledged.
    pub fn drained(&mut self, now: i64) {
        self.all_acknowledged.get_or_insert(now);
    }

    /// A packet with so many bytes of payload. Segments that an interface was still to cut are longer than the handshake allows.
    pub fn segment_size(&mut self, bytes: u32) {
        let of_a_packet = match self.most {
            Some((most, usual)) if bytes > most => usual,
            _ => bytes,
        };
        self.mss = self.mss.max(of_a_packet);
    }

    /// The handshake says that no packet has more payload than `bytes`, of which the options of each take theirs.
    pub fn most(&mut self, bytes: u16, options: OptionBytes) {
        self.most = Some((u32::from(bytes.max(1)), u32::from(bytes.saturating_sub(options.0).max(1))));
    }

    /// Queueing delay that a packet met.
    pub fn queued(&mut self, side: Side, nanos: i64) {
        if let Some(round) = &mut self.round {
            let least = &mut round.least_queues[side as usize];
            *least = Some(least.map_or(nanos, |least| least.min(nanos)));
        }
    }

    /// Data passes. What a round came to whose cause has to wait is returned.
    pub fn pass(&mut self, times: Times, passing: Passing, reduction: Reduction) -> Option<Charge> {
        let Times { now, to_sender, whole, .. } = times;
        let gap = self.last_data.map_or(0, |last| now.saturating_sub(last));
        let round = self.round.get_or_insert(Round { begin: now, ..Round::default() });
        // Had the sender had more, it would have come a round trip to it later.
        if let Some(since) = self.all_acknowledged.take() {
            let late = now.saturating_sub(since).saturating_sub(to_sender);
            if late > PATIENCE.1.max(to_sender / PATIENCE.0) {
                round.idle += late;
            }
        }
        // After a packet that left no room the sender waits for more, a round trip at most.
        if self.was_at_edge {
            round.shut += gap.min(whole);
        }
        round.drained |= self.last_was_short && gap > (whole / PATIENCE.0).min(PATIENCE.1).max(to_sender / 2);
        while let Some(&(time, edge)) = self.edges.front() {
            if time > now.saturating_sub(to_sender) {
                break;
            }
            self.allowed = Some(edge);
            self.edges.pop_front();
        }
        let room = self.allowed.map(|edge| edge.saturating_sub(passing.end));
        self.was_at_edge = room.is_some_and(|room| room < u64::from(self.mss.max(1)));
        round.at_edge += u32::from(self.was_at_edge);
        round.bytes += u64::from(passing.len);
        round.packets += 1;
        self.last_data = Some(now);
        self.last_was_short = passing.len < self.mss;
        if now.saturating_sub(round.begin) >= whole { self.end(times, reduction) } else { None }
    }

    /// Ends the round that goes on.
    pub fn end(&mut self, times: Times, reduction: Reduction) -> Option<Charge> {
        let round = self.round.replace(Round { begin: times.now, ..Round::default() })?;
        let took = times.now.saturating_sub(round.begin).max(0);
        let closed = self.closed_since.map_or(0, |since| times.now.saturating_sub(since.max(round.begin)));
        let shut = round.shut.saturating_add(closed).clamp(0, took);
        let idle = round.idle.clamp(0, took - shut);
        self.known[Factor::Application as usize] += idle;
        self.known[Factor::ReceiveWindow as usize] += shut;
        let rest = took - idle - shut;
        let most = self.recent.iter().copied().max().unwrap_or(0);
        // A window that is not used up does not grow, nor does one without losses stay.
        let stands = reduction == Reduction::None && self.whole_rounds as usize > ROUNDS && round.bytes <= most;
        self.recent[self.whole_rounds as usize % ROUNDS] = round.bytes;
        self.whole_rounds = self.whole_rounds.saturating_add(1);
        let [before, beyond] = round.least_queues;
        let queues = before.is_some_and(|least| least > times.short_queue + STAMPS)
            || beyond.is_some_and(|least| least > times.short_queue);
        let factor = if round.packets > 0 && round.at_edge * 4 >= round.packets {
            Factor::ReceiveWindow
        } else if round.drained || idle > 0 {
            Factor::Application
        } else if queues {
            Factor::Bottleneck
        } else if stands {
            Factor::Application
        } else if reduction == Reduction::None {
            Factor::SlowStart
        } else {
            return Some((reduction, rest));
        };
        self.known[factor as usize] += rest;
        None
    }
}
