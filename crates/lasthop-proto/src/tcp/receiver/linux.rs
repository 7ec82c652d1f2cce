//! Linux 6.18's receiver: timing of acknowledgments (quick and delayed acknowledgments, `tcp_input.c` and
//! `tcp_output.c`), compression of selective acknowledgments, and acknowledgments on reads.

mod offer;
mod reads;
mod slot;

use super::autotune::{Autotune, RoundTrip};
use super::marks::Marks;
use super::sack::Table;
use super::{AckDue, Receiver};
use crate::packet::{Ecn, SackBlock, SackBlocks};
use crate::seq::Seq;
use crate::tcp::config::{Clock, SackCompression, Switch, TcpConfig};
use crate::tcp::info::TcpInfo;
use crate::tcp::rtt::jiffies_deadline;
use crate::time::{Duration, Instant};
pub(super) use slot::Slot;

/// Initial assumption of the peer's segment size (`TCP_MSS_DEFAULT`).
const FIRST_MSS: u32 = 536;
/// Minimum length of a full segment, for links with tiny packets (`TCP_MIN_MSS`).
const LEAST_MSS: u32 = 88;
/// Maximum number of quick acknowledgments (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Minimum delay of acknowledgments (`TCP_ATO_MIN`, equal to `TCP_DELACK_MIN`).
const LEAST_DELAY: Duration = Duration::from_millis(40);
/// Maximum delay of acknowledgments: `TCP_DELACK_MAX`, minus a jiffy of 4 ms (`tcp_delack_max`).
const MOST_DELAY: Duration = Duration::from_millis(196);
/// Number of duplicates that leave at once for each `rcv_nxt` (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u8 = 3;
/// Parameters of compression: `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`, `tcp_comp_sack_nr`.
const COMPRESSION_DELAY: Duration = Duration::from_millis(1);
const COMPRESSION_SLACK: Duration = Duration::from_micros(100);
const COMPRESSION_MOST: u32 = 44;

/// A segment with data, and the additional information that a Linux receiver evaluates.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// First sequence number.
    pub seq: Seq,
    /// Payload bytes.
    pub len: u32,
    /// Payload bytes of each segment, of which receive offload may have merged several (`gso_size`).
    pub size: u32,
    /// On if the FIN follows.
    pub fin: Switch,
    /// On if PSH is set.
    pub push: Switch,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// On if CWR is set, on a connection with ECN.
    pub cwr: Switch,
    /// Timestamp that the segment echoes, and the time since that timestamp left.
    pub echo: Option<(u32, Duration)>,
    /// The sender's smoothed round trip.
    pub srtt: Option<Duration>,
    /// The sender's retransmission timeout.
    pub rto: Duration,
}

/// Indicates whether a short segment, or one with PSH, waits for the application to read it (`ICSK_ACK_PUSHED`,
/// `ICSK_ACK_PUSHED2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pushed {
    No,
    Once,
    Again,
}

/// Additional state of a Linux receiver.
#[derive(Clone, Debug)]
pub(super) struct Linux {
    table: Table,
    /// Blocks for an acknowledgment that leaves ahead of the next one.
    early: Option<SackBlocks>,
    tuning: Option<Autotune>,
    round_trip: RoundTrip,
    /// Estimated full segment size of the peer (`rcv_mss`).
    mss: u32,
    /// Length of the last segment, if that was a short one.
    last_short: u32,
    /// Number of acknowledgments that leave at once (`icsk_ack.quick`).
    quick: u32,
    /// Delay of acknowledgments (`icsk_ack.ato`); zero before the first data.
    delay: Duration,
    /// Time of the last in-order data (`lrcvtime`).
    last_arrival: Instant,
    /// Time of the last data. Reads follow immediately, or count as if they did.
    now: Instant,
    /// On if data is sent in both directions, so that acknowledgments can be piggybacked (`pingpong`).
    interactive: Switch,
    /// On if an acknowledgment is owed (`ICSK_ACK_SCHED`).
    scheduled: Switch,
    /// On if the owed acknowledgment has to leave at once (`ICSK_ACK_NOW`).
    at_once: Switch,
    pushed: Pushed,
    /// Number of compressed acknowledgments, and the time of their release.
    compressed: u32,
    release: Option<Instant>,
    /// Number of duplicates that left at once for this value of `rcv_nxt`.
    duplicates: (Seq, u8),
    rto: Duration,
}

