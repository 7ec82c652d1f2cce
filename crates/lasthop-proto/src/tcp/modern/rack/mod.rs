//! RACK-TLP (RFC 8985) as in Linux: losses are detected by time, a probe precedes the timeout, proportional rate
//! reduction decreases the window, and spurious reductions are undone.
//!
//! `detect` detects losses, `ack` processes acknowledgments, `episode` is the state machine, `timers` has the single
//! timer that acts as retransmission timeout, probe and reordering timer in turn; `blind` handles peers without SACK.
//! Counts are segments.

mod ack;
mod backpressure;
mod blind;
mod bursts;
mod defer;
mod detect;
mod echoes;
mod episode;
mod info;
mod timers;
mod undo;
mod usage;

pub use self::ack::Arrival;

use self::backpressure::Backpressure;
use self::detect::{Newest, Reordering};
use self::echoes::Echoes;
use self::timers::Pending;
use self::undo::Undo;
use self::usage::{Burst, Usage};
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::{ModernConfig, Push, Switch, WindowEdge};
use crate::tcp::congestion::control::{CaState, Episode, Pacing};
use crate::tcp::congestion::{Control, Start};
use crate::tcp::min_rtt::MinRtt;
use crate::tcp::modern::delivery_rate::RateSampler;
use crate::tcp::modern::flight::{Flight, Index, Sent};
use crate::tcp::modern::pacer::{Pacer, Piece};
use crate::tcp::modern::prr::Prr;
use crate::tcp::modern::super_segments::SuperSegments;
use crate::tcp::send_buffer::Need;
use crate::tcp::stream::{Stream, Transmission, Turn};
use crate::time::{Duration, Instant};

/// Segment to be sent regardless of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forced {
    /// The oldest segment, after a timeout.
    Oldest,
    /// A tail-loss probe: new data, or else the latest segment.
    Probe,
}

/// Transmissions that the last event permits, within the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Permit {
    /// Lost segments, then new data.
    All,
    /// Lost segments only: a timer found them.
    Lost,
    /// New data only.
    New,
    /// New data, or lost segments if none can be sent: F-RTO needs to see the response to new data.
    Trial,
    /// Nothing more: a timer has sent its segment.
    Nothing,
}

/// A tail-loss probe that has not been evaluated (RFC 8985 §7.4).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// `snd_nxt` after the probe.
    high: Seq,
    /// True if the probe repeats a segment.
    repeats: bool,
}

/// Segments sent since the timer was last updated.
#[derive(Clone, Copy, Default, Debug)]
struct Batch {
    new: bool,
    /// True if nothing was outstanding before.
    first: bool,
    /// True if the oldest segment was retransmitted.
    oldest: bool,
    probe: bool,
    /// True if a probe of a small window has left.
    window_probe: bool,
    /// True if the wait for reordered segments has ended.
    waited: bool,
}

/// Copies of segments, to distinguish retransmissions from packets that the network duplicates.
#[derive(Clone, Copy, Default, Debug)]
struct Copies {
    /// Segments retransmitted.
    sent: u32,
    /// Segments that the peer reports as duplicates.
    reported: u32,
}

impl Copies {
    /// Counts `copies` reported duplicates, and returns their origin.
    fn report(&mut self, copies: u32) -> Origin {
        self.reported = self.reported.saturating_add(copies);
        if self.reported > self.sent { Origin::Network } else { Origin::Sender }
    }
}

/// Origin of duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Sender,
    Network,
}

/// A segment to retransmit.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Sequence number of its first byte, and the number after its last.
    pub span: (Seq, Seq),
    /// On if it carries PSH.
    pub push: Switch,
    /// On if it leaves together with the one before.
    pub joined: Switch,
    /// Reason for the retransmission.
    pub why: Cause,
}

impl Hole {
    fn of(sent: &Sent, cause: Cause) -> Self {
        Self {
            span: (sent.seq(), sent.end()),
            push: if sent.is_pushed() { Switch::On } else { Switch::Off },
            joined: Switch::Off,
            why: cause,
        }
    }
}

/// SACK support of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Sends SACK blocks.
    Selective,
    /// Sends duplicates only.
    Blind,
}

/// Phase of loss recovery.
#[derive(Clone, Copy, Debug)]
struct Phase {
    state: CaState,
    /// `snd_nxt` when the state began: the episode ends when that number is acknowledged.
    high: Seq,
    /// True if a timeout may still turn out to be spurious.
    frto: bool,
    /// On if a reduction has yet to be reported to the peer (`TCP_ECN_QUEUE_CWR`).
    untold: Switch,
}

