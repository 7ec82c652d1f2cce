//! IEEE 802.11: stations that contend for a channel (DCF, EDCA), aggregation with block acknowledgments, errors and
//! retransmissions of frames, rate control, and fair airtime.
//!
//! One event per access to the channel. All stations hear each other; there is one access category, best effort.
//! [docs/models/wifi.md](https://github.com/lasthop/lasthop/blob/main/docs/models/wifi.md) has the rules, their sources
//! and the validation.

mod errors;
mod phy;
mod rate_control;
mod station;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use self::errors::FrameErrors;
pub use self::errors::FrameLoss;
pub use self::phy::{Band, Guard, OFDM_RATES, Phy, RateIndex, SLOT, Standard};
pub use self::rate_control::Control;
use self::rate_control::{Choice, RateControl};
use self::station::Station;
use super::access::{AccessMedium, Crossed, LineId, Source};
use super::window::{BlockWindow, Chosen};
use crate::random::{Root, Stream};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Parameters of a channel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WifiSpec {
    /// Rule by which a station with several receivers chooses the next one.
    pub turns: Turns,
    /// EIFS of the other stations after a collision. If off, they do not recognise the frames in a collision.
    pub eifs: Switch,
    /// Interframe space of senders after the timeout of the acknowledgment. Without that timeout, the interframe space
    /// begins with the end of the frame, as in Bianchi's model.
    pub ack_timeout: Switch,
    /// Interval of the beacons that one station sends; `None` for no beacons.
    pub beacon: Option<Duration>,
}

/// Rule by which a station with several receivers chooses the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// Equal airtime, by deficit round robin as in Linux (`ieee80211_next_txq` in `net/mac80211/tx.c`).
    Airtime,
    /// Equal numbers of transmissions.
    Transmissions,
    /// The receiver of the oldest frame, as with one queue for all.
    Arrival,
}

/// Parameters of a line: one direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LineSpec {
    /// Number of the station that sends, from 0.
    pub sender: usize,
    /// Number of the station that receives.
    pub receiver: usize,
    /// Transmitter of the line.
    pub transmitter: TransmitterSpec,
}

/// Parameters of a transmitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransmitterSpec {
    /// Physical layer.
    pub phy: Phy,
    /// Loss of frames.
    pub loss: FrameLoss,
    /// Rate control.
    pub control: Control,
    /// RTS and CTS precede a transmission of more than this number of bytes.
    pub rts: Option<u32>,
    /// Number of attempts of a frame after the first.
    pub retries: u32,
    /// Maximum number of frames of a transmission.
    pub frames: u32,
    /// Number of slots of the interframe space before the backoff, besides SIFS (AIFSN).
    pub aifsn: u32,
}

/// Size of a full packet in bytes, for the nominal rate.
const FULL_PACKET: u32 = 1_500;

impl TransmitterSpec {
    /// Returns the interframe space before the backoff.
    fn aifs(&self) -> Duration {
        self.phy.sifs() + Duration::from_nanos(SLOT.as_nanos() * u64::from(self.aifsn))
    }

    /// Returns the data rate that rate control aims at, in bits per second: the fixed one, or that with the highest
    /// throughput of full packets without overhead.
    pub fn nominal_rate(&self) -> u64 {
        let Self { phy, loss, control, .. } = self;
        if let Control::Fixed(rate) = control {
            return phy.bits_per_second(*rate);
        }
        let mut errors = FrameErrors::new(*loss, phy, Root(0).stream(""));
        let mut useful = |rate: &RateIndex| {
            let lost = errors.probability(*rate, phy.frame_bytes(FULL_PACKET));
            ((1.0 - lost) * phy.bits_per_second(*rate) as f64) as u64
        };
        let best = (0..phy.rates()).map(RateIndex).max_by_key(|rate| useful(rate)).unwrap_or(RateIndex(0));
        phy.bits_per_second(best)
    }
}