impl Linux {
    pub fn new(config: &TcpConfig) -> Self {
        let tuning = config.receiver.tunes_itself().then(|| {
            let timestamps = if config.common.timestamps.is_on() { 12 } else { 0 };
            Autotune::new(config.receiver.receive_buffer, config.common.mss + timestamps)
        });
        Self {
            table: Table::default(),
            early: None,
            tuning,
            round_trip: RoundTrip::default(),
            mss: FIRST_MSS,
            last_short: 0,
            quick: 0,
            delay: Duration::ZERO,
            last_arrival: Instant::ZERO,
            now: Instant::ZERO,
            interactive: Switch::Off,
            scheduled: Switch::Off,
            at_once: Switch::Off,
            pushed: Pushed::No,
            compressed: 0,
            release: None,
            duplicates: (Seq(0), 0),
            rto: config.common.rto_initial,
        }
    }

    /// Fills in the values of `info` that this state contains.
    #[cold]
    pub fn describe(&self, info: &mut TcpInfo) {
        info.receiver.ato = self.delay;
        info.receiver.rcv_mss = self.mss;
        info.receiver.rcv_rtt = self.round_trip.get();
        info.receiver.rcv_ssthresh = self.tuning.as_ref().map_or(0, Autotune::threshold);
    }

    pub fn tuning(&self) -> Option<&Autotune> {
        self.tuning.as_ref()
    }

    /// Records that a SYN of the peer is answered; segments will carry `mss` bytes.
    pub fn answer_syn(&mut self, mss: u32) {
        if let Some(tuning) = &mut self.tuning {
            tuning.answer_syn(mss);
        }
    }

    /// Records that the handshake is complete.
    pub fn start(&mut self, now: Instant, timestamps: Switch) {
        self.now = now;
        if let Some(tuning) = &mut self.tuning {
            tuning.start(now, if timestamps.is_on() { 12 } else { 0 });
        }
    }

    pub fn mss(&self) -> u32 {
        self.mss
    }

    pub fn release(&self) -> Option<Instant> {
        self.release
    }

    /// Grants quick acknowledgments for half the segments in the window of `window` bytes (`tcp_incr_quickack`).
    fn hurry(&mut self, most: u32, window: u32) {
        let count = match window / (2 * self.mss.max(1)) {
            0 => 2,
            count => count,
        };
        self.quick = self.quick.max(count.min(most));
    }

    /// Enters quick mode (`tcp_enter_quickack_mode`).
    fn enter_quick(&mut self, most: u32, window: u32) {
        self.hurry(most, window);
        self.interactive = Switch::Off;
        self.delay = LEAST_DELAY;
    }

    fn is_quick(&self) -> bool {
        self.quick > 0 && !self.interactive.is_on()
    }