/// Latest transmissions.
#[derive(Clone, Debug)]
struct LastSent {
    /// Time of the last transmission.
    at: Instant,
    /// Time of the last retransmission of a lost segment, and the number after it.
    again: (Instant, Seq),
    super_segments: SuperSegments,
}

/// State of RACK-TLP and of the components that it controls.
#[derive(Clone, Debug)]
pub struct Rack {
    config: ModernConfig,
    flight: Flight,
    control: Control,
    rate: RateSampler,
    pacer: Pacer,
    /// Time at which the pacer releases the next segment, while one waits.
    wake: Option<Instant>,
    min_rtt: MinRtt,
    phase: Phase,
    newest: Newest,
    reordering: Reordering,
    prr: Prr,
    undo: Undo,
    /// True if the peer reneged on earlier reports.
    reneged: bool,
    peer: Peer,
    probe: Option<Probe>,
    pending: Pending,
    forced: Option<Forced>,
    permit: Permit,
    batch: Batch,
    /// True if the congestion window was the reason for a deferral since the last burst.
    deferred: bool,
    usage: Usage,
    /// Back-pressure from the host's own queue.
    backpressure: Backpressure,
    sent: LastSent,
    copies: Copies,
    echoes: Echoes,
}

impl Rack {
    /// Returns the state of a sender whose handshake is complete.
    pub fn new(config: &ModernConfig, s: &Stream, now: Instant, peer: Peer, seed: u64) -> Self {
        let common = s.config();
        // Linux `tcp_init_cwnd`: one repeated SYN is forgiven.
        let window = if s.syn_retries() > 1 { 1 } else { common.initial_window };
        let start =
            Start { window, bound: common.max_cwnd / s.mss().max(1), mss: s.mss(), jiffy: s.rtt().jiffy(), seed };
        let mut control = Control::new(config.congestion, &start);
        let handshake = s.rtt().srtt().filter(|_| s.syn_retries() == 0);
        control.on_episode(now, Episode::Established { rtt: handshake });
        let mut min_rtt = MinRtt::default();
        if let Some(rtt) = handshake {
            min_rtt.update(now, rtt);
        }
        Self {
            config: *config,
            flight: Flight::default(),
            control,
            rate: RateSampler::default(),
            pacer: Pacer::default(),
            wake: None,
            min_rtt,
            phase: Phase { state: CaState::Open, high: s.snd_nxt(), frto: false, untold: Switch::Off },
            newest: Newest::default(),
            reordering: Reordering::new(common.dupack_threshold),
            prr: Prr::default(),
            undo: Undo::default(),
            reneged: false,
            peer,
            probe: None,
            pending: Pending::Timeout,
            forced: None,
            permit: Permit::All,
            batch: Batch::default(),
            deferred: false,
            usage: Usage::default(),
            backpressure: Backpressure::default(),
            sent: LastSent { at: now, again: (now, s.snd_una()), super_segments: SuperSegments::NONE },
            copies: Copies::default(),
            echoes: Echoes::default(),
        }
    }

    /// Returns the settings of the sender.
    #[inline]
    pub fn config(&self) -> &ModernConfig {
        &self.config
    }

    /// Returns the outstanding segments.
    pub fn flight(&self) -> &Flight {
        &self.flight
    }

    /// Returns congestion window and slow-start threshold, in segments.
    pub fn window(&self) -> (u32, u32) {
        (self.control.window(), self.control.ssthresh())
    }

    /// Returns the time at which a segment that waits for the pacer may leave.
    pub fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Returns whether a reduction is to be reported to the peer (CWR), once.
    pub fn take_reduced(&mut self) -> Switch {
        core::mem::replace(&mut self.phase.untold, Switch::Off)
    }

    /// Records that the pacer releases a segment.
    pub fn on_wake(&mut self) {
        self.wake = None;
        self.permit = Permit::All;
    }

    /// Records that the application has written more.
    pub fn on_write(&mut self) {
        if matches!(self.permit, Permit::Nothing | Permit::Lost) {
            self.permit = Permit::New;
        }
    }

    fn is_slow_start(&self) -> bool {
        self.control.window() < self.control.ssthresh()
    }

    fn in_reduction(&self) -> bool {
        matches!(self.phase.state, CaState::Cwr | CaState::Recovery)
    }

    fn least_rtt(&self) -> Duration {
        self.min_rtt.get().unwrap_or(Duration::MAX)
    }

