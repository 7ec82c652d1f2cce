//! Processing of acknowledgments (Linux `tcp_ack`).

use super::{Origin, Permit, Rack};
use crate::packet::SackBlock;
use crate::seq::Seq;
use crate::tcp::ack::{Ack, Marks};
use crate::tcp::congestion::control::{AckSample, CaState};
use crate::tcp::modern::delivery_rate::Candidate;
use crate::tcp::modern::prr::Step;
use crate::tcp::stream::{Delivery, Stream, Timer};
use crate::time::{Duration, Instant};

/// An acknowledgment with additional information from its segment.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Numbers and blocks.
    pub ack: &'a Ack<'a>,
    /// Transmission time of the acknowledged segment, by the peer's timestamp echo.
    pub echoed: Option<Instant>,
    /// The peer's count of marks, under accurate ECN.
    pub marks: Option<Marks>,
    /// True if the segment carries data, or moves the window.
    pub has_more: bool,
}

/// Findings on the current acknowledgment so far.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct News {
    pub prior_una: Seq,
    pub echoed: Option<Instant>,
    pub una_advanced: bool,
    /// Segments that the cumulative acknowledgment covers.
    pub acked: u32,
    /// Segments newly delivered, spurious copies included.
    pub delivered: u32,
    /// Bytes that are newly acknowledged selectively, and those that were before and are now cumulatively.
    sacked_bytes: (u32, u32),
    pub sacked: bool,
    /// True if there was a duplicate SACK.
    pub duplicate: bool,
    /// True if the duplicate SACK was for a tail-loss probe.
    pub duplicate_probe: bool,
    /// True if the acknowledgment carries data, moves the window or acknowledges something.
    pub is_no_duplicate: bool,
    /// True if a segment was delivered that was sent once, before the episode.
    pub original: bool,
    pub ece: bool,
    /// Segments of `delivered` that are reported as marked, for a scalable congestion control.
    pub marked: u32,
    /// True if the peer reneged on earlier reports.
    pub reneging: bool,
    /// True if a retransmission was declared lost.
    pub lost_again: bool,
    pub set_timer: bool,
    /// Transmissions permitted now.
    pub rexmit: Option<Permit>,
    pub newest: Option<Candidate>,
    reordered: Option<Seq>,
    /// Transmission times of the first and the last of the segments sent once that the acknowledgment covers
    /// cumulatively, and of those that it covers selectively.
    pub acked_sent: Option<(Instant, Instant)>,
    sacked_sent: Option<(Instant, Instant)>,
    pub repeated_acked: bool,
}

pub(super) fn span(times: &mut Option<(Instant, Instant)>, sent: Instant) {
    *times = Some((times.map_or(sent, |(first, _)| first), sent));
}

fn earlier(low: &mut Option<Seq>, seq: Seq) {
    *low = Some(low.map_or(seq, |low| low.min(seq)));
}