    /// Records that an acknowledgment leaves (`tcp_event_ack_sent`).
    fn on_ack_sent(&mut self) {
        (self.compressed, self.release) = (0, None);
        if self.quick > 0 && self.scheduled.is_on() {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = LEAST_DELAY;
            }
        }
        (self.scheduled, self.at_once, self.pushed) = (Switch::Off, Switch::Off, Pushed::No);
    }

    /// Updates the estimate of the peer's segment size (`tcp_measure_rcv_mss`).
    fn measure_mss(&mut self, arrival: &Arrival, announced: u32, window: u32) {
        let last = core::mem::take(&mut self.last_short);
        let len = arrival.size;
        if len >= self.mss {
            if len != self.mss
                && let Some(tuning) = &mut self.tuning
            {
                tuning.learn_overhead(len, window);
            }
            self.mss = len.min(announced.max(1));
            if arrival.push.is_on() && self.pushed == Pushed::No {
                self.pushed = Pushed::Once;
            }
            return;
        }
        let ends = arrival.push.is_on() || arrival.fin.is_on();
        if len >= FIRST_MSS || len >= LEAST_MSS && !ends {
            self.last_short = len;
            if len == last {
                self.mss = len;
                return;
            }
        }
        self.pushed = if self.pushed == Pushed::No { Pushed::Once } else { Pushed::Again };
    }

    /// Sets the delay from the interval between arrivals (`tcp_event_data_recv`).
    fn measure_gap(&mut self, now: Instant, window: u32) {
        let gap = now.since(self.last_arrival);
        self.last_arrival = now;
        if self.delay == Duration::ZERO {
            self.hurry(QUICK, window);
            self.delay = LEAST_DELAY;
        } else if gap <= LEAST_DELAY / 2 {
            self.delay = self.delay / 2 + LEAST_DELAY / 2;
        } else if gap < self.delay {
            self.delay = (self.delay / 2 + gap).min(self.rto);
        } else if gap > self.rto {
            self.hurry(QUICK, window);
        }
    }

    /// Evaluates marks (`tcp_data_ecn_check`), after which a sender's window may be very small.
    fn see_marks(&mut self, marks: &mut Marks, ecn: Ecn, window: u32) {
        if !marks.used.is_on() {
            return;
        }
        if marks.are_per_packet() {
            if marks.see(ecn) {
                self.at_once = Switch::On;
            }
            return;
        }
        match ecn {
            // On a connection that has shown it is ECN-capable, most likely a retransmission.
            Ecn::NotEct if marks.seen.is_on() => self.enter_quick(2, window),
            Ecn::NotEct => {}
            Ecn::Ce if !marks.echo.is_on() => self.enter_quick(2, window),
            Ecn::Ce | Ecn::Ect0 | Ecn::Ect1 => {}
        }
        marks.see(ecn);
    }

    /// Returns the time for which the owed acknowledgment may be delayed (`tcp_send_delayed_ack`).
    fn wait(&self, srtt: Option<Duration>) -> Duration {
        let mut wait = self.delay;
        if wait > LEAST_DELAY {
            let patient = self.interactive.is_on() || self.pushed != Pushed::No;
            let mut most = Duration::from_millis(if patient { 200 } else { 500 });
            if let Some(srtt) = srtt {
                most = most.min(srtt.max(LEAST_DELAY));
            }
            wait = wait.min(most);
        }
        wait.min(MOST_DELAY)
    }
}

/// Position of a segment relative to the expected one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Next,
    Ahead,
    Useless,
}

impl Receiver {
    /// Processes a segment with data or a FIN: the equivalent of [`Receiver::on_data`] for a Linux receiver.
    pub fn on_arrival(&mut self, now: Instant, arrival: &Arrival) {
        let end = arrival.seq + (arrival.len + u32::from(arrival.fin.is_on()));
        if end.lt(self.last_ack_sent) {
            return self.answer_old(arrival.seq, end);
        }
        self.linux.begin(&self.config);
        let Some(mut linux) = self.linux.take() else { return };
        self.place_arrival(now, arrival, &mut linux);
        self.settle_arrival(now, arrival, &mut linux);
        self.linux.put(linux);
    }

