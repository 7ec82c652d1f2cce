//! Transmissions over a path, and what feedback shows of them: arrivals, losses, silence.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::detect::Detector;
use super::frame::Feedback;
use super::limits::AHEAD;
use super::numbers::{PacketNumber, Symbol};
use super::reported::Reported;
use crate::time::{Duration, Instant};

/// Maximum number of fates queued for the driver.
const MOST_FATES: usize = 4096;

/// Maximum number of unacknowledged transmissions to track.
const MOST_SENT: usize = 2 * AHEAD as usize;

/// Maximum number of transmissions declared lost that are tracked, to detect late arrivals.
const MOST_LOST: usize = 4096;

/// Minimum time without feedback that counts as an outage: in probe timeouts, and absolute. Shorter gaps lose little,
/// and are common on half-duplex links.
const OUTAGE: u64 = 2;
const SHORTEST_OUTAGE: Duration = Duration::from_millis(100);

/// Fate of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet arrived.
    Arrived(PacketNumber),
    /// The packet was declared lost.
    Lost(PacketNumber),
}

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct Sent {
    symbol: Option<Symbol>,
    at: Instant,
    /// Bytes of all frames sent before.
    before: u64,
    open: bool,
}

/// The latest transmission that arrived, as reported by feedback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Anchor {
    pub packet: u64,
    /// Bytes of all frames sent before the transmission.
    pub before: u64,
    pub sent: Instant,
    /// Bytes that had arrived, without the hop's headers. Wraps.
    pub delivered: u32,
    /// Time of the transmission's arrival at the other end, plus the return path's delay.
    pub arrived: Instant,
}

/// A transmission that feedback reports as arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acked {
    /// Reported for the first time.
    InTime(Arrival),
    /// Reported after it was declared lost.
    Late(Arrival),
    /// Reported after all outstanding ones were declared lost because the path was silent. Its report may have been lost,
    /// so it says nothing about reordering.
    AfterSilence(Arrival),
    /// Already reported, or no longer tracked.
    Known,
}

/// Arrival of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub symbol: Option<Symbol>,
    /// Time from the transmission to the report.
    pub took: Duration,
    /// Number of later transmissions up to the last one that was reported before.
    pub behind: u64,
}

/// A search for lost transmissions, from the oldest one on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    next: u64,
    threshold: Option<u64>,
    patience: Duration,
}

/// Transmissions of a path.
#[derive(Clone, Debug)]
pub(super) struct Transmissions {
    /// Number of the first of `sent`.
    first: u64,
    sent: VecDeque<Sent>,
    /// Number of open ones.
    open: usize,
    /// Number of the first one that [`Self::next_overdue`] has not passed.
    copied: u64,
    /// Time of the last one that elicits feedback.
    last: Option<Instant>,
    /// Transmissions declared lost, by number, with the symbol and the time of each. Every report may show that some of
    /// them have arrived after all.
    lost: BTreeMap<u64, (Option<Symbol>, Instant)>,
    /// Number of the next one at the last [`Self::lose_all`].
    silent_before: u64,
    largest_acked: Option<u64>,
    /// Transmissions whose arrival was reported, as far as reports repeat it.
    reported: Reported,
    /// Set by the last feedback if it reported a later arrival than before.
    anchor: Option<Anchor>,
    /// Set by the last feedback if it ended an outage.
    outage: bool,
    /// Time of the last feedback.
    heard: Instant,
    loss_due: Option<Instant>,
    /// Start of the current silence, and number of probes since.
    quiet: Instant,
    probes: u32,
    /// Fates of transmissions, if they are watched.
    fates: Option<VecDeque<Fate>>,
}

impl Transmissions {
    pub fn new() -> Self {
        Self {
            first: 0,
            sent: VecDeque::new(),
            open: 0,
            copied: 0,
            last: None,
            lost: BTreeMap::new(),
            silent_before: 0,
            largest_acked: None,
            reported: Reported::default(),
            anchor: None,
            outage: false,
            heard: Instant::ZERO,
            loss_due: None,
            quiet: Instant::ZERO,
            probes: 0,
            fates: None,
        }
    }

    /// Starts to record the fates of transmissions.
    pub fn watch(&mut self) {
        self.fates.get_or_insert_default();
    }

    pub fn is_watched(&self) -> bool {
        self.fates.is_some()
    }

