//! Links of the atlas: from a point of the sequence to a scenario, and its runs.

use std::ops::Range;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_scenario::units::TimeSpan;
use lasthop_scenario::{Error, Scenario};

use super::dimensions::{DIMENSIONS, DIMENSIONS_COUNT, Selection};
use super::sequence::Sequence;
use crate::measures::throughput;
use crate::replicate::{Progress, Task, run_each};
use crate::sweep::SweepError;

/// Ready-made scenario whose keys the atlas sets.
pub const SCENARIO: &str = "atlas-link";

/// Bits of a packet that fills a frame.
const PACKET_BITS: u64 = 12_000;
/// Bytes of data in such a packet.
const SEGMENT: f64 = 1448.0;
/// Minimum length of a queue in bytes: two packets.
const LEAST_QUEUE: u64 = 3000;
/// Duration of a download in round trips, and in addition the larger of a time and a number of packets at the rate.
const ROUND_TRIPS: u64 = 20;
const LEAST_TIME: Duration = Duration::from_secs(4);
const LEAST_PACKETS: u64 = 400;

/// Number of schemes per link: no cure, and the cures.
pub const SCHEMES: usize = 5;

/// Names of the schemes: no cure, and the cures of one download, in the order of the changes that they require.
pub const NAMES: [&str; SCHEMES] = ["E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR", "LINK-HYBRID"];

/// A link: its values of [`DIMENSIONS`], in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Values in units of each dimension's scale.
    pub values: [u32; DIMENSIONS_COUNT],
}

impl Link {
    /// Returns the link at a point of the unit cube.
    pub fn at(point: [u32; DIMENSIONS_COUNT]) -> Self {
        let mut values = [0; DIMENSIONS_COUNT];
        for ((value, dimension), place) in values.iter_mut().zip(&DIMENSIONS).zip(point) {
            *value = dimension.value(place);
        }
        Self { values }
    }

    /// Returns the link in the middle of a selection.
    pub fn middle(selection: &Selection) -> Self {
        let mut values = [0; DIMENSIONS_COUNT];
        for ((value, dimension), bin) in values.iter_mut().zip(&DIMENSIONS).zip(selection) {
            *value = dimension.middle(*bin);
        }
        Self { values }
    }

    /// Returns the duration of a download over the link: 20 round trips, and 4 s or the time of 400 packets at the
    /// link's rate, whichever is longer.
    pub fn time(&self) -> Duration {
        let [rate_kbps, round_trip_us, ..] = self.values.map(u64::from);
        let packets = Duration::from_nanos(LEAST_PACKETS * PACKET_BITS * 1_000_000 / rate_kbps.max(1));
        Duration::from_nanos(ROUND_TRIPS * round_trip_us * 1000) + packets.max(LEAST_TIME)
    }

    /// Returns the throughput in Mbps of a single segment in [`Self::time`]. Lower throughputs count as this one.
    pub fn least_throughput(&self) -> f64 {
        SEGMENT * 8.0 / self.time().as_secs_f64() / 1e6
    }

    /// Returns the logarithms of the factors by which the cures raise the throughput, from the throughput of each scheme.
    pub fn gains(&self, throughputs: &[f64; SCHEMES]) -> [f64; SCHEMES - 1] {
        let least = self.least_throughput();
        let logarithms = throughputs.map(|throughput| libm::log(throughput.max(least)));
        std::array::from_fn(|cure| logarithms[cure + 1] - logarithms[0])
    }

    /// Returns the keys and values of [`SCENARIO`] that describe the link.
    pub fn keys(&self) -> Vec<(String, String)> {
        let [rate, round_trip, loss, burst, queue, variation, share] = self.values.map(u64::from);
        let hop = round_trip * share / 2000;
        let bytes = (rate * queue / 8000).max(LEAST_QUEUE);
        let key = |key: &str, value: String| (key.to_owned(), value);
        let mut keys = vec![
            key("limit", TimeSpan(self.time()).to_string()),
            key("links.wire.delay", micros(round_trip / 2 - hop)),
            key("links.hop.delay", micros(hop)),
            key("links.hop.rate", format!("{rate} kbps")),
            key("links.hop.queue", format!("{bytes} B")),
            key("links.hop.errors", errors(loss, burst)),
        ];
        if variation > 0 {
            let state = |rate: u64| format!("{{ rate = \"{rate} bps\", mean = \"500 ms\" }}");
            let [high, low] = [1000 + variation, 1000 - variation].map(|factor| state(rate * factor));
            keys.push(key("links.hop.rate_variation", format!("{{ model = \"markov\", states = [{high}, {low}] }}")));
            // As its operator would configure it.
            keys.push(key("base_station.two_ended", "{ rate = \"auto\" }".to_owned()));
        }
        keys
    }
}

