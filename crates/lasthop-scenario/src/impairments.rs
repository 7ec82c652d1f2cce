//! Effects of a link on frames other than loss and delay: policers, shapers, varying rates, slots, aggregation,
//! duplicates.

use lasthop_proto::bucket::BucketSpec;
use lasthop_proto::delay::SlotsSpec;
use lasthop_proto::link::aggregation::AggregationSpec;
use lasthop_proto::rate::RateSpec;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{Impairments, Medium, Rate};

use crate::files::Files;
use crate::key::Key;
use crate::rate_variation;
use crate::reader::Reader;
use crate::shared_keys::LinkKeys;
use crate::units::{ByteSize, Fraction};
use crate::values::{Positive, Whole};
use crate::{Error, Problem};

keys! {
    /// Keys of a link that are read here.
    pub(crate) Keys {
        /// none | [token bucket](#policers-and-shapers) before the queue; drops
        policer;
        policer_down, policer_up;
        /// none | token bucket behind the queue; delays. Duplex only
        shaper;
        shaper_down, shaper_up;
        /// none | [varying rate](#varying-rate); a table for both directions scales the uplink by `rate_up / rate`
        rate_variation;
        rate_variation_down, rate_variation_up;
        /// none | deliver only at multiples of this time, or `{ interval = "10 ms", first = "3 ms" }`; before
        /// `delay_variation`
        slots;
        slots_down, slots_up;
        /// none | [frame aggregation](#aggregation) as in Wi-Fi. Not if shared
        aggregation;
        aggregation_down, aggregation_up;
        /// 0 | probability that a frame arrives twice
        duplicates;
        duplicates_down, duplicates_up;
    }

    /// Keys of a policer or shaper.
    pub(crate) BucketKeys {
        /// rate | required | with the header
        rate;
        /// bytes | required | size and initial content; from a full packet to 1 GiB
        burst;
    }

    /// Keys of slots.
    SlotsKeys { interval, first: Duration = Duration::ZERO; }

    /// Keys of frame aggregation.
    pub(crate) AggregationKeys {
        /// number | required | per aggregate, 1 to 1024
        frames;
        /// time | {} | maximum air time without `access`
        time: Positive<Duration> = Positive(PPDU);
        /// time | required | overhead per aggregate; if half-duplex, instead of `frame_overhead`
        access;
        /// time | {} | additional random wait, uniform from 0
        backoff: Duration = Duration::ZERO;
        /// probability | {} | failure of each attempt of each frame
        frame_loss: Fraction = Fraction::ZERO;
        /// number | {} | per frame, 0 to 255; then the frame is lost. Delivery in order
        retries: Whole<0, 255> = Whole(7);
    }
}

/// A key for both directions, and those for one.
struct Directions {
    both: Key,
    /// Keys for one direction: down, up.
    own: [Key; 2],
}

const POLICER: Directions = Directions { both: Keys::policer, own: [Keys::policer_down, Keys::policer_up] };
const SHAPER: Directions = Directions { both: Keys::shaper, own: [Keys::shaper_down, Keys::shaper_up] };
const RATE: Directions =
    Directions { both: Keys::rate_variation, own: [Keys::rate_variation_down, Keys::rate_variation_up] };
const SLOTS: Directions = Directions { both: Keys::slots, own: [Keys::slots_down, Keys::slots_up] };
const AGGREGATION: Directions =
    Directions { both: Keys::aggregation, own: [Keys::aggregation_down, Keys::aggregation_up] };
const DUPLICATES: Directions = Directions { both: Keys::duplicates, own: [Keys::duplicates_down, Keys::duplicates_up] };

/// Other settings of a link.
pub(crate) struct Around<'a> {
    pub files: &'a Files,
    pub medium: &'a Medium,
    /// Rates: down, up.
    pub rates: [Rate; 2],
    /// Bytes of the largest packet that any host sends.
    pub largest: u64,
}

/// Impairments of one direction.
#[derive(Default)]
pub(crate) struct Direction {
    pub impairments: Impairments,
    pub slots: Option<SlotsSpec>,
}

