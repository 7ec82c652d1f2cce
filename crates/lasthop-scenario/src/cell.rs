//! Links over a cell of LTE or NR: `medium = "cell"` with a table `cell`, and the cells themselves in `[cells.NAME]`.

use std::sync::Arc;

use lasthop_proto::link::cell::{
    CarrierSpec, CellSpec, Direction, DrxSpec, Duplexing, HandoverSpec, HarqSpec, LTE, NR, Quality, RlcSpec,
    SlotPattern,
};
use lasthop_proto::queue::QueueLimit;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{CellLink, Medium, Rate};

use crate::document::{Data, quote};
use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::shared_keys::{LinkKeys, RootKeys};
use crate::units::Fraction;
use crate::values::{Line, List, Number, Off, Or, Positive, Whole, choices};
use crate::{Error, Problem};

keys! {
    /// Keys of a cell.
    pub(crate) Keys {
        /// | | `"lte"` (default) or `"nr"`: the defaults below
        preset: PresetName = PresetName::Lte;
        /// `"1 ms"` | `"500 us"` | transmission time interval, 10 us to 1 s
        tti;
        /// `"off"` | `"DDDSU"` | time division: pattern of downlink, special and uplink slots
        tdd;
        /// 100 | 273 | resource blocks, up to 10,000; `blocks_up` as `blocks`
        blocks, blocks_up;
        /// 1 | 1 | spatial layers, up to 16
        layers, layers_up;
        /// 25 % | 25 % | resource elements without data, and headers
        overhead;
        /// 5.529 | 5.529 | factor Γ between SNR and capacity
        gap;
        /// 0 | 0 | competing users with full buffers, up to 10,000
        others, others_up;
        /// 15 | 18 | their mean SNR in dB; `others_snr_up` as `others_snr`
        others_snr, others_snr_up;
        /// 0, `"200 ms"` | 0, `"200 ms"` | their shadowing
        others_sigma, others_coherence;
        /// 99 | 99 | TTIs over which the scheduler averages throughput
        fairness;
        /// 10 % | 10 % | probability that a transmission of a block fails
        block_loss;
        /// `"8 ms"`, 4 | `"4 ms"`, 4 | until a retransmission; transmissions in a round
        harq_delay, harq_transmissions;
        /// `"40 ms"`, 32, 512 | `"20 ms"`, 32, 2048 | until the next round; rounds; blocks outstanding
        rlc_delay, rlc_rounds, rlc_window;
        /// `["4 ms", "14 ms"]` | `["2 ms", "7 ms"]` | minimum and maximum wait of an idle uplink, or `"off"`
        grant;
        /// `"on"` | `"on"` | sleep of idle receivers
        drx;
        /// `"100 ms"`, `"160 ms"`, `"10 ms"` | the same | time until sleep; period; time awake in it
        drx_idle, drx_cycle, drx_on;
    }

    /// Keys of a user of a cell.
    pub(crate) UserKeys {
        /// dB | required; as `snr` | mean signal-to-noise ratio of the downlink, uplink
        snr, snr_up;
        /// dB | 0 | standard deviation of the shadowing, up to 30
        sigma;
        /// time | `"200 ms"` | time after which its autocorrelation is 1/e
        coherence;
        /// table | none | `{}` for the defaults below, those of a moving train
        handover;
    }

    /// Keys of a user's handovers.
    pub(crate) HandoverKeys {
        /// time | `"15 s"`, `"5 s"` | mean and minimum interval
        interval, least;
        /// list | `["30 ms", "60 ms"]` | minimum and maximum time without transmission (TR 36.881: 49.5 ms)
        gap;
        /// probability | 0.1 | a handover fails, and frames on the medium and in the queue are lost
        failure;
        /// list | `["500 ms", "3 s"]` | time without transmission after a failure
        outage;
    }
}

/// Maximum of the times of a cell.
const LONGEST: Duration = Duration::from_secs(3600);
/// Coherence time of a channel by default.
const COHERENCE: Duration = Duration::from_millis(200);

/// Names of the presets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PresetName {
    Lte,
    Nr,
}

