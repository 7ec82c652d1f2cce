//! A path with one bottleneck for a control: a sender that paces and counts according to the contract, a queue that
//! drops packets when full, and a fixed delay. The acknowledgment of a segment sent later reveals a loss;
//! acknowledgments are never lost. Time is exact and randomness is a fixed sequence, so every run is identical.

use std::collections::{BTreeSet, VecDeque};

use lasthop_proto::seq::Seq;

use lasthop_proto::tcp::congestion::control::{
    AckSample, CaState, CongestionControl, Episode, LostSegment, PathModel, Phase, RateSample, Reduction, Totals,
};
use lasthop_proto::time::{Duration, Instant};

pub const MSS: u64 = 1448;

/// Policer that drops the traffic of a flow above a rate.
pub struct Policer {
    /// Segments per second.
    pub rate: f64,
    /// Segments that may exceed the rate at once.
    pub burst: f64,
    pub tokens: f64,
    pub at: Instant,
}

struct Sent {
    segment: u64,
    at: Instant,
    /// Arrival time of its acknowledgment; `None` if it is lost.
    back: Option<Instant>,
    first_sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    lost: u64,
    in_flight: u32,
    is_app_limited: bool,
}

pub struct Path {
    pub control: Box<dyn CongestionControl>,
    pub now: Instant,
    /// Segments per second.
    pub rate: f64,
    pub rtt: Duration,
    /// Maximum number of queued segments.
    pub buffer: f64,
    /// Probability that a segment is additionally lost, by a fixed pseudorandom sequence.
    pub loss: f64,
    pub policer: Option<Policer>,
    /// Acknowledgments wait for the next multiple of this duration.
    pub slot: Duration,
    /// Segments per second that the application writes; `None`: unlimited.
    pub app: Option<f64>,
    app_credit: f64,
    app_at: Instant,
    flight: VecDeque<Sent>,
    /// Segments sent and not acknowledged.
    unacknowledged: BTreeSet<u64>,
    /// Unacknowledged segments that are lost and not retransmitted.
    repairs: VecDeque<u64>,
    next_segment: u64,
    wire_free: Instant,
    next_send: Instant,
    pub delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    pub lost: u64,
    pub sent: u64,
    app_limited_until: u64,
    state: CaState,
    /// Recovery ends when all segments before this one are acknowledged.
    recover: u64,
    next_round: u64,
    min_rtt: Duration,
    srtt: Duration,
    chance: u64,
    is_window_used: bool,
}

impl Path {
    pub fn new(control: Box<dyn CongestionControl>, rate_mbps: f64, rtt: Duration, buffer: f64) -> Self {
        let mut path = Self {
            control,
            now: Instant::ZERO,
            rate: rate_mbps * 1e6 / 8.0 / MSS as f64,
            rtt,
            buffer,
            loss: 0.0,
            policer: None,
            slot: Duration::ZERO,
            app: None,
            app_credit: 0.0,
            app_at: Instant::ZERO,
            flight: VecDeque::new(),
            unacknowledged: BTreeSet::new(),
            repairs: VecDeque::new(),
            next_segment: 0,
            wire_free: Instant::ZERO,
            next_send: Instant::ZERO,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            lost: 0,
            sent: 0,
            app_limited_until: 0,
            state: CaState::Open,
            recover: 0,
            next_round: 0,
            min_rtt: rtt,
            srtt: rtt,
            chance: 1,
            is_window_used: false,
        };
        path.control.on_episode(path.now, Episode::Established { rtt: Some(rtt) });
        path
    }

    pub fn model(&self) -> PathModel {
        self.control.model().expect("a control with a model")
    }

    pub fn phase(&self) -> Phase {
        self.model().phase
    }

    /// Estimated rate over the path's rate.
    pub fn rate_ratio(&self) -> f64 {
        self.model().rate as f64 / (self.rate * MSS as f64)
    }

    pub fn in_flight(&self) -> u32 {
        self.flight.len() as u32
    }

    pub fn set_mbps(&mut self, mbps: f64) {
        self.rate = mbps * 1e6 / 8.0 / MSS as f64;
    }

