//! Parameters of a cell, and the arithmetic that follows from them: rates, and the directions of time slots.

use alloc::string::String;

use crate::time::{Duration, Instant};

/// Direction of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the base station to the user.
    Down,
    /// From the user to the base station.
    Up,
}

/// Efficiency of the channel quality indicators (CQI) 1 to 15, in hundredths of a bit per resource element (3GPP
/// R1-081483, rounded as in ns-3's `lte-amc.cc`).
pub(super) const EFFICIENCIES: [u64; 15] = [15, 23, 38, 60, 88, 118, 148, 191, 241, 273, 332, 390, 452, 512, 555];

/// Resource elements of a resource block in one TTI: 12 subcarriers of 14 symbols.
const ELEMENTS: u64 = 12 * SYMBOLS as u64;
/// Symbols of a TTI.
const SYMBOLS: u32 = 14;
/// Downlink symbols of a special slot; the others are guard symbols.
const SPECIAL_SYMBOLS: u32 = 10;
/// Units of [`CellSpec::density`] in a bit: efficiencies are in hundredths, the overhead is in thousandths.
const DENSITY_UNIT: u64 = 100_000;

/// Mean and variation of the signal-to-noise ratio (SNR) of a user in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quality {
    /// Mean in dB.
    pub mean: f64,
    /// Standard deviation of the shadowing in dB; zero for a fixed SNR.
    pub sigma: f64,
    /// Time after which the autocorrelation of the shadowing is 1/e.
    pub coherence: Duration,
}

impl Quality {
    /// Returns a constant SNR.
    pub const fn fixed(snr: f64) -> Self {
        Self { mean: snr, sigma: 0.0, coherence: Duration::ZERO }
    }

    fn is_sound(&self) -> bool {
        (-200.0..=200.0).contains(&self.mean) && (0.0..=100.0).contains(&self.sigma)
    }
}

/// Resources of a cell in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CarrierSpec {
    /// Number of resource blocks.
    pub blocks: u32,
    /// Number of spatial layers, each of which carries the whole rate.
    pub layers: u32,
    /// Number of competing users with full buffers that have no line.
    pub others: u32,
    /// Channel of each of the competing users.
    pub quality: Quality,
}

/// Hybrid automatic repeat request: fast repeats of a transport block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HarqSpec {
    /// Probability that a transmission of a block fails, 0 to 1.
    pub loss: f64,
    /// Minimum time from the start of a failed transmission to the start of the next.
    pub delay: Duration,
    /// Maximum number of transmissions in a round.
    pub transmissions: u32,
}

/// Acknowledged mode of radio link control: a new round of HARQ for a block of which all transmissions failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RlcSpec {
    /// Minimum time from the start of a round's last transmission to the start of the next round.
    pub delay: Duration,
    /// Number of rounds before the frames of a block are given up.
    pub rounds: u32,
    /// Maximum number of blocks from the first unacknowledged one, itself included.
    pub window: u32,
}

/// Discontinuous reception: the receiver of an idle user sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrxSpec {
    /// Time after the last transmission of a user until its receiver sleeps.
    pub idle: Duration,
    /// Period at which the receiver wakes up.
    pub cycle: Duration,
    /// Time for which the receiver listens in each period. A downlink frame waits uniformly from zero to `cycle - on`.
    pub on: Duration,
}

/// Handovers of a user.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HandoverSpec {
    /// Mean interval between the starts of handovers: `least` plus an exponential time.
    pub interval: Duration,
    /// Minimum interval.
    pub least: Duration,
    /// Minimum and maximum time without transmission; uniform.
    pub gap: [Duration; 2],
    /// Probability that a handover fails. The user's frames on the medium and in its downlink queue are then lost.
    pub failure: f64,
    /// Minimum and maximum time without transmission after a failed handover; uniform.
    pub outage: [Duration; 2],
}

