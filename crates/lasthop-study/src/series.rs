//! A run over time: throughput and delay of each flow, and the length of each queue, at regular intervals.

use lasthop_proto::packet::FlowId;
use lasthop_proto::time::{Duration, Instant};
use lasthop_report::ReportError;
use lasthop_report::figures::{StepSeries, WindowPlot};
use lasthop_report::rows::{Kind, Rows, Value};
use lasthop_sim::Simulation;
use lasthop_sim::link::Direction;
use lasthop_sim::network::{App, FlowSpec, LinkId, Network};

/// Maximum number of values in a series: 160 MB.
const MOST_VALUES: usize = 20_000_000;

/// Maximum simulated time between cancellation checks.
const PIECE: Duration = Duration::from_millis(1);

/// Error of creating a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SeriesError {
    /// The interval is zero.
    #[error("the interval of a series cannot be 0; give e.g. 100 ms")]
    NoInterval,
    /// The series would not fit into memory.
    #[error("the series has more than {MOST_VALUES} values; give a longer interval")]
    TooLong,
}

/// Times at which connections are sampled: every interval from its first multiple on.
pub struct Sampler {
    interval: Duration,
    next: Instant,
}

/// State of a run after a piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Indicates whether a sample is due.
    pub due: bool,
    /// Indicates whether the run goes on.
    pub goes_on: bool,
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// Returns an error if the interval is zero.
    pub fn new(interval: Duration) -> Result<Self, SeriesError> {
        if interval == Duration::ZERO {
            return Err(SeriesError::NoInterval);
        }
        Ok(Self { interval, next: Instant::ZERO + interval })
    }

    /// Advances `simulation` by a millisecond, or to the next sample if that is earlier. At the end of the run, a last
    /// sample is due.
    pub fn advance(&mut self, simulation: &mut Simulation) -> Piece {
        let until = (simulation.now() + PIECE).min(self.next);
        let goes_on = simulation.advance_until(until);
        let due = !goes_on || simulation.now() >= self.next;
        if due {
            self.next += self.interval;
        }
        Piece { due, goes_on }
    }
}

/// State of a run at one time.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    at: Instant,
    /// Throughput of each flow since the previous row, in Mbps.
    throughput: Vec<f64>,
    /// Mean delay of each flow since the previous row, in milliseconds.
    delay: Vec<Option<f64>>,
    /// Number of queued packets of each link, down and up.
    waiting: Vec<usize>,
}

/// A run over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name of each flow, with the kind of its delay: true for one-way.
    flows: Vec<(String, bool)>,
    links: Vec<String>,
    rows: Vec<Row>,
    /// Indicates whether the series was stopped before the end of the run.
    pub cut: bool,
}

impl Series {
    /// Runs `network` once and samples it every `interval`, and at its end, until `stop` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if the interval is zero, or so short that the series would not fit into memory.
    pub fn of(network: &Network, seed: u64, interval: Duration, stop: impl Fn() -> bool) -> Result<Self, SeriesError> {
        let mut sampler = Sampler::new(interval)?;
        let is_one_way = |flow: &FlowSpec| matches!(flow.app, App::OnOff(_) | App::Call(_));
        let mut series = Self {
            flows: network.flows.iter().map(|flow| (flow.name.clone(), is_one_way(flow))).collect(),
            links: network.links.iter().map(|link| link.name.clone()).collect(),
            rows: Vec::new(),
            cut: false,
        };
        let most = MOST_VALUES / (1 + 2 * network.flows.len() + 2 * network.links.len());
        let mut simulation = Simulation::observed(network, seed);
        let mut before = vec![0; network.flows.len()];
        let mut last = Instant::ZERO;
        let mut goes_on = true;
        while goes_on && !series.cut {
            let piece = sampler.advance(&mut simulation);
            goes_on = piece.goes_on;
            series.cut = stop();
            if !piece.due && !series.cut {
                continue;
            }
            if series.rows.len() >= most {
                return Err(SeriesError::TooLong);
            }
            let row = look(&mut simulation, network, last, &mut before);
            last = row.at;
            series.rows.push(row);
        }
        series.cut &= goes_on;
        Ok(series)
    }