impl Rack {
    /// Processes an acknowledgment of sent data, including old ones.
    pub fn on_ack(&mut self, s: &mut Stream, now: Instant, arrival: &Arrival) {
        let ack = arrival.ack.ack;
        let mut news = News {
            prior_una: s.snd_una(),
            echoed: arrival.echoed,
            una_advanced: ack.gt(s.snd_una()),
            is_no_duplicate: arrival.has_more,
            ece: arrival.ack.ece.is_on(),
            ..News::default()
        };
        let (was_out, prior_in_flight) = (self.flight.len(), self.flight.in_flight());
        let (prior_sacked, prior_lost) = (self.flight.sacked(), self.rate.lost());
        let prior_highest = self.flight.highest_sacked().unwrap_or(s.snd_una());
        self.permit = Permit::New;
        if ack.lt(s.snd_una()) {
            if !arrival.ack.sack.is_empty() && s.snd_una().since(ack) <= s.max_snd_wnd() {
                self.take_sacks(s, now, arrival.ack, &mut news);
                self.judge(s, now, &mut news);
                self.permit = news.rexmit.unwrap_or(Permit::New);
            }
            return;
        }
        if news.una_advanced {
            s.advance(now, ack, Timer::Keep);
        }
        self.take_sacks(s, now, arrival.ack, &mut news);
        if was_out == 0 {
            self.weigh_marks(s, arrival, &mut news);
            if news.duplicate {
                self.judge(s, now, &mut news);
            }
            self.judge_probe(s, now, &news);
            return;
        }
        if self.is_blind() {
            self.take_cumulative_blindly(s, &mut news);
        } else {
            self.take_cumulative(s, now, prior_highest, &mut news);
        }
        self.weigh_marks(s, arrival, &mut news);
        let delayed = self.is_maybe_delayed(s, &news, prior_sacked);
        let rtt = self.sample_rtt(s, now, delayed, &mut news);
        if let Some(newest) = &news.newest {
            self.reordering.on_ack(self.rate.prior_delivered(newest), self.rate.delivered());
        }
        if self.config.congestion.algorithm().scalable && arrival.marks.is_none() {
            news.marked = self.echoes.count(news.delivered, news.ece);
            news.ece = news.marked > 0;
        }
        self.judge_probe(s, now, &news);
        let dubious =
            !news.is_no_duplicate || news.sacked || news.duplicate || news.ece || self.phase.state != CaState::Open;
        if dubious {
            self.judge(s, now, &mut news);
        }
        if news.set_timer {
            self.restart_timer(s, now);
        }
        self.tell(s, now, &news, &Told { rtt, delayed, prior_in_flight, prior_lost });
        self.permit = news.rexmit.unwrap_or(Permit::New);
    }

    /// Evaluates the peer's counts of marks, if the acknowledgment is not a reordered one (`tcp_accecn_process`).
    #[inline]
    fn weigh_marks(&mut self, s: &mut Stream, arrival: &Arrival, news: &mut News) {
        if let Some(marks) = &arrival.marks
            && (news.acked > 0 || news.sacked || marks.is_fresh)
        {
            let is_exact = !self.is_blind() || matches!(self.phase.state, CaState::Open | CaState::Cwr);
            let (new, known) = news.sacked_bytes;
            let bytes = (s.snd_una().since(news.prior_una) + new).saturating_sub(known);
            let delivery = Delivery { segments: news.delivered, bytes, is_exact };
            let new = s.weigh_marks(marks, &delivery);
            news.marked = new.min(news.delivered);
            news.ece |= new > 0;
        }
    }

    /// Processes SACK blocks, duplicate SACKs among them (Linux `tcp_sacktag_write_queue`).
    fn take_sacks(&mut self, s: &mut Stream, now: Instant, ack: &Ack, news: &mut News) {
        let blocks = ack.sack.as_slice();
        let Some(first) = blocks.first() else { return };
        let duplicate = self.take_duplicate(s, ack.ack, blocks, news);
        let mut sorted = [SackBlock::default(); 4];
        let sorted = &mut sorted[..blocks.len().min(4)];
        sorted.copy_from_slice(&blocks[..sorted.len()]);
        sorted.sort_unstable_by_key(|block| block.left.0.wrapping_sub(s.snd_una().0));
        let from_una = |seq: Seq| seq.0.wrapping_sub(s.snd_una().0);
        let sane = |block: &SackBlock| {
            from_una(block.left) < from_una(block.right) && from_una(block.right) <= from_una(s.snd_nxt())
        };
        let repeated = duplicate.then_some(*first);
        let (high, least) = (self.phase.high, self.min_rtt.get());
        let Self { flight, rate, newest, undo, .. } = self;
        for block in sorted.iter().filter(|block| sane(block)) {
            flight.select(block.left, block.right, |sent, highest| {
                newest.advance(now, sent, least);
                if !sent.is_repeated() {
                    if highest.is_some_and(|highest| sent.seq().lt(highest)) {
                        earlier(&mut news.reordered, sent.seq());
                    }
                    news.original |= sent.end().le(high);
                    span(&mut news.sacked_sent, sent.sent_at());
                }
                rate.on_delivered(sent, &mut news.newest);
                rate.count_delivered(1);
                news.delivered += 1;
                news.sacked_bytes.0 += sent.end().since(sent.seq());
                news.sacked = true;
            });
            if repeated == Some(*block) {
                flight.select_again(block.left, block.right, |sent| {
                    if sent.is_repeated() {
                        undo.on_duplicate(sent.end(), 1);
                        earlier(&mut news.reordered, sent.seq());
                    }
                });
            }
        }
        if self.phase.state != CaState::Loss || self.undo.is_open() {
            self.note_reordering(s, news);
        }
    }

