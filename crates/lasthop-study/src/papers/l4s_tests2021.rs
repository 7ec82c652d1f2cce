//! P. Heist, J. Morton: L4S Tests, 2021. Scenario 1: shares of two flows with Prague or CUBIC in a bottleneck's queue.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::records;
use crate::claims::{self, Claimant, show};
use crate::measures::flows::steady_name;
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic, Topics};

/// The study.
pub static L4S_TESTS: Topics = Topics {
    name: "l4s-tests2021",
    title: "L4S tests: two flows with Prague or CUBIC in one queue",
    citation: "P. Heist, J. Morton: L4S Tests. Repository heistp/l4s-tests, August 2021, scenario 1 (RTT fairness).",
    doi: None,
    introduction: &[
        "L4S lets congestion controls such as Prague keep queues below a millisecond, beside flows of today in a queue of their own. \
         The tests ask how two flows share a bottleneck of 50 or 10 Mbps, which has a plain queue (pfifo), L4S's queue (DualPI2) or a \
         queue for each flow (FQ-CoDel), at equal and at different round trips.",
        "lasthop simulates Prague by its draft and CUBIC of Linux 6.18, both with ECN, and the queues by the kernel's formulas. The \
         tests used kernels of 2021, and printed one run. Rates are those of the last of three minutes. The tests' fourth queue, \
         CNQ-CoDel-AF, has no counterpart. A flow's name has its round trip without queues.",
    ],
    topics: &[
        &Queue { id: "pfifo-50", kind: "pfifo", rate: 50 },
        &Queue { id: "pfifo-10", kind: "pfifo", rate: 10 },
        &Queue { id: "dualpi2-50", kind: "dualpi2", rate: 50 },
        &Queue { id: "dualpi2-10", kind: "dualpi2", rate: 10 },
        &Queue { id: "fq-codel-50", kind: "fq_codel", rate: 50 },
        &Queue { id: "fq-codel-10", kind: "fq_codel", rate: 10 },
    ],
};

static BASE: Base = Base::Text("l4s-tests2021.toml", include_str!("../../data/l4s-tests2021.toml"));
const VALUES: &str = include_str!("../../data/l4s-tests2021.csv");

/// Start of the last minute, in seconds.
const STEADY: u64 = 120;

/// Names of the metrics: rates of both flows.
const RATES: [&str; 2] = ["first_flow", "second_flow"];

/// The pairs of flows in a queue.
struct Queue {
    id: &'static str,
    /// Kind of the queue in the published values.
    kind: &'static str,
    /// Rate in Mbps.
    rate: u32,
}

/// A flow: its congestion control, and its round trip in ms.
#[derive(Clone, PartialEq)]
struct Flow {
    congestion: String,
    round_trip: u32,
}

impl Flow {
    fn is_prague(&self) -> bool {
        self.congestion == "prague"
    }
}

/// A pair of flows with its published rates.
struct Pair {
    flows: [Flow; 2],
    rates: [f64; 2],
}

impl Queue {
    fn pairs(&self) -> impl Iterator<Item = Pair> {
        let own = |row: &csv::StringRecord| &row[0] == self.kind && row[1].parse() == Ok(self.rate);
        records(VALUES).filter(own).filter_map(|row| {
            let flow = |at: usize| Some(Flow { congestion: row[at].to_owned(), round_trip: row[at + 1].parse().ok()? });
            Some(Pair { flows: [flow(2)?, flow(4)?], rates: [row[6].parse().ok()?, row[7].parse().ok()?] })
        })
    }

    fn cell(&self, [first, second]: &[Flow; 2]) -> String {
        let name = |flow: &Flow| format!("{}-{}ms", flow.congestion, flow.round_trip);
        format!("{}/{}/{}", self.id, name(first), name(second))
    }