/// Reads the impairments of both directions of a link.
pub(crate) fn both(link: &Reader<'_>, around: &Around<'_>) -> Result<[Direction; 2], Error> {
    check_medium(link, around.medium)?;
    let bucket = |key| bucket(link, key, around.largest);
    let policers = POLICER.read(link, bucket)?;
    let shapers = SHAPER.read(link, bucket)?;
    let rates = rates(link, around)?;
    let slots = SLOTS.read(link, |key| slots(link, key))?;
    let aggregations = AGGREGATION.read(link, |key| aggregation(&link.section(key)?))?;
    let duplicates = DUPLICATES.read(link, |key| Ok(link.required::<Fraction>(key)?.get()))?;
    let direction = |index: usize| Direction {
        impairments: Impairments {
            policer: policers[index],
            shaper: shapers[index],
            rate: rates[index].clone(),
            aggregation: aggregations[index],
            duplicates: duplicates[index].unwrap_or_default(),
        },
        slots: slots[index],
    };
    Ok([direction(0), direction(1)])
}

impl Directions {
    /// Reads the key of each direction with `read`; the key for both directions replaces missing ones.
    fn read<T: Clone>(
        &self,
        link: &Reader<'_>,
        read: impl Fn(Key) -> Result<T, Error>,
    ) -> Result<[Option<T>; 2], Error> {
        let [down, up] = self.own;
        if [self.both, down, up].iter().all(|key| link.has(key)) {
            let message =
                format!("applies to both directions, but {down} and {up} are also given; remove one of the three");
            return Err(link.fail(self.both, Problem::Conflict(message)));
        }
        let given = |key: Key| if link.has(key) { read(key).map(Some) } else { Ok(None) };
        let common = given(self.both)?;
        Ok([given(down)?.or_else(|| common.clone()), given(up)?.or(common)])
    }

    /// Returns a key that is given, if any.
    fn given(&self, link: &Reader<'_>) -> Option<Key> {
        [self.both, self.own[0], self.own[1]].into_iter().find(|key| link.has(key))
    }
}

/// Rejects impairments that the medium does not support.
fn check_medium(link: &Reader<'_>, medium: &Medium) -> Result<(), Error> {
    let refuse = |key: Key, message: &str| Err(link.fail(key, Problem::Conflict(message.to_owned())));
    if let (Some(key), false) = (SHAPER.given(link), *medium == Medium::Duplex) {
        let message = "not supported on a half-duplex or shared medium, since a frame that waits for tokens would block the other \
            station; put it on a duplex link in front, or use policer";
        return refuse(key, message);
    }
    if let (Medium::Wifi { .. }, Some(key)) = (medium, RATE.given(link)) {
        return refuse(key, "not supported on Wi-Fi, whose rate follows from wifi.snr and wifi.control; remove it");
    }
    if let (Medium::Cell { .. }, Some(key)) = (medium, RATE.given(link)) {
        return refuse(key, "not supported over a cell, whose rate follows from cell.snr and cell.sigma; remove it");
    }
    let Some(key) = AGGREGATION.given(link) else { return Ok(()) };
    match medium {
        Medium::Wifi { .. } => refuse(key, "not needed on Wi-Fi, which aggregates frames by itself (wifi.frames)"),
        Medium::Cell { .. } => refuse(key, "not needed over a cell, whose transport blocks hold several frames"),
        Medium::Duplex => Ok(()),
        Medium::HalfDuplex { frame_overhead: Duration::ZERO, .. } => Ok(()),
        Medium::HalfDuplex { .. } => refuse(
            LinkKeys::frame_overhead.plain(),
            "not allowed with aggregation, whose access covers the overhead of each aggregate; remove it",
        ),
        Medium::Shared { .. } => refuse(key, "not supported on a shared channel; use medium = \"half-duplex\""),
    }
}

/// Reads the varying rates. A table for both directions refers to `rate`; the rate for the uplink is scaled by `rate_up
/// / rate`, except delivery opportunities.
fn rates(link: &Reader<'_>, around: &Around<'_>) -> Result<[RateSpec; 2], Error> {
    let [rate, rate_up] = around.rates;
    let [down, up] = RATE.read(link, |key| {
        let rate = if key == RATE.own[1] { rate_up } else { rate };
        rate_variation::read(&link.section(key)?, &rate_variation::Around { files: around.files, rate })
    })?;
    let up = if link.has(RATE.own[1]) { up } else { up.map(|up| up.scaled(rate_up.0, rate.0)) };
    if [&down, &up].into_iter().flatten().any(RateSpec::is_discrete) {
        check_discrete(link, around.medium)?;
    }
    Ok([down.unwrap_or_default(), up.unwrap_or_default()])
}