fn micros(micros: u64) -> String {
    TimeSpan(Duration::from_nanos(micros * 1000)).to_string()
}

/// Returns the error model of frames lost in runs: losses in millionths of all frames, mean length of a run in hundredths.
fn errors(loss: u64, burst: u64) -> String {
    let share = loss as f64 / 1e6;
    if loss == 0 {
        "{ model = \"none\" }".to_owned()
    } else if burst <= 100 {
        format!("{{ model = \"uniform\", frame_loss = {share:?} }}")
    } else {
        let bad_to_good = 100.0 / burst as f64;
        let good_to_bad = bad_to_good * share / (1.0 - share);
        format!("{{ model = \"two-state-packet\", good_to_bad = {good_to_bad:?}, bad_to_good = {bad_to_good:?} }}")
    }
}

/// Link and its results.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Number of the link.
    pub number: u32,
    /// The link.
    pub link: Link,
    /// Throughput in Mbps under each scheme, in the order of [`NAMES`].
    pub throughputs: [f64; SCHEMES],
}

/// The links of a seed.
#[derive(Clone, Debug)]
pub struct Links {
    seed: u64,
    sequence: Sequence,
    scenario: Scenario,
}

impl Links {
    /// Returns the links of a seed.
    ///
    /// # Errors
    ///
    /// Returns an error if the ready-made scenario is invalid.
    pub fn new(seed: u64) -> Result<Self, Error> {
        Ok(Self { seed, sequence: Sequence::new(seed), scenario: Scenario::builtin(SCENARIO)? })
    }

    /// Returns the seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a link by its number.
    pub fn link(&self, number: u32) -> Link {
        Link::at(self.sequence.point(number))
    }

    /// Returns the scenario of a link.
    ///
    /// # Errors
    ///
    /// Returns an error if the scenario is invalid.
    pub fn scenario(&self, number: u32) -> Result<Scenario, Error> {
        self.scenario.with_overrides(&self.link(number).keys())
    }

    /// Returns the runs of a link, one for each scheme. All of them meet the same errors and changes of the rate; those
    /// of other links meet others.
    ///
    /// # Errors
    ///
    /// Returns an error if the scenario is invalid.
    pub fn tasks(&self, number: u32) -> Result<Vec<Task>, Error> {
        let scenario = self.scenario(number)?;
        let schemes = NAMES.into_iter().filter_map(Scheme::by_name);
        let task = |scheme| Ok(Task { runs: number..number + 1, ..Task::new(&scenario, scheme, self.seed, 1)? });
        schemes.map(task).collect()
    }

    /// Runs the links of these numbers on `jobs` threads (0: one per core), until `progress` stops it. Returns their
    /// rows in order; without gaps, but fewer if it was stopped.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario is invalid or a run holds too many frames.
    pub fn measure(&self, numbers: Range<u32>, jobs: usize, progress: &dyn Progress) -> Result<Vec<Row>, SweepError> {
        let mut rows = Vec::with_capacity(numbers.len());
        let batches = numbers.clone().step_by(BATCH as usize).map(|first| first..(first + BATCH).min(numbers.end));
        for batch in batches {
            if progress.stopped() {
                break;
            }
            let tasks: Vec<Vec<Task>> = batch.clone().map(|number| self.tasks(number)).collect::<Result<_, _>>()?;
            let tasks = tasks.concat();
            let mut values = Vec::with_capacity(tasks.len());
            run_each(&tasks, jobs, progress, |at, report| {
                values.push(throughput(&tasks[at].network, &report));
                Ok::<(), SweepError>(())
            })?;
            let (whole, _) = values.as_chunks::<SCHEMES>();
            let row = |(number, throughputs): (u32, &[f64; SCHEMES])| Row {
                number,
                link: self.link(number),
                throughputs: *throughputs,
            };
            rows.extend(batch.zip(whole).map(row));
        }
        Ok(rows)
    }
}

/// Number of links whose networks are built together.
const BATCH: u32 = 16;

#[cfg(test)]
mod tests {
    use lasthop_proto::channel::ErrorSpec;

    use super::*;
    use crate::replicate::Silent;

