//! Reports of the other end: which packets arrived there, and when it sent those that did not arrive here.

use std::collections::BTreeMap;

use lasthop_proto::time::{Duration, Instant};

use super::lane::Lane;
use crate::end::{End, TOTALS, Totals};
use crate::estimate::{Log, Packet};
use crate::sink::{ASKED, Arrival, Sink, told, told_sent};
use crate::source::Sent;
use crate::wire::{BODY, Kind};

/// Number of arrivals requested in one query.
const BLOCK: u32 = 220;
/// Maximum number of outstanding queries: more of them would, together with a train, fill a queue of ten packets.
const QUESTIONS: usize = 2;
/// Maximum number of outstanding queries while nothing is measured.
const QUESTIONS_URGENT: usize = 4;
/// Response timeout, in seconds, up to which these numbers suffice, and the maximum factor beyond it.
const LONG: f64 = 0.9;
const MOST_TIMES: usize = 8;
/// Interval at which less than a full block is requested.
const SELDOM: Duration = Duration::from_secs(2);
/// Time after which a packet that has not arrived counts as lost.
const LATE: Duration = Duration::from_secs(3);

/// Pacing of queries.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// True to query at once.
    pub urgent: bool,
    /// Time after which an answer counts as lost.
    pub patience: Duration,
}

impl Pace {
    /// Returns the maximum number of outstanding queries. It grows with the round-trip time so that reports keep up
    /// with arrivals.
    fn questions(&self) -> usize {
        let times = libm::ceil(self.patience.as_secs_f64() / LONG) as usize;
        let usual = if self.urgent { QUESTIONS_URGENT } else { QUESTIONS };
        usual * times.clamp(1, MOST_TIMES)
    }
}

/// Reports received so far.
#[derive(Default)]
pub(super) struct Logs {
    arrivals: Vec<Arrival>,
    /// Reports received ahead of earlier ones.
    ahead: BTreeMap<u32, Vec<Arrival>>,
    totals: Totals,
    /// Outstanding queries for blocks of arrivals, by the first arrival.
    blocks: BTreeMap<u32, Instant>,
    asked_at: Option<Instant>,
    /// Numbers of packets with unknown send time, and outstanding queries for them.
    missing: Vec<u32>,
    lookups: Vec<(Vec<u32>, Instant)>,
    scanned: u32,
    /// Highest packet number that had arrived a while ago.
    marks: [Option<(Instant, u32)>; 2],
    /// Final totals: packets received there, packets sent there.
    settled: Option<[u32; 2]>,
}

impl Logs {
    pub(super) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    pub(super) fn told_duplicates(&self) -> u32 {
        self.totals.duplicates
    }

    pub(super) fn overruns(&self) -> u32 {
        self.totals.overruns
    }

    /// Returns the number of packets that the other end had sent when its stream was over.
    pub(super) fn last_sent(&self) -> Option<u32> {
        self.settled.map(|[_, sent]| sent)
    }

    /// Updates the totals, which only grow.
    pub(super) fn totals(&mut self, totals: Totals) {
        if totals.sent >= self.totals.sent && totals.received >= self.totals.received {
            self.totals = totals;
        }
    }

    /// Fixes the totals: packets sent from now on do not count.
    pub(super) fn settle(&mut self) {
        self.settled = Some([self.totals.received, self.totals.sent]);
    }

    /// Returns whether all that counts has been reported.
    pub(super) fn is_complete(&self) -> bool {
        self.settled.is_some_and(|[received, sent]| {
            self.arrivals.len() as u32 >= received
                && self.scanned >= sent
                && self.missing.is_empty()
                && self.lookups.is_empty()
        })
    }

    /// Processes the part of a `Log` message that follows its totals.
    pub(super) fn take(&mut self, bytes: &[u8], sink: &mut Sink) {
        match bytes.split_first() {
            Some((0, rest)) => {
                let Some((from, arrivals)) = told(rest) else { return };
                self.blocks.remove(&from);
                if !arrivals.is_empty() && self.ahead.len() < QUESTIONS_URGENT * MOST_TIMES * 2 {
                    self.ahead.insert(from, arrivals);
                }
                while let Some((from, arrivals)) = self.ahead.pop_first() {
                    let Some(known) = (self.arrivals.len() as u32).checked_sub(from) else {
                        self.ahead.insert(from, arrivals);
                        break;
                    };
                    self.arrivals.extend(arrivals.into_iter().skip(known as usize));
                }
            }
            Some((1, rest)) => {
                let Some(all) = told_sent(rest) else { return };
                for (seq, sent) in all {
                    let asked = self.lookups.iter().any(|(seqs, _)| seqs.contains(&seq));
                    if asked && sink.sent(seq).is_none() {
                        sink.know(seq, sent);
                    }
                }
                self.lookups.retain(|(seqs, _)| seqs.iter().any(|seq| sink.sent(*seq).is_none()));
            }
            _ => {}
        }
    }