/// Smallest and largest contention window (best effort).
const CW_MIN: u32 = 15;
const CW_MAX: u32 = 1_023;
/// Sizes of control frames in bytes.
const ACK: u32 = 14;
const BLOCK_ACK: u32 = 32;
/// Block acknowledgment for more than 64 frames.
const LONG_BLOCK_ACK: u32 = 56;
const RTS: u32 = 20;
const CTS: u32 = 14;
/// Beacon: size in bytes, at 6 Mbps (ns-3's).
const BEACON: u32 = 156;
/// Time until a preamble is detected.
const DETECTION: Duration = Duration::from_micros(20);
/// Time after which a transmission is heard (aCCATime of OFDM).
const HEARING: Duration = Duration::from_micros(4);
/// Delimiter in front of each frame of an aggregate, in bytes.
const DELIMITER: u32 = 4;

/// Adds the bytes of a frame to those before it in an aggregate: all but the last are padded to 4 bytes.
const fn join(before: u32, bytes: u32) -> u32 {
    before.saturating_add(before.wrapping_neg() % 4).saturating_add(bytes).saturating_add(DELIMITER)
}

/// A frame in the window.
#[derive(Clone, Copy, Debug)]
struct Sending<T> {
    item: T,
    /// Start of the first transmission.
    start: Instant,
    /// Arrival time, if known; otherwise `start`.
    came: Instant,
}

/// One direction of a link.
struct Line<T> {
    spec: LineSpec,
    /// Line of the opposite direction.
    back: Option<usize>,
    window: BlockWindow<Sending<T>>,
    errors: FrameErrors,
    control: RateControl,
    /// Indicates that the driver's queue may have frames.
    queued: bool,
    /// Arrival times of the frames in the driver's queue, for [`Turns::Arrival`]. Frames that the queue drops later
    /// leave their entries behind, so that later frames appear to have arrived too early.
    arrivals: VecDeque<Instant>,
    /// Transmissions in succession that nobody acknowledged.
    failures: u32,
    /// Time on the air in total; start and end of the last transmission.
    busy: Duration,
    last: (Instant, Instant),
}

impl<T: Copy> Line<T> {
    /// Returns the time at which the oldest frame arrived.
    fn oldest(&self) -> Instant {
        let again = self.window.first_waiting().map(|sending| sending.came);
        again.or(self.arrivals.front().copied()).unwrap_or(Instant::ZERO)
    }

    fn is_backlogged(&self) -> bool {
        self.queued || self.window.waiting() > 0
    }
}

/// A transmission that begins.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    line: usize,
    rate: RateIndex,
    frames: u32,
    /// Airtime of the data.
    airtime: Duration,
    /// Time before the data: RTS, CTS and their interframe spaces; zero without RTS.
    prelude: Duration,
}

/// Beacons.
#[derive(Clone, Copy, Debug)]
struct Beacon {
    interval: Duration,
    next: Instant,
}

/// A channel with its stations.
pub struct Wifi<T> {
    spec: WifiSpec,
    stations: Vec<Station>,
    lines: Vec<Line<T>>,
    /// End of the last exchange of frames.
    busy_until: Instant,
    beacon: Option<Beacon>,
    /// Time of the next access; `None` if no station has frames.
    access: Option<Instant>,
    /// Frames whose results are decided, but not yet taken.
    crossed: VecDeque<Crossed<T>>,
    /// Backoffs.
    stream: Stream,
    /// Transmissions of the current access.
    transmissions: Vec<Transmission>,
}