    pub fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.as_mut()?.pop_front()
    }

    fn tell(&mut self, fate: Fate) {
        if let Some(fates) = self.fates.as_mut().filter(|fates| fates.len() < MOST_FATES) {
            fates.push_back(fate);
        }
    }

    /// Returns the number of tracked transmissions.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Returns the number of the next transmission.
    pub fn next(&self) -> PacketNumber {
        PacketNumber(self.first + self.sent.len() as u64)
    }

    /// Records a transmission after `total` bytes, and returns its number. If too many are tracked, the oldest one is
    /// forgotten; its symbol is returned if it was open.
    pub fn record(
        &mut self,
        now: Instant,
        symbol: Option<Symbol>,
        elicits: bool,
        total: u64,
    ) -> (PacketNumber, Option<Symbol>) {
        let number = self.next();
        self.forget();
        self.sent.push_back(Sent { symbol, at: now, before: total, open: elicits });
        if elicits {
            self.quiet = now;
            self.last = Some(now);
            self.open += 1;
        }
        let excess = if self.sent.len() > MOST_SENT { self.sent.pop_front() } else { None };
        self.first += u64::from(excess.is_some());
        self.open -= usize::from(excess.is_some_and(|oldest| oldest.open));
        (number, excess.and_then(|oldest| oldest.symbol.filter(|_| oldest.open)))
    }

    /// Returns whether feedback refers to a transmission that was made.
    pub fn is_valid(&self, feedback: &Feedback) -> bool {
        feedback.largest < self.next()
    }

    /// Processes the time of valid feedback. Returns the time of the latest transmission that it reports, if none later
    /// was reported before. `wait` is the maximum feedback delay.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        detector: &mut Detector,
        wait: Duration,
    ) -> Option<Instant> {
        self.outage = self.is_outage(now, detector, wait);
        (self.quiet, self.probes, self.heard) = (now, 0, now);
        let largest = feedback.largest.0;
        let arrived = Instant::from_nanos(now.as_nanos().saturating_sub(feedback.delay.as_nanos()));
        let newest = largest.checked_sub(self.first).and_then(|index| self.sent.get(index as usize));
        self.anchor = newest.filter(|_| self.largest_acked.is_none_or(|before| before < largest)).map(|sent| Anchor {
            packet: largest,
            before: sent.before,
            sent: sent.at,
            delivered: feedback.delivered,
            arrived,
        });
        if let Some(sent) = newest.filter(|sent| sent.open) {
            detector.sample(now, now.since(sent.at), feedback.delay);
        }
        detector.relax(now);
        self.anchor.map(|anchor| anchor.sent)
    }

    /// Returns the transmissions whose arrival feedback reports for the first time, the latest one last.
    pub fn newly_reported(&mut self, feedback: &Feedback) -> impl Iterator<Item = u64> + use<> {
        let largest = feedback.largest.0;
        let news = self.reported.add(largest.saturating_sub(feedback.back.into()), feedback.received);
        news.chain(self.reported.add(largest + 1, 1))
    }

    /// Records that feedback reported no later arrival than `largest`.
    pub fn on_largest(&mut self, largest: PacketNumber) {
        self.largest_acked = Some(self.largest_acked.map_or(largest.0, |before| before.max(largest.0)));
    }

    /// Processes the arrival of a transmission.
    pub fn on_acked(&mut self, now: Instant, packet: u64) -> Acked {
        let behind = self.largest_acked.map_or(0, |largest| largest.saturating_sub(packet));
        let arrival = |symbol, at| Arrival { symbol, took: now.since(at), behind };
        let sent = packet.checked_sub(self.first).map(|index| self.sent.get_mut(index as usize));
        match sent {
            Some(None) => Acked::Known,
            Some(Some(sent)) if sent.open => {
                sent.open = false;
                self.open -= 1;
                let (symbol, at) = (sent.symbol, sent.at);
                self.tell(Fate::Arrived(PacketNumber(packet)));
                Acked::InTime(arrival(symbol, at))
            }
            Some(Some(_)) | None => match self.lost.remove(&packet) {
                Some((symbol, at)) if packet < self.silent_before => Acked::AfterSilence(arrival(symbol, at)),
                Some((symbol, at)) => Acked::Late(arrival(symbol, at)),
                None => Acked::Known,
            },
        }
    }

    /// Returns the latest transmission that arrived, if it was not known before.
    pub fn take_anchor(&mut self) -> Option<Anchor> {
        self.anchor.take()
    }

    /// Returns whether the last feedback ended an outage, once.
    pub fn take_outage(&mut self) -> bool {
        core::mem::take(&mut self.outage)
    }

    /// Returns whether feedback on outstanding transmissions, which arrives now, was missing long enough for an outage.
    fn is_outage(&self, now: Instant, detector: &Detector, wait: Duration) -> bool {
        let Some(largest) = self.largest_acked else { return false };
        let first = (largest + 1).saturating_sub(self.first) as usize;
        let Some(sent) = self.sent.range(first.min(self.sent.len())..).find(|sent| sent.open) else { return false };
        let least = detector.silence(wait, 0).saturating_mul(OUTAGE).max(SHORTEST_OUTAGE);
        now.since(self.heard.max(sent.at)) > least
    }

    /// Removes settled transmissions at the front.
    pub fn forget(&mut self) {
        while self.sent.front().is_some_and(|sent| !sent.open) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// Begins a search for lost transmissions: those before the largest that arrived.
    pub fn search(&mut self, detector: &Detector) -> Search {
        self.loss_due = None;
        Search { next: self.first, threshold: detector.threshold(), patience: detector.patience() }
    }

    /// Returns the number and the symbol of the next transmission that is declared lost now, in ascending order.
    pub fn next_lost(&mut self, now: Instant, search: &mut Search) -> Option<(u64, Option<Symbol>)> {
        let largest = self.largest_acked?;
        while search.next < largest {
            let packet = search.next;
            let sent = self.sent.get_mut((packet - self.first) as usize)?;
            search.next += 1;
            if !sent.open {
                continue;
            }
            let late = sent.at + search.patience;
            if late > now && search.threshold.is_none_or(|most| largest - packet < most) {
                self.loss_due = Some(self.loss_due.map_or(late, |due| due.min(late)));
                continue;
            }
            sent.open = false;
            let sent = *sent;
            self.lose(packet, sent);
            return Some((packet, sent.symbol));
        }
        None
    }

    fn lose(&mut self, packet: u64, Sent { symbol, at, .. }: Sent) {
        self.open -= 1;
        if self.lost.len() == MOST_LOST {
            self.lost.pop_first();
        }
        self.lost.insert(packet, (symbol, at));
        self.tell(Fate::Lost(PacketNumber(packet)));
    }

    /// Returns whether a transmission is outstanding.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    /// Returns the time of the last transmission that elicits feedback.
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Declares all outstanding transmissions lost, and returns their symbols.
    pub fn lose_all(&mut self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        self.silent_before = self.next().0;
        for index in 0..self.sent.len() {
            let sent = &mut self.sent[index];
            if core::mem::take(&mut sent.open) {
                let sent = *sent;
                symbols.extend(sent.symbol);
                self.lose(self.first + index as u64, sent);
            }
        }
        self.forget();
        symbols
    }

    /// Returns the symbol of the next outstanding transmission that is older than `age`, each once, in ascending order.
    pub fn next_overdue(&mut self, now: Instant, age: Duration) -> Option<Symbol> {
        self.copied = self.copied.max(self.first);
        while let Some(sent) = self.sent.get((self.copied - self.first) as usize) {
            if sent.open && sent.at + age > now {
                return None;
            }
            self.copied += 1;
            if let Some(symbol) = sent.symbol.filter(|_| sent.open) {
                return Some(symbol);
            }
        }
        None
    }

    /// Returns the time at which the next outstanding transmission is older than `age`.
    pub fn overdue_at(&self, age: Duration) -> Option<Instant> {
        let first = self.copied.saturating_sub(self.first) as usize;
        self.sent.range(first.min(self.sent.len())..).find(|sent| sent.open).map(|sent| sent.at + age)
    }

    /// Returns the time at which to search for lost transmissions.
    pub fn loss_due(&self) -> Option<Instant> {
        self.loss_due
    }

    /// Returns the number of consecutive probes without an answer.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Returns a time before which [`Self::silence_due`] never is.
    pub fn earliest_silence(&self, detector: &Detector) -> Instant {
        self.quiet + detector.round_trip()
    }

    /// Returns the time of the next probe, while packets are outstanding.
    pub fn silence_due(&self, detector: &Detector, wait: Duration) -> Instant {
        self.quiet + detector.silence(wait, self.probes)
    }

    /// Returns the time at which one of several paths counts as silent: no feedback has arrived since then, and since the
    /// oldest outstanding transmission.
    pub fn silent_from(&self, detector: &Detector, wait: Duration) -> Option<Instant> {
        let oldest = self.sent.iter().find(|sent| sent.open)?;
        Some(self.heard.max(oldest.at) + detector.silence(wait, self.probes))
    }

    /// Records that the path is silent, and is probed.
    pub fn on_silence(&mut self, now: Instant) {
        self.quiet = now;
        self.probes = self.probes.saturating_add(1);
    }
}