/// A user of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellUser {
    /// Name, part of the names of its random streams.
    pub name: String,
    /// Channel of the downlink.
    pub down: Quality,
    /// Channel of the uplink.
    pub up: Quality,
    /// Handovers, if the user moves.
    pub handover: Option<HandoverSpec>,
}

/// A line of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellLine {
    /// Number of the line's user, from 0.
    pub user: usize,
    /// Direction.
    pub direction: Direction,
}

/// Maximum number of slots of a pattern.
pub const MOST_SLOTS: usize = 20;

/// A periodic pattern of downlink, special and uplink slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotPattern {
    slots: [u8; MOST_SLOTS],
    count: usize,
}

impl SlotPattern {
    /// Parses a pattern such as `DDDSU`. `None` if there is a character other than `D`, `S` and `U`, no downlink or
    /// no uplink slot, or more than [`MOST_SLOTS`].
    pub const fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() > MOST_SLOTS {
            return None;
        }
        let (mut slots, mut count, mut has_down, mut has_up) = ([b'D'; MOST_SLOTS], 0, false, false);
        while count < bytes.len() {
            match bytes[count] {
                b'D' => has_down = true,
                b'U' => has_up = true,
                b'S' => {}
                _ => return None,
            }
            slots[count] = bytes[count];
            count += 1;
        }
        if has_down && has_up { Some(Self { slots, count }) } else { None }
    }

    /// Returns the pattern as [`parse`](Self::parse) reads it.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.slots[..self.count]).unwrap_or_default()
    }

    /// Returns the number of symbols of a TTI in a direction.
    fn symbols(&self, tti: u64, direction: Direction) -> u32 {
        match (self.slots[(tti % self.count as u64) as usize], direction) {
            (b'D', Direction::Down) | (b'U', Direction::Up) => SYMBOLS,
            (b'S', Direction::Down) => SPECIAL_SYMBOLS,
            _ => 0,
        }
    }
}

/// Separation of the directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duplexing {
    /// A carrier for each direction.
    Frequency,
    /// One carrier whose slots belong to one direction each.
    Time(SlotPattern),
}

/// Parameters of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CellSpec {
    /// Transmission time interval (TTI), a slot in NR.
    pub tti: Duration,
    /// Separation of the directions.
    pub duplexing: Duplexing,
    /// Downlink.
    pub down: CarrierSpec,
    /// Uplink.
    pub up: CarrierSpec,
    /// Thousandths of the resource elements that carry control and reference signals, and the headers of MAC, RLC and
    /// PDCP.
    pub overhead: u32,
    /// Distance Γ to the Shannon capacity as a factor: the CQI is the highest whose efficiency is below `log2(1 +
    /// SNR / Γ)`.
    pub gap: f64,
    /// Time constant of the averages of the proportional-fair scheduler, in TTIs.
    pub fairness: u32,
    /// Fast repeats.
    pub harq: HarqSpec,
    /// Slow repeats.
    pub rlc: RlcSpec,
    /// Minimum and maximum time from a frame that finds the uplink idle to the grant for it; uniformly distributed.
    pub grant: Option<[Duration; 2]>,
    /// Sleep of idle receivers.
    pub drx: Option<DrxSpec>,
}

/// Γ for uncoded QAM at a bit error rate of 5·10⁻⁵, `-ln(5 · 5e-5) / 1.5`, as in ns-3's `lte-amc.cc`.
const GAP: f64 = 5.529_366_426_734_685;

