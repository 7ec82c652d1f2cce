//! A link's trace: `trace = { file = "link.csv", offset = "random" }`.

use std::sync::Arc;

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::delay::{DelaySpec, Order, VariationSpec};
use lasthop_proto::link_trace::{COLUMNS, LinkTrace, TimeSeries};
use lasthop_proto::rate::{Offset, RateSeries, RateSpec, RateStep, Wrap};
use lasthop_proto::time::Duration;
use lasthop_sim::network::{Medium, Rate};

use crate::files::{BadTrace, Files};
use crate::impairments::Keys as ImpairmentKeys;
use crate::key::{Key, Named};
use crate::reader::{Reader, Standing, Value};
use crate::shared_keys::LinkKeys;
use crate::values::{Drawn, Or, Text};
use crate::{Error, Problem};

keys! {
    /// Keys of a link's trace.
    pub(crate) Keys {
        /// path | required | CSV with a header: `t_s` and any of `rate_down_mbps`, `rate_up_mbps`, `delay_down_ms`,
        /// `delay_up_ms`, `loss_down`, `loss_up`, in any order
        file;
        /// | {} | at the last row: `"repeat"`, `"hold"` its values, or `"stop"` sending
        wrap: Wrap = Wrap::Repeat;
        /// time | {} | start within the trace; `"random"` (with `wrap = "repeat"`): drawn once per run, equal for all
        /// columns, both directions and all schemes
        offset: Or<Drawn, Duration> = Some(Duration::ZERO).into();
        /// | {} | with a delay column: frames wait for earlier ones, or (`"free"`) may be reordered
        order: Order = Order::Kept;
    }
}

/// Names of the two directions, with the columns and keys that determine them.
struct Way {
    name: &'static str,
    rate: &'static str,
    delay: &'static str,
    loss: &'static str,
    /// Keys that the columns replace.
    rate_variation: [Key; 2],
    delay_variation: [Key; 2],
    errors: [Key; 2],
}

static WAYS: [Way; 2] = [
    Way {
        name: "down",
        rate: COLUMNS[0],
        delay: COLUMNS[2],
        loss: COLUMNS[4],
        rate_variation: [ImpairmentKeys::rate_variation, ImpairmentKeys::rate_variation_down],
        delay_variation: [LinkKeys::delay_variation, LinkKeys::delay_variation_down],
        errors: [LinkKeys::errors, LinkKeys::errors_down],
    },
    Way {
        name: "up",
        rate: COLUMNS[1],
        delay: COLUMNS[3],
        loss: COLUMNS[5],
        rate_variation: [ImpairmentKeys::rate_variation, ImpairmentKeys::rate_variation_up],
        delay_variation: [LinkKeys::delay_variation, LinkKeys::delay_variation_up],
        errors: [LinkKeys::errors, LinkKeys::errors_up],
    },
];

/// A link's trace, and its use.
pub(crate) struct Trace {
    contents: Arc<LinkTrace>,
    wrap: Wrap,
    offset: Offset,
    order: Order,
    /// Rates by the columns: down, up.
    rates: [Option<RateSpec>; 2],
}

/// Reads the trace of a link, if it has one, and checks that nothing else determines what its columns do.
pub(crate) fn read(link: &Reader<'_>, files: &Files, medium: &Medium) -> Result<Option<Trace>, Error> {
    let reader = link.section(LinkKeys::trace)?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(Keys::NAMES)?;
    let Text(name) = reader.required(Keys::file)?;
    let contents = files.link(&name);
    let contents = contents.map_err(|BadTrace { expected, reason }| reader.refuse(Keys::file, expected, reason))?;
    let wrap = reader.value(Keys::wrap)?;
    if contents.times.len() < 2 && wrap != Wrap::Hold {
        let message = "the file has one row, which ends the trace; add a row at its end, or set wrap = \"hold\"";
        return Err(reader.fail(Keys::file, Problem::Conflict(message.to_owned())));
    }
    let Or(offset, _) = reader.value(Keys::offset)?;
    let offset = match offset {
        Some(offset) => Offset::At(offset),
        None if wrap == Wrap::Repeat => Offset::Random,
        None => {
            let message = "\"random\" needs wrap = \"repeat\": runs that begin elsewhere would differ in length";
            return Err(reader.fail(Keys::offset.plain(), Problem::Conflict(message.to_owned())));
        }
    };
    if reader.has(Keys::order) && contents.delays.iter().all(Option::is_none) {
        let message = format!("needs a column {} or {} in the file", COLUMNS[2], COLUMNS[3]);
        return Err(reader.fail(Keys::order.plain(), Problem::Conflict(message)));
    }
    let order = if contents.delays.iter().any(Option::is_some) { reader.value(Keys::order)? } else { Order::Kept };
    let mut trace = Trace { contents, wrap, offset, order, rates: [None, None] };
    trace.check(link, medium)?;
    for (index, way) in WAYS.iter().enumerate() {
        trace.rates[index] = trace.rate_series(&reader, index, way)?;
    }
    Ok(Some(trace))
}

