//! One connection: what passed it, and its open case.

use alloc::collections::VecDeque;

use super::case::{Case, Gap, MOST_COPIES};
use super::copies::{Copies, Sent};
use super::counts::{Counts, Reason};
use super::hop_time::HopTime;
use super::judge::Judge;
use super::lengths::{Change, Lengths, change};
use super::{Conduct, QuicSnoopConfig};
use crate::node::{Port, Trigger, Why};
use crate::packet::{Cause, Packet, Priority};
use crate::time::{Duration, Instant};

/// Length above which a returning datagram carries data of the client, in bytes. It is never held.
const LONGEST_ACK: u32 = 200;
/// Bytes by which a held datagram may exceed the level.
const LONGEST_EXCESS: u16 = 40;
/// Number of acknowledgments before the first case.
const LEARNED: u32 = 8;
/// Number of datagrams towards the hop per returning one above which acknowledgments are too rare.
const MOST_PER_REPLY: u64 = 4;
/// Number of replies after which the ratio is judged.
const REPLIES: u64 = 64;
/// Time without cases after more gaps than a case holds.
const STORM: Duration = Duration::from_millis(100);
/// Time within which the sender closes a gap that it learns of.
const OBSERVED: Duration = Duration::from_secs(1);
/// Time after which an idle flow's copies are discarded.
pub(super) const IDLE: Duration = Duration::from_secs(2);

/// Output of a flow: packets with their port and reason.
pub(super) type Out<P> = VecDeque<(Port, Why, Packet<P>)>;

/// State of a connection.
#[derive(Clone, Debug)]
pub(super) struct Flow<P> {
    pub copies: Copies<P>,
    pub hop: HopTime,
    lengths: Lengths,
    judge: Judge,
    case: Option<Case<P>>,
    /// Number of the datagram that caused the last acknowledgment.
    answered: u64,
    /// Bytes that came back from the hop.
    returned: u64,
    /// Datagrams to the hop, and replies, since the ratio was judged.
    ratio: (u64, u64),
    /// Largest number of frames that were seen in front of the hop.
    longest_queue: usize,
    pub last: Instant,
    conduct: Conduct,
    /// Longest time for which a datagram is held.
    hold: Duration,
    /// True once the hop's round trip was found too long.
    is_far: bool,
    /// Number of frames in front of the hop above which a loss counts as congestion.
    most_waiting: usize,
    /// Time of the flow's entry among the timers.
    pub timer: Option<Instant>,
}

impl<P: Clone> Flow<P> {
    pub fn new(now: Instant, config: &QuicSnoopConfig) -> Self {
        Self {
            copies: Copies::new(),
            hop: HopTime::default(),
            lengths: Lengths::default(),
            judge: Judge::default(),
            case: None,
            answered: 0,
            returned: 0,
            ratio: (0, 0),
            longest_queue: 0,
            last: now,
            conduct: config.conduct,
            hold: config.hold,
            is_far: false,
            most_waiting: config.queue,
            timer: None,
        }
    }

    /// Returns the time at which the flow needs attention.
    pub fn deadline(&self) -> Option<Instant> {
        let idle = (!self.copies.is_empty()).then(|| self.last + IDLE);
        let case = self.case.as_ref().map(|case| case.deadline(self.overdue()));
        [idle, case].into_iter().flatten().min()
    }

    /// Returns the time after which copies are repeated; without action there are none.
    fn overdue(&self) -> Duration {
        let overdue = if self.acts() { self.hop.overdue(self.hold) } else { None };
        overdue.unwrap_or(Duration::MAX)
    }

    fn acts(&self) -> bool {
        self.conduct == Conduct::Repair
    }

    /// Records a datagram to the hop.
    pub fn on_sent(&mut self, config: &QuicSnoopConfig, sent: Sent<P>) {
        self.hop.on_sent(sent.departs);
        self.longest_queue = self.longest_queue.max(sent.waiting);
        self.ratio.0 += 1;
        self.copies.push(config.copies, sent);
    }

    /// Processes a datagram with a short header from the hop, and forwards or holds it.
    pub fn on_returned(&mut self, now: Instant, packet: Packet<P>, out: &mut Out<P>, counts: &mut Counts) -> Given {
        self.returned += u64::from(packet.len);
        let len = match u16::try_from(packet.len) {
            Ok(len) if packet.len <= LONGEST_ACK => len,
            _ => {
                self.release(out);
                out.push_back((Port::WIRED, Why::Given, packet));
                return Given::Passed;
            }
        };
        self.count_reply(counts);
        self.hop.on_ack(now, self.case.is_some() || self.lengths.change(len) == Change::Longer);
        let cause = self.hop.answered(now, &self.copies);
        match self.case.take() {
            Some(case) => self.in_case(now, case, (len, cause), packet, out, counts),
            None => self.outside(now, (len, cause), packet, out, counts),
        }
    }