impl<T: Copy> Wifi<T> {
    /// Creates a channel without frames. Backoffs are drawn from `NAME/backoff`, losses of line `n` from
    /// `NAME/n/errors`, under `root`.
    pub fn new(spec: WifiSpec, lines: &[LineSpec], name: &str, root: Root) -> Self {
        let count = lines.iter().map(|line| line.sender.max(line.receiver) + 1).max().unwrap_or(0);
        let mut stations: Vec<_> = (0..count).map(|_| Station::new(CW_MIN)).collect();
        for (index, line) in lines.iter().enumerate() {
            stations[line.sender].add(index, line.transmitter.aifs());
        }
        let line = |(index, line): (usize, &LineSpec)| Line {
            spec: *line,
            back: lines.iter().position(|other| other.sender == line.receiver && other.receiver == line.sender),
            window: BlockWindow::default(),
            errors: FrameErrors::new(
                line.transmitter.loss,
                &line.transmitter.phy,
                root.stream(&alloc::format!("{name}/{index}/errors")),
            ),
            control: RateControl::new(&line.transmitter),
            queued: false,
            arrivals: VecDeque::new(),
            failures: 0,
            busy: Duration::ZERO,
            last: (Instant::ZERO, Instant::ZERO),
        };
        Self {
            spec,
            stations,
            lines: lines.iter().enumerate().map(line).collect(),
            busy_until: Instant::ZERO,
            beacon: spec.beacon.map(|interval| Beacon { interval, next: Instant::ZERO }),
            access: None,
            crossed: VecDeque::new(),
            stream: root.stream(&alloc::format!("{name}/backoff")),
            transmissions: Vec::new(),
        }
    }

    /// Sets the time of the next access.
    fn schedule(&mut self) {
        self.access = self.stations.iter().filter_map(Station::access).min();
    }

    /// Processes an access at `at`: all stations whose backoff ends before they can hear it transmit.
    fn transmit(&mut self, at: Instant, source: &mut dyn Source<T>) {
        if self.send_beacon(at) {
            return;
        }
        self.transmissions.clear();
        for station in 0..self.stations.len() {
            if self.stations[station].access().is_none_or(|access| access > at + HEARING) {
                continue;
            }
            match self.prepare(at, station, source) {
                Some(transmission) => self.transmissions.push(transmission),
                None => self.stations[station].rest(),
            }
        }
        match self.transmissions[..] {
            [] => {}
            [alone] => self.exchange(at, alone),
            _ => self.collide(at),
        }
    }

    /// Sends the beacons that are due before an access at `at`. Returns whether there was one.
    fn send_beacon(&mut self, at: Instant) -> bool {
        let Some(Beacon { interval, next }) = self.beacon else { return false };
        let Some(phy) = self.lines.first().map(|line| line.spec.transmitter.phy) else { return false };
        let airtime = phy.basic_airtime(6, BEACON);
        let mut next = next;
        if self.busy_until < next && next + airtime < at {
            // These beacons were sent while the channel was idle.
            let over = at.since(next + airtime).as_nanos() / interval.as_nanos().max(1) + 1;
            next += interval.saturating_mul(over);
        }
        let due = next <= at;
        let start = next.max(self.busy_until + phy.sifs() + SLOT);
        if due {
            next += interval;
            self.occupy(start, start + airtime, Duration::ZERO);
        }
        self.beacon = Some(Beacon { interval, next });
        due
    }

    /// Prepares the next transmission of a station. Returns `None` if it has no frames.
    fn prepare(&mut self, at: Instant, station: usize, source: &mut dyn Source<T>) -> Option<Transmission> {
        loop {
            let lines = &self.lines;
            let (backlogged, oldest) = (|line: usize| lines[line].is_backlogged(), |line: usize| lines[line].oldest());
            let turn = self.stations[station].turn(self.spec.turns, backlogged, oldest)?;
            let Line { arrivals, window, control, queued, failures, spec, .. } = &mut self.lines[turn];
            let TransmitterSpec { phy, frames, rts, .. } = spec.transmitter;
            let Choice { rate, probe } = control.choose(at, *failures);
            let single = probe || !phy.aggregates();
            let most = if single { 1 } else { frames.max(1) };
            let (mut empty, id) = (false, LineId(turn));
            let take = || {
                let came = arrivals.pop_front().unwrap_or(at);
                let Some((item, bytes)) = source.take(at, id) else {
                    empty = true;
                    return None;
                };
                Some((Sending { item, start: at, came }, phy.frame_bytes(bytes)))
            };
            let fits = |bytes| bytes <= phy.largest_aggregate() && phy.airtime(rate, bytes) <= phy.longest();
            let chosen = window.choose(most, take, join, fits);
            if empty {
                *queued = false;
                arrivals.clear();
            }
            let Some(Chosen { bytes, frames, .. }) = chosen else { continue };
            // A frame alone has no delimiter, except in VHT and HE.
            let alone = frames == 1 && matches!(phy.standard, Standard::Ofdm | Standard::Ht);
            let bytes = if alone { bytes - DELIMITER } else { bytes };
            let prelude = match rts {
                Some(limit) if bytes > limit => {
                    let sifs = phy.sifs();
                    phy.control_airtime(rate, RTS) + sifs + phy.control_airtime(rate, CTS) + sifs
                }
                _ => Duration::ZERO,
            };
            return Some(Transmission { line: turn, rate, frames, airtime: phy.airtime(rate, bytes), prelude });
        }
    }