    /// Stores the data (`tcp_data_queue`).
    fn place_arrival(&mut self, now: Instant, arrival: &Arrival, linux: &mut Linux) {
        let Arrival { seq, len, ecn, .. } = *arrival;
        let end = seq + (len + u32::from(arrival.fin.is_on()));
        let window = self.offered();
        (linux.rto, linux.now) = (arrival.rto, now);
        linux.scheduled = Switch::On;
        // An unreported duplicate is never reported (`tcp_data_queue`).
        self.duplicate = None;
        if let Some((echo, age)) = arrival.echo
            && len >= linux.mss
        {
            linux.round_trip.on_echo(echo, age, self.unread());
        }
        if arrival.cwr.is_on() {
            linux.at_once = Switch::On;
        }
        let had_more = self.has_ahead();
        match self.judge_place(arrival, end, linux) {
            Place::Useless => {
                if seq.lt(self.rcv_nxt) {
                    self.note_duplicates(seq, if end.lt(self.rcv_nxt) { end } else { self.rcv_nxt });
                }
                linux.enter_quick(QUICK, window);
            }
            Place::Next => {
                self.note_duplicates(seq, end);
                self.place(seq + len, seq, len, arrival.fin);
                if len > 0 {
                    linux.measure_mss(arrival, self.announced(), window);
                    // The hole that it fills is processed afterwards.
                    linux.round_trip.on_data(now, if end.lt(self.rcv_nxt) { end } else { self.rcv_nxt }, window);
                    linux.measure_gap(now, window);
                    linux.see_marks(&mut self.marks, ecn, window);
                    if len >= 128 {
                        self.grow_window((len, arrival.size), linux);
                    }
                }
                if had_more && !self.has_ahead() {
                    // RFC 5681 §4.2: the gap is filled.
                    linux.at_once = Switch::On;
                }
                linux.table.forget_before(self.rcv_nxt);
                if self.finished() {
                    self.end_stream(linux);
                }
            }
            Place::Ahead => {
                self.note_duplicates(seq, end);
                linux.see_marks(&mut self.marks, ecn, window);
                // Since 6.17 (`tcp_data_queue_ofo`): a connection whose first segment is lost learns the size of the
                // others.
                linux.measure_mss(arrival, self.announced(), window);
                // The window grows before the segment is stored, and not at all for data already present
                // (`tcp_data_queue_ofo`).
                let is_known = self.runs.iter().any(|run| run.left.le(seq) && (seq + len).le(run.right));
                if self.sack.is_on() && !is_known {
                    self.grow_window((len, arrival.size), linux);
                }
                self.place(seq + len, seq, len, arrival.fin);
                if self.latest.is_some() || len == 0 {
                    self.list_block(SackBlock { left: seq, right: end }, linux);
                }
                if let Some(tuning) = &mut linux.tuning {
                    tuning.on_out_of_order(self.holdings(linux.mss));
                }
            }
        }
    }

    /// Returns the position of a segment that ends at `end`, its FIN included.
    fn judge_place(&self, arrival: &Arrival, end: Seq, linux: &Linux) -> Place {
        let (seq, edge) = (arrival.seq, self.rcv_adv);
        let closed = edge == self.rcv_nxt;
        if seq == self.rcv_nxt && closed && arrival.len == 0 {
            // A FIN takes no memory.
            Place::Next
        } else if end.le(self.rcv_nxt) || !seq.lt(edge) || closed || self.is_overfull(linux) {
            Place::Useless
        } else if seq.le(self.rcv_nxt) {
            Place::Next
        } else {
            Place::Ahead
        }
    }

    /// Returns whether anything waits behind a hole: data, or the FIN.
    fn has_ahead(&self) -> bool {
        !self.runs.is_empty() || self.awaits_fin()
    }

    /// Handles the FIN, with everything before it present (`tcp_fin`): the acknowledgment waits for the application,
    /// which may end its stream too.
    #[cold]
    fn end_stream(&mut self, linux: &mut Linux) {
        linux.interactive = Switch::On;
        self.runs.clear();
        self.duplicate = None;
        linux.table = Table::default();
    }

    /// Makes the acknowledgment of the data being processed leave at once (`ICSK_ACK_NOW`).
    pub fn hasten(&mut self, has_data: bool) {
        if self.linux.is_linux() {
            self.linux.begin(&self.config);
            if let Some(linux) = self.linux.kept_mut() {
                linux.at_once = Switch::On;
            }
        } else if has_data {
            self.due = AckDue::Now;
        }
    }

    /// Answers a segment that is not acceptable, at once and in addition to counted acknowledgments
    /// (`tcp_send_dupack`).
    pub fn answer_old(&mut self, seq: Seq, end: Seq) {
        if end != seq && seq.lt(self.rcv_nxt) {
            self.linux.begin(&self.config);
            let window = self.offered();
            if let Some(linux) = self.linux.kept_mut() {
                linux.enter_quick(QUICK, window);
            }
            self.note_duplicates(seq, if end.lt(self.rcv_nxt) { end } else { self.rcv_nxt });
        }
        self.due = AckDue::Now;
    }

    /// Returns the end of the highest block of out-of-order data that a Linux receiver reports.
    pub fn highest_listed(&self) -> Option<Seq> {
        let blocks = self.table()?;
        blocks.as_slice().iter().map(|block| block.right).reduce(Seq::max)
    }