    /// Returns whether a tail-loss probe is about to leave. New data leaves as one regardless of Nagle's rule
    /// (`tcp_send_loss_probe`).
    #[inline]
    pub fn is_probing(&self) -> bool {
        self.forced == Some(Forced::Probe)
    }

    /// Returns the probe's segment, unless the whole next segment of new data can be sent instead.
    fn probe_segment(&self, s: &Stream) -> Option<Hole> {
        if s.admits_next() {
            return None;
        }
        let last = self.flight.back()?;
        let is_blocked = self.config.window_edge == WindowEdge::Cut && !self.reaches(s, last);
        (last.seq() == s.snd_una() || !is_blocked).then(|| Hole::of(last, Cause::TailProbe))
    }

    /// Declares a segment lost and notifies the congestion control.
    fn mark_lost(flight: &mut Flight, rate: &mut RateSampler, control: &mut Control, now: Instant, index: Index) {
        if flight.mark_lost(index)
            && let Some(sent) = flight.get(index)
        {
            let lost = rate.on_lost(sent);
            control.on_lost(now, &lost);
        }
    }

    /// Handles new data after an idle period with nothing outstanding (RFC 5681 §4.1, RFC 2861).
    pub fn restart_after_idle(&mut self, s: &Stream, now: Instant) {
        let idle = now.since(self.sent.at);
        let applies = s.config().idle_restart.is_on() && !self.control.governs_recovery();
        if self.flight.is_empty() && applies && idle > s.rtt().rto() {
            self.control.on_episode(now, Episode::IdleRestart { idle, rto: s.rtt().rto() });
            self.usage.restart(now);
            self.sent.at = now;
        }
    }

    /// Splits outstanding segments because the path carries only smaller ones, and retransmits them; this is not a sign
    /// of congestion.
    pub fn cut(&mut self, mss: u32) {
        self.flight.cut(mss);
        self.permit = Permit::All;
    }

    /// Returns the required capacity of an auto-tuned send buffer; `None`, for no change, while the window is full
    /// (`tcp_should_expand_sndbuf`).
    pub fn buffer_need(&self) -> Option<Need> {
        let window = self.control.window();
        let need =
            Need { windows: self.control.buffered_windows(), segments: window.max(self.reordering.degree() + 1) };
        (self.flight.in_flight() < window).then_some(need)
    }

    /// Updates the timer and the usage of the window when nothing more can be sent now.
    pub fn on_burst_end(&mut self, s: &mut Stream, now: Instant) {
        self.look_after_timer(s, now);
        self.sent.super_segments.end();
        let deferred = core::mem::take(&mut self.deferred);
        let full = self.flight.in_flight() >= self.control.window() || deferred;
        // A probe of the window says nothing about its use (`tcp_write_wakeup`).
        if self.batch.new && !self.batch.window_probe || full && unsent(s) {
            let burst = Burst {
                out: self.flight.len(),
                window: self.control.window(),
                slow_start: self.is_slow_start(),
                full,
                span: (s.snd_una(), s.snd_nxt()),
            };
            let unused = self.usage.on_burst(now, &burst, s.rtt().rto());
            let applies = s.config().idle_restart.is_on() && !self.control.governs_recovery();
            if let Some(used) = unused.filter(|_| applies && self.phase.state == CaState::Open && !unsent(s)) {
                self.control.on_episode(now, Episode::Unused { used });
            }
        }
        if !full && all_sent(s) && !self.flight.lacks_retransmissions() && self.backpressure.is_clear(now) {
            self.rate.limit_by_application(self.flight.in_flight());
        }
        self.batch = Batch::default();
        // Recounting takes as long as the flight is long; short flights reveal errors as well.
        debug_assert!(self.flight.len() > 64 || self.flight.is_sound(), "{:?}", self.flight);
    }
}

/// Returns whether all data that the application wants to send has been sent. An application that waits for the send
/// buffer has more to send: Linux checks when the application writes (`tcp_rate_check_app_limited` in
/// `tcp_sendmsg_locked`), and a waiting application does not write.
fn all_sent(s: &Stream) -> bool {
    s.pos(s.snd_nxt()) > s.queued()
}

/// Returns whether data within the send buffer has never been sent.
fn unsent(s: &Stream) -> bool {
    s.pos(s.snd_nxt()) < s.buffered_end()
}