/// Rejects delivery opportunities on media that determine the transmission times themselves.
fn check_discrete(link: &Reader<'_>, medium: &Medium) -> Result<(), Error> {
    let key = RATE.given(link).unwrap_or(RATE.both);
    if *medium != Medium::Duplex {
        let message = "recorded opportunities are not supported on a half-duplex or shared medium: the trace says when each direction \
            sends; use a duplex link";
        return Err(link.fail(key, Problem::Conflict(message.to_owned())));
    }
    if let Some(other) = AGGREGATION.given(link) {
        let message = "not supported with recorded opportunities, which are aggregates; remove one";
        return Err(link.fail(other, Problem::Conflict(message.to_owned())));
    }
    Ok(())
}

/// Maximum size of a bucket.
const MOST_BURST: u64 = 1 << 30;

fn bucket(link: &Reader<'_>, key: Key, largest: u64) -> Result<BucketSpec, Error> {
    let reader = link.section(key)?;
    reader.allow(BucketKeys::NAMES)?;
    let Rate(rate) = reader.required(BucketKeys::rate)?;
    let ByteSize(burst) = reader.required(BucketKeys::burst)?;
    if burst > MOST_BURST {
        return Err(reader.refuse(BucketKeys::burst, "at most 1 GiB", ""));
    }
    if burst < largest {
        let message = format!("a bucket of {} is smaller than a full packet ({})", ByteSize(burst), ByteSize(largest));
        return Err(reader.fail(BucketKeys::burst, Problem::Conflict(message)));
    }
    Ok(BucketSpec { rate, burst })
}

/// Minimum interval of slots, and maximum interval of slots and duration of an aggregate.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_secs(3600);

fn slots(link: &Reader<'_>, key: Key) -> Result<SlotsSpec, Error> {
    let check = |reader: &Reader<'_>, key: Key, span: Duration, least: Duration| {
        let expected = if least > Duration::ZERO { "a time from 1 us to 1 h" } else { "a time of at most 1 h" };
        if span < least || span > LONGEST { Err(reader.refuse(key, expected, "")) } else { Ok(span) }
    };
    if !link.is_table(key) {
        let Positive(interval) = link.required::<Positive<Duration>>(key)?;
        return Ok(SlotsSpec { interval: check(link, key, interval, SHORTEST)?, first: Duration::ZERO });
    }
    let reader = link.section(key)?;
    reader.allow(SlotsKeys::NAMES)?;
    let Positive(interval) = reader.required::<Positive<Duration>>(SlotsKeys::interval)?;
    let first = reader.value(SlotsKeys::first)?;
    Ok(SlotsSpec {
        interval: check(&reader, SlotsKeys::interval, interval, SHORTEST)?,
        first: check(&reader, SlotsKeys::first.plain(), first, Duration::ZERO)?,
    })
}

/// Maximum duration of a PPDU in IEEE 802.11n and later.
const PPDU: Duration = Duration::from_micros(5484);

fn aggregation(reader: &Reader<'_>) -> Result<AggregationSpec, Error> {
    reader.allow(AggregationKeys::NAMES)?;
    let at_most = |key: &str, span: Duration| {
        if span > LONGEST { Err(reader.refuse(key, "a time of at most 1 h", "")) } else { Ok(span) }
    };
    let Whole(frames) = reader.required::<Whole<1, 1024>>(AggregationKeys::frames)?;
    let access = at_most(AggregationKeys::access.name(), reader.required(AggregationKeys::access)?)?;
    let Positive(time) = reader.value_from(AggregationKeys::time, "default: the longest of IEEE 802.11")?;
    let backoff = at_most(AggregationKeys::backoff.name(), reader.value(AggregationKeys::backoff)?)?;
    let frame_loss = reader.value(AggregationKeys::frame_loss)?.get();
    let Whole(retries) = reader.value_from(AggregationKeys::retries, "default: that of IEEE 802.11")?;
    Ok(AggregationSpec {
        frames,
        time: at_most(AggregationKeys::time.name(), time)?,
        access,
        backoff,
        frame_loss,
        retries,
    })
}