    /// Returns the columns of [`rows`](Self::rows): `time` in seconds; for each flow `FLOW_throughput` in Mbps and
    /// `FLOW_rtt` (for datagrams and calls `FLOW_one_way_delay`) in milliseconds; for each link `LINK_down_queue` and
    /// `LINK_up_queue` in packets.
    pub fn columns(&self) -> Vec<(String, Kind)> {
        let delay = |one_way: &bool| if *one_way { "one_way_delay" } else { "rtt" };
        let flows = self.flows.iter().flat_map(|(flow, one_way)| {
            [(format!("{flow}_throughput"), Kind::Float), (format!("{flow}_{}", delay(one_way)), Kind::Float)]
        });
        let ways = ["down", "up"];
        let links = self.links.iter().flat_map(|link| ways.map(|way| (format!("{link}_{way}_queue"), Kind::Count)));
        std::iter::once(("time".to_owned(), Kind::Float)).chain(flows).chain(links).collect()
    }

    /// Returns a row per time.
    ///
    /// # Errors
    ///
    /// Returns an error only if a row lacks a column.
    pub fn rows(&self) -> Result<Rows, ReportError> {
        let mut rows = Rows::new(self.columns());
        self.cells().try_for_each(|row| rows.push(row))?;
        Ok(rows)
    }

    /// Iterates over the cells of each row.
    pub fn cells(&self) -> impl Iterator<Item = Vec<Value>> {
        self.rows.iter().map(|row| {
            let flows = row.throughput.iter().zip(&row.delay).flat_map(|(throughput, delay)| {
                [Value::Float(*throughput), delay.map_or(Value::Missing, Value::Float)]
            });
            let links = row.waiting.iter().map(|waiting| Value::Count(*waiting as u64));
            std::iter::once(Value::Float(row.at.as_secs_f64())).chain(flows).chain(links).collect()
        })
    }

    /// Returns the throughput of a flow.
    pub fn throughput(&self, flow: FlowId, name: &str) -> StepSeries {
        // A value applies to the interval before its time: a step begins with that interval.
        self.steps(name, |row| row.throughput.get(flow.0 as usize).copied())
    }

    /// Returns the delay of a flow: round-trip time, or one-way delay.
    pub fn delay(&self, flow: FlowId, name: &str) -> StepSeries {
        self.steps(name, |row| row.delay.get(flow.0 as usize).copied().flatten())
    }

    /// Returns the length of a queue: twice the link's number, plus one for up.
    pub fn queue(&self, leg: usize, name: &str) -> StepSeries {
        let points = self.rows.iter().filter_map(|row| Some((row.at.as_secs_f64(), *row.waiting.get(leg)? as f64)));
        StepSeries { name: name.to_owned(), points: points.collect() }
    }

    /// Returns the maximum length of each queue, in packets.
    fn longest(&self) -> Vec<usize> {
        let most = |leg: usize| self.rows.iter().map(|row| row.waiting[leg]).max().unwrap_or(0);
        (0..2 * self.links.len()).map(most).collect()
    }

    fn steps(&self, name: &str, of: impl Fn(&Row) -> Option<f64>) -> StepSeries {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut before = 0.0;
        for row in &self.rows {
            if let Some(value) = of(row) {
                points.push((before, value));
            }
            before = row.at.as_secs_f64();
        }
        points.extend(points.last().map(|(_, value)| (before, *value)));
        StepSeries { name: name.to_owned(), points }
    }
}

/// Returns the current state of a run. `before` contains the bytes that each flow had delivered by the previous row.
fn look(simulation: &mut Simulation, network: &Network, last: Instant, before: &mut [u64]) -> Row {
    let at = simulation.now();
    let seconds = at.since(last).as_secs_f64();
    let mut row = Row { at, throughput: Vec::new(), delay: Vec::new(), waiting: Vec::new() };
    for link in 0..network.links.len() {
        for direction in Direction::BOTH {
            row.waiting.push(simulation.waiting(LinkId(link), direction));
        }
    }
    for (index, before) in before.iter_mut().enumerate() {
        let flow = FlowId(index as u32);
        let delivered = simulation.delivered(network, flow);
        let bits = (delivered - std::mem::replace(before, delivered)) as f64 * 8.0;
        row.throughput.push(if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 });
        row.delay.push(simulation.recent_delay(flow).map(|delay| 1e3 * delay.as_secs_f64()));
    }
    row
}