/// Queries of the sender when it looks for a segment to send.
impl Rack {
    /// Returns whether there is data to retransmit, regardless of windows.
    #[inline]
    pub fn has_hole(&self) -> bool {
        self.flight.waiting() > 0 && self.flight.lacks_retransmissions() || self.forced.is_some()
    }

    /// Returns a segment to retransmit.
    pub fn next_hole(&mut self, s: &Stream, now: Instant) -> Option<Hole> {
        match self.forced {
            Some(Forced::Oldest) => {
                let oldest = self.flight.front()?;
                return Some(Hole::of(oldest, Cause::Timeout));
            }
            Some(Forced::Probe) => return self.probe_segment(s),
            None => {}
        }
        let (index, &sent) = self.flight.next_waiting()?;
        if !self.may_send(s, now, Piece { seq: sent.seq(), left_at: Some(sent.sent_at()) }, sent.begins_super_segment())
        {
            return None;
        }
        match self.permit {
            Permit::All | Permit::Lost => {}
            Permit::Trial if !s.snd_nxt().gt(self.phase.high) && !self.can_try_new(s) => {
                (self.permit, self.phase.frto) = (Permit::All, false);
            }
            Permit::Trial | Permit::New | Permit::Nothing => return None,
        }
        // Data beyond the peer's window waits, except the oldest segment (RFC 9293 §3.8.6).
        if sent.seq() != s.snd_una() && !self.reaches(s, &sent) {
            return None;
        }
        let cause = if self.phase.state == CaState::Loss { Cause::Timeout } else { Cause::SackHole };
        let mut hole = Hole::of(&sent, cause);
        if self.config.push == Push::Bursts {
            let follows = sent.is_joined() && self.sent.again == (now, sent.seq());
            let ends = self.ends_batch(s, now, index);
            hole.joined = if follows { Switch::On } else { Switch::Off };
            hole.push = if follows && ends { Switch::On } else { hole.push };
        }
        Some(hole)
    }

    /// Returns whether the segment that leaves again is the last of its batch (Linux: of one buffer; if there are
    /// several segments, the last carries PSH).
    fn ends_batch(&mut self, s: &Stream, now: Instant, index: Index) -> bool {
        let Some(&sent) = self.flight.get(index) else { return false };
        self.sent.again = (now, sent.end());
        let more = self
            .flight
            .following(index)
            .is_some_and(|next| next.is_joined() && next.is_waiting() && self.reaches(s, next));
        let more = more && self.has_room_behind_next();
        if !more {
            self.flight.part(index);
        }
        !more
    }

    /// Returns whether the peer's window admits a retransmission of `sent`: in part under Linux's rules.
    fn reaches(&self, s: &Stream, sent: &Sent) -> bool {
        let last = if self.config.window_edge == WindowEdge::Cut { sent.seq() + 1 } else { sent.end() };
        last.since(s.snd_una()) <= s.snd_wnd()
    }

    /// Returns the part of an outstanding segment that leaves again: as much as a segment carries, and as the peer's
    /// window admits. The rest becomes a segment of its own (Linux `__tcp_retransmit_skb`).
    #[inline]
    pub fn fit(&mut self, s: &Stream, (seq, end): (Seq, Seq)) -> (Seq, Seq) {
        let most = s.payload() + u32::from(s.ends_with_fin(end));
        let room = s.snd_wnd().saturating_sub(seq.since(s.snd_una()));
        let cuts = room > 0 && self.config.window_edge == WindowEdge::Cut;
        let most = if cuts { most.min(room) } else { most };
        match end.since(seq) {
            len if len > most => self.split(seq, seq + most),
            len if len < most && cuts => (seq, self.merge(s, seq, most)),
            _ => (seq, end),
        }
    }

    /// Returns whether the segment at `seq` carries PSH.
    pub fn push_at(&self, seq: Seq) -> Switch {
        let sent = self.flight.find(seq).and_then(|index| self.flight.get(index));
        if sent.is_some_and(Sent::is_pushed) { Switch::On } else { Switch::Off }
    }

    /// Merges the short segment at `seq` with those behind it, as long as they leave as one of at most `most` bytes
    /// (Linux `tcp_retrans_try_collapse`). Returns the end of the result.
    #[cold]
    fn merge(&mut self, s: &Stream, seq: Seq, most: u32) -> Seq {
        let Some(index) = self.flight.find(seq) else { return seq };
        let is_single = |flight: &Flight, index| !flight.following(index).is_some_and(Sent::is_joined);
        while let (Some(first), Some(next)) = (self.flight.get(index), self.flight.following(index)) {
            let fin = u32::from(s.ends_with_fin(next.end()));
            let has_data = next.end().since(next.seq()) > fin;
            let fits =
                next.end().since(first.seq()) <= most + fin && next.end().since(s.snd_una()) <= s.snd_wnd() + fin;
            let alone = !first.is_joined() && !next.is_joined() && is_single(&self.flight, self.flight.after(index));
            if next.is_sacked() || !(has_data && fits && alone) {
                break;
            }
            self.flight.merge(index);
        }
        self.flight.get(index).map_or(seq, Sent::end)
    }