    fn draw(&mut self) -> f64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sends a segment through the path and returns the arrival time of its acknowledgment; `None` if the path drops
    /// it.
    fn carry(&mut self) -> Option<Instant> {
        if let Some(policer) = &mut self.policer {
            let since = self.now.since(policer.at).as_secs_f64();
            policer.tokens = (policer.tokens + since * policer.rate).min(policer.burst);
            policer.at = self.now;
            if policer.tokens < 1.0 {
                return None;
            }
            policer.tokens -= 1.0;
        }
        if self.loss > 0.0 && self.draw() < self.loss {
            return None;
        }
        let wait = self.wire_free.since(self.now).as_secs_f64() * self.rate;
        if wait > self.buffer {
            return None;
        }
        let start = self.wire_free.max(self.now);
        self.wire_free = start + Duration::from_secs_f64(1.0 / self.rate);
        let back = self.wire_free + self.rtt;
        let slot = self.slot.as_nanos();
        Some(if slot == 0 { back } else { Instant::from_nanos(back.as_nanos().div_ceil(slot) * slot) })
    }

    fn refill_app(&mut self) {
        if let Some(rate) = self.app {
            self.app_credit = (self.app_credit + self.now.since(self.app_at).as_secs_f64() * rate).min(rate.max(1.0));
        }
        self.app_at = self.now;
    }

    fn has_data(&self) -> bool {
        self.app.is_none() || self.app_credit >= 1.0 || !self.repairs.is_empty()
    }

    fn send(&mut self) {
        self.refill_app();
        let pacing = self.control.pacing();
        while self.next_send <= self.now {
            let window = self.control.window();
            let room = window.saturating_sub(self.in_flight());
            if room == 0 {
                self.is_window_used = true;
                return;
            }
            if !self.has_data() {
                self.app_limited_until = self.delivered + self.lost + u64::from(self.in_flight()).max(1);
                return;
            }
            let burst = pacing.map_or(u32::MAX, |pacing| pacing.quantum.max(1)).min(room);
            for _ in 0..burst {
                if !self.has_data() {
                    break;
                }
                self.send_one();
            }
            if let Some(pacing) = pacing {
                let span = u64::from(burst) * MSS * 1_000_000_000 / pacing.rate.max(1);
                self.next_send = self.next_send.max(self.now) + Duration::from_nanos(span);
            }
        }
    }

    fn send_one(&mut self) {
        if self.flight.is_empty() {
            let idle = self.now.since(self.delivered_at.max(self.first_sent));
            let is_app_limited = self.delivered + self.lost < self.app_limited_until;
            self.first_sent = self.now;
            self.delivered_at = self.now;
            self.control.on_episode(self.now, Episode::SendingAgain { idle, is_app_limited });
        }
        let segment = self.repairs.pop_front().unwrap_or_else(|| {
            if self.app.is_some() {
                self.app_credit -= 1.0;
            }
            self.next_segment += 1;
            self.next_segment - 1
        });
        self.unacknowledged.insert(segment);
        let back = self.carry();
        self.sent += 1;
        self.flight.push_back(Sent {
            segment,
            at: self.now,
            back,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            lost: self.lost,
            in_flight: self.flight.len() as u32 + 1,
            is_app_limited: self.delivered + self.lost < self.app_limited_until,
        });
    }

    /// Time of the next acknowledgment: that of the first segment in flight that is not lost.
    fn next_ack(&self) -> Option<Instant> {
        self.flight.iter().find_map(|sent| sent.back)
    }

    fn totals(&self) -> Totals {
        Totals { delivered: self.delivered, lost: self.lost, delivered_at: self.delivered_at }
    }