    /// Returns the queue as a scenario's key.
    fn key(&self) -> String {
        match self.kind {
            "pfifo" => format!("\"{} packets\"", 20 * self.rate),
            // The queue of 2021 applies the step to packets that arrive behind two others.
            "dualpi2" => "{ kind = \"dualpi2\", step_queue = 2 }".to_owned(),
            kind => format!("{{ kind = \"{}\" }}", kind.replace('_', "-")),
        }
    }
}

/// Returns a quantity of the two flows' steady rates, estimated over the runs.
fn of_rates(c: &Claimant, cell: &str, quantity: impl Fn([f64; 2]) -> f64) -> Option<Estimate> {
    let names = ["first", "second"].map(|flow| steady_name(flow, STEADY));
    let values = c.results.values_of(cell, names.each_ref().map(String::as_str), |[a, b]| Some(quantity([a?, b?])))?;
    Estimate::of(&values.into_iter().flatten().collect::<Vec<_>>())
}

impl Topic for Queue {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        match (self.kind, self.rate) {
            ("pfifo", 50) => "Rates of two flows in a plain queue of 1000 packets, 50 Mbps",
            ("pfifo", _) => "Rates of two flows in a plain queue of 200 packets, 10 Mbps",
            ("dualpi2", 50) => "Rates of two flows under DualPI2, 50 Mbps",
            ("dualpi2", _) => "Rates of two flows under DualPI2, 10 Mbps",
            (_, 50) => "Rates of two flows under FQ-CoDel, 50 Mbps",
            _ => "Rates of two flows under FQ-CoDel, 10 Mbps",
        }
    }

    fn points(&self) -> Vec<Point> {
        let point = |Pair { flows, rates }: Pair| {
            let [first, second] = &flows;
            let line = match (first.is_prague(), second.is_prague()) {
                (true, true) => "Prague, Prague",
                (true, false) => "Prague, CUBIC",
                (false, true) => "CUBIC, Prague",
                (false, false) => "CUBIC, CUBIC",
            };
            let apart = f64::from(first.round_trip) / f64::from(second.round_trip);
            // The figure shows different round trips.
            let mut point = Point::drawn(self.cell(&flows), BASE, "E2E-CUBIC", (line, apart));
            point.place = point.place.filter(|_| apart > 1.0);
            let mut point = point
                // The shaper counts 14 bytes of Ethernet with each packet of 1500 bytes.
                .with("links.bottleneck.rate", format!("{:.3} Mbps", f64::from(self.rate) * 1500.0 / 1514.0))
                .with("links.bottleneck.queue", self.key());
            let keys = [
                ("links.first.delay", "hosts.first.tcp.congestion"),
                ("links.second.delay", "hosts.second.tcp.congestion"),
            ];
            for ((delay, congestion), flow) in keys.into_iter().zip(&flows) {
                point = point
                    .with(delay, format!("{} ms", f64::from(flow.round_trip) / 2.0))
                    .with(congestion, format!("\"{}\"", flow.congestion));
            }
            let [first, second] = rates;
            point.published(RATES[0], Some(first)).published(RATES[1], Some(second))
        };
        self.pairs().map(point).collect()
    }

    fn steady_from(&self) -> Option<u64> {
        Some(STEADY)
    }

    fn measures(&self) -> &'static [&'static str] {
        &RATES
    }

    fn estimate(&self, point: &Point, measure: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        let flow = if measure == RATES[0] { "first" } else { "second" };
        results.summary(&point.name, &steady_name(flow, STEADY)).map(|summary| (summary.estimate, summary.unit))
    }

    fn reads(&self, part: &str) -> Option<String> {
        let (congestion, round_trip) = part.strip_suffix("ms")?.split_once('-')?;
        let name = if congestion == "prague" { "Prague" } else { "CUBIC" };
        Some(format!("{name} ({round_trip} ms)"))
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("first flow's round trip over the second's", Scale::Log),
            measure: RATES[0],
            y: "first flow's rate (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, &format!("{id}-{}", self.rate), text, gather)
        };
        // Checks the rates of each pair that `wanted` selects; the faster flow should be the one that it returns.
        let faster = |c: &mut Claimant, wanted: &dyn Fn(&[Flow; 2]) -> Option<usize>| {
            for Pair { flows, .. } in self.pairs() {
                let Some(fast) = wanted(&flows) else { continue };
                let cell = self.cell(&flows);
                let ahead = of_rates(c, &cell, |rates| rates[fast] - rates[1 - fast])?;
                let [first, second] = [0, 1].map(|flow| of_rates(c, &cell, |rates| rates[flow]));
                c.judge(&ahead, format!("{cell} {} and {} Mbps", show(&first?), show(&second?)));
            }
            Some(())
        };
        let mixed = |flows: &[Flow; 2]| flows[0].is_prague() != flows[1].is_prague();
        let prague = |flows: &[Flow; 2]| usize::from(flows[1].is_prague());
        let found = match self.kind {
            "pfifo" => vec![claim("a", "In a plain queue, CUBIC beats Prague at all round trips", &|c| {
                faster(c, &|flows| mixed(flows).then(|| 1 - prague(flows)))
            })],
            "dualpi2" => vec![
                claim("b", "Under DualPI2, Prague beats CUBIC at equal round trips", &|c| {
                    faster(c, &|flows| {
                        (mixed(flows) && flows[0].round_trip == flows[1].round_trip).then(|| prague(flows))
                    })
                }),
                claim(
                    "c",
                    "Under DualPI2, of two equal congestion controls the one with the shorter round trip is faster",
                    &|c| faster(c, &|flows| (!mixed(flows) && flows[0].round_trip > flows[1].round_trip).then_some(1)),
                ),
            ],
            _ => vec![claim("d", "Under FQ-CoDel, no flow has more than 1.5 times the rate of the other", &|c| {
                for Pair { flows, .. } in self.pairs() {
                    let cell = self.cell(&flows);
                    let ratio = of_rates(c, &cell, |[first, second]| first / second)?;
                    c.judge_within(&ratio, (1.0 / 1.5, 1.5), format!("{cell} ratio {}", show(&ratio)));
                }
                Some(())
            })],
        };
        found.into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        match self.kind {
            "pfifo" if self.rate == 50 => Some(
                "Misses in the plain queue: Prague, which behaves as Reno there, has less beside CUBIC here. Its growth after a loss \
                 in the kernel of 2021 differs from the draft's. Single runs of either side depend on which flow loses when the \
                 queue first overflows.",
            ),
            "dualpi2" if self.rate == 10 => Some(
                "Misses under DualPI2 at 10 Mbps: a packet takes 1.2 ms, more than the step of 1 ms from which all packets of the L4S \
                 queue are marked. The queue of 2021 spares packets that arrive behind fewer than two others, and so does the simulated \
                 one here (step_queue = 2). Prague of 80 ms beside CUBIC of 80 ms starves nevertheless, and Prague's shares depend less \
                 on the round trip than in 2021.",
            ),
            "dualpi2" => Some(
                "Misses under DualPI2 at 50 Mbps: at round trips of 10 ms, Prague's share beside CUBIC is smaller here. The drafts \
                 that lasthop follows are newer than the kernel of the tests.",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_pair_is_a_cell_with_two_values() {
        let points: Vec<Point> = L4S_TESTS.topics.iter().flat_map(|topic| topic.points()).collect();
        assert_eq!(points.len(), 144);
        assert!(points.iter().all(|point| point.published.len() == 2));
        let point = points.iter().find(|point| point.name == "dualpi2-50/cubic-160ms/prague-10ms").unwrap();
        assert_eq!(point.published, [("first_flow", 4.87), ("second_flow", 41.67)]);
        let set = |key: &str| point.set.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value);
        assert_eq!(set("links.bottleneck.rate"), Some("49.538 Mbps"));
        assert_eq!((set("links.first.delay"), set("links.second.delay")), (Some("80 ms"), Some("5 ms")));
        assert_eq!(set("hosts.second.tcp.congestion"), Some("\"prague\""));
    }
}