/// Returns plots of several runs of one flow, with file names: throughput, delay, and the queue that was the longest in
/// any run.
pub fn plots(title: &str, flow: FlowId, runs: &[(String, Series)]) -> [(&'static str, WindowPlot); 3] {
    let first = runs.first().map(|(_, series)| series);
    let one_way = first.and_then(|series| series.flows.get(flow.0 as usize)).is_some_and(|(_, one_way)| *one_way);
    let longest = runs.iter().flat_map(|(_, series)| series.longest().into_iter().enumerate()).rev();
    let leg = longest.max_by_key(|(_, most)| *most).map_or(0, |(leg, _)| leg);
    let link = first.and_then(|series| series.links.get(leg / 2)).map_or("", String::as_str);
    let queue = format!("queue of {link} {} (packets)", ["down", "up"][leg % 2]);
    let delay = if one_way { "one-way delay (ms)" } else { "round trip (ms)" };
    let plot = |y_label: &str, of: &dyn Fn(&Series, &str) -> StepSeries| WindowPlot {
        title: title.to_owned(),
        y_label: y_label.to_owned(),
        series: runs.iter().map(|(name, series)| of(series, name)).collect(),
    };
    [
        ("throughput", plot("throughput (Mbps)", &|series, name| series.throughput(flow, name))),
        ("delay", plot(delay, &|series, name| series.delay(flow, name))),
        ("queue", plot(&queue, &|series, name| series.queue(leg, name))),
    ]
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::Scheme;
    use lasthop_scenario::Scenario;
    use lasthop_sim::{Recording, run};

    use super::*;

    #[test]
    fn a_series_adds_up_to_its_run() {
        let scenario =
            Scenario::builtin("farm-radio").unwrap().with_overrides(&[("flows.download.size", "4 MiB")]).unwrap();
        let network = scenario.network(Scheme::by_name("SNOOP").unwrap()).unwrap();
        let series = Series::of(&network, 7, Duration::from_millis(100), || false).unwrap();
        let report = run(&network, 7, Recording::Off).report;
        assert!(!series.cut);
        assert_eq!(series.rows.last().unwrap().at, report.ended);
        let mut last = Instant::ZERO;
        let mut bits = 0.0;
        for row in &series.rows {
            bits += row.throughput[0] * 1e6 * row.at.since(last).as_secs_f64();
            last = row.at;
        }
        assert!((bits / 8.0 - (4 << 20) as f64).abs() < 1.0, "{bits}");
        // The path's round-trip time is 80 ms.
        let delays: Vec<f64> = series.rows.iter().filter_map(|row| row.delay[0]).collect();
        assert!(delays.len() > 10 && delays.iter().all(|delay| *delay > 80.0), "{delays:?}");
        assert!(series.rows.iter().any(|row| row.waiting[2] > 10), "the radio's queue holds what the wire brings");
        let rows = series.rows().unwrap();
        let names: Vec<&str> = rows.columns().iter().map(|(name, _)| name.as_str()).collect();
        let links = ["internet_down_queue", "internet_up_queue", "radio_down_queue", "radio_up_queue"];
        assert_eq!(names, [&["time", "download_throughput", "download_rtt"][..], &links].concat());
    }

    #[test]
    fn intervals_that_cannot_be() {
        let scenario = Scenario::builtin("farm-radio").unwrap();
        let network = scenario.network(scenario.scheme()).unwrap();
        assert_eq!(Series::of(&network, 1, Duration::ZERO, || false), Err(SeriesError::NoInterval));
        let stopped = Series::of(&network, 1, Duration::from_millis(1), || true).unwrap();
        assert!(stopped.cut && stopped.rows.len() == 1);
    }
}
