//! Emulates impaired links between pairs of devices: `hop SEED LINK...`, each LINK in the form
//! `NEAR,FAR,rate=20,delay=5,queue=100,down.loss=0.02,up.damage=0.05,...`.
//!
//! A frame that arrives at NEAR leaves by FAR (down), and vice versa (up). All Ethernet frames are carried, IPv4 and
//! IPv6 alike; the devices' offloads must be off. Without settings a link forwards frames unchanged.
//!
//! | key | unit | meaning |
//! |---|---|---|
//! | `rate` | Mbit/s | rate of each direction |
//! | `delay` | ms | one-way delay |
//! | `queue` | frames | capacity of the queue; further frames are dropped |
//! | `down.loss`, `up.loss` | share | lost frames |
//! | `down.burst`, `up.burst` | frames | mean length of a loss burst (two-state model per frame); 1: independent losses |
//! | `down.damage`, ... | share | frames with one bit flipped after the Ethernet header; checksums are not corrected |
//! | `down.duplicate`, ... | share | duplicated frames |
//! | `down.reorder`, ... | share | frames delayed by a further `by` ms, so that later ones overtake them |
//! | `by` | ms | see `reorder`; default 10 |
//! | `option` | kind | TCP segments other than SYN and RST get an option of 11 bytes of this kind with changing content, like AccECN's (RFC 9768) |
//! | `mtu` | bytes | longer packets are dropped silently |
//!
//! Prints `ready`, and at SIGTERM one line of JSON with its counts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lasthop_proto::packet::Flags;
use lasthop_proto::random::{Root, Stream};
use lasthop_sys::ethtool::switch_offloads_off;
use lasthop_sys::packet_socket::PacketSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

const ETHERNET: usize = 14;
const MTU: u32 = 1500;
/// Maximum delay until a termination signal is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Impairments of one direction.
#[derive(Clone)]
struct Settings {
    rate: f64,
    delay: Duration,
    queue: usize,
    loss: f64,
    burst: f64,
    damage: f64,
    duplicate: f64,
    reorder: f64,
    by: Duration,
    mtu: usize,
    option: u8,
}

impl Settings {
    const NOTHING: Self = Self {
        rate: f64::INFINITY,
        delay: Duration::ZERO,
        queue: usize::MAX,
        loss: 0.0,
        burst: 1.0,
        damage: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        by: Duration::from_millis(10),
        mtu: usize::MAX,
        option: 0,
    };

    fn set(&mut self, key: &str, value: f64) -> bool {
        match key {
            "rate" => self.rate = value * 1e6,
            "delay" => self.delay = Duration::from_secs_f64(value / 1000.0),
            "queue" => self.queue = value as usize,
            "loss" => self.loss = value,
            "burst" => self.burst = value.max(1.0),
            "damage" => self.damage = value,
            "duplicate" => self.duplicate = value,
            "reorder" => self.reorder = value,
            "option" => self.option = value as u8,
            "mtu" => self.mtu = value as usize,
            "by" => self.by = Duration::from_secs_f64(value / 1000.0),
            _ => return false,
        }
        true
    }
}

#[derive(Default)]
struct Counts {
    carried: u64,
    lost: u64,
    queue_full: u64,
    damaged: u64,
    duplicated: u64,
    reordered: u64,
    refused: u64,
    too_long: u64,
}

impl Counts {
    fn json(&self) -> String {
        let Self { carried, lost, queue_full, damaged, duplicated, reordered, refused, too_long } = self;
        format!(
            r#"{{"carried":{carried},"lost":{lost},"queue_full":{queue_full},"damaged":{damaged},"duplicated":{duplicated},"reordered":{reordered},"refused":{refused},"too_long":{too_long}}}"#
        )
    }
}

/// Frame in flight, ordered by due time, then by number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    due: Instant,
    number: u64,
    bytes: Vec<u8>,
}

