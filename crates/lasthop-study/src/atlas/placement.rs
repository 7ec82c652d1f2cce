//! Place of a link in the atlas: the region of similar links, and the cure that won there.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::queue::{QueueLimit, QueueSpec};
use lasthop_proto::time::Duration;
use lasthop_sim::network::{DirectionSpec, LinkSpec, Medium, Network};
use serde_json::{Value, json};

use super::dimensions::{BURST, DIMENSIONS, DIMENSIONS_COUNT, LOSS, QUEUE, ROUND_TRIP, SHARE, Selection, VARIATION};
use super::links::NAMES;
use super::map::Map;
use super::moments::{LEAST_LINKS, Moments, Verdict};

/// Bytes of a full packet.
const PACKET: f64 = 1500.0;

/// Number of links that a region has if possible.
const ENOUGH: u64 = 30;

/// Dimensions in the order in which a region with fewer links is extended to all of their values: first those that
/// matter least to the choice of a cure.
const WIDENED: [usize; 5] = [SHARE, QUEUE, BURST, VARIATION, ROUND_TRIP];

/// Factor by which the uplink may differ from the downlink before that is stated.
const ALIKE: f64 = 2.0;

/// Place of a link in the atlas.
#[derive(Clone, PartialEq, Debug)]
pub enum Placement {
    /// The link lies inside the ranges.
    Inside(Box<Region>),
    /// The link lies outside, for these reasons, a clause each.
    Outside(Vec<String>),
}

/// Similar links.
#[derive(Clone, PartialEq, Debug)]
pub struct Region {
    /// Bins of the similar links.
    pub selection: Selection,
    /// Results of the similar links.
    pub moments: Moments,
    /// Number of links in the atlas.
    pub atlas_links: u64,
    /// Properties of the link that those of the atlas lack, a clause each.
    pub differences: Vec<String>,
}

impl Placement {
    /// Places the hop of the first transfer in `network` on `map`. The hop is the only lossy link on the transfer's way,
    /// or the slowest one if none is lossy.
    pub fn of(network: &Network, map: &Map) -> Self {
        match measured(network) {
            Ok((values, differences)) => Self::at(&values, differences, map),
            Err(reason) => Self::Outside(vec![reason]),
        }
    }

    /// Places a link with these values of [`DIMENSIONS`].
    fn at(values: &[f64; DIMENSIONS_COUNT], differences: Vec<String>, map: &Map) -> Self {
        let mut selection = [None; DIMENSIONS_COUNT];
        let mut outside = Vec::new();
        for ((bin, dimension), value) in selection.iter_mut().zip(&DIMENSIONS).zip(values) {
            *bin = dimension.bin(*value);
            if bin.is_none() {
                let (name, range) = (dimension.label.to_lowercase(), dimension.range_words());
                outside.push(format!("{name} {} (the atlas has {range})", dimension.words(*value)));
            }
        }
        if !outside.is_empty() {
            return Self::Outside(outside);
        }
        // Without losses, their bursts have no meaning.
        if selection[LOSS] == Some(0) {
            selection[BURST] = None;
        }
        let mut moments = map.region(&selection);
        for dimension in WIDENED {
            if moments.links() >= ENOUGH {
                break;
            }
            selection[dimension] = None;
            moments = map.region(&selection);
        }
        Self::Inside(Box::new(Region { selection, moments, atlas_links: map.head.links, differences }))
    }

    /// Returns the place in a sentence or two.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Outside(reasons) => vec![format!("Atlas: this link lies outside of it: {}.", reasons.join("; "))],
            Self::Inside(region) => {
                let differences = (!region.differences.is_empty())
                    .then(|| format!("The links of the atlas differ in: {}.", region.differences.join("; ")));
                [format!("Atlas: {}.", region.words())].into_iter().chain(differences).collect()
            }
        }
    }

    /// Returns the place as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Outside(reasons) => json!({ "inside": false, "outside": reasons }),
            Self::Inside(region) => region.to_json(),
        }
    }
}

impl Region {
    /// Returns the bins in words: `rate 1 to 3 Mbps, loss 1 to 3 %`.
    pub fn bounds(&self) -> String {
        let bounds = self.selection.iter().zip(&DIMENSIONS).filter_map(|(bin, dimension)| {
            bin.map(|bin| format!("{} {}", dimension.label.to_lowercase(), dimension.bin_words(bin)))
        });
        bounds.collect::<Vec<_>>().join(", ")
    }