impl Trace {
    /// Rejects keys of the link that determine the same as a column.
    fn check(&self, link: &Reader<'_>, medium: &Medium) -> Result<(), Error> {
        let LinkTrace { rates, delays, losses, .. } = &*self.contents;
        for (index, way) in WAYS.iter().enumerate() {
            let columns = [
                (rates[index].is_some() || self.wrap == Wrap::Stop, way.rate, way.rate_variation),
                (delays[index].is_some(), way.delay, way.delay_variation),
                (losses[index].is_some(), way.loss, way.errors),
            ];
            for (is_present, column, keys) in columns {
                let Some(key) = keys.into_iter().find(|key| is_present && link.has(key)) else { continue };
                let message = format!(
                    "{} of the link's trace determines this for the {}link; remove the key, or the column",
                    if self.wrap == Wrap::Stop && column == way.rate {
                        "wrap = \"stop\" or the column"
                    } else {
                        column
                    },
                    way.name
                );
                return Err(link.fail(key, Problem::Conflict(message)));
            }
        }
        if medium.chooses_rates() && (self.wrap == Wrap::Stop || rates.iter().any(Option::is_some)) {
            let message = format!(
                "a trace with {} or {} or with wrap = \"stop\" is not supported on Wi-Fi and cells, whose rate follows from \
                 the channel; remove the columns",
                COLUMNS[0], COLUMNS[1]
            );
            return Err(link.fail(LinkKeys::trace, Problem::Conflict(message)));
        }
        Ok(())
    }

    /// Returns the rates of a direction that has a column for them.
    fn rate_series(&self, reader: &Reader<'_>, index: usize, way: &Way) -> Result<Option<RateSpec>, Error> {
        let Some(rates) = &self.contents.rates[index] else { return Ok(None) };
        let steps = self.contents.times.iter().zip(rates).map(|(&from, &rate)| RateStep { from, rate }).collect();
        let series = RateSeries::new(steps, self.contents.length(), self.wrap, self.offset).ok_or_else(|| {
            let message = format!("the column {} has no rate above zero; nothing would ever arrive", way.rate);
            reader.fail(Keys::file, Problem::Conflict(message))
        })?;
        Ok(Some(RateSpec::Trace(series)))
    }

    /// Returns the nominal rates of both directions: the mean of a column, or the link's key.
    pub(crate) fn nominal_rates(&self, link: &Reader<'_>) -> Result<[Rate; 2], Error> {
        let mean = |index: usize| {
            let mean = self.rates[index].as_ref().and_then(RateSpec::mean)?;
            Some(Rate((mean as u64).max(1)))
        };
        let (rate, down) = match mean(0) {
            Some(mean) => (replaced(link, LinkKeys::rate, mean, "mean of the trace", WAYS[0].rate)?, mean),
            None => {
                let rate = link.required(LinkKeys::rate)?;
                (Some(rate), rate)
            }
        };
        let up = match (mean(1), rate) {
            (Some(mean), _) => {
                replaced(link, LinkKeys::rate_up, mean, "mean of the trace", WAYS[1].rate)?;
                mean
            }
            (None, Some(rate)) => link.or_derived(LinkKeys::rate_up, rate, "as rate")?,
            (None, None) => link.required(LinkKeys::rate_up)?,
        };
        Ok([down, up])
    }

    /// Returns the rate of a direction. `own` is the link's, which stops with the trace.
    pub(crate) fn rate(&self, index: usize, own: Rate) -> Option<RateSpec> {
        if let (Some(rate), Some(column)) = (&self.rates[index], &self.contents.rates[index]) {
            let is_constant = self.wrap != Wrap::Stop && constant(self.valid(column)).is_some();
            return Some(if is_constant { RateSpec::Constant } else { rate.clone() });
        }
        let steps = vec![RateStep { from: Duration::ZERO, rate: own.0 }];
        let stops = || RateSeries::new(steps, self.contents.length(), Wrap::Stop, self.offset).map(RateSpec::Trace);
        (self.wrap == Wrap::Stop).then(stops).flatten()
    }