struct Direction {
    settings: Settings,
    random: Stream,
    in_bad_state: bool,
    /// Departure times of the waiting frames.
    departures: VecDeque<Instant>,
    flying: BinaryHeap<Reverse<Frame>>,
    number: u64,
    /// Number of segments that got an option.
    optioned: u32,
    counts: Counts,
}

impl Direction {
    fn new(settings: Settings, random: Stream) -> Self {
        Self {
            settings,
            random,
            in_bad_state: false,
            departures: VecDeque::new(),
            flying: BinaryHeap::new(),
            number: 0,
            optioned: 0,
            counts: Counts::default(),
        }
    }

    fn is_lost(&mut self) -> bool {
        let Settings { loss, burst, .. } = self.settings;
        if loss <= 0.0 {
            return false;
        }
        if burst <= 1.0 {
            return self.random.chance(loss);
        }
        // All frames are lost in the bad state, which lasts `burst` frames on average: its share of the time is `loss`.
        let (to_good, to_bad) = (1.0 / burst, loss / (burst * (1.0 - loss)));
        let change = self.random.chance(if self.in_bad_state { to_good } else { to_bad.min(1.0) });
        self.in_bad_state ^= change;
        self.in_bad_state
    }

    /// Takes a frame that arrives at `now`.
    fn take(&mut self, now: Instant, bytes: &[u8]) {
        while self.departures.front().is_some_and(|departure| *departure <= now) {
            self.departures.pop_front();
        }
        if self.departures.len() >= self.settings.queue {
            self.counts.queue_full += 1;
            return;
        }
        let start = self.departures.back().map_or(now, |last| now.max(*last));
        let end = start + Duration::from_secs_f64(bytes.len() as f64 * 8.0 / self.settings.rate);
        self.departures.push_back(end);
        // Dropped here because the frame has used the hop's capacity.
        if bytes.len() - ETHERNET.min(bytes.len()) > self.settings.mtu {
            self.counts.too_long += 1;
            return;
        }
        if self.is_lost() {
            self.counts.lost += 1;
            return;
        }
        let mut bytes = bytes.to_vec();
        if self.settings.option > 0 {
            self.optioned += 1;
            add_option(&mut bytes, self.settings.option, self.optioned);
        }
        if bytes.len() > ETHERNET && self.random.chance(self.settings.damage) {
            let bit = self.random.below(8 * (bytes.len() - ETHERNET) as u64) as usize;
            bytes[ETHERNET + bit / 8] ^= 1 << (bit % 8);
            self.counts.damaged += 1;
        }
        let mut due = end + self.settings.delay;
        if self.random.chance(self.settings.reorder) {
            due += self.settings.by;
            self.counts.reordered += 1;
        }
        if self.random.chance(self.settings.duplicate) {
            self.counts.duplicated += 1;
            self.fly(due, bytes.clone());
        }
        self.fly(due, bytes);
    }

    fn fly(&mut self, due: Instant, bytes: Vec<u8>) {
        self.number += 1;
        self.flying.push(Reverse(Frame { due, number: self.number, bytes }));
    }

