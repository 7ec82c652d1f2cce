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
    /// The window of a sender that still searches for the rate.
    SlowStart,
    /// A standing queue at the bottleneck.
    Bottleneck,
    /// The congestion window, reduced by a corrupted packet.
    AfterCorruption,
    /// The congestion window, reduced by congestion.
    AfterCongestion,
    /// The congestion window, after a loss of unknown cause or a needless retransmission.
    AfterUnknown,
    /// A policer, which dropped packets that exceeded its rate.
    Policer,
    /// A path-MTU black hole, in which large packets vanish.
    PathMtu,
}

/// All factors.
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
    /// Returns a short description.
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

/// Excess of a round without data over its expected duration that shows that the sender had no data: as a share of the
/// round trip, and in nanoseconds.
const PATIENCE: (i64, i64) = (4, 3_000_000);
/// Maximum number of packets whose acknowledgments are recorded.
const MOST_EDGES: usize = 4096;
/// Resolution of senders' timestamps, in nanoseconds.
const STAMPS: i64 = 1_000_000;
/// Number of rounds whose bytes are compared.
const ROUNDS: usize = 16;

/// A round in progress.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    begin: i64,
    bytes: u64,
    packets: u32,
    /// Packets after which the receiver's window was full.
    at_edge: u32,
    /// True if the sender sent a partial packet, and then nothing for some time.
    drained: bool,
    idle: i64,
    /// Nanoseconds for which the receiver's window was closed, or the sender waited for it to open.
    shut: i64,
    /// Minimum queueing delays before and beyond the capture, in nanoseconds.
    least_queues: [Option<i64>; 2],
}

/// Accounting of the time of one direction.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    round: Option<Round>,
    /// Nanoseconds by factor; those of the congestion window are charged to the cause of its reduction.
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
    /// True if the last packet left less than a segment of the window.
    was_at_edge: bool,
    mss: u32,
    /// Largest payload of a packet, and that of a full packet with the usual options.
    most: Option<(u32, u32)>,
}

/// Times by which a round is judged, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Current time.
    pub now: i64,
    /// Round trip from the capture to the sender.
    pub to_sender: i64,
    /// Current total round trip.
    pub whole: i64,
    /// Delay below which there is no queue.
    pub short_queue: i64,
}

/// Bytes of TCP options in each data packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionBytes(pub u16);

/// A piece of new data at the capture.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Number after its last byte.
    pub end: u64,
    /// Number of bytes.
    pub len: u32,
}

impl Rounds {
    /// Adds nanoseconds whose factor is known.
    pub const fn known(&self, factor: Factor) -> i64 {
        self.known[factor as usize]
    }

    /// Returns the largest segment seen.
    pub const fn mss(&self) -> u32 {
        self.mss
    }

    /// Returns the number of packets on the wire for a payload: more than one for the super-segments that interfaces
    /// with offloads show.
    pub fn packets(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.mss.max(1)))
    }

    /// Records that the receiver allows data up to `edge`.
    pub fn allow(&mut self, now: i64, edge: u64) {
        if self.edges.back().is_some_and(|&(_, last)| last == edge) {
            return;
        }
        if self.edges.len() == MOST_EDGES {
            self.edges.pop_front();
        }
        self.edges.push_back((now, edge));
    }

    /// Records that the receiver has closed or opened its window.
    pub fn closed(&mut self, now: i64, is_closed: bool) {
        if is_closed {
            self.closed_since.get_or_insert(now);
        } else if let Some(since) = self.closed_since.take()
            && let Some(round) = &mut self.round
        {
            round.shut += now.saturating_sub(since.max(round.begin)).max(0);
            // The sender waited only for this.
            if let Some(since) = &mut self.all_acknowledged {
                *since = now;
            }
        }
    }

    /// Records that all data sent has been acknowledged.
    pub fn drained(&mut self, now: i64) {
        self.all_acknowledged.get_or_insert(now);
    }

    /// Records a packet with this payload. Super-segments, which an interface still has to cut, exceed the limit of the
    /// handshake.
    pub fn segment_size(&mut self, bytes: u32) {
        let of_a_packet = match self.most {
            Some((most, usual)) if bytes > most => usual,
            _ => bytes,
        };
        self.mss = self.mss.max(of_a_packet);
    }

    /// Records the maximum payload of a packet according to the handshake, from which the options of each packet are
    /// subtracted.
    pub fn most(&mut self, bytes: u16, options: OptionBytes) {
        self.most = Some((u32::from(bytes.max(1)), u32::from(bytes.saturating_sub(options.0).max(1))));
    }

    /// Records the queueing delay of a packet.
    pub fn queued(&mut self, side: Side, nanos: i64) {
        if let Some(round) = &mut self.round {
            let least = &mut round.least_queues[side as usize];
            *least = Some(least.map_or(nanos, |least| least.min(nanos)));
        }
    }

    /// Records new data. Returns the time of a round that is to be charged to a factor once its cause is known.
    pub fn pass(&mut self, times: Times, passing: Passing, reduction: Reduction) -> Option<Charge> {
        let Times { now, to_sender, whole, .. } = times;
        let gap = self.last_data.map_or(0, |last| now.saturating_sub(last));
        let round = self.round.get_or_insert(Round { begin: now, ..Round::default() });
        // If the sender had had more data, this would have arrived a round trip after the acknowledgment.
        if let Some(since) = self.all_acknowledged.take() {
            let late = now.saturating_sub(since).saturating_sub(to_sender);
            if late > PATIENCE.1.max(to_sender / PATIENCE.0) {
                round.idle += late;
            }
        }
        // After a packet that filled the window, the sender waits for more window, for at most a round trip.
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

    /// Ends the round in progress.
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
        // A congestion window that is not used up does not grow, and one without losses does not stay the same.
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