    /// Returns the delay that both directions have, and adds the rest to their variations.
    pub(crate) fn delay(&self, link: &Reader<'_>, variations: &mut [VariationSpec; 2]) -> Result<Duration, Error> {
        let columns = [0, 1].map(|index| self.contents.delays[index].as_ref().map(|delays| self.valid(delays)));
        let least: Vec<Duration> = columns.iter().flatten().filter_map(|delays| delays.iter().min().copied()).collect();
        let Some(least) = least.into_iter().min() else { return link.required(LinkKeys::delay) };
        let own: Option<Duration> = if columns.iter().all(Option::is_some) {
            replaced::<Duration>(link, LinkKeys::delay, least, "minimum of the trace", "delay_down_ms, delay_up_ms")?;
            None
        } else {
            Some(link.required(LinkKeys::delay)?)
        };
        let base = own.map_or(least, |own| own.min(least));
        for ((column, variation), way) in columns.into_iter().zip(variations).zip(&WAYS) {
            let Some(delays) = column else {
                variation.more = own.map_or(Duration::ZERO, |own| own.saturating_sub(base));
                continue;
            };
            if let Some(delay) = constant(delays) {
                variation.more = delay.saturating_sub(base);
                continue;
            }
            let steps = self.contents.times.iter().zip(delays);
            let steps = steps.map(|(&from, delay)| (from, delay.saturating_sub(base))).collect();
            let series = self.series(link, steps, way.delay)?;
            *variation = VariationSpec::of(DelaySpec::Trace(series), self.order);
        }
        Ok(base)
    }

    /// Returns the losses of a direction that has a column for them.
    pub(crate) fn errors(&self, link: &Reader<'_>, index: usize) -> Result<Option<ErrorSpec>, Error> {
        let Some(losses) = &self.contents.losses[index] else { return Ok(None) };
        match constant(self.valid(losses)) {
            Some(0.0) => return Ok(Some(ErrorSpec::None)),
            Some(frame_loss) => return Ok(Some(ErrorSpec::Uniform { frame_loss, frames: Frames::All })),
            None => {}
        }
        let steps = self.contents.times.iter().zip(self.valid(losses)).map(|(&from, &loss)| (from, loss)).collect();
        self.series(link, steps, WAYS[index].loss).map(ErrorSpec::Trace).map(Some)
    }

    /// Returns whether a direction has a column of losses.
    pub(crate) fn has_losses(&self, index: usize) -> bool {
        self.contents.losses[index].is_some()
    }

    /// Returns the values that are ever valid: the last one only marks the end, unless it holds.
    fn valid<'a, T>(&self, column: &'a [T]) -> &'a [T] {
        match column {
            [first @ .., _] if self.wrap != Wrap::Hold => first,
            all => all,
        }
    }

    fn series<T: Copy>(
        &self,
        link: &Reader<'_>,
        steps: Vec<(Duration, T)>,
        column: &str,
    ) -> Result<TimeSeries<T>, Error> {
        TimeSeries::new(steps, self.contents.length(), self.wrap, self.offset).ok_or_else(|| {
            let message = format!("the column {column} has no values in time");
            link.fail(LinkKeys::trace, Problem::Conflict(message))
        })
    }
}

/// Returns the only value of a column, if it does not change.
fn constant<T: Copy + PartialEq>(column: &[T]) -> Option<T> {
    let first = *column.first()?;
    column.iter().all(|value| *value == first).then_some(first)
}

/// Records the value of `key` for `explain`, although a column of the trace replaces it. Returns the value that the
/// scenario gives.
fn replaced<T: Value>(
    link: &Reader<'_>,
    key: impl Named,
    used: T,
    meaning: &str,
    column: &str,
) -> Result<Option<T>, Error> {
    let given = link.peek::<T>(key)?;
    match &given {
        Some(given) => {
            let shown = given.show();
            let source = format!("{}; {column} of the trace replaces it", link.source(key, &shown));
            link.note(key, shown, source, Standing::Value);
        }
        None => link.note(key, used.show(), format!("{meaning}, {column}"), Standing::Remark),
    }
    Ok(given)
}
