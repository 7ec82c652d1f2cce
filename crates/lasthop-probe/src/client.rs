//! The calling end: it decides what both ends send, and collects what became of each packet.

mod lane;
mod logs;
mod medium;
mod moving;
mod outcome;

use std::net::SocketAddr;

use lasthop_proto::time::{Duration, Instant};

use crate::end::{Datagram, End, Side, TOTALS, Totals, Transmit};
use crate::estimate::{Log, Purpose, capacity, planned};
use crate::key::Key;
use crate::order::{Task, Train};
use crate::plan::{Path, Plan};
use crate::wire::{Cookie, HEADER, Kind, Nonce, OPENING, PING, Reader, opening, overhead, read_opening};
use lane::Lane;
use logs::Logs;
use medium::{Medium, alone};
use moving::Moving;
pub use outcome::{Failure, Measured, Progress, Way};

/// Shortest, usual and longest measurement, in seconds. Five minutes tell more about rare bad periods.
pub const SECONDS: [u64; 3] = [10, 60, 300];
/// Minimum rate limit, in bits per second: at this rate the first train takes a second.
pub const LEAST_RATE: u64 = 64_000;

/// Delay before the first retry of an opening message; it doubles with each retry.
const RETRY: Duration = Duration::from_millis(250);
/// Time without an answer after which the other end is considered absent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time without a packet after which the session counts as dead. An overload may fill a queue of several seconds.
const GONE: Duration = Duration::from_secs(15);
/// Time after [`Client::stop`], beside four round trips, to fetch what is not known yet.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Interval between pings.
const PINGS: Duration = Duration::from_millis(100);
/// Packet size of the first trains, in bytes: the minimum MTU of IPv6.
const FIRST_SIZE: u16 = 1280;
/// Minimum duration of the check of the first trains, beside round trips.
const CHECK: Duration = Duration::from_millis(700);
/// Number of first trains, and of packets in each.
const FIRST_TRAINS: usize = 4;
const FIRST_TRAIN: u16 = 8;
/// Gap between the packets of different sizes that find the path MTU.
const LADDER_GAP: Duration = Duration::from_millis(15);

/// Configuration of a measurement.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Shared key.
    pub key: Key,
    /// Address of the other end.
    pub server: SocketAddr,
    /// Total duration; [`SECONDS`] has the usual values.
    pub lasts: Duration,
    /// Maximum rate of either direction, in bits per second; single packets may exceed it.
    pub max_rate: u64,
    /// True to follow rates that move: trains for `lasts`, then overloads.
    pub moving: bool,
    /// Nonce that the driver drew for this session only.
    pub nonce: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Hello {
        since: Option<Instant>,
        next: Instant,
        pause: Duration,
    },
    Open {
        since: Instant,
        cookie: Cookie,
        next: Instant,
        pause: Duration,
    },
    First {
        since: Instant,
    },
    /// The rates that the first trains suggest are being checked.
    Check {
        since: Instant,
        rates: [f64; 2],
    },
    Main {
        since: Instant,
        until: Instant,
    },
    Drain {
        since: Instant,
        settled: bool,
    },
    Over(Result<(), Failure>),
}

/// State machine of the caller.
pub struct Client {
    config: ClientConfig,
    phase: Phase,
    began: Instant,
    end: Option<End>,
    heard: Instant,
    server_rate: u64,
    lanes: [Lane; 2],
    medium: Medium,
    moving: Moving,
    logs: Logs,
    round_trips: Vec<f64>,
    next_ping: Instant,
    overruns: u32,
    others: u8,
    goodbyes: u32,
    stopped: bool,
}