    /// Carries out the exchange of a station that transmits alone.
    fn exchange(&mut self, at: Instant, transmission: Transmission) {
        let Transmission { line: index, rate, frames, airtime, prelude, .. } = transmission;
        let line = &mut self.lines[index];
        let LineSpec { sender, transmitter: TransmitterSpec { phy, retries, .. }, .. } = line.spec;
        let data_end = at + prelude + airtime;
        let (errors, mut received, mut sent) = (&mut line.errors, 0u32, 0u32);
        line.window.settle(retries, data_end, |bytes| {
            sent = join(sent, bytes);
            if errors.strike(rate, bytes) {
                return None;
            }
            received += 1;
            Some(data_end.min(at + prelude + phy.received_after(rate, sent)))
        });
        line.control.record(rate, frames, received);
        let acknowledgment = match frames {
            1 => ACK,
            2..=64 => BLOCK_ACK,
            _ => LONG_BLOCK_ACK,
        };
        // Other stations wait for the acknowledgment even if it is missing: the frame says how long (NAV).
        let end = data_end + phy.sifs() + phy.control_airtime(rate, acknowledgment);
        self.occupy(at, end, Duration::ZERO);
        self.account(index, at, if received > 0 { end } else { data_end });
        self.release(index);
        if received > 0 {
            self.lines[index].failures = 0;
            self.stations[sender].cw = CW_MIN;
        } else {
            self.fail(transmission);
            let timeout = self.ack_timeout(&phy);
            self.stations[sender].wait_after(data_end + timeout);
        }
        self.stations[sender].draw(&mut self.stream);
    }

    /// Lets the transmissions of several stations collide.
    fn collide(&mut self, at: Instant) {
        let on_air = |transmission: &Transmission| {
            let phy = self.lines[transmission.line].spec.transmitter.phy;
            match transmission.prelude {
                Duration::ZERO => transmission.airtime,
                _ => phy.control_airtime(transmission.rate, RTS),
            }
        };
        let mut transmissions: Vec<_> = self.transmissions.iter().map(|one| (on_air(one), *one)).collect();
        // In the order in which they end.
        transmissions.sort_by_key(|(time, _)| *time);
        let Some((longest, Transmission { line, .. })) = transmissions.last().copied() else { return };
        let eifs = self.eifs(&self.lines[line].spec.transmitter.phy);
        self.occupy(at, at + longest, eifs);
        for (time, transmission) in transmissions {
            let line = &mut self.lines[transmission.line];
            let LineSpec { sender, transmitter: TransmitterSpec { phy, retries, .. }, .. } = line.spec;
            line.window.settle(retries, at + time, |_| None);
            if transmission.prelude == Duration::ZERO {
                line.control.record(transmission.rate, transmission.frames, 0);
            }
            self.account(transmission.line, at, at + time);
            self.release(transmission.line);
            self.fail(transmission);
            let timeout = self.ack_timeout(&phy);
            let station = &mut self.stations[sender];
            station.wait_after((at + longest).max(at + time + timeout));
            station.draw(&mut self.stream);
        }
    }