    /// Processes a duplicate SACK. RFC 2883: the first block reports duplicate data if it lies below the acknowledgment
    /// or within the second. Returns whether it does (Linux `tcp_check_dsack`).
    fn take_duplicate(&mut self, s: &Stream, ack: Seq, blocks: &[SackBlock], news: &mut News) -> bool {
        let first = blocks[0];
        let below = first.left.lt(ack);
        let within = blocks.get(1).is_some_and(|second| first.right.le(second.right) && first.left.ge(second.left));
        let len = first.right.since(first.left);
        if !(below || within) || len == 0 || len > s.max_snd_wnd() {
            return false;
        }
        let copies = len.div_ceil(s.mss().max(1));
        let of_probe = copies == 1 && self.probe.is_some_and(|probe| probe.high == first.right);
        // More copies than were sent: the network duplicates packets.
        if self.copies.report(copies) == Origin::Network {
            return false;
        }
        news.duplicate = true;
        news.duplicate_probe |= of_probe;
        news.delivered += copies;
        self.rate.count_delivered(copies);
        if !of_probe {
            self.reordering.on_duplicate();
        }
        if first.right.le(news.prior_una) {
            self.undo.on_duplicate(first.right, copies);
        }
        true
    }

    fn note_reordering(&mut self, s: &Stream, news: &mut News) {
        if let (Some(low), Some(highest)) = (news.reordered.take(), self.flight.highest_sacked()) {
            self.reordering.on_reordered(low, highest, s.mss());
        }
    }

    /// Removes the segments that the cumulative acknowledgment covers (Linux `tcp_clean_rtx_queue`).
    fn take_cumulative(&mut self, s: &Stream, now: Instant, prior_highest: Seq, news: &mut News) {
        let (high, least, echoed) = (self.phase.high, self.min_rtt.get(), news.echoed);
        let Self { flight, rate, newest, .. } = self;
        let mut reordered = None;
        flight.acknowledge(s.snd_una(), |sent| {
            news.acked += 1;
            if sent.is_repeated() {
                news.repeated_acked = true;
            } else if !sent.is_sacked() {
                span(&mut news.acked_sent, sent.sent_at());
                earlier(&mut reordered, sent.seq());
                news.original |= sent.end().le(high);
            }
            if !sent.is_sacked() {
                news.delivered += 1;
                rate.count_delivered(1);
                rate.on_delivered(sent, &mut news.newest);
                // An echo older than the retransmission is the original's.
                let tick = |at: Instant| at.as_nanos() / 1_000_000;
                let spurious = sent.is_repeated() && echoed.is_some_and(|echoed| tick(echoed) < tick(sent.sent_at()));
                if !spurious {
                    newest.advance(now, sent, least);
                }
            } else {
                news.sacked_bytes.1 += sent.end().since(sent.seq());
            }
        });
        news.is_no_duplicate |= news.acked > 0;
        news.set_timer = news.acked > 0;
        news.reneging = flight.front().is_some_and(|oldest| oldest.is_sacked());
        // A hole filled by a segment that was sent once shows reordering.
        if let Some(low) = reordered
            && low.lt(prior_highest)
        {
            self.reordering.on_reordered(low, prior_highest, s.mss());
        }
    }

    /// Returns whether the receiver may have delayed this acknowledgment: it is for one short segment.
    fn is_maybe_delayed(&self, s: &Stream, news: &News, prior_sacked: u32) -> bool {
        news.acked == 1
            && news.acked_sent.is_some()
            && !news.repeated_acked
            && prior_sacked == 0
            && s.snd_una().since(news.prior_una) < s.mss()
            && !(news.sacked || news.duplicate || news.ece)
            && news.newest.as_ref().is_some_and(|newest| self.rate.prior_delivered(newest) + 1 == self.rate.delivered())
    }

