//! Both ends over a simulated link: rates, delays, queues and channels of the simulator, and clocks that differ.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod shape;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use lasthop_probe::client::Measured;
use lasthop_probe::{Client, ClientConfig, Datagram, Failure, Key, Server, ServerConfig, Transmit};
use lasthop_proto::channel::{Channel, ErrorSpec, Fate, Frames};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};
use shape::{Shape, Shaping};

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Way {
    pub rate: f64,
    pub delay: Duration,
    /// Number of waiting packets, without the one in transmission.
    pub queue: usize,
    pub errors: ErrorSpec,
    /// Further behaviour.
    pub shape: Shape,
}

/// Returns a direction with independent losses.
pub fn way(mbps: f64, delay_ms: u64, queue: usize, loss: f64) -> Way {
    let errors =
        if loss > 0.0 { ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All } } else { ErrorSpec::None };
    Way { rate: mbps * 1e6, delay: Duration::from_millis(delay_ms), queue, errors, shape: Shape::default() }
}

/// Half-duplex medium.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    pub frame_overhead: Duration,
    pub turnaround: Duration,
    /// Aggregation: maximum number of packets in a frame, and the probability that a packet must be retransmitted.
    pub aggregate: Option<(usize, f64)>,
}

/// Frames of both directions that wait for the medium.
struct Medium {
    turns: Turns,
    waiting: [VecDeque<Transmit>; 2],
    free: Instant,
    last: usize,
    draws: Stream,
}

impl Medium {
    /// Returns the time at which the next frame may start.
    fn next(&self) -> Option<Instant> {
        self.waiting.iter().any(|waiting| !waiting.is_empty()).then_some(self.free)
    }

    /// Returns the direction of the frame that starts now, its packets, and its end. A packet that must be
    /// retransmitted delays those behind it.
    fn start(&mut self, now: Instant, ways: &[Way; 2]) -> Option<(usize, Vec<Transmit>, Instant)> {
        let way = if self.waiting[1 - self.last].is_empty() { self.last } else { 1 - self.last };
        let (most, repeats) = self.turns.aggregate.unwrap_or((1, 0.0));
        let count = most.min(self.waiting[way].len());
        let bytes: u32 = self.waiting[way].iter().take(count).map(bytes_of).sum();
        let turn = if way == self.last { Duration::ZERO } else { self.turns.turnaround };
        let air = Duration::from_secs_f64(8.0 * f64::from(bytes) / ways[way].rate);
        // Stations draw a random backoff before each frame.
        let backoff = self.turns.aggregate.map_or(0.0, |_| 9e-6 * self.draws.below(16) as f64);
        self.free = self.free.max(now) + turn + self.turns.frame_overhead + Duration::from_secs_f64(backoff) + air;
        self.last = way;
        let whole = (0..count).take_while(|_| repeats == 0.0 || !self.draws.chance(repeats)).count();
        (count > 0).then(|| (way, self.waiting[way].drain(..whole).collect(), self.free))
    }
}

fn bytes_of(transmit: &Transmit) -> u32 {
    transmit.bytes.len() as u32 + 28
}

struct Direction {
    way: Way,
    channel: Channel,
    shaping: Shaping,
    leaving: VecDeque<Instant>,
    free: Instant,
}

impl Direction {
    fn new(way: &Way, draws: Stream, shapes: Stream) -> Self {
        let channel = Channel::new(&way.errors, draws);
        let shaping = Shaping::new(&way.shape, shapes);
        Self { way: way.clone(), channel, shaping, leaving: VecDeque::new(), free: Instant::ZERO }
    }

    /// Queues a packet that arrives at `now`; returns when its transmission starts and ends. `None` if the queue is
    /// full.
    fn enqueue(&mut self, now: Instant, size: u32) -> Option<(Instant, Instant)> {
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
        }
        if self.leaving.len() > self.way.queue {
            return None;
        }
        let start = self.shaping.starts(self.free.max(now), size);
        self.free = self.shaping.ends(start, size, self.way.rate);
        self.leaving.push_back(self.free);
        Some((start, self.free))
    }

    /// Returns the times at which copies of a packet sent now arrive.
    fn send(&mut self, now: Instant, size: u32) -> Vec<Instant> {
        while let Some((at, size)) = self.shaping.other(now, self.way.rate) {
            let _ = self.enqueue(at, size);
        }
        if !self.shaping.passes(now, size) {
            return Vec::new();
        }
        let Some((start, through)) = self.enqueue(now, size) else { return Vec::new() };
        self.carry(start, through, size)
    }

    /// Returns the times at which copies of a packet arrive whose transmission takes place from `start` to `through`.
    fn carry(&mut self, start: Instant, through: Instant, size: u32) -> Vec<Instant> {
        let packet = Packet::<()> { len: size, header_len: 0, body: Body::Datagram { number: 0 }, ..Packet::default() };
        let fate = self.channel.judge(&packet, start, through);
        if matches!(fate, Fate::Delivered) { self.shaping.arrivals(through, self.way.delay) } else { Vec::new() }
    }
}

pub fn key() -> Key {
    Key::from_bytes([7; 32])
}

pub fn server_address() -> SocketAddr {
    "192.0.2.1:4100".parse().unwrap()
}

pub fn client_address() -> SocketAddr {
    "198.51.100.7:5000".parse().unwrap()
}

pub fn client(seconds: u64, seed: u64) -> Client {
    client_below(1_000_000_000, seconds, seed)
}

/// Returns a caller that limits the rate of both directions.
pub fn client_below(max_rate: u64, seconds: u64, seed: u64) -> Client {
    caller(max_rate, seconds, seed, false)
}