choices! {
    PresetName { "lte" = Lte, "nr" = Nr }
}

/// Default queues of the two directions of a link, each with its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellQueue {
    pub down: (QueueLimit, &'static str),
    /// Default queue of the uplink, unless a modern host sends.
    pub up: (QueueLimit, &'static str),
}

impl PresetName {
    const fn spec(self) -> CellSpec {
        match self {
            Self::Lte => LTE,
            Self::Nr => NR,
        }
    }

    /// Returns the source of a default.
    const fn source(self) -> &'static str {
        match self {
            Self::Lte => "default of LTE",
            Self::Nr => "default of NR",
        }
    }

    const fn queue(self) -> CellQueue {
        const MIB: u64 = 1 << 20;
        const DOWN: &str = "deep queue for each user of LTE (assumption)";
        const DOWN_NR: &str = "deep queue for each user of NR (assumption)";
        const UP: &str = "deep queue of a modem (assumption)";
        let down = match self {
            Self::Lte => (QueueLimit::Bytes(2 * MIB), DOWN),
            Self::Nr => (QueueLimit::Bytes(10 * MIB), DOWN_NR),
        };
        CellQueue { down, up: (QueueLimit::Bytes(2 * MIB), UP) }
    }
}

/// A pattern of slots.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pattern(SlotPattern);

impl Value for Pattern {
    fn expected() -> String {
        "a pattern of 2 to 20 slots with downlink (D), special (S) and uplink (U), e.g. \"DDDSU\"".to_owned()
    }

    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(text) => SlotPattern::parse(text).map(Self).ok_or_else(String::new),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        quote(self.0.as_str())
    }
}

/// A cell that a link uses.
struct Known {
    name: String,
    preset: PresetName,
    spec: CellSpec,
    /// Name of the base station.
    station: String,
}

/// An end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'n> {
    pub name: &'n str,
    pub is_host: bool,
}

/// The cells of a scenario.
pub(crate) struct Cells<'r> {
    root: Reader<'r>,
    /// Cells that links use, by their numbers.
    known: Vec<Known>,
}

impl<'r> Cells<'r> {
    /// Returns the cells of a scenario, of which no link is known yet.
    pub(crate) fn new(root: &Reader<'r>) -> Result<Self, Error> {
        root.named(RootKeys::cells)?;
        Ok(Self { root: root.clone(), known: Vec::new() })
    }

    /// Reads the medium of a link over a cell.
    pub(crate) fn medium(&mut self, link: &Reader<'_>, ends: [End<'_>; 2]) -> Result<Medium, Error> {
        let Line(name) = link.or(LinkKeys::channel, Line("cell".to_owned()), "default")?;
        let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if name.is_empty() || name.len() > 64 || !is_bare {
            return Err(link.refuse(LinkKeys::channel, "a name of 1 to 64 letters, digits, `-` and `_`", ""));
        }
        let [station, user] = ends;
        if station.is_host && !user.is_host {
            let [host, router] = ends.map(|end| quote(end.name));
            let message = format!(
                "the first end of a link over a cell is the base station, the second the user; write [{router}, {host}]"
            );
            return Err(link.fail(LinkKeys::between, Problem::Conflict(message)));
        }
        let number = match self.known.iter().position(|known| known.name == name) {
            Some(number) => number,
            None => {
                let (preset, spec) = cell(&self.root.section(RootKeys::cells)?.member(&name)?)?;
                self.known.push(Known { name, preset, spec, station: station.name.to_owned() });
                self.known.len() - 1
            }
        };
        let known = &self.known[number];
        if known.station != station.name {
            let message = format!(
                "the base station of the cell \"{}\" is \"{}\"; begin with it, or name another cell as channel",
                known.name, known.station
            );
            return Err(link.fail(LinkKeys::between, Problem::Conflict(message)));
        }
        // There are no more cells than links.
        Ok(Medium::Cell { channel: number as u32, cell: Arc::new(user_of(link, known)?) })
    }

    /// Returns the default queues of a link over a cell.
    pub(crate) fn queue(&self, medium: &Medium) -> Option<CellQueue> {
        match medium {
            Medium::Cell { channel, .. } => self.known.get(*channel as usize).map(|known| known.preset.queue()),
            _ => None,
        }
    }

    /// Rejects cells that no link uses, whose names may be misspelt.
    pub(crate) fn check_used(&self) -> Result<(), Error> {
        for (name, reader) in self.root.named(RootKeys::cells)? {
            if !self.known.iter().any(|known| known.name == name) {
                let message = format!(
                    "no link is over this cell; give one medium = \"cell\" and channel = \"{name}\", or remove the table"
                );
                return Err(reader.fail_here(Problem::Conflict(message)));
            }
        }
        Ok(())
    }
}