    /// Takes round-trip samples (Linux `tcp_ack_update_rtt`): the oldest segment's for the timeout; returns the latest
    /// one's.
    fn sample_rtt(&mut self, s: &mut Stream, now: Instant, delayed: bool, news: &mut News) -> Option<Duration> {
        let acked = news.acked_sent.filter(|_| !news.repeated_acked);
        let newest = news.sacked_sent.or(acked).map(|(_, last)| last);
        let (oldest, newest) = match (acked.or(news.sacked_sent), newest) {
            (Some((first, _)), newest) => (first, newest),
            (None, _) => {
                let echoed = news.echoed.filter(|_| news.acked > 0)?;
                (echoed, Some(echoed))
            }
        };
        let rtt = newest.map(|sent| now.since(sent).max(Duration::from_micros(1)));
        if let Some(rtt) = rtt
            && !(delayed && self.min_rtt.get().is_some_and(|least| rtt > least))
        {
            self.min_rtt.update(now, rtt);
        }
        s.sample_rtt(oldest, now);
        // A SACK of data sent after the oldest segment shows that the path is alive; the timeout must not derive from
        // one sent before it.
        if news.acked == 0
            && let (Some((first, _)), Some(head)) = (news.sacked_sent, self.flight.front())
            && first < head.sent_at()
        {
            news.set_timer = true;
        }
        rtt
    }

    /// Notifies window reduction and congestion control (Linux `tcp_cong_control`).
    fn tell(&mut self, s: &Stream, now: Instant, news: &News, told: &Told) {
        let newly_lost = (self.rate.lost() - told.prior_lost) as u32;
        let rate = self.rate.sample(now, news.delivered, news.newest.as_ref(), self.least_rtt());
        let rate = rate.filter(|_| !self.reneged).map(|mut rate| {
            rate.is_ack_delayed = told.delayed;
            rate
        });
        let round_ended = self.rate.ends_round(news.newest.as_ref());
        if self.in_reduction() {
            self.reduce(&Step {
                delivered: news.delivered,
                in_flight: self.flight.in_flight(),
                ssthresh: self.control.ssthresh(),
                is_safe: news.una_advanced && newly_lost == 0,
            });
        }
        let may_raise = if self.reordering.is_high() { news.acked > 0 || news.sacked } else { news.acked > 0 };
        let sample = AckSample {
            now,
            state: self.phase.state,
            delivered: news.delivered,
            acked: news.acked,
            total_delivered: self.rate.delivered(),
            newly_lost,
            total_lost: self.rate.lost(),
            prior_in_flight: told.prior_in_flight,
            in_flight: self.flight.in_flight(),
            una_advanced: news.una_advanced,
            una: s.snd_una(),
            nxt: s.snd_nxt(),
            may_raise,
            round_ended,
            is_cwnd_limited: self.usage.is_limited(self.control.window(), self.is_slow_start()),
            ece: news.ece,
            marked: news.marked,
            rtt: told.rtt,
            srtt: s.rtt().srtt().unwrap_or(Duration::ZERO),
            min_rtt: self.min_rtt.get().unwrap_or(Duration::ZERO),
            rate,
            next_send: if self.is_paced() { now + self.pacer.delay(now) } else { now },
        };
        self.control.on_ack(&sample);
        if self.control.holds_back() {
            self.rate.limit_by_application(self.flight.in_flight());
        }
    }

    /// Applies window reduction, unless the congestion control sets the window itself.
    pub(super) fn reduce(&mut self, step: &Step) {
        if !self.control.governs_recovery()
            && let Some(window) = self.prr.on_ack(step)
        {
            self.control.set_window(window);
        }
    }
}

/// Findings before the acknowledgment was evaluated.
struct Told {
    rtt: Option<Duration>,
    delayed: bool,
    prior_in_flight: u32,
    prior_lost: u64,
}