    /// Adds a block to those to report. If this displaces one that compressed acknowledgments have not reported yet, an
    /// acknowledgment leaves before (`tcp_sack_compress_send_ack`).
    fn list_block(&mut self, block: SackBlock, linux: &mut Linux) {
        if linux.compressed > 0 && linux.table.crowds(block) {
            let mut early = SackBlocks::default();
            let most = usize::from(self.most_blocks);
            self.duplicate.take().into_iter().for_each(|block| early.push(block));
            linux.table.blocks().as_slice().iter().take(most - early.as_slice().len()).for_each(|&old| early.push(old));
            linux.early = Some(early);
            linux.on_ack_sent();
            self.due = AckDue::No;
        }
        linux.table.add(block);
    }

    /// Decides when to acknowledge (`__tcp_ack_snd_check`).
    fn settle_arrival(&mut self, now: Instant, arrival: &Arrival, linux: &mut Linux) {
        if !linux.scheduled.is_on() {
            // An acknowledgment has left ahead, or will leave anyway.
            return;
        }
        self.settle(now, arrival.srtt, linux);
    }

    fn settle(&mut self, now: Instant, srtt: Option<Duration>, linux: &mut Linux) {
        let unacked = self.rcv_nxt.since(self.last_ack_sent);
        let opens = unacked > linux.mss && self.offer_anew(linux) >= self.offered();
        if opens || linux.is_quick() || linux.at_once.is_on() {
            self.due = AckDue::Now;
        } else if !self.has_ahead() {
            self.delay_as_linux(now, srtt, linux);
        } else {
            self.hold_back(now, srtt, linux);
        }
    }

    /// Decides again about an acknowledgment that is delayed, after a segment without data (`tcp_ack_snd_check`).
    pub fn settle_again(&mut self, now: Instant, srtt: Option<Duration>) {
        if !matches!(self.due, AckDue::Delayed(_)) {
            return;
        }
        let Some(mut linux) = self.linux.take() else { return };
        if linux.scheduled.is_on() {
            match linux.wait(srtt) {
                Duration::ZERO => self.due = AckDue::Now,
                _ => self.settle(now, srtt, &mut linux),
            }
        }
        self.linux.put(linux);
    }

    fn delay_as_linux(&mut self, now: Instant, srtt: Option<Duration>, linux: &mut Linux) {
        let wait = linux.wait(srtt);
        match self.due {
            AckDue::Now => {}
            AckDue::No => self.due = AckDue::Delayed(self.timer(now, wait)),
            // It is about to leave anyway.
            AckDue::Delayed(at) if at <= now + wait / 4 => self.due = AckDue::Now,
            AckDue::Delayed(at) => self.due = AckDue::Delayed(at.min(self.timer(now, wait))),
        }
    }

    /// Returns the time at which a timer fires that is set for `wait` from now.
    fn timer(&self, now: Instant, wait: Duration) -> Instant {
        match self.config.common.clock {
            Clock::Jiffies { jiffy, wheel } => jiffies_deadline(now, wait, jiffy, wheel, self.phase.slow),
            Clock::Fine | Clock::Ticks { .. } => now + wait,
        }
    }

    /// Handles a duplicate acknowledgment: the first three leave at once, the following ones together.
    fn hold_back(&mut self, now: Instant, srtt: Option<Duration>, linux: &mut Linux) {
        let compresses = self.config.receiver.sack_compression == SackCompression::Linux && self.sack.is_on();
        if !compresses || linux.compressed >= COMPRESSION_MOST {
            self.due = AckDue::Now;
            return;
        }
        let (at, count) = &mut linux.duplicates;
        if *at != self.rcv_nxt {
            (*at, *count) = (self.rcv_nxt, 0);
        }
        if *count < AT_ONCE {
            *count += 1;
            self.due = AckDue::Now;
            return;
        }
        linux.compressed += 1;
        if linux.release.is_none() {
            let round_trip = linux.round_trip.get().unwrap_or(Duration::ZERO);
            let round_trip = srtt.filter(|srtt| *srtt > Duration::ZERO).map_or(round_trip, |srtt| srtt.min(round_trip));
            let delay = COMPRESSION_DELAY.min(round_trip / 20);
            linux.release = Some(now + delay + COMPRESSION_SLACK);
        }
    }
}