    /// Queries what is not known yet.
    pub(super) fn ask(&mut self, now: Instant, pace: Pace, end: &mut End) {
        self.blocks.retain(|_, at| now.since(*at) < pace.patience);
        let received = self.settled.map_or(self.totals.received, |[received, _]| received);
        let mut from = self.arrivals.len() as u32;
        let due = pace.urgent || self.asked_at.is_none_or(|at| now.since(at) >= SELDOM);
        let questions = pace.questions();
        while self.blocks.len() < questions && received > from {
            let left = (received - from).min(BLOCK);
            if left < BLOCK && !due {
                break;
            }
            if !self.blocks.contains_key(&from) && !self.ahead.contains_key(&from) {
                self.blocks.insert(from, now);
                self.asked_at = Some(now);
                let mut body = vec![0];
                body.extend(from.to_be_bytes());
                // An answer is never longer than its query.
                body.resize((TOTALS + 30 + 7 * left as usize).min(BODY), 0);
                end.post(Kind::Fetch, body, 0);
            }
            from += BLOCK;
        }
        self.look_up(now, pace, questions, end);
    }

    fn look_up(&mut self, now: Instant, pace: Pace, questions: usize, end: &mut End) {
        let highest = end.sink.arrivals().last().map_or(0, |arrival| arrival.seq);
        if self.marks[0].is_none_or(|(at, _)| now.since(at) >= LATE) {
            self.marks = [Some((now, highest)), self.marks[0]];
        }
        let until = match self.settled {
            Some([_, sent]) => sent,
            None => self.marks[1].map_or(0, |(_, seq)| seq),
        };
        self.missing.extend((self.scanned..until).filter(|seq| end.sink.sent(*seq).is_none()));
        self.scanned = self.scanned.max(until);
        let (late, underway) = std::mem::take(&mut self.lookups)
            .into_iter()
            .partition(|(_, at): &(Vec<u32>, Instant)| now.since(*at) >= pace.patience);
        self.lookups = underway;
        let unknown = late.into_iter().flat_map(|(seqs, _)| seqs).filter(|seq| end.sink.sent(*seq).is_none());
        self.missing.extend(unknown);
        // Packets that arrived since need no query.
        self.missing.retain(|seq| end.sink.sent(*seq).is_none());
        while self.lookups.len() < questions
            && (self.missing.len() >= ASKED || self.settled.is_some() && !self.missing.is_empty())
        {
            let seqs = self.missing.split_off(self.missing.len().saturating_sub(ASKED));
            let mut body = vec![1, seqs.len() as u8];
            body.extend(seqs.iter().flat_map(|seq| seq.to_be_bytes()));
            body.resize(body.len().max(TOTALS + 2 + 17 * seqs.len()), 0);
            end.post(Kind::Fetch, body, 0);
            self.lookups.push((seqs, now));
        }
    }
}

fn packet(sent: &Sent, lane: &Lane) -> Packet {
    Packet {
        sent: sent.at.as_secs_f64(),
        arrived: None,
        size: sent.size,
        purpose: lane.purpose(sent.order),
        order: sent.order,
        index: sent.index,
        dscp: [sent.dscp; 2],
    }
}

/// Marks the packets that arrived.
fn arrive(packets: Vec<Packet>, arrivals: &[Arrival], duplicates: u32) -> Log {
    let mut log = Log { packets, arrivals: Vec::with_capacity(arrivals.len()), duplicates };
    for Arrival { seq, at, dscp } in arrivals {
        if let Some(packet) = log.packets.get_mut(*seq as usize) {
            packet.arrived = Some(at.as_secs_f64());
            packet.dscp[1] = *dscp;
            log.arrivals.push(*seq);
        }
    }
    log
}

/// Returns the log of this end's packets.
pub(super) fn up(sent: &[Sent], arrivals: &[Arrival], duplicates: u32, lane: &Lane) -> Log {
    arrive(sent.iter().map(|sent| packet(sent, lane)).collect(), arrivals, duplicates)
}

/// Returns the log of the other end's packets. A packet with unknown send time is assumed to be sent like its
/// predecessor.
pub(super) fn down(sink: &Sink, lane: &Lane, count: Option<u32>) -> Log {
    let highest = sink.arrivals().iter().map(|arrival| arrival.seq + 1).max().unwrap_or(0);
    let count = count.unwrap_or(highest);
    let mut packets: Vec<Packet> = Vec::with_capacity(count as usize);
    for seq in 0..count {
        let known = sink.sent(seq).map(|sent| packet(sent, lane));
        let like_before =
            || packets.last().map(|before| Packet { arrived: None, index: before.index.wrapping_add(1), ..*before });
        let first = Packet {
            sent: 0.0,
            arrived: None,
            size: crate::order::SMALLEST,
            purpose: crate::estimate::Purpose::Protocol,
            order: 0,
            index: 0,
            dscp: [0; 2],
        };
        packets.push(known.or_else(like_before).unwrap_or(first));
    }
    arrive(packets, sink.arrivals(), sink.duplicates)
}
