//! Two-ended repair of a lossy hop for all traffic: selective repeat driven by the sender, in-order delivery per flow,
//! and a sliding-window code where retransmissions are too late.
//!
//! [`Hop`] is one end, without I/O and without bytes: it converts packets to frames, and frames to packets. The
//! simulator's and the lab's node is [`node::TwoEnded`]. `docs/models/two-ended-link.md` explains the rules.

mod ahead;
mod budget;
mod cap;
mod classify;
mod code;
mod congestion;
mod control;
mod couple;
mod detect;
mod feedback;
mod flight;
mod frame;
mod header;
mod history;
mod image;
mod ingress;
mod limits;
mod live;
mod mean;
pub mod node;
mod numbers;
mod pace;
mod path;
mod rate;
mod receive;
mod receiver;
mod redundancy;
mod reported;
mod rounds;
mod schedule;
mod send;
mod settings;
mod status;
mod symbols;
mod tiers;
mod transmissions;
mod windows;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use self::code::{Coded, Gf, UNKNOWN, WINDOW, coefficient};
pub use self::congestion::State;
pub use self::control::RateRule;
pub use self::frame::{Class, Feedback, Frame, Item, Label, TcpSight, Traffic, Why};
pub use self::header::Header;
pub use self::image::Carried;
pub use self::numbers::{PacketNumber, PathId, Symbol, Window, expand};
pub use self::settings::{Bundle, Counters, HopConfig, Medium, Multipath, PathUse, Repair, Reports, Share, Sizes};
pub use self::tiers::{Copies, Terms, Tier};
pub use self::transmissions::Fate;

use self::ahead::Ahead;
use self::classify::Classifier;
use self::code::{Decoder, Encoder};
use self::couple::Couples;
use self::feedback::Account;
use self::ingress::Ingress;
use self::pace::time_at;
use self::path::Path;
use self::receiver::Receiver;
use self::redundancy::Due;
use self::symbols::{RepairRule, Symbols};
use self::tiers::Overflow;
pub use crate::packet::Image;
use crate::time::{Duration, Instant};

/// Maximum number of paths of a hop.
pub const MOST_PATHS: u8 = 8;

/// Length of feedback on the wire without the hop's header, in bytes.
pub const FEEDBACK_BYTES: u32 = 38;

/// Additional length of feedback if there are several paths, in bytes: arrival time, distance, path.
const MULTIPATH_BYTES: u32 = 7;

/// Minimum number of symbols that may be in flight, on any hop.
const LEAST_WINDOW: u64 = 128;

/// Returns the report schedule of an end with that configuration.
const fn reports(config: &HopConfig) -> Reports {
    match config.repair {
        Repair::Airmail(reports) => reports,
        Repair::Repeat | Repair::Adaptive | Repair::Share(_) => match config.medium {
            Medium::Own => Reports::Prompt,
            Medium::Shared => Reports::OnEvent,
        },
    }
}

/// A frame that leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing<I: Item> {
    /// Path of the frame.
    pub path: PathId,
    /// Packet number of the frame.
    pub packet: PacketNumber,
    /// Contents of the frame.
    pub frame: Frame<I>,
    /// Reason why the frame is sent.
    pub why: Why,
    /// Length of the frame on the wire, in bytes.
    pub bytes: u32,
}

/// One end of a hop.
#[derive(Clone, Debug)]
pub struct Hop<I: Item> {
    config: HopConfig,
    ingress: Ingress<I>,
    classifier: Classifier,
    symbols: Symbols<I>,
    receiver: Receiver<I>,
    encoder: Encoder<I::Coded>,
    decoder: Decoder<I::Coded>,
    /// Paths by number, at least one.
    paths: Vec<Path>,
    /// Use of several paths.
    multipath: Multipath,
    /// Use of secondary paths.
    overflow: Overflow,
    /// Paths with estimated rates that share a bottleneck.
    couples: Couples,
    /// Packets without repair that wait for a path, if there are several.
    bare: VecDeque<I>,
    /// Time until which idle paths are probed, if there are several.
    active_until: Option<Instant>,
    /// Time of the last poll for frames.
    polled: Instant,
    coded: Option<Due>,
    /// First symbol of the open block, and the time at which the block is closed ([`Repair::Share`]).
    block: Option<(Symbol, Instant)>,
    /// Coded frames among new packets ([`Repair::Adaptive`]).
    ahead: Ahead,
    /// Path on which a coded frame is due, if there are several.
    coded_on: Option<PathId>,
    /// Time until which packets are stored for decoding, if there are several paths.
    decodes_until: Option<Instant>,
    /// Time at which repair is decided after the last packet was sent ([`Repair::Adaptive`]).
    idle: Option<Instant>,
    out: VecDeque<I>,
    counters: Counters,
}