    /// Judges how often the client acknowledges.
    fn count_reply(&mut self, counts: &mut Counts) {
        self.ratio.1 += 1;
        if self.ratio.1 >= REPLIES {
            if self.ratio.0 > MOST_PER_REPLY * self.ratio.1 {
                self.judge.stop(counts);
            }
            self.ratio = (0, 0);
        }
    }

    fn outside(
        &mut self,
        now: Instant,
        (len, cause): (u16, Option<u64>),
        packet: Packet<P>,
        out: &mut Out<P>,
        counts: &mut Counts,
    ) -> Given {
        let level = self.lengths.level();
        let change = self.lengths.change(len);
        if change == Change::Longer
            && let Some(cause) = cause
            && self.may_open(now, cause, counts)
            && !self.yields(now, counts)
        {
            match self.gap(now, cause, out, counts) {
                Some(gap) => {
                    self.advance(now, Some(cause));
                    let span = if self.acts() { self.hold } else { OBSERVED };
                    let mut case = Case::new(now, span, level, len, gap);
                    counts.cases += 1;
                    let (given, _) = self.keep(&mut case, packet, out, counts);
                    self.case = Some(case);
                    return given;
                }
                None => counts.elsewhere += 1,
            }
        }
        match change {
            Change::Level | Change::Below => {
                if self.lengths.observe(len) {
                    if let Some(sent) = cause.and_then(|cause| self.copies.get(cause)) {
                        self.hop.refine(now, sent.departs);
                    }
                    self.hop.compare(now, &self.copies);
                    self.advance(now, cause);
                }
            }
            // The sender learns of the gap, which stays for a round trip.
            Change::Longer => {
                self.lengths.accept(len);
                self.advance(now, cause);
            }
            // It may hide a gap: all that it acknowledges stays a candidate.
            Change::Control => {
                if self.lengths.observe_control(len) {
                    self.advance(now, cause);
                }
            }
        }
        out.push_back((Port::WIRED, Why::Given, packet));
        Given::Passed
    }

    /// Records the cause of an acknowledgment: what was sent before it has arrived, or is in a gap that is known. An
    /// acknowledgment that a copy or a timer caused says nothing about datagrams that were sent shortly before.
    fn advance(&mut self, now: Instant, cause: Option<u64>) {
        if let Some(cause) = cause
            && let Some(sent) = self.copies.get(cause)
            && self.hop.is_answer(now, sent.departs)
        {
            self.answered = self.answered.max(cause);
        }
    }

    /// Holds a datagram of a case, or passes it if no action is taken. Also returns whether there is space for more.
    fn keep(&self, case: &mut Case<P>, packet: Packet<P>, out: &mut Out<P>, counts: &mut Counts) -> (Given, bool) {
        counts.held += 1;
        if self.acts() {
            return (Given::Held, case.hold(packet));
        }
        out.push_back((Port::WIRED, Why::Given, packet));
        (Given::Passed, true)
    }

    fn may_open(&mut self, now: Instant, cause: u64, counts: &mut Counts) -> bool {
        let in_reach = self.hop.rtt().is_some_and(|rtt| rtt + rtt / 16 < self.hold);
        if !in_reach && self.hop.rtt().is_some() && !core::mem::replace(&mut self.is_far, true) {
            counts.count(Reason::LongHop);
        }
        let is_download = self.copies.total > 2 * self.returned;
        let has_queue = self.met_queue(cause);
        in_reach && is_download && !has_queue && self.lengths.seen() >= LEARNED && self.judge.permits(now)
    }

    /// Returns whether a datagram found a long queue in front of the hop, which may have dropped it.
    fn met_queue(&self, number: u64) -> bool {
        let waited = self.copies.get(number).map_or(0, |sent| sent.waiting);
        let is_full = waited >= 4 && waited * 4 >= self.longest_queue * 3;
        waited > self.most_waiting || is_full
    }

    /// Returns whether the hop's delay rises. Congestion is the sender's: the flow then passes for ten round trips.
    fn yields(&mut self, now: Instant, counts: &mut Counts) -> bool {
        let rtt = self.hop.rtt().unwrap_or_default();
        let rises = self.hop.rises();
        if rises {
            counts.count(Reason::Rising);
            self.judge.pause(now + rtt * 10);
        }
        rises
    }

    /// Resends the candidates for a gap that the acknowledgment caused by `cause` shows; `None` if there are none.
    fn gap(&mut self, now: Instant, cause: u64, out: &mut Out<P>, counts: &mut Counts) -> Option<Gap> {
        let unsure = self.hop.uncertainty();
        // All up to the last cause have arrived. The one of this acknowledgment has too.
        let likely = (self.answered + 1, cause.saturating_sub(1));
        let (low, high) = (likely.0.saturating_sub(unsure), likely.1 + unsure);
        if low > high {
            return None;
        }
        let low = low.max((high + 1).saturating_sub(MOST_COPIES as u64));
        if (low..=high).any(|number| self.met_queue(number)) {
            return None;
        }
        let mut gap = Gap { low, high, likely, begun: now, resent_at: now, copies: 0, rounds: 0 };
        self.resend(now, &mut gap, out, counts);
        (gap.copies > 0).then_some(gap)
    }