    /// Handles a timeout: all data in flight is lost.
    fn time_out(&mut self) {
        self.now += self.srtt + Duration::from_millis(200);
        self.lost += self.flight.len() as u64;
        self.control
            .on_episode(self.now, Episode::Timeout { again: self.state == CaState::Loss, totals: self.totals() });
        self.flight.clear();
        self.control.set_window(1);
        self.state = CaState::Loss;
        self.repairs = self.unacknowledged.iter().copied().collect();
        self.recover = self.next_segment;
        self.next_send = self.now;
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.in_flight();
        let (mut newly_lost, mut delivered, mut newest) = (0, 0, None);
        while let Some(first) = self.flight.front() {
            match first.back {
                Some(back) if back > self.now => break,
                // The acknowledgment of a later segment reveals the loss.
                None if !self.flight.iter().any(|sent| sent.back.is_some_and(|back| back <= self.now)) => break,
                _ => {}
            }
            let sent = self.flight.pop_front().expect("looked at");
            if sent.back.is_some() {
                delivered += 1;
                self.delivered += 1;
                self.unacknowledged.remove(&sent.segment);
                newest = Some(sent);
            } else {
                newly_lost += 1;
                self.lost += 1;
                self.repairs.push_back(sent.segment);
                if self.state < CaState::Recovery {
                    self.state = CaState::Recovery;
                    self.recover = self.next_segment;
                    self.control.on_episode(self.now, Episode::Reduce(Reduction::Loss));
                }
                let segment = LostSegment {
                    tx_in_flight: sent.in_flight,
                    lost: (self.lost - sent.lost) as u32,
                    is_app_limited: sent.is_app_limited,
                };
                self.control.on_lost(self.now, &segment);
            }
        }
        let Some(newest) = newest else { return };
        let una = self.unacknowledged.first().copied().unwrap_or(self.next_segment);
        if self.state >= CaState::Recovery && una >= self.recover {
            self.control.on_episode(self.now, Episode::Ended);
            if newly_lost > 0 || !self.repairs.is_empty() {
                // One recovery follows another with the same acknowledgment.
                self.state = CaState::Recovery;
                self.recover = self.next_segment;
                self.control.on_episode(self.now, Episode::Reduce(Reduction::Loss));
            } else {
                self.state = CaState::Open;
            }
        }
        let rtt = self.now.since(newest.at);
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt = (self.srtt * 7 + rtt) / 8;
        let interval = newest.at.since(newest.first_sent).max(self.now.since(newest.delivered_at));
        self.first_sent = newest.at;
        self.delivered_at = self.now;
        let rate = (interval >= self.min_rtt).then_some(RateSample {
            delivered: (self.delivered - newest.delivered) as u32,
            interval,
            prior_delivered: newest.delivered,
            tx_in_flight: newest.in_flight,
            lost: (self.lost - newest.lost) as u32,
            is_app_limited: newest.is_app_limited,
            is_ack_delayed: false,
        });
        let round_ended = newest.delivered >= self.next_round;
        if round_ended {
            self.next_round = self.delivered;
        }
        self.control.on_ack(&AckSample {
            now: self.now,
            state: self.state,
            delivered,
            acked: delivered,
            total_delivered: self.delivered,
            newly_lost,
            total_lost: self.lost,
            prior_in_flight,
            in_flight: self.in_flight(),
            una_advanced: true,
            una: Seq(self.delivered as u32),
            nxt: Seq(self.delivered as u32 + self.in_flight()),
            may_raise: true,
            round_ended,
            is_cwnd_limited: core::mem::take(&mut self.is_window_used),
            ece: false,
            marked: 0,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            next_send: self.next_send.max(self.now),
            rate,
        });
        if self.control.holds_back() {
            self.app_limited_until = self.delivered + self.lost + u64::from(self.in_flight()).max(1);
        }
    }

    /// Processes one event: an acknowledgment, or the expiry of the pacing timer.
    pub fn step(&mut self) {
        self.send();
        let ack = self.next_ack();
        let may_send = self.in_flight() < self.control.window() && self.has_data();
        let app = match self.app {
            Some(rate) if !self.has_data() => {
                Some(self.now + Duration::from_secs_f64(((1.0 - self.app_credit) / rate.max(1e-3)).clamp(1e-6, 0.1)))
            }
            _ => None,
        };
        let next = [ack, may_send.then_some(self.next_send), app].into_iter().flatten().min();
        let Some(next) = next else { return self.time_out() };
        self.now = self.now.max(next);
        if ack.is_some_and(|ack| ack <= self.now) {
            self.acknowledge();
        }
    }

    /// Runs for `span`.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            self.step();
        }
    }

    /// Runs until `is_there` holds, for at most `most`.
    pub fn run_until(&mut self, most: Duration, is_there: impl Fn(&Self) -> bool) {
        let until = self.now + most;
        while !is_there(self) {
            assert!(self.now < until, "not within {most}: {:?}, window {}", self.model(), self.control.window());
            self.step();
        }
    }

    /// Runs for `span` and returns the delivered share of the path's capacity.
    pub fn share(&mut self, span: Duration) -> f64 {
        let (delivered, from) = (self.delivered, self.now);
        self.run(span);
        (self.delivered - delivered) as f64 / (self.now.since(from).as_secs_f64() * self.rate)
    }
}