impl Client {
    /// Creates a caller that has not begun.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            phase: Phase::Hello { since: None, next: Instant::ZERO, pause: RETRY },
            began: Instant::ZERO,
            end: None,
            heard: Instant::ZERO,
            server_rate: 0,
            lanes: [Lane::default(), Lane::default()],
            medium: Medium::default(),
            moving: Moving::default(),
            logs: Logs::default(),
            round_trips: Vec::new(),
            next_ping: Instant::ZERO,
            overruns: 0,
            others: 0,
            goodbyes: 0,
            stopped: false,
            config,
        }
    }

    /// Sets the number of datagrams that the kernel has dropped because the receive buffer was full.
    pub fn set_overruns(&mut self, overruns: u32) {
        self.overruns = overruns;
    }

    /// Returns the outcome once the measurement is over and the last packet is sent.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match self.phase {
            Phase::Over(outcome) if self.goodbyes == 0 => Some(outcome),
            _ => None,
        }
    }

    /// Ends the measurement. If the main part has begun, the results so far are kept, and the client takes some round
    /// trips to fetch what is not known yet.
    pub fn stop(&mut self, now: Instant) {
        match self.phase {
            Phase::Main { .. } => {
                self.lanes.iter_mut().for_each(Lane::end);
                self.medium.end();
                self.moving.end();
                self.phase = Phase::Drain { since: now, settled: false };
                let left = LAST_WORDS + self.round_trip() * 4;
                self.config.lasts = self.config.lasts.min(now.since(self.began) + left);
                self.stopped = true;
            }
            Phase::Drain { .. } | Phase::Over(_) => {}
            Phase::Hello { .. } | Phase::Open { .. } | Phase::First { .. } | Phase::Check { .. } => {
                self.finish(Err(Failure::Stopped));
            }
        }
    }

    fn finish(&mut self, outcome: Result<(), Failure>) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        self.phase = Phase::Over(outcome);
        if let Some(end) = &mut self.end
            && outcome != Err(Failure::Ended)
        {
            end.source.stop();
            self.goodbyes = 3;
            (0..3).for_each(|_| end.post(Kind::Bye, Vec::new(), 0));
        }
    }

    /// Processes a datagram from any source.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        if datagram.from != self.config.server {
            return;
        }
        let opens = |kind: Kind, key: &Key, nonce: &Nonce| {
            (Kind::peek(datagram.bytes) == Some(kind))
                .then(|| read_opening(key, datagram.bytes))
                .flatten()
                .filter(|(echoed, _)| echoed == nonce)
                .map(|(_, body)| body.to_vec())
        };
        match &self.phase {
            Phase::Hello { since, .. } => {
                let body = opens(Kind::Challenge, &self.config.key, &self.config.nonce);
                let Some(Ok(cookie)) = body.map(Cookie::try_from) else { return };
                self.phase = Phase::Open { since: since.unwrap_or(now), cookie, next: now, pause: RETRY };
            }
            Phase::Open { cookie, .. } => {
                let cookie = *cookie;
                if opens(Kind::Refuse, &self.config.key, &self.config.nonce).is_some() {
                    self.finish(Err(Failure::Busy));
                    return;
                }
                let acceptance = End::acceptance(&self.config.key, &cookie);
                let Some(body) = opens(Kind::Accept, &acceptance, &self.config.nonce) else { return };
                let Some(rate) = Reader(&body).u64() else { return };
                self.begin(now, &cookie, rate);
            }
            _ => self.take(now, datagram),
        }
    }

    /// Starts the first trains: the session is open.
    fn begin(&mut self, now: Instant, cookie: &Cookie, rate: u64) {
        let ClientConfig { key, server, nonce, max_rate, .. } = &self.config;
        self.end = Some(End::new(key, Side::Caller, *server, nonce, cookie, *max_rate));
        self.server_rate = rate;
        self.heard = now;
        self.next_ping = now;
        self.phase = Phase::First { since: now };
        for way in Way::BOTH {
            let limit = self.limit(way);
            let gap = if limit >= 1e9 { 0.0 } else { 8.0 * f64::from(FIRST_SIZE) / limit };
            let train = Train { count: FIRST_TRAIN, size: FIRST_SIZE, gap: Duration::from_secs_f64(gap) };
            // On a shared medium, simultaneous trains would slow each other: the directions take turns.
            let rest = [Duration::from_millis(if way == Way::Up { 110 } else { 10 }), Duration::from_millis(190)];
            self.lanes[way as usize].add(Purpose::Ladder, Task::Ladder(LADDER_GAP), [Duration::ZERO; 2]);
            (0..FIRST_TRAINS).for_each(|number| {
                let rest = [if number == 0 { rest[0] } else { Duration::from_millis(10) }, rest[1]];
                self.lanes[way as usize].add(Purpose::Capacity, Task::Train(train), rest);
            });
        }
    }

    fn limit(&self, way: Way) -> f64 {
        match way {
            Way::Down => self.config.max_rate.min(self.server_rate) as f64,
            Way::Up => self.config.max_rate as f64,
        }
    }

    /// Processes a packet of the session.
    fn take(&mut self, now: Instant, datagram: &Datagram<'_>) {
        let Some(end) = &mut self.end else { return };
        let Some((header, body)) = end.receive(datagram) else { return };
        self.heard = now;
        let mut reader = Reader(body);
        match header.kind {
            Kind::Pong => {
                let (Some(pinged), Some(received)) = (reader.u64(), reader.u64()) else { return };
                let there = header.sent.saturating_sub(received);
                let took = datagram.at.as_nanos().saturating_sub(pinged).saturating_sub(there);
                self.round_trips.push(took as f64 / 1e9);
                self.totals(&mut reader);
                // Earlier versions send zeros here.
                self.others = self.others.max(reader.u8().unwrap_or(0));
            }
            Kind::Ordered => {
                if let (Some(id), Some(1)) = (reader.u16(), reader.u8()) {
                    self.lanes[Way::Down as usize].taken(id);
                }
            }
            Kind::Log => {
                let Some(rest) = body.get(TOTALS..) else { return };
                self.logs.take(rest, &mut end.sink);
                self.totals(&mut reader);
            }
            Kind::Bye => self.finish(Err(Failure::Ended)),
            _ => {}
        }
    }

    fn totals(&mut self, reader: &mut Reader<'_>) {
        if let Some(totals) = Totals::read(reader) {
            self.logs.totals(totals);
        }
    }

    fn round_trip(&self) -> Duration {
        let least = self.round_trips.iter().copied().min_by(f64::total_cmp).unwrap_or(0.3);
        Duration::from_secs_f64(least)
    }

    /// Returns the progress.
    pub fn progress(&self, now: Instant) -> Progress {
        let doing = match self.phase {
            Phase::Hello { .. } | Phase::Open { .. } => "calling",
            Phase::First { .. } | Phase::Check { .. } => "finding the rate",
            Phase::Main { .. } => "measuring",
            Phase::Drain { .. } => "collecting",
            Phase::Over(_) => "done",
        };
        let share = now.since(self.began).as_secs_f64() / self.config.lasts.as_secs_f64();
        let down = self.end.as_ref().map_or(0, |end| end.sink.arrivals().len());
        Progress { doing, share: share.min(1.0), arrived: [down, self.logs.arrivals().len()] }
    }

    /// Returns the findings on one direction so far.
    fn log(&self, way: Way) -> Log {
        let Some(end) = &self.end else { return Log::default() };
        let lane = &self.lanes[way as usize];
        match way {
            Way::Down => logs::down(&end.sink, lane, self.logs.last_sent()),
            Way::Up => logs::up(end.source.log(), self.logs.arrivals(), self.logs.told_duplicates(), lane),
        }
    }

    /// Returns the raw results.
    pub fn measured(&self, now: Instant) -> Measured {
        let settled = self.lanes.each_ref().map(|lane| lane.settled);
        Measured {
            logs: Way::BOTH.map(|way| self.log(way)),
            round_trips: self.round_trips.clone(),
            ping: PING as u16 + overhead(&self.config.server),
            limits: Way::BOTH.map(|way| self.limit(way)),
            overruns: [self.overruns, self.logs.overruns()],
            others: self.others,
            seconds: now.since(self.began).as_secs_f64(),
            settled,
            trains: self.moving_trains(),
            stopped: self.stopped,
        }
    }

    /// Returns the number of packets in a train of each direction of a moving measurement.
    fn moving_trains(&self) -> Option<[u16; 2]> {
        let count = |lane: &Lane| lane.path().map_or(1, |path| moving::trains(path).0);
        self.config.moving.then(|| self.lanes.each_ref().map(count))
    }

    /// Returns the latest time at which to call [`Client::poll_transmit`].
    pub fn poll_deadline(&self) -> Instant {
        let source = self.end.as_ref().and_then(End::poll_deadline);
        let own = match &self.phase {
            Phase::Hello { next, .. } | Phase::Open { next, .. } => *next,
            Phase::Over(_) => return source.unwrap_or(Instant::ZERO),
            _ => {
                let steps =
                    self.lanes.iter().filter_map(Lane::next_step).chain(self.medium.next()).chain(self.moving.next());
                steps.fold(self.next_ping, Instant::min)
            }
        };
        source.map_or(own, |at| at.min(own))
    }

    /// Returns the next datagram that is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(transmit) = self.advance(now) {
            return Some(transmit);
        }
        let end = self.end.as_mut()?;
        let transmit = end.poll(now);
        if matches!(self.phase, Phase::Over(_)) {
            self.goodbyes = if transmit.is_some() { self.goodbyes.saturating_sub(1) } else { 0 };
        }
        transmit
    }

    /// Performs the actions that are due by `now`. Returns opening messages, which belong to no session yet.
    fn advance(&mut self, now: Instant) -> Option<Transmit> {
        let to = self.config.server;
        match &mut self.phase {
            Phase::Hello { since, next, pause } => {
                if now < *next {
                    return None;
                }
                let begun = *since.get_or_insert(now);
                if now.since(begun) >= PATIENCE {
                    self.phase = Phase::Over(Err(Failure::NoAnswer));
                    return None;
                }
                if begun == now {
                    self.began = now;
                }
                (*next, *pause) = (now + *pause, *pause * 2);
                *next = (*next).min(begun + PATIENCE);
                let bytes = opening(&self.config.key, Kind::Hello, &self.config.nonce, &[], OPENING);
                Some(Transmit { to, dscp: 0, bytes })
            }
            Phase::Open { since, cookie, next, pause } => {
                if now < *next {
                    return None;
                }
                if now.since(*since) >= PATIENCE {
                    self.phase = Phase::Over(Err(Failure::NoAnswer));
                    return None;
                }
                (*next, *pause) = (now + *pause, *pause * 2);
                let bytes = opening(&self.config.key, Kind::Open, &self.config.nonce, cookie, OPENING);
                Some(Transmit { to, dscp: 0, bytes })
            }
            Phase::Over(_) => None,
            Phase::First { .. } | Phase::Check { .. } | Phase::Main { .. } | Phase::Drain { .. } => {
                self.measure(now);
                None
            }
        }
    }

    fn measure(&mut self, now: Instant) {
        if now >= self.heard + GONE {
            self.finish(Err(Failure::Silent));
            return;
        }
        if now >= self.next_ping {
            self.next_ping = now + PINGS;
            let urgent = !matches!(self.phase, Phase::Main { .. });
            let round_trip = self.round_trip();
            if let Some(end) = &mut self.end {
                end.post(Kind::Ping, Vec::new(), PING);
                let pace = logs::Pace { urgent, patience: (round_trip * 3).max(Duration::from_millis(250)) };
                self.logs.ask(now, pace, end);
            }
            self.step(now);
        }
        self.take_steps(now);
        let again = (self.round_trip() * 2).max(Duration::from_millis(150));
        if let Some(end) = &mut self.end {
            if let Some(order) = self.lanes[Way::Down as usize].due(now, again) {
                end.post(Kind::Order, order.to_bytes(), HEADER + 48);
            }
            // This end's own orders need no packet.
            while let Some(order) = self.lanes[Way::Up as usize].due(now, again) {
                let _ = end.source.take(now, order);
                self.lanes[Way::Up as usize].taken(order.id);
            }
        }
    }

    /// Moves to the next phase if its time has come.
    fn step(&mut self, now: Instant) {
        match self.phase {
            Phase::First { since } => self.end_first(now, since),
            Phase::Check { since, rates } => self.end_check(now, since, rates),
            Phase::Main { until, .. } if now >= until => self.phase = Phase::Drain { since: now, settled: false },
            Phase::Drain { since, settled } => {
                let least = (self.round_trip() * 3).max(Duration::from_millis(400));
                if !settled && now >= since + least {
                    self.logs.settle();
                    self.phase = Phase::Drain { since, settled: true };
                } else if settled && (self.logs.is_complete() || now >= self.began + self.config.lasts) {
                    self.finish(Ok(()));
                }
            }
            _ => {}
        }
    }

    /// Starts the check of the rates that the first trains suggest, once there are any.
    fn end_first(&mut self, now: Instant, since: Instant) {
        let spent = now.since(since);
        if spent < Duration::from_millis(1200) + self.round_trip() * 2 {
            return;
        }
        let enough = if spent < Duration::from_millis(3000) { FIRST_TRAINS as u32 - 1 } else { 1 };
        let logs = Way::BOTH.map(|way| self.log(way));
        let found = logs.each_ref().map(|log| capacity(log).filter(|found| found.trains >= enough));
        if found.iter().any(Option::is_none) && spent < PATIENCE {
            return;
        }
        // A direction in which nothing arrived yet may still deliver.
        let heard = |log: &Log| log.of(Purpose::Capacity).filter(|packet| packet.arrived.is_some()).count() > 2;
        if !logs.iter().all(heard) && spent < (PATIENCE * 2).min(self.config.lasts / 3) {
            return;
        }
        // If delays vary by more than a train takes, trains give only a lower bound to begin with.
        let rates = [0, 1].map(|at| planned(&logs[at], found[at].map(|found| found.rate)));
        for way in Way::BOTH {
            let limit = self.limit(way);
            let Some(rate) = rates[way as usize] else {
                self.finish(Err(Failure::NoRate(way)));
                return;
            };
            let trains = Plan::check(rate, limit, FIRST_SIZE);
            let start = if way == Way::Up { Duration::from_millis(210) } else { Duration::from_millis(10) };
            for (at, train) in trains.into_iter().enumerate() {
                let before = if at == 0 { start } else { Duration::ZERO };
                self.lanes[way as usize].add(Purpose::Check, Task::Train(train), [before, Duration::ZERO]);
            }
        }
        self.phase = Phase::Check { since: now, rates: rates.map(Option::unwrap_or_default) };
    }

    /// Makes the plan once the check shows whether the rates are sustained.
    fn end_check(&mut self, now: Instant, since: Instant, rates: [f64; 2]) {
        let spent = now.since(since);
        if spent < CHECK + self.round_trip() * 2 {
            return;
        }
        let logs = Way::BOTH.map(|way| self.log(way));
        let checked = |log: &Log| log.of(Purpose::Check).filter(|packet| packet.arrived.is_some()).count() > 8;
        if !logs.iter().all(checked) && spent < CHECK * 5 + self.round_trip() * 2 {
            return;
        }
        let rates = [0, 1].map(|at| planned(&logs[at], Some(rates[at])).unwrap_or(rates[at]));
        let mut drain = Duration::from_millis(1500) + self.round_trip() * 4;
        // Slow ends need time for the remaining reports.
        drain = drain.min(self.config.lasts / 3);
        let until = match self.config.moving {
            true => now + self.config.lasts,
            false => self.began + self.config.lasts.saturating_sub(drain),
        };
        for way in Way::BOTH {
            let log = &logs[way as usize];
            let mtu = log.of(Purpose::Ladder).filter(|packet| packet.arrived.is_some()).map(|packet| packet.size);
            let mtu = mtu.max().unwrap_or(FIRST_SIZE).clamp(FIRST_SIZE, 1500);
            let path = Path { rate: rates[way as usize], limit: self.limit(way), mtu };
            let seed = u64::from_be_bytes(std::array::from_fn(|at| self.config.nonce[at + 8 * (way as usize)]));
            let settled = log.packets.iter().map(|packet| packet.sent).fold(f64::MIN, f64::max);
            let later = if way == Way::Up { 0.5 } else { 0.0 };
            let plan = Plan::new(path, until.since(now), seed, later);
            self.lanes[way as usize].begin(now, until, path, plan, settled, !self.config.moving);
        }
        let until = if self.config.moving {
            let seed = u64::from_be_bytes(std::array::from_fn(|at| self.config.nonce[at]));
            let (lasts, round_trip) = (self.config.lasts, self.round_trip());
            let until = self.moving.begin(now, &mut self.lanes, (seed, round_trip), lasts);
            self.config.lasts = until.since(self.began) + drain * 3;
            until
        } else {
            self.medium.begin(now, until.since(now));
            until
        };
        self.phase = Phase::Main { since: now, until };
    }

    /// Orders what the plan has due.
    fn take_steps(&mut self, now: Instant) {
        let round_trip = self.round_trip();
        for way in Way::BOTH {
            while let Some(purpose) = self.lanes[way as usize].step(now) {
                if purpose == Purpose::Capacity && self.medium.is_shared() {
                    // Packets of the other direction would be interleaved with those of the train.
                    if let Some(train) = self.lanes[way as usize].capacity() {
                        alone(&mut self.lanes, way as usize, purpose, train, round_trip);
                    }
                    continue;
                }
                let log = self.log(way);
                self.lanes[way as usize].slow_down(now, &log);
                self.lanes[way as usize].plan(purpose, Some(&log), LADDER_GAP);
            }
        }
        while let Some(way) = self.moving.take(now) {
            let log = self.log(way);
            let lane = &mut self.lanes[way as usize];
            if let Some(path) = lane.path() {
                lane.add(Purpose::Overload, moving::overload(path, &log), [Duration::ZERO; 2]);
            }
        }
        if self.moving.is_unknown(now, &self.lanes[Way::Down as usize]) {
            self.finish(Err(Failure::NoTrains));
        }
        if self.medium.is_due(now) {
            let logs = Way::BOTH.map(|way| self.log(way));
            self.medium.order(&mut self.lanes, logs.each_ref(), round_trip);
        }
    }
}