    /// Delivers frames that are due at `now`.
    fn deliver(&mut self, now: Instant, device: &PacketSocket) {
        while self.flying.peek().is_some_and(|Reverse(frame)| frame.due <= now) {
            let Some(Reverse(frame)) = self.flying.pop() else { return };
            match device.send(&frame.bytes) {
                Ok(()) => self.counts.carried += 1,
                Err(_) => self.counts.refused += 1,
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse(frame)| frame.due)
    }
}

/// Appends an option of this kind, containing a counter, to those of a TCP segment if the header has space.
fn add_option(frame: &mut Vec<u8>, kind: u8, count: u32) {
    const LEN: usize = 12;
    let Some(view) = frame.get(ETHERNET..).and_then(lasthop_wire::parse) else { return };
    let flags = view.segment.flags;
    if flags.has(Flags::SYN) || flags.has(Flags::RST) || view.header_len - view.ip_len + LEN > 60 {
        return;
    }
    let [a, b, c, d] = count.to_be_bytes();
    let at = ETHERNET + view.header_len;
    frame.splice(at..at, [kind, 11, 0, 0, 0, b, c, d, 0, 0, a, 1]);
    let packet = &mut frame[ETHERNET..];
    packet[view.ip_len + 12] += (LEN as u8 / 4) << 4;
    let is_v4 = view.route.source.is_ipv4();
    let (field, len) = if is_v4 { (2, view.total_len() + LEN) } else { (4, view.total_len() + LEN - view.ip_len) };
    packet[field..field + 2].copy_from_slice(&(len as u16).to_be_bytes());
    if let Some(view) = lasthop_wire::parse(packet) {
        lasthop_wire::seal(packet, &view);
    }
}

struct Link {
    sockets: [PacketSocket; 2],
    /// Directions: down, up.
    directions: [Direction; 2],
}

impl Link {
    fn open(text: &str, number: usize, root: Root) -> Result<Self, Box<dyn Error>> {
        let mut parts = text.split(',');
        let devices = [parts.next().unwrap_or_default(), parts.next().unwrap_or_default()];
        let mut settings = [Settings::NOTHING; 2];
        for part in parts {
            let wrong =
                || format!("{text}: cannot read {part:?}; it takes KEY=NUMBER, such as rate=20 or down.loss=0.02");
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            let (directions, key) = match key.split_once('.') {
                Some(("down", key)) => (0..1, key),
                Some(("up", key)) => (1..2, key),
                _ => (0..2, key),
            };
            let known = settings[directions].iter_mut().all(|settings| settings.set(key, value));
            if !known || value.is_nan() || value < 0.0 {
                return Err(wrong().into());
            }
        }
        let open = |device: &str| {
            switch_offloads_off(device)
                .and_then(|()| PacketSocket::open(device, MTU))
                .map_err(|error| format!("cannot open device {device:?}: {error}"))
        };
        let [down, up] = settings;
        Ok(Self {
            sockets: [open(devices[0])?, open(devices[1])?],
            directions: [
                Direction::new(down, root.stream(&format!("link/{number}/down"))),
                Direction::new(up, root.stream(&format!("link/{number}/up"))),
            ],
        })
    }

    fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        for (socket, direction) in self.sockets.iter_mut().zip(&mut self.directions) {
            let now = Instant::now();
            socket.receive(|frame| {
                let came = now.checked_sub(Duration::from_nanos(frame.age)).unwrap_or(now);
                direction.take(came, frame.bytes);
            })?;
        }
        Ok(())
    }

    fn deliver(&mut self) {
        let [near, far] = &self.sockets;
        let [down, up] = &mut self.directions;
        down.deliver(Instant::now(), far);
        up.deliver(Instant::now(), near);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "hop SEED LINK..., each LINK as NEAR,FAR,rate=20,delay=5,down.loss=0.02";
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).ok_or(usage)?;
    let texts: Vec<_> = arguments.collect();
    if texts.is_empty() {
        return Err(usage.into());
    }
    let links = texts.iter().enumerate().map(|(number, text)| Link::open(text, number, Root(seed)));
    let mut links = links.collect::<Result<Vec<_>, _>>()?;
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&over))?;
    }
    println!("ready");
    while !over.load(Ordering::Relaxed) {
        let next = links.iter().flat_map(|link| &link.directions).filter_map(Direction::next).min();
        let wait = next.map_or(LONGEST_WAIT, |next| next.saturating_duration_since(Instant::now())).min(LONGEST_WAIT);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds: Vec<_> = links.iter().flat_map(|l| &l.sockets).map(|s| PollFd::new(s, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for link in &mut links {
            link.receive()?;
            link.deliver();
        }
    }
    let mut lines = Vec::new();
    for link in &links {
        let overruns = link.sockets.iter().map(|s| s.overruns().map(u64::from)).sum::<Result<u64, _>>()?;
        let [down, up] = &link.directions;
        lines.push(format!(r#"{{"down":{},"up":{},"overruns":{overruns}}}"#, down.counts.json(), up.counts.json()));
    }
    println!("[{}]", lines.join(","));
    Ok(())
}