    /// Resends the candidates of a gap: the likely ones first, and of these the latest.
    fn resend(&mut self, now: Instant, gap: &mut Gap, out: &mut Out<P>, counts: &mut Counts) {
        gap.rounds += 1;
        gap.resent_at = now;
        let (is_likely, all) = (gap.is_likely(), gap.low..=gap.high);
        let (first, rest) = (all.clone().rev().filter(|number| is_likely(*number)), all.rev());
        for number in first.chain(rest.filter(|number| !is_likely(*number))) {
            if gap.copies >= MOST_COPIES {
                break;
            }
            if let Some(packet) = self.copies.resend(now, number) {
                if self.acts() {
                    let copy = Packet { priority: Priority::Urgent, cause: Cause::LocalHole, ..packet };
                    out.push_back((Port::WIRELESS, Why::Repair(Trigger::Hole), copy));
                }
                gap.copies += 1;
                counts.copies += 1;
            }
        }
    }

    fn in_case(
        &mut self,
        now: Instant,
        mut case: Case<P>,
        (len, cause): (u16, Option<u64>),
        packet: Packet<P>,
        out: &mut Out<P>,
        counts: &mut Counts,
    ) -> Given {
        let rtt = self.hop.rtt().unwrap_or_default();
        if len > case.level.saturating_add(LONGEST_EXCESS) {
            released(case, out);
            out.push_back((Port::WIRED, Why::Given, packet));
            return Given::Passed;
        }
        let before = case.last;
        let is_answer = self.acts() && case.is_answer(now, rtt);
        let mut storm = false;
        match change(before, len) {
            Change::Longer => {
                case.last = len;
                let gap = cause.and_then(|cause| self.gap(now, cause, out, counts));
                self.advance(now, cause);
                storm = gap.is_none_or(|gap| !case.add(gap));
            }
            Change::Level | Change::Below if !is_answer && case.is_lone(len) => {}
            Change::Level | Change::Below => {
                case.last = len;
                if !is_answer {
                    self.advance(now, cause);
                }
                let is_shorter = len < before;
                let is_back = len <= case.level;
                if is_back || len + 2 <= before || (is_shorter && is_answer) {
                    let mut is_early = false;
                    if let Some([first, last]) = case.close(now, rtt) {
                        // Before a copy can have arrived, only the original can close the gap.
                        is_early = if self.acts() { self.hop.is_early(first) } else { first < rtt };
                        if is_answer {
                            self.hop.on_repair(last);
                        }
                    }
                    if is_back || case.gaps.is_empty() {
                        self.lengths.observe(len);
                        if is_early {
                            counts.reordered += 1;
                            self.judge.record_reordering(now, self.copies.next(), counts);
                        } else {
                            counts.repaired += 1;
                            self.judge.record(now, true, self.copies.next(), counts);
                        }
                        out.push_back((Port::WIRED, Why::Given, packet));
                        released(case, out);
                        return Given::Passed;
                    }
                }
            }
            Change::Control => {}
        }
        let (given, has_space) = self.keep(&mut case, packet, out, counts);
        self.case = Some(case);
        if storm || !has_space {
            counts.count(Reason::Storm);
            self.fail(now, out, counts);
            self.judge.pause(now + STORM);
        }
        given
    }

    /// Ends the case without a repair.
    fn fail(&mut self, now: Instant, out: &mut Out<P>, counts: &mut Counts) {
        if let Some(case) = &self.case {
            self.lengths.accept(case.last);
            if self.judge.record(now, false, self.copies.next(), counts) {
                self.hop.restart();
            }
        }
        self.release(out);
    }

    /// Releases what is held.
    pub fn release(&mut self, out: &mut Out<P>) {
        if let Some(case) = self.case.take() {
            released(case, out);
        }
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Out<P>, counts: &mut Counts) {
        if self.last + IDLE <= now {
            self.copies.clear();
        }
        let Some(mut case) = self.case.take() else { return };
        let overdue = self.overdue();
        let mut failed = now >= case.until;
        for at in 0..case.gaps.len() {
            let mut gap = case.gaps[at];
            if failed || gap.resent_at + overdue > now {
                continue;
            }
            // The copies were lost, or are of the wrong datagrams.
            let copies = gap.copies;
            if gap.may_repeat() {
                gap.low = gap.low.saturating_sub(1);
                gap.high += 1;
                self.resend(now, &mut gap, out, counts);
            }
            failed |= gap.copies == copies;
            case.gaps[at] = gap;
        }
        self.case = Some(case);
        if failed {
            self.fail(now, out, counts);
        }
    }
}

/// Disposition of a returning datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    Passed,
    Held,
}

fn released<P>(case: Case<P>, out: &mut Out<P>) {
    out.extend(case.release().map(|packet| (Port::WIRED, Why::Released, packet)));
}