    /// Widens the contention window after a failure. Resets it when the limit of attempts is reached.
    fn fail(&mut self, transmission: Transmission) {
        let line = &mut self.lines[transmission.line];
        let station = &mut self.stations[line.spec.sender];
        line.failures += 1;
        if line.failures > line.spec.transmitter.retries {
            (line.failures, station.cw) = (0, CW_MIN);
        } else {
            station.cw = (2 * station.cw + 1).min(CW_MAX);
        }
    }

    /// Returns the time after a transmission at which its sender misses the acknowledgment (AckTimeout). Its interframe
    /// space begins then (802.11-2020, 10.23.2.4).
    fn ack_timeout(&self, phy: &Phy) -> Duration {
        if self.spec.ack_timeout.is_on() { phy.sifs() + SLOT + DETECTION } else { Duration::ZERO }
    }

    /// Returns the additional wait of others after a collision.
    fn eifs(&self, phy: &Phy) -> Duration {
        // EIFS replaces DIFS by SIFS, an acknowledgment at the lowest rate, and DIFS.
        if self.spec.eifs.is_on() { phy.sifs() + phy.basic_airtime(6, ACK) } else { Duration::ZERO }
    }

    /// Occupies the channel: all stations suspend their backoff at `start`, and continue it `extra` and their interframe
    /// space after `end`.
    fn occupy(&mut self, start: Instant, end: Instant, extra: Duration) {
        self.busy_until = end;
        for station in &mut self.stations {
            station.suspend(start, end + extra);
        }
    }

    /// Accounts for the airtime of a line.
    fn account(&mut self, index: usize, start: Instant, end: Instant) {
        let line = &mut self.lines[index];
        let time = end.since(start);
        line.busy = line.busy + time;
        line.last = (start, end);
        let LineSpec { sender, receiver, .. } = line.spec;
        let back = line.back;
        self.stations[sender].charge(index, time);
        // An access point counts what a station sends against that station's share as well.
        if let Some(back) = back {
            self.stations[receiver].charge(back, time);
        }
    }

    /// Passes on the frames at the front of a line's window.
    fn release(&mut self, index: usize) {
        while let Some((Sending { item, start, .. }, fate, end)) = self.lines[index].window.release() {
            self.crossed.push_back(Crossed { line: LineId(index), item, start, end, fate });
        }
    }
}

impl<T: Copy + Send> AccessMedium<T> for Wifi<T> {
    fn handle_frame(&mut self, now: Instant, line: LineId) {
        let Some(line) = self.lines.get_mut(line.0) else { return };
        line.queued = true;
        if self.spec.turns == Turns::Arrival {
            line.arrivals.push_back(now);
        }
        let station = &mut self.stations[line.spec.sender];
        if station.access().is_none() {
            station.begin(now);
            if now < self.busy_until {
                station.draw_if_none(&mut self.stream);
            }
            self.schedule();
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.access
    }

    fn handle_timeout(&mut self, now: Instant, source: &mut dyn Source<T>) {
        while let Some(at) = self.access.filter(|at| *at <= now) {
            self.transmit(at, source);
            // Only senders may have no frames left.
            for transmission in &self.transmissions {
                let lines = &self.lines;
                self.stations[lines[transmission.line].spec.sender].update(|line| lines[line].is_backlogged());
            }
            self.schedule();
        }
    }

    fn poll_crossed(&mut self) -> Option<Crossed<T>> {
        self.crossed.pop_front()
    }

    fn held(&self, line: LineId) -> usize {
        self.lines.get(line.0).map_or(0, |line| line.window.waiting())
    }

    fn busy(&self, now: Instant, line: LineId) -> Duration {
        let Some(line) = self.lines.get(line.0) else { return Duration::ZERO };
        let (start, end) = line.last;
        line.busy.saturating_sub(end.since(start.max(now)))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