impl<I: Item> Hop<I> {
    /// Returns an end that has sent and received nothing.
    pub fn new(config: HopConfig) -> Self {
        let path = Path::new(config.rate, config.header, reports(&config));
        Self {
            ingress: Ingress::new(&config, path.control.rate()),
            classifier: Classifier::default(),
            symbols: Symbols::new(),
            receiver: Receiver::new(limits::third(config.memory) as usize),
            encoder: Encoder::new(),
            decoder: Decoder::new(),
            paths: Vec::from([path]),
            multipath: Multipath::default(),
            overflow: Overflow::default(),
            couples: Couples::default(),
            bare: VecDeque::new(),
            active_until: None,
            polled: Instant::ZERO,
            coded: None,
            block: None,
            ahead: Ahead::default(),
            coded_on: None,
            decodes_until: None,
            idle: None,
            out: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Adds paths, up to [`MOST_PATHS`]. Both ends number their paths alike. A hop without reports on arrivals
    /// ([`Repair::Share`]) cannot tell paths that work, and keeps to the first one.
    pub fn add_paths(&mut self, bundle: &Bundle) {
        if !self.repeats() {
            return;
        }
        self.multipath = bundle.multipath;
        let room = usize::from(MOST_PATHS).saturating_sub(self.paths.len());
        for &(rate, header) in bundle.more.iter().take(room) {
            self.add_path(rate, header);
        }
        for (path, terms) in self.paths.iter_mut().zip(&bundle.terms) {
            path.terms = *terms;
        }
    }

    fn add_path(&mut self, rate: RateRule, header: u16) {
        self.decoder.widen();
        let first = self.path(PathId::FIRST);
        let (lag, is_watched) = (first.control.pacer.lag(), first.sent.is_watched());
        let mut path = Path::new(rate, header, reports(&self.config));
        path.tolerate(lag);
        if is_watched {
            path.sent.watch();
        }
        self.paths.push(path);
    }

    /// Returns the reference numbers for restoring the 32-bit numbers of frames that arrive on a path: packet numbers,
    /// and symbols of the other end.
    pub fn near(&self, path: PathId) -> (PacketNumber, Symbol) {
        (self.path(path).account.largest().unwrap_or_default(), self.receiver.near())
    }

    /// Returns the reference numbers for restoring the numbers in feedback on a path: this end's own.
    pub fn near_own(&self, path: PathId) -> (PacketNumber, Symbol) {
        (self.path(path).sent.next(), self.symbols.next_symbol())
    }

    /// Returns the number of paths.
    pub fn path_count(&self) -> u8 {
        self.paths.len() as u8
    }

    /// Returns whether there is a path with that number.
    pub fn has_path(&self, path: PathId) -> bool {
        path.index() < self.paths.len()
    }

    fn path(&self, path: PathId) -> &Path {
        &self.paths[path.index()]
    }

    fn path_mut(&mut self, path: PathId) -> &mut Path {
        &mut self.paths[path.index()]
    }

    /// Returns the numbers of the paths.
    pub fn path_ids(&self) -> impl Iterator<Item = PathId> + use<I> {
        (0..self.path_count()).map(PathId)
    }

    /// Accepts a packet to be sent over the hop.
    pub fn handle_item(&mut self, now: Instant, item: I) {
        self.ingress.push(now, item);
        self.on_active(now);
    }

    /// Returns the next packet that arrived over the hop, as it is passed on at `now`. Its window may be reduced to
    /// signal congestion to the source that it is for.
    pub fn poll_item(&mut self, now: Instant) -> Option<I> {
        let mut item = self.out.pop_front()?;
        self.ingress.on_arrived(now, &mut item);
        Some(item)
    }

    /// Writes the next packet that [`Self::poll_item`] would return into `place`. Returns false if there is none.
    pub(super) fn poll_item_into(&mut self, now: Instant, place: &mut I) -> bool {
        let Some(item) = self.out.pop_front() else { return false };
        *place = item;
        self.ingress.on_arrived(now, place);
        true
    }

    fn repeats(&self) -> bool {
        !matches!(self.config.repair, Repair::Share(_))
    }

    fn codes(&self) -> bool {
        !matches!(self.config.repair, Repair::Repeat)
    }

    const fn is_airmail(&self) -> bool {
        matches!(self.config.repair, Repair::Airmail(_))
    }

    /// Returns the maximum feedback delay of the other end on a path; AIRMAIL's ends are assumed equal.
    fn longest_wait(&self, path: &Path) -> Duration {
        let class = self.symbols.newest_class();
        Account::longest_wait(reports(&self.config), class, path.detector.round_trip(), path.control.rate())
    }

    /// Returns the longest time of a round of repair over all paths, as far as packets are repaired that long: reports may
    /// be late.
    fn longest_trip(&self) -> Duration {
        let longest = self.paths.iter().map(|path| path.detector.repair_trip()).max().unwrap_or_default();
        if self.is_multipath() { longest.min(limits::LONGEST_HOLD) } else { longest }
    }

    /// Returns the maximum number of symbols in flight: the capacity of four round trips, the maximum time for which a
    /// symbol is repaired, and a margin.
    fn window(&self) -> u64 {
        let rate = if self.is_multipath() { self.total_rate() } else { self.path(PathId::FIRST).control.rate() };
        let window = 4 * limits::frames_in_flight(rate, self.longest_trip()) + LEAST_WINDOW;
        window.min(limits::third(self.config.memory))
    }

    /// Returns the parameters of the repair of losses on a path.
    fn repair_rule(&self, now: Instant, path: PathId) -> RepairRule {
        let (plan, rate, path) = if self.is_multipath() {
            (self.plan_among(now), self.total_rate(), self.best_path(now, None))
        } else {
            (self.plan_ahead(now, path), self.path(path).control.rate(), path)
        };
        let path = self.path(path);
        let rounds = path.control.repeats(now);
        RepairRule {
            trip: self.longest_trip(),
            patience: path.detector.patience(),
            frame: path.control.pacer.time_for(1500),
            wait: self.longest_wait(path),
            most: if self.is_airmail() || rounds <= 1 { 1 } else { u8::MAX },
            rounds,
            rate,
            code: plan.map_or(Duration::ZERO, |plan| time_at(rate, 1500).saturating_mul(plan.span)),
        }
    }
}