    #[cold]
    fn split(&mut self, seq: Seq, middle: Seq) -> (Seq, Seq) {
        if let Some(index) = self.flight.find(seq) {
            if self.flight.get(index).is_some_and(|sent| sent.end() == self.sent.again.1) {
                self.sent.again.1 = middle;
            }
            self.flight.split(index, middle);
        }
        (seq, middle)
    }

    /// Returns whether the congestion window permits new data.
    pub fn may_send_new(&mut self, s: &Stream, now: Instant) -> bool {
        if self.flight.is_full() {
            return false;
        }
        let permitted = matches!(self.permit, Permit::All | Permit::New | Permit::Trial);
        self.forced == Some(Forced::Probe)
            || permitted && self.may_send(s, now, Piece { seq: s.snd_nxt(), left_at: None }, false)
    }

    /// Returns the number of segments in flight.
    pub fn in_flight(&self) -> u32 {
        self.flight.in_flight()
    }

    /// Returns whether the congestion window admits another segment after the next one.
    pub fn has_room_behind_next(&self) -> bool {
        self.flight.in_flight() + 1 < self.control.window()
    }

    /// Records that the segment `seq..end` leaves, before `s` is updated.
    pub fn on_sent(&mut self, s: &Stream, now: Instant, sent: &Transmission) {
        let (seq, end) = (sent.seq, sent.end());
        if seq == end {
            return;
        }
        if self.flight.in_flight() == 0 {
            let (idle, is_app_limited) = (now.since(self.sent.at), self.rate.is_app_limited());
            self.control.on_episode(now, Episode::SendingAgain { idle, is_app_limited });
        }
        self.sent.at = now;
        self.wake = None;
        let out = self.flight.len();
        let snapshot = self.rate.on_sent(now, out, self.flight.in_flight() + 1);
        let again = self.flight.back().filter(|last| seq.lt(last.end())).and_then(|_| self.flight.find(seq));
        let left_at = again.and_then(|index| self.flight.get(index)).map(Sent::sent_at);
        if let Some(pacing) = self.pacing(s) {
            // New data uses half of the window at once (`tcp_cwnd_test`).
            let most = if left_at.is_some() { u32::MAX } else { self.control.window() / 2 };
            let quantum = pacing.quantum.min(self.config.send_quantum).min(most);
            self.pacer.on_sent(now, Piece { seq, left_at }, end.since(seq), Pacing { quantum, ..pacing });
        }
        let begins = self.config.tso.is_on() && self.join_super_segment(s, now, (seq, end), again);
        let forced = self.forced.take();
        if self.in_reduction() && (again.is_none() || forced.is_none()) {
            // A probe's retransmission does not count (`tcp_send_loss_probe`).
            self.prr.on_sent(1);
        }
        match again {
            None => {
                // PSH at the end of a burst belongs to the transmission, at the end of the written data to the bytes.
                let lasts = sent.turn == Turn::Probe || s.pos(end) > s.queued() || s.is_marked(s.pos(end));
                let push = if lasts { sent.push } else { Switch::Off };
                self.flight.push((seq, end), push, now, snapshot);
                if sent.joined.is_on() {
                    self.flight.join();
                }
                self.batch.new = true;
                self.batch.window_probe |= sent.turn == Turn::Probe;
                self.batch.first |= out == 0;
            }
            Some(index) => {
                self.copies.sent = self.copies.sent.saturating_add(1);
                if forced == Some(Forced::Probe) {
                    self.flight.repeat(index, now, snapshot);
                } else {
                    self.flight.resend(index, now, snapshot);
                    self.undo.on_resent(now);
                }
                self.batch.oldest |= seq == s.snd_una() && forced.is_none();
            }
        }
        if begins {
            self.flight.begin_super_segment(again);
        }
        if forced == Some(Forced::Probe) {
            self.batch.probe = true;
            let high = s.snd_nxt().max(end);
            self.probe = Some(Probe { high, repeats: again.is_some() });
        }
    }
}