/// Returns a caller that follows rates that move.
pub fn client_moving(seconds: u64, seed: u64) -> Client {
    caller(1_000_000_000, seconds, seed, true)
}

fn caller(max_rate: u64, seconds: u64, seed: u64, moving: bool) -> Client {
    let mut nonce = [9; 16];
    nonce[..8].copy_from_slice(&seed.to_be_bytes());
    nonce[8..].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Client::new(ClientConfig {
        key: key(),
        server: server_address(),
        lasts: Duration::from_secs(seconds),
        max_rate,
        moving,
        nonce,
    })
}

pub fn server() -> Server {
    Server::new(key(), [3; 32], ServerConfig { max_rate: 1_000_000_000, sessions: 1 })
}

/// Time that a packet costs its sender, and mean delay of a receiver's timestamp in nanoseconds.
const COST: Duration = Duration::from_micros(6);
const LATE: f64 = 30e3;
/// Offset of the other end's clock.
const AHEAD: Duration = Duration::from_secs(5_000);

/// Result of a session.
pub struct Told {
    pub outcome: Result<(), Failure>,
    pub measured: Measured,
    /// Bytes sent per second of the session: down, up.
    pub bytes: [Vec<u64>; 2],
}

/// Runs a session to its end.
pub fn run(client: Client, server: Server, ways: &[Way; 2], seed: u64) -> Told {
    run_until(client, server, ways, seed, Duration::MAX)
}

/// Runs a session whose caller is stopped after a while.
pub fn run_until(client: Client, server: Server, ways: &[Way; 2], seed: u64, stop: Duration) -> Told {
    run_over(client, server, ways, None, seed, stop)
}

/// Runs a session over a half-duplex medium.
pub fn run_in_turns(client: Client, server: Server, ways: &[Way; 2], turns: Turns, seed: u64) -> Told {
    run_over(client, server, ways, Some(turns), seed, Duration::MAX)
}

pub fn run_over(
    mut client: Client,
    mut server: Server,
    ways: &[Way; 2],
    turns: Option<Turns>,
    seed: u64,
    stop: Duration,
) -> Told {
    let mut medium = turns.map(|turns| Medium {
        turns,
        waiting: [VecDeque::new(), VecDeque::new()],
        free: Instant::ZERO,
        last: 0,
        draws: Root(seed).stream("backoff"),
    });
    // Channels begin in the good state; a measurement begins at a random point of a link's life.
    let mut now = Instant::ZERO + Duration::from_secs(100_000);
    let began = now;
    let mut draws = Root(seed).stream("late");
    let mut directions = [0, 1].map(|at| {
        Direction::new(
            &ways[at],
            Root(seed).stream(["down", "up"][at]),
            Root(seed).stream(["down/shape", "up/shape"][at]),
        )
    });
    for direction in &mut directions {
        direction.free = now;
        direction.shaping.begin(now);
    }
    let mut underway: BTreeMap<(Instant, u64), (usize, Transmit)> = BTreeMap::new();
    let mut bytes = [Vec::new(), Vec::new()];
    let mut number = 0;
    // Each end may be busy until another time.
    let mut busy = [now; 2];
    for _ in 0..20_000_000_u64 {
        if let Some(outcome) = client.outcome() {
            let measured = client.measured(now);
            return Told { outcome, measured, bytes };
        }
        let due = [
            server.poll_deadline().map(|at| Instant::ZERO + at.since(Instant::ZERO + AHEAD)),
            Some(client.poll_deadline()),
        ];
        let arrival = underway.first_key_value().map(|((at, _), _)| *at);
        let next = [0, 1].into_iter().filter_map(|at| due[at].map(|due| due.max(busy[at])));
        let next = next.chain(arrival).chain(medium.as_ref().and_then(Medium::next)).min().unwrap();
        now = now.max(next);
        if now.since(began) >= stop {
            client.stop(now);
        }
        if arrival.is_some_and(|at| at <= now) {
            let ((at, _), (way, transmit)) = underway.pop_first().unwrap();
            let stamp = at + Duration::from_nanos(draws.exponential(LATE) as u64);
            let from = [server_address(), client_address()][way];
            let datagram = |at| Datagram { at, from, dscp: transmit.dscp, bytes: &transmit.bytes };
            match way {
                0 => client.handle_datagram(now, &datagram(stamp)),
                _ => server.handle_datagram(now + AHEAD, &datagram(stamp + AHEAD)),
            }
            continue;
        }
        if let Some(medium) = &mut medium
            && medium.next().is_some_and(|at| at <= now)
            && let Some((way, all, through)) = medium.start(now, ways)
        {
            for transmit in all {
                for arrives in directions[way].carry(now, through, bytes_of(&transmit)) {
                    number += 1;
                    underway.insert((arrives, number), (way, transmit.clone()));
                }
            }
            continue;
        }
        for at in [0, 1] {
            if due[at].is_none_or(|due| due > now) || busy[at] > now {
                continue;
            }
            let transmit = if at == 0 { server.poll_transmit(now + AHEAD) } else { client.poll_transmit(now) };
            let Some(transmit) = transmit else {
                busy[at] = now + Duration::from_micros(20);
                continue;
            };
            busy[at] = now + COST;
            let size = bytes_of(&transmit);
            let second = now.since(began).as_secs_f64() as usize;
            bytes[at].resize(bytes[at].len().max(second + 1), 0);
            bytes[at][second] += u64::from(size);
            if let Some(medium) = &mut medium {
                if medium.waiting[at].len() < ways[at].queue {
                    medium.waiting[at].push_back(transmit);
                }
            } else {
                for arrives in directions[at].send(now, size) {
                    number += 1;
                    underway.insert((arrives, number), (at, transmit.clone()));
                }
            }
        }
    }
    panic!("no end");
}