    fn words(&self) -> String {
        let Self { moments, atlas_links, .. } = self;
        let links = moments.links();
        let of = format!("on {links} of its {atlas_links} links, with {},", self.bounds());
        let won = |scheme: usize| format!("best on {} of them", moments.won[scheme]);
        match moments.verdict() {
            Verdict::Nothing => format!("{of} no cure helped a download"),
            Verdict::Wins(cure) => {
                let gain = moments.gain(cure).map(|(gain, [low, high])| {
                    format!(" {:.2} times the throughput ({:.2} to {:.2}),", gain, low, high)
                });
                let gain = gain.unwrap_or_default();
                format!("{of} {} won for a download,{gain} {}", NAMES[cure], won(cure))
            }
            Verdict::Unknown(_) if links < LEAST_LINKS => {
                format!("{of} too few for a verdict; it needs {LEAST_LINKS}")
            }
            Verdict::Unknown(cures) if cures.is_empty() => {
                format!("{of} it is unknown whether a cure helped a download; none was best on {}", moments.won[0])
            }
            Verdict::Unknown(cures) => {
                let each = cures.iter().map(|cure| format!("{} ({})", NAMES[*cure], won(*cure)));
                format!(
                    "{of} a cure helped a download, but it is unknown which: {}",
                    each.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }

    fn to_json(&self) -> Value {
        let bins = self.selection.iter().zip(&DIMENSIONS);
        let region =
            bins.map(|(bin, dimension)| (dimension.id.to_owned(), json!(bin.map(|bin| dimension.bin_words(bin)))));
        let bins =
            self.selection.iter().zip(&DIMENSIONS).filter_map(|(bin, dimension)| bin.map(|bin| (dimension.id, bin)));
        json!({
            "inside": true,
            "region": Value::Object(region.collect()),
            "atlas_links": self.atlas_links,
            "differences": self.differences,
            "address": bins.map(|(id, bin)| format!("{id}={bin}")).collect::<Vec<_>>().join("&"),
            "results": self.moments.to_json(),
        })
    }
}

impl Moments {
    /// Returns the results as JSON: `links`, `verdict` (`wins`, `nothing` or `unknown`), `cure` and its `gain`,
    /// `candidates`, and for each scheme the number of links that it `won`.
    pub fn to_json(&self) -> Value {
        let gain = |cure: usize| self.gain(cure).map(|(mean, interval)| json!({ "mean": mean, "interval": interval }));
        let (verdict, cure, candidates) = match self.verdict() {
            Verdict::Wins(cure) => ("wins", Some(cure), Vec::new()),
            Verdict::Nothing => ("nothing", None, Vec::new()),
            Verdict::Unknown(cures) => ("unknown", None, cures),
        };
        let schemes = NAMES.into_iter().zip(self.won).enumerate();
        let results = schemes.map(|(at, (name, won))| json!({ "scheme": name, "won": won, "gain": gain(at) }));
        json!({
            "links": self.links(),
            "verdict": verdict,
            "cure": cure.map(|cure| NAMES[cure]),
            "gain": cure.and_then(gain),
            "candidates": candidates.into_iter().map(|cure| NAMES[cure]).collect::<Vec<_>>(),
            "schemes": results.collect::<Vec<_>>(),
        })
    }
}

/// Returns the values of the dimensions of a network's hop, and the properties that the links of the atlas lack.
///
/// # Errors
///
/// Returns the reason, a clause, if the dimensions do not describe the hop.
fn measured(network: &Network) -> Result<([f64; DIMENSIONS_COUNT], Vec<String>), String> {
    let flow = network.flows.iter().find(|flow| flow.app.is_transfer()).ok_or("it has no transfer")?;
    if network.mobility.is_some() {
        return Err("its host moves among base stations".to_owned());
    }
    let way = network.way(flow.from, flow.to);
    let links = || way.iter().map(|(link, way)| (&network.links[link.0], *way));
    if let Some((link, _)) = links().find(|(link, _)| link.medium.chooses_rates()) {
        let what = if matches!(link.medium, Medium::Wifi { .. }) { "Wi-Fi" } else { "in a cell" };
        return Err(format!("link {} is {what}, where the medium chooses rates and retransmits", link.name));
    }
    let is_lossy = |link: &LinkSpec| link.directions.iter().any(|direction| direction.errors != ErrorSpec::None);
    let lossy: Vec<_> = links().filter(|(link, _)| is_lossy(link)).collect();
    let (hop, way) = match lossy[..] {
        [one] => one,
        [] => links().min_by_key(|(link, way)| link.directions[*way].rate.0).ok_or("it has no path")?,
        _ => return Err("several links on its path lose frames".to_owned()),
    };
    let (down, up) = (&hop.directions[way], &hop.directions[1 - way]);
    let rate = rate(hop, down)?;
    if let Some((slower, _)) =
        links().find(|(link, way)| link.name != hop.name && (link.directions[*way].rate.0 as f64) < rate)
    {
        return Err(format!("link {} is slower than the lossy one", slower.name));
    }
    let total: Duration = links().fold(Duration::ZERO, |sum, (link, _)| sum + link.delay);
    let share = if total > Duration::ZERO { hop.delay.as_secs_f64() / total.as_secs_f64() } else { 0.0 };
    let (loss, burst) = losses(&down.errors)?;
    let queue = match down.queue {
        QueueSpec::Fifo(QueueLimit::Bytes(bytes)) => bytes as f64,
        QueueSpec::Fifo(QueueLimit::Packets(packets)) => f64::from(packets) * PACKET,
        _ => return Err("its queue is managed, those of the atlas are drop-tail".to_owned()),
    };
    let variation = down.impairments.rate.variation().ok_or("the variation of its rate has another form")?;
    let values = [
        rate / 1e3,
        total.as_secs_f64() * 2e6,
        loss * 1e6,
        burst * 100.0,
        queue * 8.0 / rate * 1e6,
        variation * 1000.0,
        share * 1000.0,
    ];
    // Without the noise of floating-point numbers at the limits of bins.
    Ok((values.map(libm::round), differences(hop, down, up, loss)))
}

/// Returns the rate at which a direction sends full packets on average, in bits per second.
fn rate(hop: &LinkSpec, way: &DirectionSpec) -> Result<f64, String> {
    let rate = way.impairments.rate.mean().unwrap_or(way.rate.0 as f64);
    match hop.medium {
        Medium::Duplex => Ok(rate),
        Medium::HalfDuplex { frame_overhead, .. } => {
            Ok(PACKET * 8.0 / (PACKET * 8.0 / rate + frame_overhead.as_secs_f64()))
        }
        Medium::Shared { .. } | Medium::Wifi { .. } | Medium::Cell { .. } => {
            Err("its channel is shared with other links".to_owned())
        }
    }
}

/// Returns share and mean run length of lost full packets.
fn losses(errors: &ErrorSpec) -> Result<(f64, f64), String> {
    // Independent losses with this share: the run ends at the first packet that arrives.
    let independent = |share: f64| (share, 1.0 / (1.0 - share).max(1e-9));
    let hit = |mean_bytes: f64| 1.0 - libm::exp(-PACKET / mean_bytes);
    match errors {
        ErrorSpec::None => Ok((0.0, 1.0)),
        ErrorSpec::Uniform { frame_loss, .. } => Ok(independent(*frame_loss)),
        ErrorSpec::Exponential { mean_bytes, .. } => Ok(independent(hit(*mean_bytes))),
        ErrorSpec::Burst { mean_bytes, packets, .. } => {
            let (length, begins) = (f64::from(*packets), hit(*mean_bytes));
            Ok((length / (length + (1.0 - begins) / begins), length))
        }
        ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, .. } => {
            Ok(two_states([*good_to_bad, *bad_to_good], [*good_loss, *bad_loss]))
        }
        ErrorSpec::Replay { trace, .. } => {
            let lost = trace.iter().filter(|lost| **lost).count();
            let runs =
                trace.iter().zip([&false].into_iter().chain(trace.iter())).filter(|(now, before)| **now && !**before);
            Ok((lost as f64 / trace.len().max(1) as f64, lost as f64 / runs.count().max(1) as f64))
        }
        ErrorSpec::TwoStateTime { .. } => {
            Err("its losses come in periods of time, those of the atlas in runs of frames".to_owned())
        }
        ErrorSpec::Trace(_) => Err("its losses follow a trace in time".to_owned()),
        ErrorSpec::List(_) | ErrorSpec::Script(_) => Err("its losses are listed one by one".to_owned()),
        ErrorSpec::Whole(_) => Err("it loses super-segments as a whole".to_owned()),
    }
}

/// Returns share and mean run length of losses of a chain with two states, good and bad, which may change after every
/// frame.
fn two_states([to_bad, to_good]: [f64; 2], [good_loss, bad_loss]: [f64; 2]) -> (f64, f64) {
    let bad = to_bad / (to_bad + to_good).max(f64::MIN_POSITIVE);
    let share = bad * bad_loss + (1.0 - bad) * good_loss;
    // Probability that the frame after a lost one is lost, too.
    let next = |bad_now: f64| {
        let bad_next = bad_now * (1.0 - to_good) + (1.0 - bad_now) * to_bad;
        bad_next * bad_loss + (1.0 - bad_next) * good_loss
    };
    let again = if share > 0.0 { next(bad * bad_loss / share) } else { 0.0 };
    (share, 1.0 / (1.0 - again).max(1e-9))
}

/// Returns the properties of a hop that the links of the atlas lack, a clause each.
fn differences(hop: &LinkSpec, down: &DirectionSpec, up: &DirectionSpec, loss: f64) -> Vec<String> {
    let mut differences = Vec::new();
    let mut state = |is: bool, what: &str| differences.extend(is.then(|| what.to_owned()));
    let unlike = |one: f64, other: f64| one > other * ALIKE || other > one * ALIKE;
    state(matches!(hop.medium, Medium::HalfDuplex { .. }), "both directions take turns");
    state(unlike(down.rate.0 as f64, up.rate.0 as f64), "the uplink has another rate");
    state(losses(&up.errors).map_or(true, |(up, _)| unlike(loss, up)), "the uplink has other losses");
    let either = |has: fn(&DirectionSpec) -> bool| has(down) || has(up);
    state(either(|way| way.variation.varies()), "its delay varies");
    state(either(|way| way.impairments.policer.is_some()), "a policer drops packets");
    state(either(|way| way.impairments.shaper.is_some()), "a shaper delays packets");
    state(either(|way| way.impairments.aggregation.is_some()), "it sends aggregates");
    state(either(|way| way.impairments.duplicates > 0.0), "it duplicates frames");
    differences
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::Scheme;
    use lasthop_scenario::Scenario;

    use super::super::links::{Link, SCENARIO, SCHEMES};
    use super::*;

    fn network(scenario: &str, set: &[(&str, &str)]) -> Network {
        let scenario = Scenario::builtin(scenario).unwrap().with_overrides(set).unwrap();
        scenario.network(Scheme::by_name("E2E-CUBIC").unwrap()).unwrap()
    }

    /// Every link of the atlas is measured as what it is.
    #[test]
    fn a_link_of_the_atlas_has_its_own_values() {
        let base = Scenario::builtin(SCENARIO).unwrap();
        for number in 0..200 {
            let link = Link::at(super::super::sequence::Sequence::new(1).point(number));
            let scenario = base.with_overrides(&link.keys()).unwrap();
            let network = scenario.network(Scheme::by_name("E2E-CUBIC").unwrap()).unwrap();
            let (values, differences) = measured(&network).unwrap();
            assert_eq!(differences, Vec::<String>::new());
            let [rate, .., queue, _, _] = link.values.map(f64::from);
            for (at, (value, expected)) in values.iter().zip(link.values.map(f64::from)).enumerate() {
                let unknown = at == BURST && link.values[LOSS] == 0;
                // Short queues have two packets; delays are whole microseconds, queues whole bytes.
                let short = at == QUEUE && rate * queue / 8000.0 < 3001.0;
                let near = (value - expected).abs() <= 2.0 + expected / 500.0;
                assert!(near || unknown || short, "{}: {value}, not {expected}: {link:?}", DIMENSIONS[at].id);
            }
        }
    }

    /// A packet of 1500 bytes takes 600 us at 20 Mbps, and 100 us of overhead: 17.1 Mbps.
    #[test]
    fn other_links_have_the_values_of_their_models() {
        let (values, differences) = measured(&network("farm-radio", &[])).unwrap();
        assert_eq!(values[..3], [17_143.0, 80_100.0, 10_000.0]);
        assert_eq!((values[3], values[4]), (101.0, 70_000.0));
        assert_eq!(differences, ["both directions take turns"]);
        let errors = |model: &str| {
            let network = network("atlas-link", &[("links.hop.errors", model)]);
            measured(&network).map(|(values, _)| [values[LOSS], values[BURST]])
        };
        // A quarter of the frames in the bad state, of which half are lost: 1/8. The next frame is in the bad state with
        // 0.7 and lost with 0.35.
        let chain = "{ model = \"two-state-packet\", good_to_bad = 0.1, bad_to_good = 0.3, bad_loss = 0.5 }";
        assert_eq!(errors(chain), Ok([125_000.0, 154.0]));
        assert_eq!(errors("{ model = \"replay\", runs = [8, 3, 5, 1, 3] }"), Ok([200_000.0, 200.0]));
        let burst = errors("{ model = \"burst\", mean_bytes = \"1500 KB\", packets = 4 }").unwrap();
        assert!((burst[0] - 3900.0).abs() < 50.0 && burst[1] == 400.0, "{burst:?}");
        let timed = errors("{ model = \"two-state\", good = \"1 s\", bad = \"10 ms\", good_ber = 0.0, bad_ber = 0.1 }");
        assert!(timed.unwrap_err().starts_with("its losses come in periods of time"));
    }

    #[test]
    fn what_the_atlas_lacks_is_outside_with_a_reason() {
        let map = Map::new(1, "test");
        let outside = |network: &Network| match Placement::of(network, &map) {
            Placement::Outside(reasons) => reasons.join("; "),
            inside => panic!("{inside:?}"),
        };
        assert_eq!(
            outside(&network("home-wifi-1", &[])),
            "link wifi is Wi-Fi, where the medium chooses rates and retransmits"
        );
        assert!(outside(&network("train-lte", &[])).starts_with("link lte is in a cell"));
        let codel = [("links.hop.queue", "{ kind = \"codel\" }")];
        assert_eq!(outside(&network("atlas-link", &codel)), "its queue is managed, those of the atlas are drop-tail");
        let far = [("links.wire.delay", "1 s"), ("links.hop.rate", "100 kbps")];
        assert_eq!(
            outside(&network("atlas-link", &far)),
            "rate 0.1 Mbps (the atlas has 0.3 to 300 Mbps); round trip 2040 ms (the atlas has 5 to 700 ms); \
             queue 8000 ms (the atlas has 10 to 640 ms)"
        );
        let two = [("links.wire.errors", "{ model = \"uniform\", frame_loss = 0.01 }")];
        assert_eq!(outside(&network("atlas-link", &two)), "several links on its path lose frames");
    }

    /// A region with few links extends to all shares of the hop, then to all queues, and so on, but never to other rates.
    #[test]
    fn a_region_is_as_small_as_its_links_permit() {
        let sequence = super::super::sequence::Sequence::new(1);
        let mut map = Map::new(1, "test");
        let region = |map: &Map| match Placement::of(&network("atlas-link", &[]), map) {
            Placement::Inside(region) => *region,
            outside => panic!("{outside:?}"),
        };
        let mut last = 0;
        for links in [1000, 40_000] {
            for number in last..links {
                let link = Link::at(sequence.point(number));
                map.add(&link, &[1.0, 1.0, 2.0, 1.5, 1.0]);
            }
            last = links;
            let found = region(&map);
            assert_eq!(found.moments, map.region(&found.selection));
            let fixed = found.selection.map(|bin| bin.is_some());
            let expected = if links == 1000 {
                [true, false, true, false, false, false, false]
            } else {
                [true, true, true, true, false, true, false]
            };
            assert_eq!(fixed, expected, "{links}");
        }
        let said = Placement::Inside(Box::new(region(&map))).words().join(" ");
        assert!(
            said.contains("SNOOP won for a download, 2.00 times the throughput (2.00 to 2.00), best on "),
            "{said}"
        );
        assert_eq!(SCHEMES, 5);
    }
}
