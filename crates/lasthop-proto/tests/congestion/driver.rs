//! Feeds a control with acknowledgments like a sender with unlimited data: it sends what the window allows, and the
//! data acknowledged was in flight.

use std::collections::VecDeque;

use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::congestion::control::{AckSample, CaState, CongestionControl, Episode, Reduction, Totals};
use lasthop_proto::tcp::congestion::{ControlRule, Start};
use lasthop_proto::time::{Duration, Instant};

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Start parameters as in Linux: ten segments, `HZ` 250.
pub fn start() -> Start {
    Start { window: 10, bound: u32::MAX, mss: 1448, jiffy: ms(4), seed: 1 }
}

pub struct Driver {
    pub control: Box<dyn CongestionControl>,
    pub now: Instant,
    pub state: CaState,
    /// Transmission time of each segment in flight.
    flight: VecDeque<Instant>,
    /// Number of segments delivered.
    pub delivered: u64,
    sent: u64,
    round_end: u64,
    min_rtt: Duration,
}

impl Driver {
    pub fn new(rule: ControlRule) -> Self {
        Self::starting(rule, &start())
    }

    pub fn starting(rule: ControlRule, start: &Start) -> Self {
        let mut driver = Self {
            control: rule.build(start),
            now: Instant::ZERO,
            state: CaState::Open,
            flight: VecDeque::new(),
            delivered: 0,
            sent: 0,
            round_end: 0,
            min_rtt: Duration::MAX,
        };
        driver.fill();
        driver
    }

    pub fn window(&self) -> u32 {
        self.control.window()
    }

    pub fn ssthresh(&self) -> u32 {
        self.control.ssthresh()
    }

    pub fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// Sends the segments that the window allows.
    pub fn fill(&mut self) {
        while (self.flight.len() as u32) < self.control.window() {
            self.flight.push_back(self.now);
            self.sent += 1;
        }
    }

    /// Acknowledges the oldest `segments`; the round-trip time is the newest's.
    pub fn ack(&mut self, segments: u32) {
        self.ack_in(segments, None);
    }

    /// Acknowledges the oldest `segments` with the given round-trip time.
    pub fn ack_with(&mut self, segments: u32, rtt: Duration) {
        self.ack_in(segments, Some(rtt));
    }

    /// A retransmission arrives while an earlier segment is missing: this gives a round-trip time from the delivery
    /// information, but not from sequence numbers.
    pub fn arrive_out_of_order(&mut self, rtt: Duration) {
        self.tell_ack(&AckSample {
            acked: 0,
            una_advanced: false,
            may_raise: false,
            round_ended: true,
            ..self.sample(1, rtt)
        });
    }

    fn tell_ack(&mut self, sample: &AckSample) {
        self.control.on_ack(sample);
    }

    /// Builds the sample of an acknowledgment of `segments`.
    fn sample(&self, segments: u32, rtt: Duration) -> AckSample {
        let in_flight = self.flight.len() as u32;
        AckSample {
            now: self.now,
            state: self.state,
            delivered: segments,
            acked: segments,
            total_delivered: self.delivered,
            newly_lost: 0,
            total_lost: 0,
            prior_in_flight: in_flight + segments,
            in_flight,
            una_advanced: true,
            una: Seq(self.delivered as u32),
            nxt: Seq(self.sent as u32),
            may_raise: true,
            round_ended: false,
            is_cwnd_limited: true,
            ece: false,
            marked: 0,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: self.min_rtt,
            next_send: self.now,
            rate: None,
        }
    }

    fn ack_in(&mut self, segments: u32, rtt: Option<Duration>) {
        let prior_in_flight = self.flight.len() as u32;
        assert!(segments <= prior_in_flight, "{segments} of {prior_in_flight} acknowledged");
        let mut sent = self.now;
        for _ in 0..segments {
            sent = self.flight.pop_front().expect("in flight");
        }
        let rtt = rtt.unwrap_or(self.now.since(sent));
        self.min_rtt = self.min_rtt.min(rtt);
        self.delivered += u64::from(segments);
        let round_ended = self.delivered > self.round_end;
        if round_ended {
            self.round_end = self.sent;
        }
        let sample = AckSample { round_ended, ..self.sample(segments, rtt) };
        self.tell_ack(&sample);
        self.fill();
    }

    pub fn in_flight(&self) -> u32 {
        self.flight.len() as u32
    }

    /// Sets the window at which a test begins.
    pub fn control_at(&mut self, window: u32) {
        self.control.set_window(window);
        self.fill();
    }

    pub fn tell(&mut self, what: Episode) {
        self.control.on_episode(self.now, what);
    }

    /// A loss that is repaired within the round trip: the window is at its threshold afterwards.
    pub fn lose(&mut self) {
        self.tell(Episode::Reduce(Reduction::Loss));
        self.control.set_window(self.control.ssthresh());
        self.tell(Episode::Ended);
        // Data in flight beyond the window has been delivered in the meantime.
        let left = self.control.window().min(self.flight.len() as u32);
        self.delivered += (self.flight.len() as u32 - left) as u64;
        self.flight.truncate(left as usize);
        self.fill();
    }

    /// A timeout: everything is declared lost, the first segment is retransmitted.
    pub fn time_out(&mut self, again: bool) {
        let totals = Totals { delivered: self.delivered, lost: 0, delivered_at: self.now };
        self.tell(Episode::Timeout { again, totals });
        self.flight.clear();
        self.sent = self.delivered;
        self.round_end = self.delivered;
        self.control.set_window(1);
        self.fill();
    }
}