/// LTE, 20 MHz in each direction.
pub const LTE: CellSpec = CellSpec {
    tti: Duration::from_millis(1),
    duplexing: Duplexing::Frequency,
    down: CarrierSpec { blocks: 100, layers: 1, others: 0, quality: Quality::fixed(15.0) },
    up: CarrierSpec { blocks: 100, layers: 1, others: 0, quality: Quality::fixed(15.0) },
    overhead: 250,
    gap: GAP,
    fairness: 99,
    harq: HarqSpec { loss: 0.1, delay: Duration::from_millis(8), transmissions: 4 },
    rlc: RlcSpec { delay: Duration::from_millis(40), rounds: 32, window: 512 },
    grant: Some([Duration::from_millis(4), Duration::from_millis(14)]),
    drx: Some(DrxSpec {
        idle: Duration::from_millis(100),
        cycle: Duration::from_millis(160),
        on: Duration::from_millis(10),
    }),
};

/// NR (5G), 100 MHz with subcarriers of 30 kHz, time division.
pub const NR: CellSpec = CellSpec {
    tti: Duration::from_micros(500),
    duplexing: match SlotPattern::parse("DDDSU") {
        Some(pattern) => Duplexing::Time(pattern),
        None => Duplexing::Frequency,
    },
    down: CarrierSpec { blocks: 273, layers: 1, others: 0, quality: Quality::fixed(18.0) },
    up: CarrierSpec { blocks: 273, layers: 1, others: 0, quality: Quality::fixed(18.0) },
    harq: HarqSpec { loss: 0.1, delay: Duration::from_millis(4), transmissions: 4 },
    rlc: RlcSpec { delay: Duration::from_millis(20), rounds: 32, window: 2048 },
    grant: Some([Duration::from_millis(2), Duration::from_millis(7)]),
    ..LTE
};

impl CellSpec {
    /// Returns the carrier of a direction.
    pub const fn carrier(&self, direction: Direction) -> &CarrierSpec {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }

    /// Returns the rate of a user that has the cell to itself at a constant SNR in dB, without repeats, in bits per
    /// second.
    pub fn rate(&self, direction: Direction, snr: f64) -> u64 {
        let Some(cqi) = self.thresholds().cqi(snr) else { return 0 };
        let period = match self.duplexing {
            Duplexing::Frequency => 1,
            Duplexing::Time(pattern) => pattern.count as u64,
        };
        let bits = (0..period).map(|tti| bits(self.units(tti, direction), self.density(direction, cqi)));
        let time = self.tti.as_nanos().saturating_mul(period).max(1);
        u64::try_from(u128::from(bits.sum::<u64>()) * 1_000_000_000 / u128::from(time)).unwrap_or(u64::MAX)
    }

    /// Returns the SNR in dB below which a user is out of range.
    pub fn least_snr(&self) -> f64 {
        self.thresholds().0[0]
    }

    /// Returns whether a cell can run with these parameters.
    pub fn is_sound(&self) -> bool {
        let is_range = |[least, most]: [Duration; 2]| least <= most;
        [self.down, self.up].iter().all(|carrier| {
            (1..=10_000).contains(&carrier.blocks)
                && (1..=16).contains(&carrier.layers)
                && carrier.others <= 10_000
                && carrier.quality.is_sound()
        }) && (Duration::from_micros(10)..=Duration::from_secs(1)).contains(&self.tti)
            && self.overhead < 1000
            && [Direction::Down, Direction::Up].iter().all(|direction| self.most_bits(*direction, 0) >= 8)
            && (1e-3..=1e6).contains(&self.gap)
            && (1..=100_000).contains(&self.fairness)
            && (0.0..=1.0).contains(&self.harq.loss)
            && self.harq.transmissions > 0
            && self.rlc.rounds > 0
            && self.rlc.window > 0
            && self.grant.is_none_or(is_range)
            && self.drx.is_none_or(|drx| drx.on <= drx.cycle)
    }

    /// Returns the lowest SNR of each CQI.
    pub(super) fn thresholds(&self) -> Thresholds {
        Thresholds(EFFICIENCIES.map(|hundredths| {
            let efficiency = hundredths as f64 / 100.0;
            10.0 * libm::log10(self.gap * (libm::exp2(efficiency) - 1.0))
        }))
    }