/// Returns the rates of the whole cell at a user's mean SNR: down, up.
pub(crate) fn nominal_rates(cell: &CellLink) -> [Rate; 2] {
    let rate = |direction, quality: Quality| Rate(cell.spec.rate(direction, quality.mean).max(1));
    [rate(Direction::Down, cell.down), rate(Direction::Up, cell.up)]
}

/// Reads `[cells.NAME]`, which may be absent.
fn cell(reader: &Reader<'_>) -> Result<(PresetName, CellSpec), Error> {
    if reader.has(UserKeys::snr) {
        let message = "belongs to a user: cell = { snr = ... } of a link; others_snr is that of competing users";
        return Err(reader.fail(UserKeys::snr, Problem::Conflict(message.to_owned())));
    }
    reader.allow(Keys::NAMES)?;
    let preset = reader.value(Keys::preset)?;
    let (base, source) = (preset.spec(), preset.source());
    let tti = reader.or(Keys::tti, base.tti, source)?;
    if !(Duration::from_micros(10)..=Duration::from_secs(1)).contains(&tti) {
        return Err(reader.refuse(Keys::tti, "a time from 10 us to 1 s", ""));
    }
    let pattern = match base.duplexing {
        Duplexing::Frequency => None,
        Duplexing::Time(pattern) => Some(Pattern(pattern)),
    };
    let Or(pattern, _) = reader.or::<Or<Off, Pattern>>(Keys::tdd, pattern.into(), source)?;
    let Whole(blocks) = reader.or(Keys::blocks, Whole::<1, 10_000>(base.down.blocks), source)?;
    let Whole(blocks_up) = reader.or_derived(Keys::blocks_up, Whole::<1, 10_000>(blocks), "as blocks")?;
    let Whole(layers) = reader.or(Keys::layers, Whole::<1, 16>(base.down.layers), source)?;
    let Whole(layers_up) = reader.or(Keys::layers_up, Whole::<1, 16>(base.up.layers), source)?;
    let overhead = overhead(reader, base.overhead, source)?;
    let Number(gap) = reader.or(Keys::gap, Number(base.gap), source)?;
    if !(0.001..=1e6).contains(&gap) {
        return Err(reader.refuse(Keys::gap, "a factor from 0.001 to 1000000", ""));
    }
    let Whole(others) = reader.or(Keys::others, Whole::<0, 10_000>(base.down.others), source)?;
    let Whole(others_up) = reader.or(Keys::others_up, Whole::<0, 10_000>(base.up.others), source)?;
    let snr = decibels(reader, Keys::others_snr, reader.or(Keys::others_snr, Number(base.down.quality.mean), source)?)?;
    let snr_up =
        decibels(reader, Keys::others_snr_up, reader.or_derived(Keys::others_snr_up, Number(snr), "as others_snr")?)?;
    let [quality, quality_up] = qualities(reader, [Keys::others_sigma, Keys::others_coherence], [snr, snr_up])?;
    let Whole(fairness) = reader.or(Keys::fairness, Whole::<1, 100_000>(base.fairness), source)?;
    let loss = Fraction::new(base.harq.loss).unwrap_or(Fraction::ZERO);
    let loss = reader.or(Keys::block_loss, loss, source)?.get();
    let delay = span(reader, Keys::harq_delay, base.harq.delay, source)?;
    let Whole(transmissions) = reader.or(Keys::harq_transmissions, Whole::<1, 255>(base.harq.transmissions), source)?;
    let harq = HarqSpec { loss, delay, transmissions };
    let delay = span(reader, Keys::rlc_delay, base.rlc.delay, source)?;
    let Whole(rounds) = reader.or(Keys::rlc_rounds, Whole::<1, 255>(base.rlc.rounds), source)?;
    let Whole(window) = reader.or(Keys::rlc_window, Whole::<1, 1_000_000>(base.rlc.window), source)?;
    let rlc = RlcSpec { delay, rounds, window };
    let spec = CellSpec {
        tti,
        duplexing: pattern.map_or(Duplexing::Frequency, |Pattern(pattern)| Duplexing::Time(pattern)),
        down: CarrierSpec { blocks, layers, others, quality },
        up: CarrierSpec { blocks: blocks_up, layers: layers_up, others: others_up, quality: quality_up },
        overhead,
        gap,
        fairness,
        harq,
        rlc,
        grant: grant(reader, base.grant, source)?,
        drx: drx(reader, base.drx, source)?,
    };
    if !spec.is_sound() {
        let key = if reader.has(Keys::overhead) { Keys::overhead } else { Keys::blocks };
        let message = "a TTI carries less than a byte at the lowest CQI; raise blocks and blocks_up, or lower overhead";
        return Err(reader.fail(key, Problem::Conflict(message.to_owned())));
    }
    Ok((preset, spec))
}