    fn link(values: [u32; DIMENSIONS_COUNT]) -> Link {
        Link { values }
    }

    /// 10 Mbps, 80 ms, 2 % in bursts of 4, 100 ms of queue, a rate of ±50 %, a quarter of the round trip on the hop.
    const LINK: Link = Link { values: [10_000, 80_000, 20_000, 400, 100_000, 500, 250] };

    #[test]
    fn a_link_becomes_the_network_that_it_describes() {
        let scenario = Scenario::builtin(SCENARIO).unwrap().with_overrides(&LINK.keys()).unwrap();
        let network = scenario.network(Scheme::by_name("E2E-CUBIC").unwrap()).unwrap();
        let [wire, hop] = [&network.links[0], &network.links[1]];
        assert_eq!([wire.delay, hop.delay], [Duration::from_millis(30), Duration::from_millis(10)]);
        for direction in &hop.directions {
            assert_eq!(direction.rate.0, 10_000_000);
            assert_eq!(direction.queue.limit(), lasthop_proto::queue::QueueLimit::Bytes(125_000));
            assert!((direction.impairments.rate.variation().unwrap() - 0.5).abs() < 1e-9);
            assert!((direction.impairments.rate.mean().unwrap() - 1e7).abs() < 1.0);
            let ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, .. } = direction.errors
            else {
                panic!("{:?}", direction.errors)
            };
            assert_eq!((bad_to_good, good_loss, bad_loss), (0.25, 0.0, 1.0));
            assert!((good_to_bad / (good_to_bad + bad_to_good) - 0.02).abs() < 1e-12);
        }
        // 20 round trips of 80 ms, and 4 s.
        assert_eq!(network.limit.as_nanos(), 5_600_000_000);
    }

    /// 400 packets of 1500 bytes take 16 s at 300 kbps.
    #[test]
    fn slow_links_have_time_for_enough_packets() {
        let slow = link([300, 100_000, 0, 100, 10_000, 0, 500]);
        assert_eq!(slow.time(), Duration::from_secs(18));
        assert!((slow.least_throughput() - 1448.0 * 8.0 / 18.0 / 1e6).abs() < 1e-12);
        let keys = slow.keys();
        assert!(keys.contains(&("links.hop.queue".to_owned(), "3000 B".to_owned())), "{keys:?}");
        assert!(keys.contains(&("links.hop.errors".to_owned(), "{ model = \"none\" }".to_owned())), "{keys:?}");
    }

    /// A cure that delivers twice as much gains log 2; a download that delivers nothing counts as one segment.
    #[test]
    fn gains_are_logarithms_of_ratios() {
        let gains = LINK.gains(&[1.0, 2.0, 1.0, 0.5, 0.0]);
        let least = LINK.least_throughput();
        let expected = [2f64.ln(), 0.0, -(2f64.ln()), least.ln()];
        assert!(gains.iter().zip(expected).all(|(gain, expected)| (gain - expected).abs() < 1e-12), "{gains:?}");
        assert_eq!(LINK.gains(&[0.0; SCHEMES]), [0.0; SCHEMES - 1]);
    }

    /// Link, schemes and errors depend only on seed and number, not on threads or on which other links are computed.
    #[test]
    fn rows_depend_on_the_links_number_alone() {
        let links = Links::new(1).unwrap();
        let whole = links.measure(0..20, 2, &Silent).unwrap();
        assert_eq!(whole.iter().map(|row| row.number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(links.measure(17..20, 1, &Silent).unwrap(), whole[17..]);
        assert_ne!(Links::new(2).unwrap().measure(0..1, 1, &Silent).unwrap(), whole[..1]);
        // Throughput never exceeds the rate of the hop, which may double while it varies.
        for row in &whole {
            let most = 2.0 * f64::from(row.link.values[0]) / 1000.0;
            assert!(row.throughputs.iter().all(|throughput| (0.0..most).contains(throughput)), "{row:?}");
        }
    }

    #[test]
    fn a_stop_leaves_whole_rows() {
        struct After(std::sync::atomic::AtomicU32);
        impl Progress for After {
            fn run_done(&self) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            fn stopped(&self) -> bool {
                self.0.load(std::sync::atomic::Ordering::Relaxed) >= 8
            }
        }
        let links = Links::new(1).unwrap();
        let part = links.measure(0..20, 1, &After(0.into())).unwrap();
        assert_eq!(part, links.measure(0..1, 1, &Silent).unwrap());
    }
}