    /// Returns the resource blocks that a direction has in a TTI; fewer in a special slot.
    pub(super) fn units(&self, tti: u64, direction: Direction) -> u32 {
        let blocks = self.carrier(direction).blocks;
        match self.duplexing {
            Duplexing::Frequency => blocks,
            Duplexing::Time(pattern) => blocks * pattern.symbols(tti, direction) / SYMBOLS,
        }
    }

    /// Returns the first TTI from `tti` on in which a direction has resources.
    pub(super) fn next_tti(&self, tti: u64, direction: Direction) -> u64 {
        (tti..).take(MOST_SLOTS).find(|tti| self.units(*tti, direction) > 0).unwrap_or(tti)
    }

    /// Returns the number of TTIs in `from..to` in which a direction has resources.
    pub(super) fn count_ttis(&self, from: u64, to: u64, direction: Direction) -> u64 {
        let Duplexing::Time(pattern) = self.duplexing else { return to.saturating_sub(from) };
        let period = pattern.count as u64;
        let count = |range: core::ops::Range<u64>| range.filter(|tti| self.units(*tti, direction) > 0).count() as u64;
        let span = to.saturating_sub(from);
        span / period * count(0..period) + count(from..from + span % period)
    }

    /// Returns a number of TTIs among which `count` have resources for a direction.
    pub(super) fn ttis_for(&self, count: u64, direction: Direction) -> u64 {
        let Duplexing::Time(pattern) = self.duplexing else { return count };
        let period = pattern.count as u64;
        count.div_ceil(self.count_ttis(0, period, direction).max(1)) * period
    }

    /// Returns the bits of a resource block with a CQI, counted from 0, in units of 1/100,000.
    pub(super) fn density(&self, direction: Direction, cqi: usize) -> u64 {
        let efficiency = EFFICIENCIES.get(cqi).copied().unwrap_or_default();
        let share = 1000 - u64::from(self.overhead.min(1000));
        ELEMENTS * efficiency * u64::from(self.carrier(direction).layers) * share
    }

    /// Returns the bits of a whole TTI.
    fn most_bits(&self, direction: Direction, cqi: usize) -> u64 {
        bits(self.carrier(direction).blocks, self.density(direction, cqi))
    }

    /// Returns the start of a TTI.
    pub(super) fn start(&self, tti: u64) -> Instant {
        Instant::ZERO + self.tti.saturating_mul(tti)
    }

    /// Returns the first TTI that starts at `at` or later.
    pub(super) const fn tti_from(&self, at: Instant) -> u64 {
        at.since(Instant::ZERO).in_ticks_begun(self.tti)
    }
}

/// Returns the bits of some resource blocks of a density, rounded down.
pub(super) const fn bits(units: u32, density: u64) -> u64 {
    density * units as u64 / DENSITY_UNIT
}

/// Returns the minimum number of resource blocks of a density for some bytes.
pub(super) fn units_for(bytes: u64, density: u64) -> u32 {
    let units = bytes.saturating_mul(8 * DENSITY_UNIT).div_ceil(density.max(1));
    u32::try_from(units).unwrap_or(u32::MAX)
}

impl CellUser {
    pub(super) fn is_sound(&self) -> bool {
        self.down.is_sound()
            && self.up.is_sound()
            && self.handover.is_none_or(|handover| {
                handover.least <= handover.interval
                    && handover.interval >= Duration::from_millis(1)
                    && (0.0..=1.0).contains(&handover.failure)
                    && [handover.gap, handover.outage].iter().all(|[least, most]| least <= most)
            })
    }
}

/// SNR in dB above which each CQI is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds([f64; EFFICIENCIES.len()]);

impl Thresholds {
    /// Returns the CQI of an SNR in dB, counted from 0. `None` if the user is out of range.
    pub(super) fn cqi(&self, snr: f64) -> Option<usize> {
        self.0.partition_point(|threshold| *threshold < snr).checked_sub(1)
    }
}