/// Reads the overhead, in thousandths.
fn overhead(reader: &Reader<'_>, base: u32, source: &str) -> Result<u32, Error> {
    let base = Fraction::new(f64::from(base) / 1000.0).unwrap_or(Fraction::ZERO);
    let thousandths = reader.or(Keys::overhead, base, source)?.get() * 1000.0;
    if thousandths.round() > 999.0 || (thousandths - thousandths.round()).abs() > 1e-6 {
        return Err(reader.refuse(Keys::overhead, "a share below 100 % in steps of 0.1 %", ""));
    }
    Ok(thousandths.round() as u32)
}

fn grant(reader: &Reader<'_>, base: Option<[Duration; 2]>, source: &str) -> Result<Option<[Duration; 2]>, Error> {
    let base = base.map(|range| List(range.to_vec()));
    let Or(given, _) = reader.or::<Or<Off, List<Duration>>>(Keys::grant, base.into(), source)?;
    given.map(|given| range(reader, Keys::grant, given, "[\"4 ms\", \"14 ms\"], or \"off\"")).transpose()
}

fn drx(reader: &Reader<'_>, base: Option<DrxSpec>, source: &str) -> Result<Option<DrxSpec>, Error> {
    const PARTS: [Key; 3] = [Keys::drx_idle, Keys::drx_cycle, Keys::drx_on];
    if let Switch::Off = reader.or(Keys::drx, Switch::On, source)? {
        if let Some(key) = PARTS.into_iter().find(|key| reader.has(key)) {
            let message = "requires drx = \"on\"; remove it, or drx".to_owned();
            return Err(reader.fail(key, Problem::Conflict(message)));
        }
        return Ok(None);
    }
    let Some(base) = base else { return Ok(None) };
    let idle = span(reader, PARTS[0], base.idle, source)?;
    let cycle = span(reader, PARTS[1], base.cycle, source)?;
    let on = span(reader, PARTS[2], base.on, source)?;
    if on > cycle {
        let message = format!("drx_on = {} is longer than drx_cycle = {}; make it shorter", on.show(), cycle.show());
        let key = if reader.has(PARTS[2]) { PARTS[2] } else { PARTS[1] };
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(Some(DrxSpec { idle, cycle, on }))
}

/// Reads the table `cell` of a link: the user.
fn user_of(link: &Reader<'_>, Known { name, spec, .. }: &Known) -> Result<CellLink, Error> {
    let spec = *spec;
    let reader = link.section(LinkKeys::cell)?;
    if let Some(key) = Keys::NAMES.iter().find(|key| reader.has(key)) {
        let message = format!("belongs to the cell, not to a user; move it to [cells.{name}]");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    reader.allow(UserKeys::NAMES)?;
    if !reader.has(UserKeys::snr) {
        let expected = "the mean signal-to-noise ratio in dB, e.g. 15".to_owned();
        return Err(reader.fail(UserKeys::snr, Problem::Missing { expected }));
    }
    let in_range = |key, value| {
        let snr = decibels(&reader, key, value)?;
        // A mean at which at least the lowest CQI is usable.
        if spec.rate(Direction::Down, snr) == 0 {
            let expected = format!("at least {:.1} dB", (spec.least_snr() * 10.0).ceil() / 10.0);
            return Err(reader.refuse(key, expected, "the user would be out of range"));
        }
        Ok(snr)
    };
    let snr = in_range(UserKeys::snr, reader.required(UserKeys::snr)?)?;
    let snr_up = in_range(UserKeys::snr_up, reader.or_derived(UserKeys::snr_up, Number(snr), "as snr")?)?;
    let [down, up] = qualities(&reader, [UserKeys::sigma, UserKeys::coherence], [snr, snr_up])?;
    let section = reader.section(UserKeys::handover)?;
    let handover = if section.is_present() { Some(handover(&section)?) } else { None };
    Ok(CellLink { spec, down, up, handover })
}

/// Reads the shadowing of channels with the given mean SNR: down, up.
fn qualities(reader: &Reader<'_>, [sigma, coherence]: [Key; 2], means: [f64; 2]) -> Result<[Quality; 2], Error> {
    let Number(deviation) = reader.or(sigma, Number(0.0), "default")?;
    if !(0.0..=30.0).contains(&deviation) {
        return Err(reader.refuse(sigma, "decibels from 0 to 30", ""));
    }
    let Positive(time) = reader.or(coherence, Positive(COHERENCE), "default")?;
    if time > LONGEST {
        return Err(reader.refuse(coherence, "a time of at most 1 h", ""));
    }
    Ok(means.map(|mean| Quality { mean, sigma: deviation, coherence: time }))
}

fn handover(reader: &Reader<'_>) -> Result<HandoverSpec, Error> {
    reader.allow(HandoverKeys::NAMES)?;
    let interval = span(reader, HandoverKeys::interval, Duration::from_secs(15), "default")?;
    let least = span(reader, HandoverKeys::least, Duration::from_secs(5).min(interval), "default: 5 s, or interval")?;
    if least > interval {
        let message = format!(
            "least = {} is longer than the mean, interval = {}; make it shorter",
            least.show(),
            interval.show()
        );
        let key = if reader.has(HandoverKeys::least) { HandoverKeys::least } else { HandoverKeys::interval };
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let times = |key: Key, default: [u64; 2], example: &str| {
        let default = List(default.map(Duration::from_millis).to_vec());
        range(reader, key, reader.or(key, default, "default")?, example)
    };
    let gap = times(HandoverKeys::gap, [30, 60], "[\"30 ms\", \"60 ms\"]")?;
    let failure = Fraction::new(0.1).unwrap_or(Fraction::ZERO);
    let failure = reader.or(HandoverKeys::failure, failure, "default")?.get();
    let outage = times(HandoverKeys::outage, [500, 3000], "[\"500 ms\", \"3 s\"]")?;
    Ok(HandoverSpec { interval, least, gap, failure, outage })
}

/// Checks a minimum and a maximum time.
fn range(reader: &Reader<'_>, key: Key, List(given): List<Duration>, example: &str) -> Result<[Duration; 2], Error> {
    match given[..] {
        [least, most] if least <= most && most <= LONGEST => Ok([least, most]),
        _ => Err(reader.refuse(key, format!("the minimum and the maximum time, up to 1 h, e.g. {example}"), "")),
    }
}

fn span(reader: &Reader<'_>, key: Key, default: Duration, source: &str) -> Result<Duration, Error> {
    let span = reader.or(key, default, source)?;
    if span > LONGEST { Err(reader.refuse(key, "a time of at most 1 h", "")) } else { Ok(span) }
}

fn decibels(reader: &Reader<'_>, key: Key, Number(value): Number) -> Result<f64, Error> {
    if value.abs() <= 100.0 { Ok(value) } else { Err(reader.refuse(key, "decibels from -100 to 100", "")) }
}
